//! A leaf against managers that are played by the test.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use endpoint::NameChanges;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use types::LogicalPath;
use xroot_wire::cms::{Code, Header, Login, LoginMode, Message, Presence, Reply, StatusFlags};

use super::*;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// A server that answers late does so when this file is asked for.
const SLOW: &str = "/data/slow";

#[derive(Default)]
struct Fake {
    files: Mutex<Vec<String>>,
    events: Mutex<Vec<Event>>,
    noted: Notify,
    is_released: AtomicBool,
    released: Notify,
}

impl Server for Fake {
    async fn has(&self, path: &LogicalPath) -> Option<Presence> {
        while path.as_str() == SLOW && !self.is_released.load(Ordering::Relaxed) {
            self.released.notified().await;
        }
        let files = self.files.lock().unwrap();
        files
            .iter()
            .any(|file| file == path.as_str())
            .then_some(Presence::Online)
    }

    async fn vitals(&self) -> Vitals {
        Vitals {
            processors: 7,
            total_bytes: 100 << 20,
            free_bytes: 40 << 20,
            ..Vitals::default()
        }
    }

    fn note(&self, _manager: &ManagerAddress, event: &Event) {
        self.events.lock().unwrap().push(event.clone());
        self.noted.notify_waiters();
    }
}

impl Fake {
    fn set(&self, files: &[&str]) {
        *self.files.lock().unwrap() = files.iter().map(|file| (*file).to_owned()).collect();
    }

    /// Waits for an event.
    async fn noted(&self, wanted: impl Fn(&Event) -> bool) {
        let waiting = async {
            loop {
                let noted = self.noted.notified();
                if self.events.lock().unwrap().iter().any(&wanted) {
                    return;
                }
                noted.await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the event comes");
    }
}

struct Scene {
    fake: Arc<Fake>,
    names: NameChanges,
    leaf: Leaf<Fake>,
}

impl Scene {
    fn new() -> Self {
        let names = NameChanges::default();
        let fake = Arc::new(Fake::default());
        let leaf = Leaf::new(fake.clone(), names.clone());
        Self { fake, names, leaf }
    }

    fn join(&self, managers: &[&Manager]) {
        self.leaf.configure(Some(settings(managers)));
    }

    fn change(&self, path: &str) {
        self.names.report(LogicalPath::parse(path).unwrap());
    }
}

fn settings(managers: &[&Manager]) -> Settings {
    let path = |text: &str| LogicalPath::parse(text).unwrap();
    Settings {
        managers: managers.iter().map(|manager| manager.address()).collect(),
        exports: vec![
            Exported {
                path: path("/data"),
                is_writable: true,
            },
            Exported {
                path: path("/open"),
                is_writable: false,
            },
        ],
        data_port: 1094,
        host: "se.example".to_owned(),
        minimum_free_bytes: 5 << 20,
    }
}

/// The managers' side of the protocol.
struct Manager(TcpListener);

impl Manager {
    async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn address(&self) -> ManagerAddress {
        let address = self.0.local_addr().unwrap();
        ManagerAddress::parse(&address.to_string(), None).unwrap()
    }

    async fn accept(&self) -> Node {
        let accepted = tokio::time::timeout(PATIENCE, self.0.accept()).await;
        Node(accepted.expect("a server comes").unwrap().0)
    }

    /// A server that has logged in, and said that it takes clients.
    async fn admit(&self) -> Node {
        let mut node = self.accept().await;
        node.login().await;
        node.says(Code::Login, 0, 0, &login_reply()).await;
        let status = node.next().await;
        let Some(Message::Status { flags, port: 1094 }) = status.message() else {
            panic!("{status:?}");
        };
        assert_eq!(flags, StatusFlags::RESUME | StatusFlags::NO_STAGING);
        node
    }
}

fn login_reply() -> Vec<u8> {
    let mut out = Vec::new();
    let login = Login {
        system_id: b"m-test@manager 1213manager",
        mode: LoginMode::MANAGER,
        version: 3,
        ..Login::default()
    };
    login.encode(&mut out).unwrap();
    out.split_off(8)
}

struct Node(TcpStream);

/// A message of the server.
#[derive(Debug)]
struct Got {
    header: Header,
    data: Vec<u8>,
}

impl Got {
    fn frame(&self) -> xroot_wire::cms::Frame<'_> {
        let (header, data) = (self.header, &self.data[..]);
        xroot_wire::cms::Frame { header, data }
    }

    fn message(&self) -> Option<Message<'_>> {
        Message::parse(&self.frame())
    }
}

