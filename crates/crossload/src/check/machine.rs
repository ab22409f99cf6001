//! Checks limits of the machine.

use config::Configuration;

use super::finding::{Finding, Position};
use super::lines::Lines;
use crate::server::log;

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

/// Whether the log can be opened, as this user.
pub(crate) fn log(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let fault = log::fault(&configuration.log)?;
    let (key, remedy) = match configuration.log.format {
        config::LogFormat::Journald => ("format", "set format = \"json\", or start systemd-journald"),
        _ => ("file", "make its directory, or let the server's user write there"),
    };
    let finding = Finding::error("log_unusable", fault.words).at(lines.of("log", key));
    Some(finding.change(remedy))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_log_without_a_directory_is_an_error() {
        let code = |text: &str| {
            let configuration = Configuration::parse(text, Path::new("/"), "c.toml").unwrap();
            let lines = Lines::new(Path::new("c.toml"), text.to_owned());
            log(&configuration, &lines).map(|finding| finding.code)
        };
        assert_eq!(code("[log]\nfile = \"/nonexistent/log\"\n"), Some("log_unusable"));
        assert_eq!(code("[log]\nformat = \"json\"\n"), None);
    }
}
