//! What the user of the client types next, where a failure shows more than its code: the other
//! scheme, another port, options for certificates.

use types::{Error, ErrorCode, Location, PeerStatus, Phase, Side};

use crate::exit_code::named_by_peer;

/// Schemes in clear text, and the same over TLS.
const SCHEMES: [(&str, &str); 4] = [
    ("http://", "https://"),
    ("dav://", "davs://"),
    ("s3://", "s3s://"),
    ("root://", "roots://"),
];

/// What `net` says about the peer's certificate, and what helps.
const CERTIFICATES: [(&str, &str); 6] = [
    (
        "the certificate's issuer is not trusted here",
        "Give the file of its authority with --cacert, or a directory of authorities with --capath or X509_CERT_DIR.",
    ),
    (
        "the certificate has expired",
        "Ask the administrators of the server to renew it. With -k it is not verified (unsafe).",
    ),
    (
        "the certificate is not valid",
        "Correct the clock of this machine; if it is right, ask the administrators of the server. With -k the \
         certificate is not verified (unsafe).",
    ),
    (
        "the certificate is not for",
        "Write the URL with a host name that the certificate is for.",
    ),
    (
        "the other end demands a certificate",
        "Give a proxy with --proxy, or a certificate with --cert and --key.",
    ),
    (
        "the other end refuses our certificate",
        "Give another one with --proxy, or --cert and --key; -v prints which one is sent.",
    ),
];

/// The server at a port does not answer in the protocol of the URL.
const OTHER_PROTOCOL: &str = "Check the port in the URL: the server there may speak another protocol, such as HTTP.";

/// A server that cannot list directories over HTTP.
pub(crate) const LISTS_NOTHING: &str = "this server lists no directories here (no WebDAV)";
/// `rm` of a top directory, `.` or `..`.
pub(crate) const REMOVES_WHOLE: &str = "rm does not remove the top directory, . and ..";
/// A copy of a file to itself.
pub(crate) const SAME_FILE: &str = "source and destination are the same file";
/// A server that has no checksum.
pub(crate) const NO_CHECKSUM: &str = "this server has no checksum";

/// A server that has no cache in front of a file.
pub(crate) const NO_CACHE: &str = "the server has no cache in front of this file";

/// A protocol without an operation.
pub(crate) const NO_REQUEST: &str = "its protocol knows no such request";

/// What servers and protocols do not support, apart from copies, and what helps.
const REQUESTS: [(&str, &str); 6] = [
    (
        NO_CACHE,
        "Ask the administrator of the server for a cache (cache_directory), or leave it out.",
    ),
    (
        LISTS_NOTHING,
        "Use the server's WebDAV or XRootD protocol, which may have another port.",
    ),
    (
        NO_CHECKSUM,
        "Try another algorithm with -a, or read the file: crossload cat URL | md5sum",
    ),
    (
        "S3 has no directories to rename",
        "Use crossload copy -r, then crossload rm -r.",
    ),
    (
        "buckets are not removed",
        "Remove buckets with the storage's own tool; objects with crossload rm -r.",
    ),
    (
        NO_REQUEST,
        "Use a root:// or roots:// URL of the file, if the server has one.",
    ),
];

/// Where a URL's access key is looked for.
pub(crate) const S3_KEY_ORDER: &str = "The first of these counts: AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, \
                                       [S3:HOST] of gfal's configuration, ~/.aws/credentials, a named remote at this \
                                       server";

/// What a detail begins with that is about a name of no remote.
pub(crate) const NO_REMOTE: &str = "no remote has the name";
/// The key of a remote that names the file of its secret key, where the file is at fault.
pub(crate) const SECRET_KEY_FILE: &str = "secret_key_file";

/// A server could not set up TLS with the other one of a copy that it makes.
fn between_servers(error: &Error) -> Option<String> {
    let reporter = error.reporter()?.name();
    Some(format!(
        "The {reporter} said so of its own connection, and no option of this program changes that: ask its \
         administrators which authorities it trusts. --copy-mode streamed copies through this machine."
    ))
}

