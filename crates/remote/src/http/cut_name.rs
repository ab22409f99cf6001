//! Names that XRootD cuts. Its HTTP decodes the path of a request, and takes what is behind a
//! question mark for options: `x%3F1` is the file `x` there, which a DELETE removes and a PUT
//! replaces (seen with 5.5.3 and 6.2.1). Over its own protocol no such name can be expressed.

use http_wire::{Method, RequestBuilder};
use types::{ErrorCode, Phase, Result};

use super::client::Client;
use super::exchange::{Ask, Body, Hop};
use crate::resource::Resource;

/// A question mark in a path.
const ENCODED: &str = "%3F";

impl Client {
    /// Refuses a path with a question mark at a server that would take another file. XRootD names
    /// itself in each answer, so it is asked for what it offers first; no other path costs a
    /// request.
    ///
    /// # Errors
    /// `path_refused`, or no answer.
    pub(super) async fn refuse_cut_name(&self, file: &Resource) -> Result<()> {
        let is_whole = !file.location.path().to_ascii_uppercase().contains(ENCODED);
        if is_whole || file.access.account.is_some() || file.access.signed_for.is_some() {
            return Ok(());
        }
        let top = Resource {
            location: file.location.with_path("/"),
            ..file.clone()
        };
        let ask = Ask {
            method: Method::Options,
            headers: &|request: RequestBuilder, _: &Hop<'_>| request,
            body: Body::Nothing,
        };
        let answer = self.ask_here(&top, &ask).await?;
        let is_cut = answer.head.is_from_xrootd();
        answer.finish().await;
        if is_cut {
            let error = file.error(ErrorCode::PathRefused, Phase::Open);
            return Err(error.with_detail("XRootD would cut this name at its question mark, and take another file"));
        }
        Ok(())
    }
}
