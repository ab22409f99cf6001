//! Names, metadata and queries.

use endpoint::{Exports, SharedExports};
use policy::AnonymousAccess;
use storage::Memory;
use xroot_wire::request::{
    AttributeAction, ChangeMode, FileAttributes, ListDirectory, Locate, MakeDirectory, PathArguments, Prepare, Query,
    QueryKind, Remove, RemoveDirectory, Rename, Request, Stat, StatMany,
};
use xroot_wire::response::{AttributeAnswer, AttributeList, ListingReader};
use xroot_wire::{
    Argument, AttributeOptions, ErrorNumber, FileHandle, ListOptions, LocateOptions, PrepareExtraOptions,
    PrepareOptions,
};

use crate::harness::{Raw, Server, export};

fn stat(path: &str) -> Request<'_> {
    Request::Stat(Stat::path(path.as_bytes()))
}

fn remove(path: &str) -> Request<'_> {
    Request::Remove(Remove {
        path: Argument::new(path.as_bytes()),
    })
}

async fn list(raw: &mut Raw, path: &str, options: ListOptions) -> Vec<String> {
    let request = Request::ListDirectory(ListDirectory {
        options,
        path: Argument::new(path.as_bytes()),
    });
    raw.say(1, &request).await;
    let mut reader = ListingReader::new(!options.is_empty());
    let mut names = Vec::new();
    let mut entry = |entry: xroot_wire::response::ListedEntry| {
        let stat = entry
            .stat
            .map(|stat| format!(" {}", stat.size_bytes))
            .unwrap_or_default();
        let checksum = entry.checksum.map(|sum| format!(" {sum}")).unwrap_or_default();
        names.push(format!("{}{stat}{checksum}", entry.name));
    };
    loop {
        let answer = raw.answer().await;
        let last = answer.status == 0;
        assert!(last || answer.status == 4000, "{answer:?}");
        reader.feed(&answer.body, &mut entry).unwrap();
        if last {
            break;
        }
    }
    reader.finish(&mut entry).unwrap();
    names.sort();
    names
}

#[tokio::test]
async fn directories_are_listed_with_and_without_more() {
    let server = Server::open();
    server.put("/d/a", b"12345");
    server.put("/d/sub/b", b"");
    let mut raw = server.client().await;
    assert_eq!(list(&mut raw, "/data/d", ListOptions::empty()).await, ["a", "sub"]);
    assert_eq!(list(&mut raw, "/data/d/", ListOptions::STAT).await, ["a 5", "sub 0"]);
    let with_sums = list(&mut raw, "/data/d", ListOptions::CHECKSUM).await;
    assert_eq!(with_sums, ["a 5 adler32:none", "sub 0"]);
    assert_eq!(
        list(&mut raw, "/", ListOptions::STAT).await,
        ["data 0"],
        "above all exports"
    );
    for index in 0..3000 {
        server.put(&format!("/many/{index:04}-and-a-name-of-some-length"), b"");
    }
    assert_eq!(list(&mut raw, "/data/many", ListOptions::STAT).await.len(), 3000);
    let file = Request::ListDirectory(ListDirectory {
        options: ListOptions::empty(),
        path: Argument::new(b"/data/d/a"),
    });
    assert_eq!(raw.ask(&file).await.error(), ErrorNumber::FILE_SYSTEM);
}

#[tokio::test]
async fn names_are_made_changed_and_removed() {
    let server = Server::open();
    server.put("/f", b"12345");
    let mut raw = server.client().await;
    let make = |path: &'static str, options| {
        Request::MakeDirectory(MakeDirectory {
            options,
            mode: 0o755,
            path: Argument::new(path.as_bytes()),
        })
    };
    assert_eq!(raw.ask(&make("/data/a/b", 0)).await.error(), ErrorNumber::NOT_FOUND);
    raw.ask(&make("/data/a/b", MakeDirectory::MAKE_PATH)).await.ok();
    raw.ask(&make("/data/a/b", 0)).await.ok();
    let rename = |from: &'static str, to: &'static str| Request::Rename(Rename::new(from.as_bytes(), to.as_bytes()));
    raw.ask(&rename("/data/f", "/data/a/b/g")).await.ok();
    assert_eq!(
        raw.ask(&rename("/data/f", "/data/h")).await.error(),
        ErrorNumber::NOT_FOUND
    );
    for (from, to) in [
        ("/data/a/b/g", "/data/a/b"),
        ("/data/a/b", "/data/a"),
        ("/data/a", "/data/a/b/c"),
    ] {
        let refused = raw.ask(&rename(from, to)).await.error();
        assert_eq!(refused, ErrorNumber::NOT_AUTHORIZED, "{from} {to}");
    }
    let chmod = Request::ChangeMode(ChangeMode {
        mode: 0o600,
        path: Argument::new(b"/data/a/b/g"),
    });
    raw.ask(&chmod).await.ok();
    assert!(raw.ask(&stat("/data/a/b/g")).await.text().contains(" 0600 "));
    let kinds = Request::StatMany(StatMany {
        paths: PathArguments::new(b"/data/a\n/data/a/b/g"),
    });
    assert_eq!(raw.ask(&kinds).await.ok(), [2, 0]);
    let rmdir = |path: &'static str| {
        Request::RemoveDirectory(RemoveDirectory {
            path: Argument::new(path.as_bytes()),
        })
    };
    assert_eq!(raw.ask(&rmdir("/data/a/b/g")).await.error(), ErrorNumber::FILE_SYSTEM);
    assert_eq!(raw.ask(&rmdir("/data/a/b")).await.status, 4003, "not empty");
    raw.ask(&remove("/data/a/b/g")).await.ok();
    raw.ask(&rmdir("/data/a/b")).await.ok();
    raw.ask(&remove("/data/a")).await.ok();
    assert_eq!(raw.ask(&remove("/data/a")).await.error(), ErrorNumber::NOT_FOUND);
    for bad in ["/data/../x", "data/f", "/data/\u{1}"] {
        assert_eq!(raw.ask(&stat(bad)).await.error(), ErrorNumber::NOT_AUTHORIZED, "{bad}");
    }
    for above in ["/data", "/"] {
        assert_eq!(
            raw.ask(&remove(above)).await.error(),
            ErrorNumber::NOT_AUTHORIZED,
            "{above}"
        );
    }
}

