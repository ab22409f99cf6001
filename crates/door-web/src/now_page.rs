//! The page *Now*: third-party copies that run, as a page, as JSON, and as events.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use askama::Template;
use axum::response::sse::{Event, Sse};
use endpoint::Gate;
use futures_util::Stream;
use futures_util::stream;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::facts::Share;
use crate::limits::{ADMISSION_INTERVAL, EVENTS_HEARTBEAT, EVENTS_TIME_MAX};
use crate::live::Frame;
use crate::rows::{Counts, Table};
use crate::shell::Shell;
use crate::view::{Selection, Sort, Totals, View};
use crate::words::Words;

#[derive(Template)]
#[template(path = "now.html")]
pub(crate) struct NowPage {
    shell: Shell,
    view: View,
    /// Where the page gets its events.
    events: String,
    counts: Counts,
    rows: Vec<String>,
    shares: Vec<Share>,
    sorts: [Sort; Sort::ALL.len()],
}

impl NowPage {
    /// The page of a selection.
    ///
    /// # Errors
    /// Those of the template of a row.
    pub(crate) fn new(shell: Shell, view: View, selection: &Selection, shares: Vec<Share>) -> askama::Result<Self> {
        let table = Table::of(selection);
        let rows: askama::Result<Vec<String>> = table.rows.iter().map(crate::rows::Row::html).collect();
        Ok(Self {
            shell,
            events: format!("/now/events?{}", view.query()),
            view,
            counts: table.counts,
            rows: rows?,
            shares,
            sorts: Sort::ALL,
        })
    }
}

/// A copy for programs.
#[derive(Serialize)]
struct CopyDocument<'a> {
    transfer_id: &'a Words,
    mode: &'static str,
    who: &'a Words,
    from: &'a Words,
    to: &'a Words,
    bytes: u64,
    total_bytes: Option<u64>,
    bytes_per_s: u64,
    age_ms: u64,
    phase: &'static str,
    stage: &'static str,
    stalled: bool,
}

/// The page for programs.
#[derive(Serialize)]
pub(crate) struct NowDocument<'a> {
    totals: Totals,
    copies: Vec<CopyDocument<'a>>,
    /// Further copies that the filter lets through.
    more: usize,
    shares: HashMap<&'static str, ShareDocument>,
}

#[derive(Serialize)]
struct ShareDocument {
    in_use: usize,
    limit: usize,
}

impl<'a> NowDocument<'a> {
    pub(crate) fn new(selection: &'a Selection, shares: &[Share]) -> Self {
        let copies = selection.copies.iter();
        let copies = copies.map(|copy| CopyDocument {
            transfer_id: &copy.facts.id,
            mode: copy.facts.mode,
            who: &copy.facts.who,
            from: &copy.facts.from,
            to: &copy.facts.to,
            bytes: copy.bytes,
            total_bytes: copy.total_bytes,
            bytes_per_s: copy.bytes_per_s,
            age_ms: u64::try_from(copy.age.as_millis()).unwrap_or(u64::MAX),
            phase: copy.phase,
            stage: copy.stage.word(),
            stalled: copy.is_stalled(),
        });
        let document = |share: &Share| ShareDocument {
            in_use: share.in_use,
            limit: share.limit,
        };
        Self {
            totals: selection.totals,
            copies: copies.collect(),
            more: selection.more,
            shares: shares.iter().map(|share| (share.name, document(share))).collect(),
        }
    }
}

/// Whether a client may still look.
pub(crate) type MayLook = Box<dyn Fn() -> bool + Send>;

/// A page that follows its view.
struct Follower {
    frames: watch::Receiver<Arc<Frame>>,
    /// The frame that was sent last.
    seen: Option<u64>,
    gate: Gate,
    /// Until then it may follow; then it comes back.
    end: Instant,
    /// Whether its client may still look.
    may_look: MayLook,
    /// When that is asked again.
    admission: Instant,
}

/// The events of a page: the whole table, then changes, as long as its client may look.
pub(crate) fn events(
    frames: watch::Receiver<Arc<Frame>>,
    gate: Gate,
    may_look: MayLook,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    let follower = Follower {
        frames,
        seen: None,
        gate,
        end: Instant::now() + EVENTS_TIME_MAX,
        may_look,
        admission: Instant::now() + ADMISSION_INTERVAL,
    };
    Sse::new(stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    }))
}

impl Follower {
    /// The next event; `None` ends the stream, and the page comes back.
    async fn next(&mut self) -> Option<Event> {
        let heartbeat = Instant::now() + EVENTS_HEARTBEAT;
        while self.seen.is_some() {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.admission) => {
                    self.admission = Instant::now() + ADMISSION_INTERVAL;
                    if !(self.may_look)() {
                        return None;
                    }
                }
                changed = self.frames.changed() => {
                    changed.ok()?;
                    break;
                }
                () = tokio::time::sleep_until(heartbeat) => return Some(Event::default().comment("")),
                () = tokio::time::sleep_until(self.end) => return None,
                () = self.gate.draining() => return None,
            }
        }
        let frame = self.frames.borrow_and_update().clone();
        let event = Event::default().event("table").data(frame.after(self.seen));
        self.seen = Some(frame.number());
        Some(event)
    }
}
