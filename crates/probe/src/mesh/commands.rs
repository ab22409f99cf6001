//! The lines for a shell that show the failure of a cell again: the file is uploaded to the source,
//! copied, and removed. Tokens stand in them as variables, or are read from their files.
//! Certificates are named by their files.

use history::Mode;
use types::Location;

use super::endpoint::{Credential, CredentialKind, Protocol};
use super::step::StepName;
use crate::kind::Kind;
use crate::reproduce::{ANY_FILE, Context, CredentialFile, Shown, Trust, quoted};

/// One end of a copy.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) file: &'a Location,
    pub(super) credential: &'a Credential,
}

/// The variable with the directory of named remotes for one copy.
const OWN_SETTINGS: &str = "ENDS=$(mktemp -d)";
const WITH_OWN_SETTINGS: &str = "XDG_CONFIG_HOME=\"$ENDS\"";

/// The option that shows the credential of an end, if that is in a file.
fn option(end: &End<'_>) -> Option<String> {
    let file = end.credential.file.as_ref()?;
    match end.credential.kind {
        CredentialKind::Token => Some(format!("--token-file {}", quoted(&file.path))),
        CredentialKind::X509 => Some(file.certificate_options()),
        CredentialKind::Keys | CredentialKind::Anonymous => None,
    }
}

/// The URL of a file's directory, and its name there.
fn split(file: &Location) -> [String; 2] {
    let url = file.to_wire();
    let end = url.rfind('/').map_or(url.len(), |slash| slash + 1);
    [url[..end].to_owned(), url[end..].to_owned()]
}

/// A copy that failed.
pub(super) struct Reproduction<'a> {
    pub(super) trust: &'a Trust,
    pub(super) source: End<'a>,
    pub(super) destination: End<'a>,
    pub(super) mode: Mode,
}

/// Lines, and which token the variable in them holds at the end: no server may be shown that of
/// another one.
#[derive(Default)]
struct Script {
    lines: Vec<String>,
    /// The file of the token in `TOKEN`; `Some(None)`: one that is in no file.
    token: Option<Option<CredentialFile>>,
}

impl Script {
    fn push(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Makes the token of an end the one that is shown below.
    fn show(&mut self, end: End<'_>) {
        let file = &end.credential.file;
        if end.credential.kind != CredentialKind::Token || self.token.as_ref() == Some(file) {
            return;
        }
        match file {
            Some(file) => self.lines.push(format!("TOKEN=$(cat {})", quoted(&file.path))),
            None if self.token.is_some() => {
                let host = end.file.host();
                self.lines.push(format!("TOKEN=  # that for {host}"));
            }
            None => {}
        }
        self.token = Some(file.clone());
    }
}

impl Reproduction<'_> {
    /// The lines for a step that failed.
    pub(super) fn lines(&self, step: StepName) -> Vec<String> {
        let mut script = Script::default();
        match step {
            StepName::Seed => {
                script.show(self.source);
                script.push(self.upload(self.source));
            }
            StepName::Copy => {
                script.show(self.source);
                script.push(self.upload(self.source));
                self.copy(&mut script);
                script.show(self.destination);
                script.push(self.remove(self.destination));
                script.show(self.source);
                script.push(self.remove(self.source));
            }
            StepName::Size | StepName::Checksum | StepName::Remove => {
                script.show(self.destination);
                script.push(self.upload(self.destination));
                if step != StepName::Remove {
                    script.push(self.look(self.destination, step));
                }
                script.push(self.remove(self.destination));
            }
        }
        script.lines
    }

    /// The lines for a source that does not send what it was given.
    pub(super) fn source_lines(&self) -> Vec<String> {
        let mut script = Script::default();
        script.show(self.source);
        script.push(self.upload(self.source));
        let url = quoted(&self.source.file.to_wire());
        script.push(format!(
            "{} {url} - | cmp - {ANY_FILE}",
            self.ours("copy", &[self.source])
        ));
        script.push(self.remove(self.source));
        script.lines
    }

