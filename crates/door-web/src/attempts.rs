//! Sign-ins at an issuer that have begun. What belongs to one is sealed in a cookie of its browser,
//! and the server keeps nothing until the browser comes back: no number of sign-ins that others
//! begin makes it forget one.
//!
//! The seal is bound to the `state`, which the issuer hands back, so a sign-in counts only in the
//! browser that holds its cookie: an address with a state and code of an attacker, opened in the
//! browser of another person, signs no one in (RFC 6749 §10.12, RFC 9700 §4.7).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credentials::SealingKey;
use endpoint::ids::hex;
use net::random::random;
use remote::SignInRequest;
use serde::{Deserialize, Serialize};
use types::Secret;

use crate::limits::{ATTEMPT_COOKIE_BYTES_MAX, ATTEMPT_TIME_MAX, SESSION_IDENTIFIER_BYTES, USED_ATTEMPTS_MAX};
use crate::sessions::SessionKey;

/// What the key is used for.
const PURPOSE: &[u8] = b"sign-in at an issuer 1";

/// Random bytes, or a panic.
fn unguessable_bytes() -> [u8; SESSION_IDENTIFIER_BYTES] {
    let mut bytes = [0; SESSION_IDENTIFIER_BYTES];
    net::random::fill(&mut bytes);
    bytes
}

/// A text that cannot be guessed. It is a code verifier, too (RFC 7636 §4.1).
fn unguessable() -> Secret {
    Secret::new(hex(&unguessable_bytes()))
}

/// A sign-in that has begun.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// What goes with it to the issuer.
    pub(crate) request: SignInRequest,
    /// Where the browser goes afterwards: a place on this server.
    pub(crate) back: String,
    /// The session that the browser has, which ends with the next one.
    pub(crate) replaces: Option<SessionKey>,
}

impl Attempt {
    pub(crate) fn new(redirect_url: String, back: String, replaces: Option<SessionKey>) -> Self {
        Self {
            request: SignInRequest {
                redirect_url,
                state: unguessable(),
                nonce: unguessable(),
                verifier: unguessable(),
            },
            back,
            replaces,
        }
    }

    /// What its cookie is called by.
    pub(crate) fn key(&self) -> SessionKey {
        SessionKey::of(self.request.state.expose())
    }
}

/// An attempt as it is sealed.
#[derive(Serialize, Deserialize)]
struct Held {
    redirect_url: String,
    nonce: String,
    verifier: String,
    back: String,
    replaces: Option<SessionKey>,
    /// In seconds since 1970.
    ends_s: i64,
}

/// The attempts of a door.
pub(crate) struct Attempts {
    key: SealingKey,
    /// Those that were taken, with their ends in seconds since 1970.
    used: Mutex<HashMap<SessionKey, i64>>,
}

impl Default for Attempts {
    /// With a key of its own: a restart ends all attempts.
    fn default() -> Self {
        Self {
            key: SealingKey::new(&unguessable_bytes()),
            used: Mutex::default(),
        }
    }
}

impl Attempts {
    /// What the cookie of an attempt holds; it counts for [`ATTEMPT_TIME_MAX`]. A place that makes
    /// it longer than browsers keep is left out. `None` only when a library fails.
    pub(crate) fn seal(&self, attempt: &Attempt, now_s: i64) -> Option<Secret> {
        let longest_s = i64::try_from(ATTEMPT_TIME_MAX.as_secs()).unwrap_or(i64::MAX);
        let request = &attempt.request;
        let mut held = Held {
            redirect_url: request.redirect_url.clone(),
            nonce: request.nonce.expose().to_owned(),
            verifier: request.verifier.expose().to_owned(),
            back: attempt.back.clone(),
            replaces: attempt.replaces.clone(),
            ends_s: now_s.saturating_add(longest_s),
        };
        let state = request.state.expose().as_bytes();
        let seal = |held: &Held| {
            let text = serde_json::to_vec(held).ok()?;
            let sealed = self.key.seal(PURPOSE, random(), state, &text)?;
            Some(Secret::new(URL_SAFE_NO_PAD.encode(sealed)))
        };
        let sealed = seal(&held)?;
        if sealed.expose().len() <= ATTEMPT_COOKIE_BYTES_MAX {
            return Some(sealed);
        }
        "/".clone_into(&mut held.back);
        seal(&held)
    }

    /// The attempt with this state that a cookie holds, which is then used up: each counts once.
    pub(crate) fn take(&self, state: &Secret, cookie: &str, now_s: i64) -> Option<Attempt> {
        let sealed = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let text = self.key.open(PURPOSE, state.expose().as_bytes(), &sealed)?;
        let held: Held = serde_json::from_slice(&text).ok()?;
        let is_new = || self.use_up(SessionKey::of(state.expose()), held.ends_s, now_s);
        if held.ends_s <= now_s || !is_new() {
            return None;
        }
        Some(Attempt {
            request: SignInRequest {
                redirect_url: held.redirect_url,
                state: state.clone(),
                nonce: Secret::new(held.nonce),
                verifier: Secret::new(held.verifier),
            },
            back: held.back,
            replaces: held.replaces,
        })
    }

