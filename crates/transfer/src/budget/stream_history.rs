//! The number of streams that copies from each server settled on; the next copy begins with it.
//!
//! On a long line, [`Growth`](crate::growth::Growth) needs seconds to find the number. Without this
//! history it would need them for each file.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::{CHOSEN_STREAMS_KEPT, CHOSEN_STREAMS_SERVERS_MAX, ONE_STREAM_KEPT};
use tokio::time::Instant;
use types::{Location, Scheme};

/// Protocol, host and port.
type Server = (Scheme, String, u16);

fn server(location: &Location) -> Server {
    (location.scheme(), location.host().to_owned(), location.port())
}

/// What a copy settled on.
#[derive(Clone, Copy, Debug)]
struct Settled {
    streams: u32,
    /// The copies that ran then, this one included.
    copies: u32,
    since: Instant,
}

impl Settled {
    fn is_recent(&self) -> bool {
        self.since.elapsed() < CHOSEN_STREAMS_KEPT
    }
}

/// The number of streams that recent copies from each server settled on.
#[derive(Debug, Default)]
pub(crate) struct StreamHistory(Mutex<HashMap<Server, Settled>>);

impl StreamHistory {
    fn kept(&self) -> MutexGuard<'_, HashMap<Server, Settled>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of streams with which a copy from `source` begins; 1 if nothing is known.
    pub(crate) fn streams(&self, source: &Location) -> u32 {
        let settled = self.kept().get(&server(source)).copied();
        settled.filter(Settled::is_recent).map_or(1, |settled| settled.streams)
    }

    /// Whether a copy from `source` just found that one stream is enough, while no more than
    /// `copies` ran: they share the line.
    pub(crate) fn is_one_enough(&self, source: &Location, copies: u32) -> bool {
        let settled = self.kept().get(&server(source)).copied();
        settled.is_some_and(|settled| {
            settled.streams == 1 && settled.copies <= copies && settled.since.elapsed() < ONE_STREAM_KEPT
        })
    }

    /// Records what one of `copies` copies settled on. If the list is full, new servers are ignored
    /// until an entry expires.
    pub(crate) fn settle(&self, source: &Location, streams: u32, copies: u32) {
        let (server, mut kept) = (server(source), self.kept());
        if kept.len() >= CHOSEN_STREAMS_SERVERS_MAX && !kept.contains_key(&server) {
            kept.retain(|_, settled| settled.is_recent());
            if kept.len() >= CHOSEN_STREAMS_SERVERS_MAX {
                return;
            }
        }
        let settled = Settled {
            streams: streams.max(1),
            copies,
            since: Instant::now(),
        };
        kept.insert(server, settled);
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
        history.settle(&file, 4, 1);
        assert_eq!(history.streams(&other), 4);
        for elsewhere in ["https://a:8443/f", "https://b/f", "roots://a:443//f"] {
            assert_eq!(history.streams(&place(elsewhere)), 1);
        }
        tokio::time::advance(CHOSEN_STREAMS_KEPT / 2).await;
        history.settle(&other, 2, 1);
        tokio::time::advance(CHOSEN_STREAMS_KEPT / 2).await;
        assert_eq!(history.streams(&file), 2);
        tokio::time::advance(CHOSEN_STREAMS_KEPT / 2).await;
        assert_eq!(history.streams(&file), 1);
        history.settle(&file, 4, 1);
        history.settle(&file, 1, 1);
        assert_eq!(history.streams(&file), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn that_one_stream_is_enough_holds_for_as_many_copies() {
        let history = StreamHistory::default();
        let file = place("https://a/f");
        history.settle(&file, 1, 4);
        let is_enough = |copies| history.is_one_enough(&file, copies);
        assert!(is_enough(4) && is_enough(5) && !is_enough(3));
        assert!(!history.is_one_enough(&place("https://b/f"), 4));
        tokio::time::advance(ONE_STREAM_KEPT).await;
        assert!(!is_enough(4));
        history.settle(&file, 2, 4);
        assert!(!is_enough(4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_list_takes_no_new_servers() {
        let history = StreamHistory::default();
        let numbered = |number: usize| place(&format!("https://a{number}/f"));
        for number in 0..=CHOSEN_STREAMS_SERVERS_MAX {
            history.settle(&numbered(number), 2, 1);
        }
        assert_eq!(history.kept().len(), CHOSEN_STREAMS_SERVERS_MAX);
        assert_eq!(history.streams(&numbered(CHOSEN_STREAMS_SERVERS_MAX)), 1);
        history.settle(&numbered(0), 3, 1);
        assert_eq!(history.streams(&numbered(0)), 3);
        tokio::time::advance(CHOSEN_STREAMS_KEPT).await;
        history.settle(&numbered(CHOSEN_STREAMS_SERVERS_MAX), 2, 1);
        assert_eq!(history.kept().len(), 1);
    }
}
