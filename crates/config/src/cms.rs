//! Keys of the membership in an XRootD cluster.

use crate::section;
use crate::section::LIVE;

/// Most managers.
const MANAGERS_MAX: usize = 16;

section! {
    /// Membership in a cluster of XRootD, as one of its data servers: this server logs in to the
    /// cluster's managers (`cmsd`) and answers which files it has; their redirectors send clients
    /// here ([cluster.md](cluster.md)). Needs the XRootD protocol (`[xroot]`).
    "cms" false Cms {
        /// Managers, each `"host:port"` with the port of its `cmsd`, such as `"cms.example:1213"`.
        /// This server logs in to all of them. At most 16. Default: none.
        managers: Vec<String> = Some(Vec::new()) => LIVE;
    }
}

impl Cms {
    /// Mistakes that involve several keys. `speaks_root`: the server offers the XRootD protocol.
    pub(crate) fn faults(&self, speaks_root: bool) -> Vec<String> {
        let mut faults = Vec::new();
        if !self.managers.is_empty() && !speaks_root {
            faults.push("managers: the XRootD protocol is off; write [xroot] enabled = true".to_owned());
        }
        if self.managers.len() > MANAGERS_MAX {
            faults.push(format!("managers: at most {MANAGERS_MAX}"));
        }
        for manager in &self.managers {
            if !is_host_and_port(manager) {
                faults.push(format!(
                    "managers: \"{manager}\" is no manager; write host:port with the port of its cmsd"
                ));
            }
        }
        faults
    }
}

/// `host:port`, with any port but 0.
pub(crate) fn is_host_and_port(text: &str) -> bool {
    let port = text.rsplit_once(':').filter(|(host, _)| is_host(host));
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
    port.is_some_and(|port| port != 0)
}

/// A name, an address, or an IPv6 address in brackets.
fn is_host(host: &str) -> bool {
    let is_address = |text: &str| text.parse::<std::net::Ipv6Addr>().is_ok();
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => is_address(inner),
        None => {
            let is_fit = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
            !host.is_empty() && host.chars().all(is_fit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_are_hosts_with_ports() {
        let faults = |managers: &[&str], speaks_root| {
            let managers = managers.iter().map(|manager| (*manager).to_owned()).collect();
            Cms { managers }.faults(speaks_root).len()
        };
        assert_eq!(faults(&["cms.example:1213", "192.0.2.1:1", "[::1]:1213"], true), 0);
        for wrong in [
            "cms.example",
            "cms.example:0",
            ":1213",
            "a b:1213",
            "::1:1213",
            "[x]:1213",
            "h:x",
        ] {
            assert_eq!(faults(&[wrong], true), 1, "{wrong}");
        }
        assert_eq!(faults(&["h:1"], false), 1);
        assert_eq!(faults(&[], false), 0);
        assert_eq!(faults(&["h:1"; MANAGERS_MAX + 1], true), 1);
    }
}
