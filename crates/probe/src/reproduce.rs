//! The lines for a shell that do what an instrument did, with the programs that everybody has:
//! curl, xrdcp, xrdfs. Secrets stand in them as variables.

use std::net::IpAddr;

use types::Location;

use crate::kind::Kind;

/// How other programs learn which authorities to trust.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// A PEM file of authorities.
    pub file: Option<String>,
    /// A directory of authorities with hashed names.
    pub directory: Option<String>,
    /// Verify no certificate.
    pub insecure: bool,
}

impl Trust {
    /// The options that say so: curl and our client have the same.
    pub(crate) fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        options.extend(self.file.as_ref().map(|file| format!("--cacert {}", quoted(file))));
        let directory = self.directory.as_ref();
        options.extend(directory.map(|directory| format!("--capath {}", quoted(directory))));
        options.extend(self.insecure.then(|| "--insecure".to_owned()));
        options
    }
}

/// Where and as whom a command is run.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) trust: &'a Trust,
    pub(crate) kind: Kind,
    /// The credential to request macaroons with.
    pub(crate) base: Kind,
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
        match self.kind {
            Kind::Token => Some("TOKEN"),
            Kind::Macaroon => Some("MACAROON"),
            Kind::Anonymous | Kind::Proxy | Kind::Keys => None,
        }
    }

    /// What must be done first.
    fn before(&self) -> Vec<String> {
        match (self.kind, self.macaroon_of) {
            (Kind::Macaroon, Some(place)) => vec![self.macaroon("MACAROON", place)],
            _ => Vec::new(),
        }
    }

    /// The line that asks a place for a macaroon.
    pub(crate) fn macaroon(&self, variable: &str, place: &Location) -> String {
        let plain = Context {
            kind: self.base,
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
        let mut line = vec!["curl --fail-with-body --silent --show-error --location".to_owned()];
        if place.is_encrypted() {
            line.extend(self.trust.options());
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
        if self.kind == Kind::Proxy {
            line.push("--cert \"$X509_USER_PROXY\" --key \"$X509_USER_PROXY\"".to_owned());
        }
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

    /// Our client with a command for a place, and what it trusts.
    fn ours(&self, command: &str, place: &Location, more: &str) -> String {
        let mut words = vec![format!("crossload {command}")];
        if place.is_encrypted() {
            words.extend(self.trust.options());
        }
        words.push(quoted(&place.to_wire()));
        format!("{}{more}", words.join(" "))
    }

    /// A command of XRootD's client.
    pub(crate) fn xroot(&self, command: &str) -> Vec<String> {
        let mut lines = self.before();
        let mut line = String::new();
        if let Some(directory) = &self.trust.directory {
            line.push_str(&format!("X509_CERT_DIR={} ", quoted(directory)));
        }
        if let Some(variable) = self.variable() {
            line.push_str(&format!("BEARER_TOKEN=\"${variable}\" "));
        }
        line.push_str(command);
        lines.push(line);
        lines
    }

    /// Upload of a file.
    pub(crate) fn upload(&self, place: &Location) -> Vec<String> {
        if place.is_s3() {
            return vec![self.ours(&format!("copy --force {ANY_FILE}"), place, "")];
        }
        match place.is_xrootd() {
            true => self.xroot(&format!("xrdcp --force {ANY_FILE} {}", self.root_url(place))),
            false => self.curl(&[&format!("-T {ANY_FILE}")], place),
        }
    }

    /// Download of a file.
    pub(crate) fn download(&self, place: &Location) -> Vec<String> {
        if place.is_s3() {
            return vec![self.ours("copy --force", place, " /dev/null")];
        }
        match place.is_xrootd() {
            true => self.xroot(&format!("xrdcp --force {} /dev/null", self.root_url(place))),
            false => self.curl(&["-o /dev/null"], place),
        }
    }

    /// Question for a checksum.
    pub(crate) fn checksum(&self, place: &Location, algorithms: &str, by_get: bool) -> Vec<String> {
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
        if place.is_s3() {
            return vec![self.ours("stat", place, "")];
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
        if place.is_s3() {
            return vec![self.ours("rm", place, "")];
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
        let [from, to] = [source, destination].map(|end| quoted(&end.to_wire()));
        self.xroot(&format!("xrdcp --force --tpc delegate only {from} {to}"))
    }

    /// A third-party copy that `active` makes; `header` is `Source` or `Destination`. With `scheme`
    /// our token, or else a macaroon of the other side, goes along.
    pub(crate) fn copy(&self, active: &Location, header: &str, peer: &Location, scheme: Option<&str>) -> Vec<String> {
        if active.is_xrootd() {
            let (source, destination) = match header {
                "Source" => (peer, active),
                _ => (active, peer),
            };
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
            let variable = match self.base {
                Kind::Token => "TOKEN",
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
mod tests {
    use super::*;

    fn place(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    #[test]
    fn commands_are_complete_and_name_secrets_by_variables() {
        let trust = Trust {
            directory: Some("/etc/grid-security/certificates".to_owned()),
            ..Trust::default()
        };
        let file = place("davs://se.example.org/data/f g");
        let context = Context {
            trust: &trust,
            kind: Kind::Macaroon,
            base: Kind::Proxy,
            macaroon_of: Some(&file),
            address: Some("2001:db8::1".parse().unwrap()),
        };
        let lines = context.upload(&file);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].starts_with("MACAROON=$(curl ") && lines[0].ends_with("| jq -r .macaroon)"),
            "{lines:?}"
        );
        for words in [
            "--capath /etc/grid-security/certificates",
            "--connect-to 'se.example.org:443:[2001:db8::1]:443'",
            "-H \"Authorization: Bearer $MACAROON\"",
            "-T /bin/bash https://se.example.org/data/f%20g",
        ] {
            assert!(lines[1].contains(words), "{words} is not in {}", lines[1]);
        }
        let copy = context.copy(&file, "Source", &place("https://other/x?y='z'"), Some("bearer"));
        assert_eq!(copy.len(), 3, "{copy:?}");
        assert!(
            copy[2].contains("-H \"TransferHeaderAuthorization: bearer $THEIRS\""),
            "{copy:?}"
        );
    }

    #[test]
    fn our_client_trusts_what_the_run_does() {
        let trust = Trust {
            file: Some("/ca.pem".to_owned()),
            ..Trust::default()
        };
        let context = Context {
            trust: &trust,
            kind: Kind::Keys,
            base: Kind::Keys,
            macaroon_of: None,
            address: None,
        };
        let file = place("s3s://s/b/f");
        let lines = [
            context.upload(&file),
            context.download(&file),
            context.size(&file),
            context.delete(&file),
        ];
        assert_eq!(
            lines.concat(),
            [
                "crossload copy --force /bin/bash --cacert /ca.pem s3s://s/b/f",
                "crossload copy --force --cacert /ca.pem s3s://s/b/f /dev/null",
                "crossload stat --cacert /ca.pem s3s://s/b/f",
                "crossload rm --cacert /ca.pem s3s://s/b/f",
            ]
        );
    }

    #[test]
    fn the_xrootd_protocol_has_its_own_programs() {
        let trust = Trust::default();
        let context = Context {
            trust: &trust,
            kind: Kind::Token,
            base: Kind::Token,
            macaroon_of: None,
            address: None,
        };
        let file = place("roots://se:1095//data/f");
        assert_eq!(
            context.checksum(&file, "adler32", false),
            ["BEARER_TOKEN=\"$TOKEN\" xrdfs roots://se:1095 query checksum '/data/f?cks.type=adler32'"]
        );
        assert_eq!(
            context.copy(&file, "Source", &place("root://other//g"), None),
            ["BEARER_TOKEN=\"$TOKEN\" xrdcp --force --tpc only root://other//g roots://se:1095//data/f"]
        );
    }
}
