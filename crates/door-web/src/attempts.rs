//! Sign-ins at an issuer that have begun: what is remembered until the browser comes back, in
//! memory.
//!
//! An attempt is found by the hash of its `state`, which the issuer hands back, and counts only in
//! the browser that holds its cookie: an address with a state and code of an attacker, opened in
//! the browser of another person, signs no one in (RFC 6749 §10.12, RFC 9700 §4.7).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use endpoint::ClientId;
use endpoint::ids::hex;
use remote::SignInRequest;
use types::Secret;

use crate::limits::{ATTEMPT_TIME_MAX, ATTEMPTS_MAX, ATTEMPTS_OF_CLIENT_MAX, SESSION_IDENTIFIER_BYTES};
use crate::sessions::SessionKey;

/// A text that cannot be guessed. It is a code verifier, too (RFC 7636 §4.1).
fn unguessable() -> Secret {
    let mut bytes = [0; SESSION_IDENTIFIER_BYTES];
    net::random::fill(&mut bytes);
    Secret::new(hex(&bytes))
}

/// A sign-in that has begun.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// What goes with it to the issuer.
    pub(crate) request: SignInRequest,
    /// Where the browser goes afterwards: a place on this server.
    pub(crate) back: String,
    /// The session that the browser has, which ends with the next one.
    pub(crate) replaces: Option<SessionKey>,
    /// The hash of what the browser holds in its cookie.
    browser: SessionKey,
}

impl Attempt {
    /// An attempt, and what the cookie of its browser holds.
    pub(crate) fn new(redirect_url: String, back: String, replaces: Option<SessionKey>) -> (Self, Secret) {
        let browser = unguessable();
        let attempt = Self {
            request: SignInRequest {
                redirect_url,
                state: unguessable(),
                nonce: unguessable(),
                verifier: unguessable(),
            },
            back,
            replaces,
            browser: SessionKey::of(browser.expose()),
        };
        (attempt, browser)
    }

    /// By what it is found.
    pub(crate) fn key(&self) -> SessionKey {
        SessionKey::of(self.request.state.expose())
    }
}

struct Pending {
    attempt: Attempt,
    client: ClientId,
    /// In seconds since 1970.
    ends_s: i64,
    /// The count of all attempts when it began.
    number: u64,
}

#[derive(Default)]
struct Kept {
    pending: HashMap<SessionKey, Pending>,
    begun: u64,
}

/// The attempts of a door.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<Kept>);

impl Attempts {
    /// Remembers an attempt of a client for [`ATTEMPT_TIME_MAX`]. A client with its share loses its
    /// oldest attempt; if the door has all that it keeps, the client with most of them does.
    pub(crate) fn keep(&self, attempt: Attempt, client: ClientId, now_s: i64) {
        let mut kept = self.lock();
        kept.pending.retain(|_, pending| pending.ends_s > now_s);
        if kept.count_of(&client) >= ATTEMPTS_OF_CLIENT_MAX {
            kept.drop_oldest_of(&client);
        }
        if kept.pending.len() >= ATTEMPTS_MAX
            && let Some(greatest) = kept.greatest()
        {
            kept.drop_oldest_of(&greatest);
        }
        kept.begun += 1;
        let longest_s = i64::try_from(ATTEMPT_TIME_MAX.as_secs()).unwrap_or(i64::MAX);
        let pending = Pending {
            client,
            ends_s: now_s.saturating_add(longest_s),
            number: kept.begun,
            attempt,
        };
        kept.pending.insert(pending.attempt.key(), pending);
    }

