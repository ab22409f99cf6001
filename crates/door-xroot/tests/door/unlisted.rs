//! What listings leave out: a client of ours can ask how many names that are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use endpoint::{Exports, SharedExports};
use policy::{AnonymousAccess, Area, Rule};
use storage::{Posix, PosixOptions};
use xroot_wire::request::{ListDirectory, Query, QueryKind, Request};
use xroot_wire::{Argument, ErrorNumber, ListOptions};

use crate::harness::{Server, closed, export};

/// A server that allows nothing below `/data/closed`, and everything elsewhere.
fn server(directory: &Path) -> Server {
    let store = Posix::open(directory, &PosixOptions::default()).unwrap();
    let exports = Exports::with_rules(
        vec![export("/data", AnonymousAccess::Write, store)],
        vec![closed("/data/closed")],
    );
    Server::start(|settings| settings.site.exports = SharedExports::new(exports))
}

fn list(path: &str) -> Request<'_> {
    Request::ListDirectory(ListDirectory {
        options: ListOptions::empty(),
        path: Argument::new(path.as_bytes()),
    })
}

fn ask(argument: &str) -> Request<'_> {
    Request::Query(Query::unlisted(argument.as_bytes()))
}

#[tokio::test]
async fn names_that_no_path_can_hold_are_counted_for_who_may_list_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &[u8]| directory.path().join(OsStr::from_bytes(name));
    for name in ["closed", "plain", "strange"] {
        std::fs::create_dir(at(name.as_bytes())).unwrap();
    }
    for name in [&b"closed/\xff"[..], b"plain/f", b"strange/\xff", b"strange/line\nfeed"] {
        std::fs::write(at(name), "x").unwrap();
    }
    let server = server(directory.path());
    let mut raw = server.client().await;
    assert!(raw.session.is_own(), "a client knows whom it may ask");
    for listed_before in [true, false] {
        for (path, names) in [("/data/strange", 2), ("/data/plain", 0), ("/", 0)] {
            if listed_before {
                raw.ask(&list(path)).await.ok();
            }
            let told = raw.ask(&ask(&format!("{path}?crossload.unlisted="))).await.text();
            assert_eq!(told, format!("names={names}&links=0"), "{path}");
        }
    }
    // The count for one directory is not used for another.
    raw.ask(&list("/data/strange")).await.ok();
    assert_eq!(
        raw.ask(&ask("/data/plain?crossload.unlisted")).await.text(),
        "names=0&links=0"
    );
    std::fs::remove_file(at(b"strange/\xff")).unwrap();
    assert_eq!(
        raw.ask(&ask("/data/strange?crossload.unlisted")).await.text(),
        "names=1&links=0"
    );
}

/// The text of a refusal, without the name of the request.
fn words(body: &[u8]) -> String {
    let text = String::from_utf8(body[4..].to_vec()).unwrap();
    text.split(" [").next().unwrap().to_owned()
}

#[tokio::test]
async fn who_may_not_list_a_directory_learns_no_more_from_the_question() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("closed")).unwrap();
    std::fs::write(directory.path().join("f"), "x").unwrap();
    let server = server(directory.path());
    let mut raw = server.client().await;
    for path in ["/data/closed", "/data/none", "/data/f", "/elsewhere"] {
        let listed = raw.ask(&list(path)).await;
        let told = raw.ask(&ask(&format!("{path}?crossload.unlisted"))).await;
        assert_eq!(told.error(), listed.error(), "{path}");
        assert_eq!(words(&told.body), words(&listed.body), "{path}");
    }
    // Other queries for plug-ins are refused as before.
    for kind in [QueryKind::Opaque, QueryKind::OpaquePath] {
        let query = Request::Query(Query::new(kind, b"/data/closed"));
        assert_eq!(raw.ask(&query).await.error(), ErrorNumber::UNSUPPORTED);
    }
}

#[tokio::test]
async fn what_rules_close_is_not_counted() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &[u8]| directory.path().join(OsStr::from_bytes(name));
    std::fs::create_dir(at(b"closed")).unwrap();
    for name in [&b"odd\xff"[..], b"pre-odd\xff", b"pre-odd\n", b"pre"] {
        std::fs::write(at(name), "x").unwrap();
    }
    for (target, name) in [("gone", "dead"), ("gone", "pre-dead"), ("closed/gone", "closed-dead")] {
        std::os::unix::fs::symlink(target, at(name.as_bytes())).unwrap();
    }
    let store = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
    let area = |text| Area::parse(text).unwrap();
    let rule = Rule {
        area: area("/data"),
        may: policy::parse_given("read").unwrap(),
        except: vec![area("/data/closed"), area("/data/pre-*")],
        ..Rule::default()
    };
    let exports = Exports::with_rules(vec![export("/data", AnonymousAccess::None, store)], vec![rule]);
    let server = Server::start(|settings| settings.site.exports = SharedExports::new(exports));
    let mut raw = server.client().await;
    let told = raw.ask(&ask("/data?crossload.unlisted")).await.text();
    assert_eq!(told, "names=1&links=1");
}
