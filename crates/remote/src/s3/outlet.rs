//! Storing objects: in parts whose sizes are known, or collected in memory, for small objects and
//! content of unknown length.

use std::fmt;
use std::time::Instant;

use net::{Ends, Outgoing, Stream};
use s3_wire::limits::PART_BYTES_MIN;
use s3_wire::{Parts, Place, Request, collected_part_bytes, header};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result};

use super::client::Client;
use super::multipart::Multipart;
use super::part::PartOutlet;
use super::patience::Patience;
use super::unclear::{Sent, is_unclear, md5_of, unknown};
use crate::http;
use crate::options::{PutOptions, Stored};
use crate::outlet::{FileUpload, Outlet};
use crate::resource::Resource;

impl Client {
    /// Begins to store an object. One that fits into the smallest part is collected and sent at its
    /// end, a larger one goes in parts: SeaweedFS makes an object of what came of a PUT that broke
    /// off.
    ///
    /// # Errors
    /// The server's refusal, which may come with the end only; `peer_exists` when the object exists
    /// and must not be replaced.
    pub(crate) async fn put(&self, file: &Resource, options: &PutOptions) -> Result<Outlet> {
        let target = self.target(file, options).await?;
        match options.size_bytes {
            Some(size) if size >= PART_BYTES_MIN => Ok(Outlet::new(InParts::begin(target, Parts::of(size)).await?)),
            size_bytes => Ok(Outlet::new(Collected::new(target, size_bytes))),
        }
    }

    /// The object to store.
    ///
    /// # Errors
    /// `is_directory` for a name that no object can have; `peer_exists`.
    pub(super) async fn target(&self, file: &Resource, options: &PutOptions) -> Result<Target> {
        let place = self.place(file)?;
        if place.key.is_empty() {
            let error = file.error(ErrorCode::IsDirectory, Phase::Open);
            return Err(error.with_detail("no object is outside of a bucket"));
        }
        if place.key.ends_with('/') {
            return Err(file.error(ErrorCode::IsDirectory, Phase::Open));
        }
        if !options.overwrite && !options.is_absent {
            self.check_absent(file).await?;
        }
        Ok(Target {
            client: self.clone(),
            file: file.clone(),
            place,
            overwrite: options.overwrite,
            declared: options.declared.clone(),
        })
    }

    pub(super) async fn check_absent(&self, file: &Resource) -> Result<()> {
        match self.head(file, &[]).await {
            Ok(_) => Err(file.error(ErrorCode::PeerExists, Phase::Open)),
            Err(error) if error.peer_status().is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Begins a PUT of known size, again where the server puts it off: no byte was sent then.
    ///
    /// # Errors
    /// The server's refusal.
    pub(super) async fn put_at(
        &self,
        file: &Resource,
        place: &Place,
        request: &Request<'_>,
        size_bytes: u64,
        overwrite: bool,
    ) -> Result<http::Outlet> {
        let options = PutOptions {
            size_bytes: Some(size_bytes),
            overwrite,
            is_absent: true,
            declared: Vec::new(),
            compares_trailers_at: None,
            modified: None,
        };
        let (mut patience, mut may_be_stored) = (Patience::default(), false);
        loop {
            let aimed = self.aim(file, &self.moved(place), request)?;
            let error = match self.http.put(&aimed, &options).await {
                Ok(outlet) => return Ok(outlet),
                // An empty object has no body that could be missing.
                Err(error) if may_be_stored && error.code() == ErrorCode::PeerExists => {
                    return Err(unknown(file, &error));
                }
                Err(error) => error,
            };
            may_be_stored |= size_bytes == 0 && is_unclear(&error);
            patience.after(self, file, place, error).await?;
        }
    }
}

/// An object to be stored.
pub(super) struct Target {
    client: Client,
    file: Resource,
    place: Place,
    overwrite: bool,
    /// Checksums that the object must have.
    declared: Vec<Checksum>,
}

impl Target {
    /// Begins to store these bytes by one request. Servers compare the checksums, and most of them
    /// refuse what came of a body that broke off for that reason alone.
    async fn put_whole(&self, content: &[u8]) -> Result<http::Outlet> {
        let declared = |algorithm| {
            let mut known = self.declared.iter().filter(move |known| known.algorithm() == algorithm);
            known.next().map(Checksum::to_base64)
        };
        let md5 = declared(ChecksumAlgorithm::Md5).unwrap_or_else(|| md5_of(content).to_base64());
        let mut headers = vec![(header::CONTENT_MD5, md5)];
        // Amazon takes one of these.
        let crc = declared(ChecksumAlgorithm::Crc32c).map(|sum| (header::CHECKSUM_CRC32C, sum));
        let other = || declared(ChecksumAlgorithm::Crc64Nvme).map(|sum| (header::CHECKSUM_CRC64NVME, sum));
        headers.extend(crc.or_else(other));
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, sum)| (*name, sum.as_str())).collect();
        let request = Request {
            headers: &headers,
            ..Request::plain(s3_wire::Method::Put)
        };
        self.client
            .put_at(&self.file, &self.place, &request, content.len() as u64, self.overwrite)
            .await
    }

