//! One cell: the file at the source, its copy, what the destination tells of it, and its removal.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;
use history::{Cell, Failure, Mode, Outcome, Step};
use remote::{Delegation, Resource};
use storage::Overwrite;
use transfer::route::{LearnedAbilities, Preference};
use transfer::{BetweenServers, Comparison, Flow, News, Order, Progress, Streams, Verification, WayNews};
use types::{ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use super::Mesh;
use super::commands::{End, Reproduction};
use super::endpoint::Protocol;
use super::plan::{Ends, Planned, Seat};
use super::step::{StepName, Timed, failure, milliseconds, timed};
use super::through::{OrderedCopy, Through};
use crate::limits::EXAMINED_BYTES_MAX;
use crate::steps::{self, ADLER32, ADLER32_OR_MD5};

/// How the file came to the source.
#[derive(Clone)]
pub(super) struct Seeded {
    took: Duration,
    outcome: std::result::Result<(), Error>,
}

/// Why a step failed.
struct Fault {
    error: Error,
    /// The source does not send what it was given, as reading it showed: the step itself did not
    /// say so.
    is_read: bool,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { error, is_read: false }
    }
}

/// The result of a copy, and how long it took.
struct Copied {
    took: Duration,
    failure: Option<Failure>,
}

impl Mesh<'_> {
    /// Makes one copy over a link; `what` is a part of the name of its file.
    pub(super) async fn attempt(&self, what: &str, planned: &Planned, ends: Ends) -> Cell {
        let started_ms = self.now_ms();
        let mut cell = Cell {
            started_ms,
            copies: 1,
            ..Cell::untried(planned.link.clone(), Outcome::Passed)
        };
        let source = self.file(ends.source, &self.seed_name(ends.source), Side::Source);
        let destination = self.file(ends.destination, what, Side::Destination);
        let reproduction = Reproduction {
            trust: &self.settings.trust,
            source: End {
                file: &source.location,
                credential: self.credential(ends.source),
            },
            destination: End {
                file: &destination.location,
                credential: self.credential(ends.destination),
            },
            mode: planned.link.mode,
        };
        let mut try_it = Attempt {
            mesh: self,
            ends,
            mode: planned.link.mode,
            source: &source,
            destination: &destination,
            reproduction: &reproduction,
            cell: &mut cell,
        };
        try_it.run().await;
        cell
    }

    /// A file of this run as a party of a copy.
    fn file(&self, seat: Seat, what: &str, side: Side) -> Resource {
        let place = self.place(seat);
        let access = &place.credentials[seat.credential].access;
        steps::own_file(place.location.child(&self.settings.mark.name(what)), access, side)
    }

    fn seed_name(&self, seat: Seat) -> String {
        format!("s{:x}.{:x}.{:x}", seat.endpoint, seat.place, seat.credential)
    }

    /// Stores the file at the source, once for all cells that copy it from there. Returns whether
    /// this call did it.
    async fn seed(&self, seat: Seat, file: &Resource) -> (Seeded, bool) {
        let Some(cell) = self.seeds.get(&seat) else {
            let error = Error::new(ErrorCode::Internal, Side::Client, Phase::Open);
            let seeded = Seeded {
                took: Duration::ZERO,
                outcome: Err(error),
            };
            return (seeded, true);
        };
        let mut is_first = false;
        let seeded = cell.get_or_init(|| {
            is_first = true;
            self.put_seed(seat, file)
        });
        let seeded = seeded.await.clone();
        (seeded, is_first)
    }

    /// Stores the file at all sources.
    pub(super) async fn seed_all(&self) {
        let seats = stream::iter(self.seeds.keys().copied());
        seats
            .for_each_concurrent(self.parallel(), |seat| async move {
                let file = self.file(seat, &self.seed_name(seat), Side::Source);
                let _ = self.seed(seat, &file).await;
            })
            .await;
    }

    async fn put_seed(&self, seat: Seat, file: &Resource) -> Seeded {
        self.litter.will_make(seat.endpoint, file);
        let sending = steps::upload(&self.client, file, &self.content);
        let sent = timed(self.settings.upload_timeout, Side::Source, &file.location, sending).await;
        if sent.result.is_ok() {
            self.litter.has_made(file);
        }
        Seeded {
            took: sent.took,
            outcome: sent.result,
        }
    }
}

