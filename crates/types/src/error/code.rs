//! The table of error codes: the single source of the stable names, of the answers that the doors
//! give, of the client's exit codes, and of the manual's table.
//!
//! Meanings use the operating system's customary phrases where one exists, because transfer
//! services classify failures by such phrases.

/// Whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It will fail again until somebody changes something.
    No,
    /// It depends on the status that the peer answered with.
    PeerDecides,
    /// The same attempt may well succeed later.
    Yes,
}

macro_rules! codes {
    ($($variant:ident $name:literal $http:literal $xroot:literal $exit:literal $retry:ident $meaning:literal => $next:literal;)*) => {
        /// A stable error code. The order is that of the table: requests, rights, names, space,
        /// checksums, peers, the server itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each variant's meaning is in the table")]
        pub enum ErrorCode { $($variant),* }

        impl ErrorCode {
            /// All codes in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in logs, metrics and JSON. Never changes.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The HTTP status that answers a request which failed so.
            #[must_use]
            pub fn http_status(self) -> u16 {
                match self { $(Self::$variant => $http),* }
            }

            /// The error number that answers a request of the XRootD protocol which failed so, from
            /// 3000 on. Where servers differ, it is the number that clients turn into the fitting `errno`.
            #[must_use]
            pub fn xroot_error(self) -> u16 {
                match self { $(Self::$variant => $xroot),* }
            }

            /// The client's exit code: the `errno` that gfal's tools use for the same case.
            #[must_use]
            pub fn exit_code(self) -> u8 {
                match self { $(Self::$variant => $exit),* }
            }

            /// Whether another attempt can help.
            #[must_use]
            pub fn retry(self) -> Retry {
                match self { $(Self::$variant => Retry::$retry),* }
            }

            /// What happened, as one sentence without its full stop.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),* }
            }

            /// What to do about it.
            #[must_use]
            pub fn next_step(self) -> &'static str {
                match self { $(Self::$variant => $next),* }
            }
        }
    };
}

