//! How the transfer service FTS3 reports an error: `SCOPE [errno] text`.
//!
//! Services on top of FTS3 (Rucio, DIRAC) read these reasons. FTS3 itself uses scope, errno and
//! phrases in the text to decide whether to retry (fts3 `src/url-copy/heuristics.cpp`). Rucio looks
//! for the text "Destination file exists and overwrite is not enabled"
//! (`lib/rucio/transfertool/fts3.py`).

use super::{Error, Side};

/// The scope that a reason begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `SOURCE` or `DESTINATION`: the side at fault.
    Side,
    /// `TRANSFER`: it happened while data moved, on either side.
    Transfer,
    /// `GENERAL_FAILURE`: the fault of the service itself.
    General,
    /// `STAGING`: while tape brings the file online.
    Staging,
    /// `ARCHIVING`: while the copied file goes to tape.
    Archiving,
}

/// A reason without its errno, which is the row's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fts {
    /// Its scope.
    pub scope: Scope,
    /// Its text.
    pub text: &'static str,
}

impl Scope {
    /// The word for an error at `side`.
    #[must_use]
    pub fn word(self, side: Side) -> &'static str {
        match (self, side) {
            (Self::Side, Side::Source) => "SOURCE",
            (Self::Side, Side::Destination) => "DESTINATION",
            (Self::Side | Self::General, Side::Client | Side::Queue) | (Self::General, _) => "GENERAL_FAILURE",
            (Self::Side, Side::Active | Side::Upstream) | (Self::Transfer, _) => "TRANSFER",
            (Self::Staging, _) => "STAGING",
            (Self::Archiving, _) => "ARCHIVING",
        }
    }
}

impl Error {
    /// The error as FTS3 reports it, without subject and without the peer's words.
    #[must_use]
    pub fn fts_reason(&self) -> String {
        let row = self.code().row();
        format!("{} [{}] {}", row.fts.scope.word(self.side()), row.exit, row.fts.text)
    }

    /// The category under which FTS3's monitoring counts the error: the system's text for its errno
    /// in capitals (fts3 `mapErrnoToString`).
    #[must_use]
    pub fn fts_category(&self) -> &'static str {
        category(self.code().exit_code())
    }
}

/// The text for an errno in the C library of Linux.
fn category(errno: u8) -> &'static str {
    match errno {
        1 => "OPERATION_NOT_PERMITTED",
        2 => "NO_SUCH_FILE_OR_DIRECTORY",
        9 => "BAD_FILE_DESCRIPTOR",
        11 => "RESOURCE_TEMPORARILY_UNAVAILABLE",
        13 => "PERMISSION_DENIED",
        14 => "BAD_ADDRESS",
        16 => "DEVICE_OR_RESOURCE_BUSY",
        17 => "FILE_EXISTS",
        18 => "INVALID_CROSS-DEVICE_LINK",
        20 => "NOT_A_DIRECTORY",
        21 => "IS_A_DIRECTORY",
        22 => "INVALID_ARGUMENT",
        27 => "FILE_TOO_LARGE",
        28 => "NO_SPACE_LEFT_ON_DEVICE",
        30 => "READ-ONLY_FILE_SYSTEM",
        36 => "FILE_NAME_TOO_LONG",
        38 => "FUNCTION_NOT_IMPLEMENTED",
        39 => "DIRECTORY_NOT_EMPTY",
        40 => "TOO_MANY_LEVELS_OF_SYMBOLIC_LINKS",
        56 => "INVALID_REQUEST_CODE",
        61 => "NO_DATA_AVAILABLE",
        71 => "PROTOCOL_ERROR",
        84 => "INVALID_OR_INCOMPLETE_MULTIBYTE_OR_WIDE_CHARACTER",
        90 => "MESSAGE_TOO_LONG",
        91 => "PROTOCOL_WRONG_TYPE_FOR_SOCKET",
        95 => "OPERATION_NOT_SUPPORTED",
        104 => "CONNECTION_RESET_BY_PEER",
        109 => "TOO_MANY_REFERENCES:_CANNOT_SPLICE",
        110 => "CONNECTION_TIMED_OUT",
        112 => "HOST_IS_DOWN",
        122 => "DISK_QUOTA_EXCEEDED",
        125 => "OPERATION_CANCELED",
        _ => "INPUT/OUTPUT_ERROR",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ErrorCode, Phase, Retry};

    /// Phrases that FTS3 treats as final, anywhere in the text.
    const FINAL: [&str; 9] = [
        "proxy expired",
        "File exists",
        "No such file or directory",
        "The certificate has expired",
        "The available CRL has expired",
        "Can not determine address of local host",
        "Permission denied",
        "checksum do not match",
        "CHECKSUM MISMATCH",
    ];

    /// Phrases that make FTS3 retry, anywhere in the text.
    const PASSING: [&str; 5] = [
        "performance marker",
        "Name or service not known",
        "Connection timed out",
        "end-of-file was reached",
        "operation timeout",
    ];

    #[test]
    fn fts_retries_when_the_table_says_so() {
        for code in ErrorCode::ALL {
            let text = code.row().fts.text;
            assert!(text.len() > 8 && !text.ends_with('.'), "{code:?}: {text}");
            let (is_final, passes) = (
                FINAL.iter().any(|phrase| text.contains(phrase)),
                PASSING.iter().any(|phrase| text.contains(phrase)),
            );
            match code.retry() {
                Retry::Yes => assert!(!is_final, "{code:?}: {text}"),
                Retry::No => assert!(!passes, "{code:?}: {text}"),
                Retry::PeerDecides => assert!(!is_final && !passes, "{code:?}: {text}"),
            }
        }
    }

    #[test]
    fn every_category_is_the_systems_text() {
        for code in ErrorCode::ALL {
            let words = std::io::Error::from_raw_os_error(i32::from(code.exit_code())).to_string();
            let words = words
                .split(" (os error")
                .next()
                .unwrap()
                .replace(' ', "_")
                .to_uppercase();
            assert_eq!(category(code.exit_code()), words, "{code:?}");
        }
    }

    #[test]
    fn a_reason_has_the_scope_of_its_side() {
        let at = |code, side| Error::new(code, side, Phase::Open).fts_reason();
        assert_eq!(
            at(ErrorCode::Exists, Side::Destination),
            "DESTINATION [17] Destination file exists and overwrite is not enabled"
        );
        assert_eq!(
            at(ErrorCode::PeerNotFound, Side::Source),
            "SOURCE [2] No such file or directory"
        );
        assert_eq!(
            at(ErrorCode::Cancelled, Side::Source),
            "TRANSFER [125] Transfer canceled"
        );
        assert_eq!(
            at(ErrorCode::StagingExpired, Side::Source),
            "STAGING [110] bring-online timeout has been exceeded"
        );
        assert_eq!(
            at(ErrorCode::ArchivingExpired, Side::Destination),
            "ARCHIVING [110] archiving timeout has been exceeded"
        );
        assert!(at(ErrorCode::Internal, Side::Active).starts_with("GENERAL_FAILURE [5] "));
        assert!(at(ErrorCode::NotFound, Side::Client).starts_with("GENERAL_FAILURE [2] "));
        assert!(at(ErrorCode::NotFound, Side::Active).starts_with("TRANSFER [2] "));
    }
}
