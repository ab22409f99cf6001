//! `crossload mesh`: a small file from each endpoint to each other.

mod endpoints;
mod own;
mod queue;
mod show;
mod stress;

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use history::{Mode, Run, Store};
use probe::mesh::{EndpointFile, Mesh, Planned, Protocol, Settings, Topology, Wanted, mode, plan};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::queue::ByQueue;
use super::queue::SingleCopies;
use super::session::ClientContext;
use super::smoke::trust;
use super::{INTERRUPTED, end_at_second_interrupt, wait};
use crate::command_line::{Common, MeshOptions, ResultOptions};
use crate::failure::Failure;
use crate::{output, stored_runs};
use own::OwnMesh;
use show::Tally;
pub(crate) use stress::run as run_stress;

/// Time limit of the clean-up at the end of a run.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the mesh, once or again and again. The exit code is 0 if all cells passed, 1 if one failed,
/// 2 if one was skipped.
///
/// # Errors
/// An unusable file of endpoints, or an interruption, after cleaning up.
pub(crate) fn run(options: &MeshOptions) -> Result<u8, Failure> {
    let Some(file) = options.file.as_deref().filter(|_| !options.init) else {
        output::write_out(EndpointFile::example().as_bytes());
        return Ok(0);
    };
    let runtime = execution::worker_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    runtime.block_on(async {
        if options.dry_run {
            let prepared = Prepared::new(file, &selection(options), &options.common).await?;
            show::plan(&prepared.plan, options.common.json);
            return Ok(0);
        }
        let own = OwnMesh::take(file)?;
        let no_signals = |cause: std::io::Error| Failure::system("cannot receive signals", &cause);
        end_at_second_interrupt(INTERRUPTED).map_err(no_signals)?;
        let mut stop = Stop::new().map_err(no_signals)?;
        match options.every {
            None => once(options, file, &own, &mut stop).await,
            Some(interval) => again_and_again(options, file, &own, &mut stop, interval).await,
        }
    })
}

/// The signals that end the command.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// A file of endpoints with the credentials and the plan of one run.
struct Prepared {
    session: ClientContext,
    file: EndpointFile,
    endpoints: Vec<probe::mesh::Endpoint>,
    plan: Vec<Planned>,
}

/// What the options say of the cells.
struct Selection<'a> {
    topology: &'a Topology,
    protocols: &'a [Protocol],
    modes: &'a [Mode],
    only: &'a [String],
}

impl Prepared {
    async fn new(path: &Path, select: &Selection<'_>, common: &Common) -> Result<Self, Failure> {
        let unreadable = |cause: std::io::Error| Failure::system(path.display(), &cause);
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let file = EndpointFile::parse(&text, path)?;
        let session = ClientContext::open(common)?;
        let endpoints = endpoints::endpoints(&session, &file).await?;
        let protocols = file.mesh.protocols.iter();
        let modes = file.mesh.modes.iter();
        let wanted = Wanted {
            topology: select.topology.clone(),
            protocols: given_or(
                select.protocols,
                protocols.filter_map(|word| Protocol::from_name(word).ok()),
            ),
            modes: given_or(select.modes, modes.filter_map(|word| mode(word).ok())),
            only: select.only.to_vec(),
            mixed: file.mesh.mixed,
            now_ms: u64::try_from(crate::token::now_s()).unwrap_or(0) * 1000,
        };
        let plan = plan(&endpoints, &wanted).map_err(Failure::invalid)?;
        Ok(Self {
            session,
            file,
            endpoints,
            plan,
        })
    }

    fn settings(&self, common: &Common, own: &OwnMesh) -> Settings {
        let mesh = &self.file.mesh;
        Settings {
            title: mesh.title.clone(),
            program: concat!("crossload ", env!("CARGO_PKG_VERSION")).to_owned(),
            size_bytes: mesh.size.0,
            parallel: mesh.parallel,
            parallel_each: mesh.parallel_each,
            copy_timeout: mesh.copy_timeout,
            upload_timeout: mesh.upload_timeout,
            request_timeout: mesh.request_timeout,
            checksums: true,
            trust: trust(common),
            mark: own.mark(),
            sweeps: own.is_alone(),
        }
    }
}

/// A queue decides itself who is active.
const MODES_BY_QUEUE: [Mode; 2] = [Mode::Pull, Mode::Rendezvous];

