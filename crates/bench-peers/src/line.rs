//! A connection of the benchmark's own clients, in clear text or over TLS.

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;
use testkit::{Error, Result};

/// Nothing that is measured may be silent for longer.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// Where a client connects to, and how.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) port: u16,
    /// What TLS begins with; clear text without.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// What is read from the system at once under TLS. rustls takes a record at a time, each of which would be a call and mostly a wait: the
/// processor time of that is the server's to do without on a machine that both share, as in the floor.
const AHEAD_BYTES: usize = 256 << 10;

/// A connection to a server of this machine.
pub(crate) enum Line {
    Clear(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, Ahead>>),
}

/// Reads ahead, and writes at once.
pub(crate) struct Ahead(BufReader<TcpStream>);

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Ahead {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}

impl Line {
    /// In clear text.
    pub(crate) fn clear(port: u16) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self::Clear(stream))
    }

    /// As the door says, from its beginning.
    pub(crate) fn open(door: &Door) -> Result<Self> {
        let line = Self::clear(door.port)?;
        match &door.tls {
            Some(config) => line.secure(config),
            None => Ok(line),
        }
    }

    /// Goes on over TLS.
    pub(crate) fn secure(self, config: &Arc<ClientConfig>) -> Result<Self> {
        let failed = |cause: &dyn std::fmt::Display| Error::Failed(cause.to_string());
        let Self::Clear(stream) = self else {
            return Err(Error::Failed("TLS within TLS".to_owned()));
        };
        let name = ServerName::try_from("localhost").map_err(|e| failed(&e))?;
        let session = ClientConnection::new(config.clone(), name).map_err(|e| failed(&e))?;
        let ahead = Ahead(BufReader::with_capacity(AHEAD_BYTES, stream));
        Ok(Self::Tls(Box::new(StreamOwned::new(session, ahead))))
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
