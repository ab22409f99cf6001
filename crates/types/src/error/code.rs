//! The error codes and the table that describes them.

use super::row::{AnotherWay, Retry, Row};
use super::rows::FAMILIES;
use super::s3::S3;

/// A stable error code, in table order: requests, rights, names and space, peers, the
/// queue, the server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant's meaning is in the table")]
pub enum ErrorCode {
    BadRequest,
    BadUrl,
    HeadTooLarge,
    LengthRequired,
    BodyTooLarge,
    UnsupportedMediaType,
    MethodNotAllowed,
    Misdirected,
    NotImplemented,
    DepthInfinite,
    NoMacaroons,
    CredentialUnsupported,
    HeadTimeout,
    RangeUnsatisfiable,
    NotCached,
    PreconditionFailed,
    ArgumentMissing,
    FileNotOpen,
    OutOfSequence,
    AttributeNotFound,
    Unauthenticated,
    InvalidToken,
    TokenMalformed,
    TokenTooLarge,
    TokenAlgorithm,
    TokenIssuerUnknown,
    TokenIssuerUnreachable,
    TokenKeyUnknown,
    TokenSignature,
    TokenExpired,
    TokenNotYetValid,
    TokenAudience,
    TokenProfile,
    TokenClaims,
    TokenScope,
    Forbidden,
    AuthenticationFailed,
    SignInFailed,
    TlsRequired,
    SignatureRefused,
    CapabilityInvalid,
    CapabilityExpired,
    CapabilityUsed,
    CapabilityAddress,
    DelegationMissing,
    DelegationRefused,
    DelegationExpired,
    UserUnknown,
    UserRefused,
    UsersUnavailable,
    PeerAddressRefused,
    HostNotAllowed,
    CertificateMalformed,
    CertificateUntrusted,
    CertificateSignature,
    CertificateWeak,
    CertificateNotYetValid,
    CertificateRevoked,
    CertificateRevocationUnknown,
    CertificateNameRefused,
    CertificateUnsuitable,
    CertificateChainTooLong,
    ProxyInvalid,
    ProxyLegacy,
    ProxyTooDeep,
    ProxyWidened,
    ProxyPolicyRefused,
    CertificateExpired,
    CertificateUnusable,
    NotFound,
    PathRefused,
    NameTooLong,
    Exists,
    DirectoryExists,
    ParentMissing,
    IsDirectory,
    NotDirectory,
    NotEmpty,
    SymlinkEscapes,
    CrossExport,
    Locked,
    LockUnknown,
    Busy,
    UploadInterrupted,
    ReadOnly,
    NoSpace,
    QuotaExceeded,
    ChecksumMismatch,
    ChecksumPrecondition,
    ChecksumPending,
    ChecksumUnavailable,
    TooManyPageErrors,
    PeerUnresolved,
    PeerUnreachable,
    PeerConnectTimeout,
    PeerTlsFailed,
    PeerUntrusted,
    PeerDenied,
    PeerForbidden,
    SignatureExpired,
    PeerNotFound,
    PeerExists,
    PeerNoSpace,
    PeerUnsupported,
    PeerFailed,
    PeerMisbehaved,
    PeerClosed,
    PeerStalled,
    OutcomeUnknown,
    PeerSizeDiffers,
    SourceChanged,
    TooManyRedirects,
    JobExists,
    JobTerminal,
    IdempotencyKeyReused,
    QueueExpired,
    CatalogUnavailable,
    CatalogFull,
    CatalogDamaged,
    CatalogNewer,
    StagingFailed,
    StagingExpired,
    ArchivingFailed,
    ArchivingExpired,
    PeerOnTape,
    PeerLocalityUnknown,
    NodesSilent,
    NodesRefuse,
    NoNode,
    SeveralCopies,
    NotHere,
    JustStarted,
    ClientGone,
    BodyIncomplete,
    BodyStalled,
    Cancelled,
    EndedByOperator,
    TooLate,
    NotShown,
    PageForbidden,
    Overloaded,
    ShareUsedUp,
    Draining,
    StorageFailed,
    Internal,
}

/// How many codes exist.
const COUNT: usize = ErrorCode::Internal as usize + 1;

/// All rows, indexed by code.
static TABLE: [&Row; COUNT] = table();

/// Fails the build if a code has no row, or its row is out of order.
const fn table() -> [&'static Row; COUNT] {
    let mut table = [&FAMILIES[0].rows[0]; COUNT];
    let mut placed = 0;
    let mut family = 0;
    while family < FAMILIES.len() {
        let mut index = 0;
        while index < FAMILIES[family].rows.len() {
            let row = &FAMILIES[family].rows[index];
            assert!(row.code as usize == placed, "the rows are in the order of the codes");
            table[placed] = row;
            placed += 1;
            index += 1;
        }
        family += 1;
    }
    assert!(placed == COUNT, "each code has a row");
    table
}

const fn all() -> [ErrorCode; COUNT] {
    let mut codes = [ErrorCode::Internal; COUNT];
    let mut index = 0;
    while index < COUNT {
        codes[index] = table()[index].code;
        index += 1;
    }
    codes
}

