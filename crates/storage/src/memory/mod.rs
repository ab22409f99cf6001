//! Files in memory that behave like files on a disk, for tests and demos.

mod upload;

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use types::limits::LISTING_BATCH_ENTRIES;
use types::{Checksum, ErrorCode, LogicalPath, Phase, Result};

use crate::api::{
    Entry, FileReader, Kind, Listing, Overwrite, Patience, Replacing, Space, Stat, Storage, TreeFailure, Upload,
    UploadOptions,
};
use crate::fault::{fault, root_keeps_mode};
use upload::{Draft, MemoryUpdate, MemoryUpload};

#[derive(Clone)]
struct Node {
    stat: Stat,
    content: Arc<Vec<u8>>,
    checksums: Vec<Checksum>,
    attributes: BTreeMap<String, Vec<u8>>,
    dead_properties: Vec<u8>,
}

/// Directory and name, so that the entries of a directory are adjacent. The root is the empty name
/// in itself.
type Key = (LogicalPath, String);

fn key(path: &LogicalPath) -> Key {
    let directory = path.parent().unwrap_or_else(LogicalPath::root);
    (directory, path.name().unwrap_or_default().to_owned())
}

struct Tree {
    nodes: BTreeMap<Key, Node>,
    capacity_bytes: u64,
    used_bytes: u64,
    promised_bytes: u64,
    next_inode: u64,
}

/// A store in memory. Clones share the files.
#[derive(Clone)]
pub struct Memory(Arc<Mutex<Tree>>);

impl Memory {
    /// An empty store with room for `capacity_bytes`, running uploads included.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        let mut tree = Tree {
            nodes: BTreeMap::new(),
            capacity_bytes,
            used_bytes: 0,
            promised_bytes: 0,
            next_inode: 1,
        };
        let root = tree.fresh(Kind::Directory, Vec::new());
        tree.insert(&LogicalPath::root(), root);
        Self(Arc::new(Mutex::new(tree)))
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refuse<T>(code: ErrorCode, path: &LogicalPath) -> Result<T> {
    Err(fault(code, Phase::Open).with_subject(path))
}

impl Tree {
    fn fresh(&mut self, kind: Kind, content: Vec<u8>) -> Node {
        self.next_inode += 1;
        let size_bytes = content.len() as u64;
        let mode = if kind == Kind::File { 0o644 } else { 0o755 };
        let stat = Stat {
            kind,
            size_bytes,
            modified: SystemTime::now(),
            mode,
            inode: self.next_inode,
        };
        Node {
            stat,
            content: Arc::new(content),
            checksums: Vec::new(),
            attributes: BTreeMap::new(),
            dead_properties: Vec::new(),
        }
    }

    fn find(&self, path: &LogicalPath) -> Option<&Node> {
        self.nodes.get(&key(path))
    }

    fn insert(&mut self, path: &LogicalPath, node: Node) {
        self.used_bytes += node.stat.size_bytes;
        let replaced = self.nodes.insert(key(path), node);
        self.used_bytes -= replaced.map_or(0, |old| old.stat.size_bytes);
    }

    fn remove(&mut self, path: &LogicalPath) -> Option<Node> {
        let removed = self.nodes.remove(&key(path));
        self.used_bytes -= removed.as_ref().map_or(0, |old| old.stat.size_bytes);
        removed
    }

    fn node(&self, path: &LogicalPath) -> Result<&Node> {
        match self.find(path) {
            Some(node) => Ok(node),
            None if self.has_file_above(path) => refuse(ErrorCode::NotDirectory, path),
            None => refuse(ErrorCode::NotFound, path),
        }
    }

    fn file(&self, path: &LogicalPath) -> Result<&Node> {
        match self.node(path)? {
            node if node.stat.is_directory() => refuse(ErrorCode::IsDirectory, path),
            node => Ok(node),
        }
    }

    fn node_mut(&mut self, path: &LogicalPath) -> Result<&mut Node> {
        self.node(path)?;
        match self.nodes.get_mut(&key(path)) {
            Some(node) => Ok(node),
            None => refuse(ErrorCode::NotFound, path),
        }
    }

    /// Changes a file's content in place, and its length to `size_bytes`.
    fn change(&mut self, path: &LogicalPath, size_bytes: u64, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let before = self.file(path)?.stat.size_bytes;
        if size_bytes.saturating_sub(before) > self.free_bytes() {
            return refuse(ErrorCode::NoSpace, path).map_err(|error| error.in_phase(Phase::Transfer));
        }
        let node = self.node_mut(path)?;
        let content = Arc::make_mut(&mut node.content);
        content.resize(size_bytes as usize, 0);
        fill(content);
        node.stat.size_bytes = size_bytes;
        node.stat.modified = SystemTime::now();
        node.checksums.clear();
        self.used_bytes = self.used_bytes - before + size_bytes;
        Ok(())
    }

