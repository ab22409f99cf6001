//! Checksums of whole files: the supported algorithms, how their values are written, and how the
//! values of two adjacent ranges combine into one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// A checksum algorithm, named as in RFC 3230's registry, in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChecksumAlgorithm {
    /// Adler-32 (RFC 1950 §8.2), the usual checksum on the grid; 4 bytes.
    Adler32,
    /// CRC-32C, Castagnoli (RFC 3720 §12.1); 4 bytes.
    Crc32c,
    /// MD5 (RFC 1321); 16 bytes.
    Md5,
    /// SHA-256 (FIPS 180-4); 32 bytes.
    #[serde(rename = "sha-256")]
    Sha256,
    /// CRC-64/NVME, which object stores keep of objects in parts ("Checking object integrity" of
    /// the Amazon S3 user guide); 8 bytes.
    #[serde(rename = "crc64nvme")]
    Crc64Nvme,
}

impl ChecksumAlgorithm {
    /// The algorithms of the grid's protocols, cheapest first: only object stores have CRC-64/NVME.
    pub const ALL: [Self; 4] = [Self::Crc32c, Self::Adler32, Self::Md5, Self::Sha256];

    /// The name in lower case: `adler32`, `crc32c`, `md5`, `sha-256`, `crc64nvme`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Adler32 => "adler32",
            Self::Crc32c => "crc32c",
            Self::Md5 => "md5",
            Self::Sha256 => "sha-256",
            Self::Crc64Nvme => "crc64nvme",
        }
    }

    /// Length of a value, in bytes.
    #[must_use]
    pub fn value_bytes(self) -> usize {
        match self {
            Self::Adler32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }

    /// Whether the values of two adjacent ranges give the value of both without reading the data
    /// again.
    #[must_use]
    pub fn combines(self) -> bool {
        matches!(self, Self::Adler32 | Self::Crc32c | Self::Crc64Nvme)
    }

    /// Parses a name in any case; also accepts `adler` (RFC 9530's key) and `sha256`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "adler32" | "adler" => Some(Self::Adler32),
            "crc32c" => Some(Self::Crc32c),
            "md5" => Some(Self::Md5),
            "sha-256" | "sha256" => Some(Self::Sha256),
            "crc64nvme" => Some(Self::Crc64Nvme),
            _ => None,
        }
    }
}

impl std::fmt::Display for ChecksumAlgorithm {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The checksum of a whole file: an algorithm and its value, big-endian as usual on the wire.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Checksum {
    algorithm: ChecksumAlgorithm,
    value: Vec<u8>,
}

impl Checksum {
    /// A checksum from its raw bytes; `None` when the length does not match the algorithm.
    #[must_use]
    pub fn new(algorithm: ChecksumAlgorithm, value: &[u8]) -> Option<Self> {
        (value.len() == algorithm.value_bytes()).then(|| Self {
            algorithm,
            value: value.to_vec(),
        })
    }

    /// Adler-32 from its integer value.
    #[must_use]
    pub fn adler32(value: u32) -> Self {
        Self {
            algorithm: ChecksumAlgorithm::Adler32,
            value: value.to_be_bytes().to_vec(),
        }
    }

    /// CRC-32C from its integer value.
    #[must_use]
    pub fn crc32c(value: u32) -> Self {
        Self {
            algorithm: ChecksumAlgorithm::Crc32c,
            value: value.to_be_bytes().to_vec(),
        }
    }

    /// CRC-64/NVME from its integer value.
    #[must_use]
    pub fn crc64nvme(value: u64) -> Self {
        Self {
            algorithm: ChecksumAlgorithm::Crc64Nvme,
            value: value.to_be_bytes().to_vec(),
        }
    }

    /// MD5 from its raw bytes.
    #[must_use]
    pub fn md5(value: [u8; 16]) -> Self {
        Self {
            algorithm: ChecksumAlgorithm::Md5,
            value: value.to_vec(),
        }
    }

    /// Parses hexadecimal digits in any case. Short values of the 4-byte algorithms are padded with
    /// zeros on the left, because some writers drop leading zeros.
    #[must_use]
    pub fn from_hex(algorithm: ChecksumAlgorithm, text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = algorithm.value_bytes() * 2;
        let short_allowed = algorithm.value_bytes() == 4 && !text.is_empty() && text.len() < digits;
        if text.len() != digits && !short_allowed {
            return None;
        }
        let padded = format!("{text:0>digits$}");
        let mut value = Vec::with_capacity(digits / 2);
        for pair in padded.as_bytes().chunks(2) {
            let high = (pair[0] as char).to_digit(16)?;
            let low = (pair[1] as char).to_digit(16)?;
            value.push((high * 16 + low) as u8);
        }
        Self::new(algorithm, &value)
    }

