//! The connections of a tree's copy break behind each of their bytes: the copy is whole or it
//! fails, no file is ever wrong under its name, and the same command completes the tree and leaves
//! nothing else.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use conformance::{Endpoint, Run, Site, Slot, background, bytes, parts, run, shared, until};
use testkit::{Direction, Fault, Relay, Result, available};

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        let site = Site::of_ours("every-byte")?;
        for (index, (name, size)) in FILES.iter().enumerate() {
            site.first.put(&format!("tree/{name}"), &bytes(*size, index as u64 + 1));
        }
        Ok(site)
    })
}

/// The files, and how many bytes they have: some KB go over the wire for all of them.
const FILES: [(&str, usize); 4] = [("a", 700), ("empty", 0), ("d/b", 1), ("d/e/c", 2100)];
/// Positions at the beginning of a conversation that are all tried, where the environment does not
/// ask for all.
const ALL_UP_TO: u64 = 8;
/// Positions behind them.
const SAMPLES: u64 = 20;
/// Asks for every position.
const EVERY_VARIABLE: &str = "CONFORMANCE_EVERY_BYTE";
const WORKERS: usize = 4;
const WAITING_WORKERS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a tree goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Down,
    Up,
    Across,
}

/// How a conversation breaks.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// What the client says, or what it hears.
    direction: Direction,
    /// Behind so many bytes.
    position: u64,
    /// Whether the source is reached through the relay, or the destination.
    is_source_through: bool,
    /// At every connection, or at one.
    is_always: bool,
}

/// The cuts that are tried, in conversations as long as those of an unharmed copy.
fn cuts(site: &Site, way: Way, scheme: &str) -> Vec<Cut> {
    let sides: &[bool] = if way == Way::Across { &[true, false] } else { &[true] };
    let mut cuts = Vec::new();
    for is_source_through in sides.iter().copied() {
        let name = format!("unharmed-{way:?}-{scheme}-{is_source_through}");
        let trial = Trial::new(site, way, scheme, name, is_source_through);
        let _ = trial.copy(is_source_through).succeeded();
        for direction in [Direction::ToClient, Direction::ToTarget] {
            let length = trial.relay.passed_bytes(direction);
            let all = std::env::var_os(EVERY_VARIABLE).is_some();
            let step = if all { 1 } else { (length / SAMPLES).max(1) };
            let behind = (ALL_UP_TO..length).step_by(usize::try_from(step).expect("small"));
            let positions = (0..ALL_UP_TO).chain(behind);
            cuts.extend(positions.enumerate().map(|(index, position)| Cut {
                direction,
                position,
                is_source_through,
                is_always: index.is_multiple_of(2),
            }));
        }
    }
    cuts
}

/// One position: a tree of its own, and a relay of its own.
struct Trial<'a> {
    site: &'a Site,
    way: Way,
    scheme: &'a str,
    name: String,
    relay: Relay,
}

impl<'a> Trial<'a> {
    fn new(site: &'a Site, way: Way, scheme: &'a str, name: String, is_source_through: bool) -> Self {
        let relay = Relay::start(relayed(site, way, is_source_through)).expect("a relay");
        Self {
            site,
            way,
            scheme,
            name,
            relay,
        }
    }

    /// The URL of a directory at a server, through the relay or not.
    fn url(&self, server: &Endpoint, name: &str, is_through: bool) -> String {
        let url = match self.scheme {
            "root" => server.root(name),
            _ => server.clear_url(name),
        };
        let (own, relay) = (
            format!("localhost:{}", server.port()),
            format!("localhost:{}", self.relay.port()),
        );
        if is_through { url.replace(&own, &relay) } else { url }
    }

    /// The command that copies the tree.
    fn command(&self, is_source_through: bool) -> Command {
        let (source, target) = self.ends(is_source_through);
        let arguments = ["-r", "-p", "--retries", "0", "-q", &source, &target];
        let lab = &self.site.lab;
        let command = lab.client(lab.client_arguments("copy", &arguments));
        command.expect("the client is built")
    }

    fn copy(&self, is_source_through: bool) -> Run {
        run(&self.command(is_source_through))
    }

