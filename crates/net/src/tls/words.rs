//! Why TLS failed, in plain words and with what to do next. rustls names most reasons by its
//! variants, which mean nothing to a user who wants a file; this is the one place that translates
//! them.

use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};
use rustls_pki_types::UnixTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use types::Error;

use super::group_names;
use crate::failure::Role;

/// How many names of a certificate an error lists: some hosts have hundreds.
const NAMES_MAX: usize = 8;

impl Role {
    /// rustls failed the handshake or the session: in plain words, which name no secret.
    #[must_use]
    pub(crate) fn tls_failed(self, cause: &rustls::Error) -> Error {
        self.tls(words(cause))
    }
}

/// What is wrong, and after a colon what helps. Names no secret.
pub(super) fn words(cause: &rustls::Error) -> String {
    use rustls::Error as E;
    match cause {
        E::InvalidCertificate(why) => certificate(why),
        E::InvalidCertRevocationList(_) => {
            "the authority's list of revoked certificates cannot be used: fetch it anew (fetch-crl)".into()
        }
        E::AlertReceived(alert) => alert_words(*alert),
        E::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon) => format!(
            "the two ends have no group for key exchange in common: the other side has to allow one of {}",
            group_names()
        ),
        E::PeerIncompatible(
            PeerIncompatible::NoSignatureSchemesInCommon
            | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
        ) => "the other end accepts no signature that the certificate's key can make: use a certificate with another \
              kind of key, or have the other end accept SHA-256 with it"
            .into(),
        E::PeerIncompatible(_) => {
            "the two ends have no version or cipher of TLS in common: the other side has to allow TLS 1.2 or newer"
                .into()
        }
        E::NoCertificatesPresented => "the other end has shown no certificate: it needs one".into(),
        // What is heard of a server that waits for a request in clear text.
        E::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the other end does not speak TLS on this port: use the port that does, or a URL for clear text".into()
        }
        // Errors about our own certificate.
        E::InconsistentKeys(_) => {
            "the private key does not belong to the certificate: name the two that belong together".into()
        }
        cause => cause.to_string(),
    }
}

/// What is wrong with the certificate that the other end has shown.
fn certificate(why: &CertificateError) -> String {
    use CertificateError as E;
    #[allow(deprecated, reason = "rustls may still give the variant without context")]
    match why {
        E::UnknownIssuer => {
            "the certificate's issuer is not trusted here: add its authority to the trusted ones, or have the \
             other end send its intermediate certificates"
                .into()
        }
        E::Expired => "the certificate has expired: it must be renewed".into(),
        E::ExpiredContext { not_after, .. } => {
            format!(
                "the certificate has expired on {}: it must be renewed",
                date(*not_after)
            )
        }
        E::NotValidYet => "the certificate is not valid yet: compare the clocks of the two machines, or wait".into(),
        E::NotValidYetContext { not_before, .. } => {
            let begin = date(*not_before);
            format!("the certificate is not valid before {begin}: compare the clocks of the two machines, or wait")
        }
        E::Revoked => "the certificate was revoked by its authority: a new one is needed".into(),
        E::NotValidForName => "the certificate is for another host: use the host name that it is for".into(),
        E::NotValidForNameContext { expected, presented } => other_names(&expected.to_str(), presented),
        E::BadSignature => {
            "a signature is wrong, of the certificate or made with it: it was altered, or its issuer is not the \
             trusted authority of that name; get the certificate anew, and the authority's"
                .into()
        }
        E::BadEncoding => "the certificate cannot be read: it must be issued anew".into(),
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
            "the certificate is not made for this use (extendedKeyUsage): get one that is made for servers".into()
        }
        E::UnsupportedSignatureAlgorithm
        | E::UnsupportedSignatureAlgorithmContext { .. }
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the certificate is signed in a way that is not accepted: get one that is signed with SHA-256 or better"
                .into()
        }
        E::UnknownRevocationStatus | E::ExpiredRevocationList | E::ExpiredRevocationListContext { .. } => {
            "whether the certificate was revoked cannot be known: fetch its authority's list (fetch-crl)".into()
        }
        E::UnhandledCriticalExtension => unknown_extension(),
        E::ApplicationVerificationFailure => "the certificate was refused: show another one".into(),
        E::Other(other) => match other.0.downcast_ref() {
            Some(why) => rarer(why),
            None => format!("the certificate is refused: {other}"),
        },
        other => format!("the certificate is refused: {other}"),
    }
}

