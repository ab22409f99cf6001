//! How many files and connections this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit, which is usually 1024, to the hard one: each connection takes a descriptor, and each transfer
/// several.
///
/// # Errors
/// The limit as it stays, and the system's words.
pub(crate) fn raise_limit() -> Result<(), (Option<u64>, std::io::Error)> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|cause| (limit.current, cause.into()))
}
