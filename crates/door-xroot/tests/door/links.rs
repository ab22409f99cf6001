//! Symbolic links within an export: the rights of the path that they lead to count, for every
//! request.

use std::path::Path;

use endpoint::{Exports, SharedExports};
use policy::AnonymousAccess;
use storage::{Posix, PosixOptions};
use xroot_wire::request::{
    AttributeAction, ChangeMode, FileAttributes, ListDirectory, MakeDirectory, Query, QueryKind, Remove, Rename,
    Request, Stat, Truncate, TruncateTarget,
};
use xroot_wire::{Argument, AttributeOptions, ErrorNumber, FileHandle, ListOptions, OpenOptions};

use crate::harness::{Server, closed, export, open};

/// A server that allows nothing below `/data/closed`, and everything elsewhere.
fn server(directory: &Path) -> Server {
    for name in ["closed/d", "open/d"] {
        std::fs::create_dir_all(directory.join(name)).unwrap();
        std::fs::write(directory.join(name).join("f"), "content").unwrap();
    }
    for (target, name) in [("closed", "bad"), ("open", "good")] {
        std::os::unix::fs::symlink(target, directory.join(name)).unwrap();
    }
    let store = Posix::open(directory, &PosixOptions::default()).unwrap();
    let exports = Exports::with_rules(
        vec![export("/data", AnonymousAccess::Write, store)],
        vec![closed("/data/closed")],
    );
    Server::start(|settings| settings.site.exports = SharedExports::new(exports))
}

/// Requests about what lies below a directory; none of them removes it.
fn requests(paths: &[String; 5]) -> Vec<Request<'_>> {
    let [file, new, directory, moved, made] = paths.each_ref().map(|path| path.as_bytes());
    let argument = Argument::new;
    vec![
        Request::Stat(Stat::path(file)),
        open(&paths[0], OpenOptions::READ),
        open(&paths[0], OpenOptions::UPDATE | OpenOptions::FORCE),
        open(&paths[1], OpenOptions::NEW),
        Request::ListDirectory(ListDirectory {
            options: ListOptions::empty(),
            path: argument(directory),
        }),
        Request::Query(Query {
            kind: QueryKind::Checksum,
            handle: FileHandle::default(),
            argument: argument(file),
        }),
        Request::Truncate(Truncate {
            target: TruncateTarget::Path(argument(file)),
            size_bytes: 7,
        }),
        Request::ChangeMode(ChangeMode {
            mode: 0o644,
            path: argument(file),
        }),
        Request::FileAttributes(FileAttributes {
            path: Some(argument(file)),
            handle: FileHandle::default(),
            options: AttributeOptions::empty(),
            action: AttributeAction::List,
        }),
        Request::MakeDirectory(MakeDirectory {
            options: 0,
            mode: 0,
            path: argument(made),
        }),
        Request::Rename(Rename::new(file, moved)),
        Request::Rename(Rename::new(moved, file)),
        Request::Remove(Remove { path: argument(file) }),
        Request::Remove(Remove { path: argument(new) }),
    ]
}

#[tokio::test]
async fn the_rights_of_what_a_link_leads_to_count_with_every_request() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path());
    std::fs::write(directory.path().join("moved"), "content").unwrap();
    let paths = |link: &str| {
        [
            format!("/data/{link}/d/f"),
            format!("/data/{link}/d/new"),
            format!("/data/{link}/d"),
            "/data/moved".to_owned(),
            format!("/data/{link}/made"),
        ]
    };
    let mut raw = server.client().await;
    let (bad, good) = (paths("bad"), paths("good"));
    for request in &requests(&bad)[..13] {
        let answer = raw.ask(request).await;
        assert_eq!(answer.status, 4003, "{request:?}");
        assert_eq!(answer.error(), ErrorNumber::NOT_AUTHORIZED, "{request:?}");
    }
    for request in &requests(&good)[..13] {
        let mut answer = raw.ask(request).await;
        if answer.status == 4006 {
            // The checksum comes late.
            answer = raw.answer().await;
        }
        assert!(matches!(answer.status, 0 | 4001), "{request:?}: {answer:?}");
    }
    assert_eq!(std::fs::read_dir(directory.path().join("closed")).unwrap().count(), 1);
    assert_eq!(std::fs::read(directory.path().join("closed/d/f")).unwrap(), b"content");
}

#[tokio::test]
async fn a_client_may_limit_where_links_lead() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path());
    std::fs::write(directory.path().join("moved"), "content").unwrap();
    let paths = |limit: &str| {
        [
            format!("/data/good/d/f{limit}"),
            format!("/data/good/d/new{limit}"),
            format!("/data/good/d{limit}"),
            "/data/moved".to_owned(),
            format!("/data/good/made{limit}"),
        ]
    };
    let mut raw = server.client().await;
    for limit in ["?crossload.links=none", "?crossload.links=/data/closed"] {
        for request in &requests(&paths(limit))[..13] {
            let answer = raw.ask(request).await;
            assert_eq!(answer.status, 4003, "{limit} {request:?}");
            assert_eq!(answer.error(), ErrorNumber::NOT_AUTHORIZED, "{limit} {request:?}");
        }
    }
    // The other end of a rename has to be within it, too.
    for request in &requests(&paths("?crossload.links=/data"))[..13] {
        let mut answer = raw.ask(request).await;
        if answer.status == 4006 {
            // The checksum comes late.
            answer = raw.answer().await;
        }
        assert!(matches!(answer.status, 0 | 4001), "{request:?}: {answer:?}");
    }
}
