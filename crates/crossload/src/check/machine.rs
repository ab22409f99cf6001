//! Checks limits of the machine.

use super::finding::{Finding, Position};

/// Descriptors besides connections: files of the server, logs, listeners, timers.
const OWN_DESCRIPTORS: u64 = 64;
/// Descriptors per transfer: connections and files of its streams.
const TRANSFER_DESCRIPTORS: u64 = 4;

/// Whether the limit of descriptors allows this many connections and transfers. `descriptors_max`
/// is the hard limit, to which the server raises its soft limit; `None` is no limit.
pub(crate) fn descriptors(
    connections: u32,
    transfers: u32,
    descriptors_max: Option<u64>,
    position: Position,
) -> Finding {
    let wanted = u64::from(connections) + u64::from(transfers) * TRANSFER_DESCRIPTORS + OWN_DESCRIPTORS;
    match descriptors_max.filter(|most| *most < wanted) {
        None => Finding::ok("descriptors", format!("{wanted} file descriptors are available")),
        Some(most) => Finding::warning(
            "descriptors_few",
            format!("limits.connections and limits.transfers may need {wanted} descriptors, the limit is {most}"),
        )
        .at(position)
        .change(format!(
            "set LimitNOFILE={wanted} in the systemd unit (or `ulimit -Hn {wanted}`), or lower limits.connections"
        )),
    }
}
