//! Operations on names, and questions about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use remote::limits::ROOT_CHECKSUM_ASKS_MAX;
use types::{Checksum, ChecksumAlgorithm, ErrorCode, PeerStatus};
use xroot_wire::response::ListingWriter;
use xroot_wire::{ErrorNumber, Opcode, SessionId, StatFlags, respond};

use crate::script::{Server, client, data_server, stat};

/// A server that answers each request of any client with what `answer` gives for its path: a body,
/// or a refusal.
async fn server(
    answer: impl Fn(Opcode, &str) -> Result<Vec<u8>, (ErrorNumber, &'static str)> + Clone + Send + Sync + 'static,
) -> Server {
    Server::welcoming(move |_, mut peer| {
        let answer = answer.clone();
        async move {
            while let Some(heard) = peer.request().await {
                match answer(heard.opcode(), &heard.text()) {
                    Ok(body) => peer.ok(heard.id(), &body).await,
                    Err((number, words)) => peer.refuse(heard.id(), number, words).await,
                }
            }
        }
    })
    .await
}

pub(crate) fn stat_of(size_bytes: u64, flags: StatFlags) -> Vec<u8> {
    let mut text = Vec::new();
    let mut found = stat(size_bytes);
    found.flags = flags;
    found.write(&mut text);
    text.push(0);
    text
}

const MISSING: (ErrorNumber, &str) = (ErrorNumber::NOT_FOUND, "no such file");

#[tokio::test]
async fn a_checksum_is_asked_for_until_one_is_told() {
    let server = server(|opcode, text| match (opcode, text) {
        (Opcode::Stat, _) => Ok(stat_of(19, StatFlags::READABLE)),
        (_, "/f?cks.type=crc32c") => Ok(b"crc32c 0000002a\0".to_vec()),
        _ => Err((ErrorNumber::SERVER, "checksum not supported")),
    })
    .await;
    let (client, file) = (client(), server.file("/f"));
    let wanted = [
        ChecksumAlgorithm::Md5,
        ChecksumAlgorithm::Crc32c,
        ChecksumAlgorithm::Adler32,
    ];
    let facts = client.head(&file, &wanted).await.unwrap();
    assert_eq!(facts.checksums, [Checksum::crc32c(42)]);
    assert_eq!((facts.size_bytes, facts.accepts_ranges), (Some(19), Some(true)));
    assert!(facts.validator().is_some());
    assert_eq!(server.heard_of(Opcode::Query).len(), 2);
    let none = client.head(&file, &[ChecksumAlgorithm::Sha256]).await.unwrap();
    assert!(none.checksums.is_empty());
    let refusal = none.checksum_refusal.expect("why there is none");
    assert_eq!(refusal.peer_words(), Some("checksum not supported"));
    assert_eq!(server.heard_of(Opcode::Query)[2].text(), "/f?cks.type=sha256");
}

/// As XRootD answers while it computes another checksum of the same file.
#[tokio::test]
async fn a_checksum_that_another_client_asked_for_is_no_answer() {
    for (strange, asked, expected) in [(2, 3, vec![Checksum::crc32c(42)]), (9, ROOT_CHECKSUM_ASKS_MAX, vec![])] {
        let answers = Arc::new(AtomicUsize::new(0));
        let server = server(move |opcode, _| match opcode {
            Opcode::Stat => Ok(stat_of(19, StatFlags::READABLE)),
            _ if answers.fetch_add(1, Ordering::SeqCst) < strange => Ok(b"adler32 00000001\0".to_vec()),
            _ => Ok(b"crc32c 0000002a\0".to_vec()),
        })
        .await;
        let facts = client()
            .head(&server.file("/f"), &[ChecksumAlgorithm::Crc32c])
            .await
            .unwrap();
        assert_eq!(facts.checksums, expected);
        assert_eq!(server.heard_of(Opcode::Query).len(), asked);
    }
}

#[tokio::test]
async fn refusals_have_the_code_of_their_number_and_the_servers_words() {
    for (number, code) in [
        (ErrorNumber::NOT_FOUND, ErrorCode::PeerNotFound),
        (ErrorNumber::IS_DIRECTORY, ErrorCode::IsDirectory),
        (ErrorNumber::NO_SPACE, ErrorCode::PeerNoSpace),
        (ErrorNumber::UNSUPPORTED, ErrorCode::PeerUnsupported),
        (ErrorNumber::EXISTS, ErrorCode::PeerExists),
        (ErrorNumber::TLS_REQUIRED, ErrorCode::TlsRequired),
        (ErrorNumber::FILE_SYSTEM, ErrorCode::PeerFailed),
        (ErrorNumber(9999), ErrorCode::PeerFailed),
    ] {
        let server = server(move |_, _| Err((number, "these words"))).await;
        let error = client().stat(&server.file("/f")).await.unwrap_err();
        assert_eq!((error.code(), error.peer_words()), (code, Some("these words")));
        assert_eq!(error.peer_status(), Some(PeerStatus::Xrootd(number.0)));
    }
}

#[tokio::test]
async fn an_overloaded_server_may_be_asked_again_and_a_refusal_is_final() {
    for (number, may_be_tried) in [
        (ErrorNumber::OVERLOADED, true),
        (ErrorNumber::FILE_LOCKED, true),
        (ErrorNumber::FILE_SYSTEM, false),
        (ErrorNumber::ARGUMENT_INVALID, false),
    ] {
        let server = server(move |_, _| Err((number, ""))).await;
        assert_eq!(
            client().stat(&server.file("/f")).await.unwrap_err().retry(),
            may_be_tried
        );
    }
}

#[tokio::test]
async fn directories_are_made_and_removed() {
    let server = server(|opcode, text| match (opcode, text) {
        (Opcode::MakeDirectory, "/a/b") | (Opcode::Remove, "/d" | "/full") => Err(match opcode {
            Opcode::MakeDirectory => MISSING,
            _ => (ErrorNumber::IS_DIRECTORY, "is a directory"),
        }),
        (Opcode::RemoveDirectory, "/full") => Err((ErrorNumber::FILE_SYSTEM, "Directory not empty")),
        (Opcode::Stat, _) => Ok(stat_of(4096, StatFlags::DIRECTORY)),
        _ => Ok(Vec::new()),
    })
    .await;
    let client = client();
    client.make_directory(&server.file("/a")).await.unwrap();
    let error = client.make_directory(&server.file("/a/b")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ParentMissing);
    client.delete(&server.file("/f")).await.unwrap();
    client.delete(&server.file("/d")).await.unwrap();
    assert_eq!(server.heard_of(Opcode::RemoveDirectory)[0].text(), "/d");
    let error = client.delete(&server.file("/full")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotEmpty);
}

#[tokio::test]
async fn a_new_name_that_is_taken_is_refused_unless_it_may_be_replaced() {
    let server = server(|opcode, text| match (opcode, text) {
        (Opcode::Stat, "/free name") => Err(MISSING),
        (Opcode::Stat, _) => Ok(stat_of(1, StatFlags::READABLE)),
        _ => Ok(Vec::new()),
    })
    .await;
    let (client, file) = (client(), server.file("/old name"));
    let to = |name: &str| server.file(name).location;
    let error = client.rename(&file, &to("/taken"), false).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerExists);
    client.rename(&file, &to("/free name"), false).await.unwrap();
    client.rename(&file, &to("/taken"), true).await.unwrap();
    let said: Vec<_> = server
        .heard_of(Opcode::Rename)
        .iter()
        .map(crate::script::Heard::text)
        .collect();
    assert_eq!(said, ["/old name /free name", "/old name /taken"]);
    let elsewhere = crate::script::resource("root://elsewhere//f").location;
    let error = client.rename(&file, &elsewhere, true).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::CrossExport);
}

