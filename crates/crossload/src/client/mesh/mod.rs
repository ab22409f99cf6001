//! `crossload mesh`: a small file from each endpoint to each other.

mod capabilities;
pub(super) mod endpoints;
mod own;
mod queue;
mod show;
mod stress;

use std::path::Path;
use std::time::{Duration, Instant};

use history::{Mode, Run};
use probe::mesh::{EndpointFile, Mesh, Planned, Protocol, Settings, Topology, Wanted, mode, plan};

use self::queue::ByQueue;
use super::queue::{SingleCopies, check_url, report_capabilities};
use super::session::ClientContext;
use super::signals::EndSignals;
use super::smoke::trust;
use super::{INTERRUPTED, end_at_second_interrupt, wait};
use crate::command_line::{Common, MeshOptions, ResultOptions};
use crate::failure::Failure;
use crate::output;
use crate::reporting::{self, Page};
use own::OwnMesh;
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
        check_queue(options)?;
        if options.dry_run {
            let prepared = Prepared::new(file, &selection(options), &options.common).await?;
            show::plan(&prepared.plan, options.common.json);
            return Ok(0);
        }
        let results = &options.results;
        let used = [Some(file), options.common.log_file.as_deref()];
        reporting::try_outputs(&results.reports, results.save.as_deref(), &used)?;
        let own = OwnMesh::take(file)?;
        let page = Page::open(&options.results.reports, None).await?;
        let no_signals = |cause: std::io::Error| Failure::system("cannot receive signals", &cause);
        end_at_second_interrupt(INTERRUPTED).map_err(no_signals)?;
        let mut stop = Stop::new().map_err(no_signals)?;
        let mut service = Service {
            options,
            file,
            own: &own,
            page: page.as_ref(),
            stop: &mut stop,
        };
        match options.every {
            None => {
                let code = service.once().await?;
                stop.serve(page.as_ref()).await.map(|()| code)
            }
            Some(interval) => service.again_and_again(interval).await,
        }
    })
}

/// Judges the URL of the queue, which is used at the end of a run only.
fn check_queue(options: &MeshOptions) -> Result<(), Failure> {
    let queues = [
        ("--queue", &options.queue),
        ("--capabilities-to", &options.capabilities_to),
    ];
    for (option, url) in queues {
        if let Some(url) = url {
            check_url(option, url)?;
        }
    }
    Ok(())
}

/// The signals that end the command.
struct Stop(EndSignals);

impl Stop {
    fn new() -> std::io::Result<Self> {
        EndSignals::new().map(Self)
    }

    async fn wait(&mut self) {
        self.0.wait().await;
    }

    /// Serves the page, if there is one, until a signal.
    async fn serve(&mut self, page: Option<&Page>) -> Result<(), Failure> {
        let Some(page) = page else { return Ok(()) };
        tokio::select! {
            served = page.serve_until_interrupted() => served,
            () = self.wait() => Ok(()),
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
        let file = endpoints::read(path)?;
        let session = ClientContext::open(common)?;
        let endpoints = endpoints::endpoints(&session, &file, path).await?;
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

/// A mesh that is run once or again and again.
struct Service<'a> {
    options: &'a MeshOptions,
    file: &'a Path,
    own: &'a OwnMesh,
    page: Option<&'a Page>,
    stop: &'a mut Stop,
}

impl Service<'_> {
    /// One run. What was made is removed, whatever ends it.
    async fn once(&mut self) -> Result<u8, Failure> {
        let options = self.options;
        let prepared = Prepared::new(self.file, &selection(options), &options.common).await?;
        let settings = prepared.settings(&options.common, self.own);
        let verbose = options.common.verbose > 0;
        let tell = move |news: probe::mesh::News<'_>| show::news(news, verbose);
        let client = prepared.session.client.clone();
        let endpoints = prepared.endpoints.clone();
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
            () = self.stop.wait() => Some("interrupted"),
            () = wait(options.common.timeout) => Some("stopped by --timeout"),
        };
        if tokio::time::timeout(CLEAN_UP_TIMEOUT, mesh.clean_up(ended_by.is_some()))
            .await
            .is_err()
        {
            output::complain("clean-up timed out: the next run removes what is left of this one");
        }
        let results = Run {
            ended_by: ended_by.map(str::to_owned),
            ..mesh.results()
        };
        let told = conclude(&options.results, &options.common, self.page, &results).await;
        let reported = match options.capabilities_to.as_deref().filter(|_| ended_by.is_none()) {
            Some(url) => {
                let (session, seen) = (&prepared.session, capabilities::seen(&endpoints, &results));
                let report = async {
                    session.use_remote(url).await?;
                    report_capabilities(session, url, &seen).await
                };
                report.await.map_err(reporting::undelivered)
            }
            None => Ok(()),
        };
        // A queue learns what the endpoints do also if a mail was not sent.
        reporting::first_of([told, reported].into_iter().filter_map(Result::err).collect())?;
        match ended_by {
            None => Ok(reporting::exit_code(&results)),
            Some(why) => Err(interrupted(why)),
        }
    }