/// What rustls has no variant for.
fn rarer(why: &webpki::Error) -> String {
    use webpki::Error as E;
    match why {
        E::CaUsedAsEndEntity => {
            "the certificate is an authority's, as self-signed ones mostly are, and not a host's: have one \
             issued for the host, with CA:FALSE"
                .into()
        }
        E::EndEntityUsedAsCa => {
            "the certificate was issued by one that is no authority's: get one of an authority (CA:TRUE)".into()
        }
        E::NameConstraintViolation | E::PathLenConstraintViolated => {
            "the certificate's authority may not issue such a certificate: get one of another authority".into()
        }
        E::UnsupportedCertVersion => "the certificate is of an old version: get one of X.509 version 3".into(),
        E::UnsupportedCriticalExtension => unknown_extension(),
        why => format!("the certificate is refused: {why:?}"),
    }
}

fn unknown_extension() -> String {
    "the certificate demands something that is not understood here (a critical extension): get one without it".into()
}

/// A certificate for other hosts.
fn other_names(expected: &str, presented: &[String]) -> String {
    let names: Vec<&str> = presented.iter().filter_map(|name| plain_name(name)).collect();
    if names.is_empty() {
        return format!(
            "the certificate is not for {expected}, and for no other host (it has no names in subjectAltName): get one \
             that names the host"
        );
    }
    let more = match names.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let told = names[..names.len().min(NAMES_MAX)].join(", ");
    format!(
        "the certificate is not for {expected}, but for {told}{more}: use a name that it is for, or get one for this name"
    )
}

/// A name as `webpki` writes it, `DnsName("se.example.org")` or `IpAddress(192.0.2.1)`, without its
/// kind; other kinds are no hosts.
fn plain_name(name: &str) -> Option<&str> {
    let inner = |kind| name.strip_prefix(kind)?.strip_suffix(')');
    inner("DnsName(")
        .map(|name| name.trim_matches('"'))
        .or_else(|| inner("IpAddress("))
        // A name without its kind is as good.
        .or_else(|| (!name.contains('(')).then_some(name))
}

fn date(time: UnixTime) -> String {
    i64::try_from(time.as_secs())
        .ok()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_else(|| "an unknown date".into())
}

