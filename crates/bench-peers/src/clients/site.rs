//! The servers that clients copy from and to, and their trees.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::relay::Relay;
use testkit::{Error, Result};
use tokio::runtime::Runtime;

use super::program::Program;
use super::{Content, Tree, Way};
use crate::server::{Kind, Lab, Server};

/// Two servers, near and far away.
pub(crate) struct Site {
    servers: [Server; 2],
    /// Of the far servers.
    relays: Vec<Relay>,
    /// Where the relays run.
    runtime: Runtime,
    /// Where clients find and put local trees, in memory.
    local: PathBuf,
    pub(super) home: PathBuf,
    pub(super) ca_file: PathBuf,
    pub(super) trust_directory: PathBuf,
}

/// The two ends of a copy, as they are given to the client, and where the copy is found.
pub(crate) struct Ends {
    pub(super) source: String,
    pub(super) destination: String,
    /// The directory at the destination.
    copy: PathBuf,
    /// Where in it the files are.
    below: PathBuf,
}

impl Site {
    pub(super) fn start(lab: &mut Lab) -> Result<Self> {
        let servers = [lab.start(Kind::Crossload)?, lab.start(Kind::Crossload)?];
        let local = lab.place_in_memory("local").1;
        let home = lab.place("home").1;
        for directory in [&local, &home, &servers[0].file("empty")] {
            fs::create_dir_all(directory)?;
        }
        Ok(Self {
            servers,
            relays: Vec::new(),
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?,
            local,
            home,
            ca_file: lab.ca_file(),
            trust_directory: lab.trust_directory(),
        })
    }

    /// The URL of an empty directory, in clear text.
    pub(super) fn empty(&self, program: Program) -> String {
        let port = self.servers[0].root_port().unwrap_or_default();
        match program.is_xroot() {
            true => format!("root://localhost:{port}//data/empty"),
            false => format!("http://localhost:{port}/data/empty"),
        }
    }

    /// Makes the tree of the source, and a place for its copy that does not exist.
    pub(super) fn prepare(&mut self, lab: &mut Lab, program: Program, tree: Tree) -> Result<Ends> {
        let name = format!("{}-{}", tree.content.file_bytes(), tree.files);
        let (first, second) = (self.port(0, tree.rtt_ms)?, self.port(1, tree.rtt_ms)?);
        let url = |port: u16, name: &str| match program.is_xroot() {
            true => format!("root://localhost:{port}//data/{name}"),
            false => format!("https://localhost:{port}/data/{name}"),
        };
        let (here, there) = (self.local.join(&name), self.servers[0].file(&name));
        let path = |path: &Path| path.display().to_string();
        // xrdcp copies a directory into another one, which it does not make.
        let below = if program.is_xroot() {
            PathBuf::from(&name)
        } else {
            PathBuf::new()
        };
        let (source, ends) = match tree.way {
            Way::Download => {
                let copy = self.local.join("copy");
                (
                    there,
                    Ends {
                        source: url(first, &name),
                        destination: path(&copy),
                        copy,
                        below,
                    },
                )
            }
            Way::Upload => {
                let copy = self.servers[0].file("copy");
                (
                    here.clone(),
                    Ends {
                        source: path(&here),
                        destination: url(first, "copy"),
                        copy,
                        below,
                    },
                )
            }
            Way::ThirdParty => {
                let copy = self.servers[1].file("copy");
                (
                    there,
                    Ends {
                        source: url(first, &name),
                        destination: url(second, "copy"),
                        copy,
                        below,
                    },
                )
            }
        };
        plant(lab, &source, tree.content, tree.files)?;
        if program.is_xroot() {
            fs::create_dir(&ends.copy)?;
        }
        Ok(ends)
    }

    /// The port of a server for a client so far away.
    fn port(&mut self, server: usize, rtt_ms: u64) -> Result<u16> {
        if rtt_ms == 0 {
            return self.servers[server].root_port();
        }
        let _inside = self.runtime.enter();
        while self.relays.len() <= server {
            let to = SocketAddr::from(([127, 0, 0, 1], self.servers[self.relays.len()].root_port()?));
            let relay = Relay::start(SocketAddr::from(([127, 0, 0, 1], 0)), to, Duration::from_millis(rtt_ms))?;
            self.relays.push(relay);
        }
        Ok(self.relays[server].address().port())
    }

    /// Removes the copy of a tree, and complains if it is not complete.
    pub(super) fn take_away(&self, ends: &Ends, tree: Tree) -> Result<()> {
        let mut files = 0;
        for entry in fs::read_dir(ends.copy.join(&ends.below))? {
            let entry = entry?;
            let found = entry.metadata()?.len();
            if found != tree.content.file_bytes() {
                let name = entry.file_name();
                return Err(Error::Failed(format!("{} has {found} bytes", name.display())));
            }
            files += 1;
        }
        fs::remove_dir_all(&ends.copy)?;
        match files == tree.files {
            true => Ok(()),
            false => Err(Error::Failed(format!("{files} of {} files were copied", tree.files))),
        }
    }
}

/// A directory with hard links to one file, which take no memory.
fn plant(lab: &mut Lab, directory: &Path, content: Content, files: u64) -> Result<()> {
    if directory.exists() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    let (source, _) = lab.source(content.file_bytes())?;
    for number in 0..files {
        fs::hard_link(&source, directory.join(format!("file-{number:05}")))?;
    }
    Ok(())
}
