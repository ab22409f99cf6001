//! Our server as a data server of an XRootD cluster: a manager and two stock servers (`cmsd` and
//! `xrootd`), used by XRootD's own clients through the manager's redirector.

use std::fs;
use std::time::{Duration, Instant};

use conformance::{Lab, Run, bytes, run};
use testkit::{Crossload, Result, XrootdCluster, XrootdVersion, available};

/// Longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(30);

struct Site {
    lab: Lab,
    cluster: XrootdCluster,
    ours: Crossload,
}

impl Site {
    /// Names are short, because XRootD's sockets have paths of at most 108 bytes.
    fn start(version: XrootdVersion) -> Result<Self> {
        let lab = Lab::new("cms")?;
        let cluster = XrootdCluster::start(version, &lab.fresh("c"), 2)?;
        let mut options = lab.options("ours");
        options.more = format!("[cms]\nmanagers = [\"{}\"]\n", cluster.manager_address());
        let ours = lab.crossload(options)?;
        let mut site = Self { lab, cluster, ours };
        site.is_joined()?;
        Ok(site)
    }

    fn is_joined(&mut self) -> Result<()> {
        self.cluster.wait_for_server(self.ours.port())
    }

    fn xrdfs(&self, arguments: &[&str]) -> Run {
        let mut command = self.lab.command("xrdfs").expect("XRootD's client is installed");
        command.arg(self.cluster.root_address()).args(arguments);
        run(&command)
    }

    /// The ports of the servers that the manager names for a file.
    fn holders(&self, path: &str) -> Vec<u16> {
        let located = self.xrdfs(&["locate", path]);
        let text = located.text();
        let ports = text.lines().filter_map(|line| {
            let address = line.split_whitespace().next()?;
            address.rsplit_once(':')?.1.parse().ok()
        });
        ports.collect()
    }

    /// Waits until the manager names exactly these servers.
    #[track_caller]
    fn wait_for_holders(&self, path: &str, wanted: &[u16]) {
        let end = Instant::now() + PATIENCE;
        loop {
            let holders = self.holders(path);
            if holders == wanted {
                return;
            }
            assert!(Instant::now() < end, "{path}: {holders:?} and not {wanted:?}");
        }
    }

    #[track_caller]
    fn download(&self, path: &str) -> Vec<u8> {
        let local = self.lab.fresh("down");
        let local_name = local.to_str().expect("plain");
        self.lab.xrdcp(&[&self.cluster.root_url(path), local_name]).succeeded();
        fs::read(local).expect("it was copied")
    }
}

fn check(version: XrootdVersion, test: &str) {
    let Some(mut site) = available(test, Site::start(version)) else {
        return;
    };
    let (ours, content) = (site.ours.port(), bytes(300_000, 38));

    // Found among three servers, and read through the redirector.
    fs::write(site.ours.data().join("here"), &content).expect("a file of ours");
    fs::write(site.cluster.servers()[0].data().join("there"), b"stock").expect("a file of theirs");
    assert_eq!(site.holders("/data/here"), [ours]);
    assert!(site.download("/data/here") == content);
    assert_eq!(site.download("/data/there"), b"stock");
    let other = site.cluster.servers()[0].root_port();
    assert_eq!(site.holders("/data/there"), [other]);

    // Removed and renamed through the redirector: the manager knows at once, and does not send
    // clients on old news.
    site.xrdfs(&["mv", "/data/here", "/data/moved"]).succeeded();
    assert!(site.ours.data().join("moved").exists());
    site.wait_for_holders("/data/moved", &[ours]);
    site.wait_for_holders("/data/here", &[]);
    site.xrdfs(&["rm", "/data/moved"]).succeeded();
    assert!(!site.ours.data().join("moved").exists());
    site.wait_for_holders("/data/moved", &[]);

    // New files go to every server in turn; each is read back.
    let local = site.lab.file(&content);
    let mut stored_here = 0;
    for number in 0..6 {
        let path = format!("/data/new{number}");
        let local = local.to_str().expect("plain");
        site.lab.xrdcp(&[local, &site.cluster.root_url(&path)]).succeeded();
        stored_here += usize::from(site.ours.data().join(format!("new{number}")).exists());
        assert!(site.download(&path) == content);
    }
    assert!(
        (1..6).contains(&stored_here),
        "{stored_here} of 6 files are on our server"
    );

    // A file that comes by another way is announced, here by its own door.
    let direct = site.ours.root_url("/data/direct");
    site.lab.xrdcp(&[local.to_str().expect("plain"), &direct]).succeeded();
    site.wait_for_holders("/data/direct", &[ours]);

    // Killed, it is not named; back again, it is.
    site.ours.process().kill_hard();
    site.wait_for_holders("/data/direct", &[]);
    site.ours.start_again().expect("it starts again");
    site.is_joined_again();
    site.wait_for_holders("/data/direct", &[site.ours.port()]);
}

impl Site {
    /// Waits until our server has logged in since its last start.
    fn is_joined_again(&mut self) {
        let log = self.ours.process();
        log.wait_for("the manager", PATIENCE, |process| {
            process.stderr().contains("cms_logged_in").then_some(())
        })
        .expect("it logs in");
    }
}

#[test]
fn our_server_joins_a_cluster_of_xrootd() {
    check(XrootdVersion::V5, "our_server_joins_a_cluster_of_xrootd");
}

#[test]
fn our_server_joins_a_cluster_of_the_newest_xrootd() {
    check(XrootdVersion::V6, "our_server_joins_a_cluster_of_the_newest_xrootd");
}
