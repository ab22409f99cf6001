//! Keys of the pages for operators.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use policy::Who;
use types::{Location, Scheme};

use crate::rules::RuleSubjects;
use crate::section;
use crate::section::{LIVE, Purpose, RESTART};

/// Where an issuer sends browsers back to.
pub const RETURN_PATH: &str = "/sign-in/issuer/return";
/// Where packages put the manual.
const MANUAL_DIRECTORY: &str = "/usr/share/doc/crossload/manual";

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
        /// Directory with the manual in HTML, which the pages show at `/manual/`. When not set:
        /// `/usr/share/doc/crossload/manual`, if it exists.
        manual: Option<PathBuf> = Some(None) => RESTART.file(Purpose::Manual, "the manual");
        /// Who may look at the pages: the words of a rule's `who`, such as `"vo:ops"` or
        /// `"dn:/CN=Jane Doe"`; a list in the list means that all its words must hold. When not
        /// empty, loopback clients must sign in, too.
        viewers: Vec<RuleSubjects> = Some(Vec::new()) => LIVE;
        /// Who may also end running copies, cancel jobs and drain workers, by the same words. They
        /// sign in on every address.
        operators: Vec<RuleSubjects> = Some(Vec::new()) => LIVE;
        /// Issuer at which people sign in to the pages with their browser (OpenID Connect). It must
        /// be an `[[issuer]]` too, whose keys, groups and virtual organisation count. When not set:
        /// browsers sign in with a token or a certificate.
        oidc_issuer: Option<String> = Some(None) => RESTART;
        /// Name of this server at that issuer, where `https://HOST:PORT/sign-in/issuer/return` is
        /// registered as its redirect URL.
        oidc_client_id: Option<String> = Some(None) => RESTART;
        /// File with the secret that goes with the name, readable for its owner only. When not set:
        /// a public client, which has none.
        oidc_client_secret_file: Option<PathBuf> = Some(None) => RESTART.file(Purpose::Private, "the client's secret");
        /// Scopes that are asked for. `"openid"` must be among them; issuers may need others to
        /// name a person's groups in the ID token.
        oidc_scopes: Vec<String> = Some(vec!["openid".to_owned()]) => RESTART;
        /// Words of the link that leads to the issuer. When not set: `Sign in at HOST`.
        oidc_button: Option<String> = Some(None) => RESTART;
        /// Redirect URL that the issuer knows, such as
        /// `"https://ops.example/sign-in/issuer/return"`, if a proxy is in front of the pages. When
        /// not set: made of the name by which the browser reaches this server.
        oidc_redirect_url: Option<String> = Some(None) => RESTART;
    }
}

impl Web {
    /// Whether clients on this machine only can reach an address.
    #[must_use]
    pub fn is_loopback(address: SocketAddr) -> bool {
        address.ip().to_canonical().is_loopback()
    }

    /// The directory of the manual, which need not exist.
    #[must_use]
    pub fn manual_directory(&self) -> &Path {
        self.manual.as_deref().unwrap_or(Path::new(MANUAL_DIRECTORY))
    }

