//! The lines for a shell that do what an instrument did, with the programs that everybody has:
//! curl, xrdcp, xrdfs. Where their options cannot say it, with our client. Tokens stand in them as
//! variables, certificates by their files.

use std::net::IpAddr;

use types::Location;

use crate::kind::Kind;

/// How other programs learn which authorities to trust.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// PEM files of authorities.
    pub files: Vec<String>,
    /// A directory of authorities with hashed names.
    pub directory: Option<String>,
    /// Verify no certificate.
    pub insecure: bool,
}

impl Trust {
    /// The options of our client that say so.
    pub(crate) fn options(&self) -> Vec<String> {
        let files = self.files.iter().map(|file| format!("--cacert {}", quoted(file)));
        files.chain(self.other_options()).collect()
    }

    /// The options that curl has in common with our client.
    fn other_options(&self) -> Vec<String> {
        let mut options = Vec::new();
        let directory = self.directory.as_ref();
        options.extend(directory.map(|directory| format!("--capath {}", quoted(directory))));
        options.extend(self.insecure.then(|| "--insecure".to_owned()));
        options
    }

    /// What comes before curl: it takes one file only, so several are joined.
    fn before_curl(&self) -> Option<String> {
        let files: Vec<String> = self.files.iter().map(|file| quoted(file)).collect();
        (files.len() > 1).then(|| format!("cat {} |", files.join(" ")))
    }

    /// The options of curl that say so, behind [`Self::before_curl`].
    fn curl_options(&self) -> Vec<String> {
        let file = match &self.files[..] {
            [] => None,
            [file] => Some(format!("--cacert {}", quoted(file))),
            _ => Some("--cacert /dev/stdin".to_owned()),
        };
        file.into_iter().chain(self.other_options()).collect()
    }

    /// The same for a copy with delegation: a proxy is for verified servers only.
    pub(crate) fn verifying(&self) -> Self {
        Self {
            insecure: false,
            ..self.clone()
        }
    }

    /// Whether XRootD's programs can have it: they take a directory only.
    fn suits_xrootd(&self) -> bool {
        self.files.is_empty() && !self.insecure
    }
}

/// A file with a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialFile {
    /// Its path.
    pub path: String,
    /// The file with the private key of the certificate, where it is another one.
    pub key: Option<String>,
}

impl CredentialFile {
    /// The options of our client that name a certificate.
    pub(crate) fn certificate_options(&self) -> String {
        let path = quoted(&self.path);
        match &self.key {
            Some(key) => format!("--cert {path} --key {}", quoted(key)),
            None => format!("--proxy {path}"),
        }
    }
}

/// What a command shows to a server.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) kind: Kind,
    /// The certificate, for that kind; `None`: that in `X509_USER_PROXY`.
    pub(crate) certificate: Option<&'a CredentialFile>,
}

impl Shown<'_> {
    /// The option of curl that shows the certificate.
    fn curl_option(&self) -> Option<String> {
        if self.kind != Kind::Proxy {
            return None;
        }
        Some(match self.certificate {
            Some(file) => {
                let path = quoted(&file.path);
                let key = file.key.as_ref().map_or_else(|| path.clone(), |key| quoted(key));
                format!("--cert {path} --key {key}")
            }
            None => "--cert \"$X509_USER_PROXY\" --key \"$X509_USER_PROXY\"".to_owned(),
        })
    }
}

/// Where and as whom a command is run.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) trust: &'a Trust,
    pub(crate) shown: Shown<'a>,
    /// The credential to request macaroons with.
    pub(crate) base: Shown<'a>,
    /// The file with the token; `None`: it is in `TOKEN` already.
    pub(crate) token: Option<&'a CredentialFile>,
    /// The place whose macaroon is used, for that kind.
    pub(crate) macaroon_of: Option<&'a Location>,
    pub(crate) address: Option<IpAddr>,
}

/// A file that is on every machine, to be uploaded.
pub(crate) const ANY_FILE: &str = "/bin/bash";
const MACAROON_WISH: &str = r#"{"caveats": ["activity:DOWNLOAD,UPLOAD,DELETE,LIST,MANAGE"], "validity": "PT30M"}"#;

