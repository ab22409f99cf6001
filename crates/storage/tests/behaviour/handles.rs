//! Open files as handles: where their calls run, and what they read.

use std::io::{self, ErrorKind, IoSliceMut};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use net::Batch;
use storage::{
    Answer, BlockingReader, BlockingStore, CommitFacts, FileReader, HashSlice, Hasher, Memory, Patience, ReadHandle,
    Stat, Storage, Store, UploadOptions,
};
use types::{ByteRange, ChecksumAlgorithm, ErrorCode, Result};

use crate::support::{code, path};

const CONTENT: &[u8] = b"0123456789";

/// A store with the file `/f`.
async fn memory() -> Memory {
    let memory = Memory::new(1 << 20);
    let store = BlockingStore::new(Arc::new(memory.clone()));
    let upload = store.create(&path("/f"), &UploadOptions::default()).await.unwrap();
    // Adjacent, in reverse order.
    upload.write(Batch::copied(&CONTENT[4..]), 4).await.unwrap();
    upload.write(Batch::copied(&CONTENT[..4]), 0).await.unwrap();
    assert_eq!(upload.stat().unwrap().size_bytes, 10);
    let facts = CommitFacts {
        size_bytes: 10,
        ..CommitFacts::default()
    };
    upload.commit(facts, None).await.unwrap();
    memory
}

/// A file that is not in memory. Records which thread reads it.
struct Cold {
    file: Arc<dyn FileReader>,
    reads: Mutex<Vec<(Patience, ThreadId)>>,
}

impl FileReader for Cold {
    fn stat(&self) -> &Stat {
        self.file.stat()
    }

    fn read_vectored_at(&self, slices: &mut [IoSliceMut<'_>], offset: u64, patience: Patience) -> io::Result<usize> {
        self.reads.lock().unwrap().push((patience, std::thread::current().id()));
        match patience {
            Patience::CachedOnly => Err(ErrorKind::WouldBlock.into()),
            Patience::Wait => self.file.read_vectored_at(slices, offset, patience),
        }
    }
}

#[tokio::test]
async fn a_file_that_is_not_in_memory_is_read_on_another_thread() {
    let cold = Arc::new(Cold {
        file: memory().await.open(&path("/f")).unwrap(),
        reads: Mutex::default(),
    });
    let batch = BlockingReader::new(cold.clone()).read_batch(ByteRange::new(2, 9)).await;
    let mut bytes = Vec::new();
    batch.unwrap().append_to(&mut bytes);
    assert_eq!(bytes, CONTENT[2..9]);
    let (reads, here) = (cold.reads.lock().unwrap().clone(), std::thread::current().id());
    assert_eq!(reads.len(), 2);
    assert_eq!(reads[0], (Patience::CachedOnly, here));
    assert!(reads[1].0 == Patience::Wait && reads[1].1 != here);
}

/// A file whose front alone is in memory. Counts how often it is asked.
struct Partly {
    file: std::fs::File,
    stat: Stat,
    cached_end: u64,
    reads: Mutex<Vec<Patience>>,
}

impl FileReader for Partly {
    fn stat(&self) -> &Stat {
        &self.stat
    }

    fn read_vectored_at(&self, slices: &mut [IoSliceMut<'_>], offset: u64, patience: Patience) -> io::Result<usize> {
        self.reads.lock().unwrap().push(patience);
        match patience == Patience::CachedOnly && offset >= self.cached_end {
            true => Err(ErrorKind::WouldBlock.into()),
            false => Ok(slices.iter().map(|slice| slice.len()).sum()),
        }
    }

    fn as_file(&self) -> Option<&std::fs::File> {
        Some(&self.file)
    }
}

#[tokio::test]
async fn a_reader_that_goes_on_is_not_asked_for_each_piece() {
    const PIECE: u64 = 256 * 1024;
    const MIB: u64 = 1024 * 1024;
    let partly = Arc::new(Partly {
        file: tempfile::tempfile().unwrap(),
        stat: Stat {
            size_bytes: 16 * MIB,
            ..memory().await.open(&path("/f")).unwrap().stat().clone()
        },
        cached_end: 6 * MIB,
        reads: Mutex::default(),
    });
    let handle = BlockingReader::new(partly.clone());
    let (file, asked) = (handle.as_file().unwrap(), || {
        std::mem::take(&mut *partly.reads.lock().unwrap())
    });
    let began = std::time::Instant::now();
    for piece in 0..4 * MIB / PIECE {
        let range = ByteRange::new(piece * PIECE, (piece + 1) * PIECE);
        file.make_resident(range).await.unwrap();
    }
    // An answer is good for 100 ms.
    let most = 2 * (1 + began.elapsed().as_millis() / 100);
    let reads = asked();
    assert!(reads.len() as u128 <= most && reads.iter().all(|patience| *patience == Patience::CachedOnly));
    // Where what follows is not in memory, each piece is asked for.
    let last = ByteRange::new(6 * MIB - PIECE, 6 * MIB);
    file.make_resident(last).await.unwrap();
    assert_eq!(asked(), [Patience::CachedOnly; 3]);
    let cold = ByteRange::new(6 * MIB, 6 * MIB + PIECE);
    file.make_resident(cold).await.unwrap();
    assert_eq!(asked(), [Patience::CachedOnly, Patience::Wait, Patience::Wait]);
}

/// A handle with the required calls only.
struct Plain(BlockingReader);

impl ReadHandle for Plain {
    fn stat(&self) -> &Stat {
        self.0.stat()
    }

    fn read_batch(&self, range: ByteRange) -> Answer<'_, Batch> {
        self.0.read_batch(range)
    }
}

/// Reads in slices of three bytes.
async fn hashed(handle: &dyn ReadHandle, front_bytes: Option<u64>) -> Result<Hasher> {
    let mut hasher = Hasher::new(&ChecksumAlgorithm::ALL);
    loop {
        let slice = HashSlice {
            end: hasher.length_bytes() + 3,
            hasher,
            front_bytes,
            is_given_up: Arc::new(AtomicBool::new(false)),
            held: Arc::new(()),
        };
        let (seen, is_all) = handle.hash(slice).await?;
        if is_all {
            return Ok(seen);
        }
        hasher = seen;
    }
}

#[tokio::test]
async fn slices_add_up_to_the_checksums_of_a_file_or_of_its_front() {
    let reader = || async { BlockingReader::new(memory().await.open(&path("/f")).unwrap()) };
    let handles: [Box<dyn ReadHandle>; 2] = [Box::new(reader().await), Box::new(Plain(reader().await))];
    for handle in handles {
        for (front_bytes, seen) in [(None, CONTENT), (Some(7), &CONTENT[..7]), (Some(0), b"")] {
            let mut expected = Hasher::new(&ChecksumAlgorithm::ALL);
            expected.update(seen);
            let hasher = hashed(handle.as_ref(), front_bytes).await.unwrap();
            assert_eq!(hasher.finish(), expected.finish(), "{front_bytes:?}");
        }
        let longer = hashed(handle.as_ref(), Some(11)).await;
        assert_eq!(code(longer.map(drop)), Some(ErrorCode::StorageFailed));
    }
}
