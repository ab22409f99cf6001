//! Questions about many files, as many at once as a connection takes.

use std::thread;
use std::time::Instant;

use testkit::Result;
use xroot_wire::request::{Request, Stat};

use super::session::{XrootSession, failed};

/// What was asked, and how fast it was answered.
pub(crate) struct Asked {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
}

/// Asks on `connections` at once for all of `paths`, which are divided among them, `rounds` times.
/// A connection sends the questions of a round together and then reads the answers.
pub(crate) fn ask(port: u16, paths: &[String], connections: usize, rounds: u32) -> Result<Asked> {
    let share = paths.len().div_ceil(connections).max(1);
    let mut sessions = Vec::new();
    for part in paths.chunks(share) {
        sessions.push((XrootSession::open(port, false)?, part));
    }
    let started = Instant::now();
    let outcome = thread::scope(|scope| {
        let workers: Vec<_> = sessions
            .iter_mut()
            .map(|(session, part)| scope.spawn(|| (0..rounds).try_for_each(|_| round(session, part))))
            .collect();
        // Every thread is waited for, whatever became of the others.
        let ends: Vec<Result<()>> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(failed("a client failed"))))
            .collect();
        ends.into_iter().collect::<Result<()>>()
    });
    let seconds = started.elapsed().as_secs_f64();
    outcome.map(|()| Asked {
        requests: paths.len() as u64 * u64::from(rounds),
        seconds,
    })
}

fn round(session: &mut XrootSession, paths: &[String]) -> Result<()> {
    for path in paths {
        session.queue(&Request::Stat(Stat::path(path.as_bytes())));
    }
    session.send()?;
    for path in paths {
        let mut length = 0;
        session.pass_answer(|bytes| {
            length += bytes.len();
            Ok(())
        })?;
        if length == 0 {
            return Err(failed(format!("nothing is said of {path}")));
        }
    }
    Ok(())
}