impl Context<'_> {
    /// The variable that holds the bearer token.
    fn variable(&self) -> Option<&'static str> {
        match self.shown.kind {
            Kind::Token => Some("TOKEN"),
            Kind::Macaroon => Some("MACAROON"),
            Kind::Anonymous | Kind::Proxy | Kind::Keys => None,
        }
    }

    /// What must be done first.
    fn before(&self) -> Vec<String> {
        match (self.shown.kind, self.macaroon_of) {
            (Kind::Macaroon, Some(place)) => self.ask_macaroon(place),
            (Kind::Token, _) => self.read_token().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The line that takes the token from its file.
    fn read_token(&self) -> Option<String> {
        self.token.map(|file| format!("TOKEN=$(cat {})", quoted(&file.path)))
    }

    /// The lines that ask a place for a macaroon.
    pub(crate) fn ask_macaroon(&self, place: &Location) -> Vec<String> {
        let is_by_token = self.base.kind == Kind::Token;
        let token = self.read_token().filter(|_| is_by_token);
        token.into_iter().chain([self.macaroon("MACAROON", place)]).collect()
    }

    /// The line that asks a place for a macaroon.
    fn macaroon(&self, variable: &str, place: &Location) -> String {
        let plain = Context {
            shown: self.base,
            address: None,
            ..*self
        };
        let words = [
            "-X POST -H 'Content-Type: application/macaroon-request'".to_owned(),
            format!("-d '{MACAROON_WISH}'"),
        ];
        format!("{variable}=$({} | jq -r .macaroon)", plain.curl_line(&words, place))
    }

    fn curl_line(&self, words: &[String], place: &Location) -> String {
        let mut line = Vec::new();
        line.extend(self.trust.before_curl().filter(|_| place.is_encrypted()));
        line.push("curl --fail-with-body --silent --show-error --location".to_owned());
        if place.is_encrypted() {
            line.extend(self.trust.curl_options());
        }
        if let Some(address) = self.address {
            let (host, port) = (place.host(), place.port());
            let address = match address {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("[{address}]"),
            };
            line.push(format!(
                "--connect-to {}",
                quoted(&format!("{host}:{port}:{address}:{port}"))
            ));
        }
        if let Some(variable) = self.variable() {
            line.push(format!("-H \"Authorization: Bearer ${variable}\""));
        }
        line.extend(self.shown.curl_option());
        line.extend(words.iter().cloned());
        line.push(quoted(&place.to_wire()));
        line.join(" ")
    }

    /// A request by curl; `words` are its options.
    pub(crate) fn curl(&self, words: &[&str], place: &Location) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut lines = self.before();
        lines.push(self.curl_line(&words, place));
        lines
    }

    /// Our client with a command for places, what it trusts and what it shows.
    fn ours(&self, command: &str, places: &[&Location], more: &str) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.variable().map(|variable| format!("BEARER_TOKEN=\"${variable}\"")));
        words.push(format!("crossload {command}"));
        // A server may ask for TLS at a root URL, and gsi needs the authorities too.
        if places.iter().any(|place| place.is_encrypted() || place.is_xrootd()) {
            words.extend(self.trust.options());
        }
        if self.shown.kind == Kind::Proxy {
            words.extend(self.shown.certificate.map(CredentialFile::certificate_options));
        }
        words.extend(places.iter().map(|place| quoted(&place.to_wire())));
        let mut lines = self.before();
        lines.push(format!("{}{more}", words.join(" ")));
        lines
    }

    /// Whether our client is the only program for a place: curl and XRootD's programs know nothing
    /// of S3, and the latter take no authorities from a file and no certificate with its key in
    /// another file, and always verify.
    fn needs_ours(&self, place: &Location) -> bool {
        let has_own_key = |file: &CredentialFile| file.key.is_some();
        let shows_two_files = self.shown.kind == Kind::Proxy && self.shown.certificate.is_some_and(has_own_key);
        place.is_s3() || (place.is_xrootd() && (!self.trust.suits_xrootd() || shows_two_files))
    }

    /// A command of XRootD's client.
    fn xroot(&self, command: &str) -> Vec<String> {
        let mut lines = self.before();
        let mut line = String::new();
        if let Some(directory) = &self.trust.directory {
            line.push_str(&format!("X509_CERT_DIR={} ", quoted(directory)));
        }
        if let Some(variable) = self.variable() {
            line.push_str(&format!("BEARER_TOKEN=\"${variable}\" "));
        }
        if let Some(file) = self.shown.certificate.filter(|_| self.shown.kind == Kind::Proxy) {
            line.push_str(&format!("X509_USER_PROXY={} ", quoted(&file.path)));
        }
        line.push_str(command);
        lines.push(line);
        lines
    }

    /// Whether a server answers at all.
    pub(crate) fn connect(&self, place: &Location) -> Vec<String> {
        if self.needs_ours(place) {
            return self.ours("stat", &[place], "");
        }
        match place.is_xrootd() {
            true => self.xroot(&format!("xrdfs {} query config version", self.root_server(place))),
            false => self.curl(&["-X OPTIONS --include"], place),
        }
    }

    /// Upload of a file.
    pub(crate) fn upload(&self, place: &Location) -> Vec<String> {
        if self.needs_ours(place) {
            return self.ours(&format!("copy --force {ANY_FILE}"), &[place], "");
        }
        match place.is_xrootd() {
            true => self.xroot(&format!("xrdcp --force {ANY_FILE} {}", self.root_url(place))),
            false => self.curl(&[&format!("-T {ANY_FILE}")], place),
        }
    }

    /// Download of a file.
    pub(crate) fn download(&self, place: &Location) -> Vec<String> {
        if self.needs_ours(place) {
            return self.ours("copy --force", &[place], " /dev/null");
        }
        match place.is_xrootd() {
            true => self.xroot(&format!("xrdcp --force {} /dev/null", self.root_url(place))),
            false => self.curl(&["-o /dev/null"], place),
        }
    }

    /// Question for a checksum; `algorithms` are joined by commas.
    pub(crate) fn checksum(&self, place: &Location, algorithms: &str, by_get: bool) -> Vec<String> {
        if self.needs_ours(place) {
            let first = algorithms.split(',').next().unwrap_or(algorithms);
            return self.ours(&format!("sum --algorithm {first}"), &[place], "");
        }
        if place.is_xrootd() {
            let command = format!(
                "xrdfs {} query checksum {}",
                self.root_server(place),
                quoted(&format!("{}?cks.type={algorithms}", place.path()))
            );
            return self.xroot(&command);
        }
        let how = if by_get { "-o /dev/null -D -" } else { "--head" };
        self.curl(&[how, &format!("-H 'Want-Digest: {algorithms}'")], place)
    }

    /// Question for the size.
    pub(crate) fn size(&self, place: &Location) -> Vec<String> {
        if self.needs_ours(place) {
            return self.ours("stat", &[place], "");
        }
        match place.is_xrootd() {
            true => self.xroot(&format!(
                "xrdfs {} stat {}",
                self.root_server(place),
                quoted(place.path())
            )),
            false => self.curl(&["--head"], place),
        }
    }

    /// Removal of a file.
    pub(crate) fn delete(&self, place: &Location) -> Vec<String> {
        if self.needs_ours(place) {
            return self.ours("rm", &[place], "");
        }
        match place.is_xrootd() {
            true => self.xroot(&format!(
                "xrdfs {} rm {}",
                self.root_server(place),
                quoted(place.path())
            )),
            false => self.curl(&["-X DELETE"], place),
        }
    }

    /// A copy that the destination makes with a proxy of ours.
    pub(crate) fn lite_copy(&self, source: &Location, destination: &Location) -> Vec<String> {
        let trust = self.trust.verifying();
        let context = Context { trust: &trust, ..*self };
        if context.needs_ours(destination) {
            let command = "copy --force --mode pull --delegate=only";
            return context.ours(command, &[source, destination], "");
        }
        let [from, to] = [source, destination].map(|end| quoted(&end.to_wire()));
        context.xroot(&format!("xrdcp --force --tpc delegate only {from} {to}"))
    }

    /// A third-party copy that `active` makes; `header` is `Source` or `Destination`. With `scheme`
    /// our token, or else a macaroon of the other side, goes along.
    pub(crate) fn copy(&self, active: &Location, header: &str, peer: &Location, scheme: Option<&str>) -> Vec<String> {
        if active.is_xrootd() {
            let (source, destination) = match header {
                "Source" => (peer, active),
                _ => (active, peer),
            };
            if self.needs_ours(active) {
                return self.ours("copy --force --mode pull", &[source, destination], "");
            }
            let command = format!(
                "xrdcp --force --tpc only {} {}",
                self.root_url(source),
                self.root_url(destination)
            );
            return self.xroot(&command);
        }
        let mut words = vec!["-X COPY -H 'Credential: none'".to_owned()];
        words.push(format!("-H {}", quoted(&format!("{header}: {}", peer.to_wire()))));
        let mut lines = self.before();
        if let Some(scheme) = scheme {
            let variable = match self.base.kind {
                Kind::Token => {
                    let is_read = self.shown.kind == Kind::Token;
                    lines.extend(self.read_token().filter(|_| !is_read));
                    "TOKEN"
                }
                _ => {
                    lines.push(self.macaroon("THEIRS", peer));
                    "THEIRS"
                }
            };
            words.push(format!("-H \"TransferHeaderAuthorization: {scheme} ${variable}\""));
        }
        lines.push(self.curl_line(&words, active));
        lines
    }

    /// XRootD's programs take an address only in place of the name.
    fn root_url(&self, place: &Location) -> String {
        quoted(&place.to_wire())
    }

    fn root_server(&self, place: &Location) -> String {
        let scheme = if place.is_encrypted() { "roots" } else { "root" };
        quoted(&format!("{scheme}://{}:{}", place.host(), place.port()))
    }
}

/// A word for a shell: in single quotes unless it is plain.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/:._-@%+=".contains(&byte);
    match word.bytes().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests;