    fn ends(&self, is_source_through: bool) -> (String, String) {
        let local = |directory: &Path| format!("{}/", directory.display());
        let Site { first, second, .. } = self.site;
        match self.way {
            Way::Down => (self.url(first, "tree/", true), local(&self.target())),
            Way::Up => (local(&first.data().join("tree")), self.url(second, &self.name, true)),
            Way::Across => (
                self.url(first, "tree/", is_source_through),
                self.url(second, &self.name, !is_source_through),
            ),
        }
    }

    /// Where the tree lies afterwards.
    fn target(&self) -> std::path::PathBuf {
        match self.way {
            Way::Down => self.site.lab.scratch().join(&self.name),
            Way::Up | Way::Across => self.site.second.data().join(&self.name),
        }
    }

    /// Demands that no file differs from the one it should be, and, of a `whole` tree, that there
    /// is every one, and nothing else.
    fn check(&self, what: &str, is_whole: bool, run: &Run) {
        let (expected, found) = (
            all_below(&self.site.first.data().join("tree")),
            all_below(&self.target()),
        );
        let what = || format!("{what}: {}", run.said());
        for (name, content) in &found {
            let is_part = !is_whole && !expected.contains_key(name) && name.contains(".crossload");
            assert!(is_part || expected.get(name) == Some(content), "{name}: {}", what());
        }
        if is_whole {
            let names: Vec<_> = found.keys().collect();
            assert!(names == expected.keys().collect::<Vec<_>>(), "{names:?}: {}", what());
        }
    }
}

/// Everything below a directory, hidden files too.
fn all_below(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        let entries = std::fs::read_dir(&next).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let name = path.strip_prefix(directory).expect("below").display().to_string();
            // It may be renamed or removed meanwhile.
            if let Ok(content) = std::fs::read(&path) {
                found.insert(name, content);
            }
        }
    }
    found
}

/// The server that is reached through the relay.
fn relayed(site: &Site, way: Way, is_source_through: bool) -> SocketAddr {
    let server = match way {
        Way::Down => &site.first,
        Way::Up => &site.second,
        Way::Across if is_source_through => &site.first,
        Way::Across => &site.second,
    };
    SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))
}

fn demand_no_parts(site: &Site) {
    for server in [&site.first, &site.second] {
        until("nothing of broken copies is left", PATIENCE, || {
            parts(server.data()).is_empty()
        });
    }
}

/// Whether the cut has struck: a connection can be shorter than the whole conversation.
fn try_cut(site: &Site, way: Way, scheme: &str, index: usize, cut: Cut) -> bool {
    let is_source_through = cut.is_source_through;
    let trial = Trial::new(
        site,
        way,
        scheme,
        format!("copied-{way:?}-{scheme}-{index}"),
        is_source_through,
    );
    let times = if cut.is_always { usize::MAX } else { 1 };
    trial
        .relay
        .set_fault(Fault::CutAfter(cut.direction, cut.position), times);
    let broken = trial.copy(is_source_through);
    let what = format!("{way:?} over {scheme} with {cut:?}");
    trial.check(&what, broken.code == Some(0), &broken);
    let has_struck = trial.relay.struck() > 0;
    trial.relay.heal();
    let completed = trial.copy(is_source_through);
    assert_eq!(
        completed.code,
        Some(0),
        "{what}: {}\nfirst: {}",
        completed.said(),
        broken.said()
    );
    trial.check(&what, true, &completed);
    let _ = std::fs::remove_dir_all(trial.target());
    has_struck
}

fn try_all(test: &str, way: Way, scheme: &str) {
    let Some(site) = available(test, site()) else { return };
    let (cuts, next, struck) = (cuts(&site, way, scheme), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cut) = cuts.get(index) else { break };
                    let has_struck = try_cut(&site, way, scheme, index, *cut);
                    struck.fetch_add(usize::from(has_struck), Ordering::Relaxed);
                }
            });
        }
    });
    let struck = struck.into_inner();
    assert!(struck * 4 > cuts.len(), "{struck} of {} struck", cuts.len());
    demand_no_parts(&site);
}

