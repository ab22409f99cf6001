//! Failures of the program: an error line and an exit code.

use config::Faults;
use types::{Error, ErrorCode};

use crate::exit_code::{ExitCodes, named_by_peer, words};
use crate::next_step;

/// The exit code of a failed system call without a number (EIO).
const FAILED: u8 = 5;

/// What a detail begins with that is about the file of the named remotes, and no URL.
pub(crate) const UNUSABLE_REMOTES: &str = "the file of the named remotes cannot be used";

/// A failure of the program.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What happened.
    pub(crate) words: String,
    /// What the reader can do, if `words` do not say it.
    pub(crate) advice: Option<Advice>,
    /// What the table calls it, where it is there.
    pub(crate) code: Option<ErrorCode>,
    pub(crate) exit_code: u8,
}

/// What the reader of a failure can do.
#[derive(Debug)]
pub(crate) enum Advice {
    /// The sentence of the error table for this reader.
    Of(ErrorCode),
    /// A more specific sentence.
    Own(String),
    /// A more specific sentence for the user of the client; for the administrator that of the
    /// table.
    ForUser(String, ErrorCode),
}

/// The reader of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The user of the client.
    User,
    /// The administrator of the server.
    Administrator,
}

impl Failure {
    /// A failure without an error code, such as an invalid configuration.
    pub(crate) fn invalid(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            advice: None,
            code: None,
            exit_code: ExitCodes::chosen().of_usage(),
        }
    }

    /// A system call failed while doing `what`, or a file is larger than its limit.
    pub(crate) fn system(what: impl std::fmt::Display, cause: &std::io::Error) -> Self {
        let number = cause.raw_os_error().and_then(|number| u8::try_from(number).ok());
        let is_read_only = cause.kind() == std::io::ErrorKind::ReadOnlyFilesystem;
        Self {
            words: format!("{what}: {cause}"),
            advice: is_read_only.then_some(Advice::Of(ErrorCode::ReadOnly)),
            code: None,
            exit_code: match number {
                Some(number) => ExitCodes::chosen().of_errno(number),
                None if cause.kind() == std::io::ErrorKind::FileTooLarge => ExitCodes::chosen().of_usage(),
                None => FAILED,
            },
        }
    }

    /// An error with advice that fits better than that of the table.
    pub(crate) fn advised(error: &Error, advice: &str) -> Self {
        Self {
            words: story(error),
            advice: Some(Advice::Own(advice.to_owned())),
            code: Some(error.code()),
            exit_code: exit_code(error),
        }
    }

    /// A file for TLS that a configuration names under `keys` and that cannot be used: no client is
    /// at fault.
    pub(crate) fn of_tls_files(keys: &str, error: Error) -> Self {
        match (error.code(), error.detail()) {
            (ErrorCode::BadRequest, Some(why)) => {
                let advice = match why.contains("Permission denied") {
                    true => {
                        "; let the server's user read the file, or hand it over as a credential of the unit \
                         (LoadCredential=)"
                    }
                    false => "",
                };
                Self::invalid(format!("{keys}: {why}{advice}"))
            }
            _ => error.into(),
        }
    }

    /// The failure, and what this reader can do.
    pub(crate) fn message(&self, reader: Reader) -> String {
        match self.next(reader) {
            Some(advice) => format!("{}; next: {advice}", self.words),
            None => self.words.clone(),
        }
    }

    /// What this reader can do.
    pub(crate) fn next(&self, reader: Reader) -> Option<String> {
        Some(match (self.advice.as_ref()?, reader) {
            (Advice::Own(advice), _) | (Advice::ForUser(advice, _), Reader::User) => advice.clone(),
            (Advice::Of(code), Reader::User) => code.for_our_client(),
            (Advice::Of(code) | Advice::ForUser(_, code), Reader::Administrator) => code.for_administrator().to_owned(),
        })
    }
}

