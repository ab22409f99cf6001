//! The explanations of recent refusals by request ID, for users who ask why. The oldest are
//! dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use policy::Explanation;

use crate::limits::{EXPLANATIONS_BYTES_MAX, EXPLANATIONS_MAX};

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