impl Node {
    async fn says(&mut self, code: Code, modifier: u8, stream: u32, data: &[u8]) {
        let header = Header {
            stream,
            code: code.number(),
            modifier,
            data_bytes: u16::try_from(data.len()).unwrap(),
        };
        let bytes = [&header.encode()[..], data].concat();
        self.0.write_all(&bytes).await.unwrap();
    }

    async fn asks(&mut self, stream: u32, path: &str) {
        let data = format!("{path}\0");
        self.says(Code::State, 0x20, stream, data.as_bytes()).await;
    }

    async fn next(&mut self) -> Got {
        let received = async {
            let mut head = [0; 8];
            self.0.read_exact(&mut head).await.expect("a header");
            let header = Header::parse(&head);
            let mut data = vec![0; header.data_bytes.into()];
            self.0.read_exact(&mut data).await.expect("the data");
            Got { header, data }
        };
        tokio::time::timeout(PATIENCE, received).await.expect("a message comes")
    }

    async fn login(&mut self) -> Got {
        let login = self.next().await;
        assert_eq!(login.header.code, Code::Login.number());
        login
    }

    /// Expects that a pong is the next message: whatever was asked before has no answer.
    async fn is_silent(&mut self) {
        self.says(Code::Ping, 0, 0, b"").await;
        assert_eq!(self.next().await.message(), Some(Message::Pong));
    }

    async fn is_closed(&mut self) {
        let rest = tokio::time::timeout(PATIENCE, self.0.read(&mut [0])).await;
        assert_eq!(rest.expect("it ends").unwrap_or(0), 0);
    }
}

fn have(stream: u32, path: &str) -> Message<'_> {
    let presence = Presence::Online;
    let path = path.as_bytes();
    Message::Have { stream, presence, path }
}

#[tokio::test]
async fn a_server_introduces_itself_and_answers_for_its_files_only() {
    let (scene, manager) = (Scene::new(), Manager::start().await);
    scene.fake.set(&["/data/a"]);
    scene.join(&[&manager]);
    let mut node = manager.accept().await;
    let login = node.login().await;
    let Some(Reply::Login(login)) = Reply::parse(&login.frame()) else {
        panic!("a login");
    };
    assert_eq!(login.paths, b"w /data\nr /open");
    assert_eq!(
        (login.data_port, login.total_mib, login.free_mib, login.used_percent),
        (1094, 100, 40, 60)
    );
    assert_eq!(
        (login.minimum_free_mib, login.environment),
        (5, &b"myHN=se.example"[..])
    );
    let cluster = format!("s-crossload.1094@se.example {}127.0.0.1", manager.address().port);
    assert_eq!(String::from_utf8_lossy(login.system_id), cluster);
    assert!(login.mode.contains(LoginMode::SERVER | LoginMode::NO_STAGING));
    node.says(Code::Login, 0, 0, &login_reply()).await;
    node.next().await;
    scene
        .fake
        .noted(|event| matches!(event, Event::LoggedIn { system_id } if system_id.starts_with("m-test")))
        .await;

    node.asks(9, "/data/a").await;
    assert_eq!(node.next().await.message(), Some(have(9, "/data/a")));
    for absent in ["/data/b", "/data/../etc/passwd", "relative", "/data/\u{7f}"] {
        node.asks(10, absent).await;
    }
    node.says(Code::State, 0x20, 11, b"/data/\xff\0").await;
    node.says(Code::State, 0x22, 12, b"/data/a\0").await;
    node.is_silent().await;
    node.says(Code::Usage, 0, 0, b"").await;
    let load = node.next().await;
    let Some(Message::Load(load)) = load.message() else {
        panic!("the load");
    };
    assert_eq!((load.processors, load.disk, load.free_mib), (7, 60, 40));
    node.says(Code::Space, 0, 0, b"").await;
    let space = node.next().await;
    assert!(matches!(space.message(), Some(Message::Available(space)) if space.free_mib == 40));
    let view = scene.leaf.views().remove(0);
    assert_eq!(
        (view.state, view.sessions, view.questions, view.found),
        (LinkState::Open, 1, 6, 1)
    );
}

