//! Forms: what they send, and whether a page of this server made them.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use endpoint::ids::hex;
use http_server::control::Refusal;
use types::{Error, ErrorCode, Phase, Side};
use url::form_urlencoded;

use crate::limits::WEB_BODY_BYTES_MAX;

/// The header by which browsers say where a request comes from (Fetch Metadata).
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Makes the tokens of forms: a page of another site cannot read them, so a request with the right
/// one comes from a page of ours.
pub(crate) struct FormKey(hmac::Key);

impl FormKey {
    /// A key that this process alone has.
    pub(crate) fn new() -> Self {
        let mut bytes = [0; 32];
        net::random::fill(&mut bytes);
        Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
    }

    /// The token of forms for this session or client.
    pub(crate) fn token(&self, holder: &str) -> String {
        hex(hmac::sign(&self.0, holder.as_bytes()).as_ref())
    }

    /// Whether a form has the token that was made for this session or client.
    pub(crate) fn is_token(&self, holder: &str, token: &str) -> bool {
        verify_slices_are_equal(self.token(holder).as_bytes(), token.as_bytes()).is_ok()
    }
}

/// The fields that a form sends.
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// `body_too_large`, or the body broke off.
    pub(crate) async fn read(request: Request) -> Result<Self, Refusal> {
        let body = to_bytes(request.into_body(), WEB_BODY_BYTES_MAX).await;
        let body = body.map_err(|cause| {
            let error = Error::new(ErrorCode::BodyTooLarge, Side::Client, Phase::Open);
            error.with_private(cause)
        })?;
        Ok(Self::of(&body))
    }

    /// Reads a query, or a body.
    pub(crate) fn of(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// The first field with this name; empty without one.
    pub(crate) fn get(&self, name: &str) -> &str {
        let mut fields = self.0.iter();
        fields.find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// Refuses a request whose headers show that a page of another site made it. Programs send no such
/// headers.
///
/// # Errors
/// `page_forbidden`.
pub(crate) fn demand_own_page(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name: &str| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap_or_default().to_ascii_lowercase())
    };
    let site = text(SEC_FETCH_SITE);
    // `none`: the user made the request, by going back to it for example.
    let is_own_site = site
        .as_deref()
        .is_none_or(|site| matches!(site, "same-origin" | "none"));
    let host = text(header::HOST.as_str()).unwrap_or_default();
    let is_own_origin = text(header::ORIGIN.as_str()).is_none_or(|origin| match origin.split_once("://") {
        Some((_, place)) => place == host,
        // Our pages send no referrer, so browsers hide the origin of their forms: then the other
        // header must say that it is ours.
        None => origin == "null" && site.is_some(),
    });
    match is_own_site && is_own_origin {
        true => Ok(()),
        false => Err(forbidden(
            "another site has sent this request; open the page here and try again",
        )),
    }
}

pub(crate) fn forbidden(detail: &str) -> Refusal {
    let error = Error::new(ErrorCode::PageForbidden, Side::Client, Phase::Authorize);
    error.with_detail(detail).into()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn tokens_are_of_their_holder_and_their_process() {
        let (key, other) = (FormKey::new(), FormKey::new());
        let token = key.token("jane");
        assert!(key.is_token("jane", &token));
        assert!(!key.is_token("john", &token) && !other.is_token("jane", &token));
        for forged in ["", &token[..63], &format!("{token}0"), &"0".repeat(64)] {
            assert!(!key.is_token("jane", forged), "{forged}");
        }
    }

    fn is_own(lines: &[(&str, &str)]) -> bool {
        let host = [("host", "se.example:8450")];
        let lines = host.iter().chain(lines).map(|(name, value)| {
            (
                HeaderName::try_from(*name).unwrap(),
                HeaderValue::try_from(*value).unwrap(),
            )
        });
        demand_own_page(&lines.collect()).is_ok()
    }

    #[test]
    fn forms_of_other_sites_are_known() {
        assert!(is_own(&[]), "a program");
        assert!(is_own(&[("origin", "https://SE.example:8450")]));
        assert!(is_own(&[("sec-fetch-site", "same-origin"), ("origin", "null")]));
        assert!(is_own(&[("sec-fetch-site", "none")]));
        for forged in [
            &[("origin", "https://evil.example")][..],
            &[("origin", "https://se.example:8449")],
            &[("origin", "https://se.example:8450.evil.example")],
            &[("origin", "null")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site"), ("origin", "null")],
            &[("sec-fetch-site", "same-origin"), ("origin", "https://evil.example")],
            &[("sec-fetch-site", "cross-site"), ("origin", "https://se.example:8450")],
        ] {
            assert!(!is_own(forged), "{forged:?}");
        }
    }

    #[test]
    fn a_field_is_the_first_of_its_name() {
        let form = Form::of(b"a=1%26&b=+x&a=2");
        assert_eq!((form.get("a"), form.get("b"), form.get("c")), ("1&", " x", ""));
    }
}
