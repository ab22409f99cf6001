//! Why the upstream server of an export cannot be used, and which configuration key to change: for
//! `check`, and for the server's log and `/ready`.

use remote::PATH_NOT_EXPORTED;
use s3_wire::{BUCKET_ELSEWHERE, is_region};
use types::{Error, ErrorCode, Location, Phase};

use crate::next_step::{has_no_tls, wants_tls};

/// What this server shows to an upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnCredential {
    /// Nothing: it is anonymous there.
    None,
    /// The token in `remote_token_file`.
    Token,
    /// The certificate in `remote_certificate`.
    Certificate,
    /// The keys of an S3 storage.
    S3Keys,
    /// Macaroons of the secret in `remote_macaroon_secret_file`.
    Macaroons,
    /// Nothing of its own: clients have credentials there.
    OfClients,
}

impl OwnCredential {
    /// The key of `[[export]]` that names the URL.
    fn url_key(self) -> &'static str {
        match self {
            Self::S3Keys => "s3",
            _ => "remote",
        }
    }

    /// The key of `[[export]]` that names the credential.
    fn key(self) -> &'static str {
        match self {
            Self::None => "remote",
            Self::Token => "remote_token_file",
            Self::Certificate => "remote_certificate",
            Self::S3Keys => "s3_secret_key_file",
            Self::Macaroons => "remote_macaroon_secret_file",
            Self::OfClients => "remote_identity",
        }
    }

    /// What to do if the server answers at another URL. Credentials are not sent in clear text.
    fn with_other_url(self, answering: &str) -> String {
        let key = self.url_key();
        let is_fit = match Location::parse(answering) {
            Ok(place) if place.is_encrypted() => true,
            Ok(place) if place.is_xrootd() => matches!(self, Self::None | Self::Certificate),
            _ => matches!(self, Self::None | Self::S3Keys),
        };
        match is_fit {
            true => format!("write {key} = \"{answering}\", or another port"),
            false => format!("write the port with TLS into {key}"),
        }
    }

    /// What to do if the server does not accept it.
    fn correction(self) -> &'static str {
        match self {
            Self::None => "set remote_token_file or remote_certificate: this server is anonymous there",
            Self::Token => {
                "write a valid token for that server into the file of remote_token_file, or give it rights there"
            }
            Self::Certificate => {
                "renew the certificate or proxy in remote_certificate, or give its subject rights at that server"
            }
            Self::S3Keys => "correct s3_access_key_id and the file of s3_secret_key_file, or give the key rights there",
            Self::Macaroons => {
                "give both servers the same secret: here in remote_macaroon_secret_file, there in [macaroons] \
                 secret_file, or macaroons.secretkey of XRootD, whose all.sitename must be the host and port of remote"
            }
            Self::OfClients => "correct remote, or open the server to clients",
        }
    }
}

/// What to do if the bucket is elsewhere in URLs.
const ADDRESSING_CORRECTION: &str = "write s3_addressing = \"path\" if s3 has the bucket in its path, or \"host\" if \
                                     its host begins with the bucket";

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpstreamFault {
    /// The stable code of the finding.
    pub(crate) code: &'static str,
    /// What happened.
    pub(crate) says: String,
    /// What the administrator can do.
    pub(crate) change: String,
    /// The key of `[[export]]` to look at.
    pub(crate) key: &'static str,
    /// Whether no request for the export can succeed.
    pub(crate) breaks_export: bool,
}

impl UpstreamFault {
    /// The URL is that of a file.
    pub(crate) fn no_directory(url: &str, own: OwnCredential) -> Self {
        Self {
            code: "upstream_no_directory",
            says: format!("{url} is no directory"),
            change: format!("name a directory in {}", own.url_key()),
            key: own.url_key(),
            breaks_export: true,
        }
    }

    /// The same server answers at another URL.
    pub(crate) fn other_scheme(url: &str, own: OwnCredential, answering: &str) -> Self {
        let key = own.url_key();
        let scheme = |url: &str| url.split("://").next().unwrap_or_default().to_owned();
        let (written, spoken) = (scheme(url), scheme(answering));
        let code = match () {
            () if spoken == format!("{written}s") => "upstream_expects_tls",
            () if written == format!("{spoken}s") => "upstream_without_tls",
            () => "upstream_unexpected",
        };
        Self {
            code,
            says: format!("the upstream server {url} speaks {spoken} on this port, and not {written}"),
            change: own.with_other_url(answering),
            key,
            breaks_export: true,
        }
    }

