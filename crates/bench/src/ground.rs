//! What all loads stand on: whom to measure, clients to do it with, the directories and files of
//! the run, and their removal.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use remote::{Client, ClientOptions, Resource};
use tokio::task::JoinSet;
use types::{ErrorCode, Result};

use crate::{RunProgress, Stop, report};

/// Files that are removed at the same time.
const REMOVALS_AT_ONCE: usize = 16;
/// Longest time for one removal: a server that does not answer must not keep us for ever.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long is waited before what could not be removed is tried again: at first, and at last.
const REMOVAL_PAUSE: Duration = Duration::from_millis(250);
const REMOVAL_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Whom to measure.
#[derive(Clone, Debug)]
pub struct Target {
    /// What it is called in tables. Several targets may be one server over several protocols, under
    /// one name.
    pub name: String,
    /// The directory below which the run may make a directory of its own.
    pub place: Resource,
    /// A file there that is read instead of one that the run makes, for those who cannot be written
    /// to.
    pub file: Option<Resource>,
    /// The known processes of the server on this machine, children included.
    pub processes: Vec<u32>,
}

impl Target {
    /// The protocol, as labels name it: `https`, `http`, `roots`, `root`.
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        let place = &self.place.location;
        match (place.is_xrootd(), place.is_encrypted()) {
            (true, true) => "roots",
            (true, false) => "root",
            (false, true) => "https",
            (false, false) => "http",
        }
    }

    /// Whether its URL names this machine.
    #[must_use]
    pub fn is_here(&self) -> bool {
        let host = self.place.location.host().trim_matches(['[', ']']);
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Another place of the same target.
    #[must_use]
    pub fn at(&self, location: types::Location) -> Resource {
        Resource {
            location,
            ..self.place.clone()
        }
    }

    /// As a report has it.
    #[must_use]
    pub fn listed(&self) -> report::Target {
        report::Target {
            name: self.name.clone(),
            url: self.place.location.to_string(),
        }
    }
}

/// What all loads stand on.
#[derive(Debug)]
pub struct Ground {
    /// Whom to measure; never empty.
    pub targets: Vec<Target>,
    /// Where progress is reported.
    pub progress: RunProgress,
    /// Whether to end early.
    pub stop: Stop,
    options: ClientOptionsOf,
    /// A part of the name of all directories, so that two runs at a time do not meet.
    mark: String,
    made: Mutex<Vec<Made>>,
}

/// [`ClientOptions`] that can be shown.
struct ClientOptionsOf(ClientOptions);

impl std::fmt::Debug for ClientOptionsOf {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0.user_agent)
    }
}

/// A directory that was made, and what was or may have been made in it.
#[derive(Debug)]
struct Made {
    directory: Resource,
    files: HashMap<String, Resource>,
}

impl Ground {
    /// The ground of a run. `mark` becomes a part of the names of its directories.
    #[must_use]
    pub fn new(targets: Vec<Target>, options: ClientOptions, mark: &str, progress: RunProgress, stop: Stop) -> Self {
        Self {
            targets,
            progress,
            stop,
            options: ClientOptionsOf(options),
            mark: mark.to_owned(),
            made: Mutex::default(),
        }
    }

    /// A client that shares no connection with others, so that `n` clients have `n` connections.
    #[must_use]
    pub fn new_client(&self) -> Client {
        Client::new(self.options.0.clone())
    }

    /// How clients reach servers, for those that need another kind.
    #[must_use]
    pub fn client_options(&self) -> &ClientOptions {
        &self.options.0
    }

