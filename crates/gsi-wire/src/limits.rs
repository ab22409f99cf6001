//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

/// Largest certificate, in bytes. A proxy with the attributes of several VOs has some 20 KiB.
pub const CERTIFICATE_BYTES_MAX: usize = 64 * 1024;
/// Most extensions in one certificate.
pub const CERTIFICATE_EXTENSIONS_MAX: usize = 64;
/// Most parts (`/CN=…`) of one X.501 name.
pub const NAME_PARTS_MAX: usize = 64;
/// Longest X.501 name in one line, in bytes.
pub const ONE_LINE_NAME_BYTES_MAX: usize = 4096;
/// Largest file of certificates in PEM, in bytes: bundles of authorities have some 250 KB.
pub const PEM_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most blocks in one PEM file.
pub const PEM_BLOCKS_MAX: usize = 4096;
/// Most attribute certificates of VOMS in one proxy, one for each VO.
pub const VOMS_ATTRIBUTES_MAX: usize = 16;
/// Most certificates that a VOMS server sends along with its attributes.
pub const VOMS_CERTIFICATES_MAX: usize = 8;
/// Most attributes (FQANs) of one VO in a proxy.
pub const VOMS_FQANS_MAX: usize = 256;
/// Longest attribute (FQAN) of a VO, in bytes.
pub const VOMS_FQAN_BYTES_MAX: usize = 1024;
/// Most certificates in one revocation list.
pub const REVOKED_CERTIFICATES_MAX: usize = 512 * 1024;
/// Most patterns of names in one file of an authority (`signing_policy`, `namespaces`).
pub const NAME_RULES_MAX: usize = 1024;
/// Longest pattern of names, in bytes.
pub const NAME_PATTERN_BYTES_MAX: usize = 1024;
/// Most alternative chains in one `.lsc` file.
pub const LSC_CHAINS_MAX: usize = 32;
