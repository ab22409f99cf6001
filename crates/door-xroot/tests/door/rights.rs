//! What a credential with few rights can do with other clients' files.

use credentials::{Macaroon, MacaroonKey};
use endpoint::{Exports, SharedExports};
use policy::AnonymousAccess;
use xroot_wire::request::{
    PageRead, Read, ReadVector, Remove, RemoveDirectory, Rename, Request, Stat, VectorItem, Write,
};
use xroot_wire::{Argument, ErrorNumber, FileHandle, OpenOptions};

use crate::harness::{Raw, SECRET, Server, export, open};

/// A server that allows nothing without a macaroon.
fn closed() -> Server {
    let store = storage::Memory::new(1 << 20);
    let rules = export("/data", AnonymousAccess::None, store.clone());
    let server = Server::start(|settings| settings.site.exports = SharedExports::new(Exports::new(vec![rules])));
    Server { store, ..server }
}

/// A path with a macaroon in its parameters that allows these activities.
fn with_token(path: &str, activities: &str) -> String {
    let caveat = format!("activity:{activities}");
    let macaroon = Macaroon::mint(&MacaroonKey::new(SECRET), "se", "id", [caveat.as_str()]).unwrap();
    format!("{path}?authz=Bearer%20{}", macaroon.to_text().expose())
}

/// The status of a read, a read of pages and a read of a vector.
async fn reads(raw: &mut Raw, handle: FileHandle) -> [u16; 3] {
    let (offset, length, path) = (0, 4, None);
    let read = Request::Read(Read {
        handle,
        offset,
        length,
        path,
    });
    let page_read = Request::PageRead(PageRead {
        handle,
        offset,
        length,
        path,
        flags: None,
    });
    let list = VectorItem {
        handle,
        length,
        offset: 0,
    }
    .encode();
    let vector = Request::ReadVector(ReadVector::new(0, &list).unwrap());
    let mut statuses = [0; 3];
    for (status, request) in statuses.iter_mut().zip([read, page_read, vector]) {
        let answer = raw.ask(&request).await;
        if answer.status == 4003 {
            assert_eq!(answer.error(), ErrorNumber::NOT_AUTHORIZED);
        }
        *status = answer.status;
    }
    statuses
}

#[tokio::test]
async fn a_file_opened_for_update_is_read_only_with_the_right_to_read() {
    let server = closed();
    server.put("/f", b"secret");
    let mut raw = server.client().await;
    for (activities, expected) in [
        ("UPLOAD,DELETE", [4003; 3]),
        ("MANAGE", [4003; 3]),
        // The answer to a page read has a status of its own.
        ("MANAGE,DOWNLOAD", [0, 4007, 0]),
    ] {
        let path = with_token("/data/f", activities);
        let handle = raw.opened(&path, OpenOptions::UPDATE).await;
        assert_eq!(reads(&mut raw, handle).await, expected, "{activities}");
        let write = Request::Write(Write {
            handle,
            offset: 0,
            path: 0,
            data_bytes: 1,
        });
        raw.ask_with(&write, b"S").await.ok();
        assert_eq!(reads(&mut raw, handle).await, expected, "{activities}, after a write");
        let close = xroot_wire::request::Close { handle };
        raw.ask(&Request::Close(close)).await.ok();
    }
    let refused = raw
        .ask(&open(&with_token("/data/f", "MANAGE"), OpenOptions::READ))
        .await;
    assert_eq!(refused.error(), ErrorNumber::NOT_AUTHORIZED);
}

#[tokio::test]
async fn an_upload_can_be_read_back_by_its_writer() {
    let server = closed();
    let mut raw = server.client().await;
    let handle = raw.opened(&with_token("/data/new", "UPLOAD"), OpenOptions::NEW).await;
    let write = Request::Write(Write {
        handle,
        offset: 0,
        path: 0,
        data_bytes: 4,
    });
    raw.ask_with(&write, b"mine").await.ok();
    assert_eq!(reads(&mut raw, handle).await, [0, 4007, 0]);
}

