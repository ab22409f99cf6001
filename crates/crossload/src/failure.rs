//! How the program ends when it fails: one line of words, and an exit code.

use config::Faults;
use types::{Error, ErrorCode};

/// The exit code of a failure that has no `errno` of its own (EINVAL).
const INVALID: u8 = 22;

/// Why the program fails.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) words: String,
    pub(crate) exit_code: u8,
}

impl Failure {
    /// A failure of our own, such as a configuration that cannot be used.
    pub(crate) fn invalid(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            exit_code: INVALID,
        }
    }

    /// A system call failed while doing `what`.
    pub(crate) fn system(what: impl std::fmt::Display, cause: &std::io::Error) -> Self {
        let exit_code = cause.raw_os_error().and_then(|number| u8::try_from(number).ok());
        Self {
            words: format!("{what}: {cause}"),
            exit_code: exit_code.unwrap_or(5),
        }
    }
}

impl From<Faults> for Failure {
    fn from(faults: Faults) -> Self {
        Self::invalid(format!("the configuration cannot be used\n{faults}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            words: describe(&error),
            exit_code: error.code().exit_code(),
        }
    }
}

impl Failure {
    /// A failure for which the table's advice is wrong, with advice of its own.
    pub(crate) fn advised(error: &Error, advice: &str) -> Self {
        Self {
            words: described(error, advice),
            exit_code: error.code().exit_code(),
        }
    }
}

/// An error in gfal's form: number, the system's words for it, the whole story, and what to do next.
pub(crate) fn describe(error: &Error) -> String {
    described(error, &error.code().for_our_client())
}

fn described(error: &Error, advice: &str) -> String {
    let number = error.code().exit_code();
    let mut text = format!("{number} ({}) - {}", system_words(number), error.public());
    // On a person's own machine nothing has to be hidden from that person.
    if let Some(private) = error.private() {
        text.push_str(&format!(" [{private}]"));
    }
    if error.code() != ErrorCode::ClientGone {
        text.push_str(&format!("; next: {advice}"));
    }
    text
}

/// The system's words for an error number.
fn system_words(number: u8) -> String {
    let words = std::io::Error::from_raw_os_error(i32::from(number)).to_string();
    words.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{PeerStatus, Phase, Side};

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
        assert!(failure.words.contains("404: \"Not Found\"") && failure.words.contains("; next: "));
        assert_eq!(
            Failure::from(Error::new(ErrorCode::Exists, Side::Destination, Phase::Open)).exit_code,
            17
        );
        let denied = Failure::system("x", &std::io::Error::from_raw_os_error(13));
        assert_eq!(denied.exit_code, 13);
    }
}
