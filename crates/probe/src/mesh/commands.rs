//! The lines for a shell that show the failure of a cell again: the file is uploaded to the source,
//! copied, and removed. Secrets stand in them as variables, or are read from their files.

use history::Mode;
use types::Location;

use super::endpoint::{Credential, CredentialKind, Protocol};
use super::step::StepName;
use crate::kind::Kind;
use crate::reproduce::{ANY_FILE, Context, Trust, quoted};

/// One end of a copy.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) file: &'a Location,
    pub(super) credential: &'a Credential,
}

/// A copy that failed.
pub(super) struct Reproduction<'a> {
    pub(super) trust: &'a Trust,
    pub(super) source: End<'a>,
    pub(super) destination: End<'a>,
    pub(super) mode: Mode,
}

impl Reproduction<'_> {
    /// The lines for a step that failed.
    pub(super) fn lines(&self, step: StepName) -> Vec<String> {
        let mut lines = Vec::new();
        match step {
            StepName::Seed => {
                self.credential(&mut lines, self.source);
                lines.push(self.upload(self.source));
            }
            StepName::Copy => {
                self.credential(&mut lines, self.source);
                lines.push(self.upload(self.source));
                self.copy(&mut lines);
                lines.push(self.remove(self.destination));
                self.credential_unless_same(&mut lines, self.source, self.destination);
                lines.push(self.remove(self.source));
            }
            StepName::Size | StepName::Checksum | StepName::Remove => {
                self.credential(&mut lines, self.destination);
                lines.push(self.upload(self.destination));
                if step != StepName::Remove {
                    lines.push(self.look(self.destination, step));
                }
                lines.push(self.remove(self.destination));
            }
        }
        lines
    }

    /// The lines for a source that does not send what it was given.
    pub(super) fn source_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.credential(&mut lines, self.source);
        lines.push(self.upload(self.source));
        lines.push(format!(
            "crossload copy {} - | cmp - {ANY_FILE}",
            quoted(&self.source.file.to_wire())
        ));
        lines.push(self.remove(self.source));
        lines
    }

    /// The line that makes the credential of an end known to those below.
    fn credential(&self, lines: &mut Vec<String>, end: End<'_>) {
        let Some(file) = end.credential.file.as_deref().map(quoted) else {
            return;
        };
        match end.credential.kind {
            CredentialKind::Token => lines.push(format!("TOKEN=$(cat {file})")),
            CredentialKind::X509 => lines.push(format!("export X509_USER_PROXY={file}")),
            CredentialKind::Keys | CredentialKind::Anonymous => {}
        }
    }

    fn credential_unless_same(&self, lines: &mut Vec<String>, end: End<'_>, last: End<'_>) {
        let named = |end: End<'_>| (end.credential.kind, end.credential.file.clone());
        if named(end) != named(last) {
            self.credential(lines, end);
        }
    }

    fn context(&self, end: End<'_>) -> Context<'_> {
        let kind = match end.credential.kind {
            CredentialKind::Token => Kind::Token,
            CredentialKind::X509 => Kind::Proxy,
            CredentialKind::Keys | CredentialKind::Anonymous => Kind::Anonymous,
        };
        Context {
            trust: self.trust,
            kind,
            base: kind,
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
            false => format!("crossload copy {ANY_FILE} {}", quoted(&end.file.to_wire())),
        }
    }

    fn remove(&self, end: End<'_>) -> String {
        match Self::is_plain(end) {
            true => self.context(end).delete(end.file).join("; "),
            false => format!("crossload rm {}", quoted(&end.file.to_wire())),
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
            (false, _) => format!("crossload stat {}", quoted(&end.file.to_wire())),
        }
    }

    fn copy(&self, lines: &mut Vec<String>) {
        let (source, destination) = (self.source, self.destination);
        let protocols = (Protocol::of(source.file), Protocol::of(destination.file));
        let is_plain = Self::is_plain(source) && Self::is_plain(destination);
        let (active, passive, header) = match self.mode {
            Mode::Push => (source, destination, "Destination"),
            _ => (destination, source, "Source"),
        };
        match (protocols, self.mode) {
            ((Protocol::Http, Protocol::Http), Mode::Pull | Mode::Push) if is_plain => {
                self.credential_unless_same(lines, active, source);
                lines.extend(self.http_copy(active, passive, header));
            }
            ((Protocol::Root, Protocol::Root), Mode::Rendezvous) => {
                self.credential_unless_same(lines, active, source);
                lines.extend(self.context(active).copy(active.file, header, passive.file, None));
            }
            ((Protocol::Root, Protocol::Root), Mode::Lite) => {
                lines.extend(self.context(active).lite_copy(source.file, destination.file));
            }
            _ => lines.push(self.own_copy()),
        }
    }

    /// COPY by curl. The passive server is shown its own token.
    fn http_copy(&self, active: End<'_>, passive: End<'_>, header: &str) -> Vec<String> {
        let has_credential = passive.credential.kind != CredentialKind::Anonymous;
        let scheme = has_credential.then_some("Bearer");
        let context = Context {
            base: self.context(passive).kind,
            ..self.context(active)
        };
        let mut lines = context.copy(active.file, header, passive.file, scheme);
        let other = passive.credential.file.as_ref().filter(|_| {
            passive.credential.kind == CredentialKind::Token && passive.credential.file != active.credential.file
        });
        if let Some(file) = other {
            let ours = "TransferHeaderAuthorization: Bearer $TOKEN";
            let theirs = |line: String| line.replace(ours, "TransferHeaderAuthorization: Bearer $THEIRS");
            lines = lines.into_iter().map(theirs).collect();
            lines.insert(0, format!("THEIRS=$(cat {})", quoted(file)));
        }
        lines
    }

    /// By our own client, where other programs have no such copies.
    fn own_copy(&self) -> String {
        let mode = match self.mode {
            Mode::Push => "push",
            Mode::Streamed | Mode::Probe => "stream",
            Mode::Pull | Mode::Rendezvous | Mode::Lite => "pull",
        };
        let mut line = format!("crossload copy --mode {mode}");
        for end in [self.source, self.destination] {
            let option = match (end.credential.kind, &end.credential.file) {
                (CredentialKind::Token, Some(file)) => format!(" --token-file {}", quoted(file)),
                (CredentialKind::X509, Some(file)) => format!(" --proxy {}", quoted(file)),
                _ => continue,
            };
            if !line.contains(&option) {
                line.push_str(&option);
            }
        }
        let [from, to] = [self.source, self.destination].map(|end| quoted(&end.file.to_wire()));
        format!("{line} {from} {to}")
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
            file: file.map(str::to_owned),
        }
    }

    fn place(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    fn lines(source: (&str, &Credential), destination: (&str, &Credential), mode: Mode) -> Vec<String> {
        let (from, to) = (place(source.0), place(destination.0));
        let trust = Trust::default();
        let copy = Reproduction {
            trust: &trust,
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
        copy.lines(StepName::Copy)
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
        assert_eq!(shown[0], "export X509_USER_PROXY='/p q.pem'");
        assert_eq!(shown[2], "xrdcp --force --tpc delegate only root://a//f root://b//g");
        let shown = lines(("root://a//f", &proxy), ("root://b//g", &proxy), Mode::Streamed);
        assert_eq!(
            shown[2],
            "crossload copy --mode stream --proxy '/p q.pem' root://a//f root://b//g"
        );
    }
}