impl ErrorCode {
    /// All codes in table order.
    pub const ALL: &'static [Self] = &all();

    /// The code's row in the table.
    #[must_use]
    pub fn row(self) -> &'static Row {
        TABLE[self as usize]
    }

    /// The name in logs, metrics and JSON. It never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The HTTP status of the answer.
    #[must_use]
    pub fn http_status(self) -> u16 {
        self.row().http
    }

    /// The error number in the XRootD protocol, from 3000 up.
    #[must_use]
    pub fn xroot_error(self) -> u16 {
        self.row().xrootd
    }

    /// The error in the S3 protocol.
    #[must_use]
    pub fn s3(self) -> S3 {
        self.row().s3
    }

    /// The client's exit code: the `errno` that gfal's tools use for the same case.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        self.row().exit
    }

    /// Whether another attempt can help.
    #[must_use]
    pub fn retry(self) -> Retry {
        self.row().retry
    }

    /// Whether the file may arrive another way.
    #[must_use]
    pub fn another_way(self) -> AnotherWay {
        self.row().another_way
    }

    /// What happened, as one sentence without a full stop.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.row().meaning
    }

    /// What the user of any client can do.
    #[must_use]
    pub fn for_client(self) -> &'static str {
        self.row().for_client
    }

    /// What the user of our client can do, with its options.
    #[must_use]
    pub fn for_our_client(self) -> String {
        let row = self.row();
        match row.client_options {
            "" => row.for_client.to_owned(),
            options => format!("{} {options}", row.for_client),
        }
    }

    /// What the administrator of the server can do.
    #[must_use]
    pub fn for_administrator(self) -> &'static str {
        self.row().for_administrator
    }

    /// Whether a credential is missing, invalid or insufficient, here or at a peer: the XRootD
    /// protocol's "not authorized" (3010) or "authentication failed" (3030).
    #[must_use]
    pub fn denies_access(self) -> bool {
        matches!(self.xroot_error(), 3010 | 3030)
    }

    /// Whether the bearer token itself was refused, so that the client must get another one (RFC
    /// 6750 §3.1, `invalid_token`).
    #[must_use]
    pub fn refuses_token(self) -> bool {
        self == Self::InvalidToken || self.name().starts_with("token_")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_plain() {
        let names: HashSet<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        assert!(names.iter().all(|name| {
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
        }));
    }

    #[test]
    fn a_refused_token_is_401() {
        for code in ErrorCode::ALL.iter().filter(|code| code.refuses_token()) {
            assert_eq!((code.http_status(), code.xroot_error()), (401, 3010), "{code:?}");
        }
    }

    #[test]
    fn only_what_a_credential_could_change_is_a_denial() {
        for code in ErrorCode::ALL.iter().filter(|code| code.http_status() == 401) {
            assert!(code.denies_access(), "{code:?}");
        }
        assert!(ErrorCode::PeerDenied.denies_access() && ErrorCode::PeerForbidden.denies_access());
        for code in [
            ErrorCode::MethodNotAllowed,
            ErrorCode::ReadOnly,
            ErrorCode::PeerNotFound,
        ] {
            assert!(!code.denies_access(), "{code:?}");
        }
    }

    #[test]
    fn every_row_can_be_sent() {
        for code in ErrorCode::ALL {
            assert!((400..600).contains(&code.http_status()), "{code:?}");
            assert!((3000..=3035).contains(&code.xroot_error()), "{code:?}");
            assert!((400..600).contains(&code.s3().status()), "{code:?}");
            assert_ne!(code.exit_code(), 0, "{code:?}");
        }
    }

    #[test]
    fn every_row_has_a_sentence_for_each_reader() {
        for code in ErrorCode::ALL {
            let row = code.row();
            assert!(!row.meaning.is_empty() && !row.meaning.ends_with('.'), "{code:?}");
            for sentence in [row.for_client, row.for_administrator] {
                assert!(sentence.len() > 8 && sentence.ends_with('.'), "{code:?}: {sentence}");
            }
            assert!(
                row.client_options.is_empty() || row.client_options.ends_with('.'),
                "{code:?}"
            );
        }
    }

    /// Client options mean nothing to an administrator, configuration keys mean nothing to a
    /// client, and header names of other programs mean nothing to either.
    #[test]
    fn each_reader_gets_the_words_of_their_own_program() {
        for code in ErrorCode::ALL {
            let row = code.row();
            for foreign in [
                "[[",
                "tpc.",
                "limits.",
                "x509.",
                "hand_over.",
                "TransferHeader",
                "Credential:",
            ] {
                assert!(!code.for_our_client().contains(foreign), "{code:?}: {foreign}");
            }
            assert!(!row.for_client.contains("--"), "{code:?}: any client may read this");
            assert!(!row.for_administrator.contains("--"), "{code:?}");
            assert!(!row.for_administrator.contains("TransferHeader"), "{code:?}");
        }
    }
}
