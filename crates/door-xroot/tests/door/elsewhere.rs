//! Exports whose files are on other servers: who is sent where, and with what rights.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use door_xroot::Settings;
use endpoint::{
    Direction, Exports, OtherServers, Purpose, Relayed, SharedExports, SharedSpace, Spoken, Target, Wanted,
};
use policy::AnonymousAccess;
use storage::{Answer as Told, Memory, Space, WriteHandle};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, LogicalPath, Phase, Side};
use xroot_wire::request::{
    AttributeAction, ChangeMode, Expect, FileAttributes, ListDirectory, Locate, Login, Prepare, Protocol, Query,
    QueryKind, Request, Stat, Truncate, TruncateTarget, UserName,
};
use xroot_wire::response::{Answer as Parsed, Redirect, RedirectTarget, ResponseHeader};
use xroot_wire::{
    Argument, AttributeOptions, ErrorNumber, FileHandle, HELLO, ListOptions, LocateOptions, LoginAbilities,
    OpenOptions, ProtocolOptions, Status, StreamId,
};

use crate::harness::{Answer, Raw, Server, export, open};

const READ: OpenOptions = OpenOptions::READ;
const NEW: OpenOptions = OpenOptions::UPDATE.union(OpenOptions::NEW);
const REPLACE: OpenOptions = OpenOptions::UPDATE.union(OpenOptions::TRUNCATE);

/// What was asked of the other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    path: String,
    purpose: Purpose,
    tried: Vec<String>,
    refresh: bool,
}

/// Other servers that have the files of a table, and answer the next questions with errors.
#[derive(Default)]
pub(crate) struct Fake {
    /// Where files are: whole URLs.
    places: Mutex<HashMap<String, Vec<String>>>,
    asked: Mutex<Vec<Asked>>,
    errors: Mutex<Vec<ErrorCode>>,
    /// The URLs of questions for checksums.
    pub(crate) questions: Mutex<Vec<Location>>,
    /// Whether they are servers of ours.
    pub(crate) are_ours: AtomicBool,
    /// Whether silent ones have been so for long.
    are_long_gone: AtomicBool,
}

/// Where new files go.
const NEW_FILES: &str = "root://d9:1099";

impl Fake {
    pub(crate) fn put(&self, path: &str, places: &[&str]) {
        let places = places.iter().map(|place| (*place).to_owned()).collect();
        self.places.lock().unwrap().insert(path.to_owned(), places);
    }

    fn fails(&self, code: ErrorCode, times: usize) {
        *self.errors.lock().unwrap() = vec![code; times];
    }

