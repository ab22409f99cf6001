//! What logins by gsi cost, with a proxy delegated and without, and what copies with such a proxy
//! cost (TPC Lite) beside copies by a rendezvous key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use testkit::Result;

use super::gsi::Login;
use super::session::{XrootSession, failed};
use super::third_party::Way;
use crate::line::Door;
use crate::progress;
use crate::server::{Kind, Server};
use crate::workload::{Bench, Pair, Sample, measured, take_away};

/// Clients that log in at the same time.
pub(crate) const LOGIN_CLIENTS: usize = 4;
/// Turns of a copy by key and a copy by proxy in one sample.
pub(crate) const LITE_TURNS: u64 = 8;

/// Size of the file in those copies, where the largest file is of `size_bytes`: the login that a
/// destination makes with a proxy counts the more, the smaller the file.
pub(crate) fn lite_bytes(size_bytes: u64) -> u64 {
    size_bytes.min(256 << 20)
}

/// What a login is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginKind {
    /// Who is there.
    Plain,
    /// And a proxy, for which the server makes a key.
    Delegating,
}

impl LoginKind {
    pub(crate) const BOTH: [Self; 2] = [Self::Plain, Self::Delegating];

    /// Logins in one sample, for each second that a load is to last. The time to make a key
    /// differs from key to key, by more than half of its mean.
    pub(crate) fn count(self, load_seconds: u32) -> usize {
        let for_each = match self {
            Self::Plain => 128,
            Self::Delegating => 32,
        };
        for_each * load_seconds as usize
    }
}

impl Bench {
    /// Logins of users who have not been there before, several at once: the server's processor
    /// milliseconds for each, and how many there are in a second.
    pub(crate) fn logins(&mut self, kind: Kind, login: LoginKind) -> Result<Sample> {
        let mut pair = self.guarded(kind)?;
        let sample = self.log_in(&mut pair.first, login);
        self.guarded.insert(kind, pair);
        sample
    }

    fn log_in(&mut self, server: &mut Server, kind: LoginKind) -> Result<Sample> {
        let port = server.root_port()?;
        let logins: Vec<Login> = (0..kind.count(self.load_seconds))
            .map(|_| self.login(kind == LoginKind::Delegating))
            .collect::<Result<_>>()?;
        // The first makes what later ones use too.
        visit(port, &self.login(false)?)?;
        let (before, own) = (server.process().cpu_seconds()?, own_cpu());
        let begun = Instant::now();
        visit_all(port, &logins)?;
        let seconds = begun.elapsed().as_secs_f64();
        let (used, own) = (server.process().cpu_seconds()? - before, own_cpu() - own);
        let count = logins.len() as f64;
        progress(&format!(
            "  the client itself takes {:.1} ms of processor time for a login",
            own.as_secs_f64() * 1e3 / count
        ));
        Ok(Sample {
            first: used * 1e3 / count,
            second: count / seconds,
        })
    }

    /// A copy with a delegated proxy beside the same copy by key, between the same two servers in
    /// clear text: the processor time of both servers, divided, and that with the proxy in seconds
    /// for each GB.
    pub(crate) fn lite(&mut self, kind: Kind) -> Result<Sample> {
        let mut pair = self.guarded(kind)?;
        let sample = self.compare_ways(&mut pair);
        self.guarded.insert(kind, pair);
        sample
    }

    fn compare_ways(&mut self, pair: &mut Pair) -> Result<Sample> {
        let Pair {
            first: destination,
            second: Some(source),
        } = pair
        else {
            return Err(failed("copies need two servers"));
        };
        let login = self.login(true)?;
        let mut ways = [Way::Key, Way::Proxy];
        let (mut by_key, mut by_proxy) = (0.0, 0.0);
        for _ in 0..LITE_TURNS {
            for way in ways {
                let used = self.copy_once(destination, source, &login, way)?;
                match way {
                    Way::Key => by_key += used,
                    Way::Proxy => by_proxy += used,
                }
            }
            ways.reverse();
        }
        Ok(Sample {
            first: by_proxy / by_key,
            second: by_proxy / LITE_TURNS as f64,
        })
    }

    /// One copy, in sessions that were opened before. Returns processor seconds for each GB.
    fn copy_once(&mut self, to: &mut Server, from: &mut Server, login: &Login, way: Way) -> Result<f64> {
        let bytes = lite_bytes(self.size_bytes);
        let (copies, names, checksum) = self.prepare_copies(to, from, 1, bytes)?;
        let mut copy = copies.into_iter().next().ok_or_else(|| failed("there is no copy"))?;
        copy.way = way;
        let mut sessions = copy.sessions(Some(login))?;
        let sample = measured(&mut [to, from], bytes, || copy.run_in(&mut sessions).map(|()| bytes));
        let checked = take_away(to, &names, checksum);
        sample.and_then(|sample| checked.map(|()| sample.first))
    }

    /// Two servers that want logins by gsi, started for the first measurement that needs them. The
    /// caller puts them back.
    fn guarded(&mut self, kind: Kind) -> Result<Pair> {
        match self.guarded.remove(&kind) {
            Some(pair) => Ok(pair),
            None => Ok(Pair {
                first: self.lab.start_guarded(kind)?,
                second: Some(self.lab.start_guarded(kind)?),
            }),
        }
    }

    /// Of a new user.
    fn login(&mut self, delegates: bool) -> Result<Login> {
        Ok(Login {
            user: Arc::new(self.lab.user()?),
            delegates,
        })
    }
}

fn visit_all(port: u16, logins: &[Login]) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(login) = logins.get(next.fetch_add(1, Ordering::Relaxed)) {
            visit(port, login)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..LOGIN_CLIENTS).map(|_| scope.spawn(work)).collect();
        let ends: Vec<Result<()>> = clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|_| Err(failed("a client failed"))))
            .collect();
        ends.into_iter().collect()
    })
}

/// One login. One that offers a proxy must be asked for it.
fn visit(port: u16, login: &Login) -> Result<()> {
    let session = XrootSession::log_in(&Door { port, tls: None }, false, Some(login))?;
    match session.has_delegated() == login.delegates {
        true => Ok(()),
        false => Err(failed("the server did not ask for a proxy")),
    }
}

/// The processor time of this process so far.
fn own_cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
