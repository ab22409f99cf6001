//! A directory that is spread over several nodes, listed as one.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use remote::{Entry as RemoteEntry, Listing};
use storage::{Answer, DirectoryReader, Entry};
use tokio::time::{Instant, timeout, timeout_at};
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side, Unlisted};

use crate::explanation::{Asked, Undirected};
use crate::fixed::{is_missing, without_file};
use crate::limits::{LISTED_ENTRY_MS, LISTED_MAX, LISTING_TIME_MS};
use crate::locator::Says;
use crate::node::NodeId;
use crate::redirector::Redirector;
use storage_remote::stat;

/// The listings of one directory on all nodes, each name once. A node that fails, or is too late,
/// is left out, and told as such.
pub(crate) struct MergedListing {
    path: LogicalPath,
    /// Each reads one batch ahead.
    open: FuturesUnordered<Pin<Box<dyn Future<Output = Read> + Send>>>,
    /// Entries that came with the beginnings.
    ready: VecDeque<Vec<Entry>>,
    names: Names,
    unlisted: Unlisted,
}

/// The names that were listed.
#[derive(Default)]
struct Names {
    /// Their hashes. The keys are new for each listing, so that no client can make two names meet.
    seen: HashSet<u64>,
    keys: RandomState,
}

impl Names {
    /// The entries with new names.
    fn take(&mut self, directory: &LogicalPath, batch: Vec<RemoteEntry>, repeats: &mut Repeats) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(batch.len());
        for entry in batch {
            if entry.is_special || directory.check_join(entry.name()).is_err() {
                repeats.unfit += 1;
            } else if self.seen.insert(self.keys.hash_one(entry.name())) {
                entries.push(Entry {
                    name: entry.name().to_owned(),
                    stat: stat(&entry),
                });
            } else {
                repeats.known += 1;
            }
        }
        entries
    }
}

/// Entries of one node that no client sees.
#[derive(Default)]
struct Repeats {
    /// Their names were listed already.
    known: usize,
    /// They have no name that is listed.
    unfit: usize,
}

impl Repeats {
    /// Whether the listing has an end: a node that lists each name once cannot repeat more names
    /// than were listed.
    fn are_finite(&self, names: &Names) -> bool {
        self.known <= names.seen.len() && self.unfit <= LISTED_MAX
    }
}

/// The part of one node.
struct Part {
    node: String,
    listing: Listing,
    /// How long it may still be waited for.
    left: Duration,
    repeats: Repeats,
}

impl Part {
    /// A node that sends an entry now and then must not keep the client for ever; neither must one
    /// that sends what no client sees.
    fn earn(&mut self, entries: usize) {
        let earned = Duration::from_millis(LISTED_ENTRY_MS) * u32::try_from(entries).unwrap_or(u32::MAX);
        self.left = (self.left + earned).min(Duration::from_millis(LISTING_TIME_MS));
    }
}

/// A part and its next batch.
struct Read {
    part: Part,
    batch: Result<Option<Vec<RemoteEntry>>>,
}

async fn read(mut part: Part) -> Read {
    let began = Instant::now();
    let late = || Error::new(ErrorCode::NodesSilent, Side::Active, Phase::Transfer);
    let batch = timeout(part.left, part.listing.next()).await;
    part.left = part.left.saturating_sub(began.elapsed());
    Read {
        batch: batch.unwrap_or_else(|_| Err(late())),
        part,
    }
}

/// A node's beginning of a listing.
struct Begun {
    node: NodeId,
    result: Result<Option<(Listing, Vec<RemoteEntry>)>>,
}

impl MergedListing {
    /// Asks all nodes that may have the directory. Links on them lead nowhere but into the tree.
    ///
    /// # Errors
    /// `not_found` and `not_directory` if all that answer say so; `nodes_silent` or `nodes_refuse`
    /// with the names of the nodes if none lists it.
    pub(crate) async fn begin(redirector: &Redirector, path: &LogicalPath, tree: Option<&LogicalPath>) -> Result<Self> {
        let nodes = redirector.candidates(path);
        let deadline = Instant::now() + Duration::from_millis(LISTING_TIME_MS);
        let mut waiting: FuturesUnordered<_> = nodes.iter().map(|id| first(redirector, *id, path, tree)).collect();
        let mut this = Self {
            path: path.clone(),
            open: FuturesUnordered::new(),
            ready: VecDeque::new(),
            names: Names::default(),
            unlisted: Unlisted::default(),
        };
        let (mut refusal, mut has_begun, mut missing) = (None, false, 0);
        let mut silent: Vec<NodeId> = nodes.clone();
        let mut unclear: Vec<Asked> = Vec::new();
        while let Ok(Some(begun)) = timeout_at(deadline, waiting.next()).await {
            silent.retain(|node| *node != begun.node);
            let name = redirector.name(begun.node);
            match begun.result {
                Ok(Some((listing, batch))) => {
                    has_begun = true;
                    let part = Part {
                        node: name,
                        listing,
                        left: Duration::from_millis(LISTING_TIME_MS),
                        repeats: Repeats::default(),
                    };
                    let entries = this.take(part, batch);
                    this.ready.push_back(entries);
                }
                Ok(None) => has_begun = true,
                Err(error) if is_missing(&error) => missing += 1,
                Err(error) if error.code() == ErrorCode::NotDirectory => {
                    refusal.get_or_insert(error);
                }
                Err(error) => match without_file(&error) {
                    Says::Nothing => missing += 1,
                    says => unclear.push(asked(begun.node, Some(says))),
                },
            }
        }
        unclear.extend(silent.into_iter().map(|node| asked(node, None)));
        // Those that are away have names, too.
        let away = redirector.director.away(path).into_iter();
        unclear.extend(away.filter(|asked| !nodes.contains(&asked.node)));
        for asked in &unclear {
            this.unlisted.nodes.add(redirector.name(asked.node).as_bytes());
        }
        if has_begun {
            return Ok(this);
        }
        let at = |code, side| Error::new(code, side, Phase::Open).with_subject(path);
        Err(match (refusal, this.unlisted.nodes.count, missing) {
            (Some(_), ..) => at(ErrorCode::NotDirectory, Side::Client),
            (None, 0, 1..) => at(ErrorCode::NotFound, Side::Client),
            _ => redirector.refused(&Undirected::Unsure { silent: unclear }, path),
        })
    }

