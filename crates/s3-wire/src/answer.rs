//! The documents of successful answers: listings and uploads.

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use types::Error;

use crate::limits::TOKEN_BYTES_MAX;
use crate::refusal::{Refusal, refusal};
use crate::xml::{Leaves, Visit, misbehaved, read};

/// One object or common prefix of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketEntry {
    /// The whole key; that of a prefix ends with the delimiter. Of a list of buckets, the name.
    pub key: String,
    /// Whether it stands for everything with this prefix.
    pub is_prefix: bool,
    /// Size in bytes, of an object.
    pub size_bytes: Option<u64>,
    /// Time of the last change, in seconds since 1970.
    pub modified_s: Option<i64>,
    /// The entity tag with its quotes.
    pub etag: Option<String>,
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its entries, first the objects, then the prefixes.
    pub entries: Vec<BucketEntry>,
    /// What to send for the next page; `None` at the end.
    pub next: Option<String>,
}

#[derive(Default)]
struct Listing {
    objects: Vec<BucketEntry>,
    prefixes: Vec<BucketEntry>,
    current: BucketEntry,
    root: String,
    token: Option<String>,
    is_truncated: bool,
    is_encoded: bool,
}

impl Visit for Listing {
    fn begin(&mut self, path: &[String]) {
        match path {
            [root] => self.root.clone_from(root),
            [_, name] if name == "Contents" || name == "CommonPrefixes" => self.current = BucketEntry::default(),
            _ => {}
        }
    }

    fn end(&mut self, path: &[String], text: &str) {
        let names: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
        match names.as_slice() {
            ["Contents"] => self.objects.push(std::mem::take(&mut self.current)),
            ["CommonPrefixes"] => self.prefixes.push(std::mem::take(&mut self.current)),
            // Spaces are a part of the key.
            ["Contents", "Key"] => text.clone_into(&mut self.current.key),
            ["CommonPrefixes", "Prefix"] => {
                text.clone_into(&mut self.current.key);
                self.current.is_prefix = true;
            }
            ["Contents", "Size"] => self.current.size_bytes = text.trim().parse().ok(),
            ["Contents", "LastModified"] => self.current.modified_s = seconds(text),
            ["Contents", "ETag"] => self.current.etag = Some(text.trim().to_owned()),
            ["IsTruncated"] => self.is_truncated = text.trim() == "true",
            ["NextContinuationToken"] => self.token = Some(text.to_owned()),
            ["EncodingType"] => self.is_encoded = text.trim() == "url",
            _ => {}
        }
    }
}

/// Reads a page of a listing (`ListObjectsV2`).
///
/// # Errors
/// `peer_misbehaved` for an answer that is no listing, has an entry without a name, or says that
/// more follows without saying how to ask for it.
pub fn page(body: &[u8]) -> Result<Page, Error> {
    let mut listing = Listing::default();
    read(body, &mut listing)?;
    if listing.root != "ListBucketResult" {
        return Err(misbehaved("the answer is no listing"));
    }
    let mut entries = listing.objects;
    entries.append(&mut listing.prefixes);
    for entry in &mut entries {
        if listing.is_encoded {
            // As the query of a form: `+` is a space.
            let spaced = entry.key.replace('+', " ");
            let decoded = percent_decode_str(&spaced).decode_utf8();
            entry.key = decoded.map_err(|_| misbehaved("a key is not UTF-8"))?.into_owned();
        }
        if entry.key.is_empty() {
            return Err(misbehaved("an entry has no key"));
        }
    }
    let next = listing.token.filter(|token| listing.is_truncated && !token.is_empty());
    match next {
        None if listing.is_truncated => Err(misbehaved("the listing is incomplete and has no next page")),
        Some(token) if token.len() > TOKEN_BYTES_MAX => Err(misbehaved("the token for the next page is too long")),
        next => Ok(Page { entries, next }),
    }
}

#[derive(Default)]
struct Buckets {
    root: String,
    found: Vec<BucketEntry>,
    current: BucketEntry,
}

impl Visit for Buckets {
    fn begin(&mut self, path: &[String]) {
        if let [root] = path {
            self.root.clone_from(root);
        }
    }

    fn end(&mut self, path: &[String], text: &str) {
        let names: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
        match names.as_slice() {
            ["Buckets", "Bucket", "Name"] => text.trim().clone_into(&mut self.current.key),
            ["Buckets", "Bucket", "CreationDate"] => self.current.modified_s = seconds(text),
            ["Buckets", "Bucket"] => {
                let mut bucket = std::mem::take(&mut self.current);
                bucket.is_prefix = true;
                self.found.push(bucket);
            }
            _ => {}
        }
    }
}

/// Reads the list of our buckets (`ListBuckets`).
///
/// # Errors
/// `peer_misbehaved` for another answer.
pub fn buckets(body: &[u8]) -> Result<Vec<BucketEntry>, Error> {
    let mut buckets = Buckets::default();
    read(body, &mut buckets)?;
    if buckets.root != "ListAllMyBucketsResult" || buckets.found.iter().any(|bucket| bucket.key.is_empty()) {
        return Err(misbehaved("the answer is no list of buckets"));
    }
    Ok(buckets.found)
}

