//! What servers have shown of their abilities while copies are made: by their own words, and by
//! attempts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use remote::CopyAbilities;
use types::{Error, ErrorCode, Location, Scheme};

use super::Way;
use super::end::{Ability, End, Evidence, ProxyUse};
use crate::limits::{LEARNED_SERVERS_MAX, PAIR_FAILURES_MAX};

/// What servers have shown of their abilities to copy from and to others. One for each command, or
/// queue.
#[derive(Debug, Default)]
pub struct LearnedAbilities {
    servers: Mutex<HashMap<Subject, Known>>,
    /// Ways that failed between two servers, where another one copied the file. `None`: they are
    /// tried again for each file.
    pairs: Option<Mutex<HashMap<Pair, Failures>>>,
}

/// A way between two servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pair {
    way: Way,
    source: (Scheme, String),
    destination: (Scheme, String),
}

impl Pair {
    fn new(way: Way, source: &Location, destination: &Location) -> Self {
        let server = |location: &Location| (location.scheme(), location.authority());
        Self {
            way,
            source: server(source),
            destination: server(destination),
        }
    }
}

/// Failures of a way since it last worked.
#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    /// It will fail for all files.
    is_certain: bool,
}

/// A server, in copies with servers of one scheme: not every server copies between the protocols.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Subject {
    scheme: Scheme,
    authority: String,
    other: Scheme,
}

impl Subject {
    fn new(location: &Location, other: &Location) -> Self {
        Self {
            scheme: location.scheme(),
            authority: location.authority(),
            other: other.scheme(),
        }
    }
}

/// What is known of it.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    pulls: Ability,
    pushes: Ability,
    evidence: Option<Evidence>,
    /// What is known of its use of delegated proxies.
    proxy: ProxyUse,
}

impl LearnedAbilities {
    /// The knowledge of one command. A way that fails between two servers for a reason that is not
    /// the file's, where another way copies the file, is then not tried between them again. A
    /// queue, which runs for months, tries it for each file.
    #[must_use]
    pub fn of_one_command() -> Self {
        Self {
            pairs: Some(Mutex::default()),
            ..Self::default()
        }
    }

    /// Whether a way is known to fail between these servers.
    #[must_use]
    pub fn fails_between(&self, way: Way, source: &Location, destination: &Location) -> bool {
        let Some(pairs) = &self.pairs else { return false };
        let known = pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = known.get(&Pair::new(way, source, destination));
        failures.is_some_and(|failures| failures.is_certain || failures.count >= PAIR_FAILURES_MAX)
    }

    /// A file was copied by a way, after others of its plan had failed with these errors.
    pub(crate) fn note_copied(&self, way: Way, failed: &[(Way, Error)], source: &Location, destination: &Location) {
        let Some(pairs) = &self.pairs else { return };
        let mut known = pairs.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&Pair::new(way, source, destination));
        for (way, error) in failed {
            let pair = Pair::new(*way, source, destination);
            if known.len() < LEARNED_SERVERS_MAX || known.contains_key(&pair) {
                let failures = known.entry(pair).or_default();
                failures.count += 1;
                failures.is_certain |= is_of_pair(error);
            }
        }
    }

    /// The end of `location`, whose protocol says `end`, in a copy with `other`. What a protocol
    /// cannot do no server learns.
    #[must_use]
    pub fn end_of(&self, end: End, location: &Location, other: &Location) -> End {
        let known = self.known(&Subject::new(location, other));
        let better = |usual, learned| match usual {
            Ability::Unknown => learned,
            usual => usual,
        };
        End {
            pulls: better(end.pulls, known.pulls),
            pushes: better(end.pushes, known.pushes),
            evidence: known.evidence,
            proxy: end.proxy.map(|_| known.proxy),
            ..end
        }
    }

    /// Whether the server was asked, or has shown something, about copies with `other`.
    #[must_use]
    pub fn is_known(&self, location: &Location, other: &Location) -> bool {
        let known = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains_key(&Subject::new(location, other))
    }

    /// Whether the server is known to fetch from `other`.
    #[must_use]
    pub fn pulls(&self, location: &Location, other: &Location) -> bool {
        self.known(&Subject::new(location, other)).pulls == Ability::Yes
    }

    /// What the server says of its copies with `other`.
    pub fn note_told(&self, location: &Location, other: &Location, told: CopyAbilities) {
        let known = Known {
            pulls: Ability::of(told.pulls),
            evidence: told.pulls.map(|_| Evidence::Told),
            proxy: ProxyUse {
                ability: Ability::of(told.with_proxy),
                evidence: told.with_proxy.map(|_| Evidence::Told),
            },
            ..Known::default()
        };
        self.note(Subject::new(location, other), known);
    }

    /// The outcome of a copy: `None` when it was made. Only an active server that says that it
    /// makes no such copies is not asked again.
    pub fn note_outcome(&self, way: Way, source: &Location, destination: &Location, error: Option<&Error>) {
        let (active, passive) = match way {
            Way::DelegatedPull | Way::Pull => (destination, source),
            Way::Push => (source, destination),
            Way::Local | Way::Download | Way::Upload | Way::Stream | Way::Within => return,
        };
        let ability = match error {
            None => Ability::Yes,
            Some(error) if says_it_cannot(way, error) => Ability::No,
            Some(_) => return,
        };
        let subject = Subject::new(active, passive);
        let mut known = self.known(&subject);
        let evidence = Some(Evidence::Attempt);
        match way {
            Way::DelegatedPull => known.proxy = ProxyUse { ability, evidence },
            Way::Pull => (known.pulls, known.evidence) = (ability, evidence),
            _ => (known.pushes, known.evidence) = (ability, evidence),
        }
        self.note(subject, known);
    }

    fn known(&self, subject: &Subject) -> Known {
        let known = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(subject).copied().unwrap_or_default()
    }

    fn note(&self, subject: Subject, news: Known) {
        let mut known = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < LEARNED_SERVERS_MAX || known.contains_key(&subject) {
            known.insert(subject, news);
        }
    }
}

