//! Removal of what a run made, and of what a killed one left.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt as _;
use futures_util::stream;
use remote::Resource;
use types::{Error, ErrorCode, Result, Side};

use super::endpoint::Place;
use super::litter::Left;
use super::mark::Mark;
use super::step::timed;
use super::{Mesh, News};
use crate::steps;

/// Which files of a directory are removed.
type IsOurs = fn(Mark, &str) -> bool;

impl Mesh<'_> {
    /// Removes what was made and is still there. After an interruption (`is_early`), the
    /// directories are looked through too: a server may have finished a copy meanwhile.
    pub async fn clean_up(&self, is_early: bool) {
        if let Some(queue) = &self.through {
            queue.stop().await;
        }
        let left = stream::iter(self.litter.take());
        left.for_each_concurrent(self.parallel(), |left| self.remove_left(left))
            .await;
        if is_early {
            self.sweep(Mark::is_of).await;
        }
    }

    async fn remove_left(&self, left: Left) {
        let Left {
            file,
            endpoint,
            is_there,
        } = left;
        let removing = self.client.delete(&file);
        let limit = self.settings.request_timeout;
        let removed = timed(limit, file.side, &file.location, removing).await.result;
        // What never came about need not go, and a server that forbids everything forbids this too.
        if let Err(error) = removed
            && is_there
            && error.code() != ErrorCode::PeerNotFound
        {
            self.tell_left(endpoint, &file, &error);
        }
    }

    fn tell_left(&self, endpoint: usize, file: &Resource, error: &Error) {
        (self.observe)(News::Left {
            endpoint: &self.endpoints[endpoint].name,
            file: &file.location,
            error,
        });
    }

    /// Removes what an earlier run of the same mesh left.
    pub(super) async fn sweep_former(&self) {
        if self.settings.sweeps {
            self.sweep(Mark::is_of_former).await;
        }
    }

    async fn sweep(&self, is_ours: IsOurs) {
        let mut places: Vec<(usize, usize)> = self.seats().map(|seat| (seat.endpoint, seat.place)).collect();
        places.sort_unstable();
        places.dedup();
        let sweeping = stream::iter(places).for_each_concurrent(self.parallel(), |(endpoint, place)| async move {
            let removed = AtomicU64::new(0);
            let swept = self.sweep_place(endpoint, &self.endpoints[endpoint].places[place], is_ours, &removed);
            // A server that lists nothing keeps its secret: what is there cannot be known.
            let _ = swept.await;
            match removed.into_inner() {
                0 => {}
                count => (self.observe)(News::Swept {
                    endpoint: &self.endpoints[endpoint].name,
                    count,
                }),
            }
        });
        sweeping.await;
    }

    async fn sweep_place(&self, endpoint: usize, place: &Place, is_ours: IsOurs, removed: &AtomicU64) -> Result<()> {
        let Some(first) = place.credentials.first() else {
            return Ok(());
        };
        let directory = Resource {
            location: place.location.clone(),
            access: first.access.clone(),
            side: Side::Destination,
        };
        let limit = self.settings.request_timeout;
        let listed = timed(limit, directory.side, &directory.location, self.client.list(&directory)).await;
        let mut listing = listed.result?;
        loop {
            let batch = timed(limit, directory.side, &directory.location, listing.next()).await;
            let Some(entries) = batch.result? else {
                return Ok(());
            };
            let ours = entries
                .into_iter()
                .filter(|entry| !entry.is_directory && is_ours(self.settings.mark, entry.name()));
            for entry in ours {
                self.remove_former(endpoint, place, entry.name(), removed).await;
            }
        }
    }

    /// Removes a file, with the credential that may.
    async fn remove_former(&self, endpoint: usize, place: &Place, name: &str, removed: &AtomicU64) {
        let mut last = None;
        for credential in &place.credentials {
            let file = steps::own_file(place.location.child(name), &credential.access, Side::Destination);
            let limit = self.settings.request_timeout;
            match timed(limit, file.side, &file.location, self.client.delete(&file))
                .await
                .result
            {
                Ok(()) => {
                    removed.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(error) => last = Some((file, error)),
            }
        }
        if let Some((file, error)) = last.filter(|(_, error)| error.code() != ErrorCode::PeerNotFound) {
            self.tell_left(endpoint, &file, &error);
        }
    }
}