/// The next step after this failure, if the code's own sentence is not the best.
pub(crate) fn of(error: &Error) -> Option<String> {
    let detail = error.detail().unwrap_or_default();
    match error.code() {
        ErrorCode::PeerTlsFailed | ErrorCode::PeerUntrusted if error.reporter().is_some() => between_servers(error),
        ErrorCode::PeerDenied | ErrorCode::PeerForbidden if is_about_s3(error) => Some(check_keys(error)),
        ErrorCode::PeerDenied | ErrorCode::PeerForbidden if misses_delegation(error) => Some(delegate(error)),
        ErrorCode::PeerForbidden if detail == remote::PATH_NOT_EXPORTED => {
            Some("Check the path in the URL: no credential opens this one.".to_owned())
        }
        ErrorCode::PeerDenied | ErrorCode::PeerForbidden => refused_by_proxy(error)
            .or_else(|| refused_behind(error))
            .map(str::to_owned),
        ErrorCode::PeerTlsFailed if has_no_tls(detail) => without_tls(error),
        ErrorCode::PeerClosed if error.phase() == Phase::Tls => without_tls(error),
        ErrorCode::PeerTlsFailed => {
            let known = CERTIFICATES.iter().find(|(words, _)| detail.starts_with(words));
            known.map(|(_, advice)| (*advice).to_owned())
        }
        ErrorCode::TokenIssuerUnreachable => {
            let known = CERTIFICATES.iter().find(|(words, _)| detail.contains(words));
            known.map(|(_, advice)| (*advice).to_owned())
        }
        ErrorCode::PeerMisbehaved if detail == remote::ANSWERS_IN_HTTP => in_http(error),
        ErrorCode::PeerClosed | ErrorCode::PeerMisbehaved if is_login(error) => Some(OTHER_PROTOCOL.to_owned()),
        ErrorCode::PeerMisbehaved if !["not HTTP", "a malformed"].iter().any(|no| detail.starts_with(no)) => None,
        ErrorCode::PeerClosed | ErrorCode::PeerMisbehaved => over_tls(error),
        ErrorCode::PeerFailed if error.peer_words().is_some_and(wants_tls) => over_tls(error),
        ErrorCode::PeerFailed => after_status(error),
        ErrorCode::PeerStalled if error.phase() == Phase::Authenticate => Some(OTHER_PROTOCOL.to_owned()),
        ErrorCode::PeerUnsupported if is_about_s3(error) && detail.starts_with(NO_REQUEST) => {
            Some("Use the storage's own tool: S3 has no such operation.".to_owned())
        }
        ErrorCode::PeerUnsupported => {
            let known = REQUESTS.iter().find(|(words, _)| detail.starts_with(words));
            let known = known.map(|(_, advice)| (*advice).to_owned());
            known.or_else(|| without_rename(error).map(str::to_owned))
        }
        ErrorCode::IsDirectory | ErrorCode::BadUrl if is_about_s3(error) && detail.contains("bucket") => {
            Some("Name a bucket: s3://HOST/BUCKET/KEY, or s3s:// over TLS.".to_owned())
        }
        ErrorCode::Unauthenticated if detail.starts_with(SECRET_KEY_FILE) => {
            Some("Write the secret key into this file, and let only yourself read it (chmod 600).".to_owned())
        }
        ErrorCode::BadUrl if detail.starts_with("unknown scheme") => Some(other_scheme(detail)),
        ErrorCode::BadUrl if detail.starts_with(NO_REMOTE) => Some(
            "crossload config remote add NAME URL makes a remote; crossload config remote list shows them.".to_owned(),
        ),
        ErrorCode::Unauthenticated if detail.starts_with("no certificate in ") => {
            Some("Make a proxy, for instance with voms-proxy-init -rfc, or name its file with --proxy.".to_owned())
        }
        ErrorCode::PathRefused if detail == REMOVES_WHOLE => Some("Name the directory, or what is in it.".to_owned()),
        ErrorCode::Exists if detail == SAME_FILE => Some("Name another destination.".to_owned()),
        ErrorCode::CertificateUnusable if detail.contains("expired at") => {
            Some("Make a new proxy, for instance with voms-proxy-init -rfc; or give --token-file.".to_owned())
        }
        ErrorCode::NotFound | ErrorCode::ParentMissing if error.side() == Side::Destination && is_local(error) => {
            Some("Make its directory first, or give -p.".to_owned())
        }
        ErrorCode::Forbidden if is_local(error) => {
            Some("Check the permissions of the file, and of the directories above it.".to_owned())
        }
        ErrorCode::StorageFailed if error.subject() == Some(transfer::INPUT_NAME) => {
            Some("Check the file or program that it comes from.".to_owned())
        }
        ErrorCode::StorageFailed if is_local(error) => {
            Some("Try again; if it happens again, check the file system of this machine.".to_owned())
        }
        _ => None,
    }
}

