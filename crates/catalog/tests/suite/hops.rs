//! A file that goes by a hop: the queues on its way, and what it leaves there.

use catalog::{
    Advance, Catalog, CopyFacts, Ended, Ending, FileRecord, Grant, Hop, HopFile, HopPart, Outcome, QueueKey,
};
use schedule::{FileEvent, FileId, FileState, JobState};

use crate::place::{A, B, NOW, Place, for_each_database, plain_job, queue};

const HOP: &str = "https://hop.example:443";
const URL: &str = "https://hop.example:443/hop/1";

fn hop(part: HopPart) -> Hop {
    let file = HopFile {
        url: URL.to_owned(),
        storage: HOP.to_owned(),
    };
    Hop {
        part,
        incoming: file.clone(),
        outgoing: file,
        source_storage: A.to_owned(),
        destination_storage: B.to_owned(),
        checksum: None,
        size_bytes: None,
        losses: 0,
        destination_interrupted: false,
        given_up_for: None,
    }
}

fn between(source: &str, destination: &str) -> QueueKey {
    QueueKey {
        source: source.to_owned(),
        destination: destination.to_owned(),
        ..queue()
    }
}

/// A worker claims a file of a queue and starts it; `None`: there is none.
async fn start(catalog: &Catalog, queue: QueueKey) -> Option<FileRecord> {
    let grant = Grant {
        queue,
        priority: 3,
        count: 1,
    };
    let claimed = catalog.claim(&[grant], "w", NOW, NOW + 1000).await.unwrap().pop()?;
    let id = claimed.file.id;
    assert_eq!(catalog.start(&[id], "w", NOW).await.unwrap(), [id]);
    Some(claimed.file)
}

async fn end(catalog: &Catalog, file: FileId, outcome: Outcome) -> FileState {
    let ending = Ending {
        file,
        moved_bytes: 0,
        outcome,
        facts: CopyFacts::default(),
    };
    match catalog.end("w", vec![ending], NOW).await.unwrap()[..] {
        [Ended::Now(state)] => state,
        ref other => panic!("{other:?}"),
    }
}

/// The worker of a running file is lost.
async fn lose(catalog: &Catalog, file: FileId) {
    let mut event = Advance::new(file, FileEvent::WorkerLost);
    event.worker = Some("w".to_owned());
    let requeued = [Ended::Now(FileState::Submitted)];
    assert_eq!(catalog.advance(vec![event], NOW).await.unwrap(), requeued);
}

/// Files that wait or run, by link.
async fn counted(catalog: &Catalog) -> Vec<(String, String, u64, u64)> {
    let counts = catalog.queues().await.unwrap().into_iter();
    let busy = counts.filter(|count| count.waiting + count.active > 0);
    busy.map(|count| (count.key.source, count.key.destination, count.waiting, count.active))
        .collect()
}

fn link(source: &str, destination: &str, waiting: u64, active: u64) -> (String, String, u64, u64) {
    (source.to_owned(), destination.to_owned(), waiting, active)
}