    /// Whether an attempt was not used up before. Of too many, the oldest are forgotten: the issuer
    /// takes no code twice, either.
    fn use_up(&self, key: SessionKey, ends_s: i64, now_s: i64) -> bool {
        let mut used = self.lock();
        used.retain(|_, ends_s| *ends_s > now_s);
        if used.contains_key(&key) {
            return false;
        }
        let oldest = used.iter().min_by_key(|(_, ends_s)| **ends_s);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone())
            && used.len() >= USED_ATTEMPTS_MAX
        {
            used.remove(&oldest);
        }
        used.insert(key, ends_s);
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, i64>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BACK_BYTES_MAX;

    fn begin(attempts: &Attempts, back: &str, now_s: i64) -> (Secret, Secret) {
        let attempt = Attempt::new("https://se/back".to_owned(), back.to_owned(), None);
        let cookie = attempts.seal(&attempt, now_s).unwrap();
        (attempt.request.state, cookie)
    }

    #[test]
    fn an_attempt_counts_once_and_in_its_browser() {
        let attempts = Attempts::default();
        let session = SessionKey::of("session");
        let begun = Attempt::new("https://se/back".to_owned(), "/now".to_owned(), Some(session));
        let cookie = attempts.seal(&begun, 0).unwrap();
        let (other_state, other) = begin(&attempts, "/", 0);
        let state = &begun.request.state;
        let changed = format!("{}A", &cookie.expose()[..cookie.expose().len() - 1]);
        let at_another = Attempts::default().seal(&begun, 0).unwrap();
        for forged in [
            "",
            "?",
            other.expose(),
            state.expose(),
            &cookie.expose()[1..],
            &changed[1..],
            at_another.expose(),
        ] {
            assert!(attempts.take(state, forged, 0).is_none(), "{forged}");
        }
        assert!(attempts.take(&other_state, cookie.expose(), 0).is_none());
        let taken = attempts.take(state, cookie.expose(), 0).unwrap();
        assert_eq!((taken.back, taken.replaces), (begun.back, begun.replaces));
        let parts = |request: &SignInRequest| {
            let secrets = [&request.state, &request.nonce, &request.verifier];
            (
                secrets.map(|text| text.expose().to_owned()),
                request.redirect_url.clone(),
            )
        };
        assert_eq!(parts(&taken.request), parts(&begun.request));
        assert!(attempts.take(state, cookie.expose(), 0).is_none(), "only once");
    }

    #[test]
    fn what_goes_with_an_attempt_cannot_be_guessed_or_shown() {
        let attempts = Attempts::default();
        let attempt = Attempt::new("https://se.example/back".to_owned(), "/now".to_owned(), None);
        let request = &attempt.request;
        let texts = [&request.state, &request.nonce, &request.verifier].map(Secret::expose);
        let is_verifier = |text: &str| (43..=128).contains(&text.len());
        assert!(texts.iter().all(|text| is_verifier(text)));
        let mut different = texts.to_vec();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), texts.len());
        let shown = format!("{attempt:?}");
        let cookie = attempts.seal(&attempt, 0).unwrap();
        let held = URL_SAFE_NO_PAD.decode(cookie.expose()).unwrap();
        let held = String::from_utf8_lossy(&held).into_owned();
        for text in texts.iter().chain(&["se.example"]) {
            assert!(!held.contains(text), "{held}");
        }
        assert!(texts.iter().all(|text| !shown.contains(text)), "{shown}");
        assert_ne!(attempts.seal(&attempt, 0).unwrap().expose(), cookie.expose());
    }

    #[test]
    fn an_attempt_ends_after_a_while() {
        let attempts = Attempts::default();
        let end_s = i64::try_from(ATTEMPT_TIME_MAX.as_secs()).unwrap();
        let (state, cookie) = begin(&attempts, "/now", 0);
        assert!(attempts.take(&state, cookie.expose(), end_s).is_none());
        assert!(attempts.take(&state, cookie.expose(), end_s - 1).is_some());
        let (state, cookie) = begin(&attempts, "/now", end_s);
        assert!(attempts.take(&state, cookie.expose(), end_s).is_some());
        assert_eq!(attempts.lock().len(), 1, "what has ended is forgotten");
    }

    #[test]
    fn others_make_no_attempt_end_and_what_is_kept_is_bounded() {
        let attempts = Attempts::default();
        let (state, cookie) = begin(&attempts, "/now", 0);
        for _ in 0..=USED_ATTEMPTS_MAX {
            let (state, cookie) = begin(&attempts, "/now", 0);
            assert!(attempts.take(&state, cookie.expose(), 0).is_some());
        }
        assert_eq!(attempts.lock().len(), USED_ATTEMPTS_MAX);
        assert!(attempts.take(&state, cookie.expose(), 0).is_some());
    }

    #[test]
    fn a_place_that_is_too_long_for_a_cookie_is_left_out() {
        let attempts = Attempts::default();
        let back = |redirect_url: &str| {
            let long = format!("/{}", "a".repeat(BACK_BYTES_MAX - 1));
            let attempt = Attempt::new(redirect_url.to_owned(), long, None);
            let cookie = attempts.seal(&attempt, 0).unwrap();
            assert!(cookie.expose().len() <= ATTEMPT_COOKIE_BYTES_MAX);
            let taken = attempts.take(&attempt.request.state, cookie.expose(), 0).unwrap();
            taken.back.len()
        };
        assert_eq!(back("https://se.example/sign-in/issuer/return"), BACK_BYTES_MAX);
        assert_eq!(back(&format!("https://se.example/{}", "a".repeat(1000))), 1);
    }
}