fn is_about_s3(error: &Error) -> bool {
    let subject = error.subject().unwrap_or_default();
    ["s3://", "s3s://"].iter().any(|scheme| subject.starts_with(scheme))
}

/// A server passes requests on in the name of its users, and has no proxy of this one.
fn misses_delegation(error: &Error) -> bool {
    let words = error.peer_words().unwrap_or_default();
    words.contains(ErrorCode::DelegationMissing.meaning())
}

fn delegate(error: &Error) -> String {
    let words = error.peer_words().unwrap_or_default();
    if words.contains("shows a token") {
        return "Give --proxy, or --cert and --key, without a token.".to_owned();
    }
    let place = error.subject().and_then(|url| Location::parse(url).ok());
    let server = place
        .filter(Location::is_http)
        .map_or("https://SERVER:PORT".to_owned(), |place| {
            format!("https://{}", place.authority())
        });
    format!(
        "Give --proxy, or --cert and --key, and delegate first: crossload queue delegate -s {server}; a copy does it \
         with --delegate."
    )
}

/// The access key is all that a storage of S3 knows of its users.
fn check_keys(error: &Error) -> String {
    let words = error.peer_words().unwrap_or_default();
    if words.contains("clock") {
        return "Correct the clock of this machine, or have that of the server corrected.".to_owned();
    }
    let first = match error.code() {
        ErrorCode::PeerForbidden => "Use a key that may do this",
        _ => "Check the access key and its secret key",
    };
    format!("{first}. {S3_KEY_ORDER}; -v prints which one is used.")
}

/// A forwarding proxy of ours refuses the host or the path, which no credential changes.
fn refused_by_proxy(error: &Error) -> Option<&'static str> {
    let words = error.peer_words()?;
    let known = [ErrorCode::HostNotAllowed, ErrorCode::PathRefused];
    known
        .into_iter()
        .find(|code| words.contains(code.meaning()))
        .map(ErrorCode::for_client)
}

/// The server has its files at another one, which refuses it or the client. Our servers say so in
/// their first word.
fn refused_behind(error: &Error) -> Option<&'static str> {
    let words = error.peer_words().filter(|words| words.starts_with("upstream "))?;
    Some(match words.contains(ErrorCode::PeerDenied.meaning()) {
        true => "Tell the administrator of the server: the storage behind it refuses the server's own credential.",
        false => {
            "The storage behind the server refuses this: use a credential with rights there, or ask the \
                  administrator of the server."
        }
    })
}

/// An S3 storage behind a server of ours has no request to rename.
fn without_rename(error: &Error) -> Option<&'static str> {
    let words = error.peer_words()?;
    let is_known = words.contains("object stores cannot rename");
    is_known.then_some("Use crossload copy, then crossload rm; with -r for a directory.")
}

/// Whether it is about a file of this machine: servers' files are named by URLs.
pub(crate) fn is_local(error: &Error) -> bool {
    let is_path = error.subject().is_some_and(|subject| subject.starts_with('/'));
    is_path && error.peer_status().is_none() && error.peer_words().is_none()
}

/// The peer answers in clear text, or says that it has no TLS.
pub(crate) fn has_no_tls(detail: &str) -> bool {
    detail.starts_with("the other end does not speak TLS") || detail == "the server does not offer TLS"
}

/// What nginx, Apache and servers in Go say to a request in clear text.
pub(crate) fn wants_tls(words: &str) -> bool {
    ["HTTPS port", "SSL-enabled", "to an HTTPS server"]
        .iter()
        .any(|known| words.contains(known))
}

/// What a URL's scheme can be.
fn other_scheme(detail: &str) -> String {
    let known = "Schemes are http, https, dav, davs, root, roots, s3 and s3s";
    let older = ["gsiftp", "gridftp", "srm"]
        .iter()
        .any(|scheme| detail.contains(scheme));
    match older {
        true => {
            format!("{known}: GridFTP and SRM are not supported. Most such storages have an https or root URL too.")
        }
        false => format!("{known}; without one, it is a local path, or NAME:PATH in a named remote."),
    }
}