    fn last(&self) -> Asked {
        self.asked.lock().unwrap().last().cloned().unwrap()
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn targets(&self, wanted: &Wanted<'_>) -> types::Result<Vec<Target>> {
        assert_eq!(wanted.spoken, Spoken::Xrootd);
        self.asked.lock().unwrap().push(Asked {
            path: wanted.path.as_str().to_owned(),
            purpose: wanted.purpose,
            tried: wanted.tried.to_vec(),
            refresh: wanted.refresh,
        });
        let error = |code| Error::new(code, Side::Active, Phase::Open).with_subject(wanted.path);
        if let Some(code) = self.errors.lock().unwrap().pop() {
            return Err(error(code));
        }
        let places = self.places.lock().unwrap();
        let (places, exists) = match places.get(wanted.path.as_str()) {
            Some(places) => (places.clone(), true),
            None => match wanted.purpose {
                Purpose::Store { .. } => (vec![format!("{NEW_FILES}/{}", wanted.path)], false),
                _ => return Err(error(ErrorCode::NotFound)),
            },
        };
        let is_left = |place: &String| !wanted.tried.iter().any(|tried| place.contains(tried.as_str()));
        let left = places.iter().filter(|place| is_left(place));
        let targets: Vec<Target> = left
            .zip(0..)
            .map(|(place, number)| Target {
                location: Location::parse(place).unwrap(),
                endpoint: Box::new(Location::parse(place).unwrap()),
                is_ours: self.are_ours.load(Ordering::Relaxed),
                exists,
                number,
                node: place.as_str().into(),
            })
            .collect();
        match targets.is_empty() {
            true => Err(error(ErrorCode::NoNode)),
            false => Ok(targets),
        }
    }
}

impl OtherServers for Fake {
    fn direct<'a>(&'a self, wanted: &'a Wanted<'a>) -> Told<'a, Direction> {
        Box::pin(async move {
            if wanted.path.as_str() == "/data/directory" {
                return Ok(Direction::Directory);
            }
            Ok(Direction::Server(self.targets(wanted)?.remove(0)))
        })
    }

    fn locate<'a>(&'a self, wanted: &'a Wanted<'a>) -> Told<'a, Vec<Target>> {
        Box::pin(async move { self.targets(wanted) })
    }

    fn relay<'a>(&'a self, _relayed: &'a Relayed<'a>) -> Told<'a, Arc<dyn WriteHandle>> {
        unreachable!("this protocol's clients follow redirections")
    }

    fn space<'a>(&'a self, _path: &'a LogicalPath) -> Told<'a, SharedSpace> {
        let space = Space {
            total_bytes: 100,
            free_bytes: 50,
            used_bytes: 50,
            quota_bytes: None,
            device: None,
        };
        Box::pin(async move {
            Ok(SharedSpace {
                space,
                largest_free_bytes: 30,
                nodes: 2,
                heard: 2,
                unheard: 0,
            })
        })
    }

    fn may_return(&self, _path: &LogicalPath) -> bool {
        !self.are_long_gone.load(Ordering::Relaxed)
    }

    fn checksum<'a>(
        &'a self,
        _target: &'a Target,
        location: Location,
        algorithm: ChecksumAlgorithm,
    ) -> Told<'a, Checksum> {
        self.questions.lock().unwrap().push(location);
        Box::pin(async move { Ok(Checksum::from_hex(algorithm, "0badcafe").unwrap()) })
    }

    fn explain<'a>(&'a self, _wanted: &'a Wanted<'a>, _shows_servers: bool) -> Told<'a, serde_json::Value> {
        Box::pin(async { Ok(serde_json::Value::Null) })
    }
}

pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) others: Arc<Fake>,
}

impl Site {
    /// A door whose files are elsewhere, with these rights for all.
    fn with(anonymous: AnonymousAccess) -> Self {
        Self::changed(anonymous, |_| {})
    }

    /// The same with other settings.
    pub(crate) fn changed(anonymous: AnonymousAccess, change: impl FnOnce(&mut Settings)) -> Self {
        let others = Arc::new(Fake::default());
        let there = others.clone();
        let server = Server::start(move |settings| {
            let mut export = export("/data", anonymous, Memory::new(1 << 20));
            export.store = export.store.at(there);
            settings.site.exports = SharedExports::new(Exports::new(vec![export]));
            change(settings);
        });
        Self { server, others }
    }

    fn open() -> Self {
        Self::with(AnonymousAccess::Write)
    }

    /// A connection that has logged in with these abilities.
    pub(crate) async fn client(&self, abilities: LoginAbilities) -> Raw {
        let mut raw = self.server.connect().await;
        let protocol = Protocol {
            version: 0x511,
            options: ProtocolOptions::empty(),
            expect: Expect::Login,
        };
        let mut bytes = HELLO.to_vec();
        Request::Protocol(protocol).encode(StreamId::ZERO, &mut bytes);
        raw.send(&bytes).await;
        // The last number says that it is a redirector, and the flags that it is a manager.
        let hello = raw.read(16).await;
        assert_eq!(hello[12..], [0, 0, 0, 0]);
        let flags = raw.answer().await.ok();
        assert_eq!(flags[7] & 3, 2, "{flags:?}");
        let login = Login {
            process: 7,
            user: UserName::new("tester"),
            extra_abilities: 0,
            abilities,
            capabilities: 0x85,
            cgi: b"",
        };
        raw.ask(&Request::Login(login)).await.ok();
        raw
    }
}

