//! Files sent and received in blocks and as pages with checksums, over a connection.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

use endpoint::Store;
use net::{Frames, Outgoing, Role, Stream, Waits};
use storage::{
    BlockingReader, CommitFacts, FileReader, Hasher, Memory, Patience, ReadHandle, Stat, Storage, UploadOptions,
};
use testkit::SelfSigned;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use transfer::{Assembly, Drain, PagesPart, Progress, send_from, serve_pages};
use types::{ByteRange, Checksum, ChecksumAlgorithm, ErrorCode, LogicalPath, Side};
use xroot_wire::pages::{data_bytes, encode_units, encoded_bytes, units};

const WAIT: Duration = Duration::from_secs(10);
const ALGORITHMS: [ChecksumAlgorithm; 2] = [ChecksumAlgorithm::Adler32, ChecksumAlgorithm::Md5];

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect()
}

fn path() -> LogicalPath {
    LogicalPath::parse("/f").unwrap()
}

fn memory() -> Store {
    Store::new(Arc::new(Memory::new(1 << 30)))
}

fn file_with(bytes: &[u8]) -> Arc<dyn FileReader> {
    let memory = Memory::new(1 << 30);
    let upload = memory.create(&path(), &UploadOptions::default()).unwrap();
    upload.write_vectored_at(&[IoSlice::new(bytes)], 0).unwrap();
    let facts = CommitFacts {
        size_bytes: bytes.len() as u64,
        ..CommitFacts::default()
    };
    upload.commit(&facts).unwrap();
    memory.open(&path()).unwrap()
}

async fn clear_pair() -> (Frames, Frames) {
    let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let near = listener.accept().await.unwrap().0;
    let near = Stream::clear(near, Role::Client, Waits::default());
    let far = Stream::clear(far, Role::Peer(Side::Source), Waits::default());
    (Frames::new(near), Frames::new(far))
}

async fn encrypted_pair() -> (Frames, Frames) {
    let made = SelfSigned::localhost().unwrap();
    let server = net::tls::ServerTls::load(&made.certificate, &made.key).unwrap();
    let trust = net::tls::Trust {
        files: vec![made.certificate.clone()],
        ..net::tls::Trust::default()
    };
    let (client, _) = net::tls::ClientTls::load(&trust).unwrap();
    let (near, far) = clear_pair().await;
    let (near, far) = tokio::join!(near.upgrade_server(&server), far.upgrade_client(&client, "localhost"));
    (near.unwrap(), far.unwrap())
}

/// The head of a part in these tests.
fn head(part: &PagesPart) -> [u8; 13] {
    let mut head = [0; 13];
    head[..8].copy_from_slice(&part.offset.to_be_bytes());
    head[8..12].copy_from_slice(&(part.wire_bytes as u32).to_be_bytes());
    head[12] = u8::from(part.is_last);
    head
}

/// Reads all parts, checks each page, and returns the data.
async fn read_parts(far: &mut Frames, offset: u64) -> Vec<u8> {
    let mut data = Vec::new();
    loop {
        let head = far.head::<13>(WAIT).await.unwrap().unwrap();
        let at = u64::from_be_bytes(head[..8].try_into().unwrap());
        let length = u32::from_be_bytes(head[8..12].try_into().unwrap()) as usize;
        assert_eq!(at, offset + data.len() as u64);
        let wire = far.small(length, 300_000).await.unwrap();
        for unit in units(at, &wire) {
            assert!(unit.is_sound(), "unit at {}", unit.offset);
            data.extend_from_slice(unit.data);
        }
        assert_eq!(at + data_bytes(at, length).unwrap() as u64, offset + data.len() as u64);
        if head[12] == 1 {
            return data;
        }
        assert!(
            (offset + data.len() as u64).is_multiple_of(4096),
            "a part ends within a page"
        );
    }
}

