//! Operations on names: remove, create, rename, stat, list (RFC 4918).

use http_wire::webdav::{MultistatusParser, Property, propfind_body};
use http_wire::{Depth, Method, RequestBuilder, parse_date};
use types::limits::CONTROL_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Location, PeerStatus, Phase, Result, decode_percent};

use super::answer::Answer;
use super::client::Client;
use super::exchange::{Ask, Body, Hop};
use super::listing::Listing;
use crate::Entry;
use crate::options::Offers;
use crate::resource::{Resource, Validator};

/// The media type of a PROPFIND's body.
const XML: &str = "application/xml; charset=\"utf-8\"";

/// The first entry of a multistatus.
async fn first_entry(mut answer: Answer, file: &Resource) -> Result<Entry> {
    let body = answer.collect(CONTROL_BODY_BYTES_MAX).await?;
    let parser = MultistatusParser::of_xrootd(answer.head.is_from_xrootd());
    let entries = parser.read_whole(&body).map_err(|error| file.blame(error))?;
    let first = entries.into_iter().next();
    let entry = first.ok_or_else(|| answer.misbehaved("the listing has no entry"));
    answer.release();
    entry
}

impl Client {
    /// Removes a file or an empty directory. Some servers remove directories with their content.
    ///
    /// # Errors
    /// `not_empty` for a directory with content that the server does not remove, or another
    /// refusal.
    pub(crate) async fn delete(&self, file: &Resource) -> Result<()> {
        self.delete_version(file, None).await
    }

    /// As [`Client::delete`]; only this version, if it has a strong entity tag.
    ///
    /// # Errors
    /// As [`Client::delete`]; a refusal with 412 for another version.
    pub(crate) async fn delete_version(&self, file: &Resource, version: Option<&Validator>) -> Result<()> {
        self.remove(file, |request| match version {
            Some(Validator::Tag(tag)) => request.if_match(tag),
            _ => request,
        })
        .await
    }

    /// Removes a directory that is empty. RFC 4918 §9.6.1 knows only the removal of all that is in
    /// it; ours take `Depth: 0` for one without.
    ///
    /// # Errors
    /// As [`Client::delete`].
    pub(crate) async fn remove_directory(&self, directory: &Resource) -> Result<()> {
        self.remove(directory, |request| request.depth(Depth::Zero)).await
    }

    async fn remove(
        &self,
        file: &Resource,
        headers: impl Fn(RequestBuilder) -> RequestBuilder + Send + Sync,
    ) -> Result<()> {
        let answer = match self.simple(file, Method::Delete, &headers).await {
            // XRootD closes kept connections instead of an answer. Whether the name is there tells
            // the outcome, and a removal may be asked for twice (RFC 9110 §9.2.2).
            Err(lost) if lost.code() == ErrorCode::OutcomeUnknown => match self.head(file, &[]).await {
                Err(error) if error.code() == ErrorCode::PeerNotFound => return Ok(()),
                Err(_) => return Err(lost),
                Ok(_) => self.simple(file, Method::Delete, &headers).await?,
            },
            answer => answer?,
        };
        let answer = answer.success().await.map_err(|error| {
            if says_not_empty(&error) {
                refusal_again(file, ErrorCode::NotEmpty, &error)
            } else {
                error
            }
        })?;
        if answer.head.status == 207 {
            // Some entry could not be removed (RFC 4918 §9.6.1).
            return Err(answer.refused_as(ErrorCode::PeerFailed).await);
        }
        answer.finish().await;
        Ok(())
    }

    /// Makes a directory (MKCOL). After 409 it is asked again with a slash at the end of the name:
    /// nginx refuses names without one, as if the parent were missing.
    ///
    /// # Errors
    /// `peer_exists` when the name is taken, `parent_missing`, or another refusal.
    pub(crate) async fn make_directory(&self, file: &Resource) -> Result<()> {
        match self.make_collection(file).await {
            Err(error) if error.code() == ErrorCode::ParentMissing => {
                let Some(slashed) = with_slash(file) else {
                    return Err(error);
                };
                self.make_collection(&slashed).await.map_err(|error| file.blame(error))
            }
            made => made,
        }
    }

    async fn make_collection(&self, file: &Resource) -> Result<()> {
        let answer = self.simple(file, Method::Mkcol, |request| request).await?;
        match answer.head.status {
            // RFC 4918 §9.3.1.
            405 => Err(answer.refused_as(ErrorCode::PeerExists).await),
            409 => Err(answer.refused_as(ErrorCode::ParentMissing).await),
            _ => {
                answer.success().await?.finish().await;
                Ok(())
            }
        }
    }

    /// Renames a file or directory within its server (MOVE).
    ///
    /// # Errors
    /// `peer_exists` when the new name is taken and may not be replaced, or another refusal.
    pub(crate) async fn rename(&self, file: &Resource, destination: &Location, overwrite: bool) -> Result<()> {
        let target = Resource {
            location: destination.clone(),
            ..file.clone()
        };
        self.refuse_cut_name(&target).await?;
        // XRootD (5.5.3, 6.2.1) replaces the file all the same. Between the two requests another
        // client may still make the name.
        if !overwrite {
            match self.stat(&target).await {
                Ok(_) => return Err(target.error(ErrorCode::PeerExists, Phase::Open)),
                Err(error) if error.code() == ErrorCode::PeerNotFound || error.code().denies_access() => {}
                Err(error) => return Err(error),
            }
        }
        let headers = |request: RequestBuilder| request.destination(destination).overwrite(overwrite);
        let answer = self.simple(file, Method::Move, headers).await?;
        match answer.head.status {
            412 if !overwrite => Err(answer.refused_as(ErrorCode::PeerExists).await),
            409 => Err(answer.refused_as(ErrorCode::ParentMissing).await),
            // RFC 4918 §9.9.4 for another server; ours answer 422 between exports, too.
            422 | 502 => Err(answer.refused_as(ErrorCode::CrossExport).await),
            207 => Err(answer.refused_as(ErrorCode::PeerFailed).await),
            _ => {
                answer.success().await?.finish().await;
                Ok(())
            }
        }
    }