    fn has_file_above(&self, path: &LogicalPath) -> bool {
        std::iter::successors(path.parent(), LogicalPath::parent)
            .any(|above| self.find(&above).is_some_and(|node| !node.stat.is_directory()))
    }

    fn check_parent(&mut self, path: &LogicalPath, make: bool) -> Result<()> {
        let Some(parent) = path.parent() else {
            return refuse(ErrorCode::Forbidden, path);
        };
        match self.node(&parent) {
            Ok(node) if node.stat.is_directory() => Ok(()),
            Ok(_) => refuse(ErrorCode::NotDirectory, path),
            Err(error) if error.code() != ErrorCode::NotFound => Err(error),
            Err(_) if !make => refuse(ErrorCode::ParentMissing, path),
            Err(_) => {
                self.check_parent(&parent, true)?;
                let node = self.fresh(Kind::Directory, Vec::new());
                self.insert(&parent, node);
                Ok(())
            }
        }
    }

    fn check_target(&self, path: &LogicalPath, overwrite: Overwrite) -> Result<bool> {
        match self.find(path) {
            Some(node) if node.stat.is_directory() => refuse(ErrorCode::IsDirectory, path),
            Some(_) if overwrite == Overwrite::Refuse => refuse(ErrorCode::Exists, path),
            found => Ok(found.is_some()),
        }
    }

    /// All existing paths at or below `top`.
    fn paths_within(&self, top: &LogicalPath) -> Vec<LogicalPath> {
        let all = self.nodes.keys().map(|(directory, name)| match name.as_str() {
            "" => directory.clone(),
            name => directory.join(name).unwrap_or_else(|_| directory.clone()),
        });
        all.filter(|path| path.is_within(top)).collect()
    }

    /// Moves everything at or below one path to another.
    fn carry(&mut self, from: &LogicalPath, to: &LogicalPath) {
        for path in self.paths_within(from) {
            if let (Some(below), Some(node)) = (path.below(from), self.remove(&path)) {
                self.insert(&below.under(to), node);
            }
        }
    }

    /// Removes what `replacing` allows to be replaced; returns whether something existed.
    fn clear(&mut self, path: &LogicalPath, replacing: Replacing) -> Result<bool> {
        let Some(node) = self.find(path) else { return Ok(false) };
        match replacing {
            Replacing::Nothing => return refuse(ErrorCode::Exists, path),
            Replacing::Single if node.stat.is_directory() && self.children(path, "").next().is_some() => {
                return refuse(ErrorCode::NotEmpty, path);
            }
            _ => {}
        }
        for path in self.paths_within(path) {
            self.remove(&path);
        }
        Ok(true)
    }

    fn free_bytes(&self) -> u64 {
        self.capacity_bytes
            .saturating_sub(self.used_bytes)
            .saturating_sub(self.promised_bytes)
    }

    fn promise(&mut self, bytes: u64, path: &LogicalPath) -> Result<()> {
        if bytes > self.free_bytes() {
            return refuse(ErrorCode::NoSpace, path);
        }
        self.promised_bytes += bytes;
        Ok(())
    }

    /// The entries of a directory with names after `after`, in order.
    fn children<'a>(&'a self, directory: &LogicalPath, after: &str) -> impl Iterator<Item = (&'a Key, &'a Node)> {
        let start = (directory.clone(), after.to_owned());
        let directory = directory.clone();
        self.nodes
            .range((Bound::Excluded(start), Bound::Unbounded))
            .take_while(move |((parent, _), _)| *parent == directory)
    }
}

impl Storage for Memory {
    fn stat(&self, path: &LogicalPath) -> Result<Stat> {
        self.tree().node(path).map(|node| node.stat.clone())
    }

    fn list(&self, path: &LogicalPath) -> Result<Box<dyn Listing>> {
        if !self.stat(path)?.is_directory() {
            return refuse(ErrorCode::NotDirectory, path);
        }
        Ok(Box::new(MemoryListing {
            store: self.clone(),
            directory: path.clone(),
            after: String::new(),
        }))
    }