codes! {
    // variant            name                     http xroot exit retry  meaning => next step
    BadRequest            "bad_request"            400 3000 22  No  "The request is malformed" => "Correct the request; the detail names the part that could not be read.";
    BadUrl                "bad_url"                400 3000 22  No  "The URL cannot be used" => "Write it as https://host:port/path, davs://host/path, root://host//path or a local path.";
    HeadTooLarge          "head_too_large"         431 3002 90  No  "The request head is too large" => "Send fewer or shorter headers, or raise limits.head_bytes.";
    LengthRequired        "length_required"        411 3001 22  No  "The request needs a length" => "Send a Content-Length header.";
    BodyTooLarge          "body_too_large"         413 3002 27  No  "File too large" => "Send a smaller body, or raise the limit that the detail names.";
    UnsupportedMediaType  "unsupported_media"      415 3013 95  No  "The body's type is not understood here" => "Use the content type that the detail names.";
    MethodNotAllowed      "method_not_allowed"     405 3013 1   No  "Operation not permitted on this resource" => "Use another operation; OPTIONS lists those offered.";
    NotImplemented        "not_implemented"        501 3013 38  No  "Function not implemented" => "Use what the detail suggests.";
    DepthInfinite         "depth_infinite"         403 3013 95  No  "A listing of everything below a directory is not offered" => "Send Depth: 1, and ask for each directory.";
    NoMacaroons           "no_macaroons"           501 3013 38  No  "The server issues no macaroons" => "Use a token or a proxy that the server accepts, or ask its administrator for macaroons (with Crossload: secret_file in [macaroons] of the configuration).";
    CredentialUnsupported "credential_unsupported" 400 3013 95  No  "This way of delegating a credential is not offered" => "Send Credential: none and the token in TransferHeaderAuthorization.";
    HeadTimeout           "head_timeout"           408 3034 110 Yes "The request did not arrive in time" => "Send the whole request head at once, or raise limits.head_timeout.";
    RangeUnsatisfiable    "range_unsatisfiable"    416 3000 22  No  "The range lies outside of the file" => "Ask for the file's size first.";
    PreconditionFailed    "precondition_failed"    412 3032 16  No  "A condition of the request does not hold" => "Look at the file's current state and ask again.";
    ArgumentMissing       "argument_missing"       400 3001 22  No  "The request lacks its argument" => "Send the argument, usually a path.";
    FileNotOpen           "file_not_open"          400 3004 9   No  "Bad file descriptor: the file is not open" => "Open the file first, and for what is asked of it.";
    OutOfSequence         "out_of_sequence"        400 3006 56  No  "The request is not allowed at this point of the session" => "Log in and authenticate first.";
    AttributeNotFound     "attribute_not_found"    404 3027 61  No  "No such attribute" => "List the attributes that the file has.";

    Unauthenticated       "unauthenticated"        401 3010 13  No  "Permission denied: a credential is needed" => "Send a bearer token, or ask the administrator for anonymous access.";
    InvalidToken          "invalid_token"          401 3010 13  No  "Permission denied: the token is not valid here" => "Get a fresh token from this server; the detail says what was wrong with this one.";
    TokenMalformed        "token_malformed"        401 3010 13  No  "Permission denied: the token cannot be read" => "Send the token whole, as the issuer gave it; the detail names the part that cannot be read.";
    TokenTooLarge         "token_too_large"        401 3010 13  No  "Permission denied: the token is too large" => "Ask the issuer for fewer scopes and groups; the detail names the limit.";
    TokenAlgorithm        "token_algorithm"        401 3010 13  No  "Permission denied: the token is not signed in a way that is accepted here" => "Get a token that is signed with RS256 or ES256.";
    TokenIssuerUnknown    "token_issuer_unknown"   401 3010 13  No  "Permission denied: the token's issuer is not accepted here" => "Get a token of an issuer that this server accepts, or ask the administrator to add this one.";
    TokenIssuerUnreachable "token_issuer_unreachable" 401 3010 13 Yes "Permission denied: the keys of the token's issuer cannot be had" => "Try again later; the detail says what is wrong with the issuer.";
    TokenKeyUnknown       "token_key_unknown"      401 3010 13  No  "Permission denied: the token's issuer does not have the key that the token names" => "Get a fresh token; ask the issuer's administrator if that does not help.";
    TokenSignature        "token_signature"        401 3010 13  No  "Permission denied: the token's signature is wrong" => "Send the token unchanged, as the issuer gave it.";
    TokenExpired          "token_expired"          401 3010 13  No  "Permission denied: the token has expired" => "Get a fresh token.";
    TokenNotYetValid      "token_not_yet_valid"    401 3010 13  No  "Permission denied: the token is not valid yet" => "Wait, or compare the clocks of the issuer and of this server.";
    TokenAudience         "token_audience"         401 3010 13  No  "Permission denied: the token is for another server" => "Get a token whose audience is this server; the detail names its audiences.";
    TokenProfile          "token_profile"          401 3010 13  No  "Permission denied: the token is of a kind that is not accepted here" => "Get a token of the WLCG profile 1 or a SciToken.";
    TokenClaims           "token_claims"           401 3010 13  No  "Permission denied: the token lacks what its profile demands" => "Get a token from an issuer that keeps to the profile; the detail names the claim.";
    TokenScope            "token_scope"            401 3010 13  No  "Permission denied: a scope of the token is not sound" => "Get a token whose storage scopes have plain absolute paths.";
    Forbidden             "forbidden"              403 3010 1   No  "Permission denied" => "Ask for a token that covers this operation and path.";
    AuthenticationFailed  "authentication_failed"  401 3030 13  No  "Authentication failed" => "Offer another credential; the detail says what was wrong with this one.";
    TlsRequired           "tls_required"           403 3028 91  No  "A secure connection is needed" => "Use roots:// or https://, or a client that can switch to TLS.";
    SignatureRefused      "signature_refused"      403 3022 84  No  "The signature of the request is missing or wrong" => "Sign each request that the server wants signed, in order.";
    CertificateMalformed  "certificate_malformed"  401 3030 13  No  "Permission denied: the certificate cannot be read" => "Send the chain as it was issued: the proxy, then what it was made from, each once.";
    CertificateUntrusted  "certificate_untrusted"  401 3030 13  No  "Permission denied: the certificate does not lead to an authority that is trusted here" => "Use a certificate of a trusted authority and send those between with it, or ask the administrator to trust this authority.";
    CertificateSignature  "certificate_signature"  401 3030 13  No  "Permission denied: a signature in the chain of certificates is wrong" => "Make a new proxy; if that does not help, get a new certificate.";
    CertificateWeak       "certificate_weak"       401 3030 13  No  "Permission denied: the certificate's key or signature is too weak" => "Use RSA with 2048 bits or more, or ECDSA on P-256 or P-384, signed with SHA-256 or better.";
    CertificateNotYetValid "certificate_not_yet_valid" 401 3030 13 No "Permission denied: the certificate is not valid yet" => "Wait, or compare the clocks of whoever made it and of this server.";
    CertificateRevoked    "certificate_revoked"    401 3030 13  No  "Permission denied: the certificate was revoked" => "Get a new certificate from its authority.";
    CertificateRevocationUnknown "certificate_revocation_unknown" 401 3030 13 Yes "Permission denied: whether the certificate was revoked cannot be known" => "Ask the administrator to fetch the authority's revocation list (fetch-crl).";
    CertificateNameRefused "certificate_name_refused" 401 3030 13 No "Permission denied: the authority may not issue certificates for this name" => "Use a certificate of the authority that is responsible for the name, or ask the administrator to look at the authority's namespaces or signing_policy file.";
    CertificateUnsuitable "certificate_unsuitable" 401 3030 13  No  "Permission denied: the certificate is not made for this use" => "Use a certificate that was issued to a user, robot or host for use as a client.";
    CertificateChainTooLong "certificate_chain_too_long" 401 3030 13 No "Permission denied: there are too many certificates in the chain" => "Make the proxy directly from the certificate, or from a proxy that is closer to it.";
    ProxyInvalid          "proxy_invalid"          401 3030 13  No  "Permission denied: the proxy breaks the rules for proxies (RFC 3820)" => "Make a new proxy with voms-proxy-init -rfc.";
    ProxyLegacy           "proxy_legacy"           401 3030 13  No  "Permission denied: the proxy is of an old kind that is no longer accepted" => "Make a proxy of RFC 3820: voms-proxy-init -rfc, or grid-proxy-init -rfc.";
    ProxyTooDeep          "proxy_too_deep"         401 3030 13  No  "Permission denied: more proxies were made from a proxy than it allows" => "Make the proxy directly from the certificate, or with a larger path length.";
    ProxyWidened          "proxy_widened"          401 3030 13  No  "Permission denied: a full proxy was made from a limited one" => "Make a limited proxy from the limited one, or a full one from the certificate.";
    ProxyPolicyRefused    "proxy_policy_refused"   401 3030 13  No  "Permission denied: the proxy has a policy that is not understood here" => "Make a proxy that is full (the usual) or limited.";
    CertificateExpired    "certificate_expired"    401 3010 13  No  "Permission denied: the certificate has expired" => "Make a new proxy, or get a new certificate.";
    CapabilityInvalid     "capability_invalid"     403 3010 13  No  "Permission denied: the capability in the URL does not hold for this request" => "Ask at the first URL again; a capability cannot be used for anything else than it was issued for.";
    CapabilityExpired     "capability_expired"     403 3010 13  Yes "Permission denied: the capability in the URL has expired" => "Ask at the first URL again, and follow its redirect at once.";
    CapabilityUsed        "capability_used"        403 3010 13  Yes "Permission denied: the capability in the URL has been used" => "Ask at the first URL again: a capability to write counts once.";
    CapabilityAddress     "capability_address"     403 3010 13  No  "Permission denied: the capability in the URL was issued to another address" => "Follow the redirect from the address that asked, or let the administrator set hand_over.bind_address to false.";
    DelegationMissing     "delegation_missing"     401 3010 13  No  "Permission denied: no credential has been delegated for the other side" => "Delegate one that holds for some hours, or send Credential: none and the token in TransferHeaderAuthorization.";
    DelegationRefused     "delegation_refused"     403 3010 13  No  "Permission denied: the delegated credential is refused" => "Ask for a request and sign it with your own certificate or proxy; the detail says what was wrong.";
    CertificateUnusable   "certificate_unusable"   500 3010 13  No  "The own certificate and key cannot be used" => "Correct the file or make a new proxy; the detail says what is wrong.";
    UserUnknown           "user_unknown"           403 3010 13  No  "Permission denied: there is no such local user" => "Ask the administrator to create the local user, or to map this identity to another; the detail names it.";
    UserRefused           "user_refused"           403 3010 13  No  "Permission denied: the server does not act as this local user" => "Ask the administrator to map this identity to another local user; users.minimum_uid says which are refused.";
    UsersUnavailable      "users_unavailable"      503 3024 11  Yes "The database of local users does not answer" => "Try again later; ask the administrator to look at the name service.";
    PeerAddressRefused    "peer_address_refused"   403 3010 1   No  "The peer's address is not allowed for transfers" => "Use a public address, or allow it with tpc.allow_local_peers or tpc.allow_private_peers.";

    NotFound              "not_found"              404 3011 2   No  "No such file or directory" => "Check the path.";
    PathRefused           "path_refused"           400 3010 22  No  "The path is refused" => "Use a plain absolute path without .., encoded slashes or control characters.";
    NameTooLong           "name_too_long"          414 3002 36  No  "File name too long" => "Use a shorter name.";
    Exists                "exists"                 412 3018 17  No  "File exists" => "Choose another name or allow overwriting.";
    DirectoryExists       "directory_exists"       405 3018 17  No  "File exists" => "Nothing needs to be done if a directory was wanted.";
    ParentMissing         "parent_missing"         409 3011 2   No  "No such file or directory: the parent is missing" => "Create the parent directory first.";
    IsDirectory           "is_directory"           409 3016 21  No  "Is a directory" => "Name a file, or use the recursive option.";
    NotDirectory          "not_directory"          409 3005 20  No  "Not a directory" => "Name a directory.";
    NotEmpty              "not_empty"              409 3018 39  No  "Directory not empty" => "Remove its entries first.";
    SymlinkEscapes        "symlink_escapes"        403 3010 1   No  "Permission denied: the path leaves the export through a symbolic link" => "Ask the administrator to export the directory it points to.";
    CrossExport           "cross_export"           422 3005 18  No  "Invalid cross-device link" => "Copy the file and remove the old one instead.";
    Locked                "locked"                 423 3003 16  Yes "Resource locked" => "Wait until the lock is released or times out, at most one hour; if it is your own, send its token in the If header.";
    LockUnknown           "lock_unknown"           409 3003 22  No  "No lock with this token covers the resource" => "Send the token that LOCK returned for this path; a lock that timed out is gone.";
    Busy                  "busy"                   423 3003 16  Yes "Resource busy" => "Try again when the other operation on this file has ended.";
    UploadInterrupted     "upload_interrupted"     409 3006 5   No  "The upload was interrupted and cannot be continued" => "Start the upload again from the beginning; the file that was there before is unchanged.";
    ReadOnly              "read_only"              403 3025 30  No  "Read-only file system" => "Use a destination that can be written.";

    NoSpace               "no_space"               507 3009 28  No  "No space left on device" => "Free space at the destination, or choose another.";
    QuotaExceeded         "quota_exceeded"         507 3021 122 No  "Disk quota exceeded" => "Remove files of this export, or ask for a larger quota.";

    ChecksumMismatch      "checksum_mismatch"      422 3019 5   No  "CHECKSUM MISMATCH: the data is not what was declared" => "Find out which side is wrong before copying again; nothing was stored.";
    ChecksumPrecondition  "checksum_precondition"  412 3019 5   No  "SOURCE CHECKSUM MISMATCH: the source differs from what the client expects" => "Check the expected checksum against the source; nothing was written.";
    ChecksumPending       "checksum_pending"       503 3024 11  Yes "The checksum is still being computed" => "Ask again soon: what has been computed is kept for a minute.";
    ChecksumUnavailable   "checksum_unavailable"   412 3013 5   No  "The source offers no checksum and verification is required" => "Send RequireChecksumVerification: false, or use a source that knows its checksums.";
    TooManyPageErrors     "too_many_page_errors"   422 3033 109 No  "Too many pages arrived damaged" => "Look for a broken network or memory on the way, and send the file again.";

    PeerUnresolved        "peer_unresolved"        502 3014 112 Yes "The peer's host name cannot be resolved" => "Check the host name and the name service.";
    PeerUnreachable       "peer_unreachable"       502 3014 112 Yes "No connection to the peer" => "Check that the peer is up and its port is open from here.";
    PeerConnectTimeout    "peer_connect_timeout"   504 3034 110 Yes "Connection timed out" => "Check firewalls between the two servers.";
    PeerTlsFailed         "peer_tls_failed"        502 3007 112 No  "No secure connection to the peer" => "Check the peer's certificate (name, expiry, issuer) and the trusted authorities here.";
    PeerDenied            "peer_denied"            502 3010 13  No  "Permission denied by the peer: a valid credential is needed" => "Hand over a token for the peer (TransferHeaderAuthorization).";
    PeerForbidden         "peer_forbidden"         403 3010 1   No  "Permission denied by the peer" => "Ask for rights on that file at the peer.";
    PeerNotFound          "peer_not_found"         404 3011 2   No  "No such file or directory at the peer" => "Check the URL of the peer's file.";
    PeerExists            "peer_exists"            412 3018 17  No  "File exists at the peer" => "Choose another name or allow overwriting.";
    PeerNoSpace           "peer_no_space"          507 3009 28  No  "No space left on device at the peer" => "Free space at the peer, or choose another destination.";
    PeerUnsupported       "peer_unsupported"       501 3013 38  No  "The peer does not offer this operation" => "Use another copy mode.";
    PeerFailed            "peer_failed"            502 3005 5   PeerDecides "The peer failed" => "Look at the peer's own words; ask its administrator if they do not help.";
    PeerMisbehaved        "peer_misbehaved"        502 3007 71  Yes "The peer's answer cannot be understood" => "The peer breaks the protocol; report it to its administrator.";
    PeerClosed            "peer_closed"            502 3007 104 Yes "Connection closed by the peer before the end" => "Try again; look into the peer's log if it happens again.";
    PeerStalled           "peer_stalled"           504 3034 110 Yes "No data moved for too long: Operation timed out" => "Try again; look for an overloaded peer or network.";
    PeerSizeDiffers       "peer_size_differs"      502 3007 5   No  "The peer sent another number of bytes than it announced" => "Look into the peer's log: the file may be changing.";
    SourceChanged         "source_changed"         412 3032 5   No  "The source changed during the transfer" => "Start again when the source no longer changes.";
    TooManyRedirects      "too_many_redirects"     502 3005 40  No  "Too many redirects" => "Check the peer's redirection.";

    ClientGone            "client_gone"            400 3017 125 No  "Operation canceled: the client went away" => "Nothing: the transfer was stopped and cleaned up.";
    BodyIncomplete        "body_incomplete"        400 3007 5   Yes "The body ended before its announced length" => "Send it again; nothing was stored.";
    BodyStalled           "body_stalled"           408 3034 110 Yes "The body stalled: Operation timed out" => "Send it again; nothing was stored.";
    Cancelled             "cancelled"              503 3017 125 Yes "Operation canceled by the server" => "Try again when the server is back.";
    Overloaded            "overloaded"             503 3024 11  Yes "The server has reached its limit" => "Try again later; the limit is named in the detail.";
    ShareUsedUp           "share_used_up"          429 3024 11  Yes "The client has used up its share of what the server can give" => "Close what is no longer needed and try again; the detail names the limit, and limits.client_share_percent sets the share.";
    StorageFailed         "storage_failed"         500 3007 5   Yes "Input/output error in the storage" => "Look into the server's log; its private detail names the system error.";
    Internal              "internal"               500 3012 5   No  "Internal error" => "Report this with the request id from the answer.";
}

impl ErrorCode {
    /// Whether a bearer token was refused for what it is, so that its sender has to get another one (RFC 6750
    /// §3.1, `invalid_token`).
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
    fn every_row_can_be_sent_and_read() {
        for code in ErrorCode::ALL {
            assert!((400..600).contains(&code.http_status()), "{code:?}");
            assert!((3000..=3035).contains(&code.xroot_error()), "{code:?}");
            assert_ne!(code.exit_code(), 0, "{code:?}");
            assert!(
                !code.meaning().ends_with('.') && code.next_step().ends_with('.'),
                "{code:?}"
            );
        }
    }
}
