//! Narrowing a macaroon that one holds, without its issuer and without any secret.

use types::Error;

use crate::bad_request;
use crate::caveat::Caveat;
use crate::grant::Grant;
use crate::macaroon::Macaroon;

/// Appends restrictions to a macaroon. The new one allows what the old one does and the
/// restrictions do, never more, since a caveat can be appended but not taken away.
///
/// Where a caveat of the macaroon is not understood (dCache has some of its own), the restrictions
/// are appended all the same: the server that knows it will combine them.
///
/// # Errors
/// `bad_request` when there is no restriction, one says who the bearer is (only the issuer can say
/// that), the result would be too long, or it would allow nothing at all.
pub fn attenuate(macaroon: &Macaroon, restrictions: &[Caveat]) -> Result<Macaroon, Error> {
    if restrictions.is_empty() {
        return Err(bad_request("no restriction is given"));
    }
    if restrictions.iter().any(Caveat::is_identity) {
        return Err(bad_request("only the issuer can say for whom a macaroon is"));
    }
    let mut narrowed = macaroon.clone();
    for restriction in restrictions {
        narrowed.attenuate(&restriction.to_string())?;
    }
    let allows_nothing = narrowed
        .read_caveats()
        .and_then(|caveats| Grant::from_caveats(&caveats))
        .is_ok_and(|grant| grant.scopes.is_empty());
    if allows_nothing {
        return Err(bad_request(
            "the restrictions exclude what the macaroon allows: it would allow nothing",
        ));
    }
    Ok(narrowed)
}
