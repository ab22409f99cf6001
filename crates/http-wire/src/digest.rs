//! Digest headers: RFC 3230 (`Digest`, `Want-Digest`), its successor RFC 9530 (`Repr-Digest`,
//! `Content-Digest`, `Want-Repr-Digest`) and the older `Content-MD5` (RFC 1864).
//!
//! The 4-byte algorithms are written as 8 hexadecimal digits in RFC 3230 headers, as every storage
//! system does; the others in base64. Readers take either for any of them.

use types::{Checksum, ChecksumAlgorithm};

/// What is the matter with a digest header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadDigest(pub(crate) ChecksumAlgorithm);

/// The value of `Digest` for one checksum (RFC 3230 §4.3.2). One algorithm per header, because
/// davix does not trim the blanks behind a comma.
#[must_use]
pub fn digest_value(checksum: &Checksum) -> String {
    let algorithm = checksum.algorithm();
    match algorithm {
        ChecksumAlgorithm::Adler32 | ChecksumAlgorithm::Crc32c => format!("{algorithm}={}", checksum.to_hex()),
        ChecksumAlgorithm::Md5 | ChecksumAlgorithm::Sha256 | ChecksumAlgorithm::Crc64Nvme => {
            format!("{algorithm}={}", checksum.to_base64())
        }
    }
}

/// The value of `Repr-Digest` for one checksum (RFC 9530 §3): base64 of the binary value in colons.
#[must_use]
pub fn repr_digest_value(checksum: &Checksum) -> String {
    format!("{}=:{}:", repr_key(checksum.algorithm()), checksum.to_base64())
}

/// The key in RFC 9530's registry, which says `adler` for Adler-32.
pub(crate) fn repr_key(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Adler32 => "adler",
        other => other.name(),
    }
}

/// The value of `Want-Digest` for these algorithms, best first (RFC 3230 §4.3.1).
#[must_use]
pub fn want_digest_value(algorithms: &[ChecksumAlgorithm]) -> String {
    let name = |(index, algorithm): (usize, &ChecksumAlgorithm)| match index {
        0 => algorithm.name().to_owned(),
        _ => format!("{algorithm};q=0.{}", 9usize.saturating_sub(index).max(1)),
    };
    of_http(algorithms).enumerate().map(name).collect::<Vec<_>>().join(",")
}

/// The value of `Want-Repr-Digest` for these algorithms, best first (RFC 9530 §4).
#[must_use]
pub fn want_repr_digest_value(algorithms: &[ChecksumAlgorithm]) -> String {
    let pair = |(index, algorithm): (usize, &ChecksumAlgorithm)| {
        format!("{}={}", repr_key(*algorithm), 10usize.saturating_sub(index).max(1))
    };
    of_http(algorithms).enumerate().map(pair).collect::<Vec<_>>().join(", ")
}

/// The algorithms that servers of HTTP know: CRC-64/NVME is that of object stores.
fn of_http(algorithms: &[ChecksumAlgorithm]) -> impl Iterator<Item = &ChecksumAlgorithm> {
    algorithms
        .iter()
        .filter(|algorithm| ChecksumAlgorithm::ALL.contains(algorithm))
}

/// Known algorithms of a `Want-Digest`, best first: by `q`, then by the order in which they stand.
/// Unknown ones and those with `q=0` are left out.
pub(crate) fn parse_want_digest<'a>(values: impl Iterator<Item = &'a str>) -> Vec<ChecksumAlgorithm> {
    let mut wanted = Vec::new();
    for element in values.flat_map(|value| value.split(',')) {
        let mut parts = element.split(';');
        let name = parts.next().unwrap_or_default();
        // Thousandths, as q has at most three decimals (RFC 9110 §12.4.2).
        let quality = parts.find_map(|part| {
            part.trim()
                .strip_prefix("q=")
                .and_then(|q| q.trim().parse::<f32>().ok())
        });
        let weight = quality.map_or(1000, |quality| (quality.clamp(0.0, 1.0) * 1000.0) as u32);
        push_wanted(&mut wanted, name, weight);
    }
    sorted(wanted)
}

/// Known algorithms of a `Want-Repr-Digest`, best first (RFC 9530 §4: weights 1 to 10, 0 means no).
pub(crate) fn parse_want_repr_digest<'a>(values: impl Iterator<Item = &'a str>) -> Vec<ChecksumAlgorithm> {
    let mut wanted = Vec::new();
    for element in values.flat_map(|value| value.split(',')) {
        let (name, weight) = element.split_once('=').unwrap_or((element, "1"));
        let weight = weight.split(';').next().unwrap_or_default().trim().parse().unwrap_or(1);
        push_wanted(&mut wanted, name, weight);
    }
    sorted(wanted)
}

/// Keeps the first mention of an algorithm, so that the list cannot grow.
fn push_wanted(wanted: &mut Vec<(ChecksumAlgorithm, u32)>, name: &str, weight: u32) {
    if let Some(algorithm) = ChecksumAlgorithm::from_name(name)
        && !wanted.iter().any(|(known, _)| *known == algorithm)
    {
        wanted.push((algorithm, weight));
    }
}

fn sorted(mut wanted: Vec<(ChecksumAlgorithm, u32)>) -> Vec<ChecksumAlgorithm> {
    wanted.retain(|(_, weight)| *weight > 0);
    wanted.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    wanted.into_iter().map(|(algorithm, _)| algorithm).collect()
}

