//! A part of an object on its way, with its checksum. Servers of S3 keep the CRC-64/NVME of an
//! object in parts, and that of parts can be put together; the MD5 that others report as entity tag
//! would cost more than all else.

use std::fmt;
use std::net::SocketAddr;

use crc_fast::CrcAlgorithm::Crc64Nvme;
use net::{Outgoing, Stream};
use types::{Checksum, Error, Phase, Result};

use crate::http;
use crate::options::Stored;
use crate::outlet::FileUpload;

/// A part on its way.
pub(super) struct PartOutlet {
    outlet: http::Outlet,
    sum: crc_fast::Digest,
}

impl PartOutlet {
    pub(super) fn new(outlet: http::Outlet) -> Self {
        Self {
            outlet,
            sum: crc_fast::Digest::new(Crc64Nvme),
        }
    }
}

/// The checksum of bytes at hand.
pub(super) fn sum_of(bytes: &[u8]) -> Checksum {
    Checksum::crc64nvme(crc_fast::checksum(Crc64Nvme, bytes))
}

/// The checksum of two pieces that follow each other.
pub(super) fn sum_of_both(first: &Checksum, second: &Checksum, second_bytes: u64) -> Option<Checksum> {
    let (first, second) = (first.to_u64()?, second.to_u64()?);
    let both = crc_fast::checksum_combine(Crc64Nvme, first, second, second_bytes);
    Some(Checksum::crc64nvme(both))
}

/// Ours, and the checksum of the same algorithm among others if that is another one.
pub(super) fn differs<'a>(ours: &'a Checksum, others: &'a [Checksum]) -> Option<(&'a Checksum, &'a Checksum)> {
    let other = others.iter().find(|other| other.algorithm() == ours.algorithm())?;
    (other != ours).then_some((ours, other))
}

impl FileUpload for PartOutlet {
    fn peer_address(&self) -> Option<SocketAddr> {
        self.outlet.peer_address()
    }

    fn sent_bytes(&self) -> u64 {
        self.outlet.sent_bytes()
    }

    async fn outgoing(&mut self) -> Result<Outgoing> {
        self.outlet.outgoing().await
    }

    async fn send(&mut self, mut outgoing: Outgoing, filled: usize) -> Result<()> {
        for slot in outgoing.slots(filled) {
            self.sum.update(&slot);
        }
        self.outlet.send(outgoing, filled).await
    }

    /// None: what goes over it is not seen here.
    fn bare_stream(&mut self) -> Option<&mut Stream> {
        None
    }

    async fn check_answer(&mut self) -> Result<()> {
        self.outlet.check_answer().await
    }

    async fn explain(&mut self, cause: Error) -> Error {
        self.outlet.explain(cause).await
    }

    async fn finish(self) -> Result<Stored> {
        let sent = Checksum::crc64nvme(self.sum.finalize());
        let stored = self.outlet.finish().await.map_err(|error| match error.phase() {
            // The object is not committed yet.
            Phase::Commit => error.in_phase(Phase::Transfer),
            _ => error,
        })?;
        Ok(Stored {
            sent: vec![sent],
            ..stored
        })
    }
}

impl fmt::Debug for PartOutlet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outlet.fmt(formatter)
    }
}
