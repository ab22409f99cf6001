//! What revocation lists say of a certificate.

use std::collections::HashSet;

use gsi_wire::{Certificate, RevocationList, significant};
use types::{Error, ErrorCode};

use super::{Revocation, refused};

/// The list of one authority, its signature verified.
#[derive(Debug)]
pub(super) struct Revoked {
    this_update_s: i64,
    next_update_s: Option<i64>,
    serials: HashSet<Box<[u8]>>,
}

impl Revoked {
    pub(super) fn new(list: &RevocationList<'_>) -> Self {
        Self {
            this_update_s: list.this_update_s,
            next_update_s: list.next_update_s,
            serials: list.serials.iter().cloned().collect(),
        }
    }

    /// When it was made, in seconds since 1970.
    pub(super) fn made_s(&self) -> i64 {
        self.this_update_s
    }

    /// When the next one is due, in seconds since 1970.
    pub(super) fn next_update_s(&self) -> Option<i64> {
        self.next_update_s
    }

    /// Whether this list was made after the other.
    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        self.this_update_s > other.this_update_s
    }

    fn lists(&self, serial: &[u8]) -> bool {
        self.serials.contains(significant(serial))
    }

    fn is_outdated(&self, now_s: i64) -> bool {
        self.next_update_s.is_some_and(|next| next < now_s)
    }
}

/// What is known of the revocations of an authority.
#[derive(Debug, Default)]
pub(super) enum Knowledge {
    /// There is no list.
    #[default]
    Nothing,
    /// There is one, which cannot be read or is not signed by the authority.
    Broken,
    /// There is one.
    List(Revoked),
}

impl Knowledge {
    /// Checks one certificate of the authority.
    ///
    /// A certificate on an outdated list is revoked all the same.
    ///
    /// # Errors
    /// `certificate_revoked`, `certificate_revocation_unknown`.
    pub(super) fn check(&self, certificate: &Certificate<'_>, mode: Revocation, now_s: i64) -> Result<(), Error> {
        let name = certificate.subject().one_line;
        let authority = certificate.issuer().one_line;
        let unknown = |why: &str| {
            Err(refused(
                ErrorCode::CertificateRevocationUnknown,
                format!("the authority of {name}, {authority}, has a revocation list that {why}"),
            ))
        };
        match (self, mode) {
            (_, Revocation::Off) | (Self::Nothing, Revocation::IfPresent) => Ok(()),
            (Self::Nothing, Revocation::Required) => Err(refused(
                ErrorCode::CertificateRevocationUnknown,
                format!("there is no revocation list of the authority of {name}, {authority}"),
            )),
            (Self::Broken, _) => unknown("cannot be read here or is not signed by it"),
            (Self::List(list), _) if list.lists(certificate.serial()) => Err(refused(
                ErrorCode::CertificateRevoked,
                format!("{authority} has revoked {name}"),
            )),
            (Self::List(list), _) if list.is_outdated(now_s) => unknown("is out of date"),
            (Self::List(_), _) => Ok(()),
        }
    }
}
