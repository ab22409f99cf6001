//! The entries of a directory as they come. If a server sends only names, each of them is looked
//! up, many at a time.

use std::collections::VecDeque;
use std::time::Instant;

use crate::limits::ROOT_STATS_MAX;
use net::frames::Expected;
use types::{ErrorCode, PeerStatus, Result, Unlisted};
use xroot_wire::limits::RESPONSE_HEADER_BYTES;
use xroot_wire::request::{ListDirectory, Query, Stat};
use xroot_wire::response::{ListedEntry, ListingReader, StatText, parse_listed_checksum, parse_unlisted};
use xroot_wire::{Argument, ErrorNumber, ListOptions, Request, StreamId};

use super::ask::{Ask, Begun, Client, Opening};
use super::namespace::entry_of;
use super::route::{Route, check_path, pair};
use super::session::{Event, Reply, ServerSession};
use super::verdict::{recoded, refused};
use crate::Entry;
use crate::listing::{DirectoryListing, Extent, Pace};
use crate::protocol::Pending;
use crate::resource::Resource;

/// What a caller gets to know where our server does not say what its listing omits.
const UNLISTED_UNKNOWN: &str = "the server did not say whether this is the whole directory";

/// A listing on its way from a server. Dropping it early closes the connection.
pub(crate) struct Listing {
    client: Client,
    route: Route,
    /// `None` once the listing has come.
    session: Option<ServerSession>,
    id: StreamId,
    reader: ListingReader,
    part: Expected,
    is_last: bool,
    /// Names without properties.
    names: VecDeque<String>,
    ready: Vec<Entry>,
    /// What the listing omits, in the words of our server.
    description: Option<String>,
    pace: Pace,
    extent: Extent,
}

impl Client {
    /// The entries of a directory, a batch at a time.
    ///
    /// # Errors
    /// `not_directory` for a file, or another refusal.
    pub(crate) async fn list(&self, file: &Resource) -> Result<Listing> {
        let ask = Ask::looking(&|target, id, out| {
            let request = ListDirectory {
                options: ListOptions::STAT,
                path: Argument::new(target.path),
            };
            Request::ListDirectory(request).encode(id, out);
        });
        let begun = match self.begin(file, &ask).await {
            Ok(begun) => begun,
            Err(error) => {
                let is_file = error.peer_status() == Some(PeerStatus::Xrootd(ErrorNumber::FILE_SYSTEM.0))
                    && self.stat(file).await.is_ok_and(|entry| !entry.is_directory);
                return Err(if is_file {
                    recoded(&error, ErrorCode::NotDirectory, file)
                } else {
                    error
                });
            }
        };
        Listing::new(self, begun)
    }
}

impl Listing {
    fn new(client: &Client, begun: Begun) -> Result<Self> {
        let mut listing = Self {
            client: client.clone(),
            route: begun.route,
            session: Some(begun.session),
            id: begun.id,
            reader: ListingReader::new(true),
            part: Expected::new(0),
            is_last: true,
            names: VecDeque::new(),
            ready: Vec::new(),
            description: None,
            pace: Pace::default(),
            extent: Extent::default(),
        };
        match begun.first {
            Opening::Part { length, last } => {
                listing.part = Expected::new(length as u64);
                listing.is_last = last;
            }
            Opening::Whole(body) => drop(listing.feed(&body)?),
        }
        Ok(listing)
    }