    /// The fault that an error of the server at `url`, or of the way to it, shows.
    pub(crate) fn of(url: &str, own: OwnCredential, error: &Error) -> Self {
        let says = error.public();
        let detail = error.detail().unwrap_or_default();
        let fault = |code, says: String, change: &str| Self {
            code,
            says,
            change: change.to_owned(),
            key: own.url_key(),
            breaks_export: true,
        };
        match error.code() {
            ErrorCode::PeerNotFound if own == OwnCredential::S3Keys => no_bucket(url, &says),
            ErrorCode::PeerNotFound => fault(
                "upstream_no_directory",
                format!("the upstream server has no {url}"),
                "correct remote, or make the directory there",
            ),
            ErrorCode::PeerForbidden if detail == PATH_NOT_EXPORTED => not_exported(url, own, &says),
            ErrorCode::PeerDenied | ErrorCode::PeerForbidden => refused(url, own, error),
            // As a store has the refusal of the trial object.
            ErrorCode::Forbidden => Self {
                breaks_export: false,
                ..fault(
                    "upstream_read_only",
                    format!("the S3 storage {url} can be read, but the key may not write: {says}"),
                    "give the key the rights to put and delete objects there, or set read_only = true",
                )
            },
            ErrorCode::PeerTlsFailed if has_no_tls(detail) => no_tls(url, own),
            ErrorCode::PeerClosed if error.phase() == Phase::Tls => no_tls(url, own),
            ErrorCode::PeerTlsFailed | ErrorCode::PeerUntrusted => tls_failed(url, own, detail, &says),
            ErrorCode::PeerMisbehaved if detail.contains(BUCKET_ELSEWHERE) => Self {
                key: "s3_addressing",
                ..fault(
                    "s3_addressing_wrong",
                    format!("the S3 storage {url} has the bucket elsewhere in URLs: {says}"),
                    ADDRESSING_CORRECTION,
                )
            },
            ErrorCode::PeerClosed | ErrorCode::PeerMisbehaved => unexpected(url, own, &says),
            ErrorCode::PeerFailed if error.peer_status().is_some() => answered(url, own, error),
            ErrorCode::PeerUnresolved => fault(
                "upstream_unreachable",
                format!("the host of the upstream server {url} is unknown: {says}"),
                &format!("correct the host name in {}", own.url_key()),
            ),
            _ => fault(
                "upstream_unreachable",
                format!("the upstream server {url} does not answer: {says}"),
                &format!("start it, correct {}, or open its port in the firewall", own.url_key()),
            ),
        }
    }
}

/// It serves the directory to no client.
fn not_exported(url: &str, own: OwnCredential, says: &str) -> UpstreamFault {
    let path = Location::parse(url).map_or_else(|_| url.to_owned(), |place| place.path().to_owned());
    let key = own.url_key();
    // XRootD does not show the directories above its exports.
    let is_whole_server = path.trim_matches('/').is_empty();
    let exports = format!("(all.export of XRootD, [[export]] path of Crossload) into {key}");
    UpstreamFault {
        code: "upstream_no_directory",
        says: format!("the server does not export {path}: {says}"),
        change: match is_whole_server {
            true => format!(
                "write an exported path {exports}; without it, clients reach those paths, and list nothing above"
            ),
            false => format!("write a path that the server exports {exports}"),
        },
        key,
        breaks_export: !is_whole_server,
    }
}

/// It does not accept the credential, or gives it no right to look at the directory.
fn refused(url: &str, own: OwnCredential, error: &Error) -> UpstreamFault {
    let says = error.public();
    let is_accepted = error.code() == ErrorCode::PeerForbidden && own != OwnCredential::Macaroons;
    UpstreamFault {
        code: "upstream_denied",
        says: match own {
            OwnCredential::Macaroons => {
                format!("the upstream server {url} refuses the macaroons of this server: {says}")
            }
            _ => format!("the upstream server {url} refuses this server: {says}"),
        },
        change: own.correction().to_owned(),
        key: match own {
            OwnCredential::S3Keys if says_unknown_key(error) => "s3_access_key_id",
            _ => own.key(),
        },
        // It may have rights below the directory.
        breaks_export: !is_accepted,
    }
}

