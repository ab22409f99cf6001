//! A copy between two servers, by the ways of its plan: the first that works, of those that
//! [`route`](crate::route::route) found. What the servers show of their abilities is kept for
//! further copies.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use remote::{
    Client, CopiedWithin, CopyAbilities, Delegation, DelegationOutcome, Direction, Resource, ShownInCopy, WithinOptions,
};
use storage::Overwrite;
use types::{Error, ErrorCode, Location, Phase, Result, Side};

use crate::budget::Budget;
use crate::engine::{RemoteSink, RemoteSource, Source, copy};
use crate::limits::{ABILITY_WAIT, SETTLE_WAIT};
use crate::options::{Order, Verification, Verified};
use crate::progress::Progress;
use crate::route::{Ability, End, LearnedAbilities, Plan, Preference, Reason, Way, route};
use crate::stopped::remove_stopped;
use crate::third_party::{Comparison, ThirdParty};
use crate::verify::compare;

/// What is worth telling while a copy runs.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// This way begins.
    Begun(Way),
    /// The active server gets no proxy, for this reason.
    WithoutProxy(&'a str),
    /// The active server acts with a proxy of the client.
    Delegated(&'a Location),
    /// The destination was asked what it can do in copies with servers such as the source.
    DestinationSays(CopyAbilities),
    /// The passive server gave out a macaroon, which it is shown.
    WithMacaroon,
    /// It gave out none, in these words.
    NoMacaroon(&'a str),
    /// This way is not taken: the active server would need a token that no other server gets, and
    /// there is no macaroon instead.
    Withheld(Way),
    /// The active server was lost, but this file is whole.
    FoundWhole(&'a Location, &'a Error),
    /// A way failed, and the next one begins.
    WayFailed(Way, &'a Error, Way),
}

/// Hears the news of a copy. All calls must return at once.
pub trait WayNews: Sync {
    /// Something happened.
    fn tell(&self, news: News<'_>);
}

/// A copy between two servers.
#[derive(Clone, Copy)]
pub struct BetweenServers<'a> {
    /// The client that orders it, or moves it.
    pub client: &'a Client,
    /// The source, with the client's access.
    pub source: &'a Resource,
    /// The destination, with the client's access.
    pub destination: &'a Resource,
    /// Overwriting, streams, verification, and the expected checksum.
    pub order: &'a Order,
    /// The wanted way.
    pub preference: Preference,
    /// Whether an active server gets a proxy of the client.
    pub delegation: Delegation,
    /// The destination has just reported that it has no such file.
    pub is_absent: bool,
    /// What is compared after a third-party copy.
    pub compares: Comparison,
    /// As [`ThirdParty::stall`].
    pub stall: Option<Duration>,
    /// What the servers have shown of their abilities.
    pub learned: &'a LearnedAbilities,
    /// The limits that it shares with other copies.
    pub budget: &'a Budget,
    /// Counts the bytes.
    pub progress: &'a Progress,
    /// Hears what happens.
    pub news: &'a dyn WayNews,
}

/// The result of a copy.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Bytes of the file.
    pub bytes: u64,
    /// The way that it took.
    pub way: Way,
    /// What was compared.
    pub verified: Verified,
    /// The destination gave the file the time of [`Order::modified`].
    pub keeps_modified: bool,
}

impl BetweenServers<'_> {
    /// The ends of the copy with what their protocols, and earlier copies, say of them; asks the
    /// destination what it can do if that is not known and matters.
    ///
    /// # Errors
    /// `bad_url` if the client does not speak to one of them; `exists` if both are one file.
    pub async fn ends(&self) -> Result<(End, End)> {
        let (source, destination) = (&self.source.location, &self.destination.location);
        // Many servers empty the file when it is opened for writing, before it has been read.
        if source.names_to(destination).is_some_and(|names| names.is_empty()) || self.is_one_file().await {
            let error = Error::new(ErrorCode::Exists, Side::Destination, Phase::Open);
            return Err(error
                .with_detail("source and destination are the same file")
                .with_subject(destination));
        }
        let (mut from, mut to) = (End::at(self.client, source)?, End::at(self.client, destination)?);
        let [of_source, of_destination] = [source, destination].map(|place| self.client.abilities(place));
        if of_source.needs_signed_urls && !of_destination.uses_signed_urls {
            to.pulls = Ability::No;
        }
        if of_destination.needs_signed_urls && !of_source.uses_signed_urls {
            from.pushes = Ability::No;
        }
        let with_proxy = self.has_way_with_proxy();
        if with_proxy {
            to = to.with_proxy();
        }
        let is_open = matches!(self.preference, Preference::Any | Preference::Direct);
        if is_open || with_proxy {
            self.ask_destination(with_proxy).await;
        }
        let learned = self.learned;
        Ok((
            learned.end_of(from, source, destination),
            learned.end_of(to, destination, source),
        ))
    }

    /// Whether the server says that both names are of one file, by a link. Over HTTP it does not.
    async fn is_one_file(&self) -> bool {
        let (source, destination) = (&self.source.location, &self.destination.location);
        let replaces = self.order.overwrite == Overwrite::Allow && !self.is_absent;
        if !replaces || !source.is_xrootd() || !source.same_origin(destination) {
            return false;
        }
        let [from, to] = [self.source, self.destination].map(|file| self.client.head(file, &[]));
        let (Ok(from), Ok(to)) = tokio::join!(from, to) else {
            return false;
        };
        // Identifiers may be cut: time and size are those of one file, too.
        let identities = from.identity.as_ref().zip(to.identity.as_ref());
        identities.and_then(|(from, to)| from.is_same(to)) == Some(true) && from.validator() == to.validator()
    }

    /// The ways of the file.
    ///
    /// # Errors
    /// As [`BetweenServers::ends`], or that there is no way.
    pub async fn plan(&self) -> Result<Plan> {
        let (from, to) = self.ends().await?;
        let (source, destination) = (&self.source.location, &self.destination.location);
        let fails = |way| self.learned.fails_between(way, source, destination);
        Ok(self.plan_of(&from, &to)?.without(fails))
    }

    /// The ways between these ends.
    ///
    /// # Errors
    /// That there is no way.
    pub fn plan_of(&self, from: &End, to: &End) -> Result<Plan> {
        let preference = match (self.preference, self.delegation) {
            (Preference::Any | Preference::Pull | Preference::Direct, Delegation::Only)
                if self.has_way_with_proxy() =>
            {
                Preference::DelegatedPull
            }
            // A copy through this machine would need no delegation.
            (Preference::Any, Delegation::Only) => Preference::Pull,
            (preference, _) => preference,
        };
        let is_open = matches!(preference, Preference::Any | Preference::Direct);
        if !is_open || !self.client.copies_within(self.source, self.destination) {
            return route(preference, from, to);
        }
        Ok(match route(preference, from, to) {
            Ok(others) => others.with_first(Way::Within, Reason::OneServer),
            Err(_) => Plan::only(Way::Within, Reason::OneServer),
        })
    }

    /// The server copies by itself. What it has then is compared with the source.
    async fn within(&self) -> Result<Copied> {
        let options = WithinOptions {
            overwrite: self.order.overwrite == Overwrite::Allow,
            is_absent: self.is_absent,
        };
        self.progress.note_begun();
        let copied = self.client.copy_within(self.source, self.destination, &options).await?;
        let verified = self.compare_within(&copied);
        let is_wrong = verified
            .as_ref()
            .is_err_and(|error| error.code() != ErrorCode::ChecksumUnavailable);
        if is_wrong && copied.version.is_some() {
            self.client
                .delete_version(self.destination, copied.version.as_ref())
                .await?;
        }
        let bytes = copied.target.size_bytes.unwrap_or(0);
        self.progress.set_moved(bytes);
        Ok(Copied {
            bytes,
            way: Way::Within,
            verified: verified?,
            keeps_modified: false,
        })
    }

    fn compare_within(&self, copied: &CopiedWithin) -> Result<Verified> {
        if copied.source.size_bytes != copied.target.size_bytes
            && let Some(words) = copied.difference()
        {
            let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Destination, Phase::Checksum);
            return Err(error.with_detail(words).with_subject(&self.destination.location));
        }
        let theirs: &[_] = match self.order.verification {
            Verification::Never => &[],
            _ => &copied.source.checksums,
        };
        compare(self.order, &copied.target.checksums, theirs, Side::Destination)
    }

    /// Whether a pull with a delegated proxy is a way of its own. Other servers get their proxy
    /// with the order for a usual pull or push.
    fn has_way_with_proxy(&self) -> bool {
        let may_pull = !matches!(self.preference, Preference::Push | Preference::Stream);
        let abilities = self.client.abilities(&self.destination.location);
        may_pull && self.delegation.is_wanted() && abilities.pulls_with_proxy
    }

    /// Asks the destination whether it fetches from servers such as the source, and with delegated
    /// proxies, where its protocol has such questions. A pull goes first, so sources are not asked.
    async fn ask_destination(&self, delegates: bool) {
        let (location, other) = (&self.destination.location, &self.source.location);
        if self.learned.is_known(location, other) {
            return;
        }
        let question = self.client.copy_abilities(self.destination, other, delegates);
        let told = tokio::time::timeout(ABILITY_WAIT, question).await;
        let told = told.ok().and_then(Result::ok).unwrap_or_default();
        self.learned.note_told(location, other, told);
        self.news.tell(News::DestinationSays(told));
    }

    /// Copies the file by the ways of the plan, until one works or no other can help.
    ///
    /// # Errors
    /// The failure with side, phase and the peer's words. The plan records all attempts.
    pub async fn copy(&self, plan: &mut Plan) -> Result<Copied> {
        let no_proxy = plan
            .passed_over()
            .iter()
            .find(|choice| choice.way == Way::DelegatedPull);
        if let Some(choice) = no_proxy {
            self.news.tell(News::WithoutProxy(choice.reason.words()));
        }
        let mut failed: Vec<(Way, Error)> = Vec::new();
        loop {
            let way = plan.way();
            self.news.tell(News::Begun(way));
            let mut acts_as_client = true;
            let copied = self.by(way, &mut acts_as_client).await;
            let (source, destination) = (&self.source.location, &self.destination.location);
            let learned = self.learned;
            learned.note_outcome(way, source, destination, copied.as_ref().err());
            let error = match copied {
                Err(error) => error,
                copied => {
                    learned.note_copied(way, &failed, source, destination);
                    return copied;
                }
            };
            let next = match acts_as_client {
                true => plan.after(&error),
                false => plan.after_unshown(&error),
            };
            // The caller waits, and then begins with the first way.
            let is_put_off = error.asks_to_wait() && self.destination.access.returns_delays;
            let Some(next) = next.filter(|_| !is_put_off) else {
                let earlier: Vec<Error> = failed.into_iter().rev().map(|(_, error)| error).collect();
                return Err(most_telling(earlier, error));
            };
            self.news.tell(News::WayFailed(way, &error, next));
            self.progress.set_moved(0);
            failed.push((way, error));
        }
    }

    /// Removes what a copy left that was ended from outside, if it is proven ours. A server that
    /// still writes shows by the growth of its file. Returns the error, with a word about a part
    /// that may be left.
    pub async fn clean_up(&self, error: Error) -> Error {
        let source: Arc<dyn Source> = Arc::new(RemoteSource::new(self.client, self.source));
        let sink = RemoteSink::new(self.client, self.destination);
        remove_stopped(&source, &sink, self.is_absent, self.progress, error).await
    }

    /// As [`BetweenServers::clean_up`], after a copy that was stopped: only where the server named
    /// the file that it created for it, since nothing else would prove a part ours.
    pub async fn remove_created(&self) {
        if self.progress.has_created() {
            let error = Error::new(ErrorCode::Cancelled, Side::Client, self.progress.phase());
            self.clean_up(error).await;
        }
    }

    /// Copies the file by one way, and says whether who moves it acts as the client at both ends.
    async fn by(&self, way: Way, acts_as_client: &mut bool) -> Result<Copied> {
        match way {
            Way::DelegatedPull | Way::Pull | Way::Push => self.third_party(way, acts_as_client).await,
            Way::Stream => self.through_here().await,
            Way::Within => self.within().await,
            Way::Local | Way::Download | Way::Upload => Err(Error::new(ErrorCode::Internal, Side::Client, Phase::Open)),
        }
    }

    async fn through_here(&self) -> Result<Copied> {
        let source: Arc<dyn Source> = Arc::new(RemoteSource::new(self.client, self.source));
        let sink = RemoteSink::new(self.client, self.destination);
        let outcome = copy(&source, &sink, self.order, self.budget, self.progress).await?;
        Ok(Copied {
            bytes: outcome.bytes,
            way: Way::Stream,
            verified: outcome.verified,
            keeps_modified: outcome.keeps_modified,
        })
    }

    /// Whether the active server gets a proxy with an order for this way.
    fn delegation(&self, way: Way) -> Delegation {
        match way {
            Way::DelegatedPull => Delegation::Only,
            Way::Pull if self.has_way_with_proxy() => Delegation::Never,
            _ => self.delegation,
        }
    }

    async fn third_party(&self, way: Way, acts_as_client: &mut bool) -> Result<Copied> {
        let (direction, passive) = match way {
            Way::Push => (Direction::Push, self.destination),
            _ => (Direction::Pull, self.source),
        };
        let delegation = self.delegation(way);
        let shown = match delegation {
            Delegation::Only => self.client.shown_with_proxy(passive),
            _ => self.client.shown_in_copy(passive, direction).await,
        };
        if let Some(note) = &shown.note {
            self.news.tell(News::NoMacaroon(note));
        } else if shown.access.bearer.is_some() && is_macaroon(passive, &shown) {
            self.news.tell(News::WithMacaroon);
        }
        let active = match direction {
            Direction::Push => self.source,
            Direction::Pull => self.destination,
        };
        if let Err(error) = shown.check_shown(passive, &active.location) {
            self.news.tell(News::Withheld(way));
            return Err(error);
        }
        let delegated = OnceLock::new();
        let ordered = ThirdParty {
            client: self.client,
            source: self.source,
            destination: self.destination,
            direction,
            shown: &shown.access,
            delegation,
            delegated: &delegated,
            order: self.order,
            is_absent: self.is_absent,
            is_offered: self.learned.pulls(&self.destination.location, &self.source.location),
            compares: self.compares,
            stall: self.stall,
            settle: SETTLE_WAIT,
            progress: self.progress,
        };
        let outcome = ordered.copy().await;
        let is_delegated = delegation == Delegation::Only || delegated.get() == Some(&DelegationOutcome::Delegated);
        *acts_as_client = is_delegated
            || !self.is_let_in_by_signature(passive) && shows_credential(passive, &active.location, &shown);
        match delegated.get() {
            Some(DelegationOutcome::Without(why)) => self.news.tell(News::WithoutProxy(why)),
            Some(DelegationOutcome::Delegated) => self.news.tell(News::Delegated(&ordered.active().location)),
            None => {}
        }
        let outcome = outcome?;
        if let Some(lost) = &outcome.lost {
            self.news.tell(News::FoundWhole(&self.destination.location, lost));
        }
        Ok(Copied {
            bytes: outcome.bytes,
            way,
            verified: outcome.verified,
            keeps_modified: false,
        })
    }

    /// Whether the active server has no more than a signature for one method: a server that asks
    /// for the file's size first is refused, although the client is not.
    fn is_let_in_by_signature(&self, passive: &Resource) -> bool {
        passive.access.account.is_some() || self.client.abilities(&passive.location).allows_one_method
    }
}

