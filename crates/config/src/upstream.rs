//! Exports whose files are on another server.

use types::Location;

use crate::keys::Export;
use crate::values::UpstreamIdentity;

impl Export {
    /// Whether its files are on another server that is no storage of objects.
    fn is_remote(&self) -> bool {
        self.remote.is_some() || self.forwards()
    }

    /// Mistakes in where its files are.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = self.place_fault().into_iter().collect();
        faults.extend(self.credential_faults());
        faults.extend(self.identity_fault());
        let is_root = self.remote.as_ref().is_some_and(|url| url.starts_with("root:"));
        if !is_root && !self.remote_page_checksums {
            let words = "remote_page_checksums: is for a remote that begins with root: only; remove it";
            faults.push(words.to_owned());
        }
        faults.extend(self.remote_faults());
        faults.extend(self.s3_faults());
        faults.extend(self.hosts_faults());
        faults
    }

    /// Its files are in exactly one place.
    fn place_fault(&self) -> Option<String> {
        let places = [
            ("directory", self.directory.is_some()),
            ("remote", self.remote.is_some()),
            ("remote_hosts", self.forwards()),
            ("s3", self.s3.is_some()),
        ];
        let mut given = places.into_iter().filter(|(_, is_given)| *is_given);
        let only = "give one of directory, remote, remote_hosts and s3";
        match (given.next(), given.next()) {
            (Some(_), None) => None,
            (Some((first, _)), Some((second, _))) => Some(format!("{second}: {first} is given, too; {only}")),
            _ => Some(format!("directory: the export has no files; {only}")),
        }
    }

    /// Mistakes in what the other server is shown.
    fn credential_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let credentials = [
            ("remote_token_file", &self.remote_token_file),
            ("remote_certificate", &self.remote_certificate),
            ("remote_key", &self.remote_key),
        ];
        let mut shown = credentials
            .into_iter()
            .filter_map(|(key, file)| file.as_ref().map(|_| key));
        let credential = shown.next();
        if let Some(key) = credential.filter(|_| !self.is_remote()) {
            faults.push(format!(
                "{key}: belongs to remote, which is missing; set remote, or remove it"
            ));
        }
        if self.remote_key.is_some() && self.remote_certificate.is_none() {
            let words = "remote_key: belongs to remote_certificate, which is missing; set that, too";
            faults.push(words.to_owned());
        }
        if self.shows_clients() && !self.is_remote() {
            let words = "remote_identity: belongs to remote, which is missing; set remote, or remove it";
            faults.push(words.to_owned());
        }
        if let Some(key) = credential.filter(|_| self.shows_clients()) {
            faults.push(format!(
                "{key}: no credential of this server is shown with this remote_identity; remove it, or write \
                 remote_identity = \"service\""
            ));
        }
        faults
    }

    /// Whether clients, and not this server, are shown to the other server.
    fn shows_clients(&self) -> bool {
        self.remote_identity != UpstreamIdentity::Service
    }

    /// `minted` and its secret need each other.
    fn identity_fault(&self) -> Option<String> {
        let has_secret = self.remote_macaroon_secret_file.is_some();
        let words = match (self.remote_identity == UpstreamIdentity::Minted, has_secret) {
            (true, false) => "remote_identity: \"minted\" needs a secret; set remote_macaroon_secret_file",
            (false, true) => {
                "remote_macaroon_secret_file: is used with remote_identity = \"minted\" only; write that, or remove it"
            }
            _ => return None,
        };
        Some(words.to_owned())
    }

    /// Mistakes in the URL of the other server, and in what does not fit it.
    fn remote_faults(&self) -> Vec<String> {
        let Some(url) = &self.remote else { return Vec::new() };
        let mut faults = Vec::new();
        if self.remote_certificate.is_some() && url.starts_with("http:") {
            let words = "remote_certificate: is not shown in clear text; write https, root or roots into remote";
            faults.push(words.to_owned());
        }
        if let Err(words) = check_url(url, self.shows_clients() || self.remote_token_file.is_some()) {
            faults.push(format!("remote: {words}"));
        }
        if self.quota_bytes.0 != 0 {
            faults.push("quota_bytes: the server of remote has its own; remove it".to_owned());
        }
        faults
    }
}