async fn served_whole(mut near: Frames, mut far: Frames) {
    let bytes = pattern(1_000_001);
    let reader = BlockingReader::new(file_with(&bytes));
    for (start, end) in [
        (0, 1_000_001),
        (0, 1),
        (4000, 4200),
        (4095, 900_000),
        (262_144, 524_288),
        (999_999, 2_000_000),
        (1_000_001, 1_000_100),
    ] {
        let range = ByteRange::new(start, end);
        let progress = Progress::default();
        let serving = serve_pages(&reader, range, &mut near.stream, head, &progress);
        let (served, data) = tokio::join!(serving, read_parts(&mut far, start));
        served.unwrap();
        let expected = &bytes[start as usize..bytes.len().min(end as usize)];
        assert!(data == expected, "{start}..{end}");
        assert_eq!(progress.moved_bytes(), data.len() as u64);
    }
    assert_eq!(far.buffered_bytes(), 0);
}

#[tokio::test]
async fn any_range_of_a_file_is_served_as_pages() {
    let (near, far) = clear_pair().await;
    served_whole(near, far).await;
    let (near, far) = encrypted_pair().await;
    served_whole(near, far).await;
}

/// A file with few bytes in memory, on a disk that returns little at a time.
struct Reluctant(Arc<dyn FileReader>);

impl FileReader for Reluctant {
    fn stat(&self) -> &Stat {
        self.0.stat()
    }

    fn read_vectored_at(&self, slices: &mut [IoSliceMut<'_>], offset: u64, patience: Patience) -> io::Result<usize> {
        let most = match patience {
            Patience::Wait => 5003,
            Patience::CachedOnly if (offset / 4096).is_multiple_of(3) => 1001,
            Patience::CachedOnly => return Err(io::ErrorKind::WouldBlock.into()),
        };
        let length = slices[0].len().min(most);
        let mut first = [IoSliceMut::new(&mut slices[0][..length])];
        self.0.read_vectored_at(&mut first, offset, patience)
    }
}

#[tokio::test]
async fn pages_stay_in_step_when_reads_are_short() {
    let bytes = pattern(700_000);
    let reader = BlockingReader::new(Arc::new(Reluctant(file_with(&bytes))));
    let (mut near, mut far) = clear_pair().await;
    let progress = Progress::default();
    let range = ByteRange::new(100, 800_000);
    let serving = serve_pages(&reader, range, &mut near.stream, head, &progress);
    let (served, data) = tokio::join!(serving, read_parts(&mut far, 100));
    served.unwrap();
    assert!(data == bytes[100..]);
}

/// Sends payload as parts of pages, as a writing client does.
struct Paged<'a> {
    stream: &'a mut Stream,
    offset: u64,
    /// The end of the last part.
    end: u64,
    parts: usize,
}

impl Drain for Paged<'_> {
    async fn outgoing(&mut self) -> types::Result<Outgoing> {
        Ok(self.stream.outgoing().await?.paged(self.offset, 13))
    }

    async fn send(&mut self, mut outgoing: Outgoing, filled: usize) -> types::Result<()> {
        let part = PagesPart {
            offset: self.offset,
            data_bytes: filled,
            wire_bytes: encoded_bytes(self.offset, filled),
            is_last: self.offset + filled as u64 == self.end,
        };
        let length = outgoing.close_pages(filled, &head(&part));
        self.stream.send(outgoing, length).await?;
        self.offset += filled as u64;
        self.parts += 1;
        Ok(())
    }

    fn bare_stream(&mut self) -> Option<&mut Stream> {
        None
    }
}

