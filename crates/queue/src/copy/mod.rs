//! Copies one file between two servers: questions before and after, and how errors are reported.
//!
//! The steps are those of FTS's `url-copy`, with fewer round trips: both sides are asked at the
//! same time, and parents are made only if the destination has none.

mod bounds;
mod by_hop;
mod denied;
mod free;
mod locality;
mod lost;
mod order;
mod outcome;
mod report;
mod shown;
mod size;
mod traced;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use catalog::{ChecksumMode, Claimed, CopyMode, ThirdPartyRole};
use remote::{Access, Client, Delegation, Facts, Resource};
use storage::Overwrite;
use tokio::time::timeout;
use transfer::route::{End, LearnedAbilities, Plan, Preference};
use transfer::{BetweenServers, Budget, Comparison, Order, Progress, Streams, Verification};
use types::{Checksum, Error, ErrorCode, Location, Phase, Result, Secret, Side};

use crate::capability::{Capabilities, Credential, LinkSide, Operation};
use crate::clock::now_ms;
use crate::limits::{COPY_STALL, QUESTION_TIME};
use crate::service::{CleanUp, Copier, CopyResult, CopyTime, ExpiryLookup, HopRemoval, Roles, TokenGaps};
use crate::urls::Concealed;
pub(crate) use bounds::time_limit;
use by_hop::{After, under_way, without_copy};
use free::Free;
use lost::Whole;
use order::FileOrder;
pub(crate) use outcome::problem;
use outcome::{failed, is_of_present_way, with_earlier_ways, without};
use traced::Samples;
pub use traced::{attempt_span, submission_span};

/// The credentials of one copy.
#[derive(Clone, Debug, Default)]
pub struct EndAccess {
    /// For the source.
    pub source: Access,
    /// For the destination.
    pub destination: Access,
    /// The whole URL of the source, if the file's record hides a part of it.
    pub source_url: Option<Secret>,
    /// The whole URL of the destination, if the file's record hides a part of it.
    pub destination_url: Option<Secret>,
}

impl EndAccess {
    /// What reports about the copy must not contain.
    pub(crate) fn concealed(&self) -> Concealed {
        let urls = [&self.source_url, &self.destination_url];
        let tokens = [&self.source.bearer, &self.destination.bearer];
        Concealed::of(urls.into_iter().flatten(), tokens.into_iter().flatten())
    }
}

/// The future of a look-up of credentials.
pub type AccessLookup<'a> = Pin<Box<dyn Future<Output = Result<EndAccess>> + Send + 'a>>;

/// The future of a look-up of the credentials for a hop.
pub type HopLookup<'a> = Pin<Box<dyn Future<Output = Result<Access>> + Send + 'a>>;

/// Finds the credentials of copies.
pub trait CopySource: Send + Sync + 'static {
    /// The credentials of a file's job. Asked at the last moment, so that a renewed proxy is used.
    /// For a file that goes by a hop, those of the end that the present part needs.
    fn access<'a>(&'a self, claimed: &'a Claimed) -> AccessLookup<'a>;

    /// What a hop is shown at this URL. The file's tokens are for its two storages only.
    fn hop_access<'a>(&'a self, _claimed: &'a Claimed, _url: &'a str) -> HopLookup<'a> {
        Box::pin(std::future::ready(Ok(Access::default())))
    }

    /// Sentences about tokens whose scopes may not be enough for the file.
    fn token_gaps<'a>(&'a self, _claimed: &'a Claimed) -> TokenGaps<'a> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// The one of them that ends first; `None`: not known, or none ends.
    fn first_end<'a>(&'a self, _claimed: &'a Claimed) -> ExpiryLookup<'a> {
        Box::pin(std::future::ready(None))
    }
}

/// Copies files with our client.
pub struct RemoteCopier {
    client: Client,
    budget: Budget,
    learned: LearnedAbilities,
    capabilities: Arc<Capabilities>,
    source: Arc<dyn CopySource>,
    samples: Samples,
}

impl RemoteCopier {
    /// Copies with this client.
    #[must_use]
    pub fn new(client: Client, budget: Budget, source: Arc<dyn CopySource>) -> Self {
        Self {
            client,
            budget,
            learned: LearnedAbilities::default(),
            capabilities: Arc::default(),
            source,
            samples: Arc::new(|_| false),
        }
    }

