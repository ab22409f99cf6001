//! The floor of TLS connections: a thread for each client, with nothing but the library of TLS,
//! takes a connection, answers the one thing that is asked on it, and waits for the client to
//! leave.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use testkit::{Error, Result};

use super::{clocked, joined};
use crate::handshake::{Beginning, HANDSHAKE_CLIENTS, Tally, Target};
use crate::workload::Sample;

/// What the end of a request looks like.
const REQUEST_END: &[u8] = b"\r\n\r\n";
/// What is answered, as long as what a server says of an empty file.
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Type: application/octet-stream\r\nAccept-Ranges: bytes\r\n\r\n";

/// Clients connect as often as they can, ask one thing, and leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greetings {
    pub(crate) beginning: Beginning,
    /// For how long.
    pub(crate) seconds: u32,
}

impl Greetings {
    /// Connections per second, and processor microseconds of the server for each.
    pub(super) fn measure(self, config: &ServerConfig, ca_file: &Path) -> Result<Sample> {
        let mut config = config.clone();
        // As many as a client needs.
        config.send_tls13_tickets = 1;
        let config = Arc::new(config);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let over = AtomicBool::new(false);
        let (tally, used) = thread::scope(|scope| {
            let serve = || clocked(|| serve(&listener, &config, &over));
            let servers: Vec<_> = (0..HANDSHAKE_CLIENTS).map(|_| scope.spawn(serve)).collect();
            let tally = Target::many(|| Target::at(address.port(), "handshake", ca_file, self.beginning))
                .and_then(|targets| Tally::of(&targets, Duration::from_secs(self.seconds.into())));
            over.store(true, Ordering::Relaxed);
            // Each takes one more, and looks whether it is over.
            let ends: io::Result<Vec<TcpStream>> = servers.iter().map(|_| TcpStream::connect(address)).collect();
            ends?;
            let used = servers.into_iter().map(joined).sum::<Result<f64>>()?;
            Ok::<_, Error>((tally?, used))
        })?;
        tally.sample(self.beginning, used)
    }
}

/// Serves one connection after the other until it is over.
fn serve(listener: &TcpListener, config: &Arc<ServerConfig>, over: &AtomicBool) -> Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        if over.load(Ordering::Relaxed) {
            return Ok(());
        }
        greet(stream, config)?;
    }
}

fn greet(stream: TcpStream, config: &Arc<ServerConfig>) -> Result<()> {
    stream.set_nodelay(true)?;
    let session = ServerConnection::new(config.clone()).map_err(|cause| Error::Failed(cause.to_string()))?;
    let mut stream = StreamOwned::new(session, stream);
    let (mut request, mut piece) = (Vec::new(), [0; 4096]);
    while !request.ends_with(REQUEST_END) {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&piece[..count]),
        }
    }
    stream.write_all(ANSWER)?;
    // The client leaves; how politely is its own affair.
    let _ = stream.read(&mut piece);
    stream.conn.send_close_notify();
    let _ = stream.flush();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_made_with_and_without_a_session() {
        let made = testkit::SelfSigned::localhost().expect("made");
        let config = testkit::tls_server(&made.certificate, &made.key).expect("a server");
        for beginning in Beginning::BOTH {
            let greetings = Greetings { beginning, seconds: 1 };
            let sample = greetings.measure(&config, &made.certificate).expect("measured");
            assert!(sample.first > 0.0 && sample.second > 0.0, "{beginning:?}: {sample:?}");
        }
    }
}
