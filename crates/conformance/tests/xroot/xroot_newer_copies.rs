//! Third-party copies over HTTP that `xrdcp` of the newest release orders at our servers, as pull
//! and push: its headers (`-H`) reach both servers, and the progress that it shows is what has
//! arrived.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use conformance::{Lab, Run, Twins, bytes, run, until};
use testkit::{Direction, Fault, Process, Relay, Result, XrootdVersion, available};

const NEWEST: XrootdVersion = XrootdVersion::V6;
const SIZE: usize = 48 << 20;
const SOON: Duration = Duration::from_secs(60);
/// A mebibyte, the unit of its progress bar.
const MIB: f64 = 1_048_576.0;

struct Site {
    // First, because a stopping server waits for what it is sending.
    relay: Relay,
    source: Twins,
    destination: Twins,
    lab: Lab,
}

fn site() -> Result<Site> {
    NEWEST.require("xrdcp")?;
    let lab = Lab::new("newer-copies")?;
    let markers = |options: &mut testkit::CrossloadOptions| options.limits = "marker_period = \"200ms\"\n".to_owned();
    let source = Twins::start_with(&lab, "source", markers)?;
    let destination = Twins::start_with(&lab, "destination", markers)?;
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, source.guarded.port())))?;
    Ok(Site {
        relay,
        source,
        destination,
        lab,
    })
}

impl Site {
    /// What `xrdcp` is called with to copy `name` in this mode. The active server gets the first
    /// header, the other one the second.
    fn order(&self, mode: &[&str], name: &str) -> Vec<String> {
        let read = self.source.macaroon(&self.lab, name, "DOWNLOAD,LIST");
        let write = self
            .destination
            .macaroon(&self.lab, name, "UPLOAD,MANAGE,DELETE,LIST,DOWNLOAD");
        let (active, other) = if mode.contains(&"push") {
            (read, write)
        } else {
            (write, read)
        };
        let (from, to) = (self.source.guarded.url(name), self.destination.guarded.url(name));
        let headers = [
            format!("Authorization: Bearer {active}"),
            format!("TransferHeaderAuthorization: Bearer {other}"),
        ];
        let mut order = vec!["--tpc".to_owned()];
        order.extend(mode.iter().map(|word| (*word).to_owned()));
        order.extend(headers.into_iter().flat_map(|header| ["-H".to_owned(), header]));
        order.extend([from, to]);
        order
    }

    fn xrdcp(&self, arguments: &[String]) -> Run {
        let mut command = self.lab.xrootd_client(NEWEST, "xrdcp").expect("it is installed");
        run(command.arg("--nopbar").args(arguments))
    }

    /// The same on a terminal: it shows no progress elsewhere.
    fn on_terminal(&self, arguments: &[String]) -> Process {
        let program = NEWEST.require("xrdcp").expect("it is installed");
        let words = arguments.iter().map(|word| format!(" '{word}'"));
        let line = format!("{}{}", program.display(), words.collect::<String>());
        let prepared = self.lab.xrootd_client(NEWEST, "xrdcp").expect("it is installed");
        let mut command = self.lab.command("script").expect("a part of Debian");
        command.envs(prepared.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
        Process::spawn("xrdcp", &mut command, &self.lab.fresh("xrdcp")).expect("started")
    }
}

const MODES: [(&str, &[&str]); 2] = [("pull", &["only"]), ("push", &["push", "only"])];

#[test]
fn headers_reach_both_servers() {
    let Some(site) = available("headers_reach_both_servers", site()) else {
        return;
    };
    let content = bytes(3_000_001, 274);
    for (name, mode) in MODES {
        site.source.guarded.put(name, &content);
        let order = site.order(mode, name);
        site.xrdcp(&order).succeeded();
        assert!(
            site.destination.guarded.stored(name).as_ref() == Some(&content),
            "{name}"
        );
        // Without the header for the other server, that one refuses.
        let name = format!("{name}-alone");
        site.source.guarded.put(&name, &content);
        let mut order = site.order(mode, &name);
        let other = order
            .iter()
            .position(|word| word.starts_with("TransferHeader"))
            .expect("a header");
        order.drain(other - 1..=other);
        let refused = site.xrdcp(&order);
        assert_ne!(refused.code, Some(0), "{}", refused.said());
        assert_eq!(site.destination.guarded.stored(&name), None);
    }
}

/// The last figure of a progress bar such as `[12.5MB/0B][100%]…`, in MiB. The program asks for no
/// size before such a copy, so it takes any progress for the whole.
fn shown(bar: &str) -> Option<f64> {
    let last = bar.rsplit(['\r', '\n']).find(|line| line.contains("B/"))?;
    let (figure, _) = last.trim_start_matches('[').split_once('/')?;
    let digits = figure.trim_end_matches(char::is_alphabetic);
    let unit = match &figure[digits.len()..] {
        "kB" => 1024.0,
        "MB" => MIB,
        _ => 1.0,
    };
    Some(digits.parse::<f64>().ok()? * unit / MIB)
}

/// The relay lets a third of the file through. The bar then shows what has come, and no more.
#[test]
fn its_progress_is_what_has_arrived() {
    let Some(site) = available("its_progress_is_what_has_arrived", site()) else {
        return;
    };
    let content = bytes(SIZE, 275);
    site.source.guarded.put("progress", &content);
    let third = (SIZE / 3) as u64;
    site.relay
        .set_fault(Fault::StallAfter(Direction::ToClient, third), usize::MAX);
    let mut order = site.order(&["only"], "progress");
    let source = format!("https://localhost:{}/data/progress", site.relay.port());
    let place = order.len() - 2;
    order[place] = source;
    let mut copying = site.on_terminal(&order);
    let arrived = || site.relay.passed_bytes(Direction::ToClient) as f64 / MIB;
    until("it shows what has arrived", SOON, || {
        let far = shown(&copying.stdout());
        far.is_some_and(|far| far > arrived() * 0.8 && far <= arrived() + 0.01)
    });
    site.relay.heal();
    until("it has ended", SOON, || !copying.is_running());
    let stored = site.destination.guarded.stored("progress");
    assert!(stored.as_ref() == Some(&content), "{}", copying.stdout());
}
