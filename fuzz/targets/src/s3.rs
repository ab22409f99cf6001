//! Targets for S3: the documents of servers, the places of URLs, the files of keys.

use s3_wire::{Addressing, Method, Place, Request};
use types::Location;

/// Pieces of answers.
pub(crate) const ANSWER_WORDS: &[&str] = &[
    "<?xml version=\"1.0\"?>",
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
    "</ListBucketResult>",
    "<Contents><Key>",
    "</Key><Size>1</Size></Contents>",
    "<CommonPrefixes><Prefix>",
    "</Prefix></CommonPrefixes>",
    "<EncodingType>url</EncodingType>",
    "<IsTruncated>true</IsTruncated>",
    "<NextContinuationToken>",
    "<ListAllMyBucketsResult><Buckets><Bucket><Name>",
    "<InitiateMultipartUploadResult><UploadId>",
    "<CompleteMultipartUploadResult><ETag>",
    "<Error><Code>SlowDown</Code>",
    "<Region>",
    "%2B",
    "&#x1;",
    "<![CDATA[",
    "<!DOCTYPE a>",
];

/// What was understood has names; a refusal is no success, and fits on one line.
pub(crate) fn answer(data: &[u8]) {
    if let Ok(page) = s3_wire::page(data) {
        assert!(page.entries.iter().all(|entry| !entry.key.is_empty()));
        assert!(page.next.is_none_or(|token| !token.is_empty()));
    }
    if let Ok(buckets) = s3_wire::buckets(data) {
        assert!(buckets.iter().all(|bucket| !bucket.key.is_empty()));
    }
    if let Ok(upload) = s3_wire::upload_id(data) {
        assert!(!upload.id.is_empty());
    }
    let completed = s3_wire::completed(data);
    if let Some(refusal) = s3_wire::refusal(data) {
        assert!(!refusal.code.is_empty() && !refusal.words().contains(char::is_control));
        assert!(refusal.region.as_deref().is_none_or(s3_wire::is_region));
        assert_eq!(completed, Err(Some(refusal)));
    }
}

/// Pieces of URLs.
pub(crate) const PLACE_WORDS: &[&str] = &[
    "s3://",
    "s3s://h:9000/",
    "b.s3.eu-west-1.amazonaws.com",
    "/bucket/",
    "%2F",
    "%2E%2E",
    "%20",
    "+",
    "//",
    "%C3%A4",
];

/// A place that a URL names is signed as a URL that names the same place.
pub(crate) fn place(data: &[u8]) {
    let Some(location) = std::str::from_utf8(data)
        .ok()
        .and_then(|text| Location::parse(text).ok())
    else {
        return;
    };
    if !location.is_remote() {
        return;
    }
    for addressing in [Addressing::Path, Addressing::VirtualHost] {
        let Ok(place) = Place::of(&location, addressing) else {
            continue;
        };
        let Ok(url) = s3_wire::signed(None, "r", &place, &Request::plain(Method::Get), 0, 1) else {
            continue;
        };
        let again = Place::of(&url, addressing).expect("it is the same place");
        assert_eq!((&again.bucket, &again.key), (&place.bucket, &place.key), "{url}");
        assert_eq!((url.host(), url.port()), (location.host(), location.port()));
    }
}

/// Pieces of files of keys.
pub(crate) const KEYS_WORDS: &[&str] = &[
    "[default]\n",
    "[S3:H]\n",
    "[profile p]\n",
    "aws_access_key_id = ",
    "aws_secret_access_key = ",
    "ACCESS_KEY=",
    "SECRET_KEY=",
    "ALTERNATE=true\n",
    "\n",
    "=",
    "#",
];

/// Keys are whole words, and no message has a secret.
pub(crate) fn keys(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let profile = s3_wire::profile(text, text, "default").account();
    for account in profile.into_iter().chain(s3_wire::grid_store(text, "h")) {
        assert!(!account.key_id.is_empty() && !account.secret.expose().is_empty());
        assert!(!account.secret.expose().contains(char::is_control));
    }
}