    /// The new entries of a batch. The node goes on, unless it repeats itself.
    fn take(&mut self, mut part: Part, batch: Vec<RemoteEntry>) -> Vec<Entry> {
        let known = part.repeats.known;
        let entries = self.names.take(&self.path, batch, &mut part.repeats);
        match part.repeats.are_finite(&self.names) {
            true => {
                part.earn(entries.len() + part.repeats.known - known);
                self.open.push(Box::pin(read(part)));
            }
            false => self.unlisted.nodes.add(part.node.as_bytes()),
        }
        entries
    }

    /// The new entries of the next batch of any node; none when all have ended.
    async fn next_of_any(&mut self) -> Option<Vec<Entry>> {
        if let Some(entries) = self.ready.pop_front() {
            return Some(entries);
        }
        while let Some(Read { part, batch }) = self.open.next().await {
            match batch {
                Ok(Some(batch)) => return Some(self.take(part, batch)),
                Ok(None) => self.take_remark(&part.node, part.listing.description()),
                Err(_) => self.unlisted.nodes.add(part.node.as_bytes()),
            }
        }
        None
    }

    /// A node may say that something is missing in its part; the first remark is passed on.
    fn take_remark(&mut self, node: &str, remark: Option<&str>) {
        if let Some(remark) = remark {
            self.unlisted
                .remark
                .get_or_insert_with(|| format!("the node {node} says: {remark}"));
        }
    }

    async fn next(&mut self) -> Result<Vec<Entry>> {
        while let Some(entries) = self.next_of_any().await {
            if self.names.seen.len() > LISTED_MAX {
                let error = Error::new(ErrorCode::StorageFailed, Side::Active, Phase::Transfer);
                let words = format!("the directory has more than {LISTED_MAX} entries");
                return Err(error.with_detail(words).with_subject(&self.path));
            }
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
        Ok(Vec::new())
    }
}

impl DirectoryReader for MergedListing {
    fn next_batch(&mut self) -> Answer<'_, Vec<Entry>> {
        Box::pin(self.next())
    }

    fn unlisted(&self) -> Unlisted {
        self.unlisted.clone()
    }
}

fn asked(node: NodeId, says: Option<Says>) -> Asked {
    Asked {
        node,
        says,
        after_ms: 0.0,
    }
}

async fn first(redirector: &Redirector, node: NodeId, path: &LogicalPath, tree: Option<&LogicalPath>) -> Begun {
    let result = async {
        let Some(server) = redirector.nodes.get(node) else {
            return Ok(None);
        };
        let directory = server.resource_within(path, tree);
        let mut listing = redirector.nodes.client().list(&directory).await?;
        Ok(listing.next().await?.map(|batch| (listing, batch)))
    };
    Begun {
        node,
        result: result.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::path;

    fn batch(names: &[&str]) -> Vec<RemoteEntry> {
        let entry = |name: &&str| RemoteEntry {
            path: format!("/d/{name}"),
            ..RemoteEntry::default()
        };
        names.iter().map(entry).collect()
    }

    #[test]
    fn a_node_that_repeats_itself_has_no_end_and_one_that_lists_what_others_have_has() {
        let (directory, mut names) = (path("/d"), Names::default());
        let mut nodes = [(); 3].map(|()| Repeats::default());
        let mut listed = |node: usize, list: &[&str]| {
            let entries = names.take(&directory, batch(list), &mut nodes[node]);
            let listed: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
            (listed, nodes[node].are_finite(&names))
        };
        let is = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(listed(0, &["a", "b", "c"]), (is(&["a", "b", "c"]), true));
        assert_eq!(listed(1, &["c", "b"]), (is(&[]), true));
        assert_eq!(listed(1, &["a", "d"]), (is(&["d"]), true));
        assert_eq!(listed(2, &["a", "a", "a", "a"]), (is(&[]), true));
        assert_eq!(listed(2, &["a"]), (is(&[]), false));
        let mut special = Repeats::default();
        let mut socket = batch(&["s"]);
        socket[0].is_special = true;
        assert!(names.take(&directory, socket, &mut special).is_empty() && special.unfit == 1);
        special.unfit = LISTED_MAX + 1;
        assert!(!special.are_finite(&names));
    }
}