    /// What storages have shown of themselves in its copies.
    #[must_use]
    pub fn capabilities(&self) -> Arc<Capabilities> {
        Arc::clone(&self.capabilities)
    }

    /// What the copy is shown, at the ends of the present part of its way.
    async fn access(&self, claimed: &Claimed) -> Result<EndAccess> {
        let mut access = self.source.access(claimed).await?;
        self.at_hop(claimed, &mut access).await?;
        Ok(access)
    }

    fn attempt<'a>(
        &'a self,
        claimed: &'a Claimed,
        access: EndAccess,
        roles: Roles,
        progress: &'a Progress,
    ) -> Result<Attempt<'a>> {
        let order = FileOrder::of(claimed, &access, self.traceparent(claimed, progress))?;
        let (from, to) = (order.source.clone(), order.destination.clone());
        let source = order.resource(from, access.source, Side::Source, claimed);
        let destination = order.resource(to, access.destination, Side::Destination, claimed);
        Ok(Attempt {
            copier: self,
            claimed,
            source,
            destination,
            order,
            roles,
            progress,
            has_macaroon: AtomicBool::new(false),
            has_accepted: AtomicBool::new(false),
            has_lost_part: AtomicBool::new(true),
        })
    }
}

impl std::fmt::Debug for RemoteCopier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("RemoteCopier")
    }
}

impl Copier for RemoteCopier {
    fn copy<'a>(&'a self, claimed: &'a Claimed, roles: Roles, progress: &'a Progress) -> CopyTime<'a> {
        Box::pin(async move {
            let access = match self.access(claimed).await {
                Ok(access) => access,
                Err(error) => return failed(&error, None),
            };
            let concealed = access.concealed();
            let result = match self.attempt(claimed, access, roles, progress) {
                Ok(attempt) => attempt.explained(attempt.run().await),
                Err(error) => failed(&error, None),
            };
            without(&concealed, result)
        })
    }

    fn clean_up<'a>(&'a self, claimed: &'a Claimed, roles: Roles, progress: &'a Progress) -> CleanUp<'a> {
        Box::pin(async move {
            // Credentials may have to be fetched, and nothing else is removed.
            if !progress.has_created() {
                return;
            }
            let Ok(access) = self.access(claimed).await else { return };
            if let Ok(attempt) = self.attempt(claimed, access, roles, progress) {
                attempt.remove_created().await;
            }
        })
    }

    fn credential_end<'a>(&'a self, claimed: &'a Claimed) -> ExpiryLookup<'a> {
        self.source.first_end(claimed)
    }

    fn token_gaps<'a>(&'a self, claimed: &'a Claimed) -> TokenGaps<'a> {
        self.source.token_gaps(claimed)
    }

    fn remove_hop<'a>(&'a self, claimed: &'a Claimed, url: &'a str) -> HopRemoval<'a> {
        Box::pin(self.remove_at_hop(claimed, url))
    }
}

/// One attempt to copy a file.
struct Attempt<'a> {
    copier: &'a RemoteCopier,
    claimed: &'a Claimed,
    order: FileOrder,
    roles: Roles,
    source: Resource,
    destination: Resource,
    progress: &'a Progress,
    /// Whether the passive server is shown a macaroon in the present way.
    has_macaroon: AtomicBool,
    /// Whether both storages answered the questions before the copy.
    has_accepted: AtomicBool,
    /// Whether a file at the destination can be a part that a lost attempt left, by its size.
    has_lost_part: AtomicBool,
}

/// What is known before the copy.
#[derive(Default)]
struct Before {
    source: Option<Facts>,
    /// The checksum that the destination must have.
    expected: Option<Checksum>,
    is_absent: bool,
    /// It exists, and may be overwritten.
    may_replace: bool,
    /// The destination has the file whole from an attempt that was lost.
    whole: Option<Whole>,
}

