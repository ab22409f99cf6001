//! The tags of an object, and the checksums that we keep in them. A tag can be set on an object
//! that is stored already, without storing it again; metadata cannot.
//!
//! Source: `GetObjectTagging`, `PutObjectTagging` and "Tag restrictions" in the Amazon S3 API
//! reference.

use types::{Checksum, ChecksumAlgorithm, Error};

use crate::limits::TAGS_MAX;
use crate::xml::{Visit, misbehaved, read};

/// The tag with the entity tag of the object whose checksums the others are. An object that was
/// stored anew between a checksum and its tags has another one.
const VERSION_KEY: &str = "checksums-etag";

/// A tag of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
}

#[derive(Default)]
struct Tagging {
    root: String,
    found: Vec<Tag>,
    current: Tag,
}

impl Visit for Tagging {
    fn begin(&mut self, path: &[String]) {
        if let [root] = path {
            self.root.clone_from(root);
        }
    }

    fn end(&mut self, path: &[String], text: &str) {
        let names: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
        match names.as_slice() {
            ["TagSet", "Tag", "Key"] => text.clone_into(&mut self.current.key),
            ["TagSet", "Tag", "Value"] => text.clone_into(&mut self.current.value),
            ["TagSet", "Tag"] => self.found.push(std::mem::take(&mut self.current)),
            _ => {}
        }
    }
}

/// Reads the tags of an object.
///
/// # Errors
/// `peer_misbehaved` for another answer.
pub fn tags(body: &[u8]) -> Result<Vec<Tag>, Error> {
    let mut tagging = Tagging::default();
    read(body, &mut tagging)?;
    match tagging.root.as_str() {
        "Tagging" => Ok(tagging.found),
        _ => Err(misbehaved("the answer is no list of tags")),
    }
}

/// The body that replaces all tags of an object.
#[must_use]
pub fn tagging_body(tags: &[Tag]) -> String {
    let mut body = "<Tagging xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><TagSet>".to_owned();
    for tag in tags {
        let [key, value] = [&tag.key, &tag.value].map(quick_xml::escape::escape);
        body.push_str(&format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>"));
    }
    body.push_str("</TagSet></Tagging>");
    body
}

/// The checksums in the tags of the object with this entity tag. Those of another version do not
/// count.
#[must_use]
pub fn tagged_checksums(tags: &[Tag], etag: &str) -> Vec<Checksum> {
    let value = |key: &str| tags.iter().find(|tag| tag.key == key).map(|tag| tag.value.as_str());
    if value(VERSION_KEY) != Some(etag.trim_matches('"')) {
        return Vec::new();
    }
    let read = |algorithm: ChecksumAlgorithm| Checksum::from_hex(algorithm, value(algorithm.name())?);
    ChecksumAlgorithm::ALL.into_iter().filter_map(read).collect()
}

/// The Adler-32 in the tags of the object with this entity tag, also if others have set it, who
/// name no version.
#[must_use]
pub fn tagged_adler32(tags: &[Tag], etag: &str) -> Option<Checksum> {
    let value = |key: &str| {
        tags.iter()
            .find(|tag| tag.key.eq_ignore_ascii_case(key))
            .map(|tag| tag.value.trim())
    };
    let is_current = value(VERSION_KEY).is_none_or(|version| version == etag.trim_matches('"'));
    Checksum::from_hex(ChecksumAlgorithm::Adler32, value("adler32").filter(|_| is_current)?)
}

/// The tags of an object with these checksums, which hold for this entity tag. Tags of others stay;
/// checksums of another version go. `None` if there would be too many tags, or the entity tag has
/// characters that no tag may have.
#[must_use]
pub fn with_checksums(tags: Vec<Tag>, etag: &str, checksums: &[Checksum]) -> Option<Vec<Tag>> {
    let version = etag.trim_matches('"');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.=+/:@ ".contains(&byte);
    if version.is_empty() || !version.bytes().all(is_plain) {
        return None;
    }
    let known = tagged_checksums(&tags, etag);
    let kept = known
        .iter()
        .filter(|old| checksums.iter().all(|new| new.algorithm() != old.algorithm()));
    let all = kept.chain(checksums).map(|checksum| Tag {
        key: checksum.algorithm().name().to_owned(),
        value: checksum.to_hex(),
    });
    let version = Tag {
        key: VERSION_KEY.to_owned(),
        value: version.to_owned(),
    };
    let ours: Vec<Tag> = all.chain([version]).collect();
    let is_ours = |tag: &Tag| tag.key == VERSION_KEY || ChecksumAlgorithm::from_name(&tag.key).is_some();
    let others = tags.into_iter().filter(|tag| !is_ours(tag));
    let all: Vec<Tag> = others.chain(ours).collect();
    (all.len() <= TAGS_MAX).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(key: &str, value: &str) -> Tag {
        Tag {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn checksums_count_for_the_version_that_they_are_of() {
        let others = vec![
            tag("owner", "a & <b>"),
            tag("adler32", "00000009"),
            tag("checksums-etag", "old"),
        ];
        let tagged = with_checksums(others, "\"new-2\"", &[Checksum::adler32(0xabc)]).unwrap();
        assert_eq!(tags(tagging_body(&tagged).as_bytes()).unwrap(), tagged);
        assert_eq!(tagged_checksums(&tagged, "\"new-2\""), [Checksum::adler32(0xabc)]);
        assert_eq!(tagged_checksums(&tagged, "\"newer\""), []);
        assert!(
            tagged.contains(&tag("owner", "a & <b>")) && tagged.len() == 3,
            "{tagged:?}"
        );
        // Another algorithm joins the first one.
        let both = with_checksums(tagged, "\"new-2\"", &[Checksum::crc32c(5)]).unwrap();
        let sums = tagged_checksums(&both, "\"new-2\"");
        assert!(sums.len() == 2 && sums.contains(&Checksum::crc32c(5)), "{sums:?}");
    }

    #[test]
    fn a_tag_of_others_may_tell_the_adler32() {
        let set = [tag("a", "1"), tag("Adler32", "091e01de")];
        assert_eq!(tagged_adler32(&set, "\"e\""), Some(Checksum::adler32(0x091e_01de)));
        assert_eq!(tagged_adler32(&set[..1], "\"e\""), None);
        let [old, current] = ["old", "e"].map(|version| [set[1].clone(), tag("checksums-etag", version)]);
        assert_eq!(tagged_adler32(&old, "\"e\""), None);
        assert_eq!(tagged_adler32(&current, "\"e\""), Some(Checksum::adler32(0x091e_01de)));
    }

    #[test]
    fn too_many_tags_and_odd_versions_are_left_alone() {
        let nine: Vec<Tag> = (0..TAGS_MAX - 1).map(|at| tag(&format!("t{at}"), "")).collect();
        assert_eq!(with_checksums(nine, "\"e\"", &[Checksum::adler32(1)]), None);
        for odd in ["\"\"", "\"a&b\"", "\"ä\""] {
            assert_eq!(with_checksums(Vec::new(), odd, &[Checksum::adler32(1)]), None, "{odd}");
        }
        assert!(tags(b"<Error><Code>NotImplemented</Code></Error>").is_err());
        assert_eq!(tags(b"<Tagging><TagSet/></Tagging>").unwrap(), []);
    }
}
