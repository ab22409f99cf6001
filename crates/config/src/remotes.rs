//! The client's own configuration: servers and directories with names.

use std::path::PathBuf;

use types::{Location, Scheme};

use crate::parse::{Faults, parse};
use crate::section::{DeTable, Fault, LIVE, Purpose, tables};
use crate::sources::Sources;
use crate::{section, sections};

/// Longest name of a remote, in characters.
const NAME_CHARACTERS_MAX: usize = 64;

section! {
    /// A server or directory with a name. `NAME:PATH` is the place with this path in it.
    "remote" true Remote {
        /// Its name: letters, digits, `-`, `_` and `.`, beginning with a letter or digit.
        name: String = None => LIVE;
        /// URL of the server or directory, or an absolute path on this machine.
        url: String = None => LIVE;
        /// File with the token or macaroon.
        token_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the token");
        /// Issuer from which `crossload login` gets the tokens: an https URL.
        issuer: Option<String> = Some(None) => LIVE;
        /// Name of the user, for servers of HTTP that ask for a password.
        user: Option<String> = Some(None) => LIVE;
        /// File with the password, which only its user may read.
        password_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the password");
        /// Proxy certificate in PEM.
        proxy: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Certificate, "the proxy");
        /// Certificate in PEM; its key is in the same file or in that of `key`.
        cert: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Certificate, "the certificate");
        /// Private key of `cert`.
        key: Option<PathBuf> = Some(None) => LIVE.file(Purpose::PrivateKey, "the private key");
        /// Files with further authorities to trust, in PEM.
        cacert: Vec<PathBuf> = Some(Vec::new()) => LIVE.file(Purpose::Authorities, "the authorities");
        /// Connections per file, 1 to 100.
        nbstreams: Option<u32> = Some(None) => LIVE;
        /// Files that are copied at the same time, 1 to 256.
        transfers: Option<u32> = Some(None) => LIVE;
        /// Access key of an S3 storage. An `https` URL with one is that of an S3 storage, too.
        access_key_id: Option<String> = Some(None) => LIVE;
        /// File with the secret key of an S3 storage, which only its user may read.
        secret_key_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the secret key");
        /// Region of an S3 storage; `us-east-1` if the server names no other.
        region: Option<String> = Some(None) => LIVE;
        /// Where the bucket is in URLs of an S3 storage: `path` or `host`. By default in the path,
        /// and at Amazon in the host.
        addressing: Option<String> = Some(None) => LIVE;
    }
}

sections! {
    /// The client's configuration file.
    ClientConfiguration {
        remotes: Vec<Remote>;
    }
    beside {
        /// The line where each remote begins, counted from one.
        remote_lines: Vec<usize>;
    }
}

impl ClientConfiguration {
    /// Reads a text; `file` stands for it in messages, and relative file names in it start from its
    /// directory.
    ///
    /// # Errors
    /// Every mistake with its line.
    pub fn parse(text: &str, file: &std::path::Path) -> Result<Self, Faults> {
        let base = file.parent().unwrap_or(file);
        parse(text, base, &file.display().to_string(), Self::check)
    }

    fn check(&mut self, root: &DeTable<'_>, sources: &Sources, faults: &mut Vec<Fault>) {
        let tables = tables(root, "remote");
        self.remote_lines = tables.iter().map(|(_, offset)| sources.position(*offset).1).collect();
        for (index, (remote, (table, offset))) in self.remotes.iter().zip(tables).enumerate() {
            let is_known = self.remotes[..index].iter().any(|other| other.name == remote.name);
            let twice = is_known.then(|| ("name", format!("a remote \"{}\" exists already", remote.name)));
            for (key, words) in remote.faults().into_iter().chain(twice) {
                faults.push(Fault {
                    offset: table.get(key).map_or(offset, |value| value.span().start),
                    key: format!("remote.{key}"),
                    words: format!("{key}: {words}"),
                });
            }
        }
    }
}

impl Remote {
    /// Whether a word can be the name of a remote.
    pub fn is_name(word: &str) -> bool {
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        word.starts_with(|first: char| first.is_ascii_alphanumeric())
            && word.len() <= NAME_CHARACTERS_MAX
            && word.chars().all(is_plain)
    }

    /// Whether it says how its servers are shown who the user is. If not, the user's usual
    /// credentials are.
    pub fn has_credential(&self) -> bool {
        let files = [
            &self.token_file,
            &self.password_file,
            &self.proxy,
            &self.cert,
            &self.secret_key_file,
        ];
        self.issuer.is_some() || files.iter().any(|file| file.is_some())
    }

