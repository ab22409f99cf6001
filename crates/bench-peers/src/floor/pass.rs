//! The floor of a server that has no files of its own: it receives each byte from another server
//! and sends it to its client, or the other way round.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Instant;

use testkit::{Error, Result};

use super::{BATCH_BYTES, Loop, batches, clocked, joined, send};
use crate::workload::Sample;

/// One loop between a sender and a receiver, all in clear text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass {
    /// Whether the file's checksum is made, as for uploads.
    pub(crate) has_checksum: bool,
}

impl Pass {
    /// Passes on as many bytes as the file has; the processor time is that of the loop between.
    pub(super) fn measure(self, source: &Path) -> Result<Sample> {
        let batches = batches(source.metadata()?.len());
        let (from, to) = (listener()?, listener()?);
        let (from_port, to_port) = (from.local_addr()?.port(), to.local_addr()?.port());
        let began = Instant::now();
        let used = thread::scope(|scope| {
            let sender = scope.spawn(move || send(&from.accept()?.0, &File::open(source)?, 0..batches));
            let receiver = scope.spawn(move || Loop::Send.other_side(to_port, batches));
            let input = TcpStream::connect((Ipv4Addr::LOCALHOST, from_port))?;
            let used = self.run(input, to.accept()?.0, batches);
            joined(sender)?;
            joined(receiver)?;
            used
        });
        Ok(Sample::of_data(used?, batches * BATCH_BYTES as u64, began.elapsed()))
    }

    fn run(self, mut input: TcpStream, mut output: TcpStream, batches: u64) -> Result<f64> {
        output.set_nodelay(true)?;
        let mut batch = Loop::Send.wire_batch();
        let mut adler = storage::Adler32::new();
        let used = clocked(|| {
            for _ in 0..batches {
                input.read_exact(&mut batch)?;
                if self.has_checksum {
                    adler.update(&batch);
                }
                output.write_all(&batch)?;
            }
            Ok::<(), Error>(())
        });
        std::hint::black_box(adler.finish());
        used
    }
}

fn listener() -> Result<TcpListener> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_file_is_passed_on() {
        let scratch = testkit::Scratch::in_memory("pass").expect("scratch");
        let source = scratch.join("source");
        std::fs::write(&source, vec![1; 3 * BATCH_BYTES]).expect("written");
        for has_checksum in [false, true] {
            let sample = Pass { has_checksum }.measure(&source).expect("measured");
            assert!(sample.first > 0.0 && sample.second > 0.0, "{sample:?}");
        }
    }
}
