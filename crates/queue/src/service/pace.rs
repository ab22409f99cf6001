//! How fast queues move: starts and lengths of copies in the last minutes, for estimates.

use std::collections::{HashMap, VecDeque};

use catalog::{FileRecord, QueueKey};
use schedule::optimizer::Link;
use schedule::why::Pace;

use super::link;
use crate::limits::{PACE_SPAN_MS, PACE_SPANS, PACES_MAX};

/// Files that share a pace: those of an activity and user on a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    pub(super) link: Link,
    pub(super) vo: String,
    pub(super) activity: String,
    pub(super) user: String,
}

impl Flow {
    pub(super) fn of_queue(key: &QueueKey) -> Self {
        Self {
            link: link::of_queue(key),
            vo: key.vo.clone(),
            activity: key.activity.clone(),
            user: key.user.clone(),
        }
    }

    pub(super) fn of_file(file: &FileRecord) -> Self {
        Self {
            link: link::of_file(file),
            vo: file.vo.clone(),
            activity: file.activity.clone(),
            user: file.user.clone(),
        }
    }
}

/// What happened in one span of time.
#[derive(Clone, Copy, Debug)]
struct Span {
    begin_ms: i64,
    started: u32,
    ended: u32,
    copies_ms: i64,
    files: u32,
    bytes: u64,
}

/// The copies of this process, lately.
#[derive(Default)]
pub(super) struct Paces(HashMap<Flow, VecDeque<Span>>);

impl Paces {
    /// A copy has begun.
    pub(super) fn begin(&mut self, now_ms: i64, flow: Flow) {
        if let Some(span) = self.span(now_ms, flow) {
            span.started = span.started.saturating_add(1);
        }
    }

    /// A file of this size is complete.
    pub(super) fn copied(&mut self, now_ms: i64, flow: Flow, bytes: u64) {
        if let Some(span) = self.span(now_ms, flow) {
            span.files = span.files.saturating_add(1);
            span.bytes = span.bytes.saturating_add(bytes);
        }
    }

    /// A copy is complete, after this time.
    pub(super) fn end(&mut self, now_ms: i64, flow: Flow, copy_ms: i64) {
        if let Some(span) = self.span(now_ms, flow) {
            span.ended = span.ended.saturating_add(1);
            span.copies_ms = span.copies_ms.saturating_add(copy_ms);
        }
    }

    /// The present span of a flow; `None` if there are too many flows.
    fn span(&mut self, now_ms: i64, flow: Flow) -> Option<&mut Span> {
        if self.0.len() >= PACES_MAX && !self.0.contains_key(&flow) {
            return None;
        }
        let spans = self.0.entry(flow).or_default();
        let is_over = |span: &Span| now_ms - span.begin_ms >= PACE_SPAN_MS;
        if spans.back().is_none_or(is_over) {
            spans.push_back(Span {
                begin_ms: now_ms,
                started: 0,
                ended: 0,
                copies_ms: 0,
                files: 0,
                bytes: 0,
            });
            let over = spans.len().saturating_sub(PACE_SPANS);
            spans.drain(..over);
        }
        spans.back_mut()
    }

    /// Forgets what is too old.
    pub(super) fn forget(&mut self, now_ms: i64) {
        let since_ms = now_ms - PACE_SPAN_MS * PACE_SPANS as i64;
        self.0.retain(|_, spans| {
            spans.retain(|span| span.begin_ms > since_ms);
            !spans.is_empty()
        });
    }

    /// The mean size of a flow's files, where some have ended lately.
    pub(super) fn mean_bytes(&self, flow: &Flow) -> Option<u64> {
        let spans = self.0.get(flow)?;
        let files: u64 = spans.iter().map(|span| u64::from(span.files)).sum();
        let bytes = spans.iter().map(|span| span.bytes);
        bytes.fold(0, u64::saturating_add).checked_div(files)
    }

    /// The pace of a flow; `None` if nothing happened lately.
    pub(super) fn pace(&self, now_ms: i64, flow: &Flow) -> Option<Pace> {
        let spans = self.0.get(flow)?;
        let begin_ms = spans.front()?.begin_ms;
        let ended: u32 = spans.iter().map(|span| span.ended).sum();
        let copies_ms: i64 = spans.iter().map(|span| span.copies_ms).sum();
        Some(Pace {
            started: spans.iter().map(|span| span.started).sum(),
            window_ms: (now_ms - begin_ms).max(1000),
            copy_ms: (ended > 0).then(|| copies_ms / i64::from(ended)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minutes_count() {
        let flow = Flow {
            link: link::between("davs://a:443", "davs://b:443"),
            vo: "cms".to_owned(),
            activity: "default".to_owned(),
            user: "jane".to_owned(),
        };
        let mut paces = Paces::default();
        for minute in 0..30 {
            let now_ms = minute * PACE_SPAN_MS;
            paces.begin(now_ms, flow.clone());
            paces.begin(now_ms, flow.clone());
            paces.end(now_ms + 500, flow.clone(), 500);
            paces.copied(now_ms + 500, flow.clone(), 7);
        }
        let now_ms = 30 * PACE_SPAN_MS;
        let pace = paces.pace(now_ms, &flow).unwrap();
        let spans = PACE_SPANS as i64;
        assert_eq!(
            (i64::from(pace.started), pace.window_ms),
            (2 * spans, spans * PACE_SPAN_MS)
        );
        assert_eq!((pace.copy_ms, paces.mean_bytes(&flow)), (Some(500), Some(7)));
        paces.forget(2 * now_ms);
        assert_eq!(paces.pace(now_ms, &flow), None);
    }
}
