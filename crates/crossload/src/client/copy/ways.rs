//! Copies one file, by the ways of its plan.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use remote::{Delegation, DelegationOutcome, Direction, Resource};
use transfer::limits::SETTLE_WAIT;
use transfer::route::{Plan, Preference, Way, route};
use transfer::{
    InputSource, Order, Outcome, OutputSink, Progress, RemoteSink, RemoteSource, Sink, Source, StoreSink, StoreSource,
    ThirdParty, Verification, Verified, copy,
};
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Result, Side};

use super::super::place::Place;
use super::super::report::Report;
use super::super::session::ClientContext;
use crate::command_line::{CopyOptions, Mode};

/// How long a destination may take to say from which servers it fetches. After that, only the
/// attempt shows it.
const ABILITY_WAIT: Duration = Duration::from_secs(5);

/// One file to copy.
pub(super) struct FileCopy<'a> {
    pub(super) session: &'a ClientContext,
    pub(super) options: &'a CopyOptions,
    pub(super) report: &'a Report,
    pub(super) source: &'a Place,
    pub(super) target: &'a Place,
    pub(super) order: Order,
    /// The destination has just reported that it has no such file.
    pub(super) is_absent: bool,
    pub(super) progress: &'a Progress,
}

/// The result of a copy.
pub(super) struct Copied {
    pub(super) bytes: u64,
    pub(super) way: Way,
    pub(super) verified: Option<String>,
}

impl Copied {
    fn new(outcome: Outcome, way: Way) -> Self {
        Self {
            bytes: outcome.bytes,
            way,
            verified: words(&outcome.verified),
        }
    }
}

/// The checksum that both sides have.
fn words(verified: &Verified) -> Option<String> {
    match verified {
        Verified::Agreed(checksum) => Some(checksum.to_string()),
        Verified::SizeOnly => None,
    }
}

/// The ways of a file.
///
/// # Errors
/// That there is no way.
pub(super) async fn plan(
    session: &ClientContext,
    options: &CopyOptions,
    source: &Place,
    target: &Place,
) -> Result<Plan> {
    let client = &session.client;
    let (from, mut to) = (source.end(client)?, target.end(client)?);
    let with_proxy = has_way_with_proxy(session, options, target);
    let preference = match (options.mode, options.delegation()) {
        (Mode::Auto | Mode::Pull, Delegation::Only) if with_proxy => Preference::DelegatedPull,
        // A copy through this machine would need no delegation.
        (Mode::Auto, Delegation::Only) => Preference::Pull,
        (mode, _) => Preference::from(mode),
    };
    if with_proxy {
        to = to.with_proxy();
    }
    let (Place::Remote(source), Place::Remote(target)) = (source, target) else {
        return route(preference, &from, &to);
    };
    if preference == Preference::Any || with_proxy {
        ask_destination(session, target, source, with_proxy).await;
    }
    let learned = &session.abilities;
    let (from, to) = (learned.end_of(from, source, target), learned.end_of(to, target, source));
    route(preference, &from, &to)
}

/// Whether a pull with a delegated proxy is a way of its own. Other servers get their proxy with
/// the order for a usual pull or push.
fn has_way_with_proxy(session: &ClientContext, options: &CopyOptions, target: &Place) -> bool {
    let Place::Remote(target) = target else {
        return false;
    };
    let may_pull = matches!(options.mode, Mode::Auto | Mode::Pull);
    may_pull && options.delegation().is_wanted() && session.client.abilities(target).pulls_with_proxy
}

/// Asks the destination whether it fetches from servers such as the source, and with delegated
/// proxies, where its protocol has such questions, once for each command. A pull goes first, so
/// sources are not asked.
async fn ask_destination(session: &ClientContext, location: &Location, other: &Location, delegates: bool) {
    if session.abilities.is_known(location, other) {
        return;
    }
    let server = session.resource(location, Side::Destination);
    let question = session.client.copy_abilities(&server, other, delegates);
    let told = tokio::time::timeout(ABILITY_WAIT, question).await;
    let told = told.ok().and_then(Result::ok).unwrap_or_default();
    session.abilities.note_told(location, other, told);
}

