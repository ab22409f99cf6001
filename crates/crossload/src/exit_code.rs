//! Exit codes: each has one meaning in a command, or is what gfal's tools end with
//! (`docs/exit-codes.md`).

use types::{Error, ErrorCode, PeerStatus};

/// Chooses gfal's codes: `CROSSLOAD_EXIT_CODES=gfal`.
const VARIABLE: &str = "CROSSLOAD_EXIT_CODES";

/// Some of several files failed, or were left out.
pub(crate) const SOME_FAILED: u8 = 1;
/// What was asked is not so: trees or checksums differ, or a file is not on tape. gfal's tools end
/// with 1.
const NO: u8 = 3;
const NO_OF_GFAL: u8 = 1;
/// EBADMSG, for data that are not what they should be.
const DAMAGED: u8 = 74;
/// ENODATA, for a checksum that no server has.
const NO_DATA: u8 = 61;
/// EPERM. It is also [`SOME_FAILED`], so that a refusal is EACCES.
const NOT_PERMITTED: u8 = 1;
/// EACCES.
const DENIED: u8 = 13;
/// EINVAL, for an invalid command line. `argparse` of gfal's tools ends with ENOENT's number.
const INVALID: u8 = 22;
const GFAL_USAGE: u8 = 2;
/// EPROTO, for TLS that cannot be set up.
const PROTOCOL: u8 = 71;
/// What the system can say of a host or port to which no connection is possible: ENETDOWN,
/// ENETUNREACH, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH. With the first two, there is no route.
const UNREACHABLE: [(u8, u8); 5] = [(100, 113), (101, 113), (111, 111), (112, 112), (113, 113)];
/// EHOSTUNREACH, for a host without an address.
const UNKNOWN_HOST: u8 = 113;

/// Which exit codes the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitCodes {
    /// One meaning each.
    Own,
    /// Those of gfal's tools.
    Gfal,
    /// Those of `xrdcp` and `xrdfs`.
    Xrootd,
}

impl ExitCodes {
    /// As the environment says, or those of the program whose command line was given.
    pub(crate) fn chosen() -> Self {
        match std::env::var(VARIABLE).as_deref() {
            Ok("gfal") => Self::Gfal,
            _ => std::env::args()
                .nth(1)
                .map_or(Self::Own, |word| Self::of_program(&word)),
        }
    }

    /// Those of the program that the first argument names.
    fn of_program(word: &str) -> Self {
        match word {
            "xrdcp" | "xrdcopy" | "xrdfs" => Self::Xrootd,
            gfal if gfal.starts_with("gfal-") => Self::Gfal,
            _ => Self::Own,
        }
    }

    /// Those that messages speak of: numbers of the system, whatever the program ends with.
    pub(crate) fn in_words(self) -> Self {
        match self {
            Self::Xrootd => Self::Own,
            same => same,
        }
    }

    /// The code of a failure.
    pub(crate) fn of(self, error: &Error) -> u8 {
        let number = error.code().exit_code();
        match (error.code(), self) {
            (_, Self::Xrootd) => of_xrootd(error),
            _ if is_unavailable(error) => ErrorCode::Overloaded.exit_code(),
            (ErrorCode::PeerUnresolved, _) => UNKNOWN_HOST,
            (_, Self::Gfal) => number,
            (ErrorCode::PeerUnreachable, Self::Own) => unreachable_by(error).unwrap_or(number),
            (ErrorCode::PeerTlsFailed | ErrorCode::PeerUntrusted, Self::Own) => PROTOCOL,
            (code, Self::Own) if is_about_data(code) => DAMAGED,
            (ErrorCode::ChecksumUnavailable, Self::Own) => NO_DATA,
            (_, Self::Own) => named_by_peer(error).map_or_else(|| self.of_errno(number), ErrorCode::exit_code),
        }
    }

    /// The code of a failed system call.
    pub(crate) fn of_errno(self, number: u8) -> u8 {
        match (self, number) {
            (Self::Own, NOT_PERMITTED) => DENIED,
            _ => number,
        }
    }

