//! The names of headers that S3 adds to HTTP or signs, in lower case.

/// Asks for the stored checksums (`ENABLED`).
pub const CHECKSUM_MODE: &str = "x-amz-checksum-mode";
/// The MD5 of what a request sends, base64 (RFC 1864). The server refuses other content.
pub const CONTENT_MD5: &str = "content-md5";
/// The CRC-32 of an object, base64.
pub const CHECKSUM_CRC32: &str = "x-amz-checksum-crc32";
/// The CRC-32C of an object, base64.
pub const CHECKSUM_CRC32C: &str = "x-amz-checksum-crc32c";
/// The CRC-64/NVME of an object, base64.
pub const CHECKSUM_CRC64NVME: &str = "x-amz-checksum-crc64nvme";
/// The checksum algorithm for the parts of an upload.
pub const CHECKSUM_ALGORITHM: &str = "x-amz-checksum-algorithm";
/// The Adler-32 of an object in hexadecimal digits, which its writer has left with it.
pub const META_ADLER32: &str = "x-amz-meta-adler32";
/// The checksums of an object of Google Cloud Storage ("x-goog-hash" of its XML API).
pub const GOOGLE_HASH: &str = "x-goog-hash";
/// How many tags an object has.
pub const TAGGING_COUNT: &str = "x-amz-tagging-count";
/// `/BUCKET/KEY` of the object to copy, percent-encoded.
pub const COPY_SOURCE: &str = "x-amz-copy-source";
/// The version that the object to copy must have.
pub const COPY_SOURCE_IF_MATCH: &str = "x-amz-copy-source-if-match";
/// The bytes to copy, as `bytes=FIRST-LAST`.
pub const COPY_SOURCE_RANGE: &str = "x-amz-copy-source-range";
/// Whether a checksum is of the whole object (`FULL_OBJECT`) or of its parts' checksums.
pub const CHECKSUM_TYPE: &str = "x-amz-checksum-type";
/// The region of a bucket, in answers that redirect or refuse.
pub const BUCKET_REGION: &str = "x-amz-bucket-region";
/// How the object is encrypted at rest.
pub const ENCRYPTION: &str = "x-amz-server-side-encryption";
/// The algorithm of a key that only the client has.
pub const CUSTOMER_ENCRYPTION: &str = "x-amz-server-side-encryption-customer-algorithm";
