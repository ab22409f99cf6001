//! What the end of the command by Ctrl-C or `--timeout` leaves at servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tokio::time::timeout;
use transfer::{InputSource, Progress, RemoteSink, RemoteSource, Source, StoreSource, remove_stopped};
use types::{Error, ErrorCode, Location, Side};

use super::super::place::Place;
use super::super::tree::Pair;
use super::Copier;
use crate::failure::Failure;
use crate::limits::CLEAN_UP_TIME;

/// A copy that has not ended.
pub(super) struct UnderWay {
    source: Place,
    target: Place,
    was_absent: bool,
    progress: Progress,
}

impl UnderWay {
    fn cancelled(&self) -> Error {
        Error::new(ErrorCode::Cancelled, Side::Client, self.progress.phase())
    }
}

/// The copies that have not ended. A copy that is dropped stays among them.
#[derive(Default)]
pub(super) struct CopiesUnderWay(Mutex<State>);

#[derive(Default)]
struct State {
    begun: u64,
    copies: BTreeMap<u64, UnderWay>,
}

impl CopiesUnderWay {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy begins. `was_absent`: the destination has just reported that it has no such file.
    /// Returns its number.
    pub(super) fn begin(&self, pair: &Pair, was_absent: bool, progress: &Progress) -> u64 {
        let mut state = self.state();
        state.begun += 1;
        let number = state.begun;
        let copy = UnderWay {
            source: pair.source.clone(),
            target: pair.target.clone(),
            was_absent,
            progress: progress.clone(),
        };
        state.copies.insert(number, copy);
        number
    }

    /// The copy with this number has ended.
    pub(super) fn end(&self, number: u64) {
        self.state().copies.remove(&number);
    }

    fn take(&self) -> BTreeMap<u64, UnderWay> {
        std::mem::take(&mut self.state().copies)
    }
}

impl Copier {
    /// Ends the command after its copies were dropped: reports them as failed, removes what they
    /// left at servers, names what may remain, and prints the totals. Returns `failure`, the reason
    /// of the end.
    pub(super) async fn stop(&self, failure: Failure) -> Failure {
        let copies = self.under_way.take();
        for copy in copies.values() {
            self.totals.add(|count| count.failed += 1);
            self.report.stopped(&copy.source, &copy.cancelled(), &failure);
        }
        let left = join_all(copies.values().map(|copy| self.clean_up(copy))).await;
        left.iter().flatten().for_each(|words| self.report.complain(words));
        self.summarize();
        failure
    }

    /// Removes what a copy left, if it is proven its own. Returns words about what may remain.
    async fn clean_up(&self, copy: &UnderWay) -> Option<String> {
        let Place::Remote(target) = &copy.target else {
            return None;
        };
        // It has created nothing.
        copy.progress.begun()?;
        let client = &self.session.client;
        let scitag = self.settings.transfer.scitag;
        let resource = |location: &Location, side| self.session.labelled(location, side, scitag);
        let removed = timeout(CLEAN_UP_TIME, async {
            let source: Arc<dyn Source> = match &copy.source {
                Place::Remote(location) => Arc::new(RemoteSource::new(client, &resource(location, Side::Source))),
                Place::Local(path) => Arc::new(StoreSource::open(&self.session.files, path).await?),
                // It cannot be read again.
                Place::Stdio => Arc::new(InputSource::new(tokio::io::empty())),
            };
            let sink = RemoteSink::new(client, &resource(target, Side::Destination));
            Ok::<_, Error>(remove_stopped(&source, &sink, copy.was_absent, &copy.progress, copy.cancelled()).await)
        });
        match removed.await {
            Ok(Ok(error)) => {
                let (words, target) = (error.detail()?, target.to_string());
                Some(match words.contains(&target) {
                    true => words.to_owned(),
                    false => format!("{target}: {words}"),
                })
            }
            Ok(Err(_)) | Err(_) => Some(format!("a part of the file may remain at {target}")),
        }
    }
}
