//! The checksums that a server keeps of an object, in the headers of its answer.

use types::{Checksum, ChecksumAlgorithm};

use crate::header::{CHECKSUM_CRC32C, CHECKSUM_TYPE, CUSTOMER_ENCRYPTION, ENCRYPTION};

/// Checksums of the whole object that the server has computed itself, or has compared; `header`
/// finds a header of its answer by name. The entity tag of an object that was stored by one request
/// and is not encrypted with a key of its own is its MD5 ("ETag" of the object type in the Amazon
/// S3 API reference); that of a multipart upload has a hyphen.
#[must_use]
pub fn stored<'a>(header: impl Fn(&str) -> Option<&'a str>, etag: Option<&str>) -> Vec<Checksum> {
    let mut checksums = Vec::new();
    let is_whole = header(CHECKSUM_TYPE).is_none_or(|kind| kind.eq_ignore_ascii_case("FULL_OBJECT"));
    let crc32c = header(CHECKSUM_CRC32C).filter(|_| is_whole);
    checksums.extend(crc32c.and_then(|text| Checksum::from_base64(ChecksumAlgorithm::Crc32c, text)));
    let is_plain = header(CUSTOMER_ENCRYPTION).is_none()
        && header(ENCRYPTION).is_none_or(|kind| kind.eq_ignore_ascii_case("AES256"));
    let tag = etag.filter(|_| is_plain).map(|tag| tag.trim_matches('"'));
    checksums.extend(tag.and_then(|tag| Checksum::from_hex(ChecksumAlgorithm::Md5, tag)));
    checksums
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
        assert!(read(&[(ENCRYPTION, "aws:kms")], MD5).is_empty());
        assert!(read(&[(CUSTOMER_ENCRYPTION, "AES256")], MD5).is_empty());
        assert_eq!(read(&[(ENCRYPTION, "AES256")], MD5).len(), 1);
    }
}