for_each_database! {
    async fn both_copies_count_on_their_links_and_the_file_is_one(place: Place) {
        let catalog = &place.catalog;
        let new = plain_job(1, 1);
        let id = new.id;
        catalog.submit(new).await.unwrap();
        let file = start(catalog, between(A, B)).await.unwrap().id;
        assert_eq!(counted(catalog).await, [link(A, B, 0, 1)]);
        assert_eq!(end(catalog, file, Outcome::Hop(hop(HopPart::Incoming))).await, FileState::Submitted);
        assert_eq!(counted(catalog).await, [link(A, HOP, 1, 0)]);
        assert!(start(catalog, between(A, B)).await.is_none(), "it is elsewhere");
        let found = start(catalog, between(A, HOP)).await.unwrap();
        assert_eq!((&*found.source_storage, &*found.destination_storage), (A, HOP));
        assert_eq!((found.storages(), found.attempts), ([A, B], 0));
        assert_eq!(found.hop, Some(hop(HopPart::Incoming)));
        end(catalog, file, Outcome::Hop(hop(HopPart::Outgoing))).await;
        assert_eq!(counted(catalog).await, [link(HOP, B, 1, 0)]);
        let past = catalog.take_past_hops(10, NOW + 5, NOW + 10).await.unwrap();
        assert_eq!(past, [], "the second copy needs it");
        start(catalog, between(HOP, B)).await.unwrap();
        let finished = Outcome::Finished { size_bytes: 5, way: None };
        assert_eq!(end(catalog, file, finished).await, FileState::Finished);
        assert_eq!(counted(catalog).await, []);
        assert_eq!(catalog.job(id).await.unwrap().unwrap().state, JobState::Finished);
        // It is listed by the link in which it was submitted, and in the history as well.
        for retires in [false, true] {
            if retires {
                assert_eq!(catalog.retire(NOW + 1, 10).await.unwrap(), 1);
            }
            let file = catalog.file(file).await.unwrap().unwrap();
            assert_eq!((&*file.source_storage, &*file.destination_storage), (A, B));
            assert_eq!(file.hop.map(|hop| hop.part), Some(HopPart::Outgoing));
        }
    }

    async fn a_lost_worker_leaves_something_at_the_end_of_its_link_only(place: Place) {
        let catalog = &place.catalog;
        catalog.submit(plain_job(1, 1)).await.unwrap();
        let file = start(catalog, between(A, B)).await.unwrap().id;
        end(catalog, file, Outcome::Hop(hop(HopPart::Incoming))).await;
        start(catalog, between(A, HOP)).await.unwrap();
        lose(catalog, file).await;
        let again = start(catalog, between(A, HOP)).await.unwrap();
        assert!(again.is_interrupted, "on its way to the hop");
        end(catalog, file, Outcome::Hop(hop(HopPart::Outgoing))).await;
        let second = start(catalog, between(HOP, B)).await.unwrap();
        assert!(!second.is_interrupted, "the destination has nothing yet");
        lose(catalog, file).await;
        assert!(start(catalog, between(HOP, B)).await.unwrap().is_interrupted);
        // The hop has lost it: what may be at the destination is not forgotten.
        let lost = |part| Hop { destination_interrupted: true, ..hop(part) };
        end(catalog, file, Outcome::Hop(lost(HopPart::Incoming))).await;
        assert!(!start(catalog, between(A, HOP)).await.unwrap().is_interrupted);
        end(catalog, file, Outcome::Hop(lost(HopPart::Outgoing))).await;
        assert!(start(catalog, between(HOP, B)).await.unwrap().is_interrupted);
        end(catalog, file, Outcome::Hop(lost(HopPart::GivenUp))).await;
        assert!(start(catalog, between(A, B)).await.unwrap().is_interrupted);
    }

    async fn what_is_at_a_hop_is_removed_once_no_file_needs_it(place: Place) {
        let catalog = &place.catalog;
        let new = plain_job(1, 1);
        let id = new.id;
        catalog.submit(new).await.unwrap();
        let file = start(catalog, between(A, B)).await.unwrap().id;
        end(catalog, file, Outcome::Hop(hop(HopPart::Incoming))).await;
        assert_eq!(catalog.take_past_hops(10, NOW + 5, NOW + 10).await.unwrap(), []);
        // Without the hop after all, and then by it again.
        start(catalog, between(A, HOP)).await.unwrap();
        end(catalog, file, Outcome::Hop(hop(HopPart::GivenUp))).await;
        assert_eq!(counted(catalog).await, [link(A, B, 1, 0)]);
        let past = catalog.take_past_hops(10, NOW + 5, NOW + 10).await.unwrap();
        assert_eq!((past.len(), &*past[0].url, past[0].file, past[0].tries), (1, URL, file, 0));
        assert_eq!(catalog.take_past_hops(10, NOW + 6, NOW + 11).await.unwrap(), [], "another one has it");
        start(catalog, between(A, B)).await.unwrap();
        end(catalog, file, Outcome::Hop(hop(HopPart::Incoming))).await;
        catalog.forget_hop(URL).await.unwrap();
        // Canceled: due again, until it is forgotten.
        catalog.cancel_jobs(&[id], "by the user", NOW + 20).await.unwrap();
        let past = catalog.take_past_hops(10, NOW + 20, NOW + 30).await.unwrap();
        assert_eq!((past.len(), past[0].tries), (1, 0));
        catalog.put_off_past_hop(URL, NOW + 50).await.unwrap();
        assert_eq!(catalog.take_past_hops(10, NOW + 40, NOW + 60).await.unwrap(), []);
        assert_eq!(catalog.take_past_hops(10, NOW + 50, NOW + 60).await.unwrap()[0].tries, 1);
        catalog.forget_hop(URL).await.unwrap();
        assert_eq!(catalog.take_past_hops(10, NOW + 90, NOW + 99).await.unwrap(), []);
    }
}