impl FileCopy<'_> {
    /// Copies the file by the ways of the plan, until one works or no other can help.
    ///
    /// # Errors
    /// The failure with side, phase and the peer's words. The plan records all attempts.
    pub(super) async fn copy(&self, plan: &mut Plan) -> Result<Copied> {
        let no_proxy = plan
            .passed_over()
            .iter()
            .find(|choice| choice.way == Way::DelegatedPull);
        if let Some(choice) = no_proxy {
            self.report.without_proxy(choice.reason.words());
        }
        loop {
            let way = plan.way();
            let copied = self.by(way).await;
            if let (Place::Remote(source), Place::Remote(target)) = (self.source, self.target) {
                let abilities = &self.session.abilities;
                abilities.note_outcome(way, source, target, copied.as_ref().err());
            }
            let error = match copied {
                Err(error) => error,
                copied => return copied,
            };
            let Some(next) = plan.after(&error) else {
                return Err(error);
            };
            self.report.mode_failed(way, &error, next);
            self.progress.set_moved(0);
        }
    }

    /// Copies the file by one way.
    async fn by(&self, way: Way) -> Result<Copied> {
        let files = &self.session.files;
        match (way, self.source, self.target) {
            (Way::DelegatedPull | Way::Pull | Way::Push, Place::Remote(source), Place::Remote(target)) => {
                self.third_party(source, target, way).await
            }
            (Way::Stream, Place::Remote(source), Place::Remote(target)) => {
                self.move_here(self.remote_source(source), &self.remote_sink(target), way)
                    .await
            }
            (Way::Download, Place::Remote(source), Place::Local(path)) => {
                let sink = StoreSink::new(files, path);
                self.move_here(self.remote_source(source), &sink, way).await
            }
            (Way::Download, Place::Remote(source), Place::Stdio) => {
                let sink = OutputSink::new(tokio::io::stdout());
                self.move_by(self.remote_source(source), &sink, &self.unasked(), way)
                    .await
            }
            (Way::Upload, Place::Local(path), Place::Remote(target)) => {
                let source = Arc::new(StoreSource::open(files, path).await?);
                self.move_here(source, &self.remote_sink(target), way).await
            }
            (Way::Upload, Place::Stdio, Place::Remote(target)) => {
                let source = Arc::new(InputSource::new(tokio::io::stdin()));
                self.move_by(source, &self.remote_sink(target), &self.unasked(), way)
                    .await
            }
            (Way::Local, Place::Local(source), Place::Local(target)) => self.on_this_machine(source, target).await,
            _ => Err(Error::new(ErrorCode::Internal, Side::Client, Phase::Open)),
        }
    }

    /// Copies through this process.
    async fn move_here(&self, source: Arc<dyn Source>, sink: &dyn Sink, way: Way) -> Result<Copied> {
        self.move_by(source, sink, &self.order, way).await
    }

    /// The order for standard input and output: only the data is requested, and nothing is compared
    /// without `--checksum`.
    fn unasked(&self) -> Order {
        Order {
            verification: Verification::Never,
            ask_first: false,
            ..self.order.clone()
        }
    }

    async fn move_by(&self, source: Arc<dyn Source>, sink: &dyn Sink, order: &Order, way: Way) -> Result<Copied> {
        let outcome = copy(&source, sink, order, &self.session.budget, self.progress).await;
        outcome.map(|outcome| Copied::new(outcome, way))
    }

    fn remote_source(&self, location: &Location) -> Arc<dyn Source> {
        Arc::new(RemoteSource::new(&self.session.client, &self.source_at(location)))
    }

    fn remote_sink(&self, location: &Location) -> RemoteSink {
        RemoteSink::new(&self.session.client, &self.target_at(location))
    }

    fn source_at(&self, location: &Location) -> Resource {
        self.resource(location, Side::Source)
    }

    fn target_at(&self, location: &Location) -> Resource {
        self.resource(location, Side::Destination)
    }

    fn resource(&self, location: &Location, side: Side) -> Resource {
        Resource {
            location: location.clone(),
            access: self.session.access(self.options.scitag),
            side,
        }
    }

    /// Whether the active server gets a proxy with an order for this way.
    fn delegation(&self, way: Way) -> Delegation {
        match way {
            Way::DelegatedPull => Delegation::Only,
            Way::Pull if has_way_with_proxy(self.session, self.options, self.target) => Delegation::Never,
            _ => self.options.delegation(),
        }
    }

    /// A third-party copy.
    async fn third_party(&self, source: &Location, target: &Location, way: Way) -> Result<Copied> {
        let is_offered = self.session.abilities.pulls(target, source);
        let (source, destination) = (self.source_at(source), self.target_at(target));
        let (direction, passive) = match way {
            Way::Push => (Direction::Push, &destination),
            _ => (Direction::Pull, &source),
        };
        let delegation = self.delegation(way);
        let client = &self.session.client;
        let shown = match delegation {
            Delegation::Only => client.shown_with_proxy(passive),
            _ => client.shown_in_copy(passive, direction).await,
        };
        if let Some(note) = &shown.note {
            self.report.note(note);
        }
        let delegated = OnceLock::new();
        let ordered = ThirdParty {
            client: &self.session.client,
            source: &source,
            destination: &destination,
            direction,
            shown: &shown.access,
            delegation,
            delegated: &delegated,
            order: &self.order,
            is_absent: self.is_absent,
            is_offered,
            // With `--checksum`, checksums are compared before and after.
            compares: self.options.checksum.is_none(),
            settle: SETTLE_WAIT,
            progress: self.progress,
        };
        let outcome = ordered.copy().await;
        match delegated.get() {
            Some(DelegationOutcome::Without(why)) => self.report.without_proxy(why),
            Some(DelegationOutcome::Delegated) => {
                let server = ordered.active().location.authority();
                self.report
                    .note(&format!("{server} acts with a proxy that you delegated to it"));
            }
            None => {}
        }
        let outcome = outcome?;
        if let Some(lost) = &outcome.lost {
            self.report.found_whole(&destination.location, lost);
        }
        Ok(Copied {
            bytes: outcome.bytes,
            way,
            verified: words(&outcome.verified),
        })
    }

    async fn on_this_machine(&self, source: &LogicalPath, target: &LogicalPath) -> Result<Copied> {
        if source == target {
            let error = Error::new(ErrorCode::Exists, Side::Destination, Phase::Open);
            return Err(error
                .with_detail("source and destination are the same file")
                .with_subject(target));
        }
        let stat = self.session.files.copy(source, target, self.order.overwrite).await?;
        self.progress.set_moved(stat.size_bytes);
        Ok(Copied {
            bytes: stat.size_bytes,
            way: Way::Local,
            verified: None,
        })
    }
}
