//! A file on another server, as a sink.

use std::sync::{Arc, OnceLock};

use net::{Batch, Ends};
use remote::{Client, CreatedFile, GetOptions, Outlet, PartsWriter, PutOptions, Resource, Stored, Validator};
use storage::{Answer, Overwrite};
use types::{ByteRange, Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Side};

use super::remote_parts::RemoteParts;
use super::sink::{BeginOptions, Begun, Sink, SinkAbilities, SinkFacts, UploadStream};
use super::source::Incoming;
use crate::mover::send_batch;
use crate::options::Order;
use crate::progress::{Progress, Replaced};

/// A file on another server.
pub struct RemoteSink {
    client: Client,
    file: Resource,
    /// The server, if it has the file that is to be replaced, and compares checksums behind the
    /// content.
    compares_trailers_at: OnceLock<Location>,
    /// That file, if the server names versions.
    replaced: OnceLock<Replaced>,
}

impl RemoteSink {
    /// A file that `client` stores.
    #[must_use]
    pub fn new(client: &Client, file: &Resource) -> Self {
        Self {
            client: client.clone(),
            file: file.clone(),
            compares_trailers_at: OnceLock::new(),
            replaced: OnceLock::new(),
        }
    }

    async fn ask(&self, order: &Order) -> Result<Option<bool>> {
        if !order.ask_first || self.client.abilities(&self.file.location).allows_one_method {
            return Ok(None);
        }
        match self.client.head(&self.file, &[]).await {
            Ok(_) if order.overwrite == Overwrite::Refuse => {
                Err(Error::new(ErrorCode::PeerExists, Side::Destination, Phase::Open).with_subject(&self.file.location))
            }
            Ok(facts) => {
                if let Some(version @ Validator::Tag(_)) = facts.validator() {
                    let size_bytes = facts.size_bytes;
                    let _ = self.replaced.set(Replaced { version, size_bytes });
                }
                if facts.compares_trailers {
                    let _ = self.compares_trailers_at.set(facts.location);
                }
                Ok(Some(true))
            }
            Err(error) if error.code() == ErrorCode::PeerNotFound => Ok(Some(false)),
            // A token for writing may not allow stat. The upload will show.
            Err(error) if error.peer_status().is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Sink for RemoteSink {
    fn abilities(&self) -> SinkAbilities {
        let abilities = self.client.abilities(&self.file.location);
        SinkAbilities {
            any_order: false,
            is_remote: true,
            stores_parts_above: abilities.stores_parts_above,
            reports_md5: abilities.reports_md5,
            leaves_remains: abilities.leaves_remains,
        }
    }

    fn existed<'a>(&'a self, order: &'a Order) -> Answer<'a, Option<bool>> {
        Box::pin(self.ask(order))
    }

    fn replaced(&self) -> Option<Replaced> {
        self.replaced.get().cloned()
    }

    fn begin<'a>(&'a self, options: &'a BeginOptions<'a>) -> Answer<'a, Begun> {
        Box::pin(async {
            // In chunks the kernel cannot send the file, so only where it is hashed anyway.
            let comparing = self.compares_trailers_at.get();
            let put = PutOptions {
                size_bytes: options.size_bytes,
                overwrite: options.order.overwrite == Overwrite::Allow,
                is_absent: options.is_absent,
                declared: options.declared.to_vec(),
                compares_trailers_at: comparing.filter(|_| options.declares_behind).cloned(),
                modified: options.order.modified,
            };
            if let Some(size) = options.size_bytes.filter(|_| options.in_parts) {
                let parts = self.client.put_in_parts(&self.file, size, &put).await?;
                let parts = PartsWriter::new(parts, size);
                return Ok(Begun::Part(Arc::new(RemoteParts::new(parts, options.progress))));
            }
            let outlet = self.client.put(&self.file, &put).await?;
            Ok(Begun::Stream(Box::new(outlet)))
        })
    }

    fn look<'a>(&'a self, wanted: &'a [ChecksumAlgorithm]) -> Answer<'a, SinkFacts> {
        Box::pin(async {
            let facts = self.client.head(&self.file, wanted).await?;
            Ok(SinkFacts {
                size_bytes: facts.size_bytes,
                version: facts.validator(),
                age_s: facts.age_s,
                identity: facts.identity,
                checksums: facts.checksums,
            })
        })
    }

    fn read_back(&self, count: u64) -> Answer<'_, Box<dyn Incoming>> {
        Box::pin(async move {
            let options = GetOptions {
                range: Some(ByteRange::new(0, count)),
                ..GetOptions::default()
            };
            Ok(Box::new(self.client.get(&self.file, &options).await?) as Box<dyn Incoming>)
        })
    }

    fn remove<'a>(&'a self, version: Option<&'a Validator>) -> Answer<'a, ()> {
        Box::pin(self.client.delete_version(&self.file, version))
    }

    fn location(&self) -> Option<&Location> {
        Some(&self.file.location)
    }
}

impl UploadStream for Outlet {
    fn append<'a>(&'a mut self, batch: Batch, progress: &'a Progress) -> Answer<'a, ()> {
        Box::pin(send_batch(self, batch, progress))
    }

    fn outlet(&mut self) -> Option<&mut Outlet> {
        Some(self)
    }

    fn created(&self) -> Option<CreatedFile> {
        Self::created(self)
    }

    fn ends(&self) -> Option<Ends> {
        Self::ends(self)
    }

    fn declare(&mut self, computed: &[Checksum]) {
        Self::declare(self, computed);
    }

    fn finish(self: Box<Self>) -> Answer<'static, Stored> {
        Box::pin(Self::finish(*self))
    }
}
