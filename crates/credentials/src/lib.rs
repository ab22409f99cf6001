//! Who is this? Given the bytes of a credential, the server's keys and a time, this crate says
//! what the credential is, whether it is genuine, and what it grants.
//!
//! Pure: no file, clock, socket or source of randomness is touched here; whatever of these is
//! needed is handed in by the caller. Whether the grant suffices for an operation is decided by
//! the crate `policy`.
#![forbid(unsafe_code)]

mod activity;
mod address;
mod attenuate;
pub mod capability;
mod caveat;
mod credential;
pub mod discovery;
mod duration;
mod exception;
mod grant;
pub mod gsi;
mod inspect;
mod issue;
pub mod limits;
mod macaroon;
mod principal;
mod request;
mod sealed;
mod token;
pub mod x509;

pub use activity::{Activities, Activity};
pub use address::AddressRange;
pub use attenuate::attenuate;
pub use caveat::{Caveat, format_time};
pub use credential::{
    Bearer, CertificateIssuer, Credential, CredentialKind, Identity, VerifiedCertificate, VerifiedMacaroon,
    VerifiedToken, is_user_name, read_bearer,
};
pub use duration::{duration_in_words, parse_duration_s};
pub use exception::Exception;
pub use grant::{Grant, Scope};
pub use inspect::{Fact, Inspection, Meaning, TokenKind, inspect};
pub use issue::{Allowance, Delegation, Issued, Issuer, Lifetimes, Owner, issue, mint_for};
pub use macaroon::{Macaroon, MacaroonKey, RawCaveat, SIGNATURE_BYTES};
pub use principal::Principal;
pub use request::{MacaroonRequest, RequestForm};
pub use sealed::{SEAL_SALT_BYTES, SealingKey};
pub use token::{
    IdTokenDemands, IssuerRules, KeySet, NameMap, SciTokensConfig, Shortfall, Strategy, TokenRules, UnverifiedToken,
    https_location, key_set_place, verify_token,
};

use types::{Error, ErrorCode, Phase, Side};

/// A token that is refused, and why, in words that its sender may see.
fn invalid_token(why: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidToken, Side::Client, Phase::Authenticate).with_detail(why)
}

/// A request that cannot be read, and why.
fn bad_request(why: impl Into<String>) -> Error {
    Error::new(ErrorCode::BadRequest, Side::Client, Phase::Authorize).with_detail(why)
}