/// What the other end gave as its reason for ending the connection (RFC 8446 §6.2).
pub(crate) fn alert_words(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let refused = |why: &str| format!("the other end refuses our certificate, {why}");
    match alert {
        A::UnknownCA => refused("since it does not trust its issuer: let it trust that authority"),
        A::CertificateExpired => refused("since it has expired, or its clock is wrong: renew it"),
        A::CertificateRevoked => refused("since it was revoked: get a new one"),
        A::BadCertificate | A::UnsupportedCertificate | A::CertificateUnknown => {
            refused("and does not say why: look into its log, and at the certificate's names, dates and use")
        }
        A::AccessDenied => refused("since it gives its bearer no access: ask for access there"),
        A::DecryptError => refused(
            "since a signature is wrong: look whether certificate and key belong together, and whether it knows another \
             authority of that name",
        ),
        A::CertificateRequired | A::NoCertificate => {
            "the other end demands a certificate, and none was shown: show one, such as a proxy".into()
        }
        A::HandshakeFailure | A::ProtocolVersion | A::InsufficientSecurity => {
            "the other end finds no version or cipher of TLS that both have: it must allow TLS 1.2 or newer".into()
        }
        A::UnrecognisedName => {
            "the other end serves no host of this name: use the name that its certificate is for".into()
        }
        A::InternalError => "the other end has failed (TLS alert: internal error): look into its log".into(),
        other => format!("the other end has ended the connection with the TLS alert {other:?}: look into its log"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rustls::OtherError;
    use rustls_pki_types::ServerName;

    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    fn for_names(presented: &[&str]) -> CertificateError {
        CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("se.example.org").unwrap(),
            presented: presented.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn other(why: webpki::Error) -> CertificateError {
        CertificateError::Other(OtherError(Arc::new(why)))
    }

    #[test]
    fn each_reason_has_its_words_and_what_helps() {
        use CertificateError as E;
        let (time, end) = (at(1_800_000_000), at(1_700_000_000));
        let table = [
            (E::UnknownIssuer, "is not trusted here", "add its authority"),
            (E::Expired, "has expired", "renewed"),
            (
                E::ExpiredContext { time, not_after: end },
                "has expired on 2023-11-14T22:13:20Z",
                "renewed",
            ),
            (E::NotValidYet, "not valid yet", "clocks"),
            (
                E::NotValidYetContext {
                    time: end,
                    not_before: time,
                },
                "not valid before 2027-01-15T08:00:00Z",
                "clocks",
            ),
            (E::Revoked, "was revoked", "a new one"),
            (E::NotValidForName, "for another host", "use the host name"),
            (
                for_names(&["DnsName(\"a.example\")", "IpAddress(192.0.2.1)"]),
                "not for se.example.org, but for a.example, 192.0.2.1:",
                "use a name",
            ),
            (for_names(&["Unsupported(0x81)"]), "for no other host", "subjectAltName"),
            (E::BadSignature, "a signature is wrong", "get the certificate anew"),
            (E::BadEncoding, "cannot be read", "anew"),
            (E::InvalidPurpose, "extendedKeyUsage", "made for servers"),
            (E::UnknownRevocationStatus, "cannot be known", "fetch-crl"),
            (E::UnhandledCriticalExtension, "critical extension", "without it"),
            (other(webpki::Error::CaUsedAsEndEntity), "self-signed", "CA:FALSE"),
            (other(webpki::Error::EndEntityUsedAsCa), "no authority's", "CA:TRUE"),
            (
                other(webpki::Error::NameConstraintViolation),
                "may not issue",
                "another authority",
            ),
            (other(webpki::Error::UnsupportedCertVersion), "old version", "version 3"),
        ];
        for (why, says, helps) in table {
            let text = words(&rustls::Error::InvalidCertificate(why.clone()));
            assert!(text.contains(says) && text.contains(helps), "{why:?}: {text}");
            assert!(
                !text.contains("Error") && text.contains(": "),
                "plain words, and what to do: {text}"
            );
        }
    }

    #[test]
    fn a_key_of_another_certificate_is_told_as_such() {
        let text = words(&rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch));
        assert!(text.contains("does not belong to the certificate: "), "{text}");
    }

    #[test]
    fn of_very_many_names_some_are_told() {
        let names: Vec<String> = (0..100).map(|n| format!("DnsName(\"h{n}.example\")")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = words(&for_names(&names).into());
        assert!(
            text.contains("h7.example and 92 more: ") && !text.contains("h8.example"),
            "{text}"
        );
    }

    #[test]
    fn what_the_other_end_says_is_told_as_its_doing() {
        let table = [
            (48, "does not trust its issuer"),
            (45, "expired"),
            (44, "revoked"),
            (42, "look into its log"),
            (116, "demands a certificate"),
            (70, "TLS 1.2"),
            (40, "TLS 1.2"),
            (112, "no host of this name"),
            (80, "internal error"),
            (51, "a signature is wrong"),
            (22, "TLS alert RecordOverflow"),
        ];
        for (number, says) in table {
            let text = words(&rustls::Error::AlertReceived(AlertDescription::from(number)));
            assert!(
                text.starts_with("the other end ") && text.contains(says),
                "{number}: {text}"
            );
        }
    }

    #[test]
    fn what_has_no_words_of_its_own_keeps_rustls_words() {
        let cause = rustls::Error::General("something".into());
        assert_eq!(words(&cause), cause.to_string());
        let odd = words(&rustls::Error::InvalidCertificate(other(webpki::Error::BadDerTime)));
        assert_eq!(odd, "the certificate is refused: BadDerTime");
    }
}