/// The checksums of a `Digest` value: `adler32=dfca84d2,md5=<base64>`. Blanks around elements and
/// unknown algorithms do not matter; a value that does not fit a known algorithm does.
pub(crate) fn parse_digest(value: &str) -> impl Iterator<Item = Result<Checksum, BadDigest>> {
    value.split(',').filter_map(|element| {
        let (name, text) = element.split_once('=')?;
        let algorithm = ChecksumAlgorithm::from_name(name)?;
        Some(from_any(algorithm, text).ok_or(BadDigest(algorithm)))
    })
}

/// The checksums of a `Repr-Digest` or `Content-Digest` value: `adler=:38qE0g==:, md5=:…:`.
pub(crate) fn parse_repr_digest(value: &str) -> impl Iterator<Item = Result<Checksum, BadDigest>> {
    value.split(',').filter_map(|element| {
        let (name, text) = element.split_once('=')?;
        let algorithm = ChecksumAlgorithm::from_name(name)?;
        let inner = text
            .trim()
            .strip_prefix(':')
            .and_then(|rest| rest.split_once(':'))
            .map(|(inner, _)| inner);
        Some(
            inner
                .and_then(|inner| Checksum::from_base64(algorithm, inner))
                .ok_or(BadDigest(algorithm)),
        )
    })
}

/// `Content-MD5`: base64 by its RFC, hexadecimal as gfal and dCache write it.
pub(crate) fn parse_content_md5(value: &str) -> Result<Checksum, BadDigest> {
    from_any(ChecksumAlgorithm::Md5, value).ok_or(BadDigest(ChecksumAlgorithm::Md5))
}

/// Hexadecimal or base64: their lengths differ for every algorithm except for unpadded short ones,
/// and base64 of 4 bytes always ends in `==`.
fn from_any(algorithm: ChecksumAlgorithm, text: &str) -> Option<Checksum> {
    let text = text.trim().trim_matches('"');
    Checksum::from_hex(algorithm, text).or_else(|| Checksum::from_base64(algorithm, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ChecksumAlgorithm::{Adler32, Crc32c, Md5, Sha256};

    const MD5_HEX: &str = "3975f0d8c4e1ecb25f035edfb1ba27ac";

    #[test]
    fn values_are_written_as_each_header_wants_them() {
        let adler = Checksum::adler32(0xdfca_84d2);
        assert_eq!(digest_value(&adler), "adler32=dfca84d2");
        assert_eq!(digest_value(&Checksum::crc32c(0x0001_02ff)), "crc32c=000102ff");
        assert_eq!(repr_digest_value(&adler), "adler=:38qE0g==:");
        let md5 = Checksum::from_hex(Md5, MD5_HEX).unwrap();
        assert_eq!(digest_value(&md5), "md5=OXXw2MTh7LJfA17fsbonrA==");
    }

    #[test]
    fn digests_of_all_writers_are_read() {
        let md5 = Checksum::from_hex(Md5, MD5_HEX).unwrap();
        for text in [
            "md5=OXXw2MTh7LJfA17fsbonrA==",
            "MD5=3975F0D8C4E1ECB25F035EDFB1BA27AC",
            " sha=x, md5=OXXw2MTh7LJfA17fsbonrA==",
        ] {
            assert_eq!(parse_digest(text).collect::<Vec<_>>(), [Ok(md5.clone())], "{text}");
        }
        for text in ["adler32=102ff", "adler32=000102FF", "ADLER32=AAEC/w=="] {
            assert_eq!(
                parse_digest(text).next(),
                Some(Ok(Checksum::adler32(0x0001_02ff))),
                "{text}"
            );
        }
        assert_eq!(parse_digest("adler32=123456789").next(), Some(Err(BadDigest(Adler32))));
        assert_eq!(parse_digest("UNIXcksum=5, nonsense").count(), 0);
        assert_eq!(parse_repr_digest("adler=:38qE0g==:;x=1, crc32c=:AAEC/w==:").count(), 2);
        assert_eq!(
            parse_repr_digest("adler=38qE0g==").next(),
            Some(Err(BadDigest(Adler32)))
        );
        assert_eq!(
            parse_content_md5(MD5_HEX),
            parse_content_md5("OXXw2MTh7LJfA17fsbonrA==")
        );
    }

    #[test]
    fn wishes_are_ordered_by_weight_then_place() {
        let want = |text| parse_want_digest(std::iter::once(text));
        assert_eq!(want("ADLER32"), [Adler32]);
        assert_eq!(want("adler32;q=0.5,md5, sha-512, crc32c;q=0"), [Md5, Adler32]);
        assert_eq!(want("md5,adler32,md5"), [Md5, Adler32]);
        let want = |text| parse_want_repr_digest(std::iter::once(text));
        assert_eq!(want("sha-256=3, adler=5, crc32c=0, md5=3"), [Adler32, Sha256, Md5]);
    }

    #[test]
    fn wishes_round_trip_in_their_order() {
        let all = [Crc32c, Adler32, Md5, Sha256];
        assert_eq!(
            parse_want_digest(std::iter::once(want_digest_value(&all).as_str())),
            all
        );
        assert_eq!(
            parse_want_repr_digest(std::iter::once(want_repr_digest_value(&all).as_str())),
            all
        );
    }
}
