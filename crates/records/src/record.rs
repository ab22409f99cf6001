//! Sealing and opening of records.

use std::ops::Range;

use crate::cipher::{Algorithm, Cipher, NONCE_BYTES, TAG_BYTES};

/// Length of a record header.
pub const HEADER_BYTES: usize = 5;
/// Most payload in one record (RFC 8446 §5.1).
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024;
/// Longest record on the wire: header, payload and 256 more (RFC 8446 §5.2).
pub const RECORD_BYTES_MAX: usize = HEADER_BYTES + PAYLOAD_BYTES_MAX + 256;
/// Records after which keys must be changed: the AES-GCM confidentiality limit, taken for all
/// suites (RFC 8446 §5.5 allows 2^24.5).
pub const RECORDS_PER_KEY_MAX: u64 = 1 << 24;

/// Content type of a record (RFC 8446 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// Means nothing in TLS 1.3.
    ChangeCipherSpec,
    /// Why the connection ends.
    Alert,
    /// Messages of the handshake, and tickets and new keys behind it.
    Handshake,
    /// Payload.
    ApplicationData,
}

impl ContentType {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            20 => Some(Self::ChangeCipherSpec),
            21 => Some(Self::Alert),
            22 => Some(Self::Handshake),
            23 => Some(Self::ApplicationData),
            _ => None,
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Self::ChangeCipherSpec => 20,
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::ApplicationData => 23,
        }
    }
}

/// Why a record cannot be opened. Every one of these ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFault {
    /// The header names an unknown type or version.
    Header,
    /// Longer than a record may be.
    TooLong,
    /// The tag does not fit: altered data, or another key.
    Tag,
    /// No content type in a TLS 1.3 record.
    NoContentType,
    /// The keys are worn out, and TLS 1.2 cannot change them.
    KeysExhausted,
    /// Too many records without payload in a row.
    NothingButFraming,
}

impl std::fmt::Display for RecordFault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Header => "a TLS record with an invalid header",
            Self::TooLong => "a TLS record that is too long",
            Self::Tag => "a TLS record that cannot be decrypted",
            Self::NoContentType => "a TLS record without a content type",
            Self::KeysExhausted => "the TLS session's keys are worn out",
            Self::NothingButFraming => "too many TLS records without payload",
        })
    }
}

/// How nonce and record are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// TLS 1.3: the content type behind the payload, nothing explicit.
    Tls13,
    /// TLS 1.2 with AES-GCM: eight bytes of the nonce travel before the payload.
    Tls12Explicit,
    /// TLS 1.2 with ChaCha20-Poly1305: the nonce is implied.
    Tls12Implicit,
}

/// Versions of TLS whose records are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// Key, nonce base and sequence number of one direction.
pub struct Keys {
    cipher: Cipher,
    iv: [u8; NONCE_BYTES],
    sequence: u64,
    layout: Layout,
}

impl Keys {
    /// Keys as a handshake agreed on them; `sequence` counts the records that they have sealed
    /// already. In TLS 1.2 only the first four bytes of an AES-GCM nonce are secret (RFC 5288 §3).
    /// `None` when the key does not fit the algorithm.
    #[must_use]
    pub fn new(
        version: Version,
        algorithm: Algorithm,
        key: &[u8],
        iv: [u8; NONCE_BYTES],
        sequence: u64,
    ) -> Option<Self> {
        let layout = match (version, algorithm) {
            (Version::Tls13, _) => Layout::Tls13,
            (Version::Tls12, Algorithm::ChaCha20Poly1305) => Layout::Tls12Implicit,
            (Version::Tls12, _) => Layout::Tls12Explicit,
        };
        Some(Self {
            cipher: Cipher::new(algorithm, key)?,
            iv,
            sequence,
            layout,
        })
    }

    /// The nonce of the current record: the base with the sequence number mixed in.
    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        for (byte, part) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= part;
        }
        nonce
    }

    /// What the tag covers beside the payload: the header in TLS 1.3 (RFC 8446 §5.2), sequence
    /// number, type, version and plaintext length in TLS 1.2 (RFC 5246 §6.2.3.3).
    fn associated(&self, header: [u8; HEADER_BYTES], payload_bytes: usize) -> ([u8; 13], usize) {
        let mut data = [0; 13];
        if self.layout == Layout::Tls13 {
            data[..HEADER_BYTES].copy_from_slice(&header);
            return (data, HEADER_BYTES);
        }
        data[..8].copy_from_slice(&self.sequence.to_be_bytes());
        data[8..11].copy_from_slice(&header[..3]);
        data[11..].copy_from_slice(&(payload_bytes as u16).to_be_bytes());
        (data, 13)
    }

    /// Bytes before the payload within a record, the header included.
    fn prefix_bytes(&self) -> usize {
        HEADER_BYTES + if self.layout == Layout::Tls12Explicit { 8 } else { 0 }
    }

    /// Bytes behind the payload within a record.
    fn suffix_bytes(&self) -> usize {
        TAG_BYTES + usize::from(self.layout == Layout::Tls13)
    }
}

/// Seals outgoing records.
pub struct Sealer(Keys);

