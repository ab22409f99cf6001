//! TLS 1.3 as a client that does no more than it must, so that what is measured is the server:
//! rustls shakes hands, and records are opened where they were read to, as the endpoint does it.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;

use ::records::{ContentType, HEADER_BYTES, Opener, RecordFault, Sealer, record_length};
use net::tls::record_keys;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion};
use rustls_pki_types::ServerName;
use testkit::{Error, Result};

/// What is read from the system at once.
const AHEAD_BYTES: usize = 256 << 10;
/// Payload of a record (RFC 8446 §5.2).
const PAYLOAD_BYTES_MAX: usize = 16 << 10;
/// The only message after the handshake that may be passed over (RFC 8446 §4).
const NEW_SESSION_TICKET: u8 = 4;
/// The alert that ends a connection properly (RFC 8446 §6).
const CLOSE_NOTIFY: u8 = 0;

/// A connection after its handshake.
pub(crate) struct Records {
    input: BufReader<TcpStream>,
    opener: Opener,
    sealer: Sealer,
    /// The last record that came.
    record: Vec<u8>,
    /// Where its unread payload lies.
    unread: Range<usize>,
}

impl Records {
    /// Shakes hands as the configuration says, which lets the keys out.
    pub(crate) fn begin(tcp: TcpStream, config: &Arc<ClientConfig>) -> Result<Self> {
        let failed = |cause: &dyn std::fmt::Display| Error::Failed(cause.to_string());
        let name = ServerName::try_from("localhost").map_err(|e| failed(&e))?;
        let mut session = ClientConnection::new(config.clone(), name).map_err(|e| failed(&e))?;
        let mut input = BufReader::with_capacity(AHEAD_BYTES, tcp);
        let mut record = Vec::new();
        while session.is_handshaking() || session.wants_write() {
            while session.wants_write() {
                session.write_tls(input.get_mut())?;
            }
            if session.is_handshaking() {
                // One record and no more: what follows the handshake is ours to open.
                if !read_record(&mut input, &mut record)? {
                    return Err(failed(&"the connection ended within the handshake"));
                }
                let mut rest = &record[..];
                while !rest.is_empty() {
                    session.read_tls(&mut rest)?;
                    session.process_new_packets().map_err(|e| failed(&e))?;
                }
            }
        }
        let version = ProtocolVersion::TLSv1_3;
        if session.protocol_version() != Some(version) {
            return Err(failed(&"the server does not speak TLS 1.3"));
        }
        let secrets = session.dangerous_extract_secrets().map_err(|e| failed(&e))?;
        let other = || failed(&"a cipher that the benchmark does not know");
        Ok(Self {
            input,
            opener: Opener::new(record_keys(version, secrets.rx.0, &secrets.rx.1).ok_or_else(other)?),
            sealer: Sealer::new(record_keys(version, secrets.tx.0, &secrets.tx.1).ok_or_else(other)?),
            record,
            unread: 0..0,
        })
    }

    /// Takes in the next record. `false` at the end of the connection.
    fn next(&mut self) -> io::Result<bool> {
        if !read_record(&mut self.input, &mut self.record)? {
            return Ok(false);
        }
        let (content, place) = self.opener.open(&mut self.record).map_err(broken)?;
        match (content, &self.record[place.clone()]) {
            (ContentType::ApplicationData, _) => self.unread = place,
            (ContentType::Handshake, [NEW_SESSION_TICKET, ..]) => {}
            (ContentType::Alert, [_, CLOSE_NOTIFY]) => return Ok(false),
            (other, _) => return Err(io::Error::other(format!("a record of type {other:?}"))),
        }
        Ok(true)
    }
}

fn broken(fault: RecordFault) -> io::Error {
    io::Error::other(fault.to_string())
}

/// Reads a whole record into `record`. `false` at the end of the connection.
fn read_record(input: &mut impl Read, record: &mut Vec<u8>) -> io::Result<bool> {
    record.resize(HEADER_BYTES, 0);
    if input.read(&mut record[..1])? == 0 {
        return Ok(false);
    }
    input.read_exact(&mut record[1..])?;
    let length = record_length(record).map_err(broken)?.unwrap_or(HEADER_BYTES);
    record.resize(length, 0);
    input.read_exact(&mut record[HEADER_BYTES..])?;
    Ok(true)
}

impl Read for Records {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.unread.is_empty() {
            if !self.next()? {
                return Ok(0);
            }
        }
        let count = self.unread.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.record[self.unread.start..][..count]);
        self.unread.start += count;
        Ok(count)
    }
}

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let payload = &bytes[..bytes.len().min(PAYLOAD_BYTES_MAX)];
        let mut record = Vec::new();
        let sealed = self
            .sealer
            .seal_copy(payload, ContentType::ApplicationData, &mut record);
        sealed.map_err(broken)?;
        self.input.get_mut().write_all(&record)?;
        Ok(payload.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input.get_mut().flush()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use rustls::{ServerConnection, StreamOwned};

    use super::*;
    use crate::handshake::{Beginning, config};

    #[test]
    fn what_is_sent_comes_back_until_the_end() {
        let made = testkit::SelfSigned::localhost().expect("made");
        let server = testkit::tls_server(&made.certificate, &made.key).expect("a server");
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let echo = thread::spawn(move || {
            let (tcp, _) = listener.accept().expect("a client");
            let session = ServerConnection::new(server).expect("a session");
            let mut stream = StreamOwned::new(session, tcp);
            let mut seen = vec![0; 100_000];
            stream.read_exact(&mut seen).expect("all of it");
            stream.write_all(&seen).expect("sent");
            stream.conn.send_close_notify();
            stream.flush().expect("sent");
        });
        let tcp = TcpStream::connect(("127.0.0.1", port)).expect("there");
        let config = config(&made.certificate, Beginning::Full).expect("a configuration");
        let mut records = Records::begin(tcp, &config).expect("shaken");
        let content: Vec<u8> = (0..100_000_u32).map(|index| (index / 3) as u8).collect();
        records.write_all(&content).expect("sent");
        let mut seen = Vec::new();
        records.read_to_end(&mut seen).expect("all of it, and the end");
        echo.join().expect("it went on to its end");
        assert!(seen == content, "{} bytes came back", seen.len());
    }

    #[test]
    fn a_record_longer_than_may_be_is_refused() {
        let mut record = Vec::new();
        let longest = [&[23, 3, 3, 0x41, 0x00][..], &[7; 0x4100]].concat();
        assert!(read_record(&mut &longest[..], &mut record).expect("the longest"));
        assert_eq!(record, longest);
        assert!(!read_record(&mut &[][..], &mut record).expect("the end"));
        let longer = [&[23, 3, 3, 0x41, 0x01][..], &[7; 0x4101]].concat();
        assert!(read_record(&mut &longer[..], &mut record).is_err());
    }
}
