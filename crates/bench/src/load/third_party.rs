//! Copies between two servers that one of them makes: who is asked, with which credentials, and how
//! far it is.

use std::sync::Arc;

use remote::{Access, Client, CopyOrder, Direction, Resource};
use types::{Error, ErrorCode, Location, Phase, Result, Side};

use super::data::{self, Content};
use super::timeline::Timeline;
use crate::Ground;
use crate::ground::Target;
use crate::report::Failure;

/// Two servers, the files of the one to be copied to the other.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Where the files are.
    pub source: Target,
    /// Where they go.
    pub destination: Target,
}

impl Pair {
    /// What it is called in tables.
    #[must_use]
    pub fn name(&self) -> String {
        let (source, destination) = (&self.source.name, &self.destination.name);
        match source == destination {
            true => source.clone(),
            false => format!("{source} → {destination}"),
        }
    }

    /// Way and protocol, as labels name them: `pull https`, or `pull root → https`.
    #[must_use]
    pub fn label(&self, way: Direction) -> String {
        let (source, destination) = (self.source.protocol(), self.destination.protocol());
        match source == destination {
            true => format!("{} {source}", way.name()),
            false => format!("{} {source} → {destination}", way.name()),
        }
    }

    /// Whether this can be asked for: servers of the XRootD protocol only fetch.
    #[must_use]
    pub fn has_way(&self, way: Direction) -> bool {
        way == Direction::Pull || !self.source.place.location.is_xrootd()
    }

    /// The processes of both, each once.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let mut all = [self.source.processes.as_slice(), &self.destination.processes].concat();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Both as one target, for figures that are about them together.
    #[must_use]
    pub fn together(&self) -> Target {
        Target {
            name: self.name(),
            processes: match self.source.processes.is_empty() || self.destination.processes.is_empty() {
                // Half of the work would be taken for all of it.
                true => Vec::new(),
                false => self.processes(),
            },
            ..self.destination.clone()
        }
    }
}

/// The files of a pair: what is copied, and where to.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// Files to copy, all of one size.
    pub(crate) sources: Vec<Resource>,
    pub(crate) size_bytes: u64,
    /// Where copies go.
    pub(crate) directory: Resource,
    /// What the destination may show to the source, and the source to the destination.
    pull_access: Access,
    push_access: Access,
}

impl Files {
    /// Makes what will be copied, and asks for what the servers show to each other. `wanted` files
    /// of `size_bytes` are made, unless the source names a file of its own. What is odd about the
    /// credentials goes to `notes`.
    ///
    /// # Errors
    /// What could not be made.
    pub(crate) async fn prepare(
        ground: &Ground,
        pair: &Pair,
        wanted: usize,
        size_bytes: u64,
        notes: &mut Vec<String>,
    ) -> std::result::Result<Self, Failure> {
        let making = "making a directory for the run";
        let directory = ground.directory(&pair.destination, "copies").await;
        let directory = directory.map_err(|error| Failure::of(making, &error))?;
        let (sources, size_bytes, guarded) = match &pair.source.file {
            Some(file) => (vec![file.clone()], size_of(ground, file).await?, file.clone()),
            None => {
                let place = ground.directory(&pair.source, "sources").await;
                let place = place.map_err(|error| {
                    Failure::of(making, &error).advised("give --file URL to copy a file that is there")
                })?;
                (upload(ground, &place, wanted, size_bytes).await?, size_bytes, place)
            }
        };
        let client = ground.new_client();
        Ok(Self {
            sources,
            size_bytes,
            pull_access: shown(&client, &guarded, Direction::Pull, notes).await,
            push_access: shown(&client, &directory, Direction::Push, notes).await,
            directory,
        })
    }

    /// The copy of one source to one destination.
    pub(crate) fn order(&self, way: Direction, source: &Resource, target: &Resource, streams: u32) -> Ordered {
        let as_side = |file: &Resource, side: Side| Resource { side, ..file.clone() };
        let (source, target) = (as_side(source, Side::Source), as_side(target, Side::Destination));
        let (active, peer, access) = match way {
            Direction::Pull => (&target, &source, &self.pull_access),
            Direction::Push => (&source, &target, &self.push_access),
        };
        let order = CopyOrder {
            streams: Some(streams).filter(|streams| *streams > 0),
            ..CopyOrder::new(peer.location.clone(), way, access.clone())
        };
        Ordered {
            active: active.clone(),
            order: Arc::new(order),
            target,
            size_bytes: self.size_bytes,
        }
    }
}

async fn size_of(ground: &Ground, file: &Resource) -> std::result::Result<u64, Failure> {
    let looking = "looking at the file to copy";
    let facts = ground.new_client().head(file, &[]).await;
    let facts = facts.map_err(|error| Failure::of(looking, &error))?;
    let size_bytes = facts.size_bytes.filter(|size_bytes| *size_bytes > 0);
    size_bytes.ok_or_else(|| {
        let advice = "name a file with content in --file";
        Failure::new(looking, "it is empty, or its size is not told", advice)
    })
}

