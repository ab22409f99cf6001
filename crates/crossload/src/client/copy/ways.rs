//! Copies one file, by the ways of its plan.

use std::sync::Arc;

use remote::{Delegation, Resource};
use storage::local::set_modified;
use tokio::io::{AsyncReadExt as _, AsyncWrite};
use transfer::route::{Plan, Preference, Way, route};
use transfer::{
    BetweenServers, Comparison, InputSource, News, Order, Outcome, OutputSink, Progress, RemoteSink, RemoteSource,
    Sink, Source, StoreSink, StoreSource, Uncompared, Verification, Verified, WayNews, copy,
};
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Result, Side};

use super::super::place::Place;
use super::super::report::{Places, Report};
use super::super::session::ClientContext;
use super::late_end::LateEnd;
use crate::command_line::TransferOptions;
use crate::next_step::SAME_FILE;

/// One file to copy.
pub(super) struct FileCopy<'a> {
    pub(super) session: &'a ClientContext,
    pub(super) options: &'a TransferOptions,
    pub(super) delegation: Delegation,
    pub(super) report: &'a Report,
    pub(super) source: &'a Place,
    pub(super) target: &'a Place,
    pub(super) order: Order,
    /// The destination has just reported that it has no such file.
    pub(super) is_absent: bool,
    pub(super) progress: &'a Progress,
    /// The trace of its requests, so that logs of all servers know them as one copy.
    pub(super) traceparent: String,
}

/// The result of a copy.
pub(super) struct Copied {
    pub(super) bytes: u64,
    pub(super) way: Way,
    pub(super) verified: std::result::Result<String, NotCompared>,
    /// The file has the modification time of the source, if that was asked for.
    pub(super) keeps_modified: bool,
}

/// Why no checksums were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotCompared {
    NotAsked,
    NoneAtSource,
    NoneAtDestination,
    /// The file system of this machine made the copy.
    Local,
    Stdio,
}

impl NotCompared {
    /// The name in reports for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotAsked => "not_asked",
            Self::NoneAtSource => "none_at_source",
            Self::NoneAtDestination => "none_at_destination",
            Self::Local => "local",
            Self::Stdio => "stdio",
        }
    }

    /// The text for users.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::NotAsked => "not asked for",
            Self::NoneAtSource => "the source reports none",
            Self::NoneAtDestination => "the destination reports none of the same kind",
            Self::Local => "the file system makes the copy",
            Self::Stdio => "standard output has none",
        }
    }

    /// Whether the user should know, although the copy has succeeded.
    pub(crate) fn is_notable(self) -> bool {
        matches!(self, Self::NoneAtSource | Self::NoneAtDestination)
    }
}

impl From<Uncompared> for NotCompared {
    fn from(why: Uncompared) -> Self {
        match why {
            Uncompared::NotAsked => Self::NotAsked,
            Uncompared::NoneAtSource => Self::NoneAtSource,
            Uncompared::NoneAtDestination => Self::NoneAtDestination,
        }
    }
}

impl Copied {
    fn new(outcome: Outcome, way: Way) -> Self {
        Self {
            bytes: outcome.bytes,
            way,
            verified: words(&outcome.verified),
            keeps_modified: outcome.keeps_modified,
        }
    }
}

/// The checksum that both sides have.
fn words(verified: &Verified) -> std::result::Result<String, NotCompared> {
    match verified {
        Verified::Agreed(checksum) => Ok(checksum.to_string()),
        Verified::SizeOnly(why) => Err((*why).into()),
    }
}

/// The ways of a file.
///
/// # Errors
/// That there is no way.
pub(super) async fn plan(job: &FileCopy<'_>) -> Result<Plan> {
    let client = &job.session.client;
    let Some(ends) = job.server_ends() else {
        let (from, to) = (job.source.end(client)?, job.target.end(client)?);
        return route(Preference::from(job.options.mode), &from, &to);
    };
    job.between(&ends).plan().await
}

/// Both ends, if both are servers.
struct ServerEnds {
    source: Resource,
    destination: Resource,
}

impl WayNews for FileCopy<'_> {
    fn tell(&self, news: News<'_>) {
        match news {
            News::Begun(_) | News::DestinationSays(_) | News::WithMacaroon | News::Withheld(_) => {}
            News::WithoutProxy(why) => self.report.without_proxy(self.source, why),
            News::Delegated(server) => {
                let server = server.authority();
                self.report
                    .note(&format!("{server} acts with a proxy that you delegated to it"));
            }
            News::NoMacaroon(words) => self.report.note(words),
            News::FoundWhole(destination, lost) => self.report.found_whole(destination, lost),
            News::WayFailed(way, error, next) => {
                let (source, destination) = (self.source, self.target);
                let places = Places { source, destination };
                self.report.mode_failed(&places, way, error, next);
            }
        }
    }
}