#[tokio::test]
async fn output_of_a_program_is_sent_as_many_pages_at_a_time() {
    let bytes = pattern(1_000_001);
    let (mut near, mut far) = encrypted_pair().await;
    let sending = async {
        let mut drain = Paged {
            stream: &mut near.stream,
            offset: 100,
            end: 1_000_101,
            parts: 0,
        };
        let mut hasher = Hasher::new(&ALGORITHMS);
        let sent = send_from(&mut &bytes[..], &mut drain, &mut hasher, &Progress::default()).await;
        assert_eq!(sent.unwrap(), bytes.len() as u64);
        assert_eq!(hasher.finish(), checksums(&bytes));
        assert!(drain.parts <= 5, "{} parts", drain.parts);
    };
    let ((), data) = tokio::join!(sending, read_parts(&mut far, 100));
    assert!(data == bytes);
}

#[tokio::test]
async fn output_of_a_program_is_not_held_back() {
    let (mut near, mut far) = clear_pair().await;
    let (mut program, mut input) = tokio::io::duplex(64 * 1024);
    let sending = async {
        let mut drain = Paged {
            stream: &mut near.stream,
            offset: 0,
            end: u64::MAX,
            parts: 0,
        };
        let mut hasher = Hasher::new(&[]);
        send_from(&mut input, &mut drain, &mut hasher, &Progress::default()).await
    };
    let talking = async {
        // Whole pages, so that only the next read would show the end.
        for _ in 0..3 {
            program.write_all(&pattern(8192)).await.unwrap();
            let mut came = 0;
            while came < 8192 {
                let head = far.head::<13>(WAIT).await.unwrap().unwrap();
                let length = u32::from_be_bytes(head[8..12].try_into().unwrap()) as usize;
                far.small(length, 300_000).await.unwrap();
                came += length - length.div_ceil(4100) * 4;
            }
        }
        drop(program);
    };
    let (sent, ()) = tokio::join!(sending, talking);
    assert_eq!(sent.unwrap(), 3 * 8192);
}

async fn all_of(reader: &dyn ReadHandle) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let rest = ByteRange::new(bytes.len() as u64, u64::MAX);
        let batch = reader.read_batch(rest).await.unwrap();
        if batch.is_empty() {
            return bytes;
        }
        batch.append_to(&mut bytes);
    }
}

/// Assembles a file from blocks, and returns the damaged pages, the checksums and the content.
async fn put_together(
    mut near: Frames,
    mut far: Frames,
    blocks: &[(u64, Vec<u8>)],
) -> (Vec<ByteRange>, Vec<Checksum>, Vec<u8>) {
    let store = memory();
    let upload = store.create(&path(), &UploadOptions::default()).await.unwrap();
    let mut assembly = Assembly::new(&store, upload, &ALGORITHMS);
    let sending = async {
        for (_, wire) in blocks {
            far.stream.queue(wire);
        }
        far.stream.queue(b"behind");
        far.stream.flush().await.unwrap();
    };
    let receiving = async {
        let mut damaged = Vec::new();
        let progress = Progress::default();
        for (offset, wire) in blocks {
            let mut payload = near.payload(wire.len() as u64);
            let received = assembly.receive_pages(&mut payload, *offset, wire.len(), &progress);
            damaged.extend(received.await.unwrap());
        }
        assert_eq!(near.head::<6>(WAIT).await.unwrap().as_ref(), Some(b"behind"));
        damaged
    };
    let ((), damaged) = tokio::join!(sending, receiving);
    let checksums = assembly.checksums(&endpoint::ClientId::own()).await.unwrap();
    let facts = CommitFacts {
        size_bytes: assembly.end_bytes(),
        checksums: checksums.clone(),
        modified: None,
        mode: None,
    };
    store.commit(assembly.upload(), facts).await.unwrap();
    let content = all_of(store.open(&path()).await.unwrap().as_ref()).await;
    assert_eq!(content.len() as u64, assembly.end_bytes());
    (damaged, checksums, content)
}

fn checksums(bytes: &[u8]) -> Vec<Checksum> {
    let mut hasher = Hasher::new(&ALGORITHMS);
    hasher.update(bytes);
    hasher.finish()
}

