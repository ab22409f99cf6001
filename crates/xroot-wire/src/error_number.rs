//! The error numbers of the protocol, and how the house's codes become them and are made of them.
//!
//! What the door answers is a column of the one table of codes in `types`; what the client makes of
//! a peer's number is the table here.

use std::fmt;

use types::{Error, ErrorCode, PeerStatus, Phase, Side};

/// A number in an error answer. Numbers without a name here are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorNumber(pub u32);

macro_rules! numbers {
    ($($(#[$doc:meta])* $constant:ident = $number:literal $name:literal $peer:ident;)*) => {
        impl ErrorNumber {
            $($(#[$doc])* pub const $constant: Self = Self($number);)*

            /// All numbers that have a name.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];

            /// The protocol's name for it, without its prefix.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self.0 { $($number => $name,)* _ => "unknown" }
            }

            /// The code for a peer that answered with this number.
            #[must_use]
            pub fn peer_code(self) -> ErrorCode {
                match self.0 { $($number => ErrorCode::$peer,)* _ => ErrorCode::PeerFailed }
            }
        }
    };
}

numbers! {
    /// A value is wrong.
    ARGUMENT_INVALID = 3000 "ArgInvalid" PeerFailed;
    /// A path or another payload is missing.
    ARGUMENT_MISSING = 3001 "ArgMissing" PeerFailed;
    /// A payload or vector is too long.
    ARGUMENT_TOO_LONG = 3002 "ArgTooLong" PeerFailed;
    /// Others have the file open.
    FILE_LOCKED = 3003 "FileLocked" PeerFailed;
    /// The handle is of no open file, or of one that was not opened for this.
    FILE_NOT_OPEN = 3004 "FileNotOpen" PeerFailed;
    /// Anything that the file system says and that has no number of its own.
    FILE_SYSTEM = 3005 "FSError" PeerFailed;
    /// Not allowed at this point of the session, or not known at all.
    INVALID_REQUEST = 3006 "InvalidRequest" PeerFailed;
    /// Reading or writing failed.
    INPUT_OUTPUT = 3007 "IOError" PeerFailed;
    /// No memory, or an item larger than any buffer.
    NO_MEMORY = 3008 "NoMemory" PeerFailed;
    /// The disk is full.
    NO_SPACE = 3009 "NoSpace" PeerNoSpace;
    /// No right to do this.
    NOT_AUTHORIZED = 3010 "NotAuthorized" PeerForbidden;
    /// No such file, directory or session.
    NOT_FOUND = 3011 "NotFound" PeerNotFound;
    /// Something is wrong inside of the server.
    SERVER = 3012 "ServerError" PeerFailed;
    /// Not offered.
    UNSUPPORTED = 3013 "Unsupported" PeerUnsupported;
    /// A redirector found no server.
    NO_SERVER = 3014 "noserver" PeerFailed;
    /// It is no file.
    NOT_FILE = 3015 "NotFile" PeerFailed;
    /// It is a directory.
    IS_DIRECTORY = 3016 "isDirectory" IsDirectory;
    /// Given up.
    CANCELLED = 3017 "Cancelled" PeerFailed;
    /// It exists.
    EXISTS = 3018 "ItExists" PeerExists;
    /// A checksum is wrong.
    CHECKSUM = 3019 "ChkSumErr" ChecksumMismatch;
    /// It is being done.
    IN_PROGRESS = 3020 "inProgress" PeerFailed;
    /// No quota left.
    OVER_QUOTA = 3021 "overQuota" PeerNoSpace;
    /// The request is not signed, or wrongly.
    SIGNATURE = 3022 "SigVerErr" PeerDenied;
    /// Something cannot be decrypted.
    DECRYPTION = 3023 "DecryptErr" PeerDenied;
    /// Too much to do; later perhaps.
    OVERLOADED = 3024 "Overloaded" PeerFailed;
    /// Nothing can be written there.
    READ_ONLY = 3025 "fsReadOnly" PeerForbidden;
    /// The payload cannot be understood.
    BAD_PAYLOAD = 3026 "BadPayload" PeerFailed;
    /// No such attribute.
    ATTRIBUTE_NOT_FOUND = 3027 "AttrNotFound" AttributeNotFound;
    /// Not without TLS.
    TLS_REQUIRED = 3028 "TLSRequired" TlsRequired;
    /// No other replicas.
    NO_REPLICAS = 3029 "noReplicas" PeerNotFound;
    /// The credential was refused; the client may try another protocol.
    AUTHENTICATION_FAILED = 3030 "AuthFailed" PeerDenied;
    /// It cannot be done.
    IMPOSSIBLE = 3031 "Impossible" PeerUnsupported;
    /// It contradicts something else.
    CONFLICT = 3032 "Conflict" PeerFailed;
    /// Too many damaged pages.
    TOO_MANY_ERRORS = 3033 "TooManyErrs" PeerFailed;
    /// It took too long.
    TIMED_OUT = 3034 "ReqTimedOut" PeerStalled;
    /// A timer went off.
    TIMER_EXPIRED = 3035 "TimerExpired" PeerStalled;
}

impl ErrorNumber {
    /// The error for a peer that answered with this number and these words. The side is corrected
    /// by the caller with [`Error::at_side`].
    #[must_use]
    pub fn to_peer_error(self, words: &str) -> Error {
        let code = self.peer_code();
        let phase = match code {
            ErrorCode::PeerDenied | ErrorCode::TlsRequired => Phase::Authenticate,
            ErrorCode::PeerForbidden => Phase::Authorize,
            ErrorCode::ChecksumMismatch => Phase::Checksum,
            _ => Phase::Open,
        };
        Error::new(code, Side::Source, phase).with_peer(Some(PeerStatus::Xrootd(self.0)), words)
    }
}

impl From<ErrorCode> for ErrorNumber {
    fn from(code: ErrorCode) -> Self {
        Self(u32::from(code.xroot_error()))
    }
}

impl fmt::Debug for ErrorNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.0, self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_answered_with_a_number_that_has_a_name() {
        for code in ErrorCode::ALL {
            let number = ErrorNumber::from(*code);
            assert_ne!(number.name(), "unknown", "{code:?}");
        }
    }

    #[test]
    fn what_decides_a_clients_next_step_survives_both_ways() {
        for (ours, peers) in [
            (ErrorCode::NotFound, ErrorCode::PeerNotFound),
            (ErrorCode::Forbidden, ErrorCode::PeerForbidden),
            (ErrorCode::Exists, ErrorCode::PeerExists),
            (ErrorCode::NoSpace, ErrorCode::PeerNoSpace),
            (ErrorCode::QuotaExceeded, ErrorCode::PeerNoSpace),
            (ErrorCode::IsDirectory, ErrorCode::IsDirectory),
            (ErrorCode::NotImplemented, ErrorCode::PeerUnsupported),
            (ErrorCode::ChecksumMismatch, ErrorCode::ChecksumMismatch),
            (ErrorCode::AuthenticationFailed, ErrorCode::PeerDenied),
            (ErrorCode::TlsRequired, ErrorCode::TlsRequired),
        ] {
            assert_eq!(ErrorNumber::from(ours).peer_code(), peers);
        }
        assert_eq!(ErrorNumber(4711).peer_code(), ErrorCode::PeerFailed);
    }

    #[test]
    fn a_peers_number_and_words_are_kept() {
        let error = ErrorNumber::NOT_FOUND.to_peer_error("no such file");
        assert_eq!(error.peer_status(), Some(PeerStatus::Xrootd(3011)));
        assert_eq!(error.peer_words(), Some("no such file"));
    }
}
