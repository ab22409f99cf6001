//! `crossload demo`: third-party copies between two endpoints on this machine, shown and measured.
//!
//! The two endpoints are this same program started twice as servers, so that what is shown is what
//! a site would run. Everything lies in a temporary directory that is removed at the end.

mod authority;
mod endpoint;
mod files;
mod table;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use crate::command_line::DemoOptions;
use crate::failure::Failure;
use crate::output;
use endpoint::Endpoint;
use table::Row;

/// Room beside the data: three copies, and some air.
const COPIES: u64 = 5;

/// Runs the demo.
///
/// # Errors
/// What keeps it from running, and the first copy that fails.
pub(crate) fn run(options: DemoOptions) -> Result<(), Failure> {
    let runtime = execution::worker_runtime().map_err(|cause| Failure::system("no threads", &cause))?;
    runtime.block_on(async {
        let mut terminate =
            signal(SignalKind::terminate()).map_err(|cause| Failure::system("no signals can be received", &cause))?;
        tokio::select! {
            result = demonstrate(&options) => return result,
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        output::line("\ninterrupted; the endpoints are stopped and the files removed");
        Ok(())
    })
}

async fn demonstrate(options: &DemoOptions) -> Result<(), Failure> {
    let bytes = match &options.data {
        Some(directory) => files::size_of(directory)?,
        None => options.size,
    };
    let scratch = scratch_directory(bytes)?;
    let authority = authority::make(scratch.path())?;
    output::line(&format!("files of the demo: {}", scratch.path().display()));
    let source = Endpoint::start("one", scratch.path(), &authority).await?;
    let target = Endpoint::start("two", scratch.path(), &authority).await?;
    output::line(&format!("endpoint one: {}\nendpoint two: {}", source.url, target.url));
    let count = match &options.data {
        Some(directory) => files::copy_tree(directory, &source.data.join("in"))?,
        None => {
            output::line(&format!("generating {bytes} bytes"));
            files::generate(&source.data.join("in/data.bin"), bytes)?;
            1
        }
    };
    let mut rows = Vec::new();
    for mode in ["pull", "push", "stream"] {
        rows.push(copy(mode, &source, &target, &authority, (count, bytes)).await?);
    }
    output::line(&format!("\n{}", table::render(&rows)));
    output::line(&by_hand(&source, &target, &authority, options.data.is_none()));
    if options.keep {
        output::line("The endpoints stay up until Ctrl-C.");
        let _ = tokio::signal::ctrl_c().await;
        output::line("stopping");
    }
    source.stop().await;
    target.stop().await;
    Ok(())
}

/// Memory where there is room, so that no disk is measured; else the usual temporary directory.
fn scratch_directory(bytes: u64) -> Result<tempfile::TempDir, Failure> {
    let needed = bytes.saturating_mul(COPIES);
    let candidates = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
    let roomy = candidates.iter().find(|directory| free_bytes(directory) >= needed);
    let Some(directory) = roomy else {
        let words = format!("{needed} bytes are needed in /dev/shm or TMPDIR; try a smaller --size");
        return Err(Failure {
            words: format!("28 (No space left on device) - {words}"),
            advice: None,
            exit_code: 28,
        });
    };
    tempfile::Builder::new()
        .prefix("crossload-demo.")
        .tempdir_in(directory)
        .map_err(|cause| Failure::system("no temporary directory", &cause))
}

fn free_bytes(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(0, |state| state.f_bavail * state.f_frsize)
}

/// Copies everything by one mode, and looks at what came of it.
async fn copy(
    mode: &'static str,
    source: &Endpoint,
    target: &Endpoint,
    authority: &Path,
    (count, bytes): (u64, u64),
) -> Result<Row, Failure> {
    output::line(&format!("\n== {mode}"));
    let before = (source.cpu_s(), target.cpu_s());
    let started = Instant::now();
    endpoint::client(&[
        "copy".as_ref(),
        "-r".as_ref(),
        "--mode".as_ref(),
        mode.as_ref(),
        "--cacert".as_ref(),
        authority.as_os_str(),
        format!("{}/in", source.url).as_ref(),
        format!("{}/{mode}", target.url).as_ref(),
    ])
    .await?;
    let elapsed = started.elapsed();
    let after = (source.cpu_s(), target.cpu_s());
    // The files themselves are read here, not what the servers say of them.
    let verified = files::compare(&source.data.join("in"), &target.data.join(mode))?;
    if verified != count {
        return Err(Failure::invalid(format!("{mode}: {verified} of {count} files arrived")));
    }
    output::line(&format!("checksums (sha-256) of {verified} files agree on both sides"));
    Ok(Row {
        mode,
        files: count,
        bytes,
        elapsed: elapsed.max(Duration::from_millis(1)),
        source_cpu_s: after.0 - before.0,
        target_cpu_s: after.1 - before.1,
    })
}

/// How a person does the same with other programs.
fn by_hand(source: &Endpoint, target: &Endpoint, authority: &Path, generated: bool) -> String {
    let file = if generated { "data.bin" } else { "FILE" };
    let (from, to, ca) = (format!("{}/in/{file}", source.url), &target.url, authority.display());
    let dav = |url: &str| url.replacen("https://", "davs://", 1);
    let certificates = authority.with_file_name("certificates");
    let wish = r#"{"caveats":["activity:READ_METADATA,LIST,DOWNLOAD,UPLOAD,MANAGE,DELETE"],"validity":"PT1H"}"#;
    let token = format!(
        "curl -s --cacert {ca} -H 'Content-Type: application/macaroon-request' -d '{wish}' {to}/ | sed 's/.*\"macaroon\":\"//; s/\".*//'"
    );
    format!(
        "The same by hand (--keep or KEEP=1 leaves the endpoints up):\n\
         \x20 curl --cacert {ca} -X COPY -H 'Source: {from}' {to}/pulled\n\
         \x20 curl --cacert {ca} -X COPY -H 'Destination: {to}/pushed' {from}\n\
         gfal's programs hand over a token, which both endpoints accept:\n\
         \x20 export X509_CERT_DIR={}\n\
         \x20 export BEARER_TOKEN=$({token})\n\
         \x20 gfal-copy --copy-mode pull {} {}\n\
         \x20 gfal-copy --copy-mode push {} {}\n",
        certificates.display(),
        dav(&from),
        dav(&format!("{to}/gfal-pulled")),
        dav(&from),
        dav(&format!("{to}/gfal-pushed")),
    )
}
