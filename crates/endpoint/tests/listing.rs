//! A long listing yields to other tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use endpoint::Store;
use storage::{Memory, UploadOptions};
use types::LogicalPath;
use types::limits::LISTING_BATCH_ENTRIES;

#[tokio::test(flavor = "current_thread")]
async fn other_tasks_run_between_the_batches_of_a_long_listing() {
    let store = Store::new(Arc::new(Memory::new(1 << 20)));
    let names = 3 * LISTING_BATCH_ENTRIES;
    for number in 0..names {
        let path = LogicalPath::parse(&format!("/f{number}")).unwrap();
        let upload = store.create(&path, &UploadOptions::default()).await.unwrap();
        store.commit(&upload, storage::CommitFacts::default()).await.unwrap();
    }
    let had_turn = Arc::new(AtomicBool::new(false));
    let mut pages = store.list(&LogicalPath::root()).await.unwrap();
    let turn = had_turn.clone();
    let other = tokio::spawn(async move { turn.store(true, Ordering::Relaxed) });
    let mut seen = 0;
    loop {
        let page = pages.next().await.unwrap();
        if page.is_empty() {
            break;
        }
        seen += page.len();
    }
    assert_eq!(seen, names);
    assert!(had_turn.load(Ordering::Relaxed), "no other task ran");
    other.await.unwrap();
}