/// The error of a copy whose ways have failed, the last way first: a way that was not taken says
/// less than others, and a file that exists less than the copy that left it there.
fn most_telling(earlier: Vec<Error>, last: Error) -> Error {
    let has_moved = |error: &Error| matches!(error.phase(), Phase::Transfer | Phase::Checksum | Phase::Commit);
    if last.code() == ErrorCode::PeerExists
        && let Some(moved) = earlier.iter().find(|error| has_moved(error))
    {
        return moved.clone();
    }
    match is_withheld(&last) {
        true => earlier.into_iter().min_by_key(is_withheld).unwrap_or(last),
        false => last,
    }
}

/// Whether a way was not taken ([`ShownInCopy::check_shown`]).
fn is_withheld(error: &Error) -> bool {
    error.code() == ErrorCode::PeerUnsupported && error.phase() == Phase::Authenticate
}

/// Whether the order of a copy without a delegated proxy lets the active server in at the passive
/// one as the client: by a token or macaroon, or by a key that the client registers there. Also if
/// the client has nothing to show.
fn shows_credential(passive: &Resource, active: &Location, shown: &ShownInCopy) -> bool {
    let has_none = passive.access.identity.is_none() && passive.access.bearer.is_none();
    let opens_with_key = passive.location.is_xrootd() && active.is_xrootd();
    has_none || opens_with_key || shown.access.bearer.is_some()
}

/// Whether the token that is shown is no token of ours.
fn is_macaroon(passive: &Resource, shown: &ShownInCopy) -> bool {
    passive.access.bearer.is_none() || passive.access.keeps_bearer && !shown.access.keeps_bearer
}