/// The words that `s3-wire` adds to such a refusal.
fn says_unknown_key(error: &Error) -> bool {
    let words = error.peer_words();
    words.is_some_and(|words| words.contains("does not know the access key"))
}

fn no_tls(url: &str, own: OwnCredential) -> UpstreamFault {
    let key = own.url_key();
    UpstreamFault {
        code: "upstream_without_tls",
        says: format!("the upstream server {url} speaks no TLS on this port"),
        change: match url.split_once("s://") {
            Some((scheme, rest)) => own.with_other_url(&format!("{scheme}://{rest}")),
            None => format!("write the port with TLS into {key}"),
        },
        key,
        breaks_export: true,
    }
}

/// It answers with an error of its own.
fn answered(url: &str, own: OwnCredential, error: &Error) -> UpstreamFault {
    let (says, words) = (error.public(), error.peer_words().unwrap_or_default());
    let key = own.url_key();
    if wants_tls(words) {
        return UpstreamFault::other_scheme(url, own, &over_tls(url));
    }
    if own == OwnCredential::S3Keys && words.contains("region") {
        return UpstreamFault {
            code: "s3_region_wrong",
            says: format!("the S3 storage {url} is in another region: {says}"),
            change: match expected_region(words) {
                Some(region) => format!("write s3_region = \"{region}\""),
                None => "write the region of the bucket into s3_region".to_owned(),
            },
            key: "s3_region",
            breaks_export: true,
        };
    }
    // A trial object was refused.
    if own == OwnCredential::S3Keys && words.starts_with("NoSuchBucket") {
        return no_bucket(url, &says);
    }
    UpstreamFault {
        code: "upstream_unreachable",
        says: format!("the upstream server {url} answers with an error: {says}"),
        change: format!("see what it says, and its log; check the path and the port in {key}"),
        key,
        breaks_export: true,
    }
}

/// There is no bucket, as the storage says.
fn no_bucket(url: &str, says: &str) -> UpstreamFault {
    UpstreamFault {
        code: "upstream_no_directory",
        says: format!("the upstream server has no bucket for {url}: {says}"),
        change: "correct the bucket in s3, or make it".to_owned(),
        key: "s3",
        breaks_export: true,
    }
}

/// The region in the words of a storage: "the region 'a' is wrong; expecting 'b'".
fn expected_region(words: &str) -> Option<&str> {
    let (_, rest) = words.split_once("expecting ")?;
    let region = rest.trim_start_matches(['"', '\'']).split(['"', '\'']).next()?;
    is_region(region).then_some(region)
}

/// What answers does not speak the protocol of the URL.
fn unexpected(url: &str, own: OwnCredential, says: &str) -> UpstreamFault {
    let key = own.url_key();
    let change = match url.starts_with("http://") {
        true => format!(
            "check the port in {key}; if the server expects TLS there, write {key} = \"{}\"",
            over_tls(url)
        ),
        false => format!("check the port in {key}: another protocol may be spoken there"),
    };
    UpstreamFault {
        code: "upstream_unexpected",
        says: format!("the upstream server {url} gives no answer that makes sense: {says}"),
        change,
        key,
        breaks_export: true,
    }
}

fn over_tls(url: &str) -> String {
    url.replacen("://", "s://", 1)
}

/// TLS that fails, by what `net` says of it.
fn tls_failed(url: &str, own: OwnCredential, detail: &str, says: &str) -> UpstreamFault {
    let key = own.url_key();
    let begins = |words| detail.starts_with(words);
    let (code, change) = if begins("the certificate's issuer is not trusted") {
        let change = "name the authority of its certificate in [trust] ca_files".to_owned();
        ("upstream_untrusted", change)
    } else if begins("the certificate is not for") {
        let change = match url_of_certificate(url, detail) {
            Some(url) => format!("write {key} = \"{url}\", or another host of its certificate"),
            None => format!("write a host of its certificate into {key}"),
        };
        ("upstream_name_differs", change)
    } else if begins("the other end demands a certificate") {
        let change = "set remote_certificate: the server lets in only clients with a certificate".to_owned();
        ("upstream_tls_failed", change)
    } else {
        let change =
            format!("have its certificate renewed, name its authority in [trust], and write its host into {key}");
        ("upstream_tls_failed", change)
    };
    UpstreamFault {
        code,
        says: format!("no TLS with the upstream server {url}: {says}"),
        change,
        key,
        breaks_export: true,
    }
}

