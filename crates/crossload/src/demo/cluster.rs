//! `crossload demo --cluster`: three nodes behind a redirector, which places files, finds them, and
//! says why.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::authority::{CERTIFICATE, KEY};
use super::endpoint::{Endpoint, ServerProcess, client, quoted};
use super::files;
use crate::failure::Failure;
use crate::output;

/// The names of the nodes.
const NODES: [&str; 3] = ["one", "two", "three"];
/// Files that are stored through the redirector.
const FILES: u64 = 9;
/// The size of each.
const FILE_BYTES: u64 = 1 << 20;

/// The space that it needs, in bytes.
pub(super) const BYTES: u64 = 2 * FILES * FILE_BYTES;

/// Shows choice, explanation, and what happens without a node.
///
/// # Errors
/// A server does not start, or a command fails.
pub(super) async fn show(scratch: &Path, authority: &Path) -> Result<(), Failure> {
    let mut nodes = Vec::new();
    for name in NODES {
        let node = Endpoint::start(name, scratch, authority).await?;
        output::line(&format!("node {name}: {}", node.storage()));
        nodes.push(node);
    }
    let own = scratch.join("redirector");
    let system = |cause: std::io::Error| Failure::system("the files of the redirector", &cause);
    fs::create_dir_all(&own).map_err(system)?;
    let file = own.join("crossload.toml");
    fs::write(&file, configuration(scratch, &own, authority, &nodes)).map_err(system)?;
    let arguments = ["redirector", "--config"].map(OsString::from);
    let arguments: Vec<OsString> = arguments.into_iter().chain([file.into()]).collect();
    let redirector = ServerProcess::start("the redirector", &arguments, &own.join("log")).await?;
    let commands = Commands {
        url: format!("https://localhost:{}", redirector.port),
        authority: authority.to_owned(),
    };
    output::line(&format!("redirector: {}", commands.url));
    let outcome = walk_through(&commands, scratch, nodes).await;
    redirector.stop().await;
    outcome
}

async fn walk_through(commands: &Commands, scratch: &Path, mut nodes: Vec<Endpoint>) -> Result<(), Failure> {
    let data = scratch.join("files");
    let system = |cause: std::io::Error| Failure::system("the files of the demo", &cause);
    fs::create_dir_all(&data).map_err(system)?;
    for number in 1..=FILES {
        files::generate(&data.join(number.to_string()), FILE_BYTES)?;
    }
    output::line("\n== new files are spread over the nodes, which share one disk here");
    let (from, to) = (format!("{}/", data.display()), format!("{}/data/tree", commands.url));
    commands.run("copy", &["-r", &from, &to]).await?;
    for (name, node) in NODES.iter().zip(&nodes) {
        output::line(&format!("node {name} has {}", names(&node.data.join("tree"))));
    }
    output::line("\n== one tree for clients");
    commands.run("ls", &["-l", &to]).await?;
    output::line("\n== where is a file, and where would a new one go?");
    commands.why(&["/data/tree/1", "--refresh"]).await?;
    commands.why(&["/data/tree/new", "--write", "--size", "1GiB"]).await?;
    output::line("\n== third-party copy within the cluster");
    let (source, copy) = (format!("{to}/1"), format!("{to}/copy-of-1"));
    commands.run("copy", &[&source, &copy]).await?;
    output::line("\n== a node stops: its files are missing, not gone");
    let lost = nodes.iter().position(|node| node.data.join("tree/1").exists());
    nodes.remove(lost.unwrap_or(0)).stop().await;
    // The redirector looks at its nodes every second.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let _ = commands.why(&["/data/tree/1", "--refresh"]).await;
    for node in nodes {
        node.stop().await;
    }
    Ok(())
}

/// The visible names in a directory.
fn names(directory: &Path) -> String {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    match names.is_empty() {
        true => "nothing".to_owned(),
        false => names.join(", "),
    }
}

/// Commands of the client with this redirector.
struct Commands {
    url: String,
    authority: PathBuf,
}

impl Commands {
    async fn run(&self, command: &str, more: &[&str]) -> Result<(), Failure> {
        output::line(&format!("$ crossload {command} {}", more.join(" ")));
        let own = [
            OsString::from(command),
            "--cacert".into(),
            self.authority.clone().into(),
        ];
        let arguments: Vec<OsString> = own.into_iter().chain(more.iter().map(OsString::from)).collect();
        client(&arguments).await
    }

    async fn why(&self, more: &[&str]) -> Result<(), Failure> {
        let more: Vec<&str> = more.iter().copied().chain(["--redirector", &self.url]).collect();
        self.run("why", &more).await
    }
}

fn configuration(scratch: &Path, own: &Path, authority: &Path, nodes: &[Endpoint]) -> String {
    let nodes = nodes
        .iter()
        .map(|node| format!("[[node]]\nurl = \"{}\"\n", node.storage()));
    format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\ncertificate = {}\nkey = {}\ngrace_time = \"2s\"\n\
         [redirector]\npath = \"/data\"\nanonymous = \"write\"\n{}\
         [macaroons]\nsecret_file = {}\n\
         [trust]\nca_files = [{}]\nsystem = false\n[log]\nfile = {}\n",
        quoted(&scratch.join(CERTIFICATE)),
        quoted(&scratch.join(KEY)),
        nodes.collect::<String>(),
        quoted(&scratch.join("macaroon.secret")),
        quoted(authority),
        quoted(&own.join("log")),
    )
}