async fn upload(
    ground: &Ground,
    place: &Resource,
    wanted: usize,
    size_bytes: u64,
) -> std::result::Result<Vec<Resource>, Failure> {
    let (client, content) = (ground.new_client(), Content::default());
    let mut sources = Vec::new();
    for number in 0..wanted.max(1) {
        let file = ground.file(place, &format!("source-{number}"));
        ground.progress.aside(format!("making {}", file.location));
        let stored = data::upload(&client, &file, size_bytes, true, &content).await;
        stored.map_err(|error| Failure::of("upload of a file to copy", &error))?;
        sources.push(file);
    }
    Ok(sources)
}

/// What one server may show to the other about `place`.
async fn shown(client: &Client, place: &Resource, way: Direction, notes: &mut Vec<String>) -> Access {
    let shown = client.shown_in_copy(place, way).await;
    notes.extend(shown.note);
    shown.access
}

/// A copy that is ready to be asked for.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    active: Resource,
    order: Arc<CopyOrder>,
    pub(crate) target: Resource,
    size_bytes: u64,
}

impl Ordered {
    /// The same copy, the other server's file to be reached by another address.
    pub(crate) fn by(self, peer: Location) -> Self {
        Self {
            order: Arc::new(CopyOrder {
                peer,
                ..CopyOrder::clone(&self.order)
            }),
            ..self
        }
    }

    /// The other server's file.
    pub(crate) fn peer(&self) -> &Location {
        &self.order.peer
    }

    /// How large the file is.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Has the copy made, and notes how far it is. Dropping this closes the connection on which it
    /// was asked for, and the server gives it up.
    ///
    /// # Errors
    /// The server's words.
    pub(crate) async fn make(&self, client: &Client, timeline: &Timeline) -> Result<()> {
        let copy = timeline.begin();
        let mut copying = client.copy(&self.active, &self.order).await?;
        while let Some(news) = copying.next().await? {
            // Markers may run ahead of what a server will not keep.
            timeline.note(copy, news.bytes.min(self.size_bytes));
        }
        timeline.note(copy, self.size_bytes);
        Ok(())
    }

    /// A server may say that all went well and have less.
    ///
    /// # Errors
    /// `peer_size_differs`; that the file cannot be looked at.
    pub(crate) async fn check_size(&self, client: &Client) -> Result<()> {
        let stored = client.head(&self.target, &[]).await?.size_bytes;
        match stored {
            Some(stored) if stored != self.size_bytes => {
                let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Destination, Phase::Checksum);
                let detail = format!("{stored} bytes are stored there, the source has {}", self.size_bytes);
                Err(error.with_detail(detail).with_subject(&self.target.location))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str, url: &str, processes: &[u32]) -> Target {
        Target {
            name: name.to_owned(),
            place: Resource {
                location: Location::parse(url).unwrap(),
                access: Access::default(),
                side: Side::Destination,
            },
            file: None,
            processes: processes.to_vec(),
        }
    }

    fn pair(source: &str, destination: &str) -> Pair {
        Pair {
            source: target("one", source, &[1, 2]),
            destination: target("two", destination, &[2, 3]),
        }
    }

    #[test]
    fn a_pair_is_named_by_both_of_its_sides() {
        let mut pair = pair("root://one//data", "https://two/data");
        assert_eq!(pair.name(), "one → two");
        assert_eq!(pair.label(Direction::Pull), "pull root → https");
        assert!(pair.has_way(Direction::Pull) && !pair.has_way(Direction::Push));
        pair.source = target("two", "https://two/other", &[]);
        assert_eq!(
            (pair.name().as_str(), pair.label(Direction::Push).as_str()),
            ("two", "push https")
        );
        assert!(pair.has_way(Direction::Push));
    }

    #[test]
    fn both_sides_are_counted_once_or_not_at_all() {
        let mut pair = pair("https://one/data", "https://two/data");
        assert_eq!(pair.processes(), [1, 2, 3]);
        assert_eq!(pair.together().processes, [1, 2, 3]);
        pair.source.processes.clear();
        assert!(pair.together().processes.is_empty());
    }

    #[test]
    fn the_active_server_is_at_the_end_that_the_way_says() {
        let pair = pair("https://one/data", "https://two/data");
        let files = Files {
            sources: vec![pair.source.place.clone()],
            size_bytes: 1,
            directory: pair.destination.place.clone(),
            pull_access: Access::default(),
            push_access: Access::default(),
        };
        let pull = files.order(Direction::Pull, &pair.source.place, &pair.destination.place, 4);
        assert_eq!(
            (pull.active.location.host(), pull.active.side),
            ("two", Side::Destination)
        );
        assert_eq!((pull.peer().host(), pull.order.streams), ("one", Some(4)));
        let push = files.order(Direction::Push, &pair.source.place, &pair.destination.place, 0);
        assert_eq!((push.active.location.host(), push.active.side), ("one", Side::Source));
        assert_eq!((push.peer().host(), push.order.streams), ("two", None));
        let elsewhere = push.by(Location::parse("https://two:99/data").unwrap());
        assert_eq!((elsewhere.peer().port(), elsewhere.target.location.port()), (99, 443));
    }
}