    fn open(&self, path: &LogicalPath) -> Result<Arc<dyn FileReader>> {
        let tree = self.tree();
        let node = tree.file(path)?;
        Ok(Arc::new(MemoryReader {
            content: Arc::clone(&node.content),
            stat: node.stat.clone(),
        }))
    }

    fn create(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn Upload>> {
        let mut tree = self.tree();
        tree.check_target(path, options.overwrite)?;
        let promised = options.size_bytes.unwrap_or(0);
        tree.promise(promised, path)?;
        if let Err(error) = tree.check_parent(path, options.create_parents) {
            tree.promised_bytes -= promised;
            return Err(error);
        }
        let draft = Draft {
            content: Vec::new(),
            promised,
            ended: false,
        };
        let (path, announced, overwrite) = (path.clone(), options.size_bytes, options.overwrite);
        Ok(Arc::new(MemoryUpload {
            store: self.clone(),
            path,
            announced,
            overwrite,
            draft: RwLock::new(draft),
        }))
    }

    fn make_directory(&self, path: &LogicalPath, parents: bool) -> Result<()> {
        let mut tree = self.tree();
        match tree.find(path) {
            Some(node) if node.stat.is_directory() => return refuse(ErrorCode::DirectoryExists, path),
            Some(_) => return refuse(ErrorCode::Exists, path),
            None => tree.check_parent(path, parents)?,
        }
        let node = tree.fresh(Kind::Directory, Vec::new());
        tree.insert(path, node);
        Ok(())
    }

    fn remove(&self, path: &LogicalPath) -> Result<()> {
        let mut tree = self.tree();
        tree.node(path)?;
        if path.is_root() {
            return refuse(ErrorCode::Forbidden, path);
        }
        if tree.children(path, "").next().is_some() {
            return refuse(ErrorCode::NotEmpty, path);
        }
        tree.remove(path);
        Ok(())
    }

    fn remove_tree(&self, path: &LogicalPath) -> Result<Option<TreeFailure>> {
        let mut tree = self.tree();
        tree.node(path)?;
        if path.is_root() {
            return refuse(ErrorCode::Forbidden, path);
        }
        for path in tree.paths_within(path) {
            tree.remove(&path);
        }
        Ok(None)
    }

    fn copy_tree(&self, from: &LogicalPath, to: &LogicalPath, members: bool, replacing: Replacing) -> Result<bool> {
        let mut tree = self.tree();
        tree.node(from)?;
        if (members && to.is_within(from)) || from.is_within(to) {
            return refuse(ErrorCode::Forbidden, to);
        }
        tree.check_parent(to, false)?;
        let mut paths = tree.paths_within(from);
        paths.retain(|path| members || path == from);
        let sizes = paths
            .iter()
            .filter_map(|path| tree.find(path))
            .map(|node| node.stat.size_bytes);
        let bytes = sizes.sum();
        tree.promise(bytes, to)?;
        tree.promised_bytes -= bytes;
        let replaced = tree.clear(to, replacing)?;
        for path in paths {
            let Some((below, node)) = path.below(from).zip(tree.find(&path).cloned()) else {
                continue;
            };
            let fresh = tree.fresh(node.stat.kind, Vec::new());
            let stat = Stat {
                size_bytes: node.stat.size_bytes,
                ..fresh.stat
            };
            tree.insert(&below.under(to), Node { stat, ..node });
        }
        Ok(replaced)
    }

    fn move_over(&self, from: &LogicalPath, to: &LogicalPath, replacing: Replacing) -> Result<bool> {
        let mut tree = self.tree();
        tree.node(from)?;
        if to.is_within(from) || from.is_within(to) {
            return refuse(ErrorCode::Forbidden, to);
        }
        tree.check_parent(to, false)?;
        let replaced = tree.clear(to, replacing)?;
        tree.carry(from, to);
        Ok(replaced)
    }

    fn rename(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool> {
        let mut tree = self.tree();
        let moves_directory = tree.node(from)?.stat.is_directory();
        if from.is_root() || to.is_within(from) {
            return refuse(ErrorCode::Forbidden, to);
        }
        tree.check_parent(to, false)?;
        let replaced = tree.check_target(to, overwrite)?;
        if replaced && moves_directory {
            return refuse(ErrorCode::Exists, to);
        }
        tree.carry(from, to);
        Ok(replaced)
    }

    fn stored_checksums(&self, path: &LogicalPath) -> Result<Vec<Checksum>> {
        self.tree().file(path).map(|node| node.checksums.clone())
    }

    fn store_checksum(&self, path: &LogicalPath, seen: &Stat, checksum: &Checksum) -> Result<()> {
        let mut tree = self.tree();
        if !tree.file(path)?.stat.same_content(seen) {
            return refuse(ErrorCode::SourceChanged, path);
        }
        if let Some(node) = tree.nodes.get_mut(&key(path)) {
            node.checksums.retain(|old| old.algorithm() != checksum.algorithm());
            node.checksums.push(checksum.clone());
        }
        Ok(())
    }

    fn space(&self) -> Result<Space> {
        let tree = self.tree();
        let (free_bytes, used_bytes) = (tree.free_bytes(), tree.used_bytes);
        Ok(Space {
            total_bytes: tree.capacity_bytes,
            free_bytes,
            used_bytes,
            quota_bytes: None,
            device: None,
        })
    }

    fn open_update(&self, path: &LogicalPath) -> Result<Arc<dyn Upload>> {
        let inode = self.tree().file(path)?.stat.inode;
        Ok(Arc::new(MemoryUpdate {
            store: self.clone(),
            path: path.clone(),
            inode,
        }))
    }

    fn set_mode(&self, path: &LogicalPath, mode: u32) -> Result<()> {
        if path.is_root() {
            return Err(root_keeps_mode(path));
        }
        self.tree().node_mut(path)?.stat.mode = mode & 0o777;
        Ok(())
    }

    fn attributes(&self, path: &LogicalPath) -> Result<Vec<String>> {
        Ok(self.tree().node(path)?.attributes.keys().cloned().collect())
    }

    fn attribute(&self, path: &LogicalPath, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.tree().node(path)?.attributes.get(name).cloned())
    }

    fn set_attribute(&self, path: &LogicalPath, name: &str, value: &[u8], overwrite: Overwrite) -> Result<()> {
        let mut tree = self.tree();
        let node = tree.node_mut(path)?;
        if overwrite == Overwrite::Refuse && node.attributes.contains_key(name) {
            return refuse(ErrorCode::Exists, path);
        }
        node.attributes.insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    fn dead_properties(&self, path: &LogicalPath) -> Result<Vec<u8>> {
        Ok(self.tree().node(path)?.dead_properties.clone())
    }

    fn change_dead_properties(&self, path: &LogicalPath, change: &dyn Fn(&[u8]) -> Result<Vec<u8>>) -> Result<()> {
        let mut tree = self.tree();
        let node = tree.node_mut(path)?;
        node.dead_properties = change(&node.dead_properties)?;
        Ok(())
    }

    fn copy(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<Stat> {
        let mut tree = self.tree();
        let old = tree.file(from)?.clone();
        tree.check_target(to, overwrite)?;
        tree.check_parent(to, false)?;
        tree.promise(old.stat.size_bytes, to)?;
        tree.promised_bytes -= old.stat.size_bytes;
        let mut node = tree.fresh(Kind::File, Vec::new());
        node.stat.size_bytes = old.stat.size_bytes;
        let stat = node.stat.clone();
        tree.insert(
            to,
            Node {
                stat: stat.clone(),
                ..old
            },
        );
        Ok(stat)
    }

    fn remove_attribute(&self, path: &LogicalPath, name: &str) -> Result<bool> {
        Ok(self.tree().node_mut(path)?.attributes.remove(name).is_some())
    }
}

struct MemoryListing {
    store: Memory,
    directory: LogicalPath,
    after: String,
}

impl Listing for MemoryListing {
    fn next_batch(&mut self) -> Result<Vec<Entry>> {
        let tree = self.store.tree();
        let children = tree.children(&self.directory, &self.after);
        let batch: Vec<Entry> = children
            .take(LISTING_BATCH_ENTRIES)
            .map(|((_, name), node)| Entry {
                name: name.clone(),
                stat: node.stat.clone(),
            })
            .collect();
        if let Some(last) = batch.last() {
            self.after.clone_from(&last.name);
        }
        Ok(batch)
    }
}

struct MemoryReader {
    content: Arc<Vec<u8>>,
    stat: Stat,
}

impl FileReader for MemoryReader {
    fn stat(&self) -> &Stat {
        &self.stat
    }

    fn read_vectored_at(&self, slices: &mut [IoSliceMut<'_>], offset: u64, _patience: Patience) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.content.len());
        let mut left = &self.content[start..];
        let mut total = 0;
        for slice in slices {
            let count = slice.len().min(left.len());
            slice[..count].copy_from_slice(&left[..count]);
            left = &left[count..];
            total += count;
        }
        Ok(total)
    }
}