/// Where an answer sends the client.
#[track_caller]
pub(crate) fn sent(answer: &Answer) -> Redirect {
    let header = ResponseHeader::new(StreamId::ZERO, Status::Redirect, answer.body.len());
    assert_eq!(
        answer.status,
        header.status,
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
    match Parsed::parse(&header, &answer.body).unwrap() {
        Parsed::Redirect(redirect) => redirect,
        other => panic!("{other:?}"),
    }
}

/// Host and port, or the URL.
#[track_caller]
fn place(answer: &Answer) -> String {
    let redirect = sent(answer);
    assert_eq!((redirect.cgi, redirect.login_token), (None, None));
    match redirect.target {
        RedirectTarget::Host { host, port } => format!("{host}:{}", port.unwrap()),
        RedirectTarget::Url { url, flags } => {
            assert_eq!(flags, 0);
            url
        }
    }
}

/// The seconds that the client is to wait.
#[track_caller]
fn wait_s(answer: &Answer) -> u32 {
    assert_eq!(answer.status, 4005, "{answer:?}");
    u32::from_be_bytes(answer.body[..4].try_into().unwrap())
}

#[tokio::test]
async fn every_open_goes_to_the_server_that_has_the_file_or_takes_it() {
    let site = Site::open();
    site.others.put("/data/f", &["root://d1:1094//data/f"]);
    let mut raw = site.client(LoginAbilities::FULL_URL).await;
    let store = |size_bytes, is_new| Purpose::Store { size_bytes, is_new };
    for (path, options, wanted, purpose) in [
        ("/data/f", READ, "d1:1094", Purpose::Read),
        ("/data/f", OpenOptions::UPDATE, "d1:1094", Purpose::Update),
        ("/data/f?oss.asize=9", REPLACE, "d1:1094", store(Some(9), false)),
        ("/data/g?oss.asize=19", NEW, "d9:1099", store(Some(19), true)),
        ("/data/g", REPLACE, "d9:1099", store(None, false)),
        // Third-party copies of every kind: the keys stay with the client.
        ("/data/f?tpc.stage=placement", READ, "d1:1094", Purpose::Read),
        ("/data/f?tpc.key=k&tpc.dst=d", READ, "d1:1094", Purpose::Read),
        ("/data/f?tpc.key=k&tpc.org=o", READ, "d1:1094", Purpose::Read),
        (
            "/data/g?oss.asize=3&tpc.key=k&tpc.src=s",
            NEW,
            "d9:1099",
            store(Some(3), true),
        ),
        ("/data/g?tpc.dlgon=1&tpc.src=s", NEW, "d9:1099", store(None, true)),
    ] {
        let answer = raw.ask(&open(path, options)).await;
        assert_eq!(place(&answer), wanted, "{path}");
        assert_eq!(site.others.last().purpose, purpose, "{path}");
        assert!(!site.others.last().refresh);
    }
    raw.ask(&open("/data/f", READ | OpenOptions::REFRESH)).await;
    assert!(site.others.last().refresh);
    let record = site.server.log.first(|record| record.method == "open").await;
    assert_eq!(record.sent_to.as_deref(), Some("root://d1:1094//data/f"));

    let missing = raw.ask(&open("/data/none", READ)).await;
    assert_eq!(missing.error(), ErrorNumber::NOT_FOUND);
    let missing = raw.ask(&open("/data/none", OpenOptions::UPDATE)).await;
    assert_eq!(missing.error(), ErrorNumber::NOT_FOUND);
    let directory = raw.ask(&open("/data/directory", READ)).await;
    assert_eq!(directory.error(), ErrorNumber::IS_DIRECTORY);
}

#[tokio::test]
async fn rights_are_asked_before_anything_is_told() {
    let site = Site::with(AnonymousAccess::None);
    site.others.put("/data/f", &["root://d1:1094//data/f"]);
    let mut raw = site.client(LoginAbilities::FULL_URL).await;
    for path in ["/data/f", "/data/none"] {
        for options in [READ, OpenOptions::UPDATE, REPLACE, NEW] {
            let refused = raw.ask(&open(path, options)).await;
            assert_eq!(refused.error(), ErrorNumber::NOT_AUTHORIZED, "{path} {options:?}");
        }
    }
    let argument = Argument::new(b"/data/f");
    let mut refused = vec![
        Request::Locate(Locate {
            options: LocateOptions::empty(),
            path: argument,
        }),
        Request::ChangeMode(ChangeMode {
            mode: 0o600,
            path: argument,
        }),
        Request::Truncate(Truncate {
            size_bytes: 0,
            target: TruncateTarget::Path(argument),
        }),
    ];
    for kind in [
        QueryKind::Checksum,
        QueryKind::CancelChecksum,
        QueryKind::ExtendedAttributes,
    ] {
        refused.push(query(kind));
    }
    for request in &refused {
        let answer = raw.ask(request).await;
        assert_eq!(answer.error(), ErrorNumber::NOT_AUTHORIZED, "{request:?}");
    }
    assert_eq!(site.others.count(), 0);

    // Who may create, but not replace, is not sent to a file that exists.
    let token = testsite::macaroon("activity:UPLOAD");
    let limited = Site::with(AnonymousAccess::None);
    limited.others.put("/data/f", &["root://d1:1094//data/f"]);
    let mut raw = limited.client(LoginAbilities::FULL_URL).await;
    let with_token = |path: &str| format!("{path}?authz=Bearer%20{token}");
    let created = raw.ask(&open(&with_token("/data/g"), REPLACE)).await;
    assert_eq!(place(&created), "d9:1099");
    let refused = raw.ask(&open(&with_token("/data/f"), REPLACE)).await;
    assert_eq!(refused.error(), ErrorNumber::NOT_AUTHORIZED);
    // With the demand for a new name it is sent there, and hears that the file exists.
    let new = raw.ask(&open(&with_token("/data/f"), NEW)).await;
    assert_eq!(place(&new), "d1:1094");
}

fn query(kind: QueryKind) -> Request<'static> {
    Request::Query(Query {
        kind,
        handle: FileHandle::default(),
        argument: Argument::new(b"/data/f"),
    })
}