/// Checks the URL of another server.
fn check_url(url: &str, has_token: bool) -> Result<(), String> {
    let place = Location::parse(url).map_err(|error| error.detail().unwrap_or("it is invalid").to_owned())?;
    if place.is_s3() {
        return Err("an S3 storage is no remote; write it into s3, as an https URL".to_owned());
    }
    if !place.is_http() && !place.is_xrootd() {
        return Err(
            "not a URL of https, http, root or roots; write one such as \"https://disk.example.org/data\"".to_owned(),
        );
    }
    if place.query().is_some() {
        return Err("it has a query; a token belongs in remote_token_file".to_owned());
    }
    if place.path().split('/').any(|name| matches!(name, "." | "..")) {
        return Err("its path has a \".\" or \"..\"; remove it".to_owned());
    }
    if has_token && !place.is_encrypted() {
        return Err(
            "a token, or the identity of a client, is not shown in clear text; write https or roots".to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Configuration;

    fn faults(lines: &str) -> String {
        let text = format!("[[export]]\n{lines}\n");
        let read = Configuration::parse(&text, Path::new("/etc"), "c.toml");
        read.err().map(|faults| faults.to_string()).unwrap_or_default()
    }

    #[test]
    fn an_export_is_here_or_at_another_server() {
        for good in [
            "directory = \"data\"",
            "remote = \"https://a/x\"",
            "remote = \"root://a//x\"\nremote_certificate = \"p\"",
            "remote = \"roots://a//x\"\nremote_token_file = \"t\"",
            "remote = \"roots://a//x\"\nremote_identity = \"delegated\"\n[delegation]\ndirectory = \"d\"\nkey_file = \"k\"",
            "remote = \"https://a\"\nremote_identity = \"minted\"\nremote_macaroon_secret_file = \"s\"",
            "remote = \"root://a\"\nremote_page_checksums = false",
        ] {
            assert_eq!(faults(good), "", "{good}");
        }
        for (bad, words) in [
            ("", "give one of directory, remote, remote_hosts and s3"),
            (
                "directory = \"d\"\nremote = \"https://a\"",
                "give one of directory, remote, remote_hosts and s3",
            ),
            ("directory = \"d\"\nremote_token_file = \"t\"", "which is missing"),
            (
                "remote = \"https://a\"\nremote_key = \"k\"",
                "remote_key: belongs to remote_certificate",
            ),
            (
                "remote = \"http://a\"\nremote_identity = \"client\"",
                "write https or roots",
            ),
            (
                "remote = \"root://a\"\nremote_identity = \"delegated\"",
                "write https or roots",
            ),
            (
                "remote = \"https://a\"\nremote_identity = \"minted\"",
                "remote_identity: \"minted\" needs a secret",
            ),
            (
                "remote = \"https://a\"\nremote_macaroon_secret_file = \"s\"",
                "remote_macaroon_secret_file: is used with",
            ),
            (
                "remote = \"https://a\"\nremote_identity = \"client\"\nremote_token_file = \"t\"",
                "remote_token_file: no credential of this server",
            ),
            (
                "remote = \"https://a\"\nremote_identity = \"delegated\"",
                "needs [delegation]",
            ),
            ("remote = \"ftp://a\"", "remote: unknown scheme"),
            (
                "remote = \"roots://a\"\nremote_page_checksums = false",
                "begins with root:",
            ),
            ("remote = \"/srv\"", "remote: not a URL"),
            ("remote = \"https://a?authz=hidden\"", "remote: it has a query"),
            (
                "remote = \"https://user:hidden@a/d\"",
                "remote: a URL may not contain a user name",
            ),
            (
                "remote = \"s3://a/b\"",
                "remote: an S3 storage is no remote; write it into s3",
            ),
            ("remote = \"https://a/d/../e\"", "remote: its path has"),
            (
                "remote = \"http://a/d\"\nremote_certificate = \"c\"",
                "remote_certificate: is not shown in clear text",
            ),
            (
                "remote = \"http://a\"\nremote_token_file = \"t\"",
                "write https or roots",
            ),
            (
                "remote = \"https://a\"\nquota_bytes = 5",
                "quota_bytes: the server of remote",
            ),
        ] {
            let told = faults(bad);
            assert!(told.contains(words) && !told.contains("hidden"), "{bad}: {told}");
        }
    }
}
