//! A blocking storage as an asynchronous store: what its calls keep alive, and for whom they act.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use storage::{
    Answer, BlockingStore, CommitFacts, Effect, Fault, Faulty, FindOwner, Held, Latch, Memory, Operation, Owner, Store,
    UploadOptions,
};
use types::{Error, ErrorCode, Phase, Side};

use crate::support::{code, path};

/// Upper limit for each wait, after which the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Fails the first time.
#[derive(Default)]
struct Asked(AtomicUsize);

impl FindOwner for Asked {
    fn find(&self) -> Answer<'_, Owner> {
        let is_first = self.0.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move {
            match is_first {
                true => Err(Error::new(ErrorCode::UsersUnavailable, Side::Active, Phase::Authorize)),
                false => Ok(Owner::default()),
            }
        })
    }
}

#[tokio::test]
async fn an_owner_is_looked_up_again_after_a_failure_and_then_kept() {
    let store = BlockingStore::new(Arc::new(Memory::new(1 << 20)));
    let owner = Arc::new(Asked::default());
    let acting = store.acting_for(Some(owner.clone()));
    assert_eq!(owner.0.load(Ordering::Relaxed), 0, "not before the first call");
    assert_eq!(code(acting.stat(&path("/")).await), Some(ErrorCode::UsersUnavailable));
    for _ in 0..2 {
        acting.stat(&path("/")).await.unwrap();
        assert_eq!(owner.0.load(Ordering::Relaxed), 2);
    }
    acting.acting_for(None).stat(&path("/")).await.unwrap();
}

#[tokio::test]
async fn what_is_held_ends_with_the_work_and_not_with_the_future() {
    let latch = Latch::default();
    let hold = Fault {
        operation: Operation::Commit,
        nth: 0,
        effect: Effect::Hold(latch.clone()),
    };
    let store = BlockingStore::new(Arc::new(Faulty::new(Memory::new(1 << 20), vec![hold])));
    let held: Held = Arc::new(());
    let left = Arc::downgrade(&held);
    let upload = store.create(&path("/f"), &UploadOptions::default()).await.unwrap();
    let committing = tokio::spawn(async move { upload.commit(CommitFacts::default(), Some(held)).await });
    let wait = async {
        while latch.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        committing.abort();
        assert!(committing.await.is_err());
        assert_eq!(left.strong_count(), 1, "the commit continues");
        latch.open();
        while left.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        store.stat(&path("/f")).await.unwrap();
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
}
