//! The checksums that servers keep of objects in parts ("Checking object integrity" in the Amazon
//! S3 user guide): one of the whole object, or one of the checksums of its parts.

use types::Checksum;

use crate::header::{CHECKSUM_CRC32, CHECKSUM_CRC32C, CHECKSUM_CRC64NVME};

/// An algorithm of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumKind {
    /// CRC-64/NVME, of the whole object.
    Crc64Nvme,
    /// CRC-32C, of the checksums of the parts.
    Crc32c,
    /// CRC-32 (ISO-HDLC), of the checksums of the parts.
    Crc32,
}

impl SumKind {
    /// All, best first.
    pub const ALL: [Self; 3] = [Self::Crc64Nvme, Self::Crc32c, Self::Crc32];

    /// The name in requests and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "CRC64NVME",
            Self::Crc32c => "CRC32C",
            Self::Crc32 => "CRC32",
        }
    }

    /// The algorithm with this name, in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name.trim()))
    }

    /// Of what the checksum of the object is.
    #[must_use]
    pub fn of_object(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "FULL_OBJECT",
            Self::Crc32c | Self::Crc32 => "COMPOSITE",
        }
    }

    /// The header with the value.
    #[must_use]
    pub fn header(self) -> &'static str {
        match self {
            Self::Crc64Nvme => CHECKSUM_CRC64NVME,
            Self::Crc32c => CHECKSUM_CRC32C,
            Self::Crc32 => CHECKSUM_CRC32,
        }
    }

    /// The element with the value.
    #[must_use]
    pub fn element(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "ChecksumCRC64NVME",
            Self::Crc32c => "ChecksumCRC32C",
            Self::Crc32 => "ChecksumCRC32",
        }
    }
}

/// The checksum of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSum {
    /// Its algorithm.
    pub kind: SumKind,
    /// Its value.
    pub value: u64,
}

impl PartSum {
    /// The bytes of the value, big-endian.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.written().value().to_vec()
    }

    /// The value in base64.
    #[must_use]
    pub fn to_base64(&self) -> String {
        self.written().to_base64()
    }

    /// A checksum that is written alike.
    fn written(&self) -> Checksum {
        match self.kind {
            SumKind::Crc64Nvme => Checksum::crc64nvme(self.value),
            // They have 32 bits.
            SumKind::Crc32c | SumKind::Crc32 => Checksum::crc32c(self.value as u32),
        }
    }
}

/// The checksum of the checksums of an object's parts, as a server tells it: the value in base64,
/// and behind a hyphen the number of parts, which some leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composite {
    /// Its algorithm.
    pub kind: SumKind,
    /// As the server writes it.
    pub text: String,
}

impl Composite {
    /// Whether it is the one of these parts.
    #[must_use]
    pub fn is_of(&self, composite: &PartSum, parts: usize) -> bool {
        let (value, count) = self.text.split_once('-').unwrap_or((&self.text, ""));
        value == composite.to_base64() && (count.is_empty() || count == parts.to_string())
    }
}