/// `bytes` as encoded blocks that begin at `starts`, in the order `order`.
fn blocks(bytes: &[u8], starts: &[usize], order: &[usize]) -> Vec<(u64, Vec<u8>)> {
    let block = |&index: &usize| {
        let (start, end) = (starts[index], *starts.get(index + 1).unwrap_or(&bytes.len()));
        let mut wire = Vec::new();
        encode_units(start as u64, &bytes[start..end], &mut wire);
        assert_eq!(wire.len(), encoded_bytes(start as u64, end - start));
        (start as u64, wire)
    };
    order.iter().map(block).collect()
}

#[tokio::test]
async fn pages_in_any_order_make_the_file_and_its_checksums() {
    let bytes = pattern(1_500_007);
    let starts = [0, 4095, 300_000, 300_001, 1_048_576];
    for order in [[0, 1, 2, 3, 4], [4, 0, 2, 1, 3], [1, 2, 4, 3, 0]] {
        let sent = blocks(&bytes, &starts, &order);
        for (near, far) in [clear_pair().await, encrypted_pair().await] {
            let (damaged, sums, content) = put_together(near, far, &sent).await;
            assert_eq!(damaged, []);
            assert_eq!(sums, checksums(&bytes), "{order:?}");
            assert!(content == bytes, "{order:?}");
        }
    }
}

#[tokio::test]
async fn a_damaged_page_is_stored_named_and_then_corrected() {
    let bytes = pattern(500_000);
    let mut sent = blocks(&bytes, &[0, 200_000], &[0, 1]);
    // In the data of the third page of the second block.
    let second = 4 + (200_704 - 200_000) + 4100 + 4 + 50;
    sent[1].1[second] ^= 0x80;
    let (near, far) = clear_pair().await;
    let (damaged, sums, content) = put_together(near, far, &sent).await;
    assert_eq!(damaged, [ByteRange::new(204_800, 208_896)]);
    let mut as_sent = bytes.clone();
    as_sent[204_850] ^= 0x80;
    assert!(content == as_sent);
    assert_eq!(sums, checksums(&as_sent), "the checksums are those of what is stored");

    let mut again = Vec::new();
    encode_units(204_800, &bytes[204_800..208_896], &mut again);
    sent.push((204_800, again));
    let (near, far) = clear_pair().await;
    let (_, sums, content) = put_together(near, far, &sent).await;
    assert!(content == bytes);
    assert_eq!(sums, checksums(&bytes));
}

#[tokio::test]
async fn a_store_that_is_full_leaves_the_next_message_readable() {
    let store = Store::new(Arc::new(Memory::new(300_000)));
    let upload = store.create(&path(), &UploadOptions::default()).await.unwrap();
    let mut assembly = Assembly::new(&store, upload, &ALGORITHMS);
    let (mut near, mut far) = clear_pair().await;
    let sending = async {
        far.stream.queue(&pattern(2_000_000));
        far.stream.queue(b"behind");
        far.stream.flush().await.unwrap();
    };
    let receiving = async {
        let mut payload = near.payload(2_000_000);
        let error = assembly
            .receive(&mut payload, 0, &Progress::default())
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::NoSpace);
        assert!(payload.left() > 0);
        payload.skip().await.unwrap();
        assert_eq!(near.head::<6>(WAIT).await.unwrap().as_ref(), Some(b"behind"));
    };
    tokio::join!(sending, receiving);
}

#[tokio::test]
async fn pages_that_cannot_be_whole_are_refused_before_they_are_read() {
    let store = memory();
    let upload = store.create(&path(), &UploadOptions::default()).await.unwrap();
    let mut assembly = Assembly::new(&store, upload, &[]);
    let (mut near, _far) = clear_pair().await;
    let mut payload = near.payload(4102);
    let refused = assembly
        .receive_pages(&mut payload, 0, 4102, &Progress::default())
        .await;
    assert_eq!(refused.unwrap_err().code(), ErrorCode::BadRequest);
    assert_eq!(payload.left(), 4102);
}
