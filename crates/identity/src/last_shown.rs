//! What one connection showed last: most clients send the same token with each of their requests.
//!
//! The field is kept whole for as long as the connection lasts (and wiped afterwards): comparing it
//! costs much less than hashing it for the table of all tokens.

use std::sync::Arc;

use crate::limits::LAST_SHOWN_BYTES_MAX;
use credentials::Credential;
use types::Secret;

use crate::verified::Verification;

/// The credential that the last request on a connection showed in a header field.
#[derive(Default)]
pub struct LastShown(Option<Box<Shown>>);

struct Shown {
    field: Secret,
    verification: Verification,
    /// Which authenticator verified it, and against which of its states.
    verifier: Verifier,
    generation: u64,
}

/// The identity of one authenticator. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verifier(Arc<()>);

/// The identity of one state of an authenticator.
#[derive(Clone, Copy)]
pub(crate) struct StateId<'v> {
    pub(crate) verifier: &'v Verifier,
    /// How many states the authenticator had before.
    pub(crate) generation: u64,
}

impl LastShown {
    /// What this field was found to be, when it is what came last, nothing by which it was judged
    /// has changed since, and its time has not run out.
    pub(crate) fn find(&self, field: &str, state: StateId<'_>, now_s: i64) -> Option<&Arc<Credential>> {
        let shown = self.0.as_ref()?;
        let is_same_one = Arc::ptr_eq(&shown.verifier.0, &state.verifier.0);
        let counts = is_same_one && shown.generation == state.generation && now_s < shown.verification.deadline_s;
        // Compared in constant time: behind a proxy several clients may share a connection.
        (counts && types::is_same(shown.field.expose().as_bytes(), field.as_bytes()))
            .then_some(&shown.verification.credential)
    }

    /// Keeps it in place of what came before: a copy of its own, since the processors that serve
    /// many connections with the same token would all have to count in the one that they share.
    pub(crate) fn keep(&mut self, field: &str, state: StateId<'_>, verification: &Verification) {
        self.0 = (field.len() <= LAST_SHOWN_BYTES_MAX).then(|| {
            Box::new(Shown {
                field: Secret::new(field),
                verification: Verification {
                    credential: Arc::new(Credential::clone(&verification.credential)),
                    deadline_s: verification.deadline_s,
                },
                verifier: state.verifier.clone(),
                generation: state.generation,
            })
        });
    }
}

/// Only whether there is something.
impl std::fmt::Debug for LastShown {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_some() {
            "LastShown(…)"
        } else {
            "LastShown()"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_field_in_the_same_state_and_time_counts() {
        let state = |verifier, generation| StateId { verifier, generation };
        let (mut last, one, other_one) = (LastShown::default(), Verifier::default(), Verifier::default());
        assert!(last.find("", state(&one, 1), 0).is_none());
        let until = |deadline_s| Verification {
            credential: Arc::new(Credential::Anonymous),
            deadline_s,
        };
        last.keep("Bearer one", state(&one, 1), &until(100));
        assert!(last.find("Bearer one", state(&one, 1), 99).is_some());
        assert!(last.find("Bearer one", state(&one, 1), 100).is_none());
        assert!(last.find("Bearer one", state(&one, 2), 99).is_none());
        assert!(last.find("Bearer one", state(&other_one, 1), 99).is_none());
        for other in ["", "Bearer", "Bearer on", "Bearer one ", "Bearer onf", "bearer one"] {
            assert!(last.find(other, state(&one, 1), 99).is_none(), "{other:?}");
        }
        last.keep("Bearer two", state(&one, 1), &until(100));
        assert!(
            last.find("Bearer one", state(&one, 1), 99).is_none()
                && last.find("Bearer two", state(&one, 1), 99).is_some()
        );
        last.keep(&"x".repeat(LAST_SHOWN_BYTES_MAX + 1), state(&one, 1), &until(100));
        assert!(
            last.find(&"x".repeat(LAST_SHOWN_BYTES_MAX + 1), state(&one, 1), 99)
                .is_none()
        );
        assert!(last.find("Bearer two", state(&one, 1), 99).is_none());
    }
}
