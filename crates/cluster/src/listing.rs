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
use crate::stat::stat;

/// The listings of one directory on all nodes, each name once. A node that fails, or is too late,
/// is left out, and told as such.
pub(crate) struct MergedListing {
    path: LogicalPath,
    /// Each reads one batch ahead.
    open: FuturesUnordered<Pin<Box<dyn Future<Output = Read> + Send>>>,
    /// Batches that came with the beginnings.
    ready: VecDeque<Vec<RemoteEntry>>,
    /// Hashes of the names that were listed. The keys are new for each listing, so that no client
    /// can make two names meet.
    seen: HashSet<u64>,
    keys: RandomState,
    unlisted: Unlisted,
}

/// The part of one node.
struct Part {
    node: String,
    listing: Listing,
    /// How long it may still be waited for.
    left: Duration,
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
    // A node that sends an entry now and then must not keep the client for ever.
    let entries = batch
        .as_ref()
        .ok()
        .and_then(|batch| batch.as_ref().ok()?.as_ref())
        .map_or(0, Vec::len);
    let earned = Duration::from_millis(LISTED_ENTRY_MS) * u32::try_from(entries).unwrap_or(u32::MAX);
    part.left = (part.left.saturating_sub(began.elapsed()) + earned).min(Duration::from_millis(LISTING_TIME_MS));
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
            seen: HashSet::new(),
            keys: RandomState::new(),
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
                    this.ready.push_back(batch);
                    this.open.push(Box::pin(read(Part {
                        node: name,
                        listing,
                        left: Duration::from_millis(LISTING_TIME_MS),
                    })));
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

    /// The next batch of any node; none when all have ended.
    async fn next_of_any(&mut self) -> Option<Vec<RemoteEntry>> {
        if let Some(batch) = self.ready.pop_front() {
            return Some(batch);
        }
        while let Some(Read { part, batch }) = self.open.next().await {
            match batch {
                Ok(Some(batch)) => {
                    self.open.push(Box::pin(read(part)));
                    return Some(batch);
                }
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

    /// Whether the name is a new one.
    fn is_new(&mut self, name: &str) -> bool {
        let hash = self.keys.hash_one(name);
        self.seen.insert(hash)
    }

    async fn next(&mut self) -> Result<Vec<Entry>> {
        while let Some(batch) = self.next_of_any().await {
            if self.seen.len() > LISTED_MAX {
                let error = Error::new(ErrorCode::StorageFailed, Side::Active, Phase::Transfer);
                let words = format!("the directory has more than {LISTED_MAX} entries");
                return Err(error.with_detail(words).with_subject(&self.path));
            }
            let mut entries = Vec::with_capacity(batch.len());
            for entry in batch {
                let is_fit = !entry.is_special && self.path.check_join(entry.name()).is_ok();
                if is_fit && self.is_new(entry.name()) {
                    entries.push(Entry {
                        name: entry.name().to_owned(),
                        stat: stat(&entry),
                    });
                }
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
