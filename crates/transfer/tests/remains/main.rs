//! What a failed copy leaves at a server that writes in place: only what is proven ours is removed,
//! and the file of a second client stays.

mod server;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use endpoint::Store;
use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Access, Client, ClientOptions, Delegation, Direction, Resource};
use server::{Answer, HERE, Moment, Named, Removing, Server, THERE, content};
use storage::{Overwrite, Posix, PosixOptions};
use tokio::task::JoinSet;
use transfer::{Budget, Comparison, Order, Progress, RemoteSink, RemoteSource, Source, StoreSource, ThirdParty, copy};
use types::{Error, ErrorCode, Location, LogicalPath, PeerStatus, Side};

/// How the file is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Upload,
    Streamed,
    Pull,
    Push,
    UploadByRoot,
    StreamedByRoot,
    Rendezvous,
}

const ALL: [Way; 7] = [
    Way::Upload,
    Way::Streamed,
    Way::Pull,
    Way::Push,
    Way::UploadByRoot,
    Way::StreamedByRoot,
    Way::Rendezvous,
];
const OVER_HTTP: [Way; 4] = [Way::Upload, Way::Streamed, Way::Pull, Way::Push];
/// Servers whose answers say that the file is ours.
const TIED: [Way; 3] = [Way::UploadByRoot, Way::StreamedByRoot, Way::Rendezvous];
const UPLOADS_BY_HTTP: [Way; 2] = [Way::Upload, Way::Streamed];

fn client() -> Client {
    let wait = Duration::from_secs(10);
    Client::new(ClientOptions {
        tls: ClientTls::load(&Trust::default()).unwrap().0,
        addresses: AddressPolicy::ANY,
        connect: wait,
        first_byte: wait,
        stall: wait,
        user_agent: "test".into(),
    })
}

fn refusing() -> Order {
    Order {
        overwrite: Overwrite::Refuse,
        attempts: 1,
        ..Order::default()
    }
}

/// Copies the file to the server, which fails.
async fn failed(server: &Server, way: Way, order: &Order) -> Error {
    let error = copy_by(server, way, order).await;
    assert!(server.has_failed(), "{way:?}: {error}");
    error
}

async fn copy_by(server: &Server, way: Way, order: &Order) -> Error {
    let base = match way {
        Way::UploadByRoot | Way::StreamedByRoot | Way::Rendezvous => server.start_root(),
        _ => server.start_http(),
    };
    let file = |path: &str, side| Resource {
        location: Location::parse(&format!("{base}{path}")).unwrap(),
        access: Access::default(),
        side,
    };
    let (client, there) = (client(), file(THERE, Side::Destination));
    let here = file(HERE, Side::Source);
    let directory = tempfile::tempdir().unwrap();
    let source: Arc<dyn Source> = match way {
        Way::Upload | Way::UploadByRoot => {
            std::fs::write(directory.path().join("f"), content()).unwrap();
            let posix = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
            let store = Store::new(Arc::new(posix));
            Arc::new(
                StoreSource::open(&store, &LogicalPath::parse("/f").unwrap())
                    .await
                    .unwrap(),
            )
        }
        Way::Streamed | Way::StreamedByRoot => Arc::new(RemoteSource::new(&client, &here)),
        Way::Pull | Way::Push | Way::Rendezvous => return ordered(&client, &here, &there, way, order).await,
    };
    let sink = RemoteSink::new(&client, &there);
    let copied = copy(&source, &sink, order, &Budget::new(), &Progress::new()).await;
    copied.expect_err("the server fails")
}

async fn ordered(client: &Client, source: &Resource, destination: &Resource, way: Way, order: &Order) -> Error {
    let copying = ThirdParty {
        client,
        source,
        destination,
        direction: if way == Way::Push {
            Direction::Push
        } else {
            Direction::Pull
        },
        shown: &Access::default(),
        delegation: Delegation::Never,
        delegated: &OnceLock::new(),
        order,
        is_absent: order.overwrite == Overwrite::Refuse,
        is_offered: false,
        compares: Comparison::Sides,
        stall: None,
        settle: Duration::from_secs(1),
        progress: &Progress::new(),
    };
    copying.copy().await.expect_err("the server fails")
}

fn says_it_may_remain(error: &Error) -> bool {
    error.public().contains("a part of the file may remain at ")
}

/// Runs the cases at the same time, because each waits for the second look.
async fn all_cases(ways: &[Way], others: &[&[u8]], moment: Moment, check: fn(Way, &Server, &[u8], &Error)) {
    all_cases_with(ways, others, |other| Server::new(moment, other), check).await;
}

