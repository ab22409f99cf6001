//! The explanations of recent refusals by request ID, for users who ask why. The oldest are
//! dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use credentials::format_time;
use policy::Explanation;
use types::{ErrorCode, Side};

use crate::clock::now_s;
use crate::limits::{EXPLANATIONS_BYTES_MAX, EXPLANATIONS_MAX};
use crate::record::{ErrorFacts, RequestRecord};

/// The recent refusals. Clones share them; all doors use one.
#[derive(Clone, Default)]
pub struct Refusals(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    all: VecDeque<(String, Arc<Explanation>)>,
    size_bytes: usize,
}

impl std::fmt::Debug for Refusals {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Refusals({})", self.kept().all.len())
    }
}

impl Refusals {
    /// Records why the request was refused. Keeps at most [`EXPLANATIONS_MAX`] explanations, of
    /// [`EXPLANATIONS_BYTES_MAX`] together.
    pub fn keep(&self, request_id: &str, explanation: Explanation) {
        let mut kept = self.kept();
        kept.size_bytes += size_bytes(request_id, &explanation);
        kept.all.push_back((request_id.to_owned(), Arc::new(explanation)));
        while kept.all.len() > EXPLANATIONS_MAX || kept.size_bytes > EXPLANATIONS_BYTES_MAX {
            let Some((id, oldest)) = kept.all.pop_front() else {
                break;
            };
            kept.size_bytes -= size_bytes(&id, &oldest);
        }
    }

    /// Records what a request was refused for, if policy has allowed it: by the server that has the
    /// file, or because that server could be shown nothing.
    pub fn note(&self, record: &RequestRecord) {
        let Some(error) = &record.error else { return };
        let code = ErrorCode::ALL.iter().find(|code| code.name() == error.code);
        let is_refusal = code.is_some_and(|code| code.denies_access());
        if is_refusal && !record.request_id.is_empty() && self.find(&record.request_id).is_empty() {
            self.keep(&record.request_id, explanation_of(record, error));
        }
    }

    /// Everything that was refused in the request, in order; empty when nothing is known about it.
    #[must_use]
    pub fn find(&self, request_id: &str) -> Vec<Arc<Explanation>> {
        let kept = self.kept();
        let matching = kept.all.iter().filter(|(id, _)| id == request_id);
        matching.map(|(_, explanation)| explanation.clone()).collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn explanation_of(record: &RequestRecord, error: &ErrorFacts) -> Explanation {
    let (asked, peer) = (format!("{} {}", record.method, record.path), record.peer.ip());
    let upstream = record.upstream.as_ref().map(|server| {
        let identity = record.upstream_identity.unwrap_or("nothing");
        format!("the files are at {server}; who the client is there: {identity}")
    });
    let decided_by = match error.side == Side::Upstream.name() {
        true => "decided by the upstream server",
        false => "decided by this server, after its rules allowed it",
    };
    Explanation {
        asked: format!("{asked}, from {}, at {}", peer.to_canonical(), format_time(now_s())),
        received: vec![format!("credential: {}", record.credential)],
        read: Vec::new(),
        rules: Vec::new(),
        upstream: upstream.into_iter().collect(),
        allowed: false,
        code: Some(error.code),
        decision: format!("refused, {}: {}; {decided_by}", error.code, error.message),
        remedies: vec![error.next.to_owned()],
    }
}

fn size_bytes(request_id: &str, explanation: &Explanation) -> usize {
    request_id.len() + size_of::<(String, Arc<Explanation>)>() + explanation.size_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explanation(words: &str) -> Explanation {
        Explanation {
            asked: words.to_owned(),
            received: Vec::new(),
            read: Vec::new(),
            rules: Vec::new(),
            allowed: false,
            code: None,
            decision: String::new(),
            upstream: Vec::new(),
            remedies: Vec::new(),
        }
    }

    #[test]
    fn refusals_are_found_by_request_and_in_order() {
        let refusals = Refusals::default();
        for (id, words) in [("a", "first"), ("b", "other"), ("a", "second")] {
            refusals.clone().keep(id, explanation(words));
        }
        let found: Vec<String> = refusals.find("a").iter().map(|one| one.asked.clone()).collect();
        assert_eq!(found, ["first", "second"]);
        assert!(refusals.find("c").is_empty());
    }

    #[test]
    fn a_refusal_by_the_server_that_has_the_file_is_known_too() {
        let refusals = Refusals::default();
        let note = |id: &str, code, side| {
            let mut record = RequestRecord::new(crate::Protocol::Http, ([127, 0, 0, 1], 1).into(), "clear");
            record.request_id = id.to_owned();
            record.error = Some((&types::Error::new(code, side, types::Phase::Open)).into());
            refusals.note(&record);
        };
        note("a", ErrorCode::Forbidden, Side::Upstream);
        note("b", ErrorCode::NotFound, Side::Upstream);
        refusals.keep("c", explanation("by policy"));
        note("c", ErrorCode::Forbidden, Side::Client);
        let found = refusals.find("a");
        assert!(
            found[0].decision.starts_with("refused, forbidden:")
                && found[0].decision.ends_with("decided by the upstream server"),
            "{found:?}"
        );
        assert!(refusals.find("b").is_empty(), "no credential would help");
        assert_eq!(refusals.find("c").len(), 1);
    }

    #[test]
    fn the_oldest_are_dropped_by_number_and_size() {
        let refusals = Refusals::default();
        for index in 0..=EXPLANATIONS_MAX {
            refusals.keep(&index.to_string(), explanation("x"));
        }
        assert!(refusals.find("0").is_empty() && refusals.find("1").len() == 1);
        let large = "x".repeat(EXPLANATIONS_BYTES_MAX / 2);
        for id in ["large-1", "large-2"] {
            refusals.keep(id, explanation(&large));
        }
        let kept = refusals.kept();
        assert_eq!(kept.all.len(), 1, "{}", kept.size_bytes);
        assert!(kept.size_bytes <= EXPLANATIONS_BYTES_MAX);
        drop(kept);
        refusals.keep("too-large", explanation(&large.repeat(3)));
        let kept = refusals.kept();
        assert_eq!((kept.all.len(), kept.size_bytes), (0, 0));
    }
}