#[tokio::test]
async fn what_only_the_holder_knows_is_asked_there() {
    let site = Site::open();
    site.others.put("/data/f", &["root://d1:1094//data/f"]);
    site.others.put("/data/g", &["root://d2:1094//data/g"]);
    let mut raw = site.client(LoginAbilities::FULL_URL).await;
    let argument = Argument::new(b"/data/f");
    let attributes = |action| {
        Request::FileAttributes(FileAttributes {
            action,
            options: AttributeOptions::empty(),
            handle: FileHandle::default(),
            path: Some(argument),
        })
    };
    let prepare = |paths: &'static [u8]| {
        Request::Prepare(Prepare {
            options: xroot_wire::PrepareOptions::STAGE,
            priority: 0,
            port: 0,
            extra_options: xroot_wire::PrepareExtraOptions::empty(),
            paths: xroot_wire::request::PathArguments::new(paths),
        })
    };
    for (request, purpose) in [
        (query(QueryKind::Checksum), Purpose::Read),
        (query(QueryKind::CancelChecksum), Purpose::Read),
        (query(QueryKind::ExtendedAttributes), Purpose::Read),
        (attributes(AttributeAction::List), Purpose::Read),
        (
            attributes(AttributeAction::Delete(vec![b"U.x".as_slice()])),
            Purpose::Update,
        ),
        (
            Request::ChangeMode(ChangeMode {
                mode: 0o600,
                path: argument,
            }),
            Purpose::Update,
        ),
        (
            Request::Truncate(Truncate {
                size_bytes: 0,
                target: TruncateTarget::Path(argument),
            }),
            Purpose::Update,
        ),
        (prepare(b"/data/f"), Purpose::Read),
    ] {
        let answer = raw.ask(&request).await;
        assert_eq!(place(&answer), "d1:1094", "{request:?}");
        assert_eq!(site.others.last().purpose, purpose, "{request:?}");
    }
    let spread = raw.ask(&prepare(b"/data/f\n/data/g")).await;
    assert_eq!(spread.error(), ErrorNumber::UNSUPPORTED);

    // Ours have nothing to prepare.
    site.others.are_ours.store(true, Ordering::Relaxed);
    raw.ask(&prepare(b"/data/f\n/data/g")).await.text();
    let space = Request::Query(Query {
        kind: QueryKind::Space,
        handle: FileHandle::default(),
        argument: Argument::new(b"/data"),
    });
    let space = raw.ask(&space).await.text();
    assert!(
        space.contains("oss.space=100&oss.free=50&oss.maxf=30&oss.used=50"),
        "{space}"
    );
    let list = Request::ListDirectory(ListDirectory {
        options: ListOptions::CHECKSUM | ListOptions::STAT,
        path: Argument::new(b"/data"),
    });
    assert_eq!(raw.ask(&list).await.error(), ErrorNumber::UNSUPPORTED);

    let role = Request::Query(Query {
        kind: QueryKind::Config,
        handle: FileHandle::default(),
        argument: Argument::new(b"role tpc"),
    });
    assert_eq!(raw.ask(&role).await.ok(), b"manager\n1\n");
}