impl From<Faults> for Failure {
    fn from(faults: Faults) -> Self {
        Self::invalid(format!("invalid configuration\n{faults}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = error.code();
        let advice = match next_step::of(&error) {
            None if about_remotes(&error).is_some() => Some(Advice::Own("Correct this file.".to_owned())),
            Some(advice) => Some(Advice::ForUser(advice, code)),
            None => (code != ErrorCode::ClientGone).then(|| Advice::Of(named_by_peer(&error).unwrap_or(code))),
        };
        Self {
            words: story(&error),
            advice,
            code: Some(code),
            exit_code: exit_code(&error),
        }
    }
}

/// The exit code of an error.
pub(crate) fn exit_code(error: &Error) -> u8 {
    ExitCodes::chosen().of(error)
}

/// An error in gfal's format, with what a user of the client can do next.
pub(crate) fn describe(error: &Error) -> String {
    Failure::from(error.clone()).message(Reader::User)
}

/// What is wrong with the file of the named remotes, if the error is about it.
fn about_remotes(error: &Error) -> Option<&str> {
    error.detail().filter(|detail| detail.starts_with(UNUSABLE_REMOTES))
}

/// An error in gfal's format: number, words for it, and details.
fn story(error: &Error) -> String {
    let number = ExitCodes::chosen().in_words().of(error);
    if let Some(detail) = about_remotes(error) {
        return format!("{number} ({}) - {detail}", words(error, number));
    }
    let mut text = format!("{number} ({}) - {}", words(error, number), error.public());
    // The reader runs this program and may see its internal details.
    if let Some(private) = error.private() {
        text.push_str(&format!(" [{private}]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{PeerStatus, Phase, Side};

    #[test]
    fn a_file_for_tls_that_cannot_be_used_is_no_fault_of_a_client() {
        let failure = |detail: &str| {
            let error = Error::new(ErrorCode::BadRequest, Side::Active, Phase::Tls).with_detail(detail);
            Failure::of_tls_files("[server] certificate, key", error).message(Reader::Administrator)
        };
        let denied = failure("/etc/k.pem: Permission denied (os error 13)");
        assert!(
            denied.starts_with("[server] certificate, key: /etc/k.pem: Permission denied"),
            "{denied}"
        );
        assert!(
            denied.contains("LoadCredential=") && !denied.contains("client"),
            "{denied}"
        );
        let other = failure("/etc/k.pem: no usable private key: no items");
        assert!(
            !other.contains("LoadCredential=") && !other.contains("client"),
            "{other}"
        );
    }

    #[test]
    fn errors_have_gfals_form_and_exit_code() {
        let error = Error::new(ErrorCode::PeerNotFound, Side::Source, Phase::Open)
            .with_subject("https://a/f")
            .with_peer(Some(PeerStatus::Http(404)), "Not Found");
        let failure = Failure::from(error);
        assert_eq!(failure.exit_code, 2);
        assert!(
            failure
                .words
                .starts_with("2 (No such file or directory) - source open: "),
            "{}",
            failure.words
        );
        assert!(failure.words.contains("404: \"Not Found\""));
        assert_eq!(
            Failure::from(Error::new(ErrorCode::Exists, Side::Destination, Phase::Open)).exit_code,
            17
        );
        let away = |status| {
            let error = Error::new(ErrorCode::PeerFailed, Side::Active, Phase::Open);
            Failure::from(error.with_peer(Some(PeerStatus::Http(status)), "no"))
        };
        let unavailable = away(503);
        assert_eq!((unavailable.exit_code, away(500).exit_code), (11, 5));
        let message = unavailable.message(Reader::User);
        assert!(
            message.starts_with("11 (Resource temporarily unavailable)") && message.contains("next: Try again"),
            "{message}"
        );
        let denied = Failure::system("x", &std::io::Error::from_raw_os_error(13));
        assert_eq!(denied.exit_code, 13);
        let read_only = Failure::system("x", &std::io::Error::from_raw_os_error(30));
        let message = read_only.message(Reader::Administrator);
        assert!(message.contains("ReadWritePaths="), "{message}");
    }

    #[test]
    fn what_one_server_says_of_another_is_not_mended_with_our_options() {
        let untrusted = Error::new(ErrorCode::PeerTlsFailed, Side::Source, Phase::Tls);
        let ours = Failure::from(untrusted.clone()).message(Reader::User);
        let theirs = Failure::from(untrusted.with_reporter(Some(Side::Destination))).message(Reader::User);
        assert!(ours.contains("--cacert"), "{ours}");
        assert!(
            !theirs.contains("--cacert") && theirs.contains("The destination said so"),
            "{theirs}"
        );
    }

    #[test]
    fn each_reader_gets_advice_for_their_own_program() {
        let unusable = Failure::from(Error::new(ErrorCode::CertificateUnusable, Side::Active, Phase::Tls));
        let (user, administrator) = (unusable.message(Reader::User), unusable.message(Reader::Administrator));
        assert!(
            user.contains("; next: ") && user.contains("--proxy") && !user.contains("server.key"),
            "{user}"
        );
        assert!(
            administrator.contains("server.key") && !administrator.contains("--proxy"),
            "{administrator}"
        );
        let error = Error::new(ErrorCode::Exists, Side::Destination, Phase::Open);
        let own = Failure::advised(&error, "Do this.");
        assert!(own.message(Reader::User).ends_with("; next: Do this."));
        assert_eq!(Failure::invalid("no").message(Reader::User), "no");
    }
}