#[tokio::test]
async fn nothing_is_done_without_the_right_to_it() {
    let server = Server::start(|settings| {
        let files = Memory::new(1 << 20);
        let readable = export("/data", AnonymousAccess::Read, files);
        let closed = export("/closed", AnonymousAccess::None, Memory::new(1 << 20));
        settings.site.exports = SharedExports::new(Exports::new(vec![readable, closed]));
    });
    let mut raw = server.client().await;
    raw.ask(&stat("/data")).await.ok();
    let upload = crate::harness::open("/data/f", xroot_wire::OpenOptions::NEW);
    for request in [
        stat("/closed"),
        stat("/closed/none"),
        remove("/data/x"),
        upload,
        Request::Rename(Rename::new(b"/data/x", b"/data/y")),
        Request::Query(Query::new(QueryKind::Checksum, b"/closed/f")),
    ] {
        assert_eq!(
            raw.ask(&request).await.error(),
            ErrorNumber::NOT_AUTHORIZED,
            "{request:?}"
        );
    }
    assert_eq!(raw.ask(&stat("/elsewhere")).await.error(), ErrorNumber::NOT_FOUND);
}

#[tokio::test]
async fn questions_are_answered_or_refused() {
    let server = Server::open();
    server.put("/f", b"12345");
    let mut raw = server.client().await;
    let query = |kind, argument: &'static str| Request::Query(Query::new(kind, argument.as_bytes()));
    let config = raw
        .ask(&query(QueryKind::Config, "bind_max tpc readv_iov_max\nchksum\0"))
        .await
        .ok();
    let expected = "15\n1\n1024\n0:adler32,1:crc32c,2:md5,3:sha-256\n";
    assert_eq!(String::from_utf8(config).unwrap(), expected);
    let space = raw.ask(&query(QueryKind::Space, "/data\0")).await.text();
    assert!(
        space.starts_with("oss.cgroup=public&oss.space=1073741824&oss.free="),
        "{space}"
    );
    let fixed = raw.ask(&query(QueryKind::ExtendedAttributes, "/data/f")).await.text();
    assert!(fixed.contains("&oss.type=f&oss.used=5&"), "{fixed}");
    let statistics = raw.ask(&query(QueryKind::Statistics, "a")).await.text();
    assert!(statistics.starts_with("<statistics "), "{statistics}");
    for kind in [
        QueryKind::Opaque,
        QueryKind::OpaquePath,
        QueryKind::PrepareStatus,
        QueryKind::Visa,
    ] {
        assert_eq!(raw.ask(&query(kind, "x")).await.error(), ErrorNumber::UNSUPPORTED);
    }
    let vfs = Stat {
        options: Stat::SPACE,
        ..Stat::path(b"/data")
    };
    assert!(raw.ask(&Request::Stat(vfs)).await.text().starts_with("1 1023 0 0 0 0"));
    let locate = |path: &'static str| {
        Request::Locate(Locate {
            options: LocateOptions::empty(),
            path: Argument::new(path.as_bytes()),
        })
    };
    let here = format!("Sw{}", server.address);
    assert_eq!(raw.ask(&locate("*/data/none")).await.text(), here);
    assert_eq!(raw.ask(&locate("*/")).await.text(), here, "above all exports");
    assert_eq!(raw.ask(&locate("/data/f")).await.text(), here);
    assert_eq!(raw.ask(&locate("/data/none")).await.error(), ErrorNumber::NOT_FOUND);
    let prepare = |options, paths| {
        Request::Prepare(Prepare {
            options,
            priority: 0,
            port: 0,
            extra_options: PrepareExtraOptions::empty(),
            paths: PathArguments::new(paths),
        })
    };
    let order = raw
        .ask(&prepare(PrepareOptions::STAGE, b"/data/f\n/data/f"))
        .await
        .text();
    assert!(!order.is_empty(), "the order has a name");
    assert_eq!(
        raw.ask(&prepare(PrepareOptions::STAGE, b"/data/f\n/data/none"))
            .await
            .error(),
        ErrorNumber::NOT_FOUND
    );
    assert_eq!(
        raw.ask(&prepare(PrepareOptions::CANCEL, b"1")).await.error(),
        ErrorNumber::UNSUPPORTED
    );
    raw.ask(&prepare(PrepareOptions::WRITE_MODE, b"/data/f")).await.ok();
    let evict = |paths| match prepare(PrepareOptions::empty(), paths) {
        Request::Prepare(prepare) => Request::Prepare(Prepare {
            extra_options: PrepareExtraOptions::EVICT,
            ..prepare
        }),
        other => other,
    };
    raw.ask(&evict(b"/data/f")).await.ok();
    assert_eq!(
        raw.ask(&evict(b"/data/f\n/data/none")).await.error(),
        ErrorNumber::NOT_FOUND
    );
}

