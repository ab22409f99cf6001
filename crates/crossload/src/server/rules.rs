//! The policy's rules: those of the configuration file, then those of an XRootD `authdb`.

use std::path::Path;

use config::{CONFIGURATION_BYTES_MAX, Configuration, read_text};
use policy::{Policy, Rule, read_authdb};

use crate::failure::Failure;

/// The policy of a configuration: its exports, the tree of its redirector, and rules.
///
/// # Errors
/// The faults of the `authdb`, one per line.
pub(crate) fn policy(configuration: &Configuration) -> Result<Policy, Failure> {
    let redirected = (!configuration.nodes.is_empty()).then(|| configuration.redirector.rules());
    let exports = configuration.exports.iter().map(|export| export.rules());
    Ok(Policy::new(exports.chain(redirected).collect(), rules(configuration)?))
}

/// All rules, in order.
///
/// # Errors
/// As [`policy`].
pub(crate) fn rules(configuration: &Configuration) -> Result<Vec<Rule>, Failure> {
    let mut rules = configuration.policy_rules();
    if let Some(file) = &configuration.policy.authdb_file {
        rules.extend(authdb(file)?);
    }
    Ok(rules)
}

/// The rules of an XRootD `authdb`.
///
/// # Errors
/// It cannot be read, or has records that no rule can express.
pub(crate) fn authdb(file: &Path) -> Result<Vec<Rule>, Failure> {
    let read = read_text(file, CONFIGURATION_BYTES_MAX);
    let text = read.map_err(|cause| Failure::system(file.display(), &cause))?;
    read_authdb(&text).map_err(|faults| {
        let lines = faults
            .iter()
            .map(|fault| format!("{}:{}: {}", file.display(), fault.line, fault.words));
        Failure::invalid(lines.collect::<Vec<_>>().join("\n"))
    })
}

/// Whether the path pattern of a rule and an export have any path in common.
pub(crate) fn meets(area: &str, export: &str) -> bool {
    let begin = area.split(['*', '{']).next().unwrap_or_default().trim_end_matches('/');
    let export = export.trim_end_matches('/');
    let within = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    within(begin, export) || within(export, begin) || (area.contains('*') && export.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use policy::{Operation, Request};
    use types::LogicalPath;

    use super::*;

    #[test]
    fn the_tree_of_a_redirector_is_judged() {
        let decide = |nodes: &str| {
            let text = format!("[redirector]\npath = \"/data\"\nanonymous = \"read\"\n{nodes}");
            let configuration = Configuration::parse(&text, Path::new("/"), "c.toml").unwrap();
            let request = Request {
                operation: Operation::Read,
                path: LogicalPath::parse("/data/f").unwrap(),
                client_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                now_s: 0,
                size_bytes: None,
            };
            let decision = policy::explain(
                &policy(&configuration).unwrap(),
                Ok(&credentials::Credential::Anonymous),
                &request,
            );
            decision.refusal.is_none()
        };
        assert!(decide("[[node]]\nurl = \"https://d1.example.org:1094\"\n"));
        // Without nodes the section has no effect.
        assert!(!decide(""));
    }

    #[test]
    fn areas_meet_exports_that_hold_them_or_lie_in_them() {
        for (area, export) in [
            ("/", "/data"),
            ("/data/x", "/data"),
            ("/data/*", "/data"),
            ("/da*", "/data"),
            ("/x", "/"),
        ] {
            assert!(meets(area, export), "{area} {export}");
        }
        for (area, export) in [
            ("/dat", "/data"),
            ("/data2", "/data"),
            ("/other/*", "/data"),
            ("/users/{user}", "/data"),
        ] {
            assert!(!meets(area, export), "{area} {export}");
        }
    }
}