async fn all_cases_with(
    ways: &[Way],
    others: &[&[u8]],
    server: impl Fn(&[u8]) -> Server,
    check: fn(Way, &Server, &[u8], &Error),
) {
    let mut cases = JoinSet::new();
    for way in ways.iter().copied() {
        for other in others {
            let (server, other) = (server(other), other.to_vec());
            cases.spawn(async move {
                let error = failed(&server, way, &refusing()).await;
                check(way, &server, &other, &error);
            });
        }
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}

#[tokio::test]
async fn our_own_part_is_removed() {
    all_cases(&TIED, &[b""], Moment::Never, |way, server, _, error| {
        assert_eq!(server.stored(), None, "{way:?}: {error}");
        assert!(!says_it_may_remain(error), "{way:?}: {error}");
    })
    .await;
}

#[tokio::test]
async fn a_part_that_no_answer_ties_to_our_request_stays() {
    // Another client may copy the same file to the same name, and pause for any time.
    let part = &content()[..server::KEPT];
    all_cases(&OVER_HTTP, &[part], Moment::Never, stays).await;
}

#[tokio::test]
async fn a_wrong_file_is_removed_if_the_server_said_that_it_stored_it() {
    let stores = |moment, other: &[u8]| Server::new(moment, other).answering(Answer::Stores);
    let removed = |way: Way, server: &Server, _: &[u8], error: &Error| {
        assert_eq!(server.stored(), None, "{way:?}: {error}");
    };
    all_cases_with(&UPLOADS_BY_HTTP, &[b""], |other| stores(Moment::Never, other), removed).await;
    // Another client has replaced it within the same second, before or after our looks.
    let other: &[u8] = b"another one's";
    for moment in [Moment::AfterFailure, Moment::BetweenLooks, Moment::BeforeRemoval] {
        let kept = |way: Way, server: &Server, other: &[u8], error: &Error| {
            assert!(server.stored().as_deref() == Some(other), "{way:?}: {error}");
            assert!(says_it_may_remain(error), "{way:?}: {error}");
        };
        all_cases_with(&UPLOADS_BY_HTTP, &[other], |other| stores(moment, other), kept).await;
    }
}

#[tokio::test]
async fn a_damaged_file_is_removed_unless_another_client_has_replaced_it() {
    let damages = |moment, other: &[u8]| Server::new(moment, other).answering(Answer::StoresDamaged);
    let removed = |way: Way, server: &Server, _: &[u8], error: &Error| {
        assert_eq!(error.code(), ErrorCode::ChecksumMismatch, "{way:?}: {error}");
        assert_eq!(server.stored(), None, "{way:?}: {error}");
    };
    all_cases_with(&UPLOADS_BY_HTTP, &[b""], |other| damages(Moment::Never, other), removed).await;
    // Of the same length, and within the same second, behind our comparison.
    let (good, other_of_same_size) = (content(), vec![b'x'; content().len()]);
    let others: [&[u8]; 2] = [&good, &other_of_same_size];
    for moment in [Moment::BetweenStats, Moment::BetweenLooks, Moment::BeforeRemoval] {
        let kept = |way: Way, server: &Server, other: &[u8], error: &Error| {
            assert!(server.stored().as_deref() == Some(other), "{way:?}: {error}");
            assert!(says_it_may_remain(error), "{way:?}: {error}");
        };
        all_cases_with(&UPLOADS_BY_HTTP, &others, |other| damages(moment, other), kept).await;
    }
}

#[tokio::test]
async fn a_file_that_another_client_stored_after_our_failure_stays() {
    let longer = [content(), content()].concat();
    let (whole, other_of_same_size) = (content(), vec![b'x'; content().len()]);
    let others: [&[u8]; 4] = [b"another one's", &longer, &whole, &other_of_same_size];
    all_cases(&ALL, &others, Moment::AfterFailure, |way, server, other, error| {
        assert!(server.stored().as_deref() == Some(other), "{way:?}: {error}");
        assert!(
            !server.asked().iter().any(|asked| asked.starts_with("remove")),
            "{way:?}"
        );
        assert_eq!(
            says_it_may_remain(error),
            other.len() < content().len(),
            "{way:?}: {error}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_file_that_another_client_stores_while_we_look_stays() {
    let growing = &content()[..server::KEPT + 1];
    let others: [&[u8]; 2] = [b"another one's", growing];
    all_cases(&TIED, &others, Moment::BetweenLooks, |way, server, other, error| {
        assert!(server.stored().as_deref() == Some(other), "{way:?}: {error}");
        assert!(says_it_may_remain(error), "{way:?}: {error}");
    })
    .await;
}

/// Another client's file stays, and the error says that it is there.
fn stays(way: Way, server: &Server, other: &[u8], error: &Error) {
    assert!(server.stored().as_deref() == Some(other), "{way:?}: {error}");
    let words = format!("{THERE}: {} bytes are there", other.len());
    assert!(says_it_may_remain(error), "{way:?}: {error}");
    assert!(error.public().contains(&words), "{way:?}: {error}");
    assert!(!server.asked().contains(&"remove".to_owned()), "{way:?}: {error}");
}

#[tokio::test]
async fn an_empty_file_of_another_client_stays() {
    all_cases(&OVER_HTTP, &[b""], Moment::AfterFailure, stays).await;
}

#[tokio::test]
async fn a_file_of_another_client_that_begins_as_ours_stays() {
    let mut late = content()[..server::KEPT].to_vec();
    late[server::KEPT - 1] ^= 1;
    let early = [&content()[..4096], b"something else"].concat();
    let growing = &content()[..server::KEPT + 1];
    all_cases(&OVER_HTTP, &[&early, &late, growing], Moment::AfterFailure, stays).await;
}

#[tokio::test]
async fn after_an_answer_that_we_wrote_nothing_nothing_is_looked_at() {
    for status in [403, 409, 412, 423] {
        for way in OVER_HTTP {
            let other = &content()[..server::KEPT];
            let server = Server::new(Moment::AfterFailure, other).answering(Answer::Status(status));
            let error = failed(&server, way, &refusing()).await;
            assert_eq!(server.stored().as_deref(), Some(other), "{way:?} {status}: {error}");
            assert_eq!(server.asked(), [""; 0], "{way:?} {status}");
            assert!(!says_it_may_remain(&error), "{way:?} {status}: {error}");
        }
    }
}

#[tokio::test]
async fn what_an_earlier_attempt_left_is_said_after_a_refusal() {
    for (moment, other, may_remain) in [
        (Moment::Never, Vec::new(), true),
        // It is another client's, and no part of ours.
        (Moment::AfterFailure, [content(), content()].concat(), false),
    ] {
        for (way, overwrite, status) in [
            // The second attempt finds the file, and does not begin.
            (Way::Upload, Overwrite::Refuse, None),
            (Way::Streamed, Overwrite::Refuse, None),
            (Way::Upload, Overwrite::Allow, Some(403)),
            (Way::Streamed, Overwrite::Allow, Some(403)),
        ] {
            let server = Server::new(moment, &other).answering(Answer::CutBeforeData(status.unwrap_or(201)));
            let order = Order {
                overwrite,
                attempts: 2,
                ..Order::default()
            };
            let error = failed(&server, way, &order).await;
            assert_eq!(error.peer_status(), status.map(PeerStatus::Http), "{way:?}: {error}");
            assert!(server.stored().as_ref() == Some(&other), "{way:?} {status:?}: {error}");
            assert_eq!(says_it_may_remain(&error), may_remain, "{way:?} {status:?}: {error}");
            assert!(!server.asked().contains(&"remove".to_owned()), "{way:?} {status:?}");
        }
    }
}

#[tokio::test]
async fn a_part_of_a_file_of_unknown_size_is_said_to_remain() {
    for way in [Way::Pull, Way::Push] {
        let server = Server::new(Moment::Never, b"").hiding_size();
        let error = failed(&server, way, &refusing()).await;
        let words = format!("{THERE}: {} bytes are there", server::KEPT);
        assert!(error.public().contains(&words), "{way:?}: {error}");
        assert!(!server.asked().contains(&"remove".to_owned()), "{way:?}");
    }
}

#[tokio::test]
async fn a_cut_connection_is_cleaned_up_by_the_same_rule() {
    for way in UPLOADS_BY_ROOT {
        let server = Server::new(Moment::Never, b"").answering(Answer::Cut);
        let error = failed(&server, way, &refusing()).await;
        assert_eq!(server.stored(), None, "{way:?}: {error}");
        let server = Server::new(Moment::AfterFailure, b"another one's").answering(Answer::Cut);
        let error = failed(&server, way, &refusing()).await;
        assert_eq!(
            server.stored().as_deref(),
            Some(&b"another one's"[..]),
            "{way:?}: {error}"
        );
    }
}

#[tokio::test]
async fn what_replaced_an_existing_file_stays() {
    for way in ALL {
        let server = Server::new(Moment::Never, b"").with_old(b"the old file");
        let error = failed(
            &server,
            way,
            &Order {
                attempts: 1,
                ..Order::default()
            },
        )
        .await;
        let left = &content()[..server::KEPT];
        assert!(server.stored().as_deref() == Some(left), "{way:?}: {error}");
        assert!(says_it_may_remain(&error), "{way:?}: {error}");
    }
}

const UPLOADS_BY_ROOT: [Way; 2] = [Way::UploadByRoot, Way::StreamedByRoot];

/// A server that keeps a broken upload, lets no client read it, and removes it later.
fn holding(moment: Moment, other: &[u8]) -> Server {
    Server::new(moment, other).persisting_on_close()
}

#[tokio::test]
async fn a_part_that_cannot_be_read_is_removed_by_the_name_that_the_server_gives_it() {
    for (way, answer) in [
        (Way::UploadByRoot, Answer::Cut),
        (Way::StreamedByRoot, Answer::Cut),
        (Way::UploadByRoot, Answer::Status(507)),
    ] {
        let (server, began) = (holding(Moment::Never, b"").answering(answer), Instant::now());
        let error = failed(&server, way, &refusing()).await;
        assert_eq!(server.stored(), None, "{way:?}: {error}");
        assert!(!says_it_may_remain(&error), "{way:?}: {error}");
        assert!(began.elapsed() < transfer::limits::REMAINS_TIME / 2, "{way:?}");
    }
}

#[tokio::test]
async fn an_exclusive_creation_proves_that_the_file_is_ours() {
    let unasked = Order {
        ask_first: false,
        ..refusing()
    };
    for server in [Server::new(Moment::Never, b""), holding(Moment::Never, b"")] {
        let server = server.answering(Answer::Cut);
        let error = failed(&server, Way::UploadByRoot, &unasked).await;
        assert_eq!(server.stored(), None, "{error}");
    }
}

#[tokio::test]
async fn a_file_that_another_client_is_storing_under_the_name_stays() {
    let growing = &content()[..server::KEPT + 1];
    let part = &content()[..server::KEPT];
    let other = Named { id: 4712, after_s: 0 };
    // The inode of a removed file was given to another one, or another client has replaced the
    // content of ours.
    let later = Named { id: 4711, after_s: 60 };
    for way in UPLOADS_BY_ROOT {
        for (moment, named, content, may_remain) in [
            (Moment::AfterFailure, other, part, false),
            (Moment::AfterFailure, later, part, true),
            (Moment::AfterFailure, later, growing, true),
        ] {
            let server = holding(moment, content).with_other_named(named).answering(Answer::Cut);
            let error = failed(&server, way, &refusing()).await;
            assert!(
                server.stored().as_deref() == Some(content),
                "{way:?} {named:?}: {error}"
            );
            assert!(!server.asked().contains(&"remove".to_owned()), "{way:?} {named:?}");
            assert_eq!(says_it_may_remain(&error), may_remain, "{way:?} {named:?}: {error}");
        }
    }
}

#[tokio::test]
async fn a_file_that_another_client_begins_to_store_between_two_looks_stays() {
    // The first look finds our part, the second one that of another client with the same inode.
    let (part, later) = (&content()[..server::KEPT], Named { id: 4711, after_s: 60 });
    let server = holding(Moment::BetweenStats, part)
        .with_other_named(later)
        .answering(Answer::Cut);
    let error = failed(&server, Way::UploadByRoot, &refusing()).await;
    assert!(server.stored().as_deref() == Some(part), "{error}");
    assert!(!server.asked().contains(&"remove".to_owned()), "{error}");
}

#[tokio::test]
async fn a_part_that_a_busy_server_still_writes_is_removed() {
    let more = &content()[..server::KEPT + 1];
    let server = holding(Moment::BetweenStats, more).answering(Answer::Cut);
    let error = failed(&server, Way::UploadByRoot, &refusing()).await;
    assert_eq!(server.stored(), None, "{error}");
    assert!(!says_it_may_remain(&error), "{error}");
}

#[tokio::test]
async fn a_part_in_use_is_removed_a_little_later_and_else_the_server_removes_it() {
    let server = holding(Moment::Never, b"")
        .removing(Removing::InUse(2))
        .answering(Answer::Cut);
    let error = failed(&server, Way::UploadByRoot, &refusing()).await;
    assert_eq!(server.stored(), None, "{error}");
    for removing in [Removing::InUse(u32::MAX), Removing::Never] {
        let (server, began) = (holding(Moment::Never, b"").removing(removing), Instant::now());
        let error = failed(&server.clone().answering(Answer::Cut), Way::UploadByRoot, &refusing()).await;
        assert!(server.stored().is_some(), "{error}");
        let words = "the destination removes the part of the file by itself, later";
        assert!(error.public().contains(words), "{error}");
        assert!(began.elapsed() < transfer::limits::REMAINS_TIME / 2, "{removing:?}");
    }
}