#[tokio::test]
async fn locate_names_all_holders_and_this_server_for_listings() {
    let site = Site::open();
    site.others
        .put("/data/f", &["root://d1:1094//data/f", "roots://d2:1095//data/f"]);
    site.others
        .put("/data", &["root://d1:1094//data", "root://d3:1096//data"]);
    let mut raw = site.client(LoginAbilities::FULL_URL).await;
    let mut locate = async |path: &'static [u8], options| {
        let path = Argument::new(path);
        raw.ask(&Request::Locate(Locate { options, path })).await
    };
    let plain = LocateOptions::empty();
    assert_eq!(locate(b"/data/f", plain).await.text(), "Swd1:1094 Swd2:1095");
    assert_eq!(locate(b"*", plain).await.text(), "Swd1:1094 Swd3:1096");
    assert_eq!(locate(b"/data/none", plain).await.error(), ErrorNumber::NOT_FOUND);
    locate(b"/data/f", LocateOptions::REFRESH).await.text();
    assert!(site.others.last().refresh);
    let here = locate(b"*/data", LocateOptions::FOR_LISTING).await.text();
    assert_eq!(here, format!("Sw{}", site.server.address));

    let readers = Site::with(AnonymousAccess::Read);
    readers.others.put("/data/f", &["root://d1:1094//data/f"]);
    let mut raw = readers.client(LoginAbilities::FULL_URL).await;
    let request = Request::Locate(Locate {
        options: plain,
        path: Argument::new(b"/data/f"),
    });
    assert_eq!(raw.ask(&request).await.text(), "Srd1:1094");
}

#[tokio::test]
async fn a_url_is_sent_where_it_says_more_than_host_and_port() {
    let site = Site::open();
    site.others.put("/data/safe", &["roots://d1:1094//data/safe"]);
    site.others.put("/data/below", &["root://d2:1095//pool/data/below"]);
    site.others.put("/data/v6", &["root://[::1]:1096//data/v6"]);
    let mut able = site.client(LoginAbilities::FULL_URL).await;
    let mut old = site.client(LoginAbilities::empty()).await;
    for (path, url, host) in [
        ("/data/safe", "roots://d1//data/safe", Some("d1:1094")),
        ("/data/below", "root://d2:1095//pool/data/below", None),
        ("/data/v6", "[::1]:1096", Some("[::1]:1096")),
    ] {
        assert_eq!(place(&able.ask(&open(path, READ)).await), url);
        let answer = old.ask(&open(path, READ)).await;
        match host {
            Some(host) => assert_eq!(place(&answer), host),
            None => assert_eq!(answer.error(), ErrorNumber::UNSUPPORTED),
        }
    }
}