async fn moved(raw: &mut Raw, from: &str, to: &str, activities: &str) -> u16 {
    let from = with_token(from, activities);
    let request = Request::Rename(Rename::new(from.as_bytes(), to.as_bytes()));
    raw.ask(&request).await.status
}

#[tokio::test]
async fn create_alone_renames_what_its_holder_stored_and_nothing_else() {
    let server = closed();
    server.put("/g", b"theirs");
    server.put("/d/f", b"theirs");
    let mut raw = server.client().await;
    for from in ["/data/g", "/data/d", "/data/missing"] {
        assert_eq!(moved(&mut raw, from, "/data/taken", "UPLOAD").await, 4003, "{from}");
    }
    let handle = raw
        .opened(&with_token("/data/x.part", "UPLOAD"), OpenOptions::NEW)
        .await;
    let close = xroot_wire::request::Close { handle };
    raw.ask(&Request::Close(close)).await.ok();
    assert_eq!(moved(&mut raw, "/data/x.part", "/data/x", "UPLOAD").await, 0);
    assert_eq!(moved(&mut raw, "/data/g", "/data/h", "MANAGE").await, 0);
}

#[tokio::test]
async fn who_may_not_look_is_told_the_same_whatever_is_there() {
    let server = closed();
    server.put("/f", b"theirs");
    server.put("/d/f", b"theirs");
    let mut raw = server.client().await;
    let words = |answer: crate::harness::Answer, path: &str| {
        assert_eq!(answer.error(), ErrorNumber::NOT_AUTHORIZED, "{path}");
        let text = String::from_utf8_lossy(&answer.body[4..]).replace(path, "PATH");
        // The name of the request follows the code.
        text.split(']').next().unwrap().to_owned()
    };
    let mut told: Vec<Vec<String>> = Vec::new();
    for path in ["/data/f", "/data/d", "/data/missing"] {
        let argument = || Argument::new(path.as_bytes());
        let requests = [
            Request::Remove(Remove { path: argument() }),
            Request::RemoveDirectory(RemoveDirectory { path: argument() }),
            Request::Stat(Stat::path(path.as_bytes())),
            Request::Rename(Rename::new(path.as_bytes(), b"/data/new")),
            Request::Rename(Rename::new(b"/data/zz", path.as_bytes())),
            open(path, OpenOptions::READ),
            open(path, OpenOptions::UPDATE),
            open(path, OpenOptions::TRUNCATE),
            open(path, OpenOptions::NEW),
        ];
        let mut all = Vec::new();
        for request in requests {
            let answer = raw.ask(&request).await;
            all.push(words(answer, path));
        }
        told.push(all);
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0], told[2]);
}

#[tokio::test]
async fn a_macaroon_says_what_it_does_not_carry() {
    let server = closed();
    server.put("/f", b"1234");
    server.put("/closed/f", b"secret");
    let mut raw = server.client().await;
    let id = "c0ffee00-0000-4000-8000-000000000000/withheld=UPLOAD";
    let caveats = ["activity:DOWNLOAD", "path:/data", "except:DOWNLOAD:/data/closed"];
    let macaroon = Macaroon::mint(&MacaroonKey::new(SECRET), "se", id, caveats).unwrap();
    let with = |path: &str| format!("{path}?authz=Bearer%20{}", macaroon.to_text().expose());
    raw.opened(&with("/data/f"), OpenOptions::READ).await;
    for (path, options, words) in [
        ("/data/closed/f", OpenOptions::READ, "requester did not have here"),
        ("/data/new", OpenOptions::NEW, "UPLOAD was requested but not granted"),
    ] {
        let refused = raw.ask(&open(&with(path), options)).await;
        assert_eq!(refused.error(), ErrorNumber::NOT_AUTHORIZED, "{path}");
        let text = String::from_utf8_lossy(&refused.body[4..]).into_owned();
        assert!(text.contains(words), "{text}");
    }
    let stat = with("/data/closed/f");
    let stat = raw.ask(&Request::Stat(Stat::path(stat.as_bytes()))).await;
    assert_eq!(stat.error(), ErrorNumber::NOT_AUTHORIZED);
}

