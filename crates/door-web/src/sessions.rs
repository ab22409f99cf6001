//! Sessions of browsers whose clients have signed in, in memory.
//!
//! A browser holds a random identifier in a cookie. Here sessions are found by the hash of that:
//! the time that a search takes says nothing about an identifier, and no copy of it is kept. A
//! restart ends all sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use credentials::{Credential, VerifiedToken};
use endpoint::ids::hex;
use serde::{Deserialize, Serialize};

use crate::limits::{SESSION_IDENTIFIER_BYTES, SESSION_TIME_MAX, SESSIONS_MAX, SESSIONS_OF_CLIENT_MAX};

/// What a session is found by: the hash of its identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SessionKey(String);

impl SessionKey {
    /// The key of an identifier, genuine or not.
    pub(crate) fn of(identifier: &str) -> Self {
        Self(hex(digest(&SHA256, identifier.as_bytes()).as_ref()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

struct Session {
    credential: Arc<Credential>,
    /// Who signed in, for the share of each client.
    holder: String,
    /// In seconds since 1970.
    ends_s: i64,
    /// The count of uses of all sessions at its last use.
    used: u64,
}

#[derive(Default)]
struct Kept {
    sessions: HashMap<SessionKey, Session>,
    uses: u64,
}

/// The sessions of a door.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Kept>);

impl Sessions {
    /// Begins a session of this client, and returns its identifier for the browser. It ends with
    /// the token, or after [`SESSION_TIME_MAX`]. A client with its share, or the door with all
    /// sessions that it keeps, loses the one that is idle longest.
    pub(crate) fn begin(&self, token: &VerifiedToken, now_s: i64) -> String {
        let mut bytes = [0; SESSION_IDENTIFIER_BYTES];
        net::random::fill(&mut bytes);
        let identifier = hex(&bytes);
        let longest_s = i64::try_from(SESSION_TIME_MAX.as_secs()).unwrap_or(i64::MAX);
        // The token itself is not kept.
        let credential = Credential::Token(Box::new(VerifiedToken {
            text: None,
            ..token.clone()
        }));
        let holder = holder_of(&credential);
        let mut kept = self.lock();
        kept.sessions.retain(|_, session| session.ends_s > now_s);
        kept.make_room(SESSIONS_OF_CLIENT_MAX, |session| session.holder == holder);
        kept.make_room(SESSIONS_MAX, |_| true);
        kept.uses += 1;
        let session = Session {
            ends_s: token.expires_s.min(now_s.saturating_add(longest_s)),
            credential: Arc::new(credential),
            holder,
            used: kept.uses,
        };
        kept.sessions.insert(SessionKey::of(&identifier), session);
        identifier
    }

    /// The credential of the client that began this session, unless it has ended.
    pub(crate) fn find(&self, key: &SessionKey, now_s: i64) -> Option<Arc<Credential>> {
        let mut kept = self.lock();
        kept.uses += 1;
        let uses = kept.uses;
        let session = kept.sessions.get_mut(key)?;
        if session.ends_s <= now_s {
            kept.sessions.remove(key);
            return None;
        }
        session.used = uses;
        Some(session.credential.clone())
    }

    /// Ends a session.
    pub(crate) fn end(&self, key: &SessionKey) {
        self.lock().sessions.remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Ends those of these sessions that are idle longest, until there is room for one more.
    fn make_room(&mut self, most: usize, is_counted: impl Fn(&Session) -> bool) {
        let counted = self.sessions.iter().filter(|(_, session)| is_counted(session));
        let mut counted: Vec<(u64, SessionKey)> = counted.map(|(key, session)| (session.used, key.clone())).collect();
        if counted.len() < most {
            return;
        }
        counted.sort_by_key(|(used, _)| *used);
        let over = counted.len() + 1 - most;
        for (_, key) in counted.into_iter().take(over) {
            self.sessions.remove(&key);
        }
    }
}

/// The name of a credential's holder, which no other has.
pub(crate) fn holder_of(credential: &Credential) -> String {
    let identity = credential.identity();
    let authority = match credential {
        Credential::Certificate(certificate) => hex(&certificate.issuer.key_sha256),
        _ => identity.issuer.unwrap_or_default(),
    };
    // No name of an authority or issuer has a line break.
    let subject = identity.subject.or(identity.token_id).unwrap_or_default();
    format!("{}\n{authority}\n{subject}", identity.kind.name())
}

#[cfg(test)]
mod tests {
    use credentials::Principal;
    use types::Secret;

    use super::*;

    fn token(subject: &str, expires_s: i64) -> VerifiedToken {
        VerifiedToken {
            grant: None,
            principal: Principal {
                issuer: Some("https://iam.example".to_owned()),
                subject: Some(subject.to_owned()),
                ..Principal::default()
            },
            token_id: None,
            expires_s,
            not_before_s: None,
            audiences: Vec::new(),
            text: Some(Secret::new("a.b.c")),
        }
    }

    const LATER_S: i64 = 1 << 40;

    fn is_there(sessions: &Sessions, identifier: &str, now_s: i64) -> bool {
        sessions.find(&SessionKey::of(identifier), now_s).is_some()
    }

    #[test]
    fn a_session_ends_with_its_token_and_with_the_day() {
        let sessions = Sessions::default();
        let (short, long) = (
            sessions.begin(&token("jane", 1060), 1000),
            sessions.begin(&token("jane", LATER_S), 1000),
        );
        assert!(is_there(&sessions, &short, 1059) && !is_there(&sessions, &short, 1060));
        let end_s = 1000 + SESSION_TIME_MAX.as_secs() as i64;
        assert!(is_there(&sessions, &long, end_s - 1) && !is_there(&sessions, &long, end_s));
        assert!(!is_there(&sessions, &long, 1000), "what has ended does not come back");
        let last = sessions.begin(&token("jane", LATER_S), 1000);
        sessions.end(&SessionKey::of(&last));
        assert!(!is_there(&sessions, &last, 1000));
    }

    #[test]
    fn a_token_is_not_kept_and_identifiers_cannot_be_guessed() {
        let sessions = Sessions::default();
        let begin = || sessions.begin(&token("jane", LATER_S), 0);
        let (one, other) = (begin(), begin());
        assert!(one.len() == 2 * SESSION_IDENTIFIER_BYTES && one != other);
        let credential = sessions.find(&SessionKey::of(&one), 0).unwrap();
        assert!(matches!(&*credential, Credential::Token(token) if token.text.is_none()));
        let kept = sessions.lock();
        assert!(
            kept.sessions.keys().all(|key| key.as_str() != one),
            "only its hash is kept"
        );
    }

    #[test]
    fn a_client_has_its_share_and_the_idle_go_first() {
        let sessions = Sessions::default();
        let other = sessions.begin(&token("john", LATER_S), 0);
        let first = sessions.begin(&token("jane", LATER_S), 0);
        let second = sessions.begin(&token("jane", LATER_S), 0);
        for _ in 2..SESSIONS_OF_CLIENT_MAX {
            sessions.begin(&token("jane", LATER_S), 0);
        }
        assert!(is_there(&sessions, &first, 0), "it is used now");
        sessions.begin(&token("jane", LATER_S), 0);
        assert!(!is_there(&sessions, &second, 0), "it was idle longest");
        assert!(is_there(&sessions, &first, 0) && is_there(&sessions, &other, 0));
    }

    #[test]
    fn sessions_are_bounded() {
        let sessions = Sessions::default();
        let first = sessions.begin(&token("0", LATER_S), 0);
        for number in 1..=SESSIONS_MAX {
            sessions.begin(&token(&number.to_string(), LATER_S), 0);
        }
        assert_eq!(sessions.lock().sessions.len(), SESSIONS_MAX);
        assert!(!is_there(&sessions, &first, 0));
    }
}