    /// Runs until a signal ends it. A run that fails as a whole, as with a mistake in the file, is
    /// reported, and the next one begins at its time.
    async fn again_and_again(&mut self, interval: Duration) -> Result<u8, Failure> {
        let begin = Instant::now();
        let mut last;
        loop {
            match self.once().await {
                Ok(code) => last = code,
                Err(failure) if failure.exit_code == INTERRUPTED => return Err(failure),
                Err(failure) => {
                    last = failure.exit_code;
                    output::complain(&failure.words);
                }
            }
            let next = begin + next_begin(begin.elapsed(), interval, random());
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {}
                () = self.stop.wait() => break,
            }
        }
        Ok(last)
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

/// Reports the results everywhere that the options name. What fails does not keep the rest from
/// being done.
///
/// # Errors
/// The first of what failed; the others are printed.
async fn conclude(options: &ResultOptions, common: &Common, page: Option<&Page>, results: &Run) -> Result<(), Failure> {
    let saved = options.save.as_deref().map(|file| reporting::save(results, file));
    let told = reporting::tell(results, &options.reports, common.json).await;
    if let Some(page) = page {
        page.show(results);
    }
    reporting::first_of(saved.into_iter().chain([told]).filter_map(Result::err).collect())
}

/// When the next run begins, counted from the begin of the first: at the next multiple of the
/// interval, and up to a tenth of it later, so that services elsewhere do not begin at the same
/// moment. Multiples that a long run has missed are left out, so runs never follow each other
/// without a pause. `random` says how much later.
fn next_begin(elapsed: Duration, interval: Duration, random: u16) -> Duration {
    let turn = elapsed.as_nanos() / interval.as_nanos().max(1) + 1;
    let turn = u32::try_from(turn).unwrap_or(u32::MAX);
    interval.saturating_mul(turn) + interval / 10 * u32::from(random) / u32::from(u16::MAX)
}

fn random() -> u16 {
    let mut bytes = [0; 2];
    // Without random numbers, all begin at the same time.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u16::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn runs_begin_once_an_interval_and_a_little_later() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        for (elapsed, random, begin) in [
            (minutes(5), 0, minutes(60)),
            (minutes(5), u16::MAX, minutes(66)),
            (minutes(59), u16::MAX / 2, minutes(63)),
            // The second run began late, and the third does not for it.
            (minutes(71), 0, minutes(120)),
            // Whole hours are missed.
            (minutes(60), 0, minutes(120)),
            (minutes(250), u16::MAX, minutes(306)),
        ] {
            let next = next_begin(elapsed, HOUR, random);
            assert!(
                next.abs_diff(begin) < Duration::from_secs(1),
                "{elapsed:?} {random}: {next:?}"
            );
            assert!(next > elapsed);
        }
        let many: std::collections::HashSet<u16> = (0..20).map(|_| super::random()).collect();
        assert!(many.len() > 1, "{many:?}");
    }
}