impl Attempt<'_> {
    async fn run(&self) -> CopyResult {
        let before = match self.prepare_in_time().await {
            Ok(before) => before,
            Err(error) => {
                if let Some(hop) = self.after_loss(&error) {
                    return without_copy(hop);
                }
                return match self.wait_for_lost_part(&error) {
                    Some(waits) => waits,
                    None => failed(&error, self.report(&error).await),
                };
            }
        };
        if let Some(whole) = &before.whole {
            return self.was_there(&before, whole);
        }
        let copied = match self.copy(&before, self.preference()).await {
            Err(error) => match self.way_after(&error) {
                After::Hop(hop) => return without_copy(hop),
                After::Stream => self.copy(&before, Preference::Stream).await,
                After::Nothing => Err(error),
            },
            copied => copied,
        };
        let copied = match copied {
            Ok(copied) => self.check_size(copied).await,
            failed => failed,
        };
        match copied {
            Ok(copied) => self.arrived(&before, &copied),
            // Strict copies learn only here that the destination has a file.
            Err(error) => self.wait_for_lost_part(&error).unwrap_or_else(|| failed(&error, None)),
        }
    }

    /// The questions take no longer than the job lets the copy take: then the attempt counts, also
    /// where a storage that never answers would hold its link.
    async fn prepare_in_time(&self) -> Result<Before> {
        let options = &self.claimed.job.options;
        let asking = async {
            match options.is_strict_copy {
                true => Ok(self.prepare_strictly().await),
                false => self.prepare().await,
            }
        };
        let Some(seconds) = options.timeout_s.filter(|seconds| *seconds > 0) else {
            return asking.await;
        };
        let asked = timeout(Duration::from_secs(seconds.into()), asking).await;
        asked.unwrap_or_else(|_| {
            let error = Error::new(ErrorCode::PeerStalled, Side::Active, self.progress.phase());
            let words = format!("a storage did not answer within the {seconds} s that the job gives a copy");
            Err(error.with_detail(words).with_subject(&self.source.location))
        })
    }

    /// As FTS, a strict copy checks nothing. But what is left of a failed copy can be recognised
    /// only if the destination says before that it has no such file; any other answer is ignored.
    async fn prepare_strictly(&self) -> Before {
        self.progress.enter(Phase::Open);
        Before {
            source: None,
            expected: None,
            is_absent: matches!(self.ask_destination().await, Ok(None)),
            may_replace: false,
            whole: None,
        }
    }

    /// Asks both sides at the same time.
    async fn prepare(&self) -> Result<Before> {
        self.progress.enter(Phase::Open);
        let (source, destination) = tokio::join!(self.ask_source(), self.ask_destination());
        let source = source?;
        self.check_given_size(&source)?;
        let expected = self.expected(&source)?;
        let found = destination?;
        self.has_accepted.store(true, Ordering::Relaxed);
        let whole = match &found {
            Some(found) => self.look_at_lost_copy(&source, expected.as_ref(), found).await,
            None => None,
        };
        if whole.is_some() {
            return Ok(Before {
                source: Some(source),
                expected,
                is_absent: false,
                may_replace: false,
                whole,
            });
        }
        let is_absent = self.check_destination(&source, found.as_ref()).await?;
        if let Some(size_bytes) = source.size_bytes {
            self.progress.set_total(size_bytes);
        }
        if is_absent {
            self.prepare_destination(source.size_bytes).await?;
        }
        Ok(Before {
            source: Some(source),
            expected,
            is_absent,
            may_replace: !is_absent,
            whole: None,
        })
    }

    async fn ask_source(&self) -> Result<Facts> {
        let wanted = &self.order.checksum;
        let needed = match wanted.mode {
            ChecksumMode::Source => true,
            ChecksumMode::Both => true,
            ChecksumMode::None | ChecksumMode::Target => false,
        };
        let algorithms: &[_] = if needed { &[wanted.algorithm] } else { &[] };
        let asked = in_time(&self.source, self.copier.client.head(&self.source, algorithms)).await;
        asked.map_err(|error| match (error.code(), needed) {
            // It may be computing: that says nothing of its other files.
            (ErrorCode::PeerStalled, true) => error.in_phase(Phase::Checksum),
            _ => error,
        })
    }

    /// The facts of an existing destination.
    async fn ask_destination(&self) -> Result<Option<Facts>> {
        let asked = in_time(&self.destination, self.copier.client.head(&self.destination, &[])).await;
        match asked {
            Ok(facts) => Ok(Some(facts)),
            Err(error) if matches!(error.code(), ErrorCode::PeerNotFound | ErrorCode::ParentMissing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The size that the client gave must be that of the source.
    fn check_given_size(&self, source: &Facts) -> Result<()> {
        let at_hop = under_way(self.claimed).and_then(|hop| hop.size_bytes);
        let given = self.claimed.file.given_size_bytes.filter(|size| *size > 0).or(at_hop);
        match (given, source.size_bytes) {
            (Some(given), Some(size)) if given != size => {
                let error = Error::new(ErrorCode::PeerSizeDiffers, Side::Source, Phase::Open);
                let words = format!("the job says {given} bytes, the source has {size}");
                Err(error.with_detail(words).with_subject(&self.source.location))
            }
            _ => Ok(()),
        }
    }

    /// The checksum that the destination must have, after the comparison of the source's with the
    /// given one.
    fn expected(&self, source: &Facts) -> Result<Option<Checksum>> {
        let wanted = &self.order.checksum;
        let found = source.checksums.iter().find(|sum| sum.algorithm() == wanted.algorithm);
        let compares_source = matches!(wanted.mode, ChecksumMode::Source | ChecksumMode::Both);
        let Some(found) = found.filter(|_| compares_source) else {
            if compares_source && wanted.given.is_some() {
                let error = Error::new(ErrorCode::ChecksumUnavailable, Side::Source, Phase::Checksum);
                return Err(error.with_subject(&self.source.location));
            }
            return Ok(wanted.given.clone());
        };
        match &wanted.given {
            Some(given) if given != found => {
                let error = Error::new(ErrorCode::ChecksumPrecondition, Side::Source, Phase::Checksum);
                let words = format!("the source has {found}, the job says {given}");
                Err(error.with_detail(words).with_subject(&self.source.location))
            }
            _ => Ok(Some(found.clone())),
        }
    }

    /// Makes missing parents, and asks for space.
    ///
    /// # Errors
    /// `peer_no_space` if the destination says that it has too little; `quota_exceeded` if that is
    /// what its user may still store.
    async fn prepare_destination(&self, size_bytes: Option<u64>) -> Result<()> {
        let Some(parent) = parent(&self.destination.location) else {
            return Ok(());
        };
        let parent = Resource {
            location: parent,
            ..self.destination.clone()
        };
        let client = &self.copier.client;
        let (found, space) = tokio::join!(
            in_time(&parent, client.stat(&parent)),
            in_time(&parent, client.space(&parent))
        );
        let free = Free::of(space.ok(), found.as_ref().ok());
        let absent =
            found.is_err_and(|error| matches!(error.code(), ErrorCode::PeerNotFound | ErrorCode::ParentMissing));
        if absent {
            in_time(&parent, client.make_directories(&parent)).await?;
        }
        // Many servers do not tell; those that have too little refuse the copy then.
        match free.zip(size_bytes).and_then(|(free, size)| free.lack(size)) {
            Some(error) => Err(error.with_subject(&self.destination.location)),
            None => Ok(()),
        }
    }

    async fn copy(&self, before: &Before, preference: Preference) -> Result<transfer::Copied> {
        let options = &self.claimed.job.options;
        let size_bytes = before.source.as_ref().and_then(|facts| facts.size_bytes);
        let limit = time_limit(options.timeout_s, size_bytes, &self.roles.limits);
        let order = self.engine_order(before);
        let between = BetweenServers {
            preference,
            ..self.between(&order, before)
        };
        let mut plan = None;
        let copying = async {
            let plan = plan.insert(self.plan(&between).await?);
            let copied = between.copy(plan).await;
            if is_of_present_way(plan, copied.as_ref().err()) {
                self.note_course(plan.way(), copied.as_ref().err());
            }
            copied
        };
        let copied = match self.in_bounds(limit, copying).await {
            Ok(copied) => copied,
            Err(ended) => Err(between.clean_up(ended).await),
        };
        copied.map_err(|error| match plan {
            Some(plan) => with_earlier_ways(error, &plan),
            None => error,
        })
    }

    fn engine_order(&self, before: &Before) -> Order {
        let options = &self.claimed.job.options;
        let overwrite = match self.order.overwrites || before.may_replace {
            true => Overwrite::Allow,
            false => Overwrite::Refuse,
        };
        Order {
            overwrite,
            streams: match options.streams.filter(|count| *count > 0).or(self.roles.streams) {
                Some(count) => Streams::Fixed(count.into()),
                None => Order::default().streams,
            },
            verification: match self.order.checksum.mode {
                ChecksumMode::None | ChecksumMode::Source => Verification::Never,
                ChecksumMode::Target | ChecksumMode::Both => Verification::WhenAvailable,
            },
            expected: self.target_checksum(before),
            rates: self.roles.rates.clone(),
            ..Order::default()
        }
    }

    /// The checksum that the destination is compared with.
    fn target_checksum(&self, before: &Before) -> Option<Checksum> {
        let compares = matches!(self.order.checksum.mode, ChecksumMode::Target | ChecksumMode::Both);
        before.expected.clone().filter(|_| compares)
    }

    fn between<'b>(&'b self, order: &'b Order, before: &Before) -> BetweenServers<'b> {
        BetweenServers {
            client: &self.copier.client,
            source: &self.source,
            destination: &self.destination,
            order,
            preference: self.preference(),
            delegation: self.delegation(),
            is_absent: before.is_absent,
            compares: match (self.order.checksum.mode, &order.expected) {
                (ChecksumMode::Target | ChecksumMode::Both, Some(_)) => Comparison::Expected,
                (ChecksumMode::Both, None) => Comparison::Sides,
                _ => Comparison::Size,
            },
            stall: Some(COPY_STALL),
            learned: &self.copier.learned,
            budget: &self.copier.budget,
            progress: self.progress,
            news: self,
        }
    }

    fn preference(&self) -> Preference {
        match self.order.copy_mode {
            None if self.roles.limits.never_streams || self.is_direct() => Preference::Direct,
            None => Preference::Any,
            Some(CopyMode::Pull) => Preference::Pull,
            Some(CopyMode::Push) => Preference::Push,
            Some(CopyMode::Streamed) => Preference::Stream,
        }
    }

    /// The active server gets a proxy if the job has one and no tokens.
    fn delegation(&self) -> Delegation {
        let has_tokens = self.source.access.bearer.is_some() || self.destination.access.bearer.is_some();
        let has_proxy = self.source.access.identity.is_some();
        match has_proxy && !has_tokens && !self.roles.never_delegates {
            true => Delegation::First,
            false => Delegation::Never,
        }
    }

    /// The ways of the file, without those that operators rule out.
    async fn plan(&self, between: &BetweenServers<'_>) -> Result<Plan> {
        if self.roles.limits.never_streams && self.order.copy_mode == Some(CopyMode::Streamed) {
            let error = Error::new(ErrorCode::Forbidden, Side::Queue, Phase::Queued);
            return Err(error.with_detail("the virtual organisation allows no copies through the queue's machine"));
        }
        let (source, destination) = between.ends().await?;
        let configured = |end: End, role: ThirdPartyRole| {
            let pulls = matches!(role, ThirdPartyRole::Full | ThirdPartyRole::Pull);
            let pushes = matches!(role, ThirdPartyRole::Full | ThirdPartyRole::Push);
            end.configured(pulls, pushes)
        };
        let source = configured(source, self.roles.source);
        let destination = configured(destination, self.roles.destination);
        let (known, file, now_ms) = (&self.copier.capabilities, &self.claimed.file, now_ms());
        let (from, to) = (&file.source_storage, &file.destination_storage);
        let side = |storage, other, operation| LinkSide {
            storage,
            other,
            operation,
        };
        let shown = Credential::of(&self.source.access);
        let source = known.limited(source, side(from, to, Operation::Read), shown, now_ms);
        let shown = Credential::of(&self.destination.access);
        let destination = known.limited(destination, side(to, from, Operation::Write), shown, now_ms);
        if between.preference == Preference::Direct {
            self.demand_active_side(&source, &destination)?;
        }
        between.plan_of(&source, &destination)
    }
}

/// The answer of a storage, in time.
async fn in_time<T>(asked: &Resource, answer: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout(QUESTION_TIME, answer).await {
        Ok(answer) => answer.map_err(|error| error.at_side(asked.side)),
        Err(_) => {
            let error = Error::new(ErrorCode::PeerStalled, asked.side, Phase::Open);
            let words = format!("no answer within {} s", QUESTION_TIME.as_secs());
            Err(error.with_detail(words).with_subject(&asked.location))
        }
    }
}

/// The directory of a file; `None` for what is in the root.
fn parent(location: &Location) -> Option<Location> {
    let path = location.path().trim_end_matches('/');
    let (above, _) = path.rsplit_once('/')?;
    (!above.trim_matches('/').is_empty()).then(|| location.with_path(above))
}
