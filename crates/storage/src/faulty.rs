//! A store that fails on demand, for tests: another store behind a script of faults.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use types::{ByteRange, Checksum, ErrorCode, LogicalPath, Phase, Result};

use crate::api::{
    CommitFacts, FileReader, Listing, Overwrite, Patience, Replacing, Space, Stat, Storage, TreeFailure, Upload,
    UploadOptions,
};
use crate::fault::fault;

/// The kinds of calls that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the calls")]
pub enum Operation {
    Open,
    Read,
    Create,
    Write,
    Commit,
}

/// Holds back calls until it is opened. Clones are the same latch.
#[derive(Clone, Debug, Default)]
pub struct Latch(Arc<(Mutex<LatchState>, Condvar)>);

#[derive(Debug, Default)]
struct LatchState {
    is_open: bool,
    waiting: usize,
}

impl Latch {
    /// Lets all calls pass from now on.
    pub fn open(&self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).is_open = true;
        self.0.1.notify_all();
    }

    /// How many calls wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).waiting
    }

    fn pass(&self) {
        let mut state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        while !state.is_open {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }
}

/// What happens instead of the call, or before it.
#[derive(Clone, Debug)]
pub enum Effect {
    /// It fails with this code and has no effect.
    Fail(ErrorCode),
    /// It takes this much longer.
    Delay(Duration),
    /// It waits until the latch is open.
    Hold(Latch),
}

/// A fault on the `nth` call (from 1) of an operation, counted over the whole store.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind of call.
    pub operation: Operation,
    /// Which of these calls; 0 means all.
    pub nth: u64,
    /// What happens.
    pub effect: Effect,
}

struct Plan {
    faults: Vec<Fault>,
    counts: Mutex<[u64; 5]>,
}

impl Plan {
    fn meet(&self, operation: Operation, phase: Phase) -> Result<()> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts[operation as usize] += 1;
        let count = counts[operation as usize];
        drop(counts);
        for planned in self.faults.iter().filter(|planned| planned.operation == operation) {
            match &planned.effect {
                _ if planned.nth != 0 && planned.nth != count => {}
                Effect::Fail(code) => return Err(fault(*code, phase)),
                Effect::Delay(delay) => std::thread::sleep(*delay),
                Effect::Hold(latch) => latch.pass(),
            }
        }
        Ok(())
    }
}

/// Another store behind faults.
pub struct Faulty<S> {
    inner: S,
    plan: Arc<Plan>,
}

impl<S: Storage> Faulty<S> {
    /// Puts the faults in front of `inner`.
    pub fn new(inner: S, faults: Vec<Fault>) -> Self {
        Self {
            inner,
            plan: Arc::new(Plan {
                faults,
                counts: Mutex::new([0; 5]),
            }),
        }
    }
}