#[tokio::test]
async fn a_change_whose_answer_was_lost_is_looked_for() {
    // What is there afterwards, and how often the rename and the removal are asked for.
    for (there, renames, removals) in [("/new", 1, 1), ("/f", 2, 2)] {
        let lost = Arc::new(AtomicUsize::new(0));
        let server = Server::welcoming(move |_, mut peer| {
            let lost = Arc::clone(&lost);
            async move {
                while let Some(heard) = peer.request().await {
                    match heard.opcode() {
                        Opcode::Stat if heard.text() == there => peer.tell_size(&heard, 1).await,
                        Opcode::Stat => peer.refuse(heard.id(), MISSING.0, MISSING.1).await,
                        // The first of each.
                        Opcode::Rename if lost.fetch_or(1, Ordering::Relaxed) & 1 == 0 => return,
                        Opcode::Remove if lost.fetch_or(2, Ordering::Relaxed) & 2 == 0 => return,
                        _ => peer.ok(heard.id(), b"").await,
                    }
                }
            }
        })
        .await;
        let (client, file) = (client(), server.file("/f"));
        client.rename(&file, &server.file("/new").location, true).await.unwrap();
        assert_eq!(server.heard_of(Opcode::Rename).len(), renames, "{there}");
        client.delete(&file).await.unwrap();
        assert_eq!(server.heard_of(Opcode::Remove).len(), removals, "{there}");
    }
}

