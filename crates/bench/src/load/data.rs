//! Files as loads move them: generated content, and downloads that are thrown away.

use std::sync::Arc;

use remote::{Client, GetOptions, Outlet, PutOptions, Resource, Stored};
use types::{ByteRange, Result};

/// Of the block that content repeats: larger than what compresses away, small enough for the
/// processor's cache.
const BLOCK_BYTES: usize = 512 << 10;

/// Each stretch of this size begins with its number, so that no two of a file are the same.
const STRETCH_BYTES: u64 = 4096;

/// The content of all files that loads make: noise that repeats after 512 KiB, so that neither
/// making nor sending it costs the client much, with a number every 4 KiB, by which a piece of
/// another place is recognised. Clones share it.
#[derive(Clone, Debug)]
pub struct Content(Arc<[u8]>);

impl Default for Content {
    fn default() -> Self {
        // xorshift64 (Marsaglia 2003): the same bytes each time, and none that compress.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let words = (0..BLOCK_BYTES / 8).flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        Self(words.collect())
    }
}

impl Content {
    /// Copies the content at `offset` of a file into `slot`.
    pub fn fill(&self, offset: u64, slot: &mut [u8]) {
        let mut at = usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or(0);
        let mut left = &mut *slot;
        while !left.is_empty() {
            let step = left.len().min(BLOCK_BYTES - at);
            left[..step].copy_from_slice(&self.0[at..at + step]);
            left = &mut left[step..];
            at = 0;
        }
        number(offset, slot);
    }
}

/// Writes the numbers of those stretches that begin in the slot, or just in front of it.
fn number(offset: u64, slot: &mut [u8]) {
    let end = offset + slot.len() as u64;
    for stretch in offset / STRETCH_BYTES..end.div_ceil(STRETCH_BYTES) {
        let begin = stretch * STRETCH_BYTES;
        for (at, byte) in (begin..).zip(stretch.to_le_bytes()) {
            if (offset..end).contains(&at) {
                slot[(at - offset) as usize] = byte;
            }
        }
    }
}

/// Uploads a file of `size_bytes`.
///
/// # Errors
/// The server's refusal, or a lost connection.
pub async fn upload(
    client: &Client,
    file: &Resource,
    size_bytes: u64,
    overwrite: bool,
    content: &Content,
) -> Result<Stored> {
    let options = PutOptions {
        size_bytes: Some(size_bytes),
        overwrite,
        ..PutOptions::default()
    };
    let mut outlet = client.put(file, &options).await?;
    let mut left = ByteRange::new(0, size_bytes);
    while !left.is_empty() {
        let sent = send_some(&mut outlet, left, content).await?;
        left.take_front(sent);
    }
    outlet.finish().await
}

/// Sends as much of the beginning of `left` as there is room for. How many bytes that is.
pub(super) async fn send_some(outlet: &mut Outlet, left: ByteRange, content: &Content) -> Result<u64> {
    let mut room = outlet.outgoing().await?;
    let want = usize::try_from(left.len()).map_or(room.capacity(), |all| all.min(room.capacity()));
    let mut at = left.start;
    for mut slot in room.slots(want) {
        content.fill(at, &mut slot);
        at += slot.len() as u64;
    }
    outlet.send(room, want).await?;
    Ok(at - left.start)
}

/// Downloads a file, or one part of it, and keeps nothing. Returns how many bytes came.
///
/// # Errors
/// The server's refusal, a lost connection, or not exactly what was announced.
pub async fn download(client: &Client, file: &Resource, range: Option<ByteRange>) -> Result<u64> {
    let options = GetOptions {
        range,
        is_asked: true,
        ..GetOptions::default()
    };
    let mut download = client.get(file, &options).await?;
    let mut bytes = 0;
    while let Some(batch) = download.next().await? {
        bytes += batch.len() as u64;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_the_same_wherever_a_slot_begins() {
        let content = Content::default();
        let mut whole = vec![0; BLOCK_BYTES + 1000];
        content.fill(0, &mut whole);
        let mut part = vec![0; 900];
        content.fill(BLOCK_BYTES as u64 - 450, &mut part);
        assert_eq!(part, whole[BLOCK_BYTES - 450..BLOCK_BYTES + 450]);
        assert_eq!(whole[8..1000], whole[BLOCK_BYTES + 8..]);
        assert_ne!(
            whole[..8],
            whole[BLOCK_BYTES..][..8],
            "each 4 KiB differ from all others"
        );
        let zeros = whole.iter().filter(|byte| **byte == 0).count();
        assert!(zeros < whole.len() / 128, "{zeros}");
    }
}
