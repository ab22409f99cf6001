//! The single operations that probes consist of, each with what must come of it.

use std::pin::Pin;
use std::task::{Context, Poll};

use remote::{Access, Client, CopyOrder, GetOptions, PutOptions, Resource};
use storage::Hasher;
use tokio::io::{AsyncRead, ReadBuf};
use transfer::{Progress, send_from};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Side};

/// The grid's common checksum.
pub(crate) const ADLER32: &[ChecksumAlgorithm] = &[ChecksumAlgorithm::Adler32];
/// Checksums that endpoints of HTTP report.
pub(crate) const ADLER32_OR_MD5: &[ChecksumAlgorithm] = &[ChecksumAlgorithm::Adler32, ChecksumAlgorithm::Md5];

/// Bytes after which the content of a large file repeats.
const DISTINCT_BYTES: u64 = 16 << 20;

/// The content of all files that are made.
pub(crate) struct Content {
    /// Its bytes; those of a large file repeat.
    bytes: Vec<u8>,
    size_bytes: u64,
    /// Its checksums in the algorithms that are asked for.
    sums: Vec<Checksum>,
}

impl Content {
    /// As many bytes as asked for, in which no part is like another, so that a part in the wrong
    /// place shows.
    pub(crate) fn new(size_bytes: u64) -> Self {
        let mut content = Self::without_sums(size_bytes);
        let mut hasher = Hasher::new(&[ChecksumAlgorithm::Adler32, ChecksumAlgorithm::Md5]);
        for at in (0..size_bytes).step_by(content.bytes.len().max(1)) {
            hasher.update(content.rest(at));
        }
        content.sums = hasher.finish();
        content
    }

    /// The same where no checksum is compared.
    pub(crate) fn without_sums(size_bytes: u64) -> Self {
        let size = usize::try_from(size_bytes.min(DISTINCT_BYTES)).unwrap_or(usize::MAX);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = Vec::with_capacity(size + 8);
        while bytes.len() < size {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.to_le_bytes());
        }
        bytes.truncate(size);
        Self {
            bytes,
            size_bytes,
            sums: Vec::new(),
        }
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// What follows at a place of the file, until it repeats; nothing at its end.
    fn rest(&self, at: u64) -> &[u8] {
        let left = usize::try_from(self.size_bytes.saturating_sub(at)).unwrap_or(usize::MAX);
        let place = at.checked_rem(self.bytes.len() as u64).unwrap_or(0);
        let rest = &self.bytes[usize::try_from(place).unwrap_or(0)..];
        &rest[..left.min(rest.len())]
    }
}

/// Content that is read from its beginning.
struct Reading<'a> {
    content: &'a Content,
    at: u64,
}

impl AsyncRead for Reading<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let rest = self.content.rest(self.at);
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..count]);
        self.at += count as u64;
        Poll::Ready(Ok(()))
    }
}

/// A wrong answer, about a file.
fn wrong(file: &Resource, phase: Phase, code: ErrorCode, detail: impl Into<String>) -> Error {
    Error::new(code, file.side, phase)
        .with_subject(&file.location)
        .with_detail(detail)
}

/// A file that an instrument makes. Its name is found nowhere else, so a request that changes it
/// follows redirects to data servers, and to no file that is not ours.
pub(crate) fn own_file(location: Location, access: &Access, side: Side) -> Resource {
    let access = Access {
        own_name: Some(location.file_name().into()),
        ..access.clone()
    };
    Resource { location, access, side }
}

/// The file that a WebDAV server without third-party copies makes of a push: it takes the path of
/// the destination for one of its own.
pub(crate) fn copied_within(source: &Resource, destination: &Resource) -> Resource {
    let location = source.location.with_path(destination.location.path());
    own_file(location, &source.access, source.side)
}

/// Stores the content under a name that is new: what a server leads to is not overwritten.
pub(crate) async fn upload(client: &Client, file: &Resource, content: &Content) -> Result<()> {
    let options = PutOptions {
        size_bytes: Some(content.size_bytes()),
        overwrite: false,
        ..PutOptions::default()
    };
    let mut outlet = client.put(file, &options).await?;
    // The server answers at once where there is nothing to send.
    if content.size_bytes() > 0 {
        let (mut input, mut hasher) = (Reading { content, at: 0 }, Hasher::new(&[]));
        send_from(&mut input, &mut outlet, &mut hasher, &Progress::default()).await?;
    }
    outlet.finish().await.map(drop)
}

/// Reads a file, and compares it with the content.
pub(crate) async fn download(client: &Client, file: &Resource, content: &Content) -> Result<()> {
    read(client, file, content, &[]).await.map(drop)
}

