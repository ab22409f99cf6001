//! Keys of the pages for operators.

use std::net::SocketAddr;
use std::path::PathBuf;

use policy::Who;

use crate::rules::RuleSubjects;
use crate::section;
use crate::section::{LIVE, Purpose, RESTART};

section! {
    /// Pages for operators: what the server does now, and its configuration in effect
    /// ([pages.md](pages.md)). Off without `listen` or `queue_listen`.
    "web" false Web {
        /// Address of the pages of `crossload serve`. On a loopback address, everyone on this
        /// machine may look at them. Any other address needs `[server] certificate`, and
        /// `viewers` or `operators`.
        listen: Option<SocketAddr> = Some(None) => RESTART;
        /// Address of the pages of `crossload queue serve`, likewise. They show the jobs of all
        /// users.
        queue_listen: Option<SocketAddr> = Some(None) => RESTART;
        /// File with the runs of `crossload mesh`, `smoke` and `stress` (`--history`), which the
        /// page *Mesh* shows. It is only read.
        history: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the history of runs");
        /// Who may look at the pages: the words of a rule's `who`, such as `"vo:ops"` or
        /// `"dn:/CN=Jane Doe"`; a list in the list means that all its words must hold. When not
        /// empty, loopback clients must sign in, too.
        viewers: Vec<RuleSubjects> = Some(Vec::new()) => LIVE;
        /// Who may also end running copies, cancel jobs and drain workers, by the same words. They
        /// sign in on every address.
        operators: Vec<RuleSubjects> = Some(Vec::new()) => LIVE;
    }
}

impl Web {
    /// Whether clients on this machine only can reach an address.
    #[must_use]
    pub fn is_loopback(address: SocketAddr) -> bool {
        address.ip().to_canonical().is_loopback()
    }

    /// The key of an address that others can reach.
    fn public(&self) -> Option<&'static str> {
        let keys = [("listen", self.listen), ("queue_listen", self.queue_listen)];
        let is_public = |address: Option<SocketAddr>| address.is_some_and(|address| !Self::is_loopback(address));
        keys.into_iter()
            .find(|(_, address)| is_public(*address))
            .map(|(key, _)| key)
    }

    /// Mistakes in this section. `has_tls`: the server has a certificate. `has_sign_in`: it accepts
    /// tokens of issuers or clients' certificates.
    pub(crate) fn faults(&self, has_tls: bool, has_sign_in: bool) -> Vec<String> {
        let mut faults = Vec::new();
        let lists = [("viewers", &self.viewers), ("operators", &self.operators)];
        for (key, list) in lists {
            for subjects in list {
                if let Some(words) = subjects.rule().fault() {
                    faults.push(format!("{key}: {words}"));
                } else if !subjects.0.iter().any(needs_credential) {
                    faults.push(format!(
                        "{key}: each entry must name a credential; add \"authenticated\", or a word such as \"vo:ops\""
                    ));
                }
            }
        }
        let named = lists.iter().find(|(_, list)| !list.is_empty());
        if let Some((key, _)) = named.filter(|_| !has_sign_in) {
            faults.push(format!(
                "{key}: no client can sign in; add an [[issuer]], or set [x509] trust_directory for certificates, \
                 which need [server] certificate"
            ));
        }
        let Some(key) = self.public() else {
            return faults;
        };
        if !has_tls {
            faults.push(format!(
                "{key}: an address that others reach needs TLS; set [server] certificate and key, or listen on \
                 127.0.0.1"
            ));
        }
        if named.is_none() {
            faults.push(format!(
                "{key}: an address that others reach needs viewers or operators; name them, or listen on 127.0.0.1"
            ));
        }
        faults
    }
}

/// Whether only a client with a credential can match.
fn needs_credential(who: &Who) -> bool {
    !matches!(who, Who::Anyone | Who::Address(_))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Configuration;

    fn faults(text: &str) -> String {
        let read = Configuration::parse(text, Path::new("/etc"), "c.toml");
        read.map_or_else(|faults| faults.to_string(), |_| String::new())
    }

    #[test]
    fn others_need_tls_and_a_sign_in() {
        for address in ["127.0.0.1:0", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert_eq!(faults(&format!("[web]\nlisten = \"{address}\"\n")), "", "{address}");
        }
        let public = "[web]\nlisten = \"[::]:8443\"\n";
        let told = faults(public);
        assert!(
            told.contains(":2: listen: an address that others reach needs TLS"),
            "{told}"
        );
        assert!(told.contains("needs viewers or operators"), "{told}");
        let told = faults("[web]\nlisten = \"127.0.0.1:1\"\nqueue_listen = \"0.0.0.0:8449\"\n");
        assert!(
            told.contains(":3: queue_listen: an address that others reach needs TLS"),
            "{told}"
        );
        let tls = "[server]\ncertificate = \"c\"\nkey = \"k\"\n";
        let viewers = format!("{tls}{public}viewers = [\"vo:ops\"]\n");
        assert!(
            faults(&viewers).contains("no client can sign in"),
            "{}",
            faults(&viewers)
        );
        assert_eq!(faults(&format!("{viewers}[[issuer]]\nurl = \"https://iam\"\n")), "");
        assert_eq!(faults(&format!("{viewers}[x509]\ntrust_directory = \"t\"\n")), "");
        // On loopback, pages would show nothing to anyone.
        let local = "[web]\nqueue_listen = \"127.0.0.1:0\"\nviewers = [\"vo:ops\"]\n";
        assert!(faults(local).contains("no client can sign in"), "{}", faults(local));
        let in_clear_text = format!("{local}[x509]\ntrust_directory = \"t\"\n");
        assert!(
            faults(&in_clear_text).contains("no client can sign in"),
            "certificates need TLS"
        );
        let operated = local.replace("viewers", "operators");
        assert!(
            faults(&operated).contains("operators: no client can sign in"),
            "{}",
            faults(&operated)
        );
        assert_eq!(faults(&format!("{local}[[issuer]]\nurl = \"https://iam\"\n")), "");
    }

    #[test]
    fn viewers_and_operators_show_credentials() {
        demand_credentials("viewers");
        demand_credentials("operators");
    }

    fn demand_credentials(key: &str) {
        let issuer = "[[issuer]]\nurl = \"https://iam\"\n";
        let with = |clients: &str| faults(&format!("[web]\n{key} = [{clients}]\n{issuer}"));
        for anonymous in ["\"anyone\"", "\"address:192.0.2.0/24\"", "\"vo:a\", \"anyone\""] {
            assert!(with(anonymous).contains("must name a credential"), "{anonymous}");
        }
        assert_eq!(with("[\"address:192.0.2.0/24\", \"authenticated\"]"), "");
        assert!(
            with("\"subject:jane\"").contains(&format!("{key}: ")),
            "a subject needs its issuer"
        );
    }
}
