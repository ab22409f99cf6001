//! Changes of names that take several requests. Each is noted in a file before it begins. After the
//! end of this process in between, or a failure, what has no name yet gets its own again, and what
//! was to be removed is removed: with the next request that this export passes on.

use std::sync::Arc;

use remote::{Journal, JournalEntry, LostFile, in_journal};
use storage::{Adler32, COPIED, Overwrite, REPLACED};
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Result, Side};

use crate::fault::is_of_hop;
use crate::limits::SETTLE_INTERVAL;
use crate::store::RemoteStore;
use crate::upstream::Upstream;

/// The place of all changes: each export has a journal of its own.
const OWN_PLACE: &str = "";

/// A change that is noted. Dropped before its end, it is taken up by a later request.
pub(crate) struct Note {
    journal: Arc<Journal>,
    id: String,
}

impl Drop for Note {
    fn drop(&mut self) {
        self.journal.leave(&self.id);
    }
}

/// A change that has not ended.
struct Unfinished {
    /// The final name.
    to: LogicalPath,
    /// The name for the time being.
    aside: LogicalPath,
    /// What is to get the final name.
    from: Option<LogicalPath>,
}

/// What became of it.
enum Settled {
    Done,
    /// Something is to be removed, which may take long.
    Remove,
}

impl Upstream {
    /// Notes that `aside` is a name for the time being, in place of `to`. A failure to note it does
    /// not stop the change.
    pub(crate) async fn note(&self, aside: &LogicalPath, to: &LogicalPath, from: Option<&LogicalPath>) -> Option<Note> {
        let (journal, id) = (self.journal.as_ref()?, aside.name()?.to_owned());
        let entry = JournalEntry {
            location: self.resource(to).location,
            id: id.clone(),
            from: from.map(|from| self.resource(from).location),
        };
        in_journal(journal, move |journal| journal.begin(&entry)).await;
        let journal = Arc::clone(journal);
        Some(Note { journal, id })
    }

    /// Notes that nothing has this name any longer.
    pub(crate) async fn ended(&self, aside: &LogicalPath) {
        let name = aside
            .name()
            .filter(|name| name.starts_with(COPIED) || name.starts_with(REPLACED));
        if let (Some(journal), Some(name)) = (&self.journal, name) {
            let name = name.to_owned();
            in_journal(journal, move |journal| journal.end(&name)).await;
        }
    }

    /// A name of the server as one of this store.
    fn here(&self, location: &Location) -> Option<LogicalPath> {
        let parse = |location: &Location| match location.is_http() {
            true => LogicalPath::parse_url_path(location.path()),
            false => LogicalPath::parse(location.path()),
        };
        let is_here = location.same_origin(self.root()) && location.scheme() == self.root().scheme();
        let (place, root) = (parse(location).ok()?, parse(self.root()).ok()?);
        place.below(&root).filter(|_| is_here)
    }

    fn unfinished(&self, entry: &JournalEntry) -> Option<Unfinished> {
        let to = self.here(&entry.location)?;
        Some(Unfinished {
            aside: to.parent()?.join(&entry.id).ok()?,
            from: entry.from.as_ref().and_then(|from| self.here(from)),
            to,
        })
    }
}

impl RemoteStore {
    /// Ends what was left half done. Gives names back before it returns, and removes behind.
    pub async fn settle(&self) {
        let Some(journal) = &self.upstream.journal else { return };
        let _turn = self.upstream.settling.lock().await;
        if !journal.is_due(OWN_PLACE, SETTLE_INTERVAL) {
            return;
        }
        for entry in journal.left() {
            let Some(unfinished) = self.upstream.unfinished(&entry) else {
                continue;
            };
            match self.name_again(&unfinished).await {
                Ok(Settled::Done) => self.upstream.ended(&unfinished.aside).await,
                Ok(Settled::Remove) => {
                    let this = self.clone();
                    tokio::spawn(async move { this.remove_left(&unfinished.aside).await });
                }
                Err(error) if is_of_hop(error.code()) => return,
                Err(_) => {}
            }
        }
        for lost in in_journal(journal, |journal| journal.lost(|_| true))
            .await
            .unwrap_or_default()
        {
            self.settle_file(lost).await;
        }
    }

    async fn settle_file(&self, mut lost: LostFile) {
        let mut removals = Vec::new();
        for entry in lost.entries.clone() {
            let Some(unfinished) = self.upstream.unfinished(&entry) else {
                continue;
            };
            match self.name_again(&unfinished).await {
                Ok(Settled::Done) => {
                    let Some(rest) = ended_in(lost, entry.id).await else {
                        return;
                    };
                    lost = rest;
                }
                Ok(Settled::Remove) => removals.push((unfinished.aside, entry.id)),
                Err(error) if is_of_hop(error.code()) => return,
                Err(_) => {}
            }
        }
        if removals.is_empty() {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            for (aside, id) in removals {
                if this.remove_aside(&aside).await.is_ok() {
                    let Some(rest) = ended_in(lost, id).await else { return };
                    lost = rest;
                }
            }
        });
    }

    /// Gives what has a name for the time being its final one, if nothing else has that.
    async fn name_again(&self, unfinished: &Unfinished) -> Result<Settled> {
        let Unfinished { to, aside, from } = unfinished;
        let taken = || Err(Error::new(ErrorCode::Exists, Side::Upstream, Phase::Cleanup));
        if self.found(aside).await?.is_none() {
            let above = aside.parent().unwrap_or_else(LogicalPath::root);
            // A client that may not look there may get the same answer.
            return match self.upstream.is_clients() && self.found(&above).await?.is_none() {
                true => taken(),
                false => Ok(Settled::Done),
            };
        }
        if aside.name().is_some_and(|name| name.starts_with(COPIED)) {
            return Ok(Settled::Remove);
        }
        if self.found(to).await?.is_none() {
            self.give_name(aside, to, Overwrite::Refuse).await?;
            return Ok(Settled::Done);
        }
        match from {
            Some(from) if self.found(from).await?.is_none() => Ok(Settled::Remove),
            // Another client has taken the name: both files stay.
            _ => taken(),
        }
    }

    async fn remove_left(&self, aside: &LogicalPath) {
        if self.remove_aside(aside).await.is_ok() {
            self.upstream.ended(aside).await;
        }
    }

    async fn remove_aside(&self, aside: &LogicalPath) -> Result<()> {
        match self.remove_any(aside).await {
            Ok(Some(failure)) => Err(failure.error),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(()),
            done => done.map(drop),
        }
    }
}

/// The name of the directory for the notes of one export: a second one that looks at the same time
/// would find them locked.
pub(crate) fn of_root(root: &Location) -> String {
    let mut sum = Adler32::new();
    sum.update(root.to_string().as_bytes());
    format!("{}-{:08x}", root.host().replace(':', "_"), sum.finish())
}

/// Notes the end of an entry.
async fn ended_in(mut lost: LostFile, id: String) -> Option<LostFile> {
    let noted = execution::blocking(move || {
        // Another process will find nothing either.
        let _ = lost.end(&id);
        lost
    });
    noted.await.ok()
}
