//! The protocol: named contents in memory.

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex};

use net::{Batch, Outgoing};
use remote::{
    Abilities, Download, Facts, FileDownload, FileUpload, GetOptions, Outlet, Pending, PinnedHost, Protocol,
    PutOptions, Resource, Stored,
};
use storage::Hasher;
use types::{ByteRange, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result};

/// What comes in one batch.
const PIECE_BYTES: usize = 1 << 18;

/// A client of the made-up protocol, whose servers are this memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct MadeUp(pub(crate) Arc<Mutex<HashMap<String, Arc<Vec<u8>>>>>);

impl MadeUp {
    fn content(&self, file: &Resource) -> Result<Arc<Vec<u8>>> {
        let found = self.0.lock().unwrap().get(file.location.path()).cloned();
        let missing = Error::new(ErrorCode::PeerNotFound, file.side, Phase::Open);
        found.ok_or_else(|| missing.with_subject(&file.location))
    }
}

impl Protocol for MadeUp {
    fn schemes(&self) -> &'static [&'static str] {
        &["s3"]
    }

    fn speaks(&self, location: &Location) -> bool {
        location.to_wire().starts_with("s3://")
    }

    fn abilities(&self, _: &Location) -> Abilities {
        Abilities::default()
    }

    fn pinned(&self, _: PinnedHost) -> Arc<dyn Protocol> {
        Arc::new(self.clone())
    }

    fn head<'a>(&'a self, file: &'a Resource, wanted: &'a [ChecksumAlgorithm]) -> Pending<'a, Facts> {
        Box::pin(ready(self.content(file).map(|content| facts(file, &content, wanted))))
    }

    fn get<'a>(&'a self, file: &'a Resource, options: &'a GetOptions) -> Pending<'a, Download> {
        let begun = self.content(file).map(|content| {
            let range = options.range.unwrap_or(ByteRange::whole(content.len() as u64));
            let facts = facts(file, &content, &options.wanted);
            Download::new(Reading {
                content,
                facts,
                range,
                next: range.start as usize,
            })
        });
        Box::pin(ready(begun))
    }

    fn put<'a>(&'a self, file: &'a Resource, _: &'a PutOptions) -> Pending<'a, Outlet> {
        let (to, path) = (self.clone(), file.location.path().to_owned());
        Box::pin(ready(Ok(Outlet::new(Writing {
            to,
            path,
            content: Vec::new(),
        }))))
    }

    fn delete<'a>(&'a self, file: &'a Resource) -> Pending<'a, ()> {
        self.0.lock().unwrap().remove(file.location.path());
        Box::pin(ready(Ok(())))
    }
}

fn facts(file: &Resource, content: &[u8], wanted: &[ChecksumAlgorithm]) -> Facts {
    let mut hasher = Hasher::new(wanted);
    hasher.update(content);
    Facts {
        location: file.location.clone(),
        size_bytes: Some(content.len() as u64),
        etag: Some("\"1\"".to_owned()),
        last_modified: None,
        age_s: None,
        checksums: hasher.finish(),
        cached_s: None,
        checksum_refusal: None,
        accepts_ranges: Some(true),
        identity: None,
        compares_trailers: false,
    }
}

#[derive(Debug)]
struct Reading {
    content: Arc<Vec<u8>>,
    facts: Facts,
    range: ByteRange,
    next: usize,
}

impl FileDownload for Reading {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn range(&self) -> ByteRange {
        self.range
    }

    fn next(&mut self) -> Pending<'_, Option<Batch>> {
        let end = (self.next + PIECE_BYTES).min(self.range.end as usize);
        let piece = &self.content[self.next..end];
        self.next = end;
        Box::pin(ready(Ok((!piece.is_empty()).then(|| Batch::copied(piece)))))
    }
}

#[derive(Debug)]
struct Writing {
    to: MadeUp,
    path: String,
    content: Vec<u8>,
}

impl FileUpload for Writing {
    fn sent_bytes(&self) -> u64 {
        self.content.len() as u64
    }

    async fn outgoing(&mut self) -> Result<Outgoing> {
        Ok(Outgoing::unconnected())
    }

    async fn send(&mut self, mut outgoing: Outgoing, filled: usize) -> Result<()> {
        for slot in outgoing.slots(filled) {
            self.content.extend_from_slice(&slot);
        }
        Ok(())
    }

    async fn finish(self) -> Result<Stored> {
        self.to.0.lock().unwrap().insert(self.path, Arc::new(self.content));
        Ok(Stored::default())
    }
}
