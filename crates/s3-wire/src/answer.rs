//! The documents of successful answers: listings and uploads.

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use types::{Checksum, ChecksumAlgorithm, Error};

use crate::limits::TOKEN_BYTES_MAX;
use crate::part_sums::{Composite, SumKind};
use crate::refusal::{Refusal, refusal};
use crate::xml::{Leaves, Visit, misbehaved, read};

/// The detail of an error: the server took the request for one about its buckets, or about an
/// object, since it expects the name of the bucket in the path and not in the host, or in the host.
pub const BUCKET_ELSEWHERE: &str = "the server expects the bucket elsewhere in the URL, in the path or in the host";

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
            ["Contents", "ETag"] => self.current.etag = Some(text.trim().to_owned()).filter(|etag| is_tag(etag)),
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
/// more follows without saying how to ask for it; with [`BUCKET_ELSEWHERE`] for a list of buckets.
pub fn page(body: &[u8]) -> Result<Page, Error> {
    let mut listing = Listing::default();
    read(body, &mut listing)?;
    match listing.root.as_str() {
        "ListBucketResult" => {}
        "ListAllMyBucketsResult" => return Err(misbehaved(BUCKET_ELSEWHERE)),
        _ => return Err(misbehaved("the answer is no listing")),
    }
    let mut entries = listing.objects;
    entries.append(&mut listing.prefixes);
    for entry in &mut entries {
        if listing.is_encoded {
            entry.key = decoded(&entry.key)?;
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

/// An object or a part of one that the server has made of what it had: of parts, or of another
/// object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Its entity tag, with quotes.
    pub etag: Option<String>,
    /// Its checksums: of a whole object, not of its parts' checksums.
    pub checksums: Vec<Checksum>,
    /// The checksum of its parts' checksums.
    pub composite: Option<Composite>,
}

/// Reads the answer to the end of a multipart upload. The server may refuse although its status
/// says 200, since the status was sent before it knew.
///
/// # Errors
/// The refusal, or `None` for an answer that is neither.
pub fn completed(body: &[u8]) -> Result<Made, Option<Refusal>> {
    made(body, "CompleteMultipartUploadResult")
}

/// Reads the answer to the copy of an object, or to that of a part of one. As with [`completed`],
/// the status says nothing.
///
/// # Errors
/// As [`completed`].
pub fn copied(body: &[u8]) -> Result<Made, Option<Refusal>> {
    made(body, "CopyObjectResult").or_else(|refused| match refused {
        None => made(body, "CopyPartResult"),
        refused => Err(refused),
    })
}

fn made(body: &[u8], root: &str) -> Result<Made, Option<Refusal>> {
    if let Some(refused) = refusal(body) {
        return Err(Some(refused));
    }
    let names = [
        "ETag",
        "ChecksumCRC32C",
        "ChecksumCRC64NVME",
        "ChecksumType",
        "ChecksumCRC32",
    ];
    let leaves = Leaves::read(body, root, names).map_err(|_| None)?;
    if !leaves.is_expected() {
        return Err(None);
    }
    let [etag, crc32c, crc64nvme, kind, crc32] = leaves.texts;
    let is_whole = kind.is_none_or(|kind| kind.eq_ignore_ascii_case("FULL_OBJECT"));
    let composite = |kind, text: &Option<String>| {
        // The number of parts may come without the type.
        let text = text.clone().filter(|text| !is_whole || text.contains('-'))?;
        Some(Composite { kind, text })
    };
    let composite = composite(SumKind::Crc32c, &crc32c).or_else(|| composite(SumKind::Crc32, &crc32));
    let of = |algorithm, text: Option<String>| Checksum::from_base64(algorithm, &text.filter(|_| is_whole)?);
    let checksums = [
        of(ChecksumAlgorithm::Crc32c, crc32c),
        of(ChecksumAlgorithm::Crc64Nvme, crc64nvme),
    ];
    Ok(Made {
        etag: etag.filter(|etag| is_tag(etag)).map(quoted),
        checksums: checksums.into_iter().flatten().collect(),
        composite,
    })
}

/// Whether a text can be an entity tag: it becomes a part of headers (RFC 9110 §8.8.3).
fn is_tag(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|character| character.is_control() || character == ' ')
}

/// An entity tag as it stands in headers: some servers leave out its quotes in documents.
fn quoted(etag: String) -> String {
    match etag.starts_with('"') {
        true => etag,
        false => format!("\"{etag}\""),
    }
}

/// An upload in parts that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedUpload {
    /// The key of its object.
    pub key: String,
    /// Its identifier.
    pub id: String,
    /// When it began, in seconds since 1970; `None`: the server does not say.
    pub begun_s: Option<i64>,
}