#[tokio::test]
async fn what_is_stored_and_removed_is_told_once_to_every_manager() {
    let (scene, one, other) = (Scene::new(), Manager::start().await, Manager::start().await);
    scene.join(&[&one, &other]);
    let mut nodes = [one.admit().await, other.admit().await];
    scene.fake.set(&["/data/new"]);
    scene.change("/elsewhere");
    scene.change("/data/new");
    for node in &mut nodes {
        assert_eq!(node.next().await.message(), Some(have(0, "/data/new")));
    }
    scene.fake.set(&[]);
    scene.change("/data/new");
    for node in &mut nodes {
        assert_eq!(node.next().await.message(), Some(Message::Gone(b"/data/new")));
        node.is_silent().await;
    }
}

#[tokio::test]
async fn too_many_changes_at_once_make_the_manager_forget() {
    let (scene, manager) = (Scene::new(), Manager::start().await);
    scene.join(&[&manager]);
    let mut node = manager.admit().await;
    // This thread runs the leaf too, so it sees none of them before the last.
    for _ in 0..=endpoint::limits::NAME_CHANGES_MAX {
        scene.change("/data/x");
    }
    let reset = node.next().await;
    assert!(matches!(reset.message(), Some(Message::Status { flags, .. }) if flags == StatusFlags::RESET));
    assert_eq!(node.next().await.message(), Some(Message::Gone(b"/data/x")));
}

#[tokio::test]
async fn a_slow_disk_delays_neither_pongs_nor_other_answers() {
    let (scene, manager) = (Scene::new(), Manager::start().await);
    scene.fake.set(&[SLOW, "/data/a"]);
    scene.join(&[&manager]);
    let mut node = manager.admit().await;
    node.asks(1, SLOW).await;
    node.is_silent().await;
    node.asks(2, "/data/a").await;
    assert_eq!(node.next().await.message(), Some(have(2, "/data/a")));
    scene.fake.is_released.store(true, Ordering::Relaxed);
    scene.fake.released.notify_waiters();
    assert_eq!(node.next().await.message(), Some(have(1, SLOW)));
}

#[tokio::test]
async fn a_suspended_server_says_so_and_a_stopped_one_takes_leave() {
    let (scene, manager) = (Scene::new(), Manager::start().await);
    scene.join(&[&manager]);
    let mut node = manager.admit().await;
    let flags = |got: &Got| match got.message() {
        Some(Message::Status { flags, .. }) => flags,
        other => panic!("{other:?}"),
    };
    scene.leaf.suspend(true);
    assert_eq!(flags(&node.next().await), StatusFlags::SUSPEND);
    node.says(Code::Update, 0, 0, b"").await;
    assert_eq!(flags(&node.next().await), StatusFlags::SUSPEND);
    scene.leaf.suspend(false);
    assert!(flags(&node.next().await).contains(StatusFlags::RESUME));
    scene.leaf.stop(PATIENCE).await;
    assert_eq!(flags(&node.next().await), StatusFlags::SUSPEND);
    assert_eq!(node.next().await.message(), Some(Message::Disconnect));
    node.is_closed().await;
    assert_eq!(scene.leaf.views()[0].state, LinkState::Stopped);
}

