//! A made-up store as a sink: named objects in memory, as a remote service would keep them.

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use net::Batch;
use remote::{Stored, Validator};
use storage::{Answer, Hasher, Overwrite};
use transfer::{BeginOptions, Begun, Order, PartFile, Sink, SinkAbilities, SinkFacts};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Side};

/// The objects, and the remains of interrupted copies by content.
#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) objects: HashMap<String, Vec<u8>>,
    /// When an object was stored last.
    stored: Option<Instant>,
    parts: HashMap<String, (String, Vec<u8>)>,
    /// Whether it stores wrong data.
    pub(crate) spoils: bool,
}

/// A name on the shelf.
#[derive(Clone, Default)]
pub(crate) struct MadeUp {
    shelf: Arc<Mutex<Shelf>>,
    name: String,
}

impl MadeUp {
    pub(crate) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap()
    }

    pub(crate) fn stored(&self) -> Option<Vec<u8>> {
        self.shelf().objects.get(&self.name).cloned()
    }
}

impl Sink for MadeUp {
    fn abilities(&self) -> SinkAbilities {
        SinkAbilities {
            any_order: true,
            is_remote: true,
            ..SinkAbilities::default()
        }
    }

    fn existed<'a>(&'a self, order: &'a Order) -> Answer<'a, Option<bool>> {
        let exists = self.stored().is_some();
        if exists && order.overwrite == Overwrite::Refuse {
            let refusal = Error::new(ErrorCode::PeerExists, Side::Destination, Phase::Open);
            return Box::pin(ready(Err(refusal)));
        }
        Box::pin(ready(Ok(Some(exists))))
    }

    fn begin<'a>(&'a self, _: &'a BeginOptions<'a>) -> Answer<'a, Begun> {
        let (to, written) = (self.clone(), Mutex::default());
        Box::pin(ready(Ok(Begun::Part(Arc::new(Part { to, written })))))
    }

    fn look<'a>(&'a self, wanted: &'a [ChecksumAlgorithm]) -> Answer<'a, SinkFacts> {
        let age = self.shelf().stored.map(|stored| stored.elapsed());
        let facts = self.stored().map(|content| SinkFacts {
            size_bytes: Some(content.len() as u64),
            age_s: age.map(|age| age.as_secs() as i64),
            checksums: checksums(&content, wanted),
            version: Some(version(&content)),
            identity: None,
        });
        let gone = Error::new(ErrorCode::PeerNotFound, Side::Destination, Phase::Checksum);
        Box::pin(ready(facts.ok_or(gone)))
    }

    fn remove<'a>(&'a self, _: Option<&'a Validator>) -> Answer<'a, ()> {
        self.shelf().objects.remove(&self.name);
        Box::pin(ready(Ok(())))
    }
}

fn checksums(content: &[u8], algorithms: &[ChecksumAlgorithm]) -> Vec<Checksum> {
    let mut hasher = Hasher::new(algorithms);
    hasher.update(content);
    hasher.finish()
}

fn version(content: &[u8]) -> Validator {
    Validator::Tag(format!("{:?}", checksums(content, &[ChecksumAlgorithm::Crc32c])))
}

/// An object that is being written.
struct Part {
    to: MadeUp,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    content: Vec<u8>,
    /// The content that it is a part of, and the length of its beginning without gaps.
    resumable: Option<(String, usize)>,
}

impl PartFile for Part {
    fn write_at(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        let (mut written, start) = (self.written.lock().unwrap(), offset as usize);
        let end = (start + batch.len()).max(written.content.len());
        written.content.resize(end, 0);
        let mut bytes = Vec::new();
        batch.append_to(&mut bytes);
        written.content[start..start + bytes.len()].copy_from_slice(&bytes);
        Box::pin(ready(Ok(())))
    }

    fn resume<'a>(&'a self, mark: &'a str) -> Answer<'a, u64> {
        let mut written = self.written.lock().unwrap();
        let left = self.to.shelf().parts.remove(&self.to.name);
        written.content = left
            .filter(|(of, _)| of == mark)
            .map_or_else(Vec::new, |(_, content)| content);
        written.resumable = Some((mark.to_owned(), usize::MAX));
        Box::pin(ready(Ok(written.content.len() as u64)))
    }

    fn limit_resume(&self, bytes: u64) {
        if let Some((_, front)) = &mut self.written.lock().unwrap().resumable {
            *front = bytes as usize;
        }
    }

    fn reread_front(&self, bytes: u64, mut hasher: Hasher) -> Answer<'_, Hasher> {
        hasher.update(&self.written.lock().unwrap().content[..bytes as usize]);
        Box::pin(ready(Ok(hasher)))
    }

    fn reread<'a>(&'a self, algorithms: &'a [ChecksumAlgorithm]) -> Answer<'a, Vec<Checksum>> {
        Box::pin(ready(Ok(checksums(&self.written.lock().unwrap().content, algorithms))))
    }

    fn commit(&self, _: u64, _: Vec<Checksum>) -> Answer<'_, Stored> {
        let mut written = std::mem::take(&mut *self.written.lock().unwrap());
        let mut shelf = self.to.shelf();
        written.content[0] ^= u8::from(shelf.spoils);
        let version = Some(version(&written.content));
        shelf.objects.insert(self.to.name.clone(), written.content);
        shelf.stored = Some(Instant::now());
        Box::pin(ready(Ok(Stored {
            version,
            ..Stored::default()
        })))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let Written { mut content, resumable } = std::mem::take(&mut *self.written.lock().unwrap());
        if let Some((mark, front)) = resumable {
            content.truncate(front);
            self.to.shelf().parts.insert(self.to.name.clone(), (mark, content));
        }
    }
}