#[tokio::test]
async fn attributes_are_kept_and_told_one_by_one() {
    let server = Server::open();
    server.put("/f", b"12345");
    let mut raw = server.client().await;
    let attributes = |action, options| {
        Request::FileAttributes(FileAttributes {
            handle: FileHandle::default(),
            path: Some(Argument::new(b"/data/f")),
            options,
            action,
        })
    };
    let set = || AttributeAction::Set(vec![(&b"a1"[..], &b"xyz"[..]), (b"b2", b"q")]);
    let body = raw.ask(&attributes(set(), AttributeOptions::empty())).await.ok();
    assert_eq!(body, b"\0\x02\0\0a1\0\0\0b2\0");
    let body = raw.ask(&attributes(set(), AttributeOptions::NEW)).await.ok();
    assert_eq!(body[0], 2, "both exist");
    let get = AttributeAction::Get(vec![&b"a1"[..], b"nope"]);
    let body = raw.ask(&attributes(get, AttributeOptions::empty())).await.ok();
    let AttributeAnswer::Values(entries) = AttributeAnswer::parse_values(&body).unwrap() else {
        panic!("{body:?}");
    };
    assert_eq!((&entries[0].value[..], entries[0].status.error), (&b"xyz"[..], None));
    assert_eq!(entries[1].status.error, Some(ErrorNumber::ATTRIBUTE_NOT_FOUND));
    let body = raw
        .ask(&attributes(AttributeAction::List, AttributeOptions::WITH_VALUES))
        .await
        .ok();
    let AttributeList::Values(values) = AttributeList::parse(&body, true).unwrap() else {
        panic!("{body:?}");
    };
    assert_eq!(values.len(), 2);
    let delete = AttributeAction::Delete(vec![&b"a1"[..], b"nope"]);
    let body = raw.ask(&attributes(delete, AttributeOptions::empty())).await.ok();
    assert_eq!(&body[..2], [1, 2]);
    let missing = Request::FileAttributes(FileAttributes {
        handle: FileHandle::default(),
        path: Some(Argument::new(b"/data/none")),
        options: AttributeOptions::empty(),
        action: AttributeAction::List,
    });
    assert_eq!(raw.ask(&missing).await.error(), ErrorNumber::NOT_FOUND);
}

#[tokio::test]
async fn a_listing_leaves_out_what_its_reader_may_not_look_at() {
    let store = Memory::new(1 << 20);
    let area = |text| policy::Area::parse(text).unwrap();
    let rule = policy::Rule {
        area: area("/data"),
        may: policy::parse_given("read").unwrap(),
        except: vec![area("/data/closed"), area("/data/pre*")],
        ..policy::Rule::default()
    };
    let exports = Exports::with_rules(vec![export("/data", AnonymousAccess::None, store.clone())], vec![rule]);
    let server = Server::start(|settings| settings.site.exports = SharedExports::new(exports));
    let server = Server { store, ..server };
    for path in ["/closed/f", "/pre-1", "/seen", "/d/f"] {
        server.put(path, b"1");
    }
    let mut raw = server.client().await;
    assert_eq!(list(&mut raw, "/data", ListOptions::empty()).await, ["d", "seen"]);
    assert_eq!(list(&mut raw, "/data", ListOptions::STAT).await, ["d 0", "seen 1"]);
    let with_sums = list(&mut raw, "/data", ListOptions::CHECKSUM).await;
    assert_eq!(with_sums, ["d 0", "seen 1 adler32:none"]);
}