    /// The code for several files when some failed, the last one with `last`.
    pub(crate) fn of_several(self, last: u8) -> u8 {
        match self {
            Self::Own => SOME_FAILED,
            Self::Gfal | Self::Xrootd => last,
        }
    }

    /// The code of a command that asks whether something is so, if it is not.
    pub(crate) fn of_no(self) -> u8 {
        match self {
            Self::Own => NO,
            Self::Gfal | Self::Xrootd => NO_OF_GFAL,
        }
    }

    /// The code where a server is to copy, and source or destination is at none (EOPNOTSUPP of
    /// `xrdcp`).
    pub(crate) fn of_no_third_party(self) -> u8 {
        match self {
            Self::Xrootd => 50,
            other => other.of_usage(),
        }
    }

    /// The code of an invalid command line.
    pub(crate) fn of_usage(self) -> u8 {
        match self {
            Self::Own | Self::Xrootd => INVALID,
            Self::Gfal => GFAL_USAGE,
        }
    }
}

/// The code of a run of tests that could not begin: 1 and 2 say how its tests ended.
pub(crate) fn not_begun(code: u8) -> u8 {
    match code {
        1 | 2 => INVALID,
        other => other,
    }
}

/// What `xrdcp` and `xrdfs` 5.5 end with: 50 and the hundreds of their own number of the failure
/// (`XrdClStatus.hh`). They look for local sources before anything else, and end with ENOENT.
fn of_xrootd(error: &Error) -> u8 {
    let is_remote = error.subject().is_some_and(|subject| subject.contains("://"));
    match error.code() {
        ErrorCode::NotFound => 2,
        ErrorCode::Exists | ErrorCode::PeerExists if is_remote => 50,
        ErrorCode::PeerUnreachable | ErrorCode::PeerUnresolved => 51,
        ErrorCode::PeerTlsFailed | ErrorCode::PeerUntrusted => 52,
        ErrorCode::ChecksumMismatch | ErrorCode::ChecksumPrecondition => 53,
        _ => 54,
    }
}

/// A server says that it can do this later (503, RFC 9110 §15.6.4), as a redirector without an
/// answer of its nodes.
fn is_unavailable(error: &Error) -> bool {
    error.code() == ErrorCode::PeerFailed
        && error.peer_status() == Some(PeerStatus::Http(ErrorCode::NodesSilent.http_status()))
}

/// What the peer's answer says more exactly than the code of its refusal: the quota is used up, the
/// export is read-only, the file is too large or locked, or the server has too much to do.
pub(crate) fn named_by_peer(error: &Error) -> Option<ErrorCode> {
    let words = error.peer_words().unwrap_or_default().to_ascii_lowercase();
    let is_read_only = error.peer_status() == Some(PeerStatus::Xrootd(ErrorCode::ReadOnly.xroot_error().into()))
        || words.contains("export is read-only")
        || words.contains("read-only file system");
    match (error.code(), error.peer_status()) {
        (ErrorCode::PeerNoSpace, _) if words.contains("quota") => Some(ErrorCode::QuotaExceeded),
        (ErrorCode::PeerForbidden | ErrorCode::PeerDenied, _) if is_read_only => Some(ErrorCode::ReadOnly),
        (ErrorCode::PeerFailed | ErrorCode::ParentMissing, _) if words.contains("not a directory") => {
            Some(ErrorCode::NotDirectory)
        }
        (ErrorCode::PeerFailed, Some(status)) => code_of_status(status),
        _ => None,
    }
}

