//! Limits of this crate. They are fixed: no configuration key overrides them.

/// Connections to the admin port. Monitoring keeps one or two; each takes a descriptor of the
/// reserve for administrators.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Body of a request, in bytes. No page reads one.
pub const ADMIN_BODY_BYTES_MAX: usize = 4096;
/// Operations of the XRootD protocol that metrics name; the protocol has 33 requests.
pub const OPERATIONS_NAMED_MAX: usize = 64;