/// A cell while it is tried.
struct Attempt<'a, 'b> {
    mesh: &'a Mesh<'b>,
    ends: Ends,
    mode: Mode,
    source: &'a Resource,
    destination: &'a Resource,
    reproduction: &'a Reproduction<'a>,
    cell: &'a mut Cell,
}

impl Attempt<'_, '_> {
    async fn run(&mut self) {
        let mesh = self.mesh;
        let (seeded, is_first) = mesh.seed(self.ends.source, self.source).await;
        let took = if is_first { seeded.took } else { Duration::ZERO };
        match seeded.outcome {
            Err(error) => {
                self.cell.copies_failed = 1;
                return self.note(StepName::Seed, took, Err(error.into()));
            }
            Ok(()) if is_first => self.note(StepName::Seed, took, Ok(())),
            Ok(()) => {}
        }
        mesh.litter.will_make(self.ends.destination.endpoint, self.destination);
        let copied = match &mesh.through {
            Some(queue) => self.copy_through(queue.as_ref()).await,
            None => self.copy().await,
        };
        self.cell.copy_ms = milliseconds(copied.took);
        let is_copied = copied.failure.is_none();
        self.note_failure(StepName::Copy, copied.took, copied.failure);
        if !is_copied {
            self.cell.copies_failed = 1;
            return;
        }
        self.cell.bytes = mesh.content.size_bytes();
        mesh.litter.has_made(self.destination);
        self.check().await;
        self.remove().await;
        if self.cell.outcome.failure().is_some() {
            self.cell.copies_failed = 1;
            self.cell.bytes = 0;
        }
    }

    /// Notes how a step ended.
    fn note(&mut self, step: StepName, took: Duration, result: std::result::Result<(), Fault>) {
        let failure = result.err().map(|fault| self.failure(step, &fault, None));
        self.note_failure(step, took, failure);
    }

    fn failure(&self, step: StepName, fault: &Fault, note: Option<&str>) -> Failure {
        let lines = match fault.is_read {
            true => self.reproduction.source_lines(),
            false => self.reproduction.lines(step),
        };
        failure(&fault.error, note, lines)
    }

    /// A destination that gets something else than the source was given, or too little, or nothing
    /// for long, can only complain about what it sees itself. So the source is read, and is at
    /// fault if it does not send the file here either.
    async fn examined<T>(&self, result: Result<T>) -> std::result::Result<T, Fault> {
        let mesh = self.mesh;
        // A source that pushes reads its file otherwise than for others.
        let is_readable = mesh.content.size_bytes() <= EXAMINED_BYTES_MAX && self.mode != Mode::Push;
        let error = match result {
            Err(error) if is_difference(&error) || (is_readable && may_be_of_source(&error)) => error,
            other => return other.map_err(Fault::from),
        };
        let file = self.source;
        let reading = async {
            steps::download(&mesh.client, file, &mesh.content).await?;
            // What it says of the file may be wrong, too, and others compare with that.
            match mesh.settings.checksums && mesh.endpoints[self.ends.source.endpoint].has_checksums {
                true => steps::digest(&mesh.client, file, &mesh.content, checksums_of(file), false).await,
                false => Ok(()),
            }
        };
        let limit = mesh.settings.upload_timeout.min(mesh.settings.copy_timeout);
        let read = timed(limit, Side::Source, &file.location, reading).await;
        Err(match read.result.err().filter(is_lie) {
            Some(error) => Fault { error, is_read: true },
            None => error.into(),
        })
    }

