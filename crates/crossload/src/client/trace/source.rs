//! Where lines about a transfer are: the memory of a running server, or a file.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use types::{ErrorCode, Location, Side};

use crate::client::explain::read_page;
use crate::client::session::ClientContext;
use crate::failure::Failure;
use crate::limits::{TRACE_LINE_BYTES_MAX, TRACE_LINES_MAX};

/// A server or a file.
pub(super) enum Source {
    /// The admin address of a server.
    Admin(Location),
    /// A log.
    Log(PathBuf),
}

impl Source {
    /// A server.
    ///
    /// # Errors
    /// It is no URL of HTTP.
    pub(super) fn admin(session: &ClientContext, url: &str) -> Result<Self, Failure> {
        let location = Location::parse(&session.url(url)?)?;
        match location.is_http() {
            true => Ok(Self::Admin(location)),
            false => Err(Failure::invalid("--admin needs a URL such as http://127.0.0.1:9090")),
        }
    }

    /// A file.
    pub(super) fn log(path: &Path) -> Self {
        Self::Log(path.to_owned())
    }

    /// How it is shown.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Admin(location) => location.authority(),
            Self::Log(path) => path.display().to_string(),
        }
    }

    /// Its lines with an identifier; none is no error.
    ///
    /// # Errors
    /// Why it cannot be asked, in words.
    pub(super) async fn about(&self, session: &ClientContext, id: &str) -> Result<Vec<String>, String> {
        match self {
            Self::Admin(location) => {
                let page = location.with_path(&format!("/trace/{id}"));
                match read_page(&session.client, &session.resource(&page, Side::Active)).await {
                    Ok(text) => Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()),
                    // A server that knows nothing of it answers so, and one that has no such page.
                    Err(error) if error.code() == ErrorCode::PeerNotFound => Ok(Vec::new()),
                    Err(error) => Err(error.public()),
                }
            }
            Self::Log(path) => {
                let (path, id) = (path.clone(), id.to_owned());
                let read = execution::blocking(move || lines_of(&path, &id)).await;
                read.unwrap_or_else(|_| Err("it was not read".to_owned()))
            }
        }
    }
}

/// The lines of a file with an identifier, the first ones if there are too many.
fn lines_of(path: &Path, id: &str) -> Result<Vec<String>, String> {
    let failed = |cause: std::io::Error| cause.to_string();
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let finder = memchr::memmem::Finder::new(id);
    let (mut found, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let mut limited = (&mut reader).take(TRACE_LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut line).map_err(failed)? == 0 || found.len() == TRACE_LINES_MAX {
            return Ok(found);
        }
        if finder.find(&line).is_some() {
            found.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
    }
}