    pub(super) async fn begin_parts(&self) -> Result<Multipart> {
        Multipart::begin(&self.client, &self.file, &self.place, self.overwrite).await
    }

    fn incomplete(&self, sent_bytes: u64, size_bytes: u64) -> Error {
        let error = self.file.error(ErrorCode::Internal, Phase::Transfer);
        error.with_detail(format!("{sent_bytes} of {size_bytes} bytes were sent"))
    }

    fn misused(&self, words: &str) -> Error {
        self.file
            .error(ErrorCode::Internal, Phase::Transfer)
            .with_private(words)
    }
}

/// An object of known size that is sent part by part, each straight from its source.
struct InParts {
    target: Target,
    multipart: Multipart,
    parts: Parts,
    /// The part that is being sent, by its index.
    current: Option<(u64, PartOutlet)>,
    /// Bytes of the parts before it.
    before_bytes: u64,
    ends: Option<Ends>,
}

impl InParts {
    async fn begin(target: Target, parts: Parts) -> Result<Self> {
        let multipart = target.begin_parts().await?;
        let first = multipart.part(0, parts.range(0).len()).await?;
        Ok(Self {
            ends: first.ends(),
            target,
            multipart,
            parts,
            current: Some((0, first)),
            before_bytes: 0,
        })
    }

    /// The part of the next byte; the one before it is ended first.
    async fn part(&mut self) -> Result<(&mut PartOutlet, u64)> {
        let is_full = |index: u64, outlet: &PartOutlet| outlet.sent_bytes() == self.parts.range(index).len();
        if let Some((index, outlet)) = self.current.take_if(|(index, outlet)| is_full(*index, outlet)) {
            let size_bytes = self.parts.range(index).len();
            self.multipart.end_part(index, size_bytes, outlet.finish().await)?;
            self.before_bytes = self.parts.range(index).end;
            let next = self.parts.range(index + 1);
            if !next.is_empty() {
                self.current = Some((index + 1, self.multipart.part(index + 1, next.len()).await?));
            }
        }
        match &mut self.current {
            Some((index, outlet)) => {
                let left = self.parts.range(*index).len() - outlet.sent_bytes();
                Ok((outlet, left))
            }
            None => Err(self.target.misused("more was to be sent than was announced")),
        }
    }
}

impl FileUpload for InParts {
    fn ends(&self) -> Option<Ends> {
        self.ends
    }

    fn sent_bytes(&self) -> u64 {
        self.before_bytes + self.current.as_ref().map_or(0, |(_, outlet)| outlet.sent_bytes())
    }

    async fn outgoing(&mut self) -> Result<Outgoing> {
        let (outlet, left) = self.part().await?;
        Ok(outlet.outgoing().await?.limited(left))
    }

    async fn send(&mut self, outgoing: Outgoing, filled: usize) -> Result<()> {
        match &mut self.current {
            Some((_, outlet)) => outlet.send(outgoing, filled).await,
            None => Err(self.target.misused("no part is open")),
        }
    }

    fn bare_stream(&mut self) -> Option<&mut Stream> {
        None
    }

    async fn check_answer(&mut self) -> Result<()> {
        match &mut self.current {
            Some((_, outlet)) => outlet.check_answer().await,
            None => Ok(()),
        }
    }

    async fn explain(&mut self, cause: Error) -> Error {
        match &mut self.current {
            Some((_, outlet)) => outlet.explain(cause).await,
            None => self.target.file.blame(cause),
        }
    }

    async fn finish(mut self) -> Result<Stored> {
        let sent = self.sent_bytes();
        if sent != self.parts.object_bytes {
            return Err(self.target.incomplete(sent, self.parts.object_bytes));
        }
        if let Some((index, outlet)) = self.current.take() {
            let size_bytes = self.parts.range(index).len();
            self.multipart.end_part(index, size_bytes, outlet.finish().await)?;
        }
        self.multipart.complete(&self.target.declared).await
    }
}

