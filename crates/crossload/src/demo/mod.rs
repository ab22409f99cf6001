//! `crossload demo`: shows and measures third-party copies between two endpoints on this machine,
//! and a transfer queue that orders some; or a cluster of three nodes and a redirector.
//!
//! The endpoints are separate processes of this program, as a site would run them. All files are in
//! a temporary directory, which is removed at the end.

mod authority;
mod cluster;
mod endpoint;
mod files;
mod queue;
mod table;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use crate::command_line::DemoOptions;
use crate::failure::Failure;
use crate::output;
use endpoint::Endpoint;
use table::Row;

/// Space to require, in sizes of the data: the source, three copies, and a margin.
const COPIES: u64 = 5;

/// Runs the demo.
///
/// # Errors
/// The demo cannot run, or a copy fails.
pub(crate) fn run(options: DemoOptions) -> Result<(), Failure> {
    let runtime = execution::worker_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    runtime.block_on(async {
        let mut terminate =
            signal(SignalKind::terminate()).map_err(|cause| Failure::system("cannot receive signals", &cause))?;
        tokio::select! {
            result = demonstrate(&options) => return result,
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        output::line("\ninterrupted; endpoints stopped, files removed");
        Ok(())
    })
}

async fn demonstrate(options: &DemoOptions) -> Result<(), Failure> {
    if options.cluster {
        let scratch = scratch_directory(cluster::BYTES)?;
        let authority = authority::make(scratch.path())?;
        output::line(&format!("files of the demo: {}", scratch.path().display()));
        return cluster::show(scratch.path(), &authority).await;
    }
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
    let files = match &options.data {
        Some(directory) => files::copy_tree(directory, &source.data.join("in"))?,
        None => {
            output::line(&format!("generating {bytes} bytes"));
            files::generate(&source.data.join("in/data.bin"), bytes)?;
            1
        }
    };
    let data = Data { files, bytes };
    let mut rows = Vec::new();
    for mode in ["pull", "push", "stream"] {
        rows.push(copy(mode, &source, &target, &authority, data).await?);
    }
    output::line(&format!("\n{}", table::render(&rows)));
    queue::show(&source, &target, scratch.path(), &authority).await?;
    output::line(&by_hand(&source, &target, &authority, options.data.is_none()));
    if options.keep {
        output::line("The endpoints keep running until Ctrl-C.");
        let _ = tokio::signal::ctrl_c().await;
        output::line("stopping");
    }
    source.stop().await;
    target.stop().await;
    Ok(())
}

/// A directory in memory if there is space, to keep the disk out of the figures; else the usual
/// temporary directory.
fn scratch_directory(bytes: u64) -> Result<tempfile::TempDir, Failure> {
    let needed = bytes.saturating_mul(COPIES);
    let candidates = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
    let roomy = candidates.iter().find(|directory| free_bytes(directory) >= needed);
    let Some(directory) = roomy else {
        let words = format!("the demo needs {needed} bytes in /dev/shm or TMPDIR; try a smaller --size");
        return Err(Failure {
            words: format!("28 (No space left on device) - {words}"),
            advice: None,
            code: None,
            exit_code: 28,
        });
    };
    tempfile::Builder::new()
        .prefix("crossload-demo.")
        .tempdir_in(directory)
        .map_err(|cause| Failure::system("cannot make a temporary directory", &cause))
}

fn free_bytes(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(0, |state| state.f_bavail * state.f_frsize)
}

/// What is copied.
#[derive(Clone, Copy)]
struct Data {
    files: u64,
    bytes: u64,
}

/// Copies everything by one mode, and verifies the result.
async fn copy(
    mode: &'static str,
    source: &Endpoint,
    target: &Endpoint,
    authority: &Path,
    data: Data,
) -> Result<Row, Failure> {
    output::line(&format!("\n== {mode}"));
    let before = (source.cpu_s(), target.cpu_s());
    let started = Instant::now();
    let (from, to) = (format!("{}/in/", source.url), format!("{}/{mode}", target.url));
    let arguments: [&OsStr; 8] = [
        "copy".as_ref(),
        "-r".as_ref(),
        "--mode".as_ref(),
        mode.as_ref(),
        "--cacert".as_ref(),
        authority.as_os_str(),
        from.as_ref(),
        to.as_ref(),
    ];
    endpoint::client(&arguments).await?;
    let elapsed = started.elapsed();
    let after = (source.cpu_s(), target.cpu_s());
    // Compares the files on disk, independently of the servers.
    let verified = files::compare(&source.data.join("in"), &target.data.join(mode))?;
    if verified != data.files {
        let wanted = data.files;
        let says = format!("{mode}: {verified} of {wanted} files arrived");
        return Err(Failure::invalid(says));
    }
    output::line(&format!(
        "checksums (sha-256) of {verified} files are equal on both sides"
    ));
    Ok(Row {
        mode,
        files: data.files,
        bytes: data.bytes,
        elapsed: elapsed.max(Duration::from_millis(1)),
        source_cpu_s: after.0 - before.0,
        target_cpu_s: after.1 - before.1,
    })
}

/// Commands for the same copies with other programs.
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
        "The same by hand (--keep or KEEP=1 leaves the endpoints running):\n\
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
