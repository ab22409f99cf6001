//! Third-party copies that the endpoint makes: it fetches from another server, and sends to one.
//!
//! The other server must be known to work. Where it turns out to be the one at fault the failure
//! says so: a macaroon of its own that it refuses only because `bearer` is written in lower case,
//! for example, which is shown by asking it directly.

use credentials::{Activities, Activity};
use remote::{Access, CopyOrder, Delegation, Direction, Resource};
use types::{ErrorCode, Location, Side};

use super::series::{in_lower_case, writing};
use super::{
    At, Blame, CONTROL_TIMEOUT, COPY_TIMEOUT, Credential, DATA_TIMEOUT, Failure, Kind, Outcome, Smoke, timed, within,
};
use crate::steps::{self, own_file};

/// A copy to be made.
struct Wanted<'a> {
    name: &'a str,
    /// The endpoint's own file.
    own: &'a Resource,
    peer: &'a Location,
    peer_access: &'a Access,
    direction: Direction,
    expected_bytes: Option<u64>,
    /// How the scheme of the other side's token is written.
    scheme: Option<&'static str>,
    /// Whether the endpoint gets a proxy of ours instead (TPC Lite).
    delegation: Delegation,
}

impl Smoke<'_> {
    /// Copies in both directions with every credential.
    pub(super) async fn third_parties(&self, place: &Location) {
        // An S3 storage makes no copies from or to other servers.
        if place.is_s3() {
            return;
        }
        let nobody = At {
            kind: Kind::Anonymous,
            address: None,
            macaroon_of: None,
        };
        let fitting = |others: &[Location]| {
            others
                .iter()
                .find(|other| other.is_xrootd() == place.is_xrootd())
                .cloned()
        };
        let (source, target) = (fitting(&self.options.pull), fitting(&self.options.push));
        if source.is_none() {
            let why = "give --pull: a public file at another server, in this protocol";
            self.skip("pull from a public source", place, nobody, why);
        }
        if target.is_none() {
            let why = "give --push: a directory at another server where you may write, in this protocol";
            self.skip("pull with a credential, and push", place, nobody, why);
        }
        let seed = match &target {
            Some(target) => self.seed(target).await,
            None => None,
        };
        for kind in Kind::ALL {
            if !self.wants(kind) || !kind.suits(place) || (source.is_none() && target.is_none()) {
                continue;
            }
            let file = place.child(&self.file_name(&format!("copy-{}", kind.name())));
            let issuer = Self::issuer_of(place, &self.options.places).map(|issuer| issuer.child(&file.file_name()));
            let Some(key) = self.key_for(kind, issuer.as_ref()).await else {
                continue;
            };
            let at = At {
                kind,
                address: None,
                macaroon_of: issuer.as_ref(),
            };
            if let Some(source) = &source {
                self.pull_public(&key, &file, source, at).await;
            }
            if let Some(seed) = &seed {
                self.pull_guarded(&key, &file, seed, at).await;
                if kind == Kind::Proxy && place.is_xrootd() {
                    self.pull_lite(&key, &file, seed, at).await;
                }
            }
            if let Some(target) = &target {
                self.push(&key, &file, target, at).await;
            }
        }
        if let Some(seed) = &seed {
            self.remove_quietly(&seed.key, &seed.file).await;
        }
    }

    /// The credential with which the endpoint is asked to copy.
    async fn key_for(&self, kind: Kind, issuer: Option<&Location>) -> Option<Credential> {
        match kind {
            Kind::Macaroon => self.ask_macaroon("ask for a macaroon", issuer?, None, writing()).await,
            _ => self.credentials.iter().find(|one| one.kind == kind).cloned(),
        }
    }

    /// Puts a file at the third party that the endpoint is to fetch.
    async fn seed(&self, target: &Location) -> Option<Seed> {
        let key = self.best()?.clone();
        let location = target.child(&self.file_name("seed"));
        let file = own_file(location.clone(), &key.access, Side::Source);
        let at = At {
            kind: key.kind,
            address: None,
            macaroon_of: None,
        };
        self.will_make(&key, &file);
        let sent = timed(DATA_TIMEOUT, &file, steps::upload(&key.client, &file, &self.content)).await;
        if let Err(error) = sent.result {
            let lines = self.context(at).upload(&location);
            let outcome = Outcome::Failed(Box::new(Failure::of(&error, Some(Side::Source), lines)));
            self.note("upload to the third party", &location, at, sent.took, outcome);
            return None;
        }
        self.has_made(&file);
        let issuer = Self::issuer_of(&location, &self.options.push);
        let reading = Activities::of(&[Activity::Download, Activity::List]);
        let access = self.delegated(&key, issuer.as_ref(), reading).await;
        Some(Seed { file, key, access })
    }

    /// What the endpoint is handed for the third party: our token, or else a macaroon of the third
    /// party.
    async fn delegated(&self, key: &Credential, issuer: Option<&Location>, activities: Activities) -> Access {
        let bearer = match (key.kind, issuer) {
            (Kind::Token, _) => key.access.bearer.clone(),
            (_, Some(issuer)) => {
                let name = "ask the third party for a macaroon";
                let given = self.ask_macaroon(name, issuer, None, activities).await;
                given.and_then(|given| given.access.bearer)
            }
            (_, None) => None,
        };
        Access {
            bearer,
            ..Access::default()
        }
    }

    async fn pull_public(&self, key: &Credential, file: &Location, source: &Location, at: At<'_>) {
        let own = own_file(file.clone(), &key.access, Side::Destination);
        let nothing = Access::default();
        let public = Resource {
            location: source.clone(),
            access: nothing.clone(),
            side: Side::Source,
        };
        let size = within(CONTROL_TIMEOUT, &public, key.client.head(&public, &[])).await;
        let wanted = Wanted {
            name: "pull from a public source",
            own: &own,
            peer: source,
            peer_access: &nothing,
            direction: Direction::Pull,
            expected_bytes: size.ok().and_then(|facts| facts.size_bytes),
            scheme: None,
            delegation: Delegation::Never,
        };
        self.copy_and_delete(key, &wanted, at).await;
    }

    async fn pull_guarded(&self, key: &Credential, file: &Location, seed: &Seed, at: At<'_>) {
        let own = own_file(file.clone(), &key.access, Side::Destination);
        let wanted = Wanted {
            name: "pull with a credential for the source",
            own: &own,
            peer: &seed.file.location,
            peer_access: &seed.access,
            direction: Direction::Pull,
            expected_bytes: Some(self.content.size_bytes()),
            scheme: seed.access.bearer.is_some().then_some("Bearer"),
            delegation: Delegation::Never,
        };
        if !self.copy_and_delete(key, &wanted, at).await || file.is_xrootd() {
            return;
        }
        if let Some(lower) = in_lower_case(&seed.access) {
            let wanted = Wanted {
                name: "pull with \"bearer\" in lower case",
                peer_access: &lower,
                scheme: Some("bearer"),
                ..wanted
            };
            self.copy_and_delete(key, &wanted, at).await;
        }
    }

    /// The endpoint fetches with a proxy that it gets from us (TPC Lite). Not every server does.
    async fn pull_lite(&self, key: &Credential, file: &Location, seed: &Seed, at: At<'_>) {
        let (own, nothing) = (
            own_file(file.clone(), &key.access, Side::Destination),
            Access::default(),
        );
        let wanted = Wanted {
            name: "pull with a delegated proxy",
            own: &own,
            peer: &seed.file.location,
            peer_access: &nothing,
            direction: Direction::Pull,
            expected_bytes: Some(self.content.size_bytes()),
            scheme: None,
            delegation: Delegation::Only,
        };
        self.copy_and_delete(key, &wanted, at).await;
    }

    async fn push(&self, key: &Credential, file: &Location, target: &Location, at: At<'_>) {
        let Some(best) = self.best().cloned() else { return };
        let own = own_file(file.clone(), &key.access, Side::Source);
        if !self.upload(key, &own, at).await {
            return;
        }
        let peer = target.child(&self.file_name(&format!("pushed-{}", at.kind.name())));
        let issuer = Self::issuer_of(&peer, &self.options.push);
        let access = match key.client.abilities(file).pushes {
            true => self.delegated(&best, issuer.as_ref(), writing()).await,
            // The third party fetches, and shows the credential for the endpoint.
            false => Access {
                bearer: key.access.bearer.clone(),
                ..Access::default()
            },
        };
        let wanted = Wanted {
            name: "push",
            own: &own,
            peer: &peer,
            peer_access: &access,
            direction: Direction::Push,
            expected_bytes: Some(self.content.size_bytes()),
            scheme: access.bearer.is_some().then_some("Bearer"),
            delegation: Delegation::Never,
        };
        let pushed = self.copy_and_delete(key, &wanted, at).await;
        if pushed
            && !file.is_xrootd()
            && let Some(lower) = in_lower_case(&access)
        {
            let wanted = Wanted {
                name: "push with \"bearer\" in lower case",
                peer_access: &lower,
                scheme: Some("bearer"),
                ..wanted
            };
            self.copy_and_delete(key, &wanted, at).await;
        }
        self.delete("delete", key, &own, at).await;
    }

    /// Has a copy made, and deletes what it made. Returns whether the copy succeeded.
    async fn copy_and_delete(&self, key: &Credential, wanted: &Wanted<'_>, at: At<'_>) -> bool {
        let best = self.best().unwrap_or(key);
        let (target_key, target) = match wanted.direction {
            Direction::Pull => (key, wanted.own.clone()),
            Direction::Push => (best, own_file(wanted.peer.clone(), &best.access, Side::Destination)),
        };
        self.will_make(target_key, &target);
        let copied = timed(COPY_TIMEOUT, wanted.own, self.copy(key, best, wanted, &target)).await;
        let outcome = match copied.result {
            Ok(()) => {
                self.has_made(&target);
                Outcome::Passed
            }
            Err(error) if wanted.delegation == Delegation::Only && error.code() == ErrorCode::PeerUnsupported => {
                self.has_removed(&target);
                Outcome::Skipped(format!("the endpoint takes no proxies: {}", error.public()))
            }
            Err(error) => {
                if wanted.direction == Direction::Push && wanted.own.location.is_http() {
                    self.will_make(key, &steps::copied_within(wanted.own, &target));
                }
                let (header, third_party) = match wanted.direction {
                    Direction::Pull => ("Source", Side::Source),
                    Direction::Push => ("Destination", Side::Destination),
                };
                let context = self.context(at);
                let lines = match wanted.delegation {
                    Delegation::Only => context.lite_copy(wanted.peer, &wanted.own.location),
                    _ => context.copy(&wanted.own.location, header, wanted.peer, wanted.scheme),
                };
                let mut failure = Failure::of(&error, Some(third_party), lines);
                self.examine_third_party(wanted, &mut failure).await;
                Outcome::Failed(Box::new(failure))
            }
        };
        let passed = matches!(outcome, Outcome::Passed);
        self.note(wanted.name, &wanted.own.location, at, copied.took, outcome);
        if passed {
            let at = At {
                kind: target_key.kind,
                ..at
            };
            self.delete("delete the copy", target_key, &target, at).await;
        }
        passed
    }

    /// Orders the copy at the active side. Where servers only fetch, as in the XRootD protocol, a
    /// push is ordered at the third party.
    async fn copy(
        &self,
        key: &Credential,
        best: &Credential,
        wanted: &Wanted<'_>,
        target: &Resource,
    ) -> types::Result<()> {
        let pushes = key.client.abilities(&wanted.own.location).pushes;
        let fetched_there = !pushes && wanted.direction == Direction::Push;
        if fetched_there {
            let order = CopyOrder::new(wanted.own.location.clone(), Direction::Pull, wanted.peer_access.clone());
            return steps::copy(&best.client, target, &order, target, wanted.expected_bytes).await;
        }
        let order = CopyOrder::new(wanted.peer.clone(), wanted.direction, wanted.peer_access.clone());
        // The target of a push is at the third party: look at it with the third party's credential.
        let client = &key.client;
        let mut active = wanted.own.clone();
        active.access.delegation = wanted.delegation;
        steps::copy(client, &active, &order, target, wanted.expected_bytes).await
    }

    /// A copy with a token in lower case failed, where the same with a capital letter went well:
    /// the third party is asked directly with both, and blamed if it is the one that makes a
    /// difference.
    async fn examine_third_party(&self, wanted: &Wanted<'_>, failure: &mut Failure) {
        let Some(best) = self.best().filter(|_| wanted.scheme == Some("bearer")) else {
            return;
        };
        let side = wanted.direction.peer_side();
        let asked = own_file(wanted.peer.clone(), wanted.peer_access, side);
        let refused = match wanted.direction {
            Direction::Pull => {
                let read = steps::download(&best.client, &asked, &self.content);
                timed(DATA_TIMEOUT, &asked, read).await.result.is_err()
            }
            Direction::Push => {
                self.will_make(best, &asked);
                let sent = steps::upload(&best.client, &asked, &self.content);
                let sent = timed(DATA_TIMEOUT, &asked, sent).await.result;
                if sent.is_ok() {
                    let own = own_file(wanted.peer.clone(), &best.access, side);
                    self.remove_quietly(best, &own).await;
                }
                sent.is_err()
            }
        };
        if refused {
            failure.blame = Blame::ThirdParty;
            failure.says = format!(
                "the third party takes the same token with \"Bearer\" and refuses it with \"bearer\", also when it is \
                 asked directly; the case of that word has no meaning (RFC 9110, section 11.1). {}",
                failure.says
            );
        }
    }

    /// Deletes what a test made for itself; if that fails, the clean-up at the end tries again and
    /// says so.
    async fn remove_quietly(&self, key: &Credential, file: &Resource) {
        let removed = within(CONTROL_TIMEOUT, file, steps::delete(&key.client, file)).await;
        if removed.is_ok() {
            self.has_removed(file);
        }
    }
}

/// A file at the third party.
struct Seed {
    file: Resource,
    key: Credential,
    /// What the endpoint is handed to read it.
    access: Access,
}