fn selection(options: &MeshOptions) -> Selection<'_> {
    Selection {
        topology: &options.topology,
        protocols: &options.protocol,
        modes: match options.queue {
            Some(_) => &MODES_BY_QUEUE,
            None => &options.mode,
        },
        only: &options.only,
    }
}

/// What the options say, or else the file.
fn given_or<T: Clone>(given: &[T], file: impl Iterator<Item = T>) -> Vec<T> {
    match given {
        [] => file.collect(),
        given => given.to_vec(),
    }
}

/// One run. What was made is removed, whatever ends it.
async fn once(options: &MeshOptions, file: &Path, own: &OwnMesh, stop: &mut Stop) -> Result<u8, Failure> {
    let prepared = Prepared::new(file, &selection(options), &options.common).await?;
    let settings = prepared.settings(&options.common, own);
    let (verbose, as_json) = (options.common.verbose > 0, options.common.json);
    let tell = move |news: probe::mesh::News<'_>| show::news(news, verbose, as_json);
    let client = prepared.session.client.clone();
    let mesh = Mesh::new(settings, prepared.endpoints, prepared.plan, client, tell);
    let mesh = match &options.queue {
        Some(url) => {
            prepared.session.use_remote(url).await?;
            mesh.through(ByQueue(SingleCopies::new(&prepared.session, url)?))
        }
        None => mesh,
    };
    let ended_by = tokio::select! {
        () = mesh.run() => None,
        () = stop.wait() => Some("interrupted"),
        () = wait(options.common.timeout) => Some("stopped by --timeout"),
    };
    if tokio::time::timeout(CLEAN_UP_TIMEOUT, mesh.clean_up(ended_by.is_some()))
        .await
        .is_err()
    {
        output::complain("clean-up timed out: the next run removes what is left of this one");
    }
    let results = mesh.results();
    conclude(options, &results)?;
    match ended_by {
        None => Ok(Tally::of(&results).exit_code()),
        Some(why) => Err(interrupted(why)),
    }
}

fn interrupted(why: &str) -> Failure {
    Failure {
        words: format!("{INTERRUPTED} (Interrupted system call) - {why}; the test files were removed"),
        advice: None,
        code: None,
        exit_code: INTERRUPTED,
    }
}

/// Prints and saves the results.
fn conclude(options: &MeshOptions, results: &Run) -> Result<(), Failure> {
    if options.common.json {
        output::json(&serde_json::json!(results));
    } else {
        let cells = output::counted(results.cells.len() as u64, "cell");
        output::line(&format!("{}: {cells}: {}", results.title, Tally::of(results)));
    }
    keep(&options.results, results)
}

/// Saves the results, and adds them to the history, if the options say so.
fn keep(options: &ResultOptions, results: &Run) -> Result<(), Failure> {
    if let Some(path) = &options.save {
        save(path, results).map_err(|cause| Failure::system(path.display(), &cause))?;
    }
    if let Some(path) = &options.history {
        let added = Store::open(path).and_then(|mut store| store.add(results));
        added.map_err(stored_runs::failed(path))?;
    }
    Ok(())
}

/// Replaces the file, so that a reader finds the old results or the new ones.
fn save(path: &Path, results: &Run) -> std::io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
    serde_json::to_writer(&mut file, results)?;
    file.flush()?;
    file.persist(path).map(drop).map_err(|refused| refused.error)
}

/// Runs until a signal ends it. A run that fails as a whole, as with a mistake in the file, is
/// reported, and the next one begins at its time.
async fn again_and_again(
    options: &MeshOptions,
    file: &Path,
    own: &OwnMesh,
    stop: &mut Stop,
    interval: Duration,
) -> Result<u8, Failure> {
    let begin = Instant::now();
    let mut last = 0;
    for turn in 1.. {
        match once(options, file, own, stop).await {
            Ok(code) => last = code,
            Err(failure) if failure.exit_code == INTERRUPTED => return Err(failure),
            Err(failure) => output::complain(&failure.words),
        }
        let next = begin + interval * turn + shift(interval);
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            () = stop.wait() => break,
        }
    }
    Ok(last)
}

/// A random time of up to a tenth of the interval, so that services elsewhere do not begin at the
/// same moment.
fn shift(interval: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without random numbers, all begin at the same time.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    interval / 10 * (u32::from_be_bytes(bytes) >> 16) / (u32::MAX >> 16)
}
