//! What a server says when it refuses, and what that means for us.

use types::ErrorCode;

use crate::xml::Leaves;

/// A refusal of a server (`<Error>`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The error's name, such as `NoSuchKey`.
    pub code: String,
    /// The server's sentence.
    pub message: String,
    /// The region in which the bucket is, if the server says so.
    pub region: Option<String>,
    /// Our name of the error; `None` if the status says more.
    pub meaning: Option<ErrorCode>,
}

impl Refusal {
    /// The server's words for people, with advice where its own give none.
    #[must_use]
    pub fn words(&self) -> String {
        let said = match self.message.is_empty() {
            true => self.code.clone(),
            false => format!("{}: {}", self.code, self.message),
        };
        match advice(&self.code, &self.message) {
            Some(advice) => format!("{said} ({advice})"),
            None => said,
        }
    }

    /// Whether the server is overloaded or failed by accident, so that the request may be repeated
    /// after a pause.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(
            self.code.as_str(),
            "SlowDown" | "InternalError" | "ServiceUnavailable" | "RequestTimeout" | "OperationAborted"
        )
    }

    /// Whether the request belongs to another region.
    #[must_use]
    pub fn is_of_other_region(&self) -> bool {
        let codes = [
            "PermanentRedirect",
            "TemporaryRedirect",
            "AuthorizationHeaderMalformed",
            "AuthorizationQueryParametersError",
            "IllegalLocationConstraintException",
        ];
        codes.contains(&self.code.as_str())
    }
}

/// Reads the body of an answer, of any status: `None` if it is no refusal of S3.
#[must_use]
pub fn refusal(body: &[u8]) -> Option<Refusal> {
    let leaves = Leaves::read(body, "Error", ["Code", "Message", "Region"]).ok()?;
    let [code, message, region] = leaves.texts;
    let code = code.filter(|code| !code.is_empty())?;
    let plain = |text: String| {
        text.chars()
            .map(|one| if one.is_control() { ' ' } else { one })
            .collect()
    };
    Some(Refusal {
        meaning: meaning(&code),
        code: plain(code),
        message: plain(message.unwrap_or_default()),
        region: region.filter(|region| is_region(region)),
    })
}

/// Whether a text can be the name of a region. It becomes a part of what we sign.
#[must_use]
pub fn is_region(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

/// "Error responses" of the Amazon S3 API reference; `QuotaExceeded` is Ceph's,
/// `XAdminUserNotFound` versitygw's, `XMinio…` that of MinIO.
fn meaning(code: &str) -> Option<ErrorCode> {
    Some(match code {
        "NoSuchKey" | "NoSuchBucket" | "NoSuchVersion" => ErrorCode::PeerNotFound,
        "AccessDenied" | "AllAccessDisabled" | "AccountProblem" => ErrorCode::PeerForbidden,
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "InvalidToken"
        | "RequestTimeTooSkewed"
        | "XAdminUserNotFound"
        | "RequestExpired"
        | "InvalidSecurity"
        | "MissingSecurityHeader" => ErrorCode::PeerDenied,
        "QuotaExceeded" | "XMinioStorageFull" | "StorageFull" => ErrorCode::PeerNoSpace,
        "BadDigest" | "InvalidDigest" | "XAmzContentChecksumMismatch" => ErrorCode::ChecksumMismatch,
        "IncompleteBody" => ErrorCode::PeerSizeDiffers,
        "RequestTimeout" => ErrorCode::PeerStalled,
        "EntityTooLarge" => ErrorCode::BodyTooLarge,
        "MethodNotAllowed" | "NotImplemented" => ErrorCode::PeerUnsupported,
        // The last one: another client has just stored or removed the object that had to be new.
        "BucketAlreadyExists" | "BucketAlreadyOwnedByYou" | "ConditionalRequestConflict" => ErrorCode::PeerExists,
        "BucketNotEmpty" => ErrorCode::NotEmpty,
        "InvalidObjectState" => ErrorCode::PeerOnTape,
        _ => return None,
    })
}

/// What helps, where the server's own words do not say it.
fn advice(code: &str, message: &str) -> Option<&'static str> {
    // Amazon has no code of its own for signatures of another time.
    let message = message.to_ascii_lowercase();
    if code == "AccessDenied" && (message.contains("request has expired") || message.contains("not yet valid")) {
        return Some("the signature is of another time: it has expired, or the clocks differ");
    }
    Some(match code {
        "RequestTimeTooSkewed" => "our clock and the server's differ by over 15 minutes: correct the one that is wrong",
        "SignatureDoesNotMatch" => "the secret key is wrong, or something changed the request on its way",
        "InvalidAccessKeyId" | "XAdminUserNotFound" => "the server does not know the access key",
        "ExpiredToken" | "RequestExpired" => "the credentials or the signed URL have expired",
        "InvalidObjectState" => "the object is archived and must be restored first",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_codes_words_and_regions() {
        let body = b"<?xml version=\"1.0\"?>\n<Error><Code>PermanentRedirect</Code><Message>go &amp; ask</Message>\
            <Region>eu-west-1</Region></Error>";
        let said = refusal(body).unwrap();
        assert_eq!(
            (said.code.as_str(), said.message.as_str()),
            ("PermanentRedirect", "go & ask")
        );
        assert!(said.is_of_other_region() && said.region.as_deref() == Some("eu-west-1"));
        for (code, meaning) in [
            ("NoSuchKey", ErrorCode::PeerNotFound),
            ("QuotaExceeded", ErrorCode::PeerNoSpace),
            ("ConditionalRequestConflict", ErrorCode::PeerExists),
            ("RequestTimeTooSkewed", ErrorCode::PeerDenied),
            ("BadDigest", ErrorCode::ChecksumMismatch),
        ] {
            let said = refusal(format!("<Error><Code>{code}</Code></Error>").as_bytes()).unwrap();
            assert_eq!(said.meaning, Some(meaning), "{code}");
        }
        let slow = refusal(b"   <Error><Code>SlowDown</Code></Error>").unwrap();
        assert!(slow.may_pass() && slow.meaning.is_none());
        let skewed = refusal(b"<Error><Code>RequestTimeTooSkewed</Code></Error>").unwrap();
        assert!(skewed.words().contains("clock"), "{}", skewed.words());
        let body = b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>";
        assert!(refusal(body).unwrap().words().contains("clocks differ"));
    }

    #[test]
    fn what_is_no_refusal_is_none() {
        for body in [
            &b""[..],
            b"<html><Error><Code>x</Code></Error></html>",
            b"<Error></Error>",
            b"<Error><Code>x</Code>",
            b"<CompleteMultipartUploadResult><Code>x</Code></CompleteMultipartUploadResult>",
        ] {
            assert_eq!(refusal(body), None, "{}", String::from_utf8_lossy(body));
        }
        let odd = refusal(b"<Error><Code>x</Code><Region>a b</Region></Error>").unwrap();
        assert_eq!(odd.region, None);
    }
}
