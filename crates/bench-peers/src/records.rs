//! TLS 1.3 as a client that does no more than it must, so that what is measured is the server: rustls shakes hands, and records are opened
//! where they were read to, with the ciphers that the floor uses.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;

use net::cipher::{Algorithm, Cipher, NONCE_BYTES, TAG_BYTES};
use rustls::{ClientConfig, ClientConnection, ConnectionTrafficSecrets, ProtocolVersion};
use rustls_pki_types::ServerName;
use testkit::{Error, Result};

/// What is read from the system at once.
const AHEAD_BYTES: usize = 256 << 10;
/// A record's type, version and length (RFC 8446 §5.1).
const HEADER_BYTES: usize = 5;
/// Payload of a record, and what may come with it (RFC 8446 §5.2).
const PAYLOAD_BYTES_MAX: usize = 16 << 10;
const RECORD_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 256;
/// Types of content (RFC 8446 §5.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
/// The only message after the handshake that may be passed over (RFC 8446 §4).
const NEW_SESSION_TICKET: u8 = 4;
/// The alert that ends a connection properly (RFC 8446 §6).
const CLOSE_NOTIFY: u8 = 0;

/// A connection after its handshake.
pub(crate) struct Records {
    input: BufReader<TcpStream>,
    opening: Direction,
    sealing: Direction,
    record: Vec<u8>,
    /// Payload of the record that nobody has read yet.
    unread: Range<usize>,
}

struct Direction {
    cipher: Cipher,
    iv: [u8; NONCE_BYTES],
    number: u64,
}

impl Direction {
    fn new((number, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self> {
        let other = || Error::Failed("a cipher that the benchmark does not know".to_owned());
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Algorithm::Aes128Gcm, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Algorithm::Aes256Gcm, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (Algorithm::ChaCha20Poly1305, key, iv),
            _ => return Err(other()),
        };
        Ok(Self {
            cipher: Cipher::new(algorithm, key.as_ref()).ok_or_else(other)?,
            iv: iv.as_ref().try_into().map_err(|_| other())?,
            number,
        })
    }

    /// That of the next record (RFC 8446 §5.3).
    fn nonce(&mut self) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        for (byte, number) in nonce.iter_mut().rev().zip(self.number.to_le_bytes()) {
            *byte ^= number;
        }
        self.number += 1;
        nonce
    }
}

impl Records {
    /// Shakes hands as the configuration says, which lets the keys out.
    pub(crate) fn begin(tcp: TcpStream, config: &Arc<ClientConfig>) -> Result<Self> {
        let failed = |cause: &dyn std::fmt::Display| Error::Failed(cause.to_string());
        let name = ServerName::try_from("localhost").map_err(|e| failed(&e))?;
        let mut session = ClientConnection::new(config.clone(), name).map_err(|e| failed(&e))?;
        let mut input = BufReader::with_capacity(AHEAD_BYTES, tcp);
        while session.is_handshaking() || session.wants_write() {
            while session.wants_write() {
                session.write_tls(input.get_mut())?;
            }
            if session.is_handshaking() {
                // One record and no more: what follows the handshake is ours to open.
                let record = whole_record(&mut input)?;
                let mut rest = &record[..];
                while !rest.is_empty() {
                    session.read_tls(&mut rest)?;
                    session.process_new_packets().map_err(|e| failed(&e))?;
                }
            }
        }
        if session.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
            return Err(failed(&"the server does not speak TLS 1.3"));
        }
        let secrets = session.dangerous_extract_secrets().map_err(|e| failed(&e))?;
        Ok(Self {
            input,
            opening: Direction::new(secrets.rx)?,
            sealing: Direction::new(secrets.tx)?,
            record: Vec::with_capacity(RECORD_BYTES_MAX),
            unread: 0..0,
        })
    }

    /// Takes in the next record. `false` at the end of the connection.
    fn next(&mut self) -> io::Result<bool> {
        let mut header = [0; HEADER_BYTES];
        if self.input.read(&mut header[..1])? == 0 {
            return Ok(false);
        }
        self.input.read_exact(&mut header[1..])?;
        self.record.resize(body_bytes(header)?, 0);
        self.input.read_exact(&mut self.record)?;
        let nonce = self.opening.nonce();
        let inner = self.opening.cipher.open(nonce, &header, &mut self.record);
        let inner = inner.map_err(|_| io::Error::other("a record cannot be opened"))?;
        // Zeros may follow the type.
        let end = inner.iter().rposition(|byte| *byte != 0);
        match end.map(|end| (inner[end], &inner[..end])) {
            Some((DATA, payload)) => self.unread = 0..payload.len(),
            Some((HANDSHAKE, [NEW_SESSION_TICKET, ..])) => {}
            Some((ALERT, [_, CLOSE_NOTIFY])) => return Ok(false),
            kind => {
                return Err(io::Error::other(format!(
                    "a record of type {:?}",
                    kind.map(|(kind, _)| kind)
                )));
            }
        }
        Ok(true)
    }
}

fn body_bytes(header: [u8; HEADER_BYTES]) -> io::Result<usize> {
    match usize::from(u16::from_be_bytes([header[3], header[4]])) {
        length @ 1..=RECORD_BYTES_MAX => Ok(length),
        length => Err(io::Error::other(format!("a record of {length} bytes"))),
    }
}

fn whole_record(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut header = [0; HEADER_BYTES];
    input.read_exact(&mut header)?;
    let mut record = header.to_vec();
    record.resize(HEADER_BYTES + body_bytes(header)?, 0);
    input.read_exact(&mut record[HEADER_BYTES..])?;
    Ok(record)
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
        let length = payload.len() + 1 + TAG_BYTES;
        let mut record = vec![DATA, 3, 3, (length >> 8) as u8, length as u8];
        record.extend_from_slice(payload);
        record.push(DATA);
        let (header, inner) = record.split_at_mut(HEADER_BYTES);
        let nonce = self.sealing.nonce();
        let tag = self.sealing.cipher.seal(nonce, header, inner);
        record.extend_from_slice(&tag.map_err(|_| io::Error::other("a record cannot be sealed"))?);
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
    fn nonces_count_up_from_the_iv() {
        let key = Cipher::new(Algorithm::Aes128Gcm, &[0; 16]).expect("a key");
        let mut direction = Direction {
            cipher: key,
            iv: [0x10; NONCE_BYTES],
            number: 0x0201,
        };
        let mut expected = [0x10; NONCE_BYTES];
        (expected[10], expected[11]) = (0x12, 0x11);
        assert_eq!(direction.nonce(), expected);
        expected[11] = 0x12;
        assert_eq!(direction.nonce(), expected);
    }

    #[test]
    fn a_record_longer_than_may_be_is_refused() {
        assert!(body_bytes([DATA, 3, 3, 0x41, 0x01]).is_err());
        assert_eq!(
            body_bytes([DATA, 3, 3, 0x41, 0x00]).expect("the longest"),
            RECORD_BYTES_MAX
        );
        assert!(body_bytes([DATA, 3, 3, 0, 0]).is_err());
    }
}