impl fmt::Debug for InParts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "InParts({}, {} bytes sent)",
            self.target.file.location,
            self.sent_bytes()
        )
    }
}

/// A small object, or one of unknown size: parts are collected in memory. One that fits into the
/// first part is stored by one request.
struct Collected {
    target: Target,
    /// The size that was announced.
    size_bytes: Option<u64>,
    multipart: Option<Multipart>,
    part: Vec<u8>,
    stored_parts: u64,
    sent_bytes: u64,
}

impl Collected {
    fn new(target: Target, size_bytes: Option<u64>) -> Self {
        Self {
            target,
            size_bytes,
            multipart: None,
            part: Vec::new(),
            stored_parts: 0,
            sent_bytes: 0,
        }
    }

    /// Stores the object by one request. If its end is unclear, looks what is there.
    async fn store_whole(&self) -> Result<Stored> {
        let began = Instant::now();
        // The request for an empty object has no body that could follow later.
        let mut may_be_stored = self.part.is_empty();
        let stored = async {
            let mut outlet = self.target.put_whole(&self.part).await?;
            may_be_stored = true;
            send_all(&mut outlet, &self.part).await?;
            outlet.finish().await
        };
        match stored.await {
            Err(error) if may_be_stored && is_unclear(&error) => {
                let sent = Sent::whole(&self.part, began, self.target.overwrite);
                self.target.client.look_for(&self.target.file, &sent, error).await
            }
            stored => stored,
        }
    }

    /// Sends the collected part, again if the server loses it.
    async fn send_part(&mut self) -> Result<()> {
        if self.multipart.is_none() {
            self.multipart = Some(self.target.begin_parts().await?);
        }
        let Some(multipart) = &self.multipart else {
            return Err(self.target.misused("no upload has begun"));
        };
        let mut patience = Patience::default();
        loop {
            let sent = async {
                let size_bytes = self.part.len() as u64;
                let mut outlet = multipart.part(self.stored_parts, size_bytes).await?;
                send_all(&mut outlet, &self.part).await?;
                multipart.end_part(self.stored_parts, size_bytes, outlet.finish().await)
            };
            let Err(error) = sent.await else { break };
            let target = &self.target;
            patience
                .after(&target.client, &target.file, &target.place, error)
                .await?;
        }
        self.stored_parts += 1;
        self.part.clear();
        Ok(())
    }
}

async fn send_all(outlet: &mut impl FileUpload, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let mut outgoing = outlet.outgoing().await?;
        let filled = outgoing.fill_with(bytes);
        outlet.send(outgoing, filled).await?;
        bytes = &bytes[filled..];
    }
    Ok(())
}

impl FileUpload for Collected {
    fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    async fn outgoing(&mut self) -> Result<Outgoing> {
        let left = collected_part_bytes(self.stored_parts) - self.part.len() as u64;
        Ok(Outgoing::unconnected().limited(left))
    }

    async fn send(&mut self, mut outgoing: Outgoing, filled: usize) -> Result<()> {
        if self.part.is_empty() {
            let most = collected_part_bytes(self.stored_parts);
            let bytes = self.size_bytes.map_or(most, |size| size.min(most));
            self.part.reserve_exact(usize::try_from(bytes).unwrap_or(0));
        }
        for slot in outgoing.slots(filled) {
            self.part.extend_from_slice(&slot);
        }
        self.sent_bytes += filled as u64;
        match (self.part.len() as u64) < collected_part_bytes(self.stored_parts) {
            true => Ok(()),
            false => self.send_part().await,
        }
    }

    async fn finish(mut self) -> Result<Stored> {
        if let Some(size) = self.size_bytes.filter(|size| *size != self.sent_bytes) {
            return Err(self.target.incomplete(self.sent_bytes, size));
        }
        if self.stored_parts == 0 {
            return self.store_whole().await;
        }
        if !self.part.is_empty() {
            self.send_part().await?;
        }
        match self.multipart.take() {
            Some(multipart) => multipart.complete(&self.target.declared).await,
            None => Err(self.target.misused("no upload has begun")),
        }
    }
}

impl fmt::Debug for Collected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Collected({}, {} bytes)",
            self.target.file.location, self.sent_bytes
        )
    }
}