#[tokio::test]
async fn a_server_that_failed_is_not_chosen_again_even_if_others_share_its_host() {
    let site = Site::open();
    let places = ["root://d1:1//data/f", "root://d1:2//data/f", "root://d1:3//data/f"];
    site.others.put("/data/f", &places);
    let mut raw = site.client(LoginAbilities::FULL_URL).await;
    assert_eq!(place(&raw.ask(&open("/data/f", READ)).await), "d1:1");
    // As the reference client comes back: with the host's name, once more each time.
    let once = open("/data/f?tried=d1&triedrc=srverr", READ);
    assert_eq!(place(&raw.ask(&once).await), "d1:2");
    assert_eq!(site.others.last().tried, ["d1:1"]);
    let twice = open("/data/f?tried=d1,d1&triedrc=srverr,enoent", READ | OpenOptions::REFRESH);
    assert_eq!(place(&raw.ask(&twice).await), "d1:3");
    assert_eq!(site.others.last().tried, ["d1:1", "d1:2"]);
    let thrice = raw.ask(&open("/data/f?tried=d1,d1,d1", READ)).await;
    assert_eq!(thrice.error(), ErrorNumber::NO_SERVER);
    // The next open begins anew.
    assert_eq!(place(&raw.ask(&open("/data/f", READ)).await), "d1:1");
    assert!(site.others.last().tried.is_empty());
    // Another session knows the host alone.
    let mut other = site.client(LoginAbilities::FULL_URL).await;
    let lost = other.ask(&open("/data/f?tried=d1", READ)).await;
    assert_eq!(lost.error(), ErrorNumber::NO_SERVER);
    assert_eq!(site.others.last().tried, ["d1"]);
}

#[tokio::test]
async fn silent_servers_are_waited_for() {
    let site = Site::open();
    site.others.put("/data/f", &["root://d1:1094//data/f"]);
    let mut raw = site.client(LoginAbilities::FULL_URL).await;
    for code in [ErrorCode::NodesSilent, ErrorCode::NoNode] {
        site.others.fails(code, 2);
        for _ in 0..2 {
            assert_eq!(wait_s(&raw.ask(&open("/data/f", READ)).await), 1);
        }
        assert_eq!(place(&raw.ask(&open("/data/f", READ)).await), "d1:1094");
    }
    // Not for ever.
    site.others.fails(ErrorCode::NodesSilent, 100);
    let mut waits = 0;
    let last = loop {
        let answer = raw.ask(&open("/data/f", READ)).await;
        match answer.status {
            4005 => waits += 1,
            _ => break answer,
        }
    };
    assert_eq!(last.error(), ErrorNumber::NO_SERVER);
    assert_eq!(waits, door_xroot::limits::XROOT_WAITS_MAX);
    // Not where they have been away for long.
    site.others.are_long_gone.store(true, Ordering::Relaxed);
    site.others.fails(ErrorCode::NodesSilent, 1);
    let lost = raw.ask(&open("/data/f", READ)).await;
    assert_eq!(lost.error(), ErrorNumber::NO_SERVER);
    site.others.are_long_gone.store(false, Ordering::Relaxed);
    // Not by a client that does not want to.
    site.others.fails(ErrorCode::NodesSilent, 1);
    let hurried = raw.ask(&open("/data/f", READ | OpenOptions::NO_WAIT)).await;
    assert_eq!(hurried.error(), ErrorNumber::NO_SERVER);
    // Not where only servers are left that were tried in vain.
    site.others.fails(ErrorCode::NoNode, 1);
    let lost = raw.ask(&open("/data/f?tried=d1", READ)).await;
    assert_eq!(lost.error(), ErrorNumber::NO_SERVER);
    // No room is no room.
    site.others.fails(ErrorCode::NoSpace, 1);
    let full = raw.ask(&open("/data/g", NEW)).await;
    assert_eq!(full.error(), ErrorNumber::NO_SPACE);
}

#[tokio::test]
async fn a_server_with_files_of_its_own_says_so() {
    let server = Server::open();
    // The harness demands the role of a server.
    let mut raw = server.client().await;
    let stat = Request::Stat(Stat::path(b"/data"));
    raw.ask(&stat).await.ok();
    let role = Request::Query(Query {
        kind: QueryKind::Config,
        handle: FileHandle::default(),
        argument: Argument::new(b"role"),
    });
    assert_eq!(raw.ask(&role).await.ok(), b"server\n");
}
