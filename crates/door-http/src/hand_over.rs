//! Hand-over: what TLS has authorised is sent in clear text, after a redirect with a capability
//! (DPM did it so: "HTTPS redirects with a token to HTTP").
//!
//! GET is redirected with 302; PUT with 307, and only if its client waits for `100 Continue` before
//! it sends the body. HEAD and everything else stays on TLS, and so does a client that sends
//! `Secure-Redirection: 1`.

use std::net::IpAddr;

use credentials::capability::{CapabilityUse, Redeemed};
use endpoint::{HandOver, Shown, Spoken, refusal};
use http_wire::{Method, RequestHead};
use types::{ErrorCode, LogicalPath, Result};

/// Redeems the capability of a request, if it has one.
///
/// # Errors
/// Those of [`HandOver::redeem`].
pub(crate) fn redeem(
    hand_over: &HandOver,
    head: &RequestHead,
    path: &LogicalPath,
    address: IpAddr,
) -> Result<Option<Redeemed>> {
    let Some(text) = head.target.capability() else {
        return Ok(None);
    };
    let usage = match head.method {
        Method::Get => CapabilityUse::Read,
        Method::Head => CapabilityUse::Look,
        Method::Put => CapabilityUse::Write,
        _ => return Err(refusal(ErrorCode::CapabilityInvalid, path)),
    };
    let shown = Shown {
        usage,
        path,
        address,
        spoken: Spoken::Http,
    };
    hand_over.redeem(&text, &shown).map(Some)
}