    /// The attempt with this key, which then no longer exists: each counts once. `browser` is what
    /// the cookie holds; another browser gets nothing, and leaves the attempt as it is.
    pub(crate) fn take(&self, key: &SessionKey, browser: &str, now_s: i64) -> Option<Attempt> {
        let mut kept = self.lock();
        let pending = kept.pending.get(key)?;
        if pending.attempt.browser != SessionKey::of(browser) {
            return None;
        }
        let pending = kept.pending.remove(key)?;
        (pending.ends_s > now_s).then_some(pending.attempt)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn count_of(&self, client: &ClientId) -> usize {
        let theirs = self.pending.values().filter(|pending| pending.client == *client);
        theirs.count()
    }

    /// The client with most attempts.
    fn greatest(&self) -> Option<ClientId> {
        let mut counts: HashMap<&ClientId, usize> = HashMap::new();
        for pending in self.pending.values() {
            *counts.entry(&pending.client).or_default() += 1;
        }
        let greatest = counts.into_iter().max_by_key(|(_, count)| *count);
        greatest.map(|(client, _)| client.clone())
    }

    fn drop_oldest_of(&mut self, client: &ClientId) {
        let theirs = self.pending.iter().filter(|(_, pending)| pending.client == *client);
        let oldest = theirs.min_by_key(|(_, pending)| pending.number);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.pending.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> ClientId {
        ClientId::at([192, 0, 2, last].into())
    }

    fn begin(attempts: &Attempts, client: ClientId, now_s: i64) -> (SessionKey, Secret) {
        let (attempt, browser) = Attempt::new("https://se/back".to_owned(), "/now".to_owned(), None);
        let key = attempt.key();
        attempts.keep(attempt, client, now_s);
        (key, browser)
    }

    #[test]
    fn an_attempt_counts_once_and_in_its_browser() {
        let attempts = Attempts::default();
        let (key, browser) = begin(&attempts, client(1), 0);
        let (_, other) = begin(&attempts, client(1), 0);
        for forged in ["", other.expose(), key.as_str()] {
            assert!(attempts.take(&key, forged, 0).is_none(), "{forged}");
        }
        assert!(attempts.take(&SessionKey::of("x"), browser.expose(), 0).is_none());
        let taken = attempts.take(&key, browser.expose(), 0).unwrap();
        assert_eq!(taken.back, "/now");
        assert!(attempts.take(&key, browser.expose(), 0).is_none(), "only once");
    }

    #[test]
    fn what_goes_with_an_attempt_cannot_be_guessed_or_shown() {
        let (attempt, browser) = Attempt::new(String::new(), String::new(), None);
        let request = &attempt.request;
        let texts = [&request.state, &request.nonce, &request.verifier, &browser].map(Secret::expose);
        let is_verifier = |text: &str| (43..=128).contains(&text.len());
        assert!(texts.iter().all(|text| is_verifier(text)));
        let mut different = texts.to_vec();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), texts.len());
        let shown = format!("{attempt:?}");
        assert!(texts.iter().all(|text| !shown.contains(text)), "{shown}");
    }

    #[test]
    fn an_attempt_ends_after_a_while() {
        let attempts = Attempts::default();
        let end_s = ATTEMPT_TIME_MAX.as_secs() as i64;
        let (key, browser) = begin(&attempts, client(1), 0);
        assert!(attempts.take(&key, browser.expose(), end_s).is_none());
        let (key, browser) = begin(&attempts, client(1), 0);
        assert!(attempts.take(&key, browser.expose(), end_s - 1).is_some());
        begin(&attempts, client(1), 0);
        begin(&attempts, client(1), end_s);
        assert_eq!(attempts.lock().pending.len(), 1, "what has ended is forgotten");
    }

    #[test]
    fn a_client_has_its_share_and_leaves_others_theirs() {
        let attempts = Attempts::default();
        let (first, holds) = begin(&attempts, client(1), 0);
        let (other, other_holds) = begin(&attempts, client(2), 0);
        for _ in 0..ATTEMPTS_OF_CLIENT_MAX {
            begin(&attempts, client(1), 0);
        }
        assert_eq!(attempts.lock().count_of(&client(1)), ATTEMPTS_OF_CLIENT_MAX);
        assert!(attempts.take(&first, holds.expose(), 0).is_none(), "it was the oldest");
        assert!(attempts.take(&other, other_holds.expose(), 0).is_some());
    }

    #[test]
    fn attempts_are_bounded_and_those_with_most_make_room() {
        let attempts = Attempts::default();
        let (key, browser) = begin(&attempts, client(0), 0);
        let clients = ATTEMPTS_MAX / ATTEMPTS_OF_CLIENT_MAX + 1;
        for last in 1..=u8::try_from(clients).unwrap() {
            for _ in 0..ATTEMPTS_OF_CLIENT_MAX {
                begin(&attempts, client(last), 0);
            }
        }
        assert_eq!(attempts.lock().pending.len(), ATTEMPTS_MAX);
        assert!(
            attempts.take(&key, browser.expose(), 0).is_some(),
            "a client with one attempt keeps it"
        );
    }
}