    /// Notes a step with its failure, if it failed. The first failure is that of the cell.
    fn note_failure(&mut self, step: StepName, took: Duration, failure: Option<Failure>) {
        let outcome = failure.map_or(Outcome::Passed, |failure| {
            if self.cell.outcome.has_passed() {
                self.cell.outcome = Outcome::Failed(Box::new(failure.clone()));
            }
            // The cell has the lines already.
            Outcome::Failed(Box::new(Failure {
                reproduce: Vec::new(),
                ..failure
            }))
        });
        self.cell.steps.push(step.step(took, outcome));
    }

    /// Has a queue make the copy.
    async fn copy_through(&mut self, queue: &dyn Through) -> Copied {
        let order = OrderedCopy {
            source: self.source,
            destination: self.destination,
        };
        let copying = async { Ok(queue.copy(order).await) };
        let limit = self.mesh.settings.copy_timeout;
        let timed = timed(limit, Side::Queue, &self.destination.location, copying).await;
        let failure = match timed.result {
            Ok(end) => {
                self.cell.job_url = end.job_url;
                end.failure
            }
            Err(error) => Some(self.failure(StepName::Copy, &error.into(), None)),
        };
        Copied {
            took: timed.took,
            failure,
        }
    }

    async fn copy(&self) -> Copied {
        let mesh = self.mesh;
        let (preference, delegation) = match self.mode {
            Mode::Pull | Mode::Rendezvous => (Preference::Pull, Delegation::Never),
            Mode::Lite => (Preference::DelegatedPull, Delegation::Only),
            Mode::Push => (Preference::Push, Delegation::Never),
            Mode::Streamed | Mode::Probe => (Preference::Stream, Delegation::Never),
        };
        // The size and the checksum are steps of their own.
        let order = Order {
            overwrite: Overwrite::Refuse,
            streams: Streams::Fixed(1),
            verification: Verification::Never,
            attempts: 1,
            create_parents: false,
            ..Order::default()
        };
        let (learned, notes) = (LearnedAbilities::default(), Notes::default());
        let progress = Progress::counted_in(&mesh.budget, Flow::Through);
        let between = BetweenServers {
            client: &mesh.client,
            source: self.source,
            destination: self.destination,
            order: &order,
            preference,
            delegation,
            is_absent: true,
            compares: Comparison::Size,
            stall: None,
            learned: &learned,
            budget: &mesh.budget,
            progress: &progress,
            news: &notes,
        };
        let copying = async {
            let mut plan = between.plan().await?;
            between.copy(&mut plan).await.map(drop)
        };
        // A silent active server is the one at fault.
        let side = match self.mode {
            Mode::Push => Side::Source,
            _ => Side::Destination,
        };
        let Timed { result, took } = timed(mesh.settings.copy_timeout, side, &self.destination.location, copying).await;
        let note = notes.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        if progress.moved_bytes() > 0 || progress.phase() == Phase::Checksum {
            // Something is there, even if only the two servers can see it.
            mesh.litter.has_made(self.destination);
        }
        let result = self.examined(result).await;
        let fault = result
            .err()
            .map(|fault| match is_untrue(self.mode, &fault.error, &progress) {
                true => self.untrue(side).into(),
                false => fault,
            });
        Copied {
            took,
            failure: fault.map(|fault| self.failure(StepName::Copy, &fault, note.as_deref())),
        }
    }

    /// The active server says that it made the copy, and the destination has none. A WebDAV server
    /// that knows no third-party copies may have copied the file to the same path of its own.
    fn untrue(&self, active: Side) -> Error {
        if active == Side::Source {
            let own = steps::copied_within(self.source, self.destination);
            self.mesh.litter.will_make(self.ends.source.endpoint, &own);
        }
        let error = Error::new(ErrorCode::PeerMisbehaved, active, Phase::Transfer);
        error.with_detail("it reports success, and the destination has no such file")
    }

