//! Macaroon requests: a credential for one file and a short time, for the server that makes a copy.

use credentials::Activities;
use http_wire::{Method, RequestBuilder};
use types::limits::{CONTROL_BODY_BYTES_MAX, MACAROON_BYTES_MAX};
use types::{ErrorCode, Result, Secret};

use super::client::Client;
use super::exchange::{Ask, Body, Hop};
use crate::resource::Resource;

/// Statuses of servers that issue no macaroons: POST or this media type is unknown to them, or
/// macaroons are not configured.
const GIVES_NONE: [u16; 3] = [405, 415, 501];
const MACAROON_REQUEST: &str = "application/macaroon-request";

impl Client {
    /// Asks for a macaroon that allows `activities` on this file (the request form of dCache and
    /// XRootD), valid for `validity_s` seconds, rounded up to whole minutes.
    ///
    /// # Errors
    /// `no_macaroons` when the refusal means that the server issues none; another refusal; an
    /// answer without a macaroon.
    pub(crate) async fn request_macaroon(
        &self,
        file: &Resource,
        activities: Activities,
        validity_s: u64,
    ) -> Result<Secret> {
        let names: Vec<_> = activities.iter().map(|activity| activity.name()).collect();
        let wish = serde_json::json!({
            "caveats": [format!("activity:{}", names.join(","))],
            // XRootD reads no days and no fractions.
            "validity": format!("PT{}M", validity_s.div_ceil(60).max(1)),
        });
        let body = wish.to_string();
        let headers = |request: RequestBuilder, _: &Hop<'_>| {
            let request = request.accept_anything().content_type(MACAROON_REQUEST);
            request.content_length(body.len() as u64)
        };
        let ask = Ask {
            method: Method::Post,
            headers: &headers,
            body: Body::Small(body.as_bytes()),
        };
        let mut answer = match self.ask_until_taken(file, &ask).await? {
            answer if GIVES_NONE.contains(&answer.head.status) => {
                return Err(answer.refused_as(ErrorCode::NoMacaroons).await);
            }
            answer => answer.success().await?,
        };
        let body = Secret::new(String::from_utf8_lossy(&answer.collect(CONTROL_BODY_BYTES_MAX).await?));
        let parsed = serde_json::from_str::<serde_json::Value>(body.expose()).ok();
        let macaroon = parsed.as_ref().and_then(|value| value.get("macaroon")?.as_str());
        let fits = |text: &&str| {
            !text.is_empty() && text.len() <= MACAROON_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let macaroon = macaroon.filter(fits).map(Secret::new);
        let macaroon = macaroon.ok_or_else(|| answer.misbehaved("the answer holds no macaroon"));
        answer.release();
        macaroon
    }
}