/// Statuses of servers that have a code of their own: RFC 9110 §15.5, RFC 4918 §11.3, RFC 6585 §4,
/// and the error numbers `FileLocked` and `Overloaded` of the XRootD protocol. They are those with
/// which our own server answers these errors.
fn code_of_status(status: PeerStatus) -> Option<ErrorCode> {
    let http = |code: ErrorCode| PeerStatus::Http(code.http_status());
    let xrootd = |code: ErrorCode| PeerStatus::Xrootd(code.xroot_error().into());
    let known = [
        (http(ErrorCode::HeadTimeout), ErrorCode::PeerStalled),
        (http(ErrorCode::BodyTooLarge), ErrorCode::BodyTooLarge),
        (http(ErrorCode::Locked), ErrorCode::Locked),
        (http(ErrorCode::ShareUsedUp), ErrorCode::Overloaded),
        (http(ErrorCode::Overloaded), ErrorCode::Overloaded),
        (http(ErrorCode::PeerStalled), ErrorCode::PeerStalled),
        (xrootd(ErrorCode::Busy), ErrorCode::Busy),
        (xrootd(ErrorCode::Overloaded), ErrorCode::Overloaded),
    ];
    let found = known.iter().find(|(known, _)| *known == status);
    found.map(|(_, code)| *code)
}

/// Whether data are not what they should be: their checksum or their size.
fn is_about_data(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::ChecksumMismatch
            | ErrorCode::ChecksumPrecondition
            | ErrorCode::PeerSizeDiffers
            | ErrorCode::SourceChanged
    )
}

/// The number of the system's words for a failed connection.
fn unreachable_by(error: &Error) -> Option<u8> {
    let detail = error.detail()?;
    let known = UNREACHABLE
        .into_iter()
        .find(|(number, _)| system_words(*number) == detail);
    known.map(|(_, code)| code)
}

/// A failure's words beside its code: the system's for the number, where they say what happened.
pub(crate) fn words(error: &Error, number: u8) -> String {
    match (error.code(), number) {
        (ErrorCode::PeerUnresolved, UNKNOWN_HOST) => "Unknown host".to_owned(),
        (ErrorCode::PeerTlsFailed | ErrorCode::PeerUntrusted, PROTOCOL) => "TLS failed".to_owned(),
        (code, DAMAGED) if is_about_data(code) => "The data differ".to_owned(),
        _ => system_words(number),
    }
}

