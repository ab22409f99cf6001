//! Endpoints get a new program while many files are copied: no transfer fails, and no byte is
//! wrong. The new program is the same one under another name.

use std::fs;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use conformance::{Lab, bytes, run, transfers, until, visible};
use serde_json::json;
use socket2::SockRef;
use testkit::{Crossload, Result, available};

use crate::open_site::{OpenSite, open_queue};

const FILES: usize = 60;
const FILE_BYTES: usize = 1 << 20;
/// Copies that have ended when a server is restarted.
const BEGUN: usize = 3;
const SOON: Duration = Duration::from_secs(60);

fn name(number: usize) -> String {
    format!("f{number}")
}

fn content(number: usize) -> Vec<u8> {
    bytes(FILE_BYTES + number, 80 + number as u64)
}

fn put_sources(directory: &Path) {
    fs::create_dir_all(directory).expect("a directory");
    for number in 0..FILES {
        fs::write(directory.join(name(number)), content(number)).expect("a source");
    }
}

fn assert_copied(directory: &Path) {
    for number in 0..FILES {
        let stored = fs::read(directory.join(name(number))).expect("a copy");
        assert!(stored == content(number), "{number}");
    }
    assert_eq!(visible(directory).len(), FILES, "nothing else");
}

/// The program under another name.
fn renamed(lab: &Lab) -> Result<PathBuf> {
    let directory = lab.fresh("upgraded");
    fs::create_dir_all(&directory)?;
    symlink(Crossload::binary()?, directory.join("crossload"))?;
    Ok(directory.join("crossload"))
}

/// The program with a socket that outlives it, as the service manager passes it (`sd_listen_fds`).
fn activated(lab: &Lab, listener: &TcpListener) -> Result<PathBuf> {
    let program = renamed(lab)?;
    let file = program.with_file_name("start").join("crossload");
    fs::create_dir_all(program.with_file_name("start"))?;
    let socket = listener.as_raw_fd();
    let text = format!("#!/bin/bash\nexec 3<&{socket}\nexport LISTEN_PID=$$ LISTEN_FDS=1\nexec {program:?} \"$@\"\n");
    fs::write(&file, text)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(file)
}

/// Restarts a server with another program when some of its copies have ended.
fn upgrade(server: &mut Crossload, program: &Path) {
    until("copies are under way", SOON, || transfers(server.log()).len() >= BEGUN);
    let ended = server.process().terminate().expect("it ends");
    let (copied, log) = (transfers(server.log()).len(), server.log().stderr());
    assert!(
        ended.success() && log.contains("\"stopped\""),
        "it was not drained: {log}"
    );
    assert!(copied < FILES, "all was copied before");
    server.start_again_with(program).expect("it starts");
}

/// A queue between two endpoints. One gets its socket from the service manager.
struct Managed {
    site: OpenSite,
    destination: Crossload,
    /// What starts the destination: before the upgrade, and after it.
    programs: [PathBuf; 2],
    /// Keeps the port open while no server runs.
    _listener: TcpListener,
}

impl Managed {
    fn start(name: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        // The programs that are started inherit it.
        SockRef::from(&listener).set_cloexec(false)?;
        let programs = [activated(&lab, &listener)?, activated(&lab, &listener)?];
        let mut options = lab.options("destination");
        options.port = listener.local_addr()?.port();
        options.binary = Some(programs[0].clone());
        let destination = Crossload::start(options)?;
        let endpoint = Crossload::start(lab.options("source"))?;
        let settings = "operators = [\"*\"]\nlink_copies = 2\nretries = 10\nretry_delay = \"1s\"";
        let queue = open_queue(&lab, settings)?;
        Ok(Self {
            site: OpenSite { lab, endpoint, queue },
            destination,
            programs,
            _listener: listener,
        })
    }
}

#[test]
fn a_queue_loses_no_file_to_an_upgrade_of_an_endpoint() {
    let test = "a_queue_loses_no_file_to_an_upgrade_of_an_endpoint";
    let Some(mut managed) = available(test, Managed::start("upgraded-queue")) else {
        return;
    };
    let site = &managed.site;
    put_sources(site.endpoint.data());
    let pair = |number: usize| {
        let path = format!("/data/{}", name(number));
        (site.endpoint.url(&path), managed.destination.url(&path))
    };
    let pairs: Vec<(String, String)> = (0..FILES).map(pair).collect();
    let job = site.submit(&pairs, json!({}));
    upgrade(&mut managed.destination, &managed.programs[1]);
    until("the job ends", SOON * 2, || {
        let state = site.job(&job)["job_state"].clone();
        assert!(state != "FAILED" && state != "FINISHEDDIRTY", "{}", site.job(&job));
        state == "FINISHED"
    });
    assert_copied(managed.destination.data());
}

#[test]
fn our_client_loses_no_file_to_an_upgrade_of_an_endpoint() {
    let test = "our_client_loses_no_file_to_an_upgrade_of_an_endpoint";
    let started = Lab::new("upgraded-client").and_then(|lab| {
        let (first, second) = (
            lab.crossload(lab.options("first"))?,
            lab.crossload(lab.options("second"))?,
        );
        Ok((renamed(&lab)?, first, second, lab))
    });
    let Some((program, first, mut second, lab)) = available(test, started) else {
        return;
    };
    put_sources(&first.data().join("tree"));
    fs::create_dir_all(second.data().join("tree")).expect("a directory");
    let (from, to) = (first.url("/data/tree/"), second.url("/data/tree"));
    let mut sync = lab.client(["sync", "--retries", "10", "--cacert"]).expect("built");
    sync.arg(lab.authority().ca_file()).args([&from, &to]);
    let ended = thread::scope(|scope| {
        let running = scope.spawn(|| run(&sync));
        // Refused in between: nothing keeps the port open here.
        upgrade(&mut second, &program);
        running.join().expect("it ends")
    });
    ended.succeeded();
    assert_copied(&second.data().join("tree"));
}