/// Where a list of uploads goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadMarker {
    /// The last key.
    pub key: String,
    /// The last identifier for it; may be empty.
    pub id: String,
}

/// A page of a list of uploads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadsPage {
    /// Its uploads.
    pub uploads: Vec<UnfinishedUpload>,
    /// What to send for the next page; `None` at the end.
    pub next: Option<UploadMarker>,
}

#[derive(Default)]
struct Uploads {
    root: String,
    found: Vec<UnfinishedUpload>,
    current: UnfinishedUpload,
    marker: UploadMarker,
    is_truncated: bool,
    is_encoded: bool,
}

impl Visit for Uploads {
    fn begin(&mut self, path: &[String]) {
        match path {
            [root] => self.root.clone_from(root),
            [_, name] if name == "Upload" => self.current = UnfinishedUpload::default(),
            _ => {}
        }
    }

    fn end(&mut self, path: &[String], text: &str) {
        let names: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
        match names.as_slice() {
            ["Upload"] => self.found.push(std::mem::take(&mut self.current)),
            ["Upload", "Key"] => text.clone_into(&mut self.current.key),
            ["Upload", "UploadId"] => text.trim().clone_into(&mut self.current.id),
            ["Upload", "Initiated"] => self.current.begun_s = seconds(text),
            ["NextKeyMarker"] => text.clone_into(&mut self.marker.key),
            ["NextUploadIdMarker"] => text.clone_into(&mut self.marker.id),
            ["IsTruncated"] => self.is_truncated = text.trim() == "true",
            ["EncodingType"] => self.is_encoded = text.trim() == "url",
            _ => {}
        }
    }
}

/// Reads a page of the uploads that have not ended (`ListMultipartUploads`).
///
/// # Errors
/// `peer_misbehaved` for another answer, an upload without key or identifier, or one that says that
/// more follows without saying how to ask for it.
pub fn uploads(body: &[u8]) -> Result<UploadsPage, Error> {
    let mut list = Uploads::default();
    read(body, &mut list)?;
    if list.root != "ListMultipartUploadsResult" {
        return Err(misbehaved("the answer is no list of uploads"));
    }
    let is_encoded = list.is_encoded;
    for key in list
        .found
        .iter_mut()
        .map(|upload| &mut upload.key)
        .chain([&mut list.marker.key])
    {
        if is_encoded {
            *key = decoded(key)?;
        }
    }
    let is_named =
        |upload: &UnfinishedUpload| !upload.key.is_empty() && (1..=TOKEN_BYTES_MAX).contains(&upload.id.len());
    if !list.found.iter().all(is_named) {
        return Err(misbehaved("an upload has no key or no identifier"));
    }
    let is_marked = !list.marker.key.is_empty()
        && list.marker.key.len() <= TOKEN_BYTES_MAX
        && list.marker.id.len() <= TOKEN_BYTES_MAX;
    match list.is_truncated {
        true if !is_marked => Err(misbehaved("the list of uploads is incomplete and has no next page")),
        is_truncated => Ok(UploadsPage {
            uploads: list.found,
            next: is_truncated.then_some(list.marker),
        }),
    }
}

/// A key as listings encode it, like the query of a form: `+` is a space.
fn decoded(key: &str) -> Result<String, Error> {
    let spaced = key.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    Ok(decoded.map_err(|_| misbehaved("a key is not UTF-8"))?.into_owned())
}

