//! A file on another server that is stored in parts: each stream sends parts of its own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use net::{Batch, Ends};
use remote::{PartsWriter, Stored};
use storage::{Answer, Hasher, WriteOrder};
use telemetry::Flowing;
use types::{Checksum, ChecksumAlgorithm};

use crate::part_file::PartFile;
use crate::progress::Progress;

/// Flows that are kept. Parts of a long file may take more connections, one after the other; a flow
/// that is given up is taken up again with the next payload.
const FLOWS_MAX: usize = 64;

/// The parts of one file.
pub(super) struct RemoteParts {
    parts: PartsWriter,
    progress: Progress,
    /// By our own address: the other end of all is the same.
    flows: Mutex<HashMap<SocketAddr, Flowing>>,
}

impl RemoteParts {
    pub(super) fn new(parts: PartsWriter, progress: &Progress) -> Self {
        Self {
            parts,
            progress: progress.clone(),
            flows: Mutex::default(),
        }
    }

    /// Payload has gone over a connection.
    fn sent(&self, ends: Ends, bytes: u64) {
        if !self.progress.is_marked() {
            return;
        }
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        if flows.len() >= FLOWS_MAX && !flows.contains_key(&ends.local) {
            flows.clear();
        }
        let begin = || self.progress.begin_outgoing(ends);
        flows.entry(ends.local).or_insert_with(begin).add(bytes);
    }
}

impl PartFile for RemoteParts {
    fn write_at(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        Box::pin(self.parts.write(batch, offset, |ends, bytes| self.sent(ends, bytes)))
    }

    fn order(&self) -> WriteOrder {
        WriteOrder::Blocks(self.parts.part_bytes())
    }

    fn discard_block(&self, start: u64) {
        self.parts.discard(start);
    }

    fn is_readable(&self) -> bool {
        false
    }

    /// Never called: nothing is resumed.
    fn reread_front(&self, _bytes: u64, hasher: Hasher) -> Answer<'_, Hasher> {
        Box::pin(async { Ok(hasher) })
    }

    fn reread<'a>(&'a self, _algorithms: &'a [ChecksumAlgorithm]) -> Answer<'a, Vec<Checksum>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn commit(&self, _size_bytes: u64, _checksums: Vec<Checksum>) -> Answer<'_, Stored> {
        Box::pin(async move { self.parts.complete().await })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use net::Outgoing;
    use remote::{FileUpload, Outlet, Parts, PartsUpload, Pending};
    use telemetry::{Event, FlowFacts, Hears, Hub, Queue, SharedMarking, Sink};
    use types::Result;

    use super::*;
    use crate::progress::FlowMark;

    const PART_BYTES: u64 = 10;

    fn ends(port: u64) -> Ends {
        let port = u16::try_from(port).unwrap();
        Ends {
            local: SocketAddr::from(([192, 0, 2, 1], port)),
            peer: SocketAddr::from(([192, 0, 2, 9], 443)),
        }
    }

    /// A part that is sent over a connection of its own, and goes nowhere.
    #[derive(Debug)]
    struct Part {
        index: u64,
        sent_bytes: u64,
    }

    impl FileUpload for Part {
        fn ends(&self) -> Option<Ends> {
            Some(ends(40_000 + self.index))
        }

        fn sent_bytes(&self) -> u64 {
            self.sent_bytes
        }

        async fn outgoing(&mut self) -> Result<Outgoing> {
            Ok(Outgoing::unconnected())
        }

        async fn send(&mut self, _outgoing: Outgoing, filled: usize) -> Result<()> {
            self.sent_bytes += filled as u64;
            Ok(())
        }

        async fn finish(self) -> Result<Stored> {
            Ok(Stored::default())
        }
    }

    #[derive(Debug)]
    struct Nowhere;

    impl PartsUpload for Nowhere {
        fn part_bytes(&self) -> u64 {
            PART_BYTES
        }

        fn begin(&self, index: u64) -> Pending<'_, Outlet> {
            let part = Part { index, sent_bytes: 0 };
            Box::pin(async { Ok(Outlet::new(part)) })
        }

        fn end(&self, _index: u64, _part: Outlet) -> Pending<'_, ()> {
            Box::pin(async { Ok(()) })
        }

        fn complete(self: Box<Self>) -> Pending<'static, Stored> {
            Box::pin(async { Ok(Stored::default()) })
        }
    }

    fn begun(queue: &Queue) -> Vec<(Ends, u64)> {
        let mut found = Vec::new();
        while let Ok(Some(event)) = queue.next(Duration::ZERO) {
            if let Event::FlowBegan(flow) = event {
                let (local, peer) = (flow.connection.local, flow.connection.peer);
                assert!(flow.connection.is_sent);
                found.push((Ends { local, peer }, flow.bytes()));
            }
        }
        found.sort_by_key(|(ends, _)| ends.local);
        found
    }

    #[tokio::test]
    async fn each_connection_with_parts_is_a_flow_with_its_bytes() {
        let sink = Sink {
            name: "test",
            events_max: 10,
            hears: Hears::Flows,
        };
        let (hub, queues) = Hub::new(&[sink], SharedMarking::default());
        let facts = FlowFacts {
            tag: Some(132),
            organisation: "",
            path: "/f",
        };
        for is_marked in [false, true] {
            let progress = Progress::new();
            if is_marked {
                progress.mark_flows(FlowMark {
                    marked: hub.mark(&facts),
                    application: "http-put",
                });
            }
            let parts = RemoteParts::new(PartsWriter::new(Parts::new(Nowhere), 25), &progress);
            parts.write_at(Batch::copied(&[1; 25]), 0).await.unwrap();
            let expected = match is_marked {
                true => vec![(ends(40_000), 10), (ends(40_001), 10), (ends(40_002), 5)],
                false => Vec::new(),
            };
            assert_eq!(begun(&queues[0]), expected);
        }
    }
}