impl FileCopy<'_> {
    fn server_ends(&self) -> Option<ServerEnds> {
        let (Place::Remote(source), Place::Remote(target)) = (self.source, self.target) else {
            return None;
        };
        Some(ServerEnds {
            source: self.source_at(source),
            destination: self.target_at(target),
        })
    }

    fn between<'a>(&'a self, ends: &'a ServerEnds) -> BetweenServers<'a> {
        BetweenServers {
            client: &self.session.client,
            source: &ends.source,
            destination: &ends.destination,
            order: &self.order,
            preference: Preference::from(self.options.mode),
            delegation: self.delegation,
            is_absent: self.is_absent,
            // With `--checksum`, checksums are compared before and after.
            compares: match self.options.checksum {
                None if self.order.verification != Verification::Never => Comparison::Sides,
                _ => Comparison::Size,
            },
            stall: None,
            learned: &self.session.abilities,
            budget: &self.session.budget,
            progress: self.progress,
            news: self,
        }
    }

    /// Copies the file by the ways of the plan, until one works or no other can help.
    ///
    /// # Errors
    /// The failure with side, phase and the peer's words. The plan records all attempts.
    pub(super) async fn copy(&self, plan: &mut Plan) -> Result<Copied> {
        if let Some(ends) = self.server_ends() {
            let copied = self.between(&ends).copy(plan).await?;
            return Ok(Copied {
                bytes: copied.bytes,
                way: copied.way,
                verified: words(&copied.verified),
                keeps_modified: copied.keeps_modified,
            });
        }
        let copied = self.by(plan.way()).await;
        if let Err(error) = &copied {
            plan.after(error);
        }
        copied
    }

    /// Copies the file by one way.
    async fn by(&self, way: Way) -> Result<Copied> {
        let files = &self.session.files;
        match (way, self.source, self.target) {
            (Way::Download, Place::Remote(source), Place::Local(path)) => {
                let sink = StoreSink::new(files, path);
                self.move_here(self.remote_source(source), &sink, way).await
            }
            (Way::Download, Place::Remote(source), Place::Stdio) => {
                let output: Box<dyn AsyncWrite + Send + Unpin> = match self.options.discards {
                    true => Box::new(tokio::io::sink()),
                    false => Box::new(tokio::io::stdout()),
                };
                let sink = OutputSink::new(output);
                self.move_by(self.remote_source(source), &sink, &self.unasked(), way)
                    .await
            }
            (Way::Upload, Place::Local(path), Place::Remote(target)) => {
                let source = Arc::new(StoreSource::open(files, path).await?);
                self.move_here(source, &self.remote_sink(target), way).await
            }
            (Way::Upload, Place::Stdio, Place::Remote(target)) => {
                let source = Arc::new(InputSource::new(tokio::io::stdin().chain(LateEnd::default())));
                self.move_here(source, &self.remote_sink(target), way).await
            }
            (Way::Local, Place::Local(source), Place::Local(target)) => self.on_this_machine(source, target).await,
            _ => Err(Error::new(ErrorCode::Internal, Side::Client, Phase::Open)),
        }
    }

    /// Copies through this process.
    async fn move_here(&self, source: Arc<dyn Source>, sink: &dyn Sink, way: Way) -> Result<Copied> {
        self.move_by(source, sink, &self.order, way).await
    }

    /// The order for standard output and local copies: only the data is requested, and nothing is
    /// compared without `--checksum`.
    fn unasked(&self) -> Order {
        Order {
            verification: Verification::Never,
            ask_first: false,
            ..self.order.clone()
        }
    }

    async fn move_by(&self, source: Arc<dyn Source>, sink: &dyn Sink, order: &Order, way: Way) -> Result<Copied> {
        let outcome = copy(&source, sink, order, &self.session.budget, self.progress).await;
        let is_output = *self.target == Place::Stdio;
        outcome.map(|outcome| match Copied::new(outcome, way) {
            copied if is_output && copied.verified.is_err() => Copied {
                verified: Err(NotCompared::Stdio),
                ..copied
            },
            copied => copied,
        })
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
        let mut resource = self.session.labelled(location, side, self.options.scitag);
        resource.access.traceparent = Some(self.traceparent.clone());
        resource.access.steps = self.progress.steps();
        resource
    }

    /// Copies through this process: the file system knows no rate.
    async fn limited_here(&self, source: &LogicalPath, target: &LogicalPath) -> Result<Copied> {
        let files = &self.session.files;
        let from = Arc::new(StoreSource::open(files, source).await?);
        let sink = StoreSink::new(files, target);
        let copied = self.move_by(from, &sink, &self.unasked(), Way::Local).await?;
        Ok(Copied {
            verified: Err(NotCompared::Local),
            keeps_modified: true,
            ..copied
        })
    }

    async fn on_this_machine(&self, source: &LogicalPath, target: &LogicalPath) -> Result<Copied> {
        if source == target {
            let error = Error::new(ErrorCode::Exists, Side::Destination, Phase::Open);
            return Err(error.with_detail(SAME_FILE).with_subject(target));
        }
        if !self.order.rates.is_empty() {
            return self.limited_here(source, target).await;
        }
        let copied = self.session.files.copy(source, target, self.order.overwrite).await;
        let stat = copied.map_err(|error| match error.subject() == Some(source.as_str()) {
            true => error.at_side(Side::Source),
            false => error.at_side(Side::Destination),
        })?;
        if let Some(modified) = self.order.modified {
            let target = target.clone();
            let set = move || set_modified(&target, modified);
            execution::blocking_try(Side::Destination, Phase::Commit, set).await?;
        }
        self.progress.set_moved(stat.size_bytes);
        Ok(Copied {
            bytes: stat.size_bytes,
            way: Way::Local,
            verified: Err(NotCompared::Local),
            keeps_modified: true,
        })
    }
}