impl Sealer {
    /// Seals with these keys.
    #[must_use]
    pub fn new(keys: Keys) -> Self {
        Self(keys)
    }

    /// Skips to record `sequence`, to test worn keys. Never goes back: a nonce may not repeat.
    pub fn advance_to(&mut self, sequence: u64) {
        self.0.sequence = self.0.sequence.max(sequence);
    }

    /// Bytes that a full record takes on the wire.
    #[must_use]
    pub fn stride_bytes(&self) -> usize {
        self.0.prefix_bytes() + PAYLOAD_BYTES_MAX + self.0.suffix_bytes()
    }

    /// Where the payload of a record begins within the record.
    #[must_use]
    pub fn prefix_bytes(&self) -> usize {
        self.0.prefix_bytes()
    }

    /// Bytes on the wire of a record with that much payload.
    #[must_use]
    pub fn record_bytes(&self, payload_bytes: usize) -> usize {
        self.0.prefix_bytes() + payload_bytes + self.0.suffix_bytes()
    }

    /// Whether the keys must be changed before the next records are sealed.
    #[must_use]
    pub fn is_worn(&self) -> bool {
        self.0.sequence >= RECORDS_PER_KEY_MAX
    }

    /// Whether keys can be changed in this session at all.
    #[must_use]
    pub fn can_rekey(&self) -> bool {
        self.0.layout == Layout::Tls13
    }

    /// Seals the record whose payload already lies at its place in `record` (which spans exactly
    /// [`Sealer::record_bytes`] of it).
    ///
    /// # Errors
    /// [`RecordFault::KeysExhausted`] when the cipher refuses.
    pub fn seal(&mut self, record: &mut [u8], content: ContentType) -> Result<(), RecordFault> {
        let keys = &mut self.0;
        let (prefix, suffix) = (keys.prefix_bytes(), keys.suffix_bytes());
        let payload_bytes = record.len() - prefix - suffix;
        let nonce = keys.nonce();
        let outer = if keys.layout == Layout::Tls13 {
            ContentType::ApplicationData
        } else {
            content
        };
        let length = ((record.len() - HEADER_BYTES) as u16).to_be_bytes();
        let header = [outer.to_byte(), 3, 3, length[0], length[1]];
        record[..HEADER_BYTES].copy_from_slice(&header);
        if keys.layout == Layout::Tls12Explicit {
            record[HEADER_BYTES..prefix].copy_from_slice(&nonce[4..]);
        }
        if keys.layout == Layout::Tls13 {
            record[prefix + payload_bytes] = content.to_byte();
        }
        let (associated, associated_bytes) = keys.associated(header, payload_bytes);
        let tag_at = record.len() - TAG_BYTES;
        let (body, tag_slot) = record[prefix..].split_at_mut(tag_at - prefix);
        let tag = keys
            .cipher
            .seal(nonce, &associated[..associated_bytes], body)
            .map_err(|_| RecordFault::KeysExhausted)?;
        tag_slot.copy_from_slice(&tag);
        keys.sequence += 1;
        Ok(())
    }

    /// Appends a whole record around a small payload, at most [`PAYLOAD_BYTES_MAX`], to `out`.
    ///
    /// # Errors
    /// [`RecordFault::KeysExhausted`] when the cipher refuses.
    pub fn seal_copy(&mut self, payload: &[u8], content: ContentType, out: &mut Vec<u8>) -> Result<(), RecordFault> {
        let start = out.len();
        out.resize(start + self.record_bytes(payload.len()), 0);
        let prefix = self.0.prefix_bytes();
        out[start + prefix..start + prefix + payload.len()].copy_from_slice(payload);
        self.seal(&mut out[start..], content)
    }
}

/// Opens incoming records.
pub struct Opener(Keys);

impl Opener {
    /// Opens with these keys.
    #[must_use]
    pub fn new(keys: Keys) -> Self {
        Self(keys)
    }

    /// Skips to record `sequence`, to test worn keys. Never goes back: a nonce may not repeat.
    pub fn advance_to(&mut self, sequence: u64) {
        self.0.sequence = self.0.sequence.max(sequence);
    }