#[test]
fn a_tree_that_comes_down_may_break_at_any_byte() {
    let test = "a_tree_that_comes_down_may_break_at_any_byte";
    try_all(test, Way::Down, "http");
    try_all(test, Way::Down, "root");
}

#[test]
fn a_tree_that_goes_up_may_break_at_any_byte() {
    let test = "a_tree_that_goes_up_may_break_at_any_byte";
    try_all(test, Way::Up, "http");
    try_all(test, Way::Up, "root");
}

#[test]
fn a_tree_between_servers_may_break_at_any_byte() {
    let test = "a_tree_between_servers_may_break_at_any_byte";
    try_all(test, Way::Across, "http");
    try_all(test, Way::Across, "root");
}

/// Positions at which connections stand still until the user interrupts the copy: in the listing,
/// before the first byte, within a file, at its end.
const STILL_AT: [u64; 4] = [0, 250, 700, 1800];

/// Interrupts a copy that stands still, once or twice, and completes it.
fn interrupt_at(site: &Site, way: Way, scheme: &str, index: usize, position: u64) {
    let is_source_through = index.is_multiple_of(2);
    let trial = Trial::new(
        site,
        way,
        scheme,
        format!("stopped-{way:?}-{scheme}-{index}"),
        is_source_through,
    );
    let direction = if index % 4 < 2 {
        Direction::ToClient
    } else {
        Direction::ToTarget
    };
    trial
        .relay
        .set_fault(Fault::StallAfter(direction, position), usize::MAX);
    let mut command = trial.command(is_source_through);
    let mut client = background(&mut command, site.lab.scratch()).expect("it starts");
    let what = format!("{way:?} over {scheme} still at byte {position}");
    until("it stands still or is over", PATIENCE, || {
        trial.relay.struck() > 0 || !client.is_running()
    });
    let interrupts = if index.is_multiple_of(3) { 2 } else { 1 };
    for _ in 0..interrupts {
        let interrupt = format!("kill -INT {} 2>/dev/null; sleep 0.4", client.id());
        let _ = run(Command::new("sh").args(["-c", &interrupt]));
    }
    until("the interrupted copy ends", PATIENCE, || !client.is_running());
    let (code, said) = (
        client.terminate().ok().and_then(|status| status.code()),
        client.stderr(),
    );
    assert!(code == Some(4) || code == Some(0), "{what}: {code:?} {said}");
    trial.relay.heal();
    let completed = trial.copy(is_source_through);
    assert_eq!(completed.code, Some(0), "{what}: {}\nfirst: {said}", completed.said());
    trial.check(&what, true, &completed);
}

#[test]
fn an_interrupted_tree_is_completed_wherever_it_stood() {
    let test = "an_interrupted_tree_is_completed_wherever_it_stood";
    let Some(site) = available(test, site()) else { return };
    let ways = [Way::Down, Way::Up, Way::Across];
    let all = ways
        .into_iter()
        .flat_map(|way| ["http", "root"].map(|scheme| (way, scheme)));
    let all: Vec<_> = all
        .flat_map(|(way, scheme)| STILL_AT.map(|at| (way, scheme, at)))
        .collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        // They wait most of the time: a clean-up takes up to six seconds.
        for _ in 0..WAITING_WORKERS {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((way, scheme, position)) = all.get(index) else {
                        break;
                    };
                    interrupt_at(&site, *way, scheme, index, *position);
                }
            });
        }
    });
    demand_no_parts(&site);
}

