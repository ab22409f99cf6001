//! An object in parts that are sent at the same time.

use std::fmt;

use s3_wire::Parts;
use types::{Checksum, Result};

use super::client::Client;
use super::multipart::Multipart;
use crate::options::{PutOptions, Stored};
use crate::outlet::Outlet;
use crate::parts::PartsUpload;
use crate::protocol::Pending;
use crate::resource::Resource;

/// An object in parts.
pub(crate) struct ObjectParts {
    multipart: Multipart,
    parts: Parts,
    declared: Vec<Checksum>,
}

impl Client {
    /// Begins an object in parts.
    ///
    /// # Errors
    /// The server's refusal; `peer_exists`.
    pub(crate) async fn put_in_parts(
        &self,
        file: &Resource,
        size_bytes: u64,
        options: &PutOptions,
    ) -> Result<ObjectParts> {
        let target = self.target(file, options).await?;
        Ok(ObjectParts {
            multipart: target.begin_parts().await?,
            parts: Parts::of(size_bytes),
            declared: options.declared.clone(),
        })
    }
}

impl PartsUpload for ObjectParts {
    fn part_bytes(&self) -> u64 {
        self.parts.part_bytes
    }

    fn begin(&self, index: u64) -> Pending<'_, Outlet> {
        Box::pin(async move {
            let part = self.multipart.part(index, self.parts.range(index).len()).await?;
            Ok(Outlet::new(part))
        })
    }

    fn end(&self, index: u64, part: Outlet) -> Pending<'_, ()> {
        let size_bytes = self.parts.range(index).len();
        Box::pin(async move { self.multipart.end_part(index, size_bytes, part.finish().await) })
    }

    fn complete(self: Box<Self>) -> Pending<'static, Stored> {
        Box::pin(async move { self.multipart.complete(&self.declared).await })
    }
}

impl fmt::Debug for ObjectParts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.multipart.fmt(formatter)
    }
}
