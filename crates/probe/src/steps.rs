//! The single operations that probes consist of, each with what must come of it.

use remote::{Client, CopyOrder, GetOptions, PutOptions, Resource};
use storage::Hasher;
use transfer::{Progress, send_from};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result};

/// The content of all files that are made.
pub(super) struct Content {
    bytes: Vec<u8>,
    /// Its checksums in the algorithms that are asked for.
    sums: Vec<Checksum>,
}

impl Content {
    /// As many bytes as asked for, in which no part is like another, so that a part in the wrong
    /// place shows.
    pub(super) fn new(size_bytes: u64) -> Self {
        let size = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = Vec::with_capacity(size + 8);
        while bytes.len() < size {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.to_le_bytes());
        }
        bytes.truncate(size);
        let mut hasher = Hasher::new(&[ChecksumAlgorithm::Adler32, ChecksumAlgorithm::Md5]);
        hasher.update(&bytes);
        Self {
            sums: hasher.finish(),
            bytes,
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// A wrong answer, about a file.
fn wrong(file: &Resource, phase: Phase, code: ErrorCode, detail: impl Into<String>) -> Error {
    Error::new(code, file.side, phase)
        .with_subject(&file.location)
        .with_detail(detail)
}

/// Stores the content.
pub(super) async fn upload(client: &Client, file: &Resource, content: &Content) -> Result<()> {
    let options = PutOptions {
        size_bytes: Some(content.size_bytes()),
        overwrite: true,
        ..PutOptions::default()
    };
    let mut outlet = client.put(file, &options).await?;
    let (mut input, mut hasher) = (&content.bytes[..], Hasher::new(&[]));
    send_from(&mut input, &mut outlet, &mut hasher, &Progress::default()).await?;
    outlet.finish().await.map(drop)
}

/// Reads a file, and compares it with the content.
pub(super) async fn download(client: &Client, file: &Resource, content: &Content) -> Result<()> {
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
    let mut left = &content.bytes[..];
    let differs = || {
        wrong(
            file,
            Phase::Transfer,
            ErrorCode::PeerMisbehaved,
            "what came is not what was stored",
        )
    };
    while let Some(batch) = download.next().await? {
        for slice in batch.slices() {
            left = left.strip_prefix(slice).ok_or_else(differs)?;
        }
    }
    match left {
        [] => Ok(download.facts().checksums.clone()),
        _ => Err(differs()),
    }
}

/// Asks for the checksum in any of some algorithms, with the file or alone. The answer must have a
/// right one.
pub(super) async fn digest(
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
    let told = told.into_iter().find(|told| wanted.contains(&told.algorithm()));
    let Some(told) = told else {
        return Err(wrong(
            file,
            Phase::Checksum,
            ErrorCode::ChecksumUnavailable,
            "the answer tells none of the checksums that were asked for",
        ));
    };
    match content.sums.contains(&told) {
        true => Ok(()),
        false => Err(wrong(
            file,
            Phase::Checksum,
            ErrorCode::ChecksumMismatch,
            format!("the server answered {told}, which is not that of the file"),
        )),
    }
}

/// Removes a file; it must be gone then.
pub(super) async fn delete(client: &Client, file: &Resource) -> Result<()> {
    client.delete(file).await?;
    match client.head(file, &[]).await {
        Ok(_) => Err(wrong(
            file,
            Phase::Cleanup,
            ErrorCode::PeerMisbehaved,
            "the file is still there after it was deleted",
        )),
        // Whatever else is answered, looking may need other rights than deleting.
        Err(_) => Ok(()),
    }
}

/// Has a copy made, waits for its end, and looks what came of it.
pub(super) async fn copy(
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
}