    /// What a server offers for a file, and what it calls itself.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) async fn options(&self, file: &Resource) -> Result<Offers> {
        let answer = self.simple(file, Method::Options, |request| request).await?;
        let answer = answer.success().await?;
        let offers = Offers {
            methods: answer.head.allow().map(Method::from_name).collect(),
        };
        answer.finish().await;
        Ok(offers)
    }

    /// What a name stands for: by PROPFIND, or by HEAD where the server is no WebDAV server. HEAD
    /// cannot distinguish directories from files.
    ///
    /// # Errors
    /// `peer_not_found`, or another refusal.
    pub(crate) async fn stat(&self, file: &Resource) -> Result<Entry> {
        if file.signature().is_some() {
            return self.stat_by_head(file).await;
        }
        let answer = self.propfind(file, Depth::Zero).await?;
        match answer.head.status {
            207 => first_entry(answer, file).await,
            200..300 => {
                answer.finish().await;
                self.stat_by_head(file).await
            }
            400 | 405 | 415 | 501 => {
                let refused = answer.refused().await;
                match self.stat_by_head(file).await {
                    // An answer to HEAD has no body. This answer may say why, as at a port for TLS.
                    Err(error) if error.peer_status() == refused.peer_status() => Err(refused),
                    found => found,
                }
            }
            _ => Err(answer.refused().await),
        }
    }

    /// What PROPFIND says, without HEAD as a fallback.
    ///
    /// # Errors
    /// The server's refusal, or an answer that is no multistatus.
    pub(super) async fn properties(&self, file: &Resource) -> Result<Entry> {
        let answer = self.propfind(file, Depth::Zero).await?;
        match answer.head.status {
            207 => first_entry(answer, file).await,
            200..300 => Err(answer.misbehaved("this is no answer to PROPFIND")),
            _ => Err(answer.refused().await),
        }
    }

    async fn stat_by_head(&self, file: &Resource) -> Result<Entry> {
        let facts = match self.head(file, &[]).await {
            Err(error) if error.code() == ErrorCode::IsDirectory => {
                return Ok(Entry {
                    path: file.location.path().to_owned(),
                    is_directory: true,
                    ..Entry::default()
                });
            }
            facts => facts?,
        };
        let path = decode_percent(file.location.path()).unwrap_or_else(|| file.location.path().to_owned());
        let trimmed = path.trim_end_matches('/');
        Ok(Entry {
            path: if trimmed.is_empty() {
                "/".to_owned()
            } else {
                trimmed.to_owned()
            },
            is_directory: path.ends_with('/'),
            size_bytes: facts.size_bytes,
            modified_s: facts.last_modified.as_deref().and_then(parse_date),
            etag: facts.etag,
            checksums: facts.checksums,
            ..Entry::default()
        })
    }

    /// The entries of a directory, a batch at a time.
    ///
    /// # Errors
    /// The server's refusal; `not_directory` comes with the first batch.
    pub(crate) async fn list(&self, file: &Resource) -> Result<Listing> {
        let answer = self.propfind(file, Depth::One).await?;
        match answer.head.status {
            207 => Ok(Listing::new(answer, file)),
            200..300 => Err(answer.misbehaved("this is no listing")),
            _ => Err(answer.refused().await),
        }
    }

    async fn propfind(&self, file: &Resource, depth: Depth) -> Result<Answer> {
        let body = propfind_body(&Property::ALL);
        let headers = |request: RequestBuilder, _: &Hop<'_>| {
            let request = request.depth(depth).content_type(XML);
            request.content_length(body.len() as u64)
        };
        let ask = Ask {
            method: Method::Propfind,
            headers: &headers,
            body: Body::Small(body.as_bytes()),
        };
        self.ask_until_taken(file, &ask).await
    }

    /// A request without a body.
    pub(super) async fn simple(
        &self,
        file: &Resource,
        method: Method,
        headers: impl Fn(RequestBuilder) -> RequestBuilder + Send + Sync,
    ) -> Result<Answer> {
        let headers = |request: RequestBuilder, _: &Hop<'_>| headers(request.accept_anything());
        let ask = Ask {
            method,
            headers: &headers,
            body: Body::Nothing,
        };
        self.ask_until_taken(file, &ask).await
    }
}

/// The directory with a slash at the end of its name. `None` if it has one, or a query, which may
/// be a signature of the name.
fn with_slash(file: &Resource) -> Option<Resource> {
    let location = &file.location;
    if location.path().ends_with('/') || location.query().is_some() {
        return None;
    }
    Some(Resource {
        location: location.with_path(&format!("{}/", location.path())),
        ..file.clone()
    })
}

/// Whether a server refused to remove a directory because it is not empty: by the status that most
/// servers use, or in words (XRootD 5.5 answers 500).
fn says_not_empty(error: &Error) -> bool {
    let words = error.peer_words().unwrap_or_default().to_ascii_lowercase();
    error.peer_status().is_some_and(PeerStatus::is_conflict) || words.contains("not empty")
}

fn refusal_again(file: &Resource, code: ErrorCode, error: &Error) -> Error {
    let words = error.peer_words().unwrap_or_default();
    file.error(code, Phase::Open).with_peer(error.peer_status(), words)
}