/// The URL with the first host for which the certificate is, which `net` names.
fn url_of_certificate(url: &str, detail: &str) -> Option<String> {
    let (_, names) = detail.split_once(", but for ")?;
    let name = names.split([',', ':', ' ']).next()?;
    let place = Location::parse(url).ok()?;
    let is_host = !name.is_empty() && !name.contains('*');
    is_host.then(|| url.replacen(place.host(), name, 1))
}

#[cfg(test)]
mod tests {
    use types::{PeerStatus, Side};

    use super::*;

    fn fault(url: &str, own: OwnCredential, code: ErrorCode, detail: &str) -> UpstreamFault {
        let error = Error::new(code, Side::Upstream, Phase::Open).with_detail(detail);
        UpstreamFault::of(url, own, &error)
    }

    #[test]
    fn each_credential_is_corrected_by_its_own_key() {
        for (own, key) in [
            (OwnCredential::Token, "remote_token_file"),
            (OwnCredential::Certificate, "remote_certificate"),
            (OwnCredential::S3Keys, "s3_secret_key_file"),
            (OwnCredential::Macaroons, "remote_macaroon_secret_file"),
        ] {
            let found = fault("https://a/d", own, ErrorCode::PeerDenied, "");
            assert_eq!((found.code, found.key), ("upstream_denied", key));
            assert!(found.change.contains(key) && found.breaks_export, "{found:?}");
        }
        let found = fault("https://a/d", OwnCredential::None, ErrorCode::PeerDenied, "");
        assert!(found.change.contains("anonymous there"), "{found:?}");
        // A directory that may not be seen can have others below it.
        let narrow = |own| fault("https://a/d", own, ErrorCode::PeerForbidden, "").breaks_export;
        assert!(!narrow(OwnCredential::Token) && narrow(OwnCredential::Macaroons));
    }

    #[test]
    fn a_path_that_is_not_exported_is_no_matter_of_credentials() {
        for (url, breaks_export) in [("root://a//x/y", true), ("root://a//", false)] {
            for own in [OwnCredential::None, OwnCredential::Token, OwnCredential::Certificate] {
                let found = fault(url, own, ErrorCode::PeerForbidden, PATH_NOT_EXPORTED);
                assert_eq!((found.code, found.key), ("upstream_no_directory", "remote"));
                let path = &url["root://a/".len()..];
                let words = format!("the server does not export {path}: ");
                assert!(found.says.starts_with(&words), "{found:?}");
                assert!(found.change.contains("all.export") && found.breaks_export == breaks_export);
            }
        }
    }

    #[test]
    fn a_port_of_another_protocol_is_named_as_such() {
        let no_tls = "the other end does not speak TLS on this port: use the port that does";
        let found = fault("https://a:80/d", OwnCredential::None, ErrorCode::PeerTlsFailed, no_tls);
        assert!(
            found.code == "upstream_without_tls" && found.change.starts_with("write remote = \"http://a:80/d\""),
            "{found:?}"
        );
        let roots = |own| fault("roots://a//d", own, ErrorCode::PeerTlsFailed, no_tls).change;
        assert!(roots(OwnCredential::Certificate).starts_with("write remote = \"root://a//d\""));
        for own in [OwnCredential::Token, OwnCredential::OfClients, OwnCredential::Macaroons] {
            assert_eq!(roots(own), "write the port with TLS into remote");
        }
        // XRootD begins in clear text always.
        let found = fault("root://a//d", OwnCredential::None, ErrorCode::PeerClosed, "");
        assert!(
            found.code == "upstream_unexpected" && !found.change.contains("roots://"),
            "{found:?}"
        );
        let found = fault("http://a:1/d", OwnCredential::S3Keys, ErrorCode::PeerClosed, "");
        assert!(found.change.ends_with("write s3 = \"https://a:1/d\""), "{found:?}");
        let error = Error::new(ErrorCode::PeerFailed, Side::Upstream, Phase::Open);
        for words in [
            "400 The plain HTTP request was sent to HTTPS port",
            "Client sent an HTTP request to an HTTPS server.",
        ] {
            let error = error.clone().with_peer(Some(PeerStatus::Http(400)), words);
            let found = UpstreamFault::of("http://a:443/d", OwnCredential::None, &error);
            let change = "write remote = \"https://a:443/d\", or another port";
            assert_eq!((found.code, &*found.change), ("upstream_expects_tls", change));
        }
        let found = UpstreamFault::other_scheme("root://a:443//d", OwnCredential::None, "https://a:443/d");
        assert_eq!(found.code, "upstream_unexpected");
        assert!(
            found.says.contains("speaks https on this port, and not root"),
            "{found:?}"
        );
    }

