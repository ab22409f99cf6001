//! A storage with tape: files over HTTPS, and the WLCG Tape REST API beside them. The test decides
//! when a file comes online or reaches tape, and what the API refuses.

mod api;
mod server;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use crate::{Error, HostCertificate, Result};

/// What a test waits for comes within this time.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A file.
#[derive(Debug, Clone, Default)]
struct Kept {
    content: Vec<u8>,
    is_on_disk: bool,
    is_on_tape: bool,
    /// Why it cannot be brought online.
    fault: Option<String>,
}

/// A request to bring files online: its paths, and those that were canceled.
#[derive(Debug, Clone, Default)]
struct Recall {
    paths: Vec<String>,
    canceled: Vec<String>,
}

/// A request that the API got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapeCall {
    /// `POST /stage`, `GET /stage/7`: below the endpoint.
    pub what: String,
    /// The body.
    pub body: String,
    /// The token that came with it.
    pub bearer: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Kept>,
    recalls: BTreeMap<String, Recall>,
    calls: Vec<TapeCall>,
    /// What the API answers to everything.
    refusal: Option<u16>,
    /// Files come online as soon as they are asked for.
    is_fast: bool,
    stopping: bool,
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    tls: Arc<ServerConfig>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The program of an XRootD that stands for its tape system (`ofs.preplib libXrdOfsPrepGPI.so`).
/// Files in `tape` beside it can be staged into `files/data`; `/data/torn` cannot.
pub const TAPE_PROGRAM: &str = r#"#!/bin/sh
here=$(dirname "$0")
while [ "$1" != -- ]; do shift; done
request=$2 what=$3
shift 3
echo "$what $*" >>"$here/log"
comma=
case $what in
  stage) for path; do cp "$here/tape/$(basename "$path")" "$here/files$path" 2>/dev/null; done ;;
  evict) for path; do rm -f "$here/files$path"; done ;;
  query)
    printf '{"request_id": "%s", "responses": [' "$request"
    for path; do
      online=false text=
      [ ! -e "$here/files$path" ] || online=true
      [ "$path" != /data/torn ] || text="the tape is torn"
      printf '%s{"path": "%s", "path_exists": true, "requested": true, "has_reqid": true, "online": %s, "error_text": "%s"}' \
        "$comma" "$path" "$online" "$text"
      comma=,
    done
    printf ']}' ;;
esac
"#;

/// A storage with tape. Dropping it ends its server.
#[derive(Debug)]
pub struct TapeServer {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl TapeServer {
    /// Starts one without files.
    ///
    /// # Errors
    /// [`Error::Failed`] without a free port, or if the certificate cannot be read.
    pub fn start(host: &HostCertificate) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let shared = Arc::new(Shared {
            address: listener.local_addr()?,
            tls: crate::tls_server(&host.certificate, &host.key)?,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let for_acceptor = Arc::clone(&shared);
        let acceptor = thread::spawn(move || server::accept(&listener, &for_acceptor));
        Ok(Self {
            shared,
            acceptor: Some(acceptor),
        })
    }

    /// The URL of a file.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.shared.address.port())
    }

    /// Puts a file on tape, and nowhere else.
    pub fn put_on_tape(&self, path: &str, content: &[u8]) {
        let kept = Kept {
            content: content.to_vec(),
            is_on_tape: true,
            ..Kept::default()
        };
        self.change(|state| drop(state.files.insert(path.to_owned(), kept)));
    }

    /// A file comes online.
    pub fn bring_online(&self, path: &str) {
        self.change(|state| state.files.entry(path.to_owned()).or_default().is_on_disk = true);
    }

    /// From now on all files come online as soon as they are asked for.
    pub fn bring_all_online(&self) {
        self.change(|state| state.is_fast = true);
    }

    /// A file cannot be brought online, for this reason; `None`: it can.
    pub fn set_fault(&self, path: &str, words: Option<&str>) {
        self.change(|state| state.files.entry(path.to_owned()).or_default().fault = words.map(str::to_owned));
    }

    /// A file is written to tape.
    pub fn write_to_tape(&self, path: &str) {
        self.change(|state| state.files.entry(path.to_owned()).or_default().is_on_tape = true);
    }

    /// From now on the API answers all requests with this status; `None`: as it should.
    pub fn refuse(&self, status: Option<u16>) {
        self.change(|state| state.refusal = status);
    }

    /// It forgets all requests, as after the loss of its database.
    pub fn forget_requests(&self) {
        self.change(|state| state.recalls.clear());
    }

    /// Whether a file is on disk.
    #[must_use]
    pub fn is_on_disk(&self, path: &str) -> bool {
        self.shared.state().files.get(path).is_some_and(|kept| kept.is_on_disk)
    }

    /// The content of a file.
    #[must_use]
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.shared.state().files.get(path).map(|kept| kept.content.clone())
    }

    /// The requests that the API got, in their order.
    #[must_use]
    pub fn calls(&self) -> Vec<TapeCall> {
        self.shared.state().calls.clone()
    }

    /// Waits for so many requests whose first words are `what`, and returns them.
    ///
    /// # Errors
    /// [`Error::Failed`] with all requests if they do not come.
    pub fn wait_for_calls(&self, what: &str, count: usize) -> Result<Vec<TapeCall>> {
        let deadline = Instant::now() + WAIT_MAX;
        let mut state = self.shared.state();
        loop {
            let found: Vec<TapeCall> = state
                .calls
                .iter()
                .filter(|call| call.what.starts_with(what))
                .cloned()
                .collect();
            if found.len() >= count {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Failed(format!("no {count} of {what}: {:?}", state.calls)));
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state());
        self.shared.changed.notify_all();
    }
}

impl Drop for TapeServer {
    fn drop(&mut self) {
        self.change(|state| state.stopping = true);
        // Wakes the acceptor.
        drop(TcpStream::connect(self.shared.address));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}