async fn names(server: &Server) -> types::Result<Vec<(String, bool, Option<u64>)>> {
    let mut listing = client().list(&server.file("/d")).await?;
    let mut all = Vec::new();
    while let Some(batch) = listing.next().await? {
        assert!(!batch.is_empty());
        all.extend(
            batch
                .into_iter()
                .map(|entry| (entry.path, entry.is_directory, entry.size_bytes)),
        );
    }
    Ok(all)
}

#[tokio::test]
async fn a_listing_is_read_wherever_it_is_cut() {
    let mut writer = ListingWriter::new(true);
    let mut directory = stat(4096);
    directory.flags = StatFlags::DIRECTORY;
    writer.add("a b", Some(&stat(5)), None);
    writer.add("sub", Some(&directory), None);
    let body = writer.finish();
    let expected = [("/d/a b".to_owned(), false, Some(5)), ("/d/sub".to_owned(), true, None)];
    for cut in [0, 1, 9, 10, 15, body.len() - 1, body.len()] {
        let body = body.clone();
        let server = Server::welcoming(move |_, mut peer| {
            let body = body.clone();
            async move {
                let heard = peer.expect(Opcode::ListDirectory).await;
                peer.put(|out| respond::partial(out, heard.id(), &body[..cut])).await;
                peer.ok(heard.id(), &body[cut..]).await;
                peer.request().await;
            }
        })
        .await;
        assert_eq!(names(&server).await.unwrap(), expected, "cut at {cut}");
    }
}

#[tokio::test]
async fn a_listing_that_never_ends_is_given_up() {
    let server = Server::welcoming(|_, mut peer| async move {
        let heard = peer.expect(Opcode::ListDirectory).await;
        let mut parts = Vec::new();
        for _ in 0..1 << 13 {
            respond::partial(&mut parts, heard.id(), b"");
        }
        for _ in 0..1000 {
            peer.say(&parts).await;
        }
    })
    .await;
    let error = names(&server).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerMisbehaved, "{error}");
    assert!(error.public().contains("goes on without entries"), "{error}");
}

#[tokio::test]
async fn an_empty_directory_and_a_file_are_told_apart() {
    let empty = server(|_, _| Ok(ListingWriter::new(true).finish())).await;
    assert_eq!(names(&empty).await.unwrap(), []);
    let older = server(|_, _| Ok(Vec::new())).await;
    assert_eq!(names(&older).await.unwrap(), []);
    let file = server(|opcode, _| match opcode {
        Opcode::Stat => Ok(stat_of(5, StatFlags::READABLE)),
        _ => Err((ErrorNumber::FILE_SYSTEM, "not a directory")),
    })
    .await;
    assert_eq!(names(&file).await.unwrap_err().code(), ErrorCode::NotDirectory);
}

