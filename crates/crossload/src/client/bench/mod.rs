//! `crossload bench`: measures endpoints under load.

mod outputs;
mod show;
mod targets;
mod transfers;

use std::sync::Arc;
use std::time::Duration;

use bench::report::{Measured, Parameters, Report, Value};
use bench::{Ground, Run, Stop, load};

use super::session::ClientContext;
use super::signals::end_asked;
use crate::command_line::{BenchCommon, BenchLoad, Common, DisplayOptions, GfalOptions};
use crate::descriptors;
use crate::failure::Failure;
use crate::output;
use outputs::Outputs;

/// Time limit of the clean-up: ten thousand files at a slow server.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(300);
/// The exit code when something could not be measured.
const FAILED: u8 = 1;
/// The exit code of an interrupted program: 128 plus the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// Measures. The exit code is 0 for success, 1 if something failed, 130 if interrupted.
///
/// # Errors
/// An invalid URL, an unreadable credential or earlier report, or a file that cannot be written.
pub(crate) fn run(load: &BenchLoad) -> Result<u8, Failure> {
    let runtime = execution::worker_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    runtime.block_on(measure(load))
}

async fn measure(load: &BenchLoad) -> Result<u8, Failure> {
    let options = load.common();
    // If this fails, loads with hundreds of connections run out of descriptors and report it.
    let _ = descriptors::raise_limit();
    let outputs = Outputs::prepare(options)?;
    let session = ClientContext::open(&common(options))?;
    let targets = targets::find(options, &session).await?;
    let stop = Stop::default();
    let progress = show::progress(options.quiet);
    let ground = Ground::new(targets, session.client_options(), &mark(), progress, stop);
    let ground = Arc::new(ground);
    super::end_at_second_interrupt(INTERRUPTED).map_err(|cause| Failure::system("cannot receive signals", &cause))?;
    let watch = tokio::spawn(interrupt(Arc::clone(&ground), options.timeout));
    let run = Run::start(&ground);
    let (parameters, measured) = perform(load, &ground).await?;
    let report = run.finish(&ground, PROGRAM, load.name(), parameters, measured);
    clean_up(&ground).await;
    watch.abort();
    // The task shares `ground`. The progress line is removed when the last reference is dropped.
    let _ = watch.await;
    drop(ground);
    outputs.write(&report)?;
    if report.has_denials() {
        session.tell_what_was_shown();
    }
    Ok(exit_code(&report))
}

const PROGRAM: &str = concat!("crossload ", env!("CARGO_PKG_VERSION"));

/// Runs the load. Returns the parameters for the report and the figures.
///
/// # Errors
/// The pairs or the pattern of the load are invalid. Nothing has been measured then.
async fn perform(load: &BenchLoad, ground: &Ground) -> Result<(Parameters, Measured), Failure> {
    let mut parameters = Parameters::new();
    let mut add = |name: &str, value: Value| drop(parameters.insert(name.to_owned(), value));
    add("repetitions", load.common().repetitions.into());
    let measured = match load {
        BenchLoad::Bulk(options) => {
            add("file size in bytes", options.size.into());
            add("least bytes per sample", options.volume.into());
            load::bulk::run(ground, &options.load()).await
        }
        BenchLoad::Metadata(options) => {
            add("files", options.files.into());
            add("seconds per sample", options.during.as_secs_f64().into());
            load::metadata::run(ground, &options.load()).await
        }
        BenchLoad::Redirector(options) => {
            add("files", options.files.into());
            add("file size in bytes", options.size.into());
            add("seconds per sample", options.during.as_secs_f64().into());
            load::redirector::run(ground, &options.load()).await
        }
        BenchLoad::Mixed(options) => {
            add("file size in bytes", options.size.into());
            add("seconds per sample", options.during.as_secs_f64().into());
            load::mixed::run(ground, &options.load()).await
        }
        BenchLoad::Overwrite(options) => {
            add("file size in bytes", options.size.into());
            add("files per connection", options.files.into());
            load::overwrite::run(ground, &options.load()).await
        }
        BenchLoad::Tls(options) => {
            add("file size in bytes", options.size.into());
            add("least bytes per sample", options.volume.into());
            add("clients that open connections", options.clients.into());
            add("seconds per sample of connections", options.during.as_secs_f64().into());
            load::tls::run(ground, &options.load()).await
        }
        BenchLoad::Tpc(options) => {
            add("file size in bytes", options.size.into());
            add("seconds per sample", options.during.as_secs_f64().into());
            let pairs = transfers::pairs(&ground.targets)?;
            load::tpc::run(ground, &options.load(pairs)).await
        }
        BenchLoad::Latency(options) => {
            add("bytes per sample", options.size.into());
            let pairs = match options.has_copies() {
                true => transfers::pairs(&ground.targets)?,
                false => Vec::new(),
            };
            load::latency::run(ground, &options.load(pairs)).await
        }
        BenchLoad::Vector(options) => {
            add("seconds per sample", options.during.as_secs_f64().into());
            let pattern = transfers::pattern(options)?;
            load::vector::run(ground, &options.load(pattern)).await
        }
    };
    Ok((parameters, measured))
}

async fn clean_up(ground: &Ground) {
    match tokio::time::timeout(CLEAN_UP_TIMEOUT, ground.clean_up()).await {
        Ok(complaints) => complaints.iter().for_each(|words| output::complain(words)),
        Err(_) => output::complain("clean-up timed out: directories crossload-bench-… may be left behind"),
    }
}

fn exit_code(report: &Report) -> u8 {
    match (report.interrupted, report.has_failures()) {
        (true, _) => INTERRUPTED,
        (false, true) => FAILED,
        (false, false) => 0,
    }
}

/// Stops the load on a signal or at the end of `--timeout`.
async fn interrupt(ground: Arc<Ground>, timeout: Option<Duration>) {
    let why = tokio::select! {
        () = end_asked() => "interrupted",
        () = super::wait(timeout) => "--timeout reached",
    };
    ground.stop.set();
    let words = format!("{why}: stopping with the figures so far, and removing the files at the targets");
    ground.progress.aside(words);
}

/// A name component that is unique to this run.
fn mark() -> String {
    format!("{:x}-{}", crate::token::now_s(), std::process::id())
}

/// The common options of the client's other commands.
fn common(options: &BenchCommon) -> Common {
    Common {
        verbose: options.verbose,
        log_file: None,
        timeout: None,
        json: false,
        client_info: Vec::new(),
        display: DisplayOptions::default(),
        gfal: GfalOptions::default(),
        access: options.access.clone(),
    }
}