/// Whether one server cannot reach, or does not accept, the other one. A failure that may pass, or
/// may be of the file, has to come [`PAIR_FAILURES_MAX`] times.
fn is_of_pair(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::PeerUntrusted
            | ErrorCode::PeerTlsFailed
            | ErrorCode::PeerAddressRefused
            | ErrorCode::PeerUnresolved
            | ErrorCode::PeerUnsupported
    )
}

/// Its own refusal of the method or the protocol, not what it met at the other side, nor a name
/// that cannot be expressed. That it takes no proxy is no refusal: it does not ask for one.
fn says_it_cannot(way: Way, error: &Error) -> bool {
    error.code() == ErrorCode::PeerUnsupported
        && (error.peer_status().is_some() || way == Way::DelegatedPull)
        && way.active_server() == Some(error.side())
}

#[cfg(test)]
mod tests {
    use remote::Abilities;
    use types::{PeerStatus, Phase, Side};

    use super::*;
    use crate::route::{Preference, Reason, route};

    fn at(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    fn server(pushes: bool) -> End {
        End::server(Abilities {
            pulls: true,
            pushes,
            ..Abilities::default()
        })
    }

    fn refusal(code: ErrorCode, side: Side, status: Option<u16>) -> Error {
        Error::new(code, side, Phase::Open).with_peer(status.map(PeerStatus::Http), "")
    }

    #[test]
    fn a_server_that_cannot_is_not_asked_again() {
        let learned = LearnedAbilities::default();
        let (source, destination) = (at("https://a/f"), at("https://b/f"));
        let plan = || {
            let from = learned.end_of(server(true), &source, &destination);
            let to = learned.end_of(server(true), &destination, &source);
            route(Preference::Any, &from, &to).unwrap()
        };
        for error in [
            refusal(ErrorCode::PeerUnsupported, Side::Source, Some(405)),
            refusal(ErrorCode::PeerUnsupported, Side::Destination, None),
            refusal(ErrorCode::PeerFailed, Side::Destination, Some(500)),
        ] {
            learned.note_outcome(Way::Pull, &source, &destination, Some(&error));
            assert_eq!((plan().way(), plan().passed_over().len()), (Way::Pull, 0));
        }
        let cannot = refusal(ErrorCode::PeerUnsupported, Side::Destination, Some(405));
        learned.note_outcome(Way::Pull, &source, &destination, Some(&cannot));
        assert_eq!((plan().way(), plan().passed_over()[0].way), (Way::Push, Way::Pull));
        assert_eq!(plan().passed_over()[0].evidence, Some(Evidence::Attempt));
        assert!(
            plan().to_string().ends_with(": an earlier copy showed it"),
            "{}",
            plan()
        );
        learned.note_outcome(Way::Push, &source, &destination, None);
        assert_eq!(plan().chosen().evidence, Some(Evidence::Attempt));
        // Of other servers, and of other protocols, nothing is known.
        for (location, other) in [("https://b/f", "root://a//f"), ("https://b:8443/f", "https://a/f")] {
            let end = learned.end_of(server(true), &at(location), &at(other));
            assert_eq!(end, server(true), "{location} {other}");
        }
    }

    #[test]
    fn a_way_that_fails_between_two_servers_is_given_up_for_the_run() {
        let (source, destination) = (at("https://a/f"), at("https://b/f"));
        let untrusted = || vec![(Way::Pull, refusal(ErrorCode::PeerUntrusted, Side::Source, None))];
        let learned = LearnedAbilities::default();
        learned.note_copied(Way::Push, &untrusted(), &source, &destination);
        assert!(!learned.fails_between(Way::Pull, &source, &destination), "a queue");
        let learned = LearnedAbilities::of_one_command();
        let fails = || learned.fails_between(Way::Pull, &at("https://a/other"), &destination);
        let closed = vec![(Way::Pull, refusal(ErrorCode::PeerClosed, Side::Source, None))];
        for count in 1..=PAIR_FAILURES_MAX {
            assert!(!fails(), "{count}");
            learned.note_copied(Way::Push, &closed, &source, &destination);
        }
        assert!(fails());
        learned.note_copied(Way::Pull, &[], &source, &destination);
        assert!(!fails(), "it worked meanwhile");
        learned.note_copied(Way::Push, &untrusted(), &source, &destination);
        assert!(fails());
        assert!(!learned.fails_between(Way::Push, &source, &destination));
        assert!(!learned.fails_between(Way::Pull, &destination, &source));
        // What is left of the plan, and why.
        let ends = || (server(true), server(true));
        let plan = |wanted| {
            route(wanted, &ends().0, &ends().1)
                .unwrap()
                .without(|way| way == Way::Pull)
        };
        assert_eq!(plan(Preference::Any).way(), Way::Push);
        let words = "; no pull: it has failed between these two servers before";
        assert!(
            plan(Preference::Any).to_string().ends_with(words),
            "{}",
            plan(Preference::Any)
        );
        assert_eq!(plan(Preference::Pull).way(), Way::Pull, "the only way");
    }

    #[test]
    fn the_word_of_a_server_counts() {
        let learned = LearnedAbilities::default();
        let (one, other) = (at("davs://a/f"), at("root://b//f"));
        assert!(!learned.is_known(&one, &other));
        let told = |pulls| CopyAbilities {
            pulls,
            with_proxy: None,
        };
        learned.note_told(&one, &other, told(Some(true)));
        let end = learned.end_of(server(true), &one, &other);
        assert_eq!(
            (end.pulls, end.pushes, end.evidence),
            (Ability::Yes, Ability::Unknown, Some(Evidence::Told))
        );
        learned.note_told(&other, &one, told(None));
        assert!(learned.is_known(&other, &one));
        assert_eq!(learned.end_of(server(false), &other, &one), server(false));
        // What the protocol cannot do stays so.
        let cannot = End::server(Abilities::default());
        learned.note_told(&other, &one, told(Some(true)));
        assert_eq!(learned.end_of(cannot, &other, &one).pulls, Ability::No);
    }

    #[test]
    fn a_no_of_the_server_rules_a_way_out_unless_it_is_ordered() {
        let learned = LearnedAbilities::default();
        let (source, destination) = (at("https://a/f"), at("root://b//f"));
        let told = CopyAbilities {
            pulls: Some(false),
            with_proxy: None,
        };
        learned.note_told(&destination, &source, told);
        let from = learned.end_of(server(true), &source, &destination);
        let to = learned.end_of(server(false), &destination, &source);
        let plan = route(Preference::Any, &from, &to).unwrap();
        assert_eq!(plan.way(), Way::Push);
        let words = "; no pull: the destination cannot fetch from other servers: it says so";
        assert!(plan.to_string().ends_with(words), "{plan}");
        assert_eq!(route(Preference::Pull, &from, &to).unwrap().way(), Way::Pull);
    }

    #[test]
    fn what_a_server_does_with_proxies_is_learned_beside_the_rendezvous() {
        let learned = LearnedAbilities::default();
        let (source, destination) = (at("root://a//f"), at("root://b//f"));
        let plan = || {
            let to = server(false).with_proxy();
            let to = learned.end_of(to, &destination, &source);
            route(Preference::Any, &server(false), &to).unwrap()
        };
        assert_eq!(plan().chosen().evidence, None);
        learned.note_told(
            &destination,
            &source,
            CopyAbilities {
                pulls: None,
                with_proxy: Some(true),
            },
        );
        let chosen = plan().chosen();
        assert_eq!(
            (chosen.way, chosen.evidence),
            (Way::DelegatedPull, Some(Evidence::Told))
        );
        // It asks for no proxy after all.
        let cannot = refusal(ErrorCode::PeerUnsupported, Side::Destination, None);
        learned.note_outcome(Way::DelegatedPull, &source, &destination, Some(&cannot));
        learned.note_outcome(Way::Pull, &source, &destination, None);
        let after = plan();
        assert_eq!(
            (after.way(), after.chosen().reason),
            (Way::Pull, Reason::DestinationPulls)
        );
        let no_proxy = after.passed_over()[0];
        assert_eq!(
            (no_proxy.way, no_proxy.evidence),
            (Way::DelegatedPull, Some(Evidence::Attempt))
        );
        // A client that delegates nothing does not hear of it.
        let to = learned.end_of(server(false), &destination, &source);
        assert_eq!(to.proxy, None);
    }
}
