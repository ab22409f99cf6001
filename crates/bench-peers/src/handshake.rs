//! TLS connections: how many a server takes in a second, and what one that idles costs it, beside
//! one of the XRootD protocol.
//!
//! The client is rustls for every server. Each connection asks one thing (HEAD of an empty file),
//! so that a handshake counts only where the server is there behind it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};
use rustls_pki_types::ServerName;
use testkit::{Error, Result};

use crate::root::XrootSession;
use crate::server::{Kind, Scheme, Server};
use crate::workload::{Bench, Pair, Sample};

/// Clients at the same time.
pub(crate) const HANDSHAKE_CLIENTS: usize = 8;
/// Idle connections whose memory is measured.
pub(crate) const IDLE_CONNECTIONS: usize = 500;
/// Share of connections that must resume a session for the figure to count as resumption.
const RESUMED_PART_MIN: f64 = 0.95;
/// A server that says nothing for so long has failed.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(20);

/// How a TLS connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// With certificate and signature.
    Full,
    /// With what both sides remember of an earlier one.
    Resumed,
}

impl Beginning {
    pub(crate) const BOTH: [Self; 2] = [Self::Full, Self::Resumed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Resumed => "resumed",
        }
    }
}

/// What an idle connection was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    /// HTTP over TLS.
    Https,
    /// The XRootD protocol in clear text.
    Root,
}

impl Idle {
    pub(crate) const BOTH: [Self; 2] = [Self::Https, Self::Root];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Root => "root",
        }
    }
}

/// Where a client connects to, and what it asks for there.
#[derive(Clone)]
pub(crate) struct Target {
    port: u16,
    request: Arc<str>,
    config: Arc<ClientConfig>,
}

impl Target {
    fn new(server: &Server, ca_file: &Path, file: &str, beginning: Beginning) -> Result<Self> {
        let url = server.url(Scheme::Https, file);
        let place = url
            .strip_prefix("https://localhost:")
            .and_then(|rest| rest.split_once('/'));
        let bad = || Error::Failed(format!("{url} is not on localhost"));
        let (port, path) = place.ok_or_else(bad)?;
        Self::at(port.parse().map_err(|_| bad())?, path, ca_file, beginning)
    }

    pub(crate) fn at(port: u16, path: &str, ca_file: &Path, beginning: Beginning) -> Result<Self> {
        Ok(Self {
            port,
            request: format!("HEAD /{path} HTTP/1.1\r\nHost: localhost\r\n").into(),
            config: config(ca_file, beginning)?,
        })
    }

    /// One for each client, as each remembers sessions of its own, and has been there once to have
    /// one.
    pub(crate) fn many(target: impl Fn() -> Result<Self>) -> Result<Vec<Self>> {
        let visited = |_| {
            let target = target()?;
            target.visit()?;
            Ok(target)
        };
        (0..HANDSHAKE_CLIENTS).map(visited).collect()
    }

    /// For requests with more header lines, one after the other on a connection.
    pub(crate) fn keeping(server: &Server, ca_file: &Path, file: &str, headers: &str) -> Result<Self> {
        let plain = Self::new(server, ca_file, file, Beginning::Full)?;
        Ok(Self {
            request: format!("{}{headers}\r\n", plain.request).into(),
            ..plain
        })
    }

    /// The same with another method than HEAD.
    #[must_use]
    pub(crate) fn with_method(mut self, method: &str) -> Self {
        self.request = self.request.replacen("HEAD", method, 1).into();
        self
    }

    /// What is sent.
    pub(crate) fn request(&self) -> &str {
        &self.request
    }

    pub(crate) fn connect(&self) -> Result<StreamOwned<ClientConnection, TcpStream>> {
        let tcp = TcpStream::connect(("127.0.0.1", self.port))?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        let name = ServerName::try_from("localhost").map_err(|e| Error::Failed(e.to_string()))?;
        let session = ClientConnection::new(self.config.clone(), name).map_err(|e| Error::Failed(e.to_string()))?;
        Ok(StreamOwned::new(session, tcp))
    }

    /// One connection from its beginning to its end. Returns whether it was resumed.
    ///
    /// The client leaves when it has its answer: XRootD keeps a connection open although
    /// `Connection: close` was said.
    fn visit(&self) -> Result<bool> {
        let mut stream = self.stay()?;
        let resumed = stream.conn.handshake_kind() == Some(HandshakeKind::Resumed);
        stream.conn.send_close_notify();
        stream.flush()?;
        Ok(resumed)
    }

    /// A connection that has had its answer and stays open.
    fn stay(&self) -> Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut stream = self.connect()?;
        stream.write_all(format!("{}\r\n", self.request).as_bytes())?;
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        while !answer.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            match stream.read(&mut piece)? {
                0 => break,
                count => answer.extend_from_slice(&piece[..count]),
            }
        }
        expect_success(&answer)?;
        Ok(stream)
    }
}