#[tokio::test]
async fn a_lost_manager_is_found_again() {
    let (scene, manager) = (Scene::new(), Manager::start().await);
    scene.join(&[&manager]);
    drop(manager.admit().await);
    scene.fake.noted(|event| *event == Event::Lost(Fault::Closed)).await;
    let mut node = manager.admit().await;
    node.is_silent().await;
    node.says(Code::Disconnect, 0, 0, b"").await;
    node.is_closed().await;
    manager.admit().await;
    assert_eq!(scene.leaf.views()[0].sessions, 3);
}

#[tokio::test]
async fn advice_to_try_another_manager_is_followed() {
    let (scene, one, other) = (Scene::new(), Manager::start().await, Manager::start().await);
    scene.join(&[&one]);
    let hosts = format!("127.0.0.1:1 {}\0", other.address());
    let data = [&u16::try_from(hosts.len()).unwrap().to_be_bytes()[..], hosts.as_bytes()].concat();
    let mut node = one.accept().await;
    node.login().await;
    node.says(Code::Try, 0, 0, &data).await;
    // The first of the two does not exist.
    let mut node = other.admit().await;
    node.is_silent().await;
    assert_eq!(scene.leaf.views()[0].manager, one.address());
    drop(node);
    one.admit().await;
}

#[tokio::test]
async fn advice_right_after_a_login_leads_to_pauses() {
    let (scene, manager) = (Scene::new(), Manager::start().await);
    scene.join(&[&manager]);
    let host = format!("{}\0", manager.address());
    let data = [&u16::try_from(host.len()).unwrap().to_be_bytes()[..], host.as_bytes()].concat();
    // A manager that lets the server in and sends it to itself, again and again.
    for _ in 0..=limits::HOPS_MAX {
        let mut node = manager.accept().await;
        node.login().await;
        node.says(Code::Login, 0, 0, &login_reply()).await;
        node.says(Code::Try, 0, 0, &data).await;
    }
    scene
        .fake
        .noted(|event| *event == Event::Lost(Fault::TooManyHops))
        .await;
}

#[tokio::test]
async fn nonsense_and_requests_without_a_credential_change_nothing() {
    let (scene, manager) = (Scene::new(), Manager::start().await);
    scene.fake.set(&["/data/a"]);
    scene.join(&[&manager]);
    let mut node = manager.admit().await;
    node.says(Code::Remove, 0, 0, b"\0\x04c@h\0\0\x08/data/a\0").await;
    scene
        .fake
        .noted(|event| {
            *event
                == Event::ChangeRefused {
                    client: "c@h".to_owned(),
                }
        })
        .await;
    node.says(Code::State, 0, 0, b"\0\x40/").await;
    node.says(Code::Load, 0, 0, &[0xff; 300]).await;
    node.is_silent().await;
    let mut other = {
        drop(node);
        manager.accept().await
    };
    other.login().await;
    other.says(Code::Pong, 0, 0, b"").await;
    scene
        .fake
        .noted(|event| matches!(event, Event::Lost(Fault::Malformed(_))))
        .await;
    other.is_closed().await;
}

#[tokio::test]
async fn new_settings_end_the_old_sessions_first() {
    let (scene, manager) = (Scene::new(), Manager::start().await);
    scene.join(&[&manager]);
    let mut node = manager.admit().await;
    scene.join(&[&manager]);
    node.is_silent().await;
    let mut fresh = settings(&[&manager]);
    fresh.exports.truncate(1);
    scene.leaf.configure(Some(fresh));
    node.next().await;
    assert_eq!(node.next().await.message(), Some(Message::Disconnect));
    let mut node = manager.accept().await;
    let login = node.login().await;
    let Some(Reply::Login(login)) = Reply::parse(&login.frame()) else {
        panic!("a login");
    };
    assert_eq!(login.paths, b"w /data");
    scene.leaf.configure(None);
    node.is_closed().await;
    assert_eq!(scene.leaf.views(), []);
}