/// An upload that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its identifier.
    pub id: String,
}

/// Reads the answer to the beginning of a multipart upload.
///
/// # Errors
/// `peer_misbehaved` for another answer, or an identifier that is empty or too long.
pub fn upload_id(body: &[u8]) -> Result<Upload, Error> {
    let leaves = Leaves::read(body, "InitiateMultipartUploadResult", ["UploadId"])?;
    let [id] = leaves.texts;
    match id.filter(|id| !id.is_empty() && id.len() <= TOKEN_BYTES_MAX) {
        Some(id) => Ok(Upload { id }),
        None => Err(misbehaved("the server did not name the upload")),
    }
}

/// Reads the answer to the end of a multipart upload: the entity tag of the object. The server may
/// refuse although its status says 200, since the status was sent before it knew.
///
/// # Errors
/// The refusal, or `None` for an answer that is neither.
pub fn completed(body: &[u8]) -> Result<Option<String>, Option<Refusal>> {
    if let Some(refused) = refusal(body) {
        return Err(Some(refused));
    }
    let leaves = Leaves::read(body, "CompleteMultipartUploadResult", ["ETag"]).map_err(|_| None)?;
    if !leaves.is_expected() {
        return Err(None);
    }
    let [etag] = leaves.texts;
    Ok(etag.filter(|etag| !etag.is_empty()))
}

fn seconds(text: &str) -> Option<i64> {
    text.trim().parse::<Timestamp>().ok().map(Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><Prefix>d/</Prefix>\
        <IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;1</NextContinuationToken>\
        <Contents><Key>d/a&lt;b +</Key><LastModified>2026-11-29T08:00:00.000Z</LastModified>\
        <ETag>&quot;ab&quot;</ETag><Size>7</Size><Owner><ID>x</ID><Key>no</Key></Owner></Contents>\
        <CommonPrefixes><Prefix>d/e/</Prefix></CommonPrefixes></ListBucketResult>";

    #[test]
    fn a_page_has_objects_prefixes_and_the_next_token() {
        let read = page(LISTING.as_bytes()).unwrap();
        assert_eq!(read.next.as_deref(), Some("t&1"));
        let [object, prefix] = read.entries.as_slice() else {
            panic!("{read:?}")
        };
        assert_eq!((object.key.as_str(), object.size_bytes), ("d/a<b +", Some(7)));
        assert_eq!(
            (object.modified_s, object.etag.as_deref()),
            (Some(1_795_939_200), Some("\"ab\""))
        );
        assert!(prefix.is_prefix && prefix.key == "d/e/");
        let encoded = LISTING
            .replace("a&lt;b +", "a%3Cb+%2B")
            .replace("<IsTruncated>true", "<EncodingType>url</EncodingType><IsTruncated>true");
        assert_eq!(page(encoded.as_bytes()).unwrap(), read);
    }

    #[test]
    fn what_is_no_whole_listing_is_refused() {
        let last = LISTING.replace(">true<", ">false<");
        assert_eq!(page(last.as_bytes()).unwrap().next, None);
        let endless = LISTING.replace("NextContinuationToken", "Other");
        let unnamed = LISTING.replace("d/e/", "");
        for text in [
            endless.as_str(),
            unnamed.as_str(),
            &LISTING[..LISTING.len() - 3],
            "<a/>",
            "",
            "<!DOCTYPE a><a/>",
        ] {
            assert!(page(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn an_upload_begins_with_a_name_and_ends_with_a_result_or_a_refusal() {
        let begun =
            "<InitiateMultipartUploadResult><Bucket>b</Bucket><UploadId>u1</UploadId></InitiateMultipartUploadResult>";
        assert_eq!(upload_id(begun.as_bytes()).unwrap().id, "u1");
        assert!(upload_id(b"<InitiateMultipartUploadResult/>").is_err());
        let done = b" \n <CompleteMultipartUploadResult><ETag>\"a-2\"</ETag></CompleteMultipartUploadResult>";
        assert_eq!(completed(done).unwrap().as_deref(), Some("\"a-2\""));
        let refused = completed(b"\n\n<Error><Code>InternalError</Code><Message>m</Message></Error>").unwrap_err();
        assert!(refused.unwrap().may_pass());
        assert_eq!(completed(b""), Err(None));
    }

    #[test]
    fn buckets_are_listed() {
        let list = b"<ListAllMyBucketsResult><Owner><Name>o</Name></Owner><Buckets><Bucket><Name>b</Name>\
            <CreationDate>2026-11-29T08:00:00Z</CreationDate></Bucket></Buckets></ListAllMyBucketsResult>";
        assert_eq!(buckets(list).unwrap()[0].key, "b");
    }
}