    /// Parses the base64 of the raw bytes.
    #[must_use]
    pub fn from_base64(algorithm: ChecksumAlgorithm, text: &str) -> Option<Self> {
        Self::new(algorithm, &BASE64.decode(text.trim()).ok()?)
    }

    /// Parses `ALGORITHM:HEX`, the form of command lines and gfal.
    #[must_use]
    pub fn from_pair(text: &str) -> Option<Self> {
        let (name, value) = text.split_once([':', '='])?;
        Self::from_hex(ChecksumAlgorithm::from_name(name)?, value)
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    /// The raw bytes.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The value in lower-case hexadecimal digits, with leading zeros.
    #[must_use]
    pub fn to_hex(&self) -> String {
        self.value.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The raw bytes in base64.
    #[must_use]
    pub fn to_base64(&self) -> String {
        BASE64.encode(&self.value)
    }

    /// The integer value of a 4-byte checksum.
    #[must_use]
    pub fn to_u32(&self) -> Option<u32> {
        Some(u32::from_be_bytes(self.value.as_slice().try_into().ok()?))
    }

    /// The integer value of an 8-byte checksum.
    #[must_use]
    pub fn to_u64(&self) -> Option<u64> {
        Some(u64::from_be_bytes(self.value.as_slice().try_into().ok()?))
    }
}

impl std::fmt::Display for Checksum {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.algorithm, self.to_hex())
    }
}

impl std::fmt::Debug for Checksum {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, formatter)
    }
}

/// Adler-32 of two adjacent ranges, from the value of each and the length of the second.
///
/// All sums are modulo 65521 (RFC 1950 §9). The low sums add up; the high sum gains the first
/// range's low sum once for each byte of the second.
#[must_use]
pub fn combine_adler32(first: u32, second: u32, second_length_bytes: u64) -> u32 {
    const MODULUS: u64 = 65_521;
    let (low_first, high_first) = (u64::from(first & 0xffff), u64::from(first >> 16));
    let (low_second, high_second) = (u64::from(second & 0xffff), u64::from(second >> 16));
    // Each low sum starts at 1, so one of the two is subtracted.
    let low = (low_first + low_second + MODULUS - 1) % MODULUS;
    let shifted = (second_length_bytes % MODULUS) * ((low_first + MODULUS - 1) % MODULUS) % MODULUS;
    let high = (high_first + high_second + shifted) % MODULUS;
    (high << 16 | low) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adler32(bytes: &[u8]) -> u32 {
        let (mut low, mut high) = (1u32, 0u32);
        for byte in bytes {
            low = (low + u32::from(*byte)) % 65_521;
            high = (high + low) % 65_521;
        }
        high << 16 | low
    }

    #[test]
    fn adler32_of_parts_combines_to_that_of_the_whole() {
        let bytes: Vec<u8> = (0..200_000u32).map(|i| ((i * 7919) >> 3) as u8).collect();
        for cut in [0, 1, 65_520, 65_521, 65_522, 131_072, 199_999, 200_000] {
            let (first, second) = bytes.split_at(cut);
            let combined = combine_adler32(adler32(first), adler32(second), second.len() as u64);
            assert_eq!(combined, adler32(&bytes), "cut at {cut}");
        }
    }

    #[test]
    fn hexadecimal_values_keep_and_regain_their_leading_zeros() {
        let value = Checksum::from_hex(ChecksumAlgorithm::Adler32, "B6f26").unwrap();
        assert_eq!(value.to_hex(), "000b6f26");
        assert_eq!(Checksum::from_pair("adler32:000b6f26"), Some(value));
        assert_eq!(Checksum::from_hex(ChecksumAlgorithm::Adler32, "123456789"), None);
        assert_eq!(Checksum::from_hex(ChecksumAlgorithm::Md5, "abcd"), None);
        assert_eq!(Checksum::from_hex(ChecksumAlgorithm::Crc32c, "12+45678"), None);
    }

    #[test]
    fn base64_values_are_those_of_the_binary_value() {
        let value = Checksum::adler32(0xdfca_84d2);
        assert_eq!(value.to_base64(), "38qE0g==");
        assert_eq!(
            Checksum::from_base64(ChecksumAlgorithm::Adler32, "38qE0g=="),
            Some(value)
        );
    }
}