    /// The key of an address that others can reach.
    fn public(&self) -> Option<&'static str> {
        let keys = [("listen", self.listen), ("queue_listen", self.queue_listen)];
        let is_public = |address: Option<SocketAddr>| address.is_some_and(|address| !Self::is_loopback(address));
        keys.into_iter()
            .find(|(_, address)| is_public(*address))
            .map(|(key, _)| key)
    }

    /// Mistakes in the keys about the issuer at which people sign in. `knows_issuer`: whether an
    /// issuer's tokens are accepted.
    pub(crate) fn oidc_faults(&self, knows_issuer: impl Fn(&str) -> bool) -> Vec<String> {
        let mut faults = Vec::new();
        let Some(issuer) = &self.oidc_issuer else {
            let others = [
                ("oidc_client_id", self.oidc_client_id.is_some()),
                ("oidc_client_secret_file", self.oidc_client_secret_file.is_some()),
                ("oidc_button", self.oidc_button.is_some()),
                ("oidc_redirect_url", self.oidc_redirect_url.is_some()),
            ];
            let useless = others.into_iter().filter(|(_, is_set)| *is_set);
            let words = |key: &str| format!("{key}: needs an issuer; set oidc_issuer, or remove the key");
            return useless.map(|(key, _)| words(key)).collect();
        };
        if !knows_issuer(issuer) {
            faults.push(format!(
                "oidc_issuer: tokens of {issuer} are not accepted; add an [[issuer]] with this url, byte for byte"
            ));
        }
        if self.oidc_client_id.as_ref().is_none_or(String::is_empty) {
            faults.push("oidc_issuer: it must know this server by a name; set oidc_client_id".to_owned());
        }
        if !self.oidc_scopes.iter().any(|scope| scope == "openid") {
            faults.push("oidc_scopes: without \"openid\" no one signs in; add it".to_owned());
        }
        if let Some(scope) = self.oidc_scopes.iter().find(|scope| !is_scope(scope)) {
            faults.push(format!(
                "oidc_scopes: \"{scope}\" is no scope; write each one as an entry of its own"
            ));
        }
        if let Some(url) = self.oidc_redirect_url.as_ref().filter(|url| !is_redirect_url(url)) {
            faults.push(format!(
                "oidc_redirect_url: {url} does not lead here; write an https URL of this server that ends with \
                 {RETURN_PATH}"
            ));
        }
        faults
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

/// Whether a word can be a scope (RFC 6749 §3.3).
fn is_scope(word: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    !word.is_empty() && word.bytes().all(may_be)
}

/// Whether a browser that an issuer sends to this URL can come back to the pages: nothing else is
/// in it, and clear text stays on this machine (RFC 9700 §2.6, RFC 8252 §7.3).
fn is_redirect_url(url: &str) -> bool {
    let Ok(place) = Location::parse(url) else {
        return false;
    };
    let is_protected = match place.scheme() {
        Scheme::Https => url.starts_with("https://"),
        Scheme::Http => {
            url.starts_with("http://") && matches!(place.host(), "localhost" | "127.0.0.1" | "::1" | "[::1]")
        }
        _ => false,
    };
    let is_plain = !url.contains(['?', '#', '@', ' ']);
    is_protected && is_plain && place.path() == RETURN_PATH
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
    fn people_sign_in_at_an_issuer_that_is_known() {
        let with = |keys: &str| faults(&format!("[web]\n{keys}\n[[issuer]]\nurl = \"https://iam\"\n"));
        let good = "oidc_issuer = \"https://iam\"\noidc_client_id = \"pages\"\n";
        assert_eq!(with(good), "");
        for (keys, words) in [
            ("oidc_client_id = \"pages\"", "oidc_client_id: needs an issuer"),
            ("oidc_button = \"In\"", "oidc_button: needs an issuer"),
            ("oidc_issuer = \"https://iam\"", "set oidc_client_id"),
            (
                "oidc_issuer = \"https://iam/\"\noidc_client_id = \"p\"",
                "byte for byte",
            ),
            ("[web.oidc]\nissuer = \"https://iam\"", "oidc_issuer"),
        ] {
            assert!(with(keys).contains(words), "{keys}: {}", with(keys));
        }
        for scopes in [
            "\"profile\"",
            "\"openid profile\"",
            "\"openid\", \"\"",
            "\"openid\", \"a\\\"b\"",
        ] {
            let told = with(&format!("{good}oidc_scopes = [{scopes}]"));
            assert!(told.contains("oidc_scopes: "), "{scopes}: {told}");
        }
        assert_eq!(with(&format!("{good}oidc_scopes = [\"openid\", \"wlcg.groups\"]")), "");
        let redirect = |url: &str| with(&format!("{good}oidc_redirect_url = \"{url}\""));
        for url in [
            "https://ops.example",
            "http://localhost:8450",
            "http://127.0.0.1:1",
            "https://[::1]:8450",
        ] {
            assert_eq!(redirect(&format!("{url}/sign-in/issuer/return")), "", "{url}");
        }
        for url in [
            "https://ops.example/",
            "https://ops.example/sign-in/issuer/return?a=b",
            "https://ops.example/sign-in/issuer/return#a",
            "https://u@ops.example/sign-in/issuer/return",
            "https://ops.example/pages/sign-in/issuer/return",
            "http://ops.example/sign-in/issuer/return",
            "davs://ops.example/sign-in/issuer/return",
            "/sign-in/issuer/return",
        ] {
            assert!(
                redirect(url).contains("oidc_redirect_url: "),
                "{url}: {}",
                redirect(url)
            );
        }
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
