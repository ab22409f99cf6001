//! The last step of the demo: files through a transfer queue that knows why one waits.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::authority::{CERTIFICATE, KEY};
use super::endpoint::{Endpoint, ServerProcess, client, client_output, quoted};
use super::files;
use crate::failure::Failure;
use crate::output;

/// Files that go through the queue.
const FILES: u64 = 10;
/// The size of each.
const FILE_BYTES: u64 = 1 << 20;
/// The directory of the files at both endpoints.
const DIRECTORY: &str = "queued";

/// Copies files by a queue. The destination is banned first, so that they wait and the queue says
/// why.
///
/// # Errors
/// The queue does not start, or a command fails.
pub(super) async fn show(
    source: &Endpoint,
    target: &Endpoint,
    scratch: &Path,
    authority: &Path,
) -> Result<(), Failure> {
    output::line("\n== queue");
    let system = |cause: std::io::Error| Failure::system("the files of the queue", &cause);
    let own = scratch.join("queue");
    fs::create_dir_all(source.data.join(DIRECTORY)).map_err(system)?;
    fs::create_dir_all(&own).map_err(system)?;
    let mut list = String::new();
    for number in 1..=FILES {
        files::generate(&source.data.join(DIRECTORY).join(number.to_string()), FILE_BYTES)?;
        list.push_str(&format!(
            "{0}/{DIRECTORY}/{number} {1}/{DIRECTORY}/{number}\n",
            source.url, target.url
        ));
    }
    let list_file = own.join("ten-files");
    fs::write(&list_file, list).map_err(system)?;
    let configuration_file = own.join("queue.toml");
    fs::write(&configuration_file, configuration(scratch, &own, authority)).map_err(system)?;
    let arguments = ["queue", "serve", "--config"].map(OsString::from);
    let arguments: Vec<OsString> = arguments.into_iter().chain([configuration_file.into()]).collect();
    let queue = ServerProcess::start("the queue", &arguments, &own.join("log")).await?;
    let commands = Commands {
        url: format!("https://localhost:{}", queue.port),
        authority: authority.to_owned(),
    };
    output::line(&format!("queue: {}", commands.url));
    let outcome = walk_through(&commands, &target.storage(), &list_file).await;
    queue.stop().await;
    outcome?;
    let verified = files::compare(&source.data.join(DIRECTORY), &target.data.join(DIRECTORY))?;
    output::line(&format!(
        "checksums (sha-256) of {verified} files are equal on both sides"
    ));
    Ok(())
}

async fn walk_through(commands: &Commands, storage: &str, list: &Path) -> Result<(), Failure> {
    let ban = ["--status", "wait", "--allow-submit", "--reason", "downtime", storage];
    commands.run("ban", &ban).await?;
    let list = list.to_string_lossy();
    let job = commands.output("submit", &["-K", "-f", &list]).await?;
    let job = job.trim();
    let why = commands.output("why", &[job]).await?;
    output::line(&first_file(&why));
    commands.run("ban", &["--unban", storage]).await?;
    commands.run("watch", &[job]).await
}

/// The lines about the job and its first file.
fn first_file(why: &str) -> String {
    let mut files = 0;
    let lines = why.lines().take_while(|line| {
        files += usize::from(line.starts_with("file "));
        files < 2
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Commands of the client with this queue.
struct Commands {
    url: String,
    authority: PathBuf,
}

impl Commands {
    fn arguments(&self, command: &str, more: &[&str]) -> Vec<OsString> {
        output::line(&format!("$ crossload queue {command} {}", more.join(" ")));
        let own = ["queue", command, "-s", &self.url, "--cacert"].map(OsString::from);
        let more = more.iter().map(OsString::from);
        own.into_iter()
            .chain([self.authority.clone().into()])
            .chain(more)
            .collect()
    }

    async fn run(&self, command: &str, more: &[&str]) -> Result<(), Failure> {
        client(&self.arguments(command, more)).await
    }

    async fn output(&self, command: &str, more: &[&str]) -> Result<String, Failure> {
        client_output(&self.arguments(command, more)).await
    }
}

fn configuration(scratch: &Path, own: &Path, authority: &Path) -> String {
    format!(
        "[server]\ncertificate = {}\nkey = {}\n\
         [queue]\nlisten = [\"127.0.0.1:0\"]\nstate_directory = {}\nanonymous = true\noperators = [\"*\"]\n\
         [tpc]\nallow_local_peers = true\n[trust]\nca_files = [{}]\nsystem = false\n[log]\nfile = {}\n",
        quoted(&scratch.join(CERTIFICATE)),
        quoted(&scratch.join(KEY)),
        quoted(&own.join("state")),
        quoted(authority),
        quoted(&own.join("log")),
    )
}

#[cfg(test)]
mod tests {
    use super::first_file;

    #[test]
    fn one_file_is_enough_to_see_why() {
        let one = "file 1  on_hold\n  banned";
        assert_eq!(first_file(&format!("{one}\n")), one);
        let many = format!("0 of 2 files finished, 2 waiting\n{one}");
        assert_eq!(first_file(&format!("{many}\nfile 2  on_hold\n  banned\n")), many);
    }
}
