//! Keys of the message bus over which redirectors find their nodes.

use std::path::PathBuf;

use types::LogicalPath;

use crate::section;
use crate::section::{Purpose, RESTART};
use crate::values::Bytes;

/// Most servers of the bus.
const SERVERS_MAX: usize = 16;
/// Longest name, and longest prefix.
const NAME_BYTES_MAX: usize = 64;

section! {
    /// A message bus (NATS), over which redirectors find their nodes ([cluster.md](cluster.md)). A
    /// redirector finds its nodes there, except those with `bus = false`; a server with exports
    /// announces itself. No effect without `servers`.
    "bus" false Bus {
        /// Servers of the bus, such as `"tls://bus.example:4222"`. At most 16. Default: none.
        servers: Vec<String> = Some(Vec::new()) => RESTART;
        /// First part of all subjects; clusters that share a bus need different ones.
        prefix: String = Some("crossload".to_owned()) => RESTART;
        /// Name of this server on the bus: letters, digits, `-` and `_`. Redirectors expect host
        /// and port, such as `"d1_example_org_1094"`, unless their `[[node]] bus_name` differs.
        /// Needed where there are exports.
        name: Option<String> = Some(None) => RESTART;
        /// User of the bus.
        user: Option<String> = Some(None) => RESTART;
        /// File with the password of `user`, readable for its owner only.
        password_file: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::Private, "the password for the message bus");
        /// File with the seed of an nkey, in place of `user`.
        nkey_file: Option<PathBuf> = Some(None) => RESTART.file(Purpose::Private, "the key for the message bus");
        /// File with credentials of NATS (`.creds`), in place of `user`.
        credentials_file: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::Private, "the credentials for the message bus");
        /// PEM files with the authorities of the bus' servers; `[trust]` does not apply to them.
        /// When not set: those of the system.
        ca_files: Vec<PathBuf> = Some(Vec::new()) => RESTART.file(Purpose::FollowedRights, "the authorities of the message bus");
        /// PEM file with a certificate for the bus.
        certificate: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::FollowedRights, "the certificate for the message bus");
        /// PEM file with its key.
        key: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::Private, "the private key for the message bus");
        /// Allow connections without TLS, over which passwords can be read.
        clear_text: bool = Some(false) => RESTART;
        /// Trees in the exports to which others write, not through this server: redirectors always
        /// ask this server about names in them.
        unfiltered: Vec<LogicalPath> = Some(Vec::new()) => RESTART;
        /// Memory of a redirector for the names of all nodes, at most 1.6 bytes for each.
        filter_bytes: Bytes = Some(Bytes(512 << 20)) => RESTART;
    }
}

impl Bus {
    /// Mistakes in this section. `has_exports`: this server has files.
    pub(crate) fn faults(&self, has_exports: bool) -> Vec<String> {
        let mut faults = Vec::new();
        if self.servers.len() > SERVERS_MAX {
            faults.push(format!("servers: at most {SERVERS_MAX}"));
        }
        let is_name = |text: &str| {
            let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_fit)
        };
        if self.prefix.len() > NAME_BYTES_MAX || !self.prefix.split('.').all(is_name) {
            faults.push(
                "prefix: not a prefix of subjects; write letters, digits, - and _, in parts with dots between"
                    .to_owned(),
            );
        }
        match &self.name {
            Some(name) if !is_name(name) => {
                faults.push("name: not a name on the bus; write letters, digits, - and _".to_owned())
            }
            None if has_exports && !self.servers.is_empty() => {
                faults.push(
                    "name: is missing, and there are exports; write one such as \"d1_example_org_1094\"".to_owned(),
                );
            }
            _ => {}
        }
        let proofs = [
            ("user", self.user.is_some()),
            ("nkey_file", self.nkey_file.is_some()),
            ("credentials_file", self.credentials_file.is_some()),
        ];
        let mut given = proofs.into_iter().filter(|(_, is_set)| *is_set);
        if let (Some((first, _)), Some((second, _))) = (given.next(), given.next()) {
            faults.push(format!(
                "{second}: {first} is given, too; give one of user, nkey_file and credentials_file"
            ));
        }
        let pair = |key: &str, is_set: bool, other: &str, has_other: bool| {
            (is_set && !has_other).then(|| format!("{key}: needs {other}; set it, too"))
        };
        let (user, password) = (self.user.is_some(), self.password_file.is_some());
        faults.extend(pair("user", user, "password_file", password));
        faults.extend(pair("password_file", password, "user", user));
        let (certificate, key) = (self.certificate.is_some(), self.key.is_some());
        faults.extend(pair("certificate", certificate, "key", key));
        faults.extend(pair("key", key, "certificate", certificate));
        faults
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Configuration;

    #[test]
    fn mistakes_are_found() {
        let parse = |text: &str| Configuration::parse(&format!("[bus]\n{text}"), Path::new("/etc"), "c");
        for right in [
            "",
            "servers = [\"nats://b\"]",
            "name = \"d1_example_org_1094\"\nprefix = \"a.b\"",
            "user = \"u\"\npassword_file = \"p\"",
        ] {
            assert!(parse(right).is_ok(), "{right}");
        }
        for wrong in [
            "prefix = \"a..b\"",
            "prefix = \">\"",
            "name = \"d1.example\"",
            "user = \"u\"",
            "user = \"u\"\npassword_file = \"p\"\nnkey_file = \"n\"",
            "certificate = \"c\"",
            "servers = [\"nats://b\"]\n[[export]]\ndirectory = \"d\"",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