impl<S: Storage> Storage for Faulty<S> {
    fn stat(&self, path: &LogicalPath) -> Result<Stat> {
        self.inner.stat(path)
    }
    fn list(&self, path: &LogicalPath) -> Result<Box<dyn Listing>> {
        self.inner.list(path)
    }
    fn open(&self, path: &LogicalPath) -> Result<Arc<dyn FileReader>> {
        self.plan.meet(Operation::Open, Phase::Open)?;
        Ok(Arc::new(FaultyReader {
            inner: self.inner.open(path)?,
            plan: Arc::clone(&self.plan),
        }))
    }
    fn create(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn Upload>> {
        self.plan.meet(Operation::Create, Phase::Open)?;
        Ok(Arc::new(FaultyUpload {
            inner: self.inner.create(path, options)?,
            plan: Arc::clone(&self.plan),
        }))
    }
    fn make_directory(&self, path: &LogicalPath, parents: bool) -> Result<()> {
        self.inner.make_directory(path, parents)
    }
    fn remove(&self, path: &LogicalPath) -> Result<()> {
        self.inner.remove(path)
    }
    fn remove_tree(&self, path: &LogicalPath) -> Result<Option<TreeFailure>> {
        self.inner.remove_tree(path)
    }
    fn copy_tree(&self, from: &LogicalPath, to: &LogicalPath, members: bool, replacing: Replacing) -> Result<bool> {
        self.inner.copy_tree(from, to, members, replacing)
    }
    fn move_over(&self, from: &LogicalPath, to: &LogicalPath, replacing: Replacing) -> Result<bool> {
        self.inner.move_over(from, to, replacing)
    }
    fn rename(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool> {
        self.inner.rename(from, to, overwrite)
    }
    fn stored_checksums(&self, path: &LogicalPath) -> Result<Vec<Checksum>> {
        self.inner.stored_checksums(path)
    }
    fn store_checksum(&self, path: &LogicalPath, seen: &Stat, checksum: &Checksum) -> Result<()> {
        self.inner.store_checksum(path, seen, checksum)
    }
    fn space(&self) -> Result<Space> {
        self.inner.space()
    }
    fn open_update(&self, path: &LogicalPath) -> Result<Arc<dyn Upload>> {
        self.plan.meet(Operation::Open, Phase::Open)?;
        Ok(Arc::new(FaultyUpload {
            inner: self.inner.open_update(path)?,
            plan: Arc::clone(&self.plan),
        }))
    }
    fn set_mode(&self, path: &LogicalPath, mode: u32) -> Result<()> {
        self.inner.set_mode(path, mode)
    }
    fn attributes(&self, path: &LogicalPath) -> Result<Vec<String>> {
        self.inner.attributes(path)
    }
    fn attribute(&self, path: &LogicalPath, name: &str) -> Result<Option<Vec<u8>>> {
        self.inner.attribute(path, name)
    }
    fn set_attribute(&self, path: &LogicalPath, name: &str, value: &[u8], overwrite: Overwrite) -> Result<()> {
        self.inner.set_attribute(path, name, value, overwrite)
    }
    fn dead_properties(&self, path: &LogicalPath) -> Result<Vec<u8>> {
        self.inner.dead_properties(path)
    }
    fn change_dead_properties(&self, path: &LogicalPath, change: &dyn Fn(&[u8]) -> Result<Vec<u8>>) -> Result<()> {
        self.inner.change_dead_properties(path, change)
    }
    fn remove_attribute(&self, path: &LogicalPath, name: &str) -> Result<bool> {
        self.inner.remove_attribute(path, name)
    }
}

struct FaultyReader {
    inner: Arc<dyn FileReader>,
    plan: Arc<Plan>,
}

impl FileReader for FaultyReader {
    fn stat(&self) -> &Stat {
        self.inner.stat()
    }
    fn stat_now(&self) -> io::Result<Stat> {
        self.inner.stat_now()
    }
    fn read_vectored_at(&self, slices: &mut [IoSliceMut<'_>], offset: u64, patience: Patience) -> io::Result<usize> {
        self.plan
            .meet(Operation::Read, Phase::Transfer)
            .map_err(io::Error::other)?;
        self.inner.read_vectored_at(slices, offset, patience)
    }
    /// None, so that every read passes through here.
    fn as_file(&self) -> Option<&File> {
        None
    }
    fn advise_sequential(&self, range: ByteRange) {
        self.inner.advise_sequential(range);
    }
}

struct FaultyUpload {
    inner: Arc<dyn Upload>,
    plan: Arc<Plan>,
}

impl Upload for FaultyUpload {
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.plan.meet(Operation::Write, Phase::Transfer)?;
        self.inner.write_vectored_at(slices, offset)
    }
    fn reader(&self) -> Result<Arc<dyn FileReader>> {
        self.inner.reader()
    }
    fn stat(&self) -> Result<Stat> {
        self.inner.stat()
    }
    fn set_length(&self, size_bytes: u64) -> Result<()> {
        self.plan.meet(Operation::Write, Phase::Transfer)?;
        self.inner.set_length(size_bytes)
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
    fn commit(&self, facts: &CommitFacts) -> Result<Stat> {
        self.plan
            .meet(Operation::Commit, Phase::Commit)
            .inspect_err(|_| self.inner.abort())?;
        self.inner.commit(facts)
    }
    fn abort(&self) {
        self.inner.abort();
    }
}