    /// Asks the destination for size and checksum.
    async fn check(&mut self) {
        let mesh = self.mesh;
        let (file, limit) = (self.destination, mesh.settings.request_timeout);
        let asking = steps::size(&mesh.client, file, mesh.content.size_bytes());
        let size = timed(limit, Side::Destination, &file.location, asking).await;
        let is_right_size = size.result.is_ok();
        let result = self.examined(size.result).await;
        self.note(StepName::Size, size.took, result);
        if !mesh.settings.checksums {
            return;
        }
        if !mesh.endpoints[self.ends.destination.endpoint].has_checksums {
            let why = "the file of endpoints says that it reports none".to_owned();
            return self.skip(StepName::Checksum, why);
        }
        let asking = steps::digest(&mesh.client, file, &mesh.content, checksums_of(file), false);
        let sum = timed(limit, Side::Destination, &file.location, asking).await;
        let result = match is_right_size {
            true => self.examined(sum.result).await,
            false => sum.result.map_err(Fault::from),
        };
        self.note(StepName::Checksum, sum.took, result);
    }

    fn skip(&mut self, step: StepName, why: String) {
        let skipped: Step = step.step(Duration::ZERO, Outcome::Skipped { why });
        self.cell.steps.push(skipped);
    }

    async fn remove(&mut self) {
        let mesh = self.mesh;
        let file = self.destination;
        let started = Instant::now();
        let removing = steps::delete(&mesh.client, file);
        let limit = mesh.settings.request_timeout;
        let removed = timed(limit, Side::Destination, &file.location, removing).await.result;
        if removed.is_ok() {
            mesh.litter.has_removed(file);
        }
        // It is not the authorisation of the copy that failed.
        let removed = removed.map_err(|error| error.in_phase(Phase::Cleanup).into());
        self.note(StepName::Remove, started.elapsed(), removed);
    }
}

/// Whether a destination has something else than the source was given.
fn is_difference(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::PeerSizeDiffers | ErrorCode::ChecksumMismatch)
}

/// Whether a destination may say so only because of what it got from the source.
fn may_be_of_source(error: &Error) -> bool {
    let is_vague = matches!(
        error.code(),
        ErrorCode::PeerFailed | ErrorCode::PeerMisbehaved | ErrorCode::PeerClosed | ErrorCode::PeerStalled
    );
    let has_begun = matches!(error.phase(), Phase::Transfer | Phase::Checksum | Phase::Commit);
    is_vague && has_begun && error.side() != Side::Source
}

/// Whether reading a source shows that it does not send what it was given, or calls it something
/// else.
fn is_lie(error: &Error) -> bool {
    let is_wrong = match error.code() {
        ErrorCode::ChecksumMismatch => true,
        ErrorCode::PeerMisbehaved | ErrorCode::PeerClosed | ErrorCode::PeerStalled | ErrorCode::PeerSizeDiffers => {
            error.phase() == Phase::Transfer
        }
        _ => false,
    };
    is_wrong && error.side() == Side::Source
}

/// The checksums that a server of this kind is asked for.
fn checksums_of(file: &Resource) -> &'static [ChecksumAlgorithm] {
    match Protocol::of(&file.location) {
        Protocol::Root => ADLER32,
        Protocol::Http | Protocol::S3 => ADLER32_OR_MD5,
    }
}

/// Whether a copy failed only because the destination does not have what the active server says it
/// has made.
fn is_untrue(mode: Mode, error: &Error, progress: &Progress) -> bool {
    let is_ordered = mode != Mode::Streamed;
    let is_missing = (error.code(), error.side()) == (ErrorCode::PeerNotFound, Side::Destination);
    is_ordered && is_missing && progress.phase() == Phase::Checksum
}

/// What was odd about a copy: mostly why the active server got no credential.
#[derive(Default)]
struct Notes(Mutex<Option<String>>);

impl WayNews for Notes {
    fn tell(&self, news: News<'_>) {
        let words = match news {
            News::NoMacaroon(words) | News::WithoutProxy(words) => words,
            _ => return,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(words.to_owned());
    }
}
