//! Limits of the machine.

use super::finding::{Finding, Spot};

/// Descriptors for what is no connection: files of the server itself, logs, listeners, timers.
const OWN_DESCRIPTORS: u64 = 64;
/// Descriptors of a transfer: connections and files of its streams.
const TRANSFER_DESCRIPTORS: u64 = 4;

/// Whether so many connections and transfers may be open. `descriptors_max` is the hard limit, up to which
/// the server raises its own by itself; `None` is no limit.
pub(crate) fn descriptors(connections: u32, transfers: u32, descriptors_max: Option<u64>, spot: Spot) -> Finding {
    let wanted = u64::from(connections) + u64::from(transfers) * TRANSFER_DESCRIPTORS + OWN_DESCRIPTORS;
    match descriptors_max.filter(|most| *most < wanted) {
        None => Finding::ok("descriptors", format!("{wanted} files and connections may be open")),
        Some(most) => Finding::warning(
            "descriptors_few",
            format!("limits.connections and limits.transfers may take {wanted} descriptors, and {most} are allowed"),
        )
        .at(spot)
        .change(format!(
            "set LimitNOFILE={wanted} in the unit of systemd (or `ulimit -Hn {wanted}`), or lower limits.connections"
        )),
    }
}
