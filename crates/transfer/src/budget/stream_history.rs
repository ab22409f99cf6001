//! The number of streams that copies from each server settled on; the next copy begins with it.
//!
//! On a long line, [`Growth`](crate::growth::Growth) needs seconds to find the number. Without this
//! history it would need them for each file.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::{CHOSEN_STREAMS_KEPT, CHOSEN_STREAMS_SERVERS_MAX};
use tokio::time::Instant;
use types::{Location, Scheme};

/// Protocol, host and port.
type Server = (Scheme, String, u16);

fn server(location: &Location) -> Server {
    (location.scheme(), location.host().to_owned(), location.port())
}

/// The number of streams that recent copies from each server settled on.
#[derive(Debug, Default)]
pub(crate) struct StreamHistory(Mutex<HashMap<Server, (u32, Instant)>>);

impl StreamHistory {
    fn kept(&self) -> MutexGuard<'_, HashMap<Server, (u32, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of streams with which a copy from `source` begins; 1 if nothing is known.
    pub(crate) fn streams(&self, source: &Location) -> u32 {
        match self.kept().get(&server(source)) {
            Some((streams, since)) if since.elapsed() < CHOSEN_STREAMS_KEPT => *streams,
            _ => 1,
        }
    }

    /// Records what a copy settled on. If the list is full, new servers are ignored until an entry
    /// expires.
    pub(crate) fn settle(&self, source: &Location, streams: u32) {
        let (server, mut kept) = (server(source), self.kept());
        if streams <= 1 {
            kept.remove(&server);
            return;
        }
        if kept.len() >= CHOSEN_STREAMS_SERVERS_MAX && !kept.contains_key(&server) {
            kept.retain(|_, (_, since)| since.elapsed() < CHOSEN_STREAMS_KEPT);
            if kept.len() >= CHOSEN_STREAMS_SERVERS_MAX {
                return;
            }
        }
        kept.insert(server, (streams, Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(location: &str) -> Location {
        Location::parse(location).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_settled_number_holds_for_its_server_and_for_some_time() {
        let history = StreamHistory::default();
        let (file, other) = (place("https://a/f"), place("https://a/g"));
        assert_eq!(history.streams(&file), 1);
        history.settle(&file, 4);
        assert_eq!(history.streams(&other), 4);
        for elsewhere in ["https://a:8443/f", "https://b/f", "roots://a:443//f"] {
            assert_eq!(history.streams(&place(elsewhere)), 1);
        }
        tokio::time::advance(CHOSEN_STREAMS_KEPT / 2).await;
        history.settle(&other, 2);
        tokio::time::advance(CHOSEN_STREAMS_KEPT / 2).await;
        assert_eq!(history.streams(&file), 2);
        tokio::time::advance(CHOSEN_STREAMS_KEPT / 2).await;
        assert_eq!(history.streams(&file), 1);
        history.settle(&file, 4);
        history.settle(&file, 1);
        assert_eq!(history.streams(&file), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_list_takes_no_new_servers() {
        let history = StreamHistory::default();
        let numbered = |number: usize| place(&format!("https://a{number}/f"));
        for number in 0..=CHOSEN_STREAMS_SERVERS_MAX {
            history.settle(&numbered(number), 2);
        }
        assert_eq!(history.kept().len(), CHOSEN_STREAMS_SERVERS_MAX);
        assert_eq!(history.streams(&numbered(CHOSEN_STREAMS_SERVERS_MAX)), 1);
        history.settle(&numbered(0), 3);
        assert_eq!(history.streams(&numbered(0)), 3);
        tokio::time::advance(CHOSEN_STREAMS_KEPT).await;
        history.settle(&numbered(CHOSEN_STREAMS_SERVERS_MAX), 2);
        assert_eq!(history.kept().len(), 1);
    }
}