    /// Our client with a command, what it trusts, and the credential that these ends have in
    /// common.
    fn ours(&self, command: &str, ends: &[End<'_>]) -> String {
        let mut words = vec![self.trusting(command)];
        words.extend(ends.iter().find_map(option));
        words.join(" ")
    }

    /// Our client with a command, and what it trusts.
    fn trusting(&self, command: &str) -> String {
        let mut words = vec![format!("crossload {command}")];
        let needs_trust = |file: &Location| file.is_encrypted() || file.is_xrootd();
        if needs_trust(self.source.file) || needs_trust(self.destination.file) {
            words.extend(match self.mode {
                Mode::Lite => self.trust.verifying().options(),
                _ => self.trust.options(),
            });
        }
        words.join(" ")
    }

    fn context<'b>(&'b self, end: End<'b>) -> Context<'b> {
        let shown = Shown {
            kind: match end.credential.kind {
                CredentialKind::Token => Kind::Token,
                CredentialKind::X509 => Kind::Proxy,
                CredentialKind::Keys | CredentialKind::Anonymous => Kind::Anonymous,
            },
            certificate: end.credential.file.as_ref(),
        };
        Context {
            trust: self.trust,
            shown,
            base: shown,
            token: None,
            macaroon_of: None,
            address: None,
        }
    }

    /// Whether other programs need nothing but the URL and what the context says.
    fn is_plain(end: End<'_>) -> bool {
        Protocol::of(end.file) != Protocol::S3 && end.credential.kind != CredentialKind::Keys
    }

    fn upload(&self, end: End<'_>) -> String {
        match Self::is_plain(end) {
            true => self.context(end).upload(end.file).join("; "),
            false => format!(
                "{} {ANY_FILE} {}",
                self.ours("copy", &[end]),
                quoted(&end.file.to_wire())
            ),
        }
    }

    fn remove(&self, end: End<'_>) -> String {
        match Self::is_plain(end) {
            true => self.context(end).delete(end.file).join("; "),
            false => format!("{} {}", self.ours("rm", &[end]), quoted(&end.file.to_wire())),
        }
    }

    fn look(&self, end: End<'_>, step: StepName) -> String {
        let context = self.context(end);
        match (Self::is_plain(end), step) {
            (true, StepName::Checksum) if end.file.is_xrootd() => {
                context.checksum(end.file, "adler32", false).join("; ")
            }
            (true, StepName::Checksum) => context.checksum(end.file, "adler32,md5", false).join("; "),
            (true, _) => context.size(end.file).join("; "),
            (false, _) => format!("{} {}", self.ours("stat", &[end]), quoted(&end.file.to_wire())),
        }
    }

    fn copy(&self, script: &mut Script) {
        let (source, destination) = (self.source, self.destination);
        let protocols = (Protocol::of(source.file), Protocol::of(destination.file));
        let is_plain = Self::is_plain(source) && Self::is_plain(destination);
        let (active, passive, header) = match self.mode {
            Mode::Push => (source, destination, "Destination"),
            _ => (destination, source, "Source"),
        };
        match (protocols, self.mode) {
            ((Protocol::Http, Protocol::Http), Mode::Pull | Mode::Push) if is_plain => {
                self.http_copy(script, active, passive, header);
            }
            // Its client shows both servers the same credential.
            ((Protocol::Root, Protocol::Root), Mode::Rendezvous) if self.has_one_credential() => {
                script.show(active);
                let lines = self.context(active).copy(active.file, header, passive.file, None);
                script.lines.extend(lines);
            }
            ((Protocol::Root, Protocol::Root), Mode::Lite) if self.has_one_credential() => {
                script.show(active);
                let lines = self.context(active).lite_copy(source.file, destination.file);
                script.lines.extend(lines);
            }
            _ => self.own_copy(script),
        }
    }

    /// COPY by curl. The passive server is shown its own token, or asked for a macaroon with its
    /// own certificate.
    fn http_copy(&self, script: &mut Script, active: End<'_>, passive: End<'_>, header: &str) {
        let has_credential = passive.credential.kind != CredentialKind::Anonymous;
        let scheme = has_credential.then_some("Bearer");
        let context = Context {
            base: self.context(passive).shown,
            ..self.context(active)
        };
        script.show(active);
        let mut lines = context.copy(active.file, header, passive.file, scheme);
        let [own, other] = [active, passive].map(|end| (end.credential.kind, &end.credential.file));
        if other.0 == CredentialKind::Token && own != other {
            let theirs = other.1.as_ref().map(|file| format!("$(cat {})", quoted(&file.path)));
            let theirs = theirs.unwrap_or_else(|| format!("  # that for {}", passive.file.host()));
            lines.insert(0, format!("THEIRS={theirs}"));
            let ours = "TransferHeaderAuthorization: Bearer $TOKEN";
            let theirs = |line: String| line.replace(ours, "TransferHeaderAuthorization: Bearer $THEIRS");
            lines = lines.into_iter().map(theirs).collect();
        }
        script.lines.extend(lines);
    }

    /// Whether both ends have the same credential, so that a command may show it to both. Keys
    /// belong to a storage each, and are no option.
    fn has_one_credential(&self) -> bool {
        let [source, destination] = [self.source, self.destination].map(|end| option(&end));
        let has_keys = |end: End<'_>| end.credential.kind == CredentialKind::Keys;
        source == destination || has_keys(self.source) || has_keys(self.destination)
    }

    /// By our own client, where other programs have no such copies. Its options are for both
    /// servers, so different credentials need named remotes; they are in a directory of their own.
    fn own_copy(&self, script: &mut Script) {
        let mode = match self.mode {
            Mode::Push => "push",
            Mode::Streamed | Mode::Probe => "stream",
            Mode::Pull | Mode::Rendezvous => "pull",
            Mode::Lite => "pull --delegate=only",
        };
        let ends = [self.source, self.destination];
        let command = format!("copy --mode {mode}");
        if self.has_one_credential() {
            let [from, to] = ends.map(|end| quoted(&end.file.to_wire()));
            return script.push(format!("{} {from} {to}", self.ours(&command, &ends)));
        }
        script.push(OWN_SETTINGS.to_owned());
        for (name, end) in ["source", "destination"].into_iter().zip(ends) {
            let [directory, _] = split(end.file);
            let credential = option(&end).map_or_else(String::new, |option| format!(" {option}"));
            script.push(format!(
                "{WITH_OWN_SETTINGS} crossload config remote add {name} {}{credential}",
                quoted(&directory)
            ));
        }
        let [[_, from], [_, to]] = ends.map(|end| split(end.file));
        script.push(format!(
            "{WITH_OWN_SETTINGS} {} {} {}",
            self.trusting(&command),
            quoted(&format!("source:{from}")),
            quoted(&format!("destination:{to}"))
        ));
    }
}

#[cfg(test)]
mod tests {
    use remote::Access;

