//! The floor of a redirection: a thread receives a request of as many bytes as a client sends, and
//! answers with as many as a redirector does. It knows in which order its connections ask, so that
//! it needs no call to find out.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use testkit::{Error, Result};

use super::{clocked, joined};
use crate::summary::Summary;
use crate::workload::Sample;

/// Requests that are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) request_bytes: usize,
    pub(crate) answer_bytes: usize,
    /// Connections of each thread; there are as many threads on both sides.
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) seconds: u32,
}

/// A thread that answers on one connection, and the other end of that.
pub(crate) struct Asked {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    server: JoinHandle<Result<f64>>,
}

impl Asked {
    /// Asks once.
    pub(crate) fn ask(&mut self) -> Result<()> {
        self.stream.write_all(&self.request)?;
        Ok(self.stream.read_exact(&mut self.answer)?)
    }

    /// Ends it. Returns the processor time of the thread.
    pub(crate) fn end(self) -> Result<f64> {
        drop(self.stream);
        let ended = self.server.join();
        ended.map_err(|_| Error::Failed("a thread of the floor panicked".to_owned()))?
    }
}

/// How long clients waited for the answers to one request on each of their connections.
struct Waits(Vec<Duration>);

impl Answers {
    /// Starts a thread for one connection.
    pub(crate) fn start(self) -> Result<Asked> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let stream = connected(TcpStream::connect(listener.local_addr()?)?)?;
        let near = connected(listener.accept()?.0)?;
        Ok(Asked {
            stream,
            request: vec![1; self.request_bytes],
            answer: vec![0; self.answer_bytes],
            server: thread::spawn(move || clocked(|| self.serve(&mut [near]))),
        })
    }

    /// On one connection: milliseconds of an answer. On several: answers per second. And processor
    /// seconds for 1000 of them.
    pub(super) fn measure(self) -> Result<Sample> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let began = Instant::now();
        let end = began + Duration::from_secs(self.seconds.into());
        let (waits, used) = thread::scope(|scope| {
            let (mut servers, mut clients) = (Vec::new(), Vec::new());
            for _ in 0..self.threads {
                let (mut far, mut near) = (Vec::new(), Vec::new());
                for _ in 0..self.connections {
                    far.push(connected(TcpStream::connect(address)?)?);
                    near.push(connected(listener.accept()?.0)?);
                }
                servers.push(scope.spawn(move || clocked(|| self.serve(&mut near))));
                clients.push(scope.spawn(move || self.ask(far, end)));
            }
            let waits: Vec<Waits> = clients.into_iter().map(joined).collect::<Result<_>>()?;
            let used = servers.into_iter().map(joined).sum::<Result<f64>>()?;
            Ok::<_, Error>((waits, used))
        })?;
        let elapsed = began.elapsed().as_secs_f64();
        let count: usize = waits.iter().map(|waits| waits.0.len() * self.connections).sum();
        let second = used * 1e3 / count as f64;
        if self.threads * self.connections > 1 {
            return Ok(Sample {
                first: count as f64 / elapsed,
                second,
            });
        }
        let waits = waits.iter().flat_map(|waits| &waits.0);
        let waits: Vec<f64> = waits.map(|wait| wait.as_secs_f64() * 1e3).collect();
        let first = Summary::of(&waits).map_or(f64::NAN, |waits| waits.median);
        Ok(Sample { first, second })
    }

    /// The client: one request on each connection, then the answers.
    fn ask(self, mut streams: Vec<TcpStream>, end: Instant) -> Result<Waits> {
        let (request, mut answer) = (vec![1; self.request_bytes], vec![0; self.answer_bytes]);
        let mut waits = Vec::new();
        while waits.is_empty() || Instant::now() < end {
            let began = Instant::now();
            for stream in &mut streams {
                stream.write_all(&request)?;
            }
            for stream in &mut streams {
                stream.read_exact(&mut answer)?;
            }
            waits.push(began.elapsed());
        }
        Ok(Waits(waits))
    }

    /// Answers until the client leaves.
    fn serve(self, streams: &mut [TcpStream]) -> Result<()> {
        let (mut request, answer) = (vec![0; self.request_bytes], vec![2; self.answer_bytes]);
        loop {
            for stream in &mut *streams {
                match stream.read_exact(&mut request) {
                    Ok(()) => stream.write_all(&answer)?,
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

fn connected(stream: TcpStream) -> Result<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_is_timed_and_several_are_counted() {
        let answers = Answers {
            request_bytes: 60,
            answer_bytes: 40,
            connections: 1,
            threads: 1,
            seconds: 1,
        };
        let timed = answers.measure().expect("measured");
        assert!(timed.first < 100.0 && timed.second > 0.0, "{timed:?}");
        let many = Answers {
            connections: 4,
            threads: 2,
            ..answers
        };
        let counted = many.measure().expect("measured");
        assert!(counted.first > 100.0 && counted.second > 0.0, "{counted:?}");
        let mut asked = answers.start().expect("started");
        asked.ask().expect("answered");
        assert!(asked.end().expect("ended") > 0.0);
    }
}