/// What helps after a status of the server, apart from its code.
fn after_status(error: &Error) -> Option<String> {
    Some(match named_by_peer(error)? {
        ErrorCode::BodyTooLarge => {
            "The server takes no file of this size: ask its administrators for the limit, or use another server."
                .to_owned()
        }
        ErrorCode::Locked => "Try again when the lock has ended, or ask its holder to unlock the file.".to_owned(),
        ErrorCode::Busy => "Try again when the other operation on this file has ended.".to_owned(),
        ErrorCode::Overloaded => try_again(error),
        _ => return None,
    })
}

/// A server has too much to do now.
fn try_again(error: &Error) -> String {
    let when = match error.retry_after().map(|wait| wait.as_secs()) {
        Some(seconds @ 1..) => format!("in {seconds} s, as the server asks"),
        _ => "in a few seconds".to_owned(),
    };
    let asks_for_fewer = error.peer_status() == Some(PeerStatus::Http(ErrorCode::ShareUsedUp.http_status()));
    let fewer = match asks_for_fewer {
        true => ", with fewer requests at once (--transfers, --checkers)",
        false => "",
    };
    format!("Try again {when}{fewer}; if it stays so, ask the administrators of the server.")
}

/// A `root` URL leads to a server of HTTP.
fn in_http(error: &Error) -> Option<String> {
    let place = Location::parse(error.subject()?).ok()?;
    let path = place.path().trim_start_matches('/');
    let scheme = if place.is_encrypted() { "https" } else { "http" };
    Some(format!(
        "Write {scheme}://{}/{path}, or the port of the XRootD protocol.",
        place.authority()
    ))
}

fn without_tls(error: &Error) -> Option<String> {
    let url = error.subject()?;
    let (clear, _, rest) = SCHEMES
        .iter()
        .find_map(|(clear, tls)| Some((clear, tls, url.strip_prefix(tls)?)))?;
    Some(format!(
        "If the server has no TLS on this port, write {clear}{rest}; otherwise use the port with TLS."
    ))
}

/// A session of the XRootD protocol that did not begin. It always begins in clear text.
fn is_login(error: &Error) -> bool {
    let url = error.subject().unwrap_or_default();
    let is_root = ["root://", "roots://"].iter().any(|scheme| url.starts_with(scheme));
    is_root && error.phase() == Phase::Authenticate
}