/// The system's words for an error number.
fn system_words(number: u8) -> String {
    let words = std::io::Error::from_raw_os_error(i32::from(number)).to_string();
    words.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use types::{Phase, Side};

    use super::*;

    fn error(code: ErrorCode) -> Error {
        Error::new(code, Side::Active, Phase::Connect)
    }

    #[test]
    fn a_host_is_down_only_when_it_is() {
        for (code, detail, number, shown) in [
            (
                ErrorCode::PeerUnreachable,
                "Connection refused",
                111,
                "Connection refused",
            ),
            (ErrorCode::PeerUnreachable, "No route to host", 113, "No route to host"),
            // 101 is what a program in Rust ends with that has a fault.
            (
                ErrorCode::PeerUnreachable,
                "Network is unreachable",
                113,
                "No route to host",
            ),
            (ErrorCode::PeerUnreachable, "Host is down", 112, "Host is down"),
            (
                ErrorCode::PeerTlsFailed,
                "the certificate has expired",
                71,
                "TLS failed",
            ),
            (ErrorCode::PeerUntrusted, "", 71, "TLS failed"),
        ] {
            let error = error(code).with_detail(detail);
            assert_eq!(ExitCodes::Own.of(&error), number, "{detail}");
            assert_eq!(words(&error, number), shown, "{detail}");
            assert_eq!(ExitCodes::Gfal.of(&error), 112, "{detail}");
            assert_eq!(words(&error, 112), "Host is down", "{detail}");
        }
        // gfal says so too.
        for codes in [ExitCodes::Own, ExitCodes::Gfal] {
            let unknown = error(ErrorCode::PeerUnresolved);
            assert_eq!(codes.of(&unknown), 113);
            assert_eq!(words(&unknown, 113), "Unknown host");
        }
    }

    #[test]
    fn the_peer_may_name_the_quota_or_a_read_only_export() {
        for (code, status, peer, number) in [
            (
                ErrorCode::PeerNoSpace,
                PeerStatus::Http(507),
                "client write: Disk quota exceeded, /small/f [quota_exceeded]",
                122,
            ),
            (ErrorCode::PeerNoSpace, PeerStatus::Xrootd(3009), "no space left", 28),
            (
                ErrorCode::PeerForbidden,
                PeerStatus::Http(403),
                "the export is read-only: no client may create",
                30,
            ),
            (ErrorCode::PeerForbidden, PeerStatus::Xrootd(3025), "no", 30),
            (ErrorCode::PeerForbidden, PeerStatus::Http(403), "Forbidden", 13),
            (
                ErrorCode::PeerFailed,
                PeerStatus::Http(409),
                "open: Not a directory, /f/g",
                20,
            ),
            (ErrorCode::ParentMissing, PeerStatus::Http(409), "Not a directory", 20),
            (
                ErrorCode::PeerFailed,
                PeerStatus::Xrootd(3005),
                "Unable to mkdir /f/g; not a directory",
                20,
            ),
            (ErrorCode::PeerFailed, PeerStatus::Http(413), "too large", 27),
            (ErrorCode::PeerFailed, PeerStatus::Http(423), "locked", 16),
            (ErrorCode::PeerFailed, PeerStatus::Http(429), "slow down", 11),
            (ErrorCode::PeerFailed, PeerStatus::Http(503), "later", 11),
            (ErrorCode::PeerFailed, PeerStatus::Http(504), "gateway", 110),
            (ErrorCode::PeerFailed, PeerStatus::Http(500), "fault", 5),
            (ErrorCode::PeerFailed, PeerStatus::Xrootd(3003), "open", 16),
            (ErrorCode::PeerFailed, PeerStatus::Xrootd(3024), "load", 11),
        ] {
            let refused = error(code).with_peer(Some(status), peer);
            assert_eq!(ExitCodes::Own.of(&refused), number, "{peer}");
        }
    }

    #[test]
    fn one_says_only_that_some_failed_and_three_only_no() {
        for code in ErrorCode::ALL.iter().copied() {
            let number = ExitCodes::Own.of(&error(code));
            assert!(![0, SOME_FAILED, NO].contains(&number), "{code:?}");
        }
        let mismatch = error(ErrorCode::ChecksumMismatch);
        assert_eq!((ExitCodes::Own.of(&mismatch), ExitCodes::Gfal.of(&mismatch)), (74, 5));
        assert_eq!(ExitCodes::Own.of(&error(ErrorCode::ChecksumUnavailable)), 61);
        assert_eq!((ExitCodes::Own.of_no(), ExitCodes::Gfal.of_no()), (3, 1));
        let forbidden = error(ErrorCode::PeerForbidden);
        assert_eq!((ExitCodes::Own.of(&forbidden), ExitCodes::Gfal.of(&forbidden)), (13, 1));
        assert_eq!((ExitCodes::Own.of_several(17), ExitCodes::Gfal.of_several(17)), (1, 17));
        assert_eq!((ExitCodes::Own.of_usage(), ExitCodes::Gfal.of_usage()), (22, 2));
        for (word, codes) in [
            ("copy", ExitCodes::Own),
            ("gfal-copy", ExitCodes::Gfal),
            ("xrdcp", ExitCodes::Xrootd),
            ("xrdfs", ExitCodes::Xrootd),
        ] {
            assert_eq!(ExitCodes::of_program(word), codes, "{word}");
        }
    }

    #[test]
    fn each_code_is_in_the_help_and_on_its_page() {
        let page = include_str!("../../../docs/exit-codes.md");
        let row = |line: &str| {
            line.split_whitespace()
                .next()
                .and_then(|first| first.parse::<u8>().ok())
        };
        let help = crate::command_line::EXIT_CODES.lines();
        let help: Vec<(u8, &str)> = help.filter_map(|line| Some((row(line)?, line))).collect();
        for (number, line) in &help {
            let meaning = line
                .trim_start()
                .trim_start_matches(|digit: char| digit.is_ascii_digit())
                .trim();
            assert!(page.contains(&format!("| {number} | {meaning}")), "{line}");
        }
        for code in ErrorCode::ALL.iter().copied() {
            let number = ExitCodes::Own.of(&error(code));
            assert!(page.contains(&format!("\n| {number} | ")), "{code:?}: {number}");
        }
        assert!(help.len() > 10 && page.contains(VARIABLE), "{}", help.len());
    }
}