    /// Opens the whole record `record` in place: its content type and where in it the payload lies.
    ///
    /// # Errors
    /// A [`RecordFault`], which ends the connection.
    pub fn open(&mut self, record: &mut [u8]) -> Result<(ContentType, Range<usize>), RecordFault> {
        let keys = &mut self.0;
        let header: [u8; HEADER_BYTES] = *record.first_chunk().ok_or(RecordFault::Header)?;
        let outer = ContentType::from_byte(header[0]).ok_or(RecordFault::Header)?;
        if outer == ContentType::ChangeCipherSpec && keys.layout == Layout::Tls13 {
            // Middlebox compatibility (RFC 8446 §5): unprotected, means nothing.
            return Ok((outer, 0..0));
        }
        let prefix = keys.prefix_bytes();
        if record.len() < prefix + TAG_BYTES {
            return Err(RecordFault::Tag);
        }
        let mut nonce = keys.nonce();
        if keys.layout == Layout::Tls12Explicit {
            nonce[4..].copy_from_slice(&record[HEADER_BYTES..prefix]);
            nonce[..4].copy_from_slice(&keys.iv[..4]);
        }
        let plaintext_bytes = record.len() - prefix - TAG_BYTES;
        let (associated, associated_bytes) = keys.associated(header, plaintext_bytes);
        let plain = keys
            .cipher
            .open(nonce, &associated[..associated_bytes], &mut record[prefix..])
            .map_err(|_| RecordFault::Tag)?;
        keys.sequence += 1;
        if plain.len() > PAYLOAD_BYTES_MAX + 1 {
            return Err(RecordFault::TooLong);
        }
        if keys.layout != Layout::Tls13 {
            return Ok((outer, prefix..prefix + plaintext_bytes));
        }
        // The payload ends before the last byte that is not padding (RFC 8446 §5.4).
        let end = plain
            .iter()
            .rposition(|byte| *byte != 0)
            .ok_or(RecordFault::NoContentType)?;
        let content = ContentType::from_byte(plain[end]).ok_or(RecordFault::NoContentType)?;
        Ok((content, prefix..prefix + end))
    }
}

/// The length of the first record in `bytes` with its header; `None` while the header is not whole.
///
/// # Errors
/// [`RecordFault::Header`] and [`RecordFault::TooLong`].
pub fn record_length(bytes: &[u8]) -> Result<Option<usize>, RecordFault> {
    let Some(header) = bytes.get(..HEADER_BYTES) else {
        return Ok(None);
    };
    if ContentType::from_byte(header[0]).is_none() || header[1] != 3 {
        return Err(RecordFault::Header);
    }
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if HEADER_BYTES + length > RECORD_BYTES_MAX {
        return Err(RecordFault::TooLong);
    }
    Ok(Some(HEADER_BYTES + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs() -> Vec<(Sealer, Opener)> {
        let mut pairs = Vec::new();
        for version in [Version::Tls12, Version::Tls13] {
            for algorithm in [Algorithm::Aes256Gcm, Algorithm::ChaCha20Poly1305] {
                let keys = || Keys::new(version, algorithm, &[7; 32], [9; NONCE_BYTES], 5).unwrap();
                pairs.push((Sealer::new(keys()), Opener::new(keys())));
            }
        }
        pairs
    }

    #[test]
    fn what_is_sealed_opens_to_the_same_bytes_in_every_layout() {
        for (mut sealer, mut opener) in pairs() {
            for length in [0, 1, 17, PAYLOAD_BYTES_MAX] {
                let payload: Vec<u8> = (0..length).map(|index| index as u8).collect();
                let mut wire = Vec::new();
                sealer
                    .seal_copy(&payload, ContentType::ApplicationData, &mut wire)
                    .unwrap();
                assert_eq!(record_length(&wire).unwrap(), Some(wire.len()));
                let (content, range) = opener.open(&mut wire).unwrap();
                assert_eq!(content, ContentType::ApplicationData);
                assert_eq!(&wire[range], payload);
            }
        }
    }

    #[test]
    fn an_altered_lost_or_repeated_record_does_not_open() {
        for (mut sealer, mut opener) in pairs() {
            let mut first = Vec::new();
            sealer
                .seal_copy(b"first", ContentType::ApplicationData, &mut first)
                .unwrap();
            let mut second = Vec::new();
            sealer
                .seal_copy(b"second", ContentType::ApplicationData, &mut second)
                .unwrap();
            let mut altered = first.clone();
            *altered.last_mut().unwrap() ^= 1;
            assert_eq!(opener.open(&mut altered), Err(RecordFault::Tag));
            assert_eq!(
                opener.open(&mut second.clone()),
                Err(RecordFault::Tag),
                "a record was skipped"
            );
            assert!(opener.open(&mut first.clone()).is_ok());
            assert_eq!(opener.open(&mut first), Err(RecordFault::Tag), "a record came twice");
            assert!(opener.open(&mut second).is_ok());
        }
    }

    #[test]
    fn padding_is_taken_off_and_its_absence_of_type_noticed() {
        let (mut sealer, mut opener) = pairs().pop().unwrap();
        let mut wire = Vec::new();
        // A payload of zeros under the type byte "padding": build by sealing type 0.
        sealer.seal_copy(&[0; 8], ContentType::Alert, &mut wire).unwrap();
        let (content, range) = opener.open(&mut wire).unwrap();
        assert_eq!((content, range.len()), (ContentType::Alert, 8));
    }

    #[test]
    fn headers_that_are_no_tls_are_refused() {
        assert_eq!(record_length(b"GET /"), Err(RecordFault::Header));
        assert_eq!(record_length(&[23, 3, 3, 0xff, 0xff]), Err(RecordFault::TooLong));
        assert_eq!(record_length(&[23, 3]), Ok(None));
    }

    #[test]
    fn what_is_shorter_than_a_record_does_not_open() {
        for (_, mut opener) in pairs() {
            assert_eq!(opener.open(&mut [23, 3, 3]), Err(RecordFault::Header));
            assert_eq!(opener.open(&mut [23, 3, 3, 0, 0]), Err(RecordFault::Tag));
        }
    }
}