#[tokio::test]
async fn a_file_that_rules_close_is_changed_no_more_where_it_lies() {
    let store = storage::Memory::new(1 << 20);
    let exports = SharedExports::new(Exports::new(vec![export(
        "/data",
        AnonymousAccess::Write,
        store.clone(),
    )]));
    let server = Server::start(|settings| settings.site.exports = exports.clone());
    let server = Server { store, ..server };
    server.put("/f", b"theirs");
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f", OpenOptions::UPDATE).await;
    let closed = policy::Rule {
        may_not: credentials::Activities::ALL,
        ..policy::Rule::default()
    };
    let list = exports.current().list().to_vec();
    exports.replace(Exports::with_rules(list, vec![closed]));
    let write = Request::Write(Write {
        handle,
        offset: 0,
        path: 0,
        data_bytes: 1,
    });
    assert_eq!(raw.ask_with(&write, b"X").await.error(), ErrorNumber::NOT_AUTHORIZED);
    let target = xroot_wire::request::TruncateTarget::Handle(handle);
    let cut = xroot_wire::request::Truncate { target, size_bytes: 1 };
    assert_eq!(
        raw.ask(&Request::Truncate(cut)).await.error(),
        ErrorNumber::NOT_AUTHORIZED
    );
    assert_eq!(server.content("/f").unwrap(), b"theirs");
}

/// Whatever fails in the store, the client reads the path that it used.
#[tokio::test]
async fn no_error_names_a_path_that_only_the_server_knows() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir_all(at("deep/full")).unwrap();
    std::fs::write(at("deep/full/f"), "content").unwrap();
    std::os::unix::fs::symlink("/etc", at("deep/escape")).unwrap();
    let options = storage::PosixOptions {
        quota_bytes: Some(20),
        ..storage::PosixOptions::default()
    };
    let store = storage::Posix::open(directory.path(), &options).unwrap();
    let exports = Exports::new(vec![export("/data", AnonymousAccess::Write, store)]);
    let server = Server::start(|settings| settings.site.exports = SharedExports::new(exports));
    let mut raw = server.client().await;
    let handle = raw.opened("/data/deep/new", OpenOptions::NEW).await;
    let write = Request::Write(Write {
        handle,
        offset: 0,
        path: 0,
        data_bytes: 4096,
    });
    let mut answers = vec![raw.ask_with(&write, &[b'x'; 4096]).await];
    for name in [
        "/data/deep/escape/x",
        "/data/deep/full/f/x",
        "/data/deep/full",
        "/data/deep/gone",
    ] {
        let argument = || Argument::new(name.as_bytes());
        let sums = xroot_wire::request::Query::new(xroot_wire::request::QueryKind::Checksum, name.as_bytes());
        for request in [
            Request::Stat(Stat::path(name.as_bytes())),
            open(name, OpenOptions::READ),
            open(name, OpenOptions::UPDATE),
            Request::Query(sums),
            Request::Remove(Remove { path: argument() }),
            Request::Rename(Rename::new(name.as_bytes(), b"/data/deep/full/f/y")),
        ] {
            answers.push(raw.ask(&request).await);
        }
    }
    let disk = directory.path().to_str().unwrap();
    let failed = answers.iter().filter(|answer| answer.status == 4003);
    let texts: Vec<_> = failed
        .map(|answer| String::from_utf8_lossy(&answer.body[4..]).into_owned())
        .collect();
    assert!(texts.len() > 15, "{texts:?}");
    for text in texts {
        assert!(!text.contains(disk), "{text}");
        for (begin, _) in text.match_indices("/deep") {
            assert!(text[..begin].ends_with("/data"), "{text}");
        }
    }
}
