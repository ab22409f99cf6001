//! A part of an object on its way, with its checksum. Servers of S3 keep the CRC-64/NVME of an
//! object in parts, and that of parts can be put together; the MD5 that others report as entity tag
//! would cost more than all else.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crc_fast::CrcAlgorithm;
use crc_fast::CrcAlgorithm::Crc64Nvme;
use net::{Ends, Outgoing, Stream};
use s3_wire::{PartSum, SumKind};
use types::{Checksum, Error, Phase, Result};

use crate::http;
use crate::options::Stored;
use crate::outlet::FileUpload;

/// A part on its way.
pub(super) struct PartOutlet {
    outlet: http::Outlet,
    sum: crc_fast::Digest,
    /// The checksum that the server keeps, if that is another one.
    kept: Option<(KeptSum, crc_fast::Digest)>,
}

/// The checksum of a part that its server keeps, known when the part was sent.
#[derive(Clone)]
pub(super) struct KeptSum {
    kind: SumKind,
    value: Arc<Mutex<Option<PartSum>>>,
}

impl KeptSum {
    pub(super) fn new(kind: SumKind) -> Self {
        let value = Arc::default();
        Self { kind, value }
    }

    pub(super) fn get(&self) -> Option<PartSum> {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartOutlet {
    pub(super) fn new(outlet: http::Outlet, kept: Option<&KeptSum>) -> Self {
        Self {
            outlet,
            sum: crc_fast::Digest::new(Crc64Nvme),
            kept: kept.map(|kept| (kept.clone(), crc_fast::Digest::new(algorithm(kept.kind)))),
        }
    }
}

fn algorithm(kind: SumKind) -> CrcAlgorithm {
    match kind {
        SumKind::Crc64Nvme => Crc64Nvme,
        SumKind::Crc32c => CrcAlgorithm::Crc32Iscsi,
        SumKind::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
    }
}

/// The checksum of a kind of bytes at hand.
pub(super) fn part_sum_of(kind: SumKind, bytes: &[u8]) -> PartSum {
    let value = crc_fast::checksum(algorithm(kind), bytes);
    PartSum { kind, value }
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
    fn ends(&self) -> Option<Ends> {
        self.outlet.ends()
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
            if let Some((_, digest)) = &mut self.kept {
                digest.update(&slot);
            }
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
        if let Some((kept, digest)) = self.kept {
            let (kind, value) = (kept.kind, digest.finalize());
            *kept.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(PartSum { kind, value });
        }
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