fn seconds(text: &str) -> Option<i64> {
    text.trim().parse::<Timestamp>().ok().map(Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part_sums::PartSum;

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
        assert_eq!(completed(done).unwrap().etag.as_deref(), Some("\"a-2\""));
        let refused = completed(b"\n\n<Error><Code>InternalError</Code><Message>m</Message></Error>").unwrap_err();
        assert!(refused.unwrap().may_pass());
        assert_eq!(completed(b""), Err(None));
    }

    #[test]
    fn checksums_of_parts_are_none_of_the_object() {
        let made = |kind: &str| {
            let body = format!(
                "<CompleteMultipartUploadResult><ETag>a-2</ETag><ChecksumCRC64NVME>rosUhgp5mIg=</ChecksumCRC64NVME>\
                 <ChecksumType>{kind}</ChecksumType></CompleteMultipartUploadResult>"
            );
            completed(body.as_bytes()).unwrap()
        };
        let whole = made("FULL_OBJECT");
        assert_eq!(whole.checksums, [Checksum::crc64nvme(0xae8b_1486_0a79_9888)]);
        assert_eq!(whole.etag.as_deref(), Some("\"a-2\""));
        assert!(made("COMPOSITE").checksums.is_empty());
        let body = "<CompleteMultipartUploadResult><ETag>a-2</ETag><ChecksumCRC32C>gDcnRA==-2</ChecksumCRC32C>\
            </CompleteMultipartUploadResult>";
        let composite = completed(body.as_bytes()).unwrap().composite.unwrap();
        // Of two parts, as Amazon's rules and versitygw compute it.
        let sum = |value| PartSum {
            kind: SumKind::Crc32c,
            value,
        };
        assert!(composite.is_of(&sum(0x8037_2744), 2) && !composite.is_of(&sum(0x8037_2744), 3));
        assert!(!composite.is_of(&sum(1), 2));
        let split =
            b"<CompleteMultipartUploadResult><ETag>\"a\"&#13;&#10;X-Evil: 1</ETag></CompleteMultipartUploadResult>";
        assert_eq!(completed(split).unwrap().etag, None, "it would be a header of its own");
    }

    #[test]
    fn copies_are_refused_behind_the_status_200_too() {
        for root in ["CopyObjectResult", "CopyPartResult"] {
            let body = format!("<{root}><LastModified>x</LastModified><ETag>&quot;a&quot;</ETag></{root}>");
            assert_eq!(copied(body.as_bytes()).unwrap().etag.as_deref(), Some("\"a\""));
        }
        let refused = copied(b"<Error><Code>SlowDown</Code></Error>").unwrap_err();
        assert!(refused.unwrap().may_pass());
        assert_eq!(copied(b"<CompleteMultipartUploadResult/>"), Err(None));
    }

    #[test]
    fn unfinished_uploads_are_listed_page_by_page() {
        let list = "<ListMultipartUploadsResult><Bucket>b</Bucket><NextKeyMarker>k</NextKeyMarker>\
            <NextUploadIdMarker>u</NextUploadIdMarker><IsTruncated>true</IsTruncated><Upload><Key>a b</Key>\
            <UploadId>u1</UploadId><Initiated>2026-11-29T08:00:00Z</Initiated><Owner><ID>o</ID></Owner></Upload>\
            </ListMultipartUploadsResult>";
        let read = uploads(list.as_bytes()).unwrap();
        assert_eq!(
            (read.uploads[0].key.as_str(), read.uploads[0].begun_s),
            ("a b", Some(1_795_939_200))
        );
        assert_eq!(
            read.next.as_ref().map(|next| (next.key.as_str(), next.id.as_str())),
            Some(("k", "u"))
        );
        let last = list.replace(">true<", ">false<");
        assert_eq!(uploads(last.as_bytes()).unwrap().next, None);
        for broken in [
            list.replace("<NextKeyMarker>k", "<NextKeyMarker>"),
            list.replace(">u1<", "><"),
        ] {
            assert!(uploads(broken.as_bytes()).is_err(), "{broken}");
        }
        assert!(uploads(b"<ListBucketResult/>").is_err());
    }

    #[test]
    fn buckets_are_listed() {
        let list = b"<ListAllMyBucketsResult><Owner><Name>o</Name></Owner><Buckets><Bucket><Name>b</Name>\
            <CreationDate>2026-11-29T08:00:00Z</CreationDate></Bucket></Buckets></ListAllMyBucketsResult>";
        assert_eq!(buckets(list).unwrap()[0].key, "b");
    }
}
