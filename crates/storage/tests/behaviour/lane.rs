//! A slow store runs on the pool, and returns when it is fast again.

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use execution::Lane;
use storage::{Effect, Fault, Faulty, Memory, Operation, Overwrite, Storage};

use crate::support::{path, put};

const SLOW_CALLS: u64 = 4;
/// Far more calls than a store stays on the pool after so few slow ones.
const CALLS_MAX: u64 = 100_000;

async fn open(lane: &Lane, store: &Arc<dyn Storage>) -> ThreadId {
    let store = Arc::clone(store);
    let call = move || {
        store.open(&path("/f"))?;
        Ok(std::thread::current().id())
    };
    lane.run(call).await.unwrap()
}

#[tokio::test]
async fn a_slow_store_moves_to_the_pool_and_comes_back() {
    let slow = |nth| Fault {
        operation: Operation::Open,
        nth,
        effect: Effect::Delay(Duration::from_millis(20)),
    };
    let store = Faulty::new(Memory::new(1 << 20), (1..=SLOW_CALLS).map(slow).collect());
    put(&store, "/f", b"12", Overwrite::Allow).unwrap();
    let store: Arc<dyn Storage> = Arc::new(store);
    let (lane, here) = (Lane::new(), std::thread::current().id());
    assert_eq!(
        open(&lane, &store).await,
        here,
        "the first call may be slow by accident"
    );
    assert!(!lane.is_detoured());
    assert_eq!(open(&lane, &store).await, here, "the second finds out");
    assert!(lane.is_detoured());
    for _ in 2..SLOW_CALLS {
        assert_ne!(open(&lane, &store).await, here, "the next ones do not hold the task");
    }
    assert!(lane.slow_calls() >= SLOW_CALLS - 1);
    let mut calls = 0;
    while lane.is_detoured() {
        assert_ne!(open(&lane, &store).await, here);
        calls += 1;
        assert!(calls < CALLS_MAX, "it never returns");
    }
    assert!(calls > 1, "one fast call alone does not suffice");
    assert_eq!(open(&lane, &store).await, here);
}