/// As [`download`]; returns what was said of the checksums on the way.
async fn read(
    client: &Client,
    file: &Resource,
    content: &Content,
    wanted: &[ChecksumAlgorithm],
) -> Result<Vec<Checksum>> {
    let options = GetOptions {
        wanted: wanted.to_vec(),
        ..GetOptions::default()
    };
    let mut download = client.get(file, &options).await?;
    let mut at = 0;
    let differs = || {
        wrong(
            file,
            Phase::Transfer,
            ErrorCode::PeerMisbehaved,
            "what came is not what was stored",
        )
    };
    while let Some(batch) = download.next().await? {
        for mut slice in batch.slices() {
            while !slice.is_empty() {
                let rest = content.rest(at);
                let count = rest.len().min(slice.len());
                if count == 0 || slice[..count] != rest[..count] {
                    return Err(differs());
                }
                slice = &slice[count..];
                at += count as u64;
            }
        }
    }
    match at == content.size_bytes {
        true => Ok(download.facts().checksums.clone()),
        false => Err(differs()),
    }
}

/// Asks for the checksum in any of some algorithms, with the file or alone. The answer must have
/// one, and all that it has must be right.
pub(crate) async fn digest(
    client: &Client,
    file: &Resource,
    content: &Content,
    wanted: &[ChecksumAlgorithm],
    by_get: bool,
) -> Result<()> {
    let told = match by_get {
        true => read(client, file, content, wanted).await?,
        false => client.head(file, wanted).await?.checksums,
    };
    let told: Vec<Checksum> = told
        .into_iter()
        .filter(|sum| wanted.contains(&sum.algorithm()))
        .collect();
    if told.is_empty() {
        return Err(wrong(
            file,
            Phase::Checksum,
            ErrorCode::ChecksumUnavailable,
            "the answer has none of the checksums that were asked for",
        ));
    }
    match told.iter().find(|sum| !content.sums.contains(sum)) {
        None => Ok(()),
        Some(sum) => Err(wrong(
            file,
            Phase::Checksum,
            ErrorCode::ChecksumMismatch,
            format!("the server answered {sum}, which is not that of the file"),
        )),
    }
}

/// Asks for the size, which must be the right one.
pub(crate) async fn size(client: &Client, file: &Resource, expected_bytes: u64) -> Result<()> {
    match client.head(file, &[]).await?.size_bytes {
        Some(size) if size == expected_bytes => Ok(()),
        Some(size) => Err(wrong(
            file,
            Phase::Checksum,
            ErrorCode::PeerSizeDiffers,
            format!("{size} bytes are stored, the source has {expected_bytes}"),
        )),
        None => Err(wrong(
            file,
            Phase::Checksum,
            ErrorCode::PeerMisbehaved,
            "the answer does not tell the size",
        )),
    }
}

/// Removes a file; it must be gone then.
pub(crate) async fn delete(client: &Client, file: &Resource) -> Result<()> {
    client.delete(file).await?;
    match client.head(file, &[]).await {
        Ok(_) => Err(wrong(
            file,
            Phase::Cleanup,
            ErrorCode::PeerMisbehaved,
            "the file is still there after it was deleted",
        )),
        Err(error) if is_gone(file, &error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether an answer says that a file is gone which we could read before. Without the right to
/// list, S3 answers 403 for an object that is not there.
fn is_gone(file: &Resource, error: &Error) -> bool {
    match error.code() {
        ErrorCode::PeerNotFound => true,
        ErrorCode::PeerForbidden => file.location.is_s3(),
        _ => false,
    }
}

/// Has a copy made, waits for its end, and looks what came of it.
pub(crate) async fn copy(
    client: &Client,
    active: &Resource,
    order: &CopyOrder,
    target: &Resource,
    expected_bytes: Option<u64>,
) -> Result<()> {
    let mut copying = client.copy(active, order).await?;
    while copying.next().await?.is_some() {}
    let size = client.head(target, &[]).await?.size_bytes;
    match (size, expected_bytes) {
        (Some(size), Some(expected)) if size != expected => Err(wrong(
            target,
            Phase::Checksum,
            ErrorCode::PeerSizeDiffers,
            format!("{size} bytes are stored, the source has {expected}"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_has_its_size_and_its_checksums() {
        let content = Content::new(1_000_003);
        assert_eq!(content.size_bytes(), 1_000_003);
        assert_eq!(content.sums.len(), 2);
        assert_ne!(content.bytes[..4096], content.bytes[4096..8192]);
        assert!(Content::new(0).bytes.is_empty());
    }

    #[tokio::test]
    async fn a_large_file_repeats_and_is_not_held_in_memory() {
        use tokio::io::AsyncReadExt as _;
        let size_bytes = DISTINCT_BYTES + 1_000;
        let content = Content::new(size_bytes);
        let mut read = Vec::new();
        let mut reading = Reading {
            content: &content,
            at: 0,
        };
        reading.read_to_end(&mut read).await.unwrap();
        assert_eq!(
            (read.len() as u64, content.bytes.len() as u64),
            (size_bytes, DISTINCT_BYTES)
        );
        assert_eq!(read[..1_000], read[read.len() - 1_000..]);
        let mut hasher = Hasher::new(&[ChecksumAlgorithm::Adler32, ChecksumAlgorithm::Md5]);
        hasher.update(&read);
        assert_eq!(hasher.finish(), content.sums);
    }
}
