//! Checksums that the server does not know, kept in the tags of objects.

use s3_wire::{Place, Request, Tag, tagged_checksums, tagging_body, tags, with_checksums};
use types::{Checksum, ErrorCode, Phase, Result};

use super::client::{Client, Small};
use crate::resource::Resource;

/// Asks for the tags of an object.
const TAGGING: [(&str, &str); 1] = [("tagging", "")];

impl Client {
    /// The checksums in the tags of an object, if they are of this version.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) async fn kept_checksums(&self, file: &Resource, etag: &str) -> Result<Vec<Checksum>> {
        let place = self.place(file)?;
        Ok(tagged_checksums(&self.tags(file, &place).await?, etag))
    }

    /// Adds checksums of this version to the tags of an object.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` if there is no place for them.
    pub(crate) async fn keep_checksums(&self, file: &Resource, etag: &str, checksums: &[Checksum]) -> Result<()> {
        let place = self.place(file)?;
        let tags = self.tags(file, &place).await?;
        let Some(tags) = with_checksums(tags, etag, checksums) else {
            let error = file.error(ErrorCode::PeerUnsupported, Phase::Open);
            return Err(error.with_detail("the object has no tags left for checksums"));
        };
        self.set_tags(file, &place, &tags).await
    }

    /// The tags of an object.
    ///
    /// # Errors
    /// The server's refusal.
    pub(super) async fn tags(&self, file: &Resource, place: &Place) -> Result<Vec<Tag>> {
        let request = Request {
            query: &TAGGING,
            ..Request::plain(s3_wire::Method::Get)
        };
        let body = self.ask_document(file, place, &Small::of(request)).await?;
        tags(&body).map_err(|error| file.blame(error))
    }

    async fn set_tags(&self, file: &Resource, place: &Place, tags: &[Tag]) -> Result<()> {
        let request = Request {
            query: &TAGGING,
            ..Request::plain(s3_wire::Method::Put)
        };
        let body = tagging_body(tags);
        let small = Small {
            body: body.as_bytes(),
            ..Small::of(request)
        };
        self.ask(file, place, &small).await?.finish().await;
        Ok(())
    }
}
