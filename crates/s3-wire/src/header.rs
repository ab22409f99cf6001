//! The names of headers that S3 adds to HTTP, in lower case, as they are signed.

/// Asks for the stored checksums (`ENABLED`).
pub const CHECKSUM_MODE: &str = "x-amz-checksum-mode";
/// The CRC-32C of an object, base64.
pub const CHECKSUM_CRC32C: &str = "x-amz-checksum-crc32c";
/// Whether a checksum is of the whole object (`FULL_OBJECT`) or of its parts' checksums.
pub const CHECKSUM_TYPE: &str = "x-amz-checksum-type";
/// The region of a bucket, in answers that redirect or refuse.
pub const BUCKET_REGION: &str = "x-amz-bucket-region";
/// How the object is encrypted at rest.
pub const ENCRYPTION: &str = "x-amz-server-side-encryption";
/// The algorithm of a key that only the client has.
pub const CUSTOMER_ENCRYPTION: &str = "x-amz-server-side-encryption-customer-algorithm";
