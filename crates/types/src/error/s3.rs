//! The S3 errors that we answer with.
//!
//! Source: "Error responses" in the Amazon S3 API reference. `QuotaExceeded` is Ceph's, since
//! Amazon has no quotas.

macro_rules! errors {
    ($($variant:ident $code:literal $status:literal;)*) => {
        /// An error of the S3 protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are the documentation")]
        pub enum S3 { $($variant),* }

        impl S3 {
            /// The `Code` in the answer's XML.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }

            /// The HTTP status of the answer.
            #[must_use]
            pub fn status(self) -> u16 {
                match self { $(Self::$variant => $status),* }
            }
        }
    };
}

errors! {
    AccessDenied "AccessDenied" 403;
    BadDigest "BadDigest" 400;
    EntityTooLarge "EntityTooLarge" 400;
    ExpiredToken "ExpiredToken" 400;
    IncompleteBody "IncompleteBody" 400;
    InternalError "InternalError" 500;
    InvalidRange "InvalidRange" 416;
    InvalidRequest "InvalidRequest" 400;
    InvalidToken "InvalidToken" 400;
    InvalidUri "InvalidURI" 400;
    KeyTooLong "KeyTooLongError" 400;
    MethodNotAllowed "MethodNotAllowed" 405;
    MissingContentLength "MissingContentLength" 411;
    NoSuchKey "NoSuchKey" 404;
    NotImplemented "NotImplemented" 501;
    OperationAborted "OperationAborted" 409;
    PreconditionFailed "PreconditionFailed" 412;
    QuotaExceeded "QuotaExceeded" 403;
    RequestHeaderTooLarge "RequestHeaderSectionTooLarge" 400;
    RequestTimeout "RequestTimeout" 400;
    ServiceUnavailable "ServiceUnavailable" 503;
    SignatureDoesNotMatch "SignatureDoesNotMatch" 403;
    SlowDown "SlowDown" 503;
}

#[cfg(test)]
mod tests {
    use super::super::code::ErrorCode;
    use super::super::row::Retry;

    /// S3 clients retry after 5xx, `RequestTimeout` and an interrupted body, and after nothing
    /// else.
    #[test]
    fn a_client_of_s3_retries_where_it_helps() {
        for code in ErrorCode::ALL.iter().filter(|code| code.retry() == Retry::Yes) {
            let error = code.s3();
            let tries_again = error.status() >= 500
                || matches!(error.code(), "RequestTimeout" | "IncompleteBody" | "OperationAborted");
            assert!(tries_again, "{code:?}: {}", error.code());
        }
        for code in ErrorCode::ALL.iter().filter(|code| code.retry() == Retry::No) {
            assert!(
                !matches!(code.s3().code(), "SlowDown" | "ServiceUnavailable"),
                "{code:?}"
            );
        }
    }
}
