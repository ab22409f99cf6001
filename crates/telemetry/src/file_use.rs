//! One use of a file, from open to close.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use monitoring_wire::{FlowLabel, Operations, Totals};

use crate::client::Client;
use crate::flow::{Ends, Flowing, FurtherFlows};
use crate::hub::{Event, Hub};

/// What was done to a file until now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Bytes.
    pub totals: Totals,
    /// Single reads.
    pub reads: Operations,
    /// Vector reads, by their bytes.
    pub vectors: Operations,
    /// The same, by their segments.
    pub segments: Operations,
    /// Segments of all vector reads.
    pub segments_count: u64,
    /// Writes.
    pub writes: Operations,
}

/// A file that a client opens.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Its path, as clients name it.
    pub path: &'a str,
    /// Its size now.
    pub size_bytes: u64,
    /// Whether it is written.
    pub is_written: bool,
    /// The number with which the client marks its flow (SciTags).
    pub tag: Option<u16>,
    /// Whether its content goes over this connection. The client that orders a copy opens the file
    /// for another one.
    pub carries: bool,
}

/// A file that a client has open, or had.
#[derive(Debug)]
pub struct FileUse {
    /// Its number among the files of this process.
    pub number: u64,
    /// Who opened it.
    pub client: Client,
    /// Its path, as clients name it.
    pub path: String,
    /// Its size when it was opened.
    pub size_bytes: u64,
    /// Whether it is written.
    pub is_written: bool,
    /// What its flow belongs to.
    pub label: Option<FlowLabel>,
    counts: Mutex<Counts>,
    is_closed: AtomicBool,
    is_torn: AtomicBool,
}

impl FileUse {
    pub(crate) fn new(number: u64, client: Client, opening: &Opening<'_>, label: Option<FlowLabel>) -> Self {
        Self {
            number,
            client,
            path: opening.path.to_owned(),
            size_bytes: opening.size_bytes,
            is_written: opening.is_written,
            label,
            counts: Mutex::default(),
            is_closed: AtomicBool::new(false),
            is_torn: AtomicBool::new(false),
        }
    }

    /// What was done to it until now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether its client went away without closing it.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.is_torn.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A file in use, as the door holds it; without sinks it holds nothing. Dropping it closes it.
#[derive(Debug, Default)]
pub struct Used {
    file: Option<Heard>,
    flow: Flowing,
    further: Option<FurtherFlows>,
}

/// A file, and who hears of it.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) file: Arc<FileUse>,
    pub(crate) hub: Hub,
}

impl Used {
    pub(crate) fn new(file: Option<Heard>, flow: Flowing, further: Option<FurtherFlows>) -> Self {
        Self { file, flow, further }
    }

    /// A single read was answered with so many bytes.
    pub fn read(&self, bytes: u64) {
        self.read_over(bytes, || None);
    }

    /// The same, over the connection with these ends, which may be a further one of the client's
    /// session. They are asked for only where flows are watched.
    pub fn read_over(&self, bytes: u64, ends: impl FnOnce() -> Option<Ends>) {
        self.carried(bytes, ends);
        self.change(|counts| {
            counts.totals.read_bytes += bytes;
            counts.reads.add(bytes);
        });
    }

    /// A vector read was answered with so many bytes of so many segments of this file.
    pub fn read_vector(&self, bytes: u64, segments: u64) {
        self.flow.add(bytes);
        self.change(|counts| {
            counts.totals.vector_bytes += bytes;
            counts.vectors.add(bytes);
            counts.segments.add(segments);
            counts.segments_count += segments;
        });
    }

    /// A write of so many bytes was stored.
    pub fn written(&self, bytes: u64) {
        self.written_over(bytes, || None);
    }

    /// The same, as with [`Used::read_over`].
    pub fn written_over(&self, bytes: u64, ends: impl FnOnce() -> Option<Ends>) {
        self.carried(bytes, ends);
        self.change(|counts| {
            counts.totals.written_bytes += bytes;
            counts.writes.add(bytes);
        });
    }

    fn carried(&self, bytes: u64, ends: impl FnOnce() -> Option<Ends>) {
        let is_elsewhere = match &self.further {
            Some(further) => ends().is_some_and(|ends| further.add(bytes, ends)),
            None => false,
        };
        if !is_elsewhere {
            self.flow.add(bytes);
        }
    }

    /// Its client went away.
    pub fn torn(&self) {
        if let Some(Heard { file, .. }) = &self.file {
            file.is_torn.store(true, Ordering::Relaxed);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        if let Some(Heard { file, .. }) = &self.file {
            file.change(change);
        }
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        if let Some(Heard { file, hub }) = self.file.take() {
            file.is_closed.store(true, Ordering::Release);
            hub.tell(&Event::Closed(file));
        }
    }
}
