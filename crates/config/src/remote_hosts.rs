//! Exports of a forwarding proxy, whose clients name the host.

use types::{AllowedHosts, ForwardedPath, LogicalPath};

use crate::keys::Export;
use crate::values::UpstreamIdentity;

impl Export {
    /// Whether clients name the host that has the files.
    pub fn forwards(&self) -> bool {
        !self.remote_hosts.is_empty()
    }

    /// Whether every change is refused. A forwarding proxy is for reading unless the configuration
    /// says otherwise: it reaches what clients cannot, and many sites at once.
    pub fn is_read_only(&self) -> bool {
        self.read_only.unwrap_or_else(|| self.forwards())
    }

    /// Mistakes in its list of hosts.
    pub(crate) fn hosts_faults(&self) -> Vec<String> {
        if !self.forwards() {
            return Vec::new();
        }
        let mut faults = Vec::new();
        let mut demand = |is_good: bool, words: &str| {
            if !is_good {
                faults.push(words.to_owned());
            }
        };
        if let Err(words) = AllowedHosts::parse(&self.remote_hosts) {
            demand(false, &format!("remote_hosts: {words}"));
        }
        let identity = self.remote_identity;
        demand(
            matches!(identity, UpstreamIdentity::Service | UpstreamIdentity::Client),
            "remote_identity: is \"service\" or \"client\" with remote_hosts; write one of them",
        );
        demand(
            self.cache_directory.is_none(),
            "cache_directory: there is no cache in front of remote_hosts; remove it",
        );
        demand(
            self.quota_bytes.0 == 0,
            "quota_bytes: the servers of remote_hosts have their own; remove it",
        );
        faults
    }
}

/// The mistake in a rule whose path names a host of a forwarding proxy in another form than
/// requests have when they are judged: it would never match.
pub(crate) fn rule_fault(exports: &[Export], rule: &policy::Rule) -> Option<String> {
    let areas = std::iter::once(&rule.area).chain(&rule.except);
    let wrong = areas.filter_map(|area| {
        let path = whole_names(&area.to_string())?;
        let holding = exports.iter().filter(|export| path.is_within(&export.path));
        let export = holding.max_by_key(|export| export.path.as_str().len())?;
        let inner = path.below(&export.path).filter(|_| export.forwards())?;
        let named = ForwardedPath::parse(&inner).ok()?;
        let canonical = named.canonical();
        (canonical != inner).then(|| {
            format!(
                "path: {path} never matches, as requests name the host otherwise; write {}",
                canonical.under(&export.path)
            )
        })
    });
    wrong.into_iter().next()
}

/// The path of an area up to what stands for any name.
fn whole_names(area: &str) -> Option<LogicalPath> {
    let fixed = match area.find(['*', '{']) {
        Some(end) => &area[..area[..end].rfind('/')?],
        None => area,
    };
    LogicalPath::parse(if fixed.is_empty() { "/" } else { fixed }).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Configuration;

    fn read(lines: &str) -> Result<Configuration, String> {
        let text = format!("[[export]]\n{lines}\n");
        Configuration::parse(&text, Path::new("/etc"), "c.toml").map_err(|faults| faults.to_string())
    }

    #[test]
    fn clients_name_listed_hosts() {
        for good in [
            "remote_hosts = [\"a.example.org\", \"*.example.org:1094\", \"b.example.org:*\"]",
            "remote_hosts = [\"a\"]\nremote_identity = \"client\"",
            "remote_hosts = [\"a\"]\nremote_token_file = \"t\"\nremote_certificate = \"p\"",
        ] {
            assert_eq!(read(good).err(), None, "{good}");
        }
        for (bad, words) in [
            ("remote_hosts = [\"*\"]", "remote_hosts: \"*\": not a host such as"),
            ("remote_hosts = []", "give one of"),
            (
                "remote_hosts = [\"a\"]\nremote_identity = \"delegated\"\n[delegation]\ndirectory = \"d\"\nkey_file = \"k\"",
                "remote_identity: is \"service\" or",
            ),
            (
                "remote_hosts = [\"a\"]\nremote_identity = \"client\"\nremote_token_file = \"t\"",
                "no credential of this server",
            ),
            ("remote_hosts = [\"a\"]\nremote = \"https://a\"", "give one of"),
            ("remote_hosts = [\"a\"]\ndirectory = \"d\"", "give one of"),
            ("remote_hosts = [\"a\"]\nquota_bytes = 5", "quota_bytes: the servers"),
            ("remote_hosts = [\"a\"]\ncache_directory = \"c\"", "there is no cache"),
        ] {
            let told = read(bad).unwrap_err();
            assert!(told.contains(words), "{bad}: {told}");
        }
    }

    #[test]
    fn a_forwarding_proxy_is_for_reading_unless_it_says_otherwise() {
        let is_read_only = |lines: &str| read(lines).unwrap().exports[0].is_read_only();
        assert!(is_read_only("remote_hosts = [\"a\"]"));
        assert!(!is_read_only("remote_hosts = [\"a\"]\nread_only = false"));
        assert!(!is_read_only("directory = \"d\""));
        assert!(is_read_only("directory = \"d\"\nread_only = true"));
    }

    #[test]
    fn a_rule_that_names_a_host_otherwise_than_requests_is_refused() {
        let with = |path: &str| {
            read(&format!(
                "path = \"/fwd\"\nremote_hosts = [\"a\"]\n[[rule]]\nwho = \"anyone\"\nmay = \"read\"\npath = \"{path}\""
            ))
        };
        for good in [
            "/fwd/root:/a:1094/x",
            "/fwd/root:/a*",
            "/fwd/https:/a:443/u/{user}",
            "/root:/a/x",
            "/fwd",
        ] {
            assert!(with(good).is_ok(), "{good}");
        }
        for (bad, as_written) in [
            ("/fwd/root:/a/x", "/fwd/root:/a:1094/x"),
            ("/fwd/https:/a/x*", "/fwd/https:/a:443"),
            ("/fwd/xroot:/A:1094", "/fwd/root:/a:1094"),
            ("/fwd/root:/a/u/{user}", "/fwd/root:/a:1094/u"),
        ] {
            let told = with(bad).unwrap_err();
            assert!(told.contains(as_written), "{bad}: {told}");
        }
    }
}
