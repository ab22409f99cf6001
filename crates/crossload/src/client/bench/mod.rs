//! `crossload bench`: puts a load on endpoints and tells how they bore it.

mod outputs;
mod show;
mod targets;
mod transfers;

use std::sync::Arc;
use std::time::Duration;

use bench::report::{Measured, Parameters, Report, Value};
use bench::{Ground, Run, Stop, load};

use super::session::Session;
use crate::command_line::{BenchCommon, BenchLoad, Common};
use crate::descriptors;
use crate::failure::Failure;
use crate::output;
use outputs::Outputs;

/// How long the clean-up may take: ten thousand files at a slow server.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(300);
/// The exit code when something could not be measured.
const FAILED: u8 = 1;
/// The exit code of programs that an interruption ended (128 and the number of the signal).
const INTERRUPTED: u8 = 130;

/// Measures. The exit code is 0 when all went well, 1 when something failed, 130 when it was interrupted.
///
/// # Errors
/// When a URL cannot be used, a credential or an earlier report not be read, or a file not be written.
pub(crate) fn run(load: &BenchLoad) -> Result<u8, Failure> {
    let runtime = execution::worker_runtime().map_err(|cause| Failure::system("no threads", &cause))?;
    runtime.block_on(measure(load))
}

async fn measure(load: &BenchLoad) -> Result<u8, Failure> {
    let options = load.common();
    // With fewer, loads of hundreds of connections fail by themselves, and say so.
    let _ = descriptors::raise_limit();
    let outputs = Outputs::prepare(options)?;
    let session = Session::open(&common(options))?;
    let targets = targets::find(options, &session)?;
    let stop = Stop::default();
    let progress = show::progress(options.quiet);
    let ground = Ground::new(targets, session.client_options(), &mark(), progress, stop);
    let ground = Arc::new(ground);
    let watch = tokio::spawn(interrupt(Arc::clone(&ground), options.timeout));
    let run = Run::start(&ground);
    let (parameters, measured) = perform(load, &ground).await?;
    let report = run.finish(&ground, PROGRAM, load.name(), parameters, measured);
    // A second interruption is heard by nobody: what was made on a server must not stay there.
    clean_up(&ground).await;
    watch.abort();
    // It shares the ground, and only the last to let go of it takes the progress off the screen.
    let _ = watch.await;
    drop(ground);
    outputs.write(&report)?;
    if report.has_denials() {
        session.tell_what_was_shown();
    }
    Ok(exit_code(&report))
}

const PROGRAM: &str = concat!("crossload ", env!("CARGO_PKG_VERSION"));

/// The load itself, and the parameters that explain its figures. A new load is one more line.
///
/// # Errors
/// When what the load needs beside its options cannot be had; nothing has been measured then.
async fn perform(load: &BenchLoad, ground: &Ground) -> Result<(Parameters, Measured), Failure> {
    let mut parameters = Parameters::new();
    let mut tell = |name: &str, value: Value| drop(parameters.insert(name.to_owned(), value));
    tell("repetitions", load.common().repetitions.into());
    let measured = match load {
        BenchLoad::Bulk(options) => {
            tell("file size in bytes", options.size.into());
            tell("bytes in a sample, at the least", options.volume.into());
            load::bulk::run(ground, &options.load()).await
        }
        BenchLoad::Metadata(options) => {
            tell("files", options.files.into());
            tell("seconds of a sample", options.during.as_secs_f64().into());
            load::metadata::run(ground, &options.load()).await
        }
        BenchLoad::Mixed(options) => {
            tell("file size in bytes", options.size.into());
            tell("seconds of a sample", options.during.as_secs_f64().into());
            load::mixed::run(ground, &options.load()).await
        }
        BenchLoad::Overwrite(options) => {
            tell("file size in bytes", options.size.into());
            tell("files on each connection", options.files.into());
            load::overwrite::run(ground, &options.load()).await
        }
        BenchLoad::Tls(options) => {
            tell("file size in bytes", options.size.into());
            tell("bytes in a sample, at the least", options.volume.into());
            tell("clients that make connections", options.clients.into());
            tell(
                "seconds of a sample of connections",
                options.during.as_secs_f64().into(),
            );
            load::tls::run(ground, &options.load()).await
        }
        BenchLoad::Tpc(options) => {
            tell("file size in bytes", options.size.into());
            tell("seconds of a sample", options.during.as_secs_f64().into());
            let pairs = transfers::pairs(&ground.targets)?;
            load::tpc::run(ground, &options.load(pairs)).await
        }
        BenchLoad::Latency(options) => {
            tell("bytes in a sample", options.size.into());
            let pairs = match options.has_copies() {
                true => transfers::pairs(&ground.targets)?,
                false => Vec::new(),
            };
            load::latency::run(ground, &options.load(pairs)).await
        }
        BenchLoad::Vector(options) => {
            tell("seconds of a sample", options.during.as_secs_f64().into());
            let pattern = transfers::pattern(options)?;
            load::vector::run(ground, &options.load(pattern)).await
        }
    };
    Ok((parameters, measured))
}

async fn clean_up(ground: &Ground) {
    match tokio::time::timeout(CLEAN_UP_TIMEOUT, ground.clean_up()).await {
        Ok(complaints) => complaints.iter().for_each(|words| output::complain(words)),
        Err(_) => output::complain("the clean-up was given up: directories crossload-bench-… may be left"),
    }
}

fn exit_code(report: &Report) -> u8 {
    match (report.interrupted, report.has_failures()) {
        (true, _) => INTERRUPTED,
        (false, true) => FAILED,
        (false, false) => 0,
    }
}

/// Asks the load to end when somebody wants that, or when its time is over.
async fn interrupt(ground: Arc<Ground>, timeout: Option<Duration>) {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => drop(terminate.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    let why = tokio::select! {
        _ = tokio::signal::ctrl_c() => "interrupted",
        () = terminated => "told to end",
        () = super::wait(timeout) => "the time of --timeout is over",
    };
    ground.stop.set();
    let words = format!("{why}: ending with what has been measured, and removing what was made");
    ground.progress.aside(words);
}

/// A part of names that no other run has.
fn mark() -> String {
    format!("{:x}-{}", crate::token::now_s(), std::process::id())
}

/// As the client's other commands have it.
fn common(options: &BenchCommon) -> Common {
    Common {
        verbose: options.verbose,
        timeout: None,
        json: false,
        client_info: Vec::new(),
        access: options.access.clone(),
    }
}