/// A server that expects TLS closes connections in clear text, mostly without a word.
fn over_tls(error: &Error) -> Option<String> {
    let url = error.subject()?;
    let (_, tls, rest) = SCHEMES
        .iter()
        .filter(|(clear, _)| *clear != "root://")
        .find_map(|(clear, tls)| Some((clear, tls, url.strip_prefix(clear)?)))?;
    let first = match error.retry() {
        true => "Try again. ",
        false => "",
    };
    Some(format!(
        "{first}If the server expects TLS on this port, write {tls}{rest}; if it speaks another protocol, check the port."
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn refused_keys_of_s3_need_no_token() {
        let error = |url: &str, words| {
            let error = Error::new(ErrorCode::PeerDenied, Side::Active, Phase::Open).with_subject(url);
            error.with_peer(None, words)
        };
        let keys = of(&error("s3://h/b/k", "SignatureDoesNotMatch")).unwrap();
        assert!(
            keys.contains("AWS_SECRET_ACCESS_KEY") && !keys.contains("token"),
            "{keys}"
        );
        assert!(
            of(&error("s3s://h/b/k", "RequestTimeTooSkewed: x (our clock …)"))
                .unwrap()
                .contains("clock")
        );
        assert_eq!(of(&error("https://h/b/k", "no")), None);
    }

    #[test]
    fn a_refusal_by_the_storage_behind_a_server_is_its_administrators() {
        let step = |words| {
            let error = Error::new(ErrorCode::PeerDenied, Side::Active, Phase::Authenticate);
            of(&error
                .with_subject("root://a//f")
                .with_peer(Some(PeerStatus::Xrootd(3010)), words))
        };
        let denied = "upstream authenticate: Permission denied by the peer: credential required (b), /f [peer_denied]";
        assert!(step(denied).unwrap().starts_with("Tell the administrator"));
        let forbidden = "upstream authorize: Permission denied (b), /f [forbidden]";
        assert!(step(forbidden).unwrap().contains("rights there"));
        assert_eq!(step("client authorize: Permission denied, /f [forbidden]"), None);
        // No credential changes what a proxy forwards.
        for words in [
            "server open: The server forwards no requests to this host (b:1094), /f [host_not_allowed]",
            "upstream open: The server forwards no requests to this host (b redirected to c: changes follow no \
             redirect to another server; name that one in the path), /f [host_not_allowed]",
        ] {
            let advice = step(words).unwrap();
            assert!(
                advice.contains("administrator to list this one") && advice.contains("name the host to which it leads"),
                "{advice}"
            );
        }
    }

    use super::*;

    fn step(code: ErrorCode, phase: Phase, detail: &str, url: &str) -> String {
        let error = Error::new(code, Side::Active, phase)
            .with_detail(detail)
            .with_subject(url);
        of(&error).unwrap_or_default()
    }

    #[test]
    fn the_wrong_scheme_leads_to_the_right_one() {
        use ErrorCode::{PeerClosed, PeerMisbehaved, PeerTlsFailed};
        const NO_HTTP: &str = "not HTTP/1.0 or HTTP/1.1";
        let (no_tls, none) = (
            "the other end does not speak TLS on this port: use",
            "the server does not offer TLS",
        );
        for (code, phase, detail, url, other) in [
            (PeerClosed, Phase::Tls, "", "https://a:1/f", "write http://a:1/f;"),
            (PeerTlsFailed, Phase::Tls, no_tls, "davs://a:1/f", "write dav://a:1/f;"),
            (
                PeerTlsFailed,
                Phase::Tls,
                none,
                "roots://a:1//f",
                "write root://a:1//f;",
            ),
            (PeerClosed, Phase::Open, "", "http://a:1/f", "write https://a:1/f;"),
            (PeerClosed, Phase::Authenticate, "", "root://a:1//f", "another protocol"),
            (
                PeerMisbehaved,
                Phase::Authenticate,
                "",
                "roots://a:1//f",
                "another protocol",
            ),
            (
                PeerMisbehaved,
                Phase::Open,
                NO_HTTP,
                "dav://a:1/f",
                "write davs://a:1/f;",
            ),
            (PeerClosed, Phase::Open, "", "s3://a:1/b/f", "write s3s://a:1/b/f;"),
            (
                PeerTlsFailed,
                Phase::Tls,
                no_tls,
                "s3s://a:1/b/f",
                "write s3://a:1/b/f;",
            ),
        ] {
            let advice = step(code, phase, detail, url);
            assert!(advice.contains(other), "{url}: {advice}");
        }
        // What was closed in the middle says nothing about the scheme.
        for url in ["https://a:1/f", "root://a:1//f", "roots://a:1//f"] {
            assert_eq!(step(PeerClosed, Phase::Open, "", url), "");
        }
        let refused = Error::new(ErrorCode::PeerFailed, Side::Active, Phase::Open).with_subject("http://a/f");
        let words = "400 The plain HTTP request was sent to HTTPS port";
        let refused = refused.with_peer(Some(PeerStatus::Http(400)), words);
        assert!(of(&refused).is_some_and(|advice| advice.contains("write https://a/f")));
    }

    #[test]
    fn a_status_has_its_own_next_step() {
        let refused = |status: u16, wait_s: u64| {
            let error = Error::new(ErrorCode::PeerFailed, Side::Active, Phase::Open).with_subject("https://a/f");
            let error = error.with_peer(Some(PeerStatus::Http(status)), "no");
            let wait = (wait_s > 0).then_some(std::time::Duration::from_secs(wait_s));
            of(&error.with_retry_after(wait)).unwrap_or_default()
        };
        for (status, wait_s, words) in [
            (413, 0, "no file of this size"),
            (423, 0, "unlock"),
            (429, 0, "in a few seconds, with fewer requests"),
            (429, 30, "in 30 s, as the server asks, with fewer"),
            (503, 7, "in 7 s, as the server asks;"),
            (503, 0, "in a few seconds;"),
        ] {
            assert!(
                refused(status, wait_s).contains(words),
                "{status}: {}",
                refused(status, wait_s)
            );
        }
        assert_eq!(refused(500, 0), "");
        let issuer = "https://i: server tls: Cannot set up (the certificate's issuer is not trusted here: add";
        assert!(
            step(
                ErrorCode::TokenIssuerUnreachable,
                Phase::Authenticate,
                issuer,
                "https://i"
            )
            .contains("--cacert")
        );
        let http = step(
            ErrorCode::PeerMisbehaved,
            Phase::Authenticate,
            remote::ANSWERS_IN_HTTP,
            "root://a:80//d/f",
        );
        assert!(http.contains("Write http://a:80/d/f,"), "{http}");
    }

    #[test]
    fn a_file_of_this_machine_needs_no_credential_and_no_administrator() {
        for code in [ErrorCode::Forbidden, ErrorCode::StorageFailed] {
            let advice = step(code, Phase::Open, "", "/tmp/f");
            assert!(advice.contains("Check the") || advice.contains("check the"), "{advice}");
            assert_eq!(step(code, Phase::Open, "", "https://a/f"), "");
        }
    }

    #[test]
    fn what_is_not_supported_is_no_question_of_copies() {
        for (detail, words) in [
            (LISTS_NOTHING, "WebDAV"),
            ("this server has no checksum md5", "crossload cat"),
            ("its protocol knows no such request", "root://"),
            ("S3 has no directories to rename", "copy -r"),
            ("buckets are not removed", "own tool"),
            (NO_CACHE, "cache_directory"),
        ] {
            let advice = step(ErrorCode::PeerUnsupported, Phase::Open, detail, "http://a/f");
            assert!(advice.contains(words), "{detail}: {advice}");
        }
        let error = Error::new(ErrorCode::PeerUnsupported, Side::Active, Phase::Open);
        let words = "upstream open: Function not implemented (h: object stores cannot rename: copy the file, then …)";
        let advice = of(&error.with_peer(Some(PeerStatus::Http(501)), words));
        assert!(advice.is_some_and(|advice| advice.contains("crossload copy")));
    }

    #[test]
    fn a_place_that_is_none_leads_to_what_places_are() {
        for (detail, words) in [
            ("unknown scheme \"gsiftp\"", "GridFTP and SRM are not supported"),
            ("unknown scheme \"ftp\"", "s3s; without one"),
            ("no remote has the name \"x\"; there are none", "config remote add"),
        ] {
            let advice = step(ErrorCode::BadUrl, Phase::Open, detail, "");
            assert!(advice.contains(words), "{detail}: {advice}");
        }
        let advice = step(
            ErrorCode::Unauthenticated,
            Phase::Open,
            "no certificate in X509_USER_PROXY",
            "",
        );
        assert!(
            advice.contains("--proxy") && !advice.contains("--token-file"),
            "{advice}"
        );
        let key = "secret_key_file of the remote lab: /k: no such file";
        assert!(step(ErrorCode::Unauthenticated, Phase::Authenticate, key, "").contains("chmod 600"));
    }

    #[test]
    fn a_url_without_a_bucket_shows_where_it_goes() {
        for (code, detail) in [
            (ErrorCode::IsDirectory, "no object is outside of a bucket"),
            (ErrorCode::BadUrl, "the URL names no bucket"),
        ] {
            assert!(step(code, Phase::Open, detail, "s3://h/f").contains("s3://HOST/BUCKET/KEY"));
            assert_eq!(step(code, Phase::Open, "", "s3://h/b"), "");
        }
    }

    #[test]
    fn a_path_that_is_not_exported_needs_no_credential() {
        let advice = step(
            ErrorCode::PeerForbidden,
            Phase::Authorize,
            remote::PATH_NOT_EXPORTED,
            "root://a//x",
        );
        assert!(advice.starts_with("Check the path"), "{advice}");
    }

    #[test]
    fn each_certificate_has_its_next_step() {
        for (detail, option) in [
            ("the certificate's issuer is not trusted here: add", "--cacert"),
            ("the certificate has expired on 2024-01-01T00:00:00Z: it", "-k"),
            (
                "the certificate is not valid before 2099-01-01T00:00:00Z: compare",
                "clock of this machine",
            ),
            ("the certificate is not for a, but for b: use", "host name"),
            ("the other end demands a certificate, and none", "--proxy"),
            ("the other end refuses our certificate, since it has expired", "-v"),
        ] {
            let advice = step(ErrorCode::PeerTlsFailed, Phase::Tls, detail, "https://a/f");
            assert!(advice.contains(option), "{detail}: {advice}");
        }
        let own = "the certificate in /tmp/x509up_u1 (--proxy) expired at 2024-01-01T00:00:00Z";
        let advice = step(ErrorCode::CertificateUnusable, Phase::Authenticate, own, "");
        assert!(advice.contains("voms-proxy-init"), "{advice}");
    }
}