    /// Its mistakes, by key. A value that may be a secret in the wrong place is not repeated.
    fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if !Self::is_name(&self.name) {
            let words = "letters, digits, \"-\", \"_\" and \".\", beginning with a letter or digit";
            faults.push(("name", words.to_owned()));
        }
        if let Err(words) = place(&self.url) {
            faults.push(("url", words));
        }
        if self.issuer.as_ref().is_some_and(|issuer| !is_https(issuer)) {
            faults.push(("issuer", "not an https URL".to_owned()));
        }
        let mut demand = |key, is_good: bool, words: &str| {
            if !is_good {
                faults.push((key, words.to_owned()));
            }
        };
        let ways = [self.token_file.is_some(), self.issuer.is_some(), self.user.is_some()];
        let is_one = ways.into_iter().filter(|way| *way).count() < 2;
        demand("name", is_one, "give one of token_file, issuer and user");
        let is_pair = self.user.is_some() == self.password_file.is_some();
        demand("user", is_pair, "give user and password_file together");
        let is_plain = |user: &String| !user.contains(|one: char| one == ':' || one.is_control());
        let is_user = self.user.as_ref().is_none_or(is_plain);
        demand("user", is_user, "a user's name has no colon and no control characters");
        let is_secure = self.user.is_none() || is_https(&self.url);
        demand("user", is_secure, "a password needs an https or davs URL");
        let has_both = self.access_key_id.is_some() == self.secret_key_file.is_some();
        demand(
            "access_key_id",
            has_both,
            "give access_key_id and secret_key_file together",
        );
        let is_way = self
            .addressing
            .as_deref()
            .is_none_or(|way| matches!(way, "path" | "host"));
        demand("addressing", is_way, "path or host");
        demand(
            "proxy",
            self.proxy.is_none() || self.cert.is_none(),
            "give proxy or cert",
        );
        demand(
            "key",
            self.key.is_none() || self.cert.is_some(),
            "belongs to cert, which is missing",
        );
        let within = |count: Option<u32>, most| count.is_none_or(|count| (1..=most).contains(&count));
        demand("nbstreams", within(self.nbstreams, 100), "not 1 to 100");
        demand("transfers", within(self.transfers, 256), "not 1 to 256");
        faults
    }
}

/// Checks the URL of a remote.
fn place(url: &str) -> Result<(), String> {
    let location = Location::parse(url).map_err(|error| error.detail().unwrap_or("it is invalid").to_owned())?;
    match location.scheme() {
        Scheme::File if location.path().starts_with('/') => Ok(()),
        Scheme::File | Scheme::Stdio => Err("not a URL or an absolute path".to_owned()),
        _ if location.query().is_some() => Err("a remote has no query; a token belongs in token_file".to_owned()),
        _ => Ok(()),
    }
}

fn is_https(url: &str) -> bool {
    Location::parse(url).is_ok_and(|place| place.is_http() && place.is_encrypted() && place.query().is_none())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str) -> Result<ClientConfiguration, String> {
        ClientConfiguration::parse(text, Path::new("/settings/client.toml")).map_err(|faults| faults.to_string())
    }

    #[test]
    fn a_remote_has_its_files_beside_the_configuration() {
        let text = "[[remote]]\nname = \"a\"\nurl = \"davs://a/x\"\ntoken_file = \"t\"\ncacert = [\"/ca\"]\n\n\
            [[remote]]\nname = \"b\"\nurl = \"/srv\"\n";
        let read = read(text).unwrap();
        assert_eq!(read.remote_lines, [1, 7]);
        assert_eq!(read.remotes[0].token_file.as_deref(), Some(Path::new("/settings/t")));
        assert!(read.remotes[0].has_credential() && !read.remotes[1].has_credential());
    }

    #[test]
    fn a_mistake_is_named_with_its_line_and_key_and_without_secrets() {
        for (lines, words) in [
            ("url = \"https://a\"", ":1: the key \"name\" is missing"),
            ("name = \"a\"\nurl = 3", ":3: url: expected text"),
            ("name = \"a\"\nurl = \"https://u:secret@a\"", ":3: url: a URL may not"),
            (
                "name = \"a\"\nurl = \"https://a?t=secret\"",
                ":3: url: a remote has no query",
            ),
            (
                "name = \"a\"\nurl = \"files\"",
                ":3: url: not a URL or an absolute path",
            ),
            ("name = \"a:b\"\nurl = \"https://a\"", ":2: name: letters"),
            (
                "name = \"a\"\nurl = \"https://a\"\ntoken = \"secret\"",
                ":4: unknown key \"token\"",
            ),
            (
                "name = \"a\"\nurl = \"https://a\"\nuser = \"u\"",
                ":4: user: give user and",
            ),
            (
                "name = \"a\"\nurl = \"http://a\"\nuser = \"u\"\npassword_file = \"p\"",
                ":4: user: a password needs",
            ),
            (
                "name = \"a\"\nurl = \"https://a\"\nnbstreams = 0",
                ":4: nbstreams: not 1",
            ),
            (
                "name = \"a\"\nurl = \"https://a\"\nissuer = \"http://i\"",
                ":4: issuer: not an",
            ),
            (
                "name = \"a\"\nurl = \"https://a\"\n[[remote]]\nname = \"a\"\nurl = \"https://b\"",
                ":5: name: a remote \"a\" exists",
            ),
        ] {
            let told = read(&format!("[[remote]]\n{lines}\n")).unwrap_err();
            assert!(
                told.starts_with(&format!("/settings/client.toml{words}")),
                "{lines}: {told}"
            );
            assert!(!told.contains("secret"), "{told}");
        }
    }
}
