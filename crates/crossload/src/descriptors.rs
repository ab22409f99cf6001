//! The limit of file descriptors, and how the server divides it.

use crate::limits::{
    BODIES_MAX, CHECKSUMS_COMPUTED_MAX, DESCRIPTORS_PER_CONNECTION, DESCRIPTORS_PER_FILE, DESCRIPTORS_PER_TRANSFER,
    DESCRIPTORS_RESERVED_MAX, DESCRIPTORS_RESERVED_MIN, LOCKS_MAX, TREES_MAX,
};
use config::Limits;
use endpoint::ShareLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use types::limits::TPC_KEYS_MAX;

/// Raises the soft limit, usually 1024, to the hard limit. Each connection takes a descriptor, each
/// transfer several.
///
/// # Errors
/// The unchanged limit, and the system's error.
pub(crate) fn raise_limit() -> Result<(), (Option<u64>, std::io::Error)> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|cause| (limit.current, cause.into()))
}

/// The limit of descriptors of this process.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The number of descriptors kept from clients.
fn reserved(limit: u64) -> u64 {
    (limit / 16).clamp(DESCRIPTORS_RESERVED_MIN, DESCRIPTORS_RESERVED_MAX)
}

/// The first descriptor that no client gets. A connection with this or a higher one is refused; the
/// rest is for administrators.
pub(crate) fn clients_end(limit: u64) -> u64 {
    limit.saturating_sub(reserved(limit) / 2)
}

/// Divides the descriptors. The reserve is left even if each connection has a running upload and
/// all places for open files and copies are taken.
pub(crate) fn share_out(limit: u64, wanted: &Limits) -> ShareLimits {
    let all = limit.saturating_sub(reserved(limit));
    let connections = u64::from(wanted.connections).min(all / 4);
    let transfers = u64::from(wanted.transfers).min(all / 8 / DESCRIPTORS_PER_TRANSFER);
    let taken = connections * DESCRIPTORS_PER_CONNECTION + transfers * DESCRIPTORS_PER_TRANSFER;
    let left = all.saturating_sub(taken) / DESCRIPTORS_PER_FILE;
    let open_files = match u64::from(wanted.open_files) {
        0 => left,
        wanted => wanted.min(left),
    };
    let count = |number| usize::try_from(number).unwrap_or(usize::MAX);
    ShareLimits {
        connections: count(connections),
        open_files: count(open_files),
        tpc_keys: TPC_KEYS_MAX,
        transfers: count(transfers),
        checksums: CHECKSUMS_COMPUTED_MAX,
        trees: TREES_MAX,
        locks: LOCKS_MAX,
        bodies: BODIES_MAX,
        client_percent: wanted.client_share_percent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Configuration;

    #[test]
    fn the_reserve_is_left_when_everything_is_taken() {
        let wanted = Configuration::defaults().limits;
        for limit in [256, 1024, 4096, 20_000, 524_288, u64::MAX] {
            let shares = share_out(limit, &wanted);
            let count = |number: usize| number as u64;
            let taken = count(shares.connections) * DESCRIPTORS_PER_CONNECTION
                + count(shares.transfers) * DESCRIPTORS_PER_TRANSFER
                + count(shares.open_files) * DESCRIPTORS_PER_FILE;
            assert!(taken <= limit - reserved(limit), "{limit}: {shares:?}");
            assert!(
                shares.connections > 0 && shares.transfers > 0 && shares.open_files > 0,
                "{limit}: {shares:?}"
            );
            assert!(clients_end(limit) > taken);
        }
    }

    #[test]
    fn what_is_wanted_is_given_where_there_is_room() {
        let mut wanted = Configuration::defaults().limits;
        let shares = share_out(524_288, &wanted);
        assert_eq!(shares.connections, wanted.connections as usize);
        assert_eq!(shares.transfers, wanted.transfers as usize);
        wanted.open_files = 100;
        assert_eq!(share_out(524_288, &wanted).open_files, 100);
    }
}
