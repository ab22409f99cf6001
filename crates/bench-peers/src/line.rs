//! A connection of the benchmark's own clients, in clear text or over TLS.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use testkit::{Error, Result};

use crate::records::Records;

/// Nothing that is measured may be silent for longer.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// Where a client connects to, and how.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) port: u16,
    /// What TLS begins with; clear text without.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// A connection to a server of this machine.
pub(crate) enum Line {
    Clear(TcpStream),
    Tls(Box<Records>),
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
        let Self::Clear(stream) = self else {
            return Err(Error::Failed("TLS within TLS".to_owned()));
        };
        Ok(Self::Tls(Box::new(Records::begin(stream, config)?)))
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