    /// Receives the next piece of the answer.
    async fn go_on(&mut self) -> Result<()> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let asked = Instant::now();
        if let Some(batch) = self.part.next(&mut session.frames).await? {
            self.pace.note(asked, batch.len(), &self.route.at)?;
            let mut entries = 0;
            for piece in batch.slices() {
                entries += self.feed(piece)?;
            }
            return self.extent.note(entries, batch.len(), &self.route.at);
        }
        if !self.is_last {
            match session.event_of(self.id).await? {
                Event::Body { length, last, .. } => {
                    self.part = Expected::new(length as u64);
                    self.is_last = last;
                    self.pace.note(asked, 0, &self.route.at)?;
                    self.extent.note(0, RESPONSE_HEADER_BYTES, &self.route.at)?;
                    return Ok(());
                }
                Event::Reply(_, Reply::Refused(refusal)) => {
                    return Err(refused(&self.route.at, &refusal, session.is_encrypted()));
                }
                _ => return Err(session.misbehaved("the listing does not go on as it began")),
            }
        }
        let reader = std::mem::replace(&mut self.reader, ListingReader::new(true));
        let mut rest = Vec::new();
        reader.finish(|entry| rest.push(entry))?;
        rest.retain(|entry| !matches!(entry.name.as_str(), "." | ".."));
        rest.into_iter().for_each(|entry| self.take(entry));
        if let Some(session) = self.session.take() {
            let is_own = session.server.session.is_own();
            self.client.keep(&self.route, session);
            if is_own {
                self.description = match self.ask_for_unlisted().await {
                    Ok(unlisted) => Some(unlisted.to_string()).filter(|words| !words.is_empty()),
                    // The directory is gone meanwhile, or another server stands behind the same
                    // name.
                    Err(error) if matches!(error.code(), ErrorCode::PeerNotFound | ErrorCode::PeerUnsupported) => None,
                    // The entries themselves have come; they must not look complete, either.
                    Err(error) => Some(format!("{UNLISTED_UNKNOWN}: {}", error.code().meaning())),
                };
            }
        }
        Ok(())
    }

    /// Asks what the listing omits. A listing cannot say so itself, and only our servers know the
    /// question.
    async fn ask_for_unlisted(&self) -> Result<Unlisted> {
        let ask = Ask {
            own: &[pair(Query::UNLISTED, "")],
            ..Ask::looking(&|target, id, out| Request::Query(Query::unlisted(target.path)).encode(id, out))
        };
        let answered = self.client.ask_on(self.route.clone(), &ask).await?;
        self.client.keep(&answered.route, answered.session);
        parse_unlisted(&answered.body)
    }

    /// Takes a piece of the answer, and says how many entries ended with it.
    fn feed(&mut self, piece: &[u8]) -> Result<usize> {
        let mut entries = Vec::new();
        self.reader.feed(piece, |entry| entries.push(entry))?;
        entries.retain(|entry| !matches!(entry.name.as_str(), "." | ".."));
        let count = entries.len();
        entries.into_iter().for_each(|entry| self.take(entry));
        Ok(count)
    }

    fn take(&mut self, listed: ListedEntry) {
        match &listed.stat {
            Some(stat) => {
                let mut entry = entry_of(&self.path_of(&listed.name), stat);
                entry
                    .checksums
                    .extend(listed.checksum.as_deref().and_then(parse_listed_checksum));
                self.ready.push(entry);
            }
            None => self.names.push_back(listed.name),
        }
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.route.at.location.path().trim_end_matches('/'))
    }

    /// Looks some of the names up, all at the same time on another connection.
    async fn look_names_up(&mut self) -> Result<()> {
        let mut session = self.client.session(&self.route).await?;
        let mut asked = Vec::new();
        while asked.len() < ROOT_STATS_MAX
            && let Some(name) = self.names.pop_front()
        {
            let path = self.path_of(&name);
            check_path(&path)?;
            let target = self.route.with_token(&path, session.is_encrypted());
            let id = session.queue(&Request::Stat(Stat::path(target.expose().as_bytes())));
            asked.push((id, path));
        }
        session.frames.stream.flush().await?;
        let mut left = Vec::new();
        while !asked.is_empty() {
            let event = session.event().await?;
            let at = asked.iter().position(|(id, _)| *id == event.id());
            let (id, path) = asked.swap_remove(at.ok_or_else(|| session.misbehaved("an answer came twice"))?);
            let body = match event {
                Event::Body { length, last, .. } => session.gather(id, length, last).await?,
                Event::Reply(_, Reply::Done(body)) => body,
                // It is gone meanwhile.
                Event::Reply(_, Reply::Refused(refusal)) if refusal.number == ErrorNumber::NOT_FOUND => continue,
                // After a redirection or a wait each name is asked for alone.
                _ => {
                    left.push(path);
                    continue;
                }
            };
            self.ready.push(entry_of(&path, &StatText::parse(&body)?));
        }
        self.client.keep(&self.route, session);
        for path in left {
            let file = Resource {
                location: self.route.at.location.with_path(&path),
                ..self.route.at.clone()
            };
            self.ready.push(self.client.stat(&file).await?);
        }
        Ok(())
    }
}

impl DirectoryListing for Listing {
    fn next(&mut self) -> Pending<'_, Option<Vec<Entry>>> {
        Box::pin(async move {
            loop {
                if self.names.len() >= ROOT_STATS_MAX || (self.session.is_none() && !self.names.is_empty()) {
                    let found = self.look_names_up().await;
                    found.map_err(|error| self.route.at.blame(error))?;
                }
                if !self.ready.is_empty() {
                    return Ok(Some(std::mem::take(&mut self.ready)));
                }
                if self.session.is_none() {
                    return Ok(None);
                }
                let went_on = self.go_on().await;
                went_on.map_err(|error| self.route.at.blame(error))?;
            }
        })
    }

    fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }
}

impl std::fmt::Debug for Listing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Listing({})", self.route.at.location)
    }
}