    use super::*;

    fn credential(kind: CredentialKind, file: Option<&str>) -> Credential {
        Credential {
            kind,
            access: Access::default(),
            file: file.map(|path| CredentialFile {
                path: path.to_owned(),
                key: None,
            }),
        }
    }

    fn place(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    fn lines(source: (&str, &Credential), destination: (&str, &Credential), mode: Mode) -> Vec<String> {
        let copy = |copy: &Reproduction<'_>| copy.lines(StepName::Copy);
        with(&Trust::default(), source, destination, mode, copy)
    }

    fn with(
        trust: &Trust,
        source: (&str, &Credential),
        destination: (&str, &Credential),
        mode: Mode,
        lines: impl Fn(&Reproduction<'_>) -> Vec<String>,
    ) -> Vec<String> {
        let (from, to) = (place(source.0), place(destination.0));
        let copy = Reproduction {
            trust,
            source: End {
                file: &from,
                credential: source.1,
            },
            destination: End {
                file: &to,
                credential: destination.1,
            },
            mode,
        };
        lines(&copy)
    }

    /// Which token each request with one shows, by the host of its URL.
    fn shown_tokens(lines: &[String]) -> Vec<(String, String)> {
        let mut token = String::new();
        let mut shown = Vec::new();
        for line in lines {
            if let Some(file) = line.strip_prefix("TOKEN=") {
                file.clone_into(&mut token);
            } else if line.contains("Authorization: Bearer $TOKEN\"") {
                let url = place(line.rsplit(' ').next().unwrap());
                shown.push((url.host().to_owned(), token.clone()));
            }
        }
        shown
    }

    #[test]
    fn no_server_is_shown_the_token_of_another() {
        let token = |file| credential(CredentialKind::Token, file);
        let (a, b, environment, none) = (
            token(Some("/a.token")),
            token(Some("/b.token")),
            token(None),
            credential(CredentialKind::Anonymous, None),
        );
        for mode in [Mode::Pull, Mode::Push, Mode::Streamed] {
            for (source, destination) in [(&a, &b), (&a, &environment), (&environment, &b), (&a, &none)] {
                let lines = lines(("https://a/x/f", source), ("https://b/x/g", destination), mode);
                for (host, token) in shown_tokens(&lines) {
                    let own = if host == "a" { source } else { destination };
                    let expected = own.file.as_ref().map(|file| format!("$(cat {})", file.path));
                    let is_unset = token.is_empty() || token == format!("  # that for {host}");
                    match expected {
                        Some(expected) => assert_eq!(token, expected, "{host}: {lines:#?}"),
                        None => assert!(is_unset, "{host}: {lines:#?}"),
                    }
                }
                let is_passed_on = |line: &String| line.contains("TransferHeaderAuthorization: Bearer $TOKEN");
                assert!(!lines.iter().any(is_passed_on), "{lines:#?}");
                let is_given_twice = |line: &String| line.matches("--token-file").count() > 1;
                assert!(!lines.iter().any(is_given_twice), "{lines:#?}");
                // Options of a copy go to both servers.
                let is_for_both = |line: &String| line.contains("crossload copy") && line.contains("--token-file");
                assert!(!lines.iter().any(is_for_both), "{lines:#?}");
            }
        }
        let proxy = |file| credential(CredentialKind::X509, Some(file));
        let (p, q) = (proxy("/p.pem"), proxy("/q.pem"));
        let pushed = lines(("https://a/x/f", &p), ("https://b/x/g", &q), Mode::Push);
        let macaroon = pushed.iter().position(|line| line.starts_with("THEIRS=")).unwrap();
        assert!(pushed[macaroon].contains("--cert /q.pem --key /q.pem "), "{pushed:#?}");
        assert!(
            pushed[macaroon + 1].contains("--cert /p.pem --key /p.pem -X COPY"),
            "{pushed:#?}"
        );
    }

    #[test]
    fn different_credentials_are_those_of_named_remotes() {
        let token = |file| credential(CredentialKind::Token, Some(file));
        let (a, b) = (token("/a.token"), token("/b c.token"));
        let remotes = [
            "ENDS=$(mktemp -d)",
            "XDG_CONFIG_HOME=\"$ENDS\" crossload config remote add source root://a//x/ --token-file /a.token",
            "XDG_CONFIG_HOME=\"$ENDS\" crossload config remote add destination https://b/x/ \
             --token-file '/b c.token'",
            "XDG_CONFIG_HOME=\"$ENDS\" crossload copy --mode stream source:f destination:g",
        ];
        let shown = lines(("root://a//x/f", &a), ("https://b/x/g", &b), Mode::Streamed);
        assert_eq!(shown[2..6], remotes, "{shown:#?}");
        // Its client shows both servers the same token.
        let shown = lines(("root://a//x/f", &a), ("root://b//x/g", &b), Mode::Rendezvous);
        assert!(
            shown[5].ends_with("crossload copy --mode pull source:f destination:g"),
            "{shown:#?}"
        );
        let same = lines(("root://a//x/f", &a), ("root://b//x/g", &a), Mode::Rendezvous);
        assert!(same[2].contains("xrdcp --force --tpc only"), "{same:#?}");
    }

    #[test]
    fn our_client_trusts_what_the_run_does() {
        let trust = Trust {
            files: vec!["/my ca.pem".to_owned()],
            directory: Some("/certificates".to_owned()),
            insecure: true,
        };
        let words = "--cacert '/my ca.pem' --capath /certificates --insecure";
        let (token, keys) = (
            credential(CredentialKind::Token, Some("/t")),
            credential(CredentialKind::Keys, None),
        );
        let (http, s3) = (("https://a/x/f", &token), ("s3s://s/b/g", &keys));
        let steps = [
            StepName::Seed,
            StepName::Copy,
            StepName::Size,
            StepName::Checksum,
            StepName::Remove,
        ];
        for step in steps {
            let all = with(&trust, http, s3, Mode::Pull, |copy| copy.lines(step));
            let all = all.iter().filter(|line| !line.starts_with("TOKEN="));
            assert!(
                all.clone().all(|line| line.contains(words)),
                "{:#?}",
                all.collect::<Vec<_>>()
            );
        }
        let source = with(&trust, http, s3, Mode::Pull, |copy| copy.source_lines());
        assert_eq!(
            source[2],
            format!("crossload copy {words} --token-file /t https://a/x/f - | cmp - /bin/bash")
        );
        let plain = with(
            &trust,
            ("http://a/x/f", &token),
            ("http://b/x/g", &token),
            Mode::Streamed,
            |copy| copy.lines(StepName::Copy),
        );
        assert!(!plain.iter().any(|line| line.contains("cacert")), "{plain:#?}");
    }

    #[test]
    fn a_pull_by_curl_shows_each_server_its_own_token() {
        let (a, b) = (
            credential(CredentialKind::Token, Some("/a.token")),
            credential(CredentialKind::Token, Some("/b.token")),
        );
        let shown = lines(("https://a/x/f", &a), ("https://b/x/g", &b), Mode::Pull);
        assert_eq!(shown[0], "TOKEN=$(cat /a.token)");
        assert!(shown[1].contains("-T /bin/bash https://a/x/f"), "{shown:#?}");
        assert_eq!(shown[2], "TOKEN=$(cat /b.token)");
        assert_eq!(shown[3], "THEIRS=$(cat /a.token)");
        assert!(
            shown[4].contains("-H \"Authorization: Bearer $TOKEN\"")
                && shown[4].contains("-H \"TransferHeaderAuthorization: Bearer $THEIRS\"")
                && shown[4].contains("'Source: https://a/x/f'")
                && shown[4].ends_with("https://b/x/g"),
            "{shown:#?}"
        );
        assert!(
            shown[5].contains("-X DELETE") && shown[5].ends_with("https://b/x/g"),
            "{shown:#?}"
        );
        assert_eq!(shown[6], "TOKEN=$(cat /a.token)");
        let one = lines(("https://a/x/f", &a), ("https://b/x/g", &a), Mode::Push);
        let sets = one.iter().filter(|line| line.contains("$(cat")).count();
        assert_eq!(sets, 1, "{one:#?}");
    }

    #[test]
    fn our_client_copies_where_others_cannot() {
        let (keys, none) = (
            credential(CredentialKind::Keys, None),
            credential(CredentialKind::Anonymous, None),
        );
        let shown = lines(("s3s://s/b/f", &keys), ("https://b/x/g", &none), Mode::Pull);
        assert_eq!(shown[0], "crossload copy /bin/bash s3s://s/b/f");
        assert_eq!(shown[1], "crossload copy --mode pull s3s://s/b/f https://b/x/g");
        let proxy = credential(CredentialKind::X509, Some("/p q.pem"));
        let shown = lines(("root://a//f", &proxy), ("root://b//g", &proxy), Mode::Lite);
        assert_eq!(
            shown[1],
            "X509_USER_PROXY='/p q.pem' xrdcp --force --tpc delegate only root://a//f root://b//g"
        );
        let shown = lines(("root://a//f", &proxy), ("root://b//g", &proxy), Mode::Streamed);
        assert_eq!(
            shown[1],
            "crossload copy --mode stream --proxy '/p q.pem' root://a//f root://b//g"
        );
    }

    #[test]
    fn a_key_in_another_file_and_authorities_from_a_file_are_in_each_line() {
        let mut apart = credential(CredentialKind::X509, Some("/c.pem"));
        apart.file.as_mut().unwrap().key = Some("/k.pem".to_owned());
        let trust = Trust {
            files: vec!["/ca.pem".to_owned()],
            ..Trust::default()
        };
        let certificate = "--cert /c.pem --key /k.pem";
        let (from, to) = (("root://a//x/f", &apart), ("root://b//x/g", &apart));
        let shown = with(&trust, from, to, Mode::Rendezvous, |copy| copy.lines(StepName::Copy));
        let how = format!("--cacert /ca.pem {certificate}");
        assert_eq!(
            shown,
            [
                format!("crossload copy --force /bin/bash {how} root://a//x/f"),
                format!("crossload copy --force --mode pull {how} root://a//x/f root://b//x/g"),
                format!("crossload rm {how} root://b//x/g"),
                format!("crossload rm {how} root://a//x/f"),
            ]
        );
        let shown = with(&trust, from, to, Mode::Lite, |copy| copy.lines(StepName::Copy));
        assert!(
            shown[1].starts_with("crossload copy --force --mode pull --delegate=only --cacert"),
            "{shown:#?}"
        );
        let shown = with(&trust, ("https://a/x/f", &apart), to, Mode::Streamed, |copy| {
            copy.lines(StepName::Copy)
        });
        let has_both = |line: &String| line.contains("--cacert /ca.pem ") && line.contains(certificate);
        assert!(shown.len() == 4 && shown.iter().all(has_both), "{shown:#?}");
        // Servers with different certificates are named remotes, for delegation too.
        let other = credential(CredentialKind::X509, Some("/p.pem"));
        let insecure = Trust {
            insecure: true,
            ..trust
        };
        let to = ("root://b//x/g", &other);
        let shown = with(&insecure, from, to, Mode::Lite, |copy| copy.lines(StepName::Copy));
        let added = "crossload config remote add source root://a//x/ --cert /c.pem --key /k.pem";
        assert!(shown[2].ends_with(added), "{shown:#?}");
        assert!(
            shown[4].ends_with("copy --mode pull --delegate=only --cacert /ca.pem source:f destination:g"),
            "{shown:#?}"
        );
    }
}