/// The payload is long, so that the bit is in it.
#[test]
fn a_flipped_bit_of_a_file_is_never_kept() {
    let test = "a_flipped_bit_of_a_file_is_never_kept";
    let Some(site) = available(test, site()) else { return };
    let content = bytes(40_000, 21);
    let local = site.lab.file(&content);
    site.first.put("flipped/source", &content);
    for (scheme, is_up, at) in [
        ("http", false, 5_000),
        ("http", false, 39_000),
        ("http", true, 5_000),
        ("http", true, 39_000),
        ("root", false, 5_000),
        ("root", false, 39_000),
        ("root", true, 5_000),
        ("root", true, 39_000),
    ] {
        let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, site.first.port()))).expect("a relay");
        let direction = if is_up {
            Direction::ToTarget
        } else {
            Direction::ToClient
        };
        relay.set_fault(Fault::FlipBitAfter(direction, at), 1);
        let name = format!("flipped/{scheme}-{at}");
        let url = |name: &str| match scheme {
            "root" => format!("root://localhost:{}//data/{name}", relay.port()),
            _ => format!("http://localhost:{}/data/{name}", relay.port()),
        };
        let back = site.lab.fresh("back");
        let (source, target) = match is_up {
            true => (local.display().to_string(), url(&name)),
            false => (url("flipped/source"), back.display().to_string()),
        };
        let copied = site.lab.run_client("copy", &["--retries", "0", &source, &target]);
        let found = if is_up {
            site.first.stored(&name)
        } else {
            std::fs::read(&back).ok()
        };
        assert_eq!(relay.struck(), 1, "{scheme} {at}: {}", copied.said());
        assert!(
            found.as_ref().is_none_or(|found| *found == content),
            "{scheme} {at}: {}",
            copied.said()
        );
        assert_eq!(
            found.is_some(),
            copied.code == Some(0),
            "{scheme} {at}: {}",
            copied.said()
        );
    }
}

/// Behind so many bytes of its answers a server tells the last byte of its protocol version. With
/// one bit turned over it is 5.1.0, which has no checksums of pages.
const VERSION_AT: u64 = 27;
/// The exit code for data that differ.
const DIFFERS: i32 = 74;

/// A page that arrives damaged over the XRootD protocol is sent again. What no checksum of a page
/// can show, TLS or the checksum of the whole file shows.
#[test]
fn a_damaged_upload_over_the_xrootd_protocol_leaves_nothing_and_can_be_made_again() {
    let test = "a_damaged_upload_over_the_xrootd_protocol_leaves_nothing_and_can_be_made_again";
    let Some(site) = available(test, site()) else { return };
    let content = bytes(400_000, 22);
    let local = site.lab.file(&content).display().to_string();
    site.first.put("damaged/source", &content);
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, site.first.port()));
    let flip = |relay: &Relay, direction, at| relay.set_fault(Fault::FlipBitAfter(direction, at), usize::MAX);
    let [old, uploads, downloads] = [(); 3].map(|()| Relay::start(server).expect("a relay"));
    let old_uploads = Relay::start(old.address()).expect("a relay");
    flip(&old, Direction::ToClient, VERSION_AT);
    flip(&old_uploads, Direction::ToTarget, 200_000);
    flip(&uploads, Direction::ToTarget, 200_000);
    flip(&downloads, Direction::ToClient, 200_000);
    let source = format!("http://localhost:{}/data/damaged/source", downloads.port());
    let (plain, tls, streamed) = (vec![&old_uploads, &old], vec![&uploads], vec![&downloads]);
    for (name, scheme, source, port, relays, code) in [
        ("plain", "root", &local, old_uploads.port(), plain, Some(DIFFERS)),
        ("tls", "roots", &local, uploads.port(), tls, None),
        ("streamed", "root", &source, server.port(), streamed, Some(DIFFERS)),
    ] {
        let target = format!("{scheme}://localhost:{port}//data/damaged/{name}");
        let copy = || {
            let arguments = ["--mode", "stream", "--retries", "0", source, &target];
            site.lab.run_client("copy", &arguments)
        };
        let failed = copy();
        let said = failed.said();
        assert!(relays.iter().all(|relay| relay.struck() > 0), "{name}: {said}");
        assert!(
            failed.code != Some(0) && code.is_none_or(|code| failed.code == Some(code)),
            "{name}: {said}"
        );
        let stored = || site.first.stored(&format!("damaged/{name}"));
        assert!(stored().is_none(), "{name}: {said}");
        relays.iter().for_each(|relay| relay.heal());
        let _ = copy().succeeded();
        assert!(stored().as_ref() == Some(&content), "{name}");
    }
    demand_no_parts(&site);
}
