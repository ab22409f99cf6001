//! The checksums that a server keeps of an object, in the headers of its answer.

use types::{Checksum, ChecksumAlgorithm};

use crate::header::{
    CHECKSUM_CRC32C, CHECKSUM_CRC64NVME, CHECKSUM_TYPE, CUSTOMER_ENCRYPTION, ENCRYPTION, META_ADLER32,
};

/// Checksums of the whole object that the server has computed itself, or has compared; `header`
/// finds a header of its answer by name. The entity tag of an object that was stored by one request
/// and is not encrypted with a key of its own is its MD5 ("ETag" of the object type in the Amazon
/// S3 API reference); that of a multipart upload has a hyphen. An Adler-32 is what its writer has
/// left with the object.
#[must_use]
pub fn stored<'a>(header: impl Fn(&str) -> Option<&'a str>, etag: Option<&str>) -> Vec<Checksum> {
    let mut checksums = Vec::new();
    let is_whole = header(CHECKSUM_TYPE).is_none_or(|kind| kind.eq_ignore_ascii_case("FULL_OBJECT"));
    for (name, algorithm) in [
        (CHECKSUM_CRC32C, ChecksumAlgorithm::Crc32c),
        (CHECKSUM_CRC64NVME, ChecksumAlgorithm::Crc64Nvme),
    ] {
        let known = header(name).filter(|_| is_whole);
        checksums.extend(known.and_then(|text| Checksum::from_base64(algorithm, text)));
    }
    let adler32 = header(META_ADLER32);
    checksums.extend(adler32.and_then(|text| Checksum::from_hex(ChecksumAlgorithm::Adler32, text)));
    let is_plain = header(CUSTOMER_ENCRYPTION).is_none()
        && header(ENCRYPTION).is_none_or(|kind| kind.eq_ignore_ascii_case("AES256"));
    let tag = etag.filter(|_| is_plain).map(|tag| tag.trim_matches('"'));
    checksums.extend(tag.and_then(|tag| Checksum::from_hex(ChecksumAlgorithm::Md5, tag)));
    checksums
}

/// The checksums in a header of Google Cloud Storage, such as `crc32c=n03x6A==,md5=…`. An object
/// that was put together of others has no MD5.
#[must_use]
pub fn google_hashes(value: &str) -> Vec<Checksum> {
    let one = |pair: &str| {
        let (name, value) = pair.trim().split_once('=')?;
        let algorithm = match name {
            "crc32c" => ChecksumAlgorithm::Crc32c,
            "md5" => ChecksumAlgorithm::Md5,
            _ => return None,
        };
        Checksum::from_base64(algorithm, value)
    };
    value.split(',').filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &'static str)], etag: &str) -> Vec<String> {
        let header = |name: &str| {
            headers
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| *value)
        };
        stored(header, Some(etag)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn googles_checksums_are_read() {
        let read = google_hashes("crc32c=n03x6A==, md5=Ojk9c3dhfxgoKVVHYwFbHQ==");
        let words: Vec<String> = read.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["crc32c:9f4df1e8", "md5:3a393d7377617f182829554763015b1d"]);
        assert!(google_hashes("sha=AAAA, crc32c=no").is_empty());
    }

    #[test]
    fn only_checksums_of_the_whole_object_count() {
        const MD5: &str = "\"d41d8cd98f00b204e9800998ecf8427e\"";
        let both = read(&[(CHECKSUM_CRC32C, "jaLPjA==")], MD5);
        assert_eq!(both, ["crc32c:8da2cf8c", "md5:d41d8cd98f00b204e9800998ecf8427e"]);
        assert!(
            read(
                &[(CHECKSUM_CRC32C, "gDcnRA==-2"), (CHECKSUM_TYPE, "COMPOSITE")],
                "\"ab-2\""
            )
            .is_empty()
        );
        assert!(
            read(
                &[(CHECKSUM_CRC32C, "gDcnRA=="), (CHECKSUM_TYPE, "COMPOSITE")],
                "\"ab-2\""
            )
            .is_empty()
        );
        let large = read(
            &[
                (CHECKSUM_CRC64NVME, "rosUhgp5mIg="),
                (CHECKSUM_TYPE, "FULL_OBJECT"),
                (META_ADLER32, "091E01DE"),
            ],
            "\"ab-2\"",
        );
        assert_eq!(large, ["crc64nvme:ae8b14860a799888", "adler32:091e01de"]);
        assert!(read(&[(META_ADLER32, "no checksum")], "\"ab-2\"").is_empty());
        assert!(read(&[(ENCRYPTION, "aws:kms")], MD5).is_empty());
        assert!(read(&[(CUSTOMER_ENCRYPTION, "AES256")], MD5).is_empty());
        assert_eq!(read(&[(ENCRYPTION, "AES256")], MD5).len(), 1);
    }
}