    #[test]
    fn what_an_s3_storage_says_leads_to_the_key() {
        let told = |code, status, words| {
            let error = Error::new(code, Side::Upstream, Phase::Open);
            let error = error.with_peer(Some(PeerStatus::Http(status)), words);
            UpstreamFault::of("https://a/b", OwnCredential::S3Keys, &error)
        };
        for (words, change) in [
            (
                "AuthorizationHeaderMalformed: the region 'x' is wrong; expecting 'y-1'",
                "write s3_region = \"y-1\"",
            ),
            (
                "AuthorizationQueryParametersError: the region \"\" is wrong; expecting \"y-1\"",
                "write s3_region = \"y-1\"",
            ),
            (
                "AuthorizationHeaderMalformed: the region is wrong",
                "write the region of the bucket into s3_region",
            ),
        ] {
            let found = told(ErrorCode::PeerFailed, 400, words);
            assert_eq!(
                (found.code, found.key, &*found.change),
                ("s3_region_wrong", "s3_region", change)
            );
        }
        let found = told(ErrorCode::PeerFailed, 404, "NoSuchBucket: x");
        assert_eq!((found.code, found.key), ("upstream_no_directory", "s3"));
        let found = fault(
            "https://a/b",
            OwnCredential::S3Keys,
            ErrorCode::PeerMisbehaved,
            BUCKET_ELSEWHERE,
        );
        assert_eq!((found.code, found.key), ("s3_addressing_wrong", "s3_addressing"));
        let unknown = "InvalidAccessKeyId: no (the server does not know the access key)";
        assert_eq!(told(ErrorCode::PeerDenied, 403, unknown).key, "s3_access_key_id");
        assert_eq!(
            told(ErrorCode::PeerDenied, 403, "SignatureDoesNotMatch").key,
            "s3_secret_key_file"
        );
        let found = told(ErrorCode::PeerFailed, 500, "InternalError");
        assert!(!found.says.contains("does not answer"), "{found:?}");
    }

    #[test]
    fn tls_that_fails_says_what_to_change() {
        for (detail, code, words) in [
            (
                "the certificate's issuer is not trusted here: add",
                "upstream_untrusted",
                "[trust] ca_files",
            ),
            (
                "the certificate is not for a, but for b.org, c and 3 more: use",
                "upstream_name_differs",
                "write remote = \"https://b.org:1/d\"",
            ),
            (
                "the certificate is not for a, but for *.b.org: use",
                "upstream_name_differs",
                "into remote",
            ),
            (
                "the certificate is not for a, and for no other host (it has no names in subjectAltName): get",
                "upstream_name_differs",
                "into remote",
            ),
            (
                "the other end demands a certificate, and none",
                "upstream_tls_failed",
                "remote_certificate",
            ),
            (
                "the certificate has expired on 2024-01-01",
                "upstream_tls_failed",
                "renewed",
            ),
        ] {
            let found = fault("https://a:1/d", OwnCredential::None, ErrorCode::PeerTlsFailed, detail);
            assert!(found.code == code && found.change.contains(words), "{found:?}");
        }
    }

    #[test]
    fn a_key_that_may_not_write_is_no_storage_that_is_away() {
        let found = fault("https://a/b", OwnCredential::S3Keys, ErrorCode::Forbidden, "");
        assert!(
            found.code == "upstream_read_only" && found.change.contains("read_only = true") && !found.breaks_export,
            "{found:?}"
        );
        let found = fault("https://a/b", OwnCredential::S3Keys, ErrorCode::PeerUnreachable, "");
        assert!(
            found.code == "upstream_unreachable" && found.change.contains("correct s3"),
            "{found:?}"
        );
    }
}