pub(crate) fn expect_success(answer: &[u8]) -> Result<()> {
    match answer.starts_with(b"HTTP/1.1 200") {
        true => Ok(()),
        false => {
            let words = String::from_utf8_lossy(&answer[..answer.len().min(200)]).into_owned();
            Err(Error::Failed(format!("the answer was {words:?}")))
        }
    }
}

/// TLS that trusts this authority.
pub(crate) fn config(ca_file: &Path, beginning: Beginning) -> Result<Arc<ClientConfig>> {
    let mut config = testkit::tls_client(ca_file)?.with_no_client_auth();
    config.enable_secret_extraction = true;
    if beginning == Beginning::Full {
        config.resumption = Resumption::disabled();
    }
    Ok(Arc::new(config))
}

/// What clients did together.
#[derive(Default)]
pub(crate) struct Tally {
    visits: u64,
    resumed: u64,
    seconds: f64,
}

impl Tally {
    /// One client for each target, each at once, connecting for so long.
    pub(crate) fn of(targets: &[Target], during: Duration) -> Result<Self> {
        let began = Instant::now();
        let end = began + during;
        let tallies: Vec<Result<Self>> = std::thread::scope(|scope| {
            let clients: Vec<_> = targets
                .iter()
                .map(|target| scope.spawn(move || visit_until(target, end)))
                .collect();
            let gone = || Err(Error::Failed("a client panicked".to_owned()));
            clients
                .into_iter()
                .map(|client| client.join().unwrap_or_else(|_| gone()))
                .collect()
        });
        let mut sum = Self {
            seconds: began.elapsed().as_secs_f64(),
            ..Self::default()
        };
        for tally in tallies {
            let tally = tally?;
            sum.visits += tally.visits;
            sum.resumed += tally.resumed;
        }
        Ok(sum)
    }

    /// With what a server used meanwhile, in seconds.
    pub(crate) fn sample(&self, beginning: Beginning, used: f64) -> Result<Sample> {
        let visits = self.visits as f64;
        let resumed = self.resumed as f64 / visits;
        if beginning == Beginning::Resumed && resumed < RESUMED_PART_MIN {
            return Err(Error::Failed(format!(
                "only {:.0} % of the sessions were resumed",
                resumed * 100.0
            )));
        }
        Ok(Sample {
            first: visits / self.seconds,
            second: used * 1e6 / visits,
        })
    }
}

fn visit_until(target: &Target, end: Instant) -> Result<Tally> {
    let mut tally = Tally::default();
    while Instant::now() < end {
        tally.resumed += u64::from(target.visit()?);
        tally.visits += 1;
    }
    Ok(tally)
}

impl Bench {
    /// Connections as often as the server can take them, from several clients at once.
    pub(crate) fn handshakes(&mut self, pair: &mut Pair, beginning: Beginning) -> Result<Sample> {
        let server = &mut pair.first;
        self.lab.plant(server, "handshake", 0)?;
        let ca_file = self.lab.ca_file();
        let targets = Target::many(|| Target::new(server, &ca_file, "handshake", beginning))?;
        let before = server.process().cpu_seconds()?;
        let tally = Tally::of(&targets, Duration::from_secs(self.load_seconds.into()))?;
        let used = server.process().cpu_seconds()? - before;
        tally.sample(beginning, used)
    }

    /// What each of many idle connections adds to the memory of a fresh server, in KiB, and that
    /// memory in MiB. Each has had one answer.
    pub(crate) fn idle_memory(&mut self, kind: Kind, over: Idle) -> Result<Sample> {
        let mut server = self.lab.start(kind)?;
        match over {
            Idle::Https => {
                self.lab.plant(&server, "idle", 0)?;
                let target = Target::new(&server, &self.lab.ca_file(), "idle", Beginning::Full)?;
                added_memory(&mut server, || target.stay())
            }
            Idle::Root => {
                let port = server.root_port()?;
                added_memory(&mut server, || XrootSession::open(port, false))
            }
        }
    }
}

fn added_memory<C>(server: &mut Server, open: impl Fn() -> Result<C>) -> Result<Sample> {
    let mut kept = Vec::new();
    // What a server makes ready once is no cost of a connection.
    for _ in 0..IDLE_CONNECTIONS / 10 {
        kept.push(open()?);
    }
    let before = server.process().memory()?.resident_bytes;
    for _ in 0..IDLE_CONNECTIONS {
        kept.push(open()?);
    }
    let after = server.process().memory()?.resident_bytes;
    Ok(Sample {
        first: after.saturating_sub(before) as f64 / 1024.0 / IDLE_CONNECTIONS as f64,
        second: after as f64 / (1 << 20) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_are_not_gone_on_with_are_no_figure() {
        let tally = Tally {
            visits: 100,
            resumed: 94,
            seconds: 2.0,
        };
        assert!(tally.sample(Beginning::Resumed, 0.1).is_err());
        let sample = tally.sample(Beginning::Full, 0.1).expect("a figure");
        assert_eq!((sample.first, sample.second), (50.0, 1000.0));
    }
}