    /// Makes a directory for this run below the target's, and remembers to remove it. Each call of
    /// one target with the same `what` is about the same directory.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn directory(&self, target: &Target, what: &str) -> Result<Resource> {
        let name = format!("crossload-bench-{}-{what}", self.mark);
        let mut location = target.place.location.child(&name);
        if location.is_http() {
            // RFC 4918 §5.2: the URL of a collection ends with a slash; nginx insists on it.
            location = target.place.location.child(&format!("{name}/"));
        }
        let directory = target.at(location);
        if self
            .lock()
            .iter()
            .any(|made| made.directory.location == directory.location)
        {
            return Ok(directory);
        }
        // Remembered before it is made: it may be there although the answer got lost.
        self.lock().push(Made {
            directory: directory.clone(),
            files: HashMap::new(),
        });
        match self.new_client().make_directory(&directory).await {
            Err(error) if error.code() != ErrorCode::PeerExists => {
                // Where the server said no there is nothing to remove.
                if error.peer_status().is_some() {
                    self.lock().retain(|made| made.directory.location != directory.location);
                }
                Err(error)
            }
            _ => Ok(directory),
        }
    }

    /// A file in a directory of [`Ground::directory`], remembered to be removed.
    #[must_use]
    pub fn file(&self, directory: &Resource, name: &str) -> Resource {
        let file = Resource {
            location: directory.location.child(name),
            ..directory.clone()
        };
        let mut made = self.lock();
        if let Some(made) = made
            .iter_mut()
            .find(|made| made.directory.location == directory.location)
        {
            made.files.insert(name.to_owned(), file.clone());
        }
        file
    }

    /// Removes files of [`Ground::file`] to make room for the next sample. What cannot be removed
    /// now is tried again at the end.
    pub async fn make_room<'a>(&self, client: &Client, files: impl IntoIterator<Item = &'a Resource>) {
        for file in files {
            if let Some(Ok(())) = self.stop.or(client.delete(file)).await {
                self.forget(file);
            }
        }
    }

    fn forget(&self, file: &Resource) {
        let name = file.location.file_name();
        for made in &mut *self.lock() {
            if made
                .files
                .get(&name)
                .is_some_and(|known| known.location == file.location)
            {
                made.files.remove(&name);
            }
        }
    }

    /// Removes everything that was made, also after [`Stop`], and reports it. All directories at
    /// the same time: a server that is busy ending copies must not delay the others. Returns what
    /// is left, in words.
    pub async fn clean_up(&self) -> Vec<String> {
        let made = std::mem::take(&mut *self.lock());
        let mut removals = JoinSet::new();
        for Made { directory, files } in made {
            let location = &directory.location;
            self.progress
                .aside(format!("removing {location} and {} files in it", files.len()));
            let clients: Arc<[Client]> = (0..REMOVALS_AT_ONCE).map(|_| self.new_client()).collect();
            removals.spawn(remove(clients, directory, files.into_values().collect()));
        }
        let mut complaints: Vec<String> = removals.join_all().await.into_iter().flatten().collect();
        complaints.sort();
        complaints
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a directory and its files; what is left, in words.
async fn remove(clients: Arc<[Client]>, directory: Resource, files: Vec<Resource>) -> Option<String> {
    let mut pause = REMOVAL_PAUSE;
    loop {
        remove_files(&clients, files.clone()).await;
        match in_time(&clients[0], &directory).await {
            // A copy that was given up just now may still have been finished: its server looks for
            // us now and then.
            Err(error) if error.code() != ErrorCode::PeerNotFound => {
                if pause > REMOVAL_PAUSE_MAX {
                    return Some(format!("{} may be left: {}", directory.location, error.public()));
                }
            }
            _ => return None,
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

/// Removes files, several at a time. What is not there need not go; what cannot be removed is seen
/// with its directory.
async fn remove_files(clients: &Arc<[Client]>, files: Vec<Resource>) {
    let files = Arc::new(Mutex::new(files));
    let mut removals = JoinSet::new();
    for client in 0..clients.len() {
        let (clients, files) = (Arc::clone(clients), Arc::clone(&files));
        removals.spawn(async move {
            loop {
                let next = files.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some(file) = next else { break };
                let _ = tokio::time::timeout(REMOVAL_TIMEOUT, clients[client].delete(&file)).await;
            }
        });
    }
    while removals.join_next().await.is_some() {}
}

async fn in_time(client: &Client, directory: &Resource) -> Result<()> {
    let removal = client.delete(directory);
    tokio::time::timeout(REMOVAL_TIMEOUT, removal)
        .await
        .unwrap_or_else(|_| {
            let error = types::Error::new(ErrorCode::PeerStalled, directory.side, types::Phase::Cleanup);
            Err(error.with_subject(&directory.location))
        })
}
