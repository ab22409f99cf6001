//! How long what a client has opened may last: until its credential expires.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use credentials::{Credential, CredentialKind};
use tokio::time::sleep;
use types::{Error, ErrorCode, Phase, Side};

use crate::limits::TERM_LOOK_PAUSE;

/// The time for which a credential is valid. Without an end for passwords and anonymous clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Term {
    /// In milliseconds since 1970.
    ends_ms: Option<i64>,
}

impl Term {
    /// That of a credential.
    pub(crate) fn of(credential: &Credential) -> Self {
        Self {
            ends_ms: credential.expires_s().map(|expires_s| expires_s.saturating_mul(1000)),
        }
    }

    /// Whether it is over.
    pub(crate) fn has_ended(self) -> bool {
        self.ends_ms.is_some_and(|ends_ms| ends_ms <= now_ms())
    }

    /// The error after its end, for a credential of this kind.
    pub(crate) fn ended(self, kind: CredentialKind) -> Option<Error> {
        self.has_ended().then(|| expired(kind))
    }

    /// Waits for its end; without one for ever. The clock is read again from time to time, because
    /// it may be set meanwhile. May be dropped.
    pub(crate) async fn end(self) {
        let Some(ends_ms) = self.ends_ms else {
            return std::future::pending().await;
        };
        loop {
            let left_ms = ends_ms.saturating_sub(now_ms());
            match u64::try_from(left_ms) {
                Ok(0) | Err(_) => return,
                Ok(left_ms) => sleep(Duration::from_millis(left_ms).min(TERM_LOOK_PAUSE)).await,
            }
        }
    }
}

/// The error for a client whose credential of this kind has expired.
pub(crate) fn expired(kind: CredentialKind) -> Error {
    let code = match kind {
        CredentialKind::Certificate => ErrorCode::CertificateExpired,
        CredentialKind::Anonymous | CredentialKind::Macaroon | CredentialKind::Token => ErrorCode::TokenExpired,
    };
    Error::new(code, Side::Client, Phase::Authenticate)
}

/// The time, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
