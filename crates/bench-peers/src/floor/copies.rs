//! The floor of third-party copies: the loop of the source sends to the loop of the destination, on
//! the processors that both servers share. Threads that wait for each other do not always do so in
//! the best order, so each loop is measured by itself as well, with a client that does not count;
//! the better figures are the floor.
//!
//! Over TLS the destination also greets one client for each copy, with the benchmark's certificate.
//! The rest of a copy (the destination's handshake with the source, the requests) is small, or
//! reuses an earlier connection.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use rustls_pki_types::ServerName;
use testkit::{Error, Result};

use super::{BATCH_BYTES, Loop, batches, clocked, joined, remove_targets};
use crate::workload::{Sample, copy_bytes};

/// Copies at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copies {
    pub(crate) from: Loop,
    pub(crate) to: Loop,
    pub(crate) count: u64,
    /// Connections of each.
    pub(crate) streams: u64,
}

/// Both ends of a TLS connection.
pub(crate) struct Tls {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
}

impl Copies {
    /// The processor time is that of both sides; the rate is what they reach together, or could.
    pub(super) fn measure(self, source: &Path, tls: &Tls) -> Result<Sample> {
        let tls = (self.from == Loop::SendSealed).then_some(tls);
        let (together, apart) = (self.together(source, tls)?, self.apart(source, tls)?);
        Ok(Sample {
            first: together.first.min(apart.first),
            second: together.second.max(apart.second),
        })
    }

    /// Each loop with a client of its own. The rate is that of the slower one, or what all
    /// processors together are enough for.
    fn apart(self, source: &Path, tls: Option<&Tls>) -> Result<Sample> {
        let connections = self.count * self.streams;
        let (from, to) = (
            self.from.measure(connections, source)?,
            self.to.measure(connections, source)?,
        );
        let greetings = clocked(|| (0..self.count).try_for_each(|_| tls.map_or(Ok(()), Tls::greet)))?;
        let gigabytes = (copy_bytes(source.metadata()?.len(), self.count) * self.count) as f64 / 1e9;
        let used = from.first + to.first + greetings / gigabytes;
        let processors = thread::available_parallelism()?.get() as f64;
        Ok(Sample {
            first: used,
            second: from.second.min(to.second).min(processors * 8.0 / used),
        })
    }

    fn together(self, source: &Path, tls: Option<&Tls>) -> Result<Sample> {
        let file_bytes = source.metadata()?.len();
        let batches_each = batches(copy_bytes(file_bytes, self.count) / self.streams);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let connections = self.count * self.streams;
        let began = Instant::now();
        let used = thread::scope(|scope| {
            let mut sides = Vec::new();
            for index in 0..connections {
                let far = TcpStream::connect(address)?;
                let (near, _) = listener.accept()?;
                let start = (index * batches_each) % batches(file_bytes);
                let start = start.min(batches(file_bytes) - batches_each);
                let part = start..start + batches_each;
                let same = part.clone();
                let greeted = tls.filter(|_| index < self.count);
                sides.push(scope.spawn(move || self.from.run(&near, source, index, part)));
                sides.push(scope.spawn(move || {
                    let greeting = clocked(|| greeted.map_or(Ok(()), Tls::greet))?;
                    Ok(greeting + self.to.run(&far, source, index, same)?)
                }));
            }
            sides.into_iter().map(joined).sum::<Result<f64>>()
        });
        let elapsed = began.elapsed();
        remove_targets(source, connections);
        let moved = connections * batches_each * BATCH_BYTES as u64;
        Ok(Sample::of_data(used?, moved, elapsed))
    }
}

impl Tls {
    /// A handshake with a client that has another thread.
    fn greet(&self) -> Result<()> {
        let fault = |cause: rustls::Error| Error::Failed(cause.to_string());
        let (mut near, mut far) = UnixStream::pair()?;
        let name = ServerName::try_from("localhost").map_err(|cause| Error::Failed(cause.to_string()))?;
        let mut client = ClientConnection::new(self.client.clone(), name).map_err(fault)?;
        let mut server = ServerConnection::new(self.server.clone()).map_err(fault)?;
        thread::scope(|scope| {
            let client = scope.spawn(move || {
                client.complete_io(&mut far)?;
                // It stays for the tickets, which it does not want.
                Ok(far)
            });
            server.complete_io(&mut near)?;
            joined(client).map(drop)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use testkit::Scratch;

    use super::*;
    use crate::handshake::{Beginning, config};

    #[test]
    fn copies_arrive_and_leave_nothing() {
        let scratch = Scratch::in_memory("floor-copies").expect("scratch");
        let source = scratch.join("source");
        fs::write(&source, vec![1; 4 * BATCH_BYTES]).expect("written");
        let made = testkit::SelfSigned::localhost().expect("made");
        let tls = Tls {
            server: testkit::tls_server(&made.certificate, &made.key).expect("a server"),
            client: config(&made.certificate, Beginning::Full).expect("a client"),
        };
        for (from, to) in [(Loop::Send, Loop::Take), (Loop::SendSealed, Loop::TakeSealed)] {
            for (count, streams) in [(1, 1), (1, 3), (3, 1)] {
                let copies = Copies {
                    from,
                    to,
                    count,
                    streams,
                };
                let sample = copies.measure(&source, &tls).expect("measured");
                assert!(sample.first > 0.0 && sample.second > 0.0, "{copies:?}: {sample:?}");
            }
        }
        assert_eq!(fs::read_dir(scratch.path()).expect("listed").count(), 1);
    }

    #[test]
    fn a_client_that_does_not_believe_the_certificate_is_noticed() {
        let (made, other) = (testkit::SelfSigned::localhost(), testkit::SelfSigned::localhost());
        let (made, other) = (made.expect("made"), other.expect("made"));
        let tls = Tls {
            server: testkit::tls_server(&made.certificate, &made.key).expect("a server"),
            client: config(&other.certificate, Beginning::Full).expect("a client"),
        };
        assert!(tls.greet().is_err());
    }
}