#[tokio::test]
async fn a_server_that_tells_only_names_is_asked_about_each() {
    let server = server(|opcode, text| match (opcode, text) {
        (Opcode::ListDirectory, _) => {
            let mut writer = ListingWriter::new(false);
            for number in 0..200 {
                writer.add(&format!("f{number}"), None, None);
            }
            Ok(writer.finish())
        }
        (Opcode::Stat, "/d/f7") => Err(MISSING),
        _ => Ok(stat_of(text.len() as u64, StatFlags::READABLE)),
    })
    .await;
    let mut found = names(&server).await.unwrap();
    found.sort();
    assert_eq!(found.len(), 199, "one is gone meanwhile");
    assert!(
        found
            .iter()
            .all(|(path, _, size)| *size == Some(path.len() as u64) && path != "/d/f7")
    );
    assert_eq!(server.heard_of(Opcode::Login).len(), 2);
}

#[tokio::test]
async fn a_listing_that_leads_out_of_its_directory_is_refused() {
    let server = server(|_, _| Ok(b"a\n../b\0".to_vec())).await;
    assert_eq!(names(&server).await.unwrap_err().code(), ErrorCode::PeerMisbehaved);
}

/// A server that greets every client with a session of this name, lists one file and answers any
/// question with `told`.
async fn listing_server(session: SessionId, told: Result<&'static str, ErrorNumber>) -> Server {
    Server::start(move |_, mut peer| async move {
        peer.greet(data_server()).await;
        peer.log_in_to(session, &[]).await;
        while let Some(heard) = peer.request().await {
            match (heard.opcode(), told) {
                (Opcode::ListDirectory, _) => {
                    let mut writer = ListingWriter::new(true);
                    writer.add("f", Some(&stat(5)), None);
                    peer.ok(heard.id(), &writer.finish()).await;
                }
                (_, Ok(told)) => peer.ok(heard.id(), told.as_bytes()).await,
                (_, Err(number)) => peer.refuse(heard.id(), number, "no").await,
            }
        }
    })
    .await
}

/// What the client says that the listing leaves out, and the questions that the server heard.
async fn described(
    session: SessionId,
    told: Result<&'static str, ErrorNumber>,
) -> (types::Result<Option<String>>, Vec<String>) {
    let server = listing_server(session, told).await;
    let mut listing = client().list(&server.file("/d")).await.unwrap();
    let read = async {
        while listing.next().await?.is_some() {}
        Ok(listing.description().map(str::to_owned))
    };
    let read = read.await;
    let heard = server.heard_of(Opcode::Query);
    (read, heard.iter().map(crate::script::Heard::text).collect())
}

#[tokio::test]
async fn our_servers_are_asked_what_a_listing_leaves_out_and_no_others() {
    let (own, foreign) = (SessionId::own([7; 12]), SessionId([5; 16]));
    let question = "/d?crossload.unlisted=";
    let (words, heard) = described(own, Ok("names=2&links=1\0")).await;
    assert!(words.unwrap().unwrap().starts_with("2 names that no path can hold"));
    assert_eq!(heard, [question]);
    let (words, heard) = described(own, Ok("names=0&links=0\0")).await;
    assert_eq!((words.unwrap(), heard.len()), (None, 1));
    let (words, heard) = described(foreign, Ok("names=2&links=1\0")).await;
    assert_eq!((words.unwrap(), heard.len()), (None, 0), "nothing new for others");
    for number in [ErrorNumber::UNSUPPORTED, ErrorNumber::NOT_FOUND] {
        assert_eq!(described(own, Err(number)).await.0.unwrap(), None);
    }
}

/// The entries have come. A directory must not look complete, though, when no answer says so.
#[tokio::test]
async fn a_bad_answer_to_what_a_listing_leaves_out_is_a_warning_and_no_failure() {
    let own = SessionId::own([7; 12]);
    let garbage = [
        "many",
        "",
        "names=2",
        "names=-1&links=0",
        "names=18446744073709551616&links=0",
    ];
    let told = garbage.map(Ok).into_iter().chain([Err(ErrorNumber::OVERLOADED)]);
    for told in told {
        let words = described(own, told).await.0.unwrap().unwrap();
        assert!(
            words.starts_with("the server did not say whether this is the whole directory"),
            "{words}"
        );
    }
}
