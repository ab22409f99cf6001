//! Other calls proceed, however many uploads wait to become durable.

use std::sync::Arc;
use std::time::Duration;

use endpoint::Store;
use storage::{CommitFacts, Effect, Fault, Faulty, Latch, Memory, Operation, UploadOptions};
use types::LogicalPath;

/// More than there are threads for commits.
const UPLOADS: usize = 300;
/// Upper limit for each wait, after which the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

async fn upload(store: &Store, name: &str) -> types::Result<()> {
    let upload = store.create(&path(name), &UploadOptions::default()).await?;
    store.commit(&upload, CommitFacts::default()).await.map(drop)
}

async fn checks(store: &Store, latch: &Latch) {
    let mut uploads = tokio::task::JoinSet::new();
    for number in 0..UPLOADS {
        let store = store.clone();
        uploads.spawn(async move { upload(&store, &format!("/f{number}")).await.unwrap() });
    }
    while latch.waiting() == 0 || uploads.len() < UPLOADS {
        tokio::task::yield_now().await;
    }
    store.make_directory(&path("/d"), false).await.unwrap();
    // These run in the blocking pool: always, or while the storage is slow.
    store.remove(&path("/d")).await.unwrap();
    store.stat(&path("/")).await.unwrap();
    latch.open();
    assert_eq!(uploads.join_all().await.len(), UPLOADS);
    store.stat(&path("/f299")).await.unwrap();
}

#[test]
fn names_are_looked_up_and_removed_while_hundreds_of_commits_wait() {
    let latch = Latch::default();
    let held = Fault {
        operation: Operation::Commit,
        nth: 0,
        effect: Effect::Hold(latch.clone()),
    };
    let store = Store::new(Arc::new(Faulty::new(Memory::new(1 << 20), vec![held])));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let done = runtime.block_on(async { tokio::time::timeout(PATIENCE, checks(&store, &latch)).await });
    latch.open();
    done.expect("it hangs");
}
