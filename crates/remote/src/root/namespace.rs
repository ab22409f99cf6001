//! Operations on names, and questions about them.

use crate::limits::{ACCEPTED_POLL_PERIOD, ACCEPTED_POLLS_MAX, CHECKSUM_PAUSE, ROOT_CHECKSUM_ASKS_MAX};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, PeerStatus, Phase, Result};
use xroot_wire::request::{ChangeMode, MakeDirectory, Query, QueryKind, Remove, RemoveDirectory, Rename, Stat};
use xroot_wire::response::{ConfigAnswer, SpaceUsage, StatText, parse_checksum};
use xroot_wire::{Argument, Request, StatFlags};

use super::ask::{Ask, Client, Encode};
use super::route::{Route, check_path, pair};
use super::verdict::recoded;
use crate::Entry;
use crate::resource::{Facts, FileIdentity, Resource};

/// Permissions of a new directory; the server's umask may reduce them.
const DIRECTORY_MODE: u16 = 0o755;

impl Client {
    /// What a name stands for.
    ///
    /// # Errors
    /// `peer_not_found`, or another refusal.
    pub(crate) async fn stat(&self, file: &Resource) -> Result<Entry> {
        let (stat, _) = self.look(file).await?;
        Ok(entry_of(file.location.path(), &stat))
    }

    /// Asks what a file is, and for the first checksum of `wanted` that the server knows.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) async fn head(&self, file: &Resource, wanted: &[ChecksumAlgorithm]) -> Result<Facts> {
        let (stat, route) = self.look(file).await?;
        let mut facts = facts_of(&stat, route.at.location.clone());
        // Its servers do not know those of object stores.
        let known = |algorithm: &&ChecksumAlgorithm| ChecksumAlgorithm::ALL.contains(algorithm);
        for algorithm in wanted.iter().filter(known).filter(|_| facts.size_bytes.is_some()) {
            // At the server of the file: not every redirector forwards this question.
            match self.one_of(&route, *algorithm, wanted).await {
                Ok(Some(checksum)) => {
                    facts.checksums.push(checksum);
                    facts.checksum_refusal = None;
                    break;
                }
                Ok(None) => {}
                // Not every server computes checksums, or this algorithm.
                Err(error) if error.peer_status().is_some() => facts.checksum_refusal = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok(facts)
    }

    /// Asks for one checksum until the answer is one of the `wanted`, at most
    /// [`ROOT_CHECKSUM_ASKS_MAX`] times; `None` if it never is. XRootD 5.5 also fails (`Program
    /// failed`) while it computes checksums of several files, so a failure that may pass is asked
    /// again after a pause.
    async fn one_of(
        &self,
        route: &Route,
        algorithm: ChecksumAlgorithm,
        wanted: &[ChecksumAlgorithm],
    ) -> Result<Option<Checksum>> {
        let mut pause = CHECKSUM_PAUSE;
        let mut failure = None;
        for asked in 1..=ROOT_CHECKSUM_ASKS_MAX {
            match self.checksum(route, algorithm).await {
                Ok(Some(checksum)) if !wanted.contains(&checksum.algorithm()) => failure = None,
                Err(error) if may_pass(&error) => {
                    failure = Some(error);
                    if asked < ROOT_CHECKSUM_ASKS_MAX {
                        tokio::time::sleep(pause).await;
                        pause *= 2;
                    }
                }
                answer => return answer,
            }
        }
        failure.map_or(Ok(None), Err)
    }

    pub(super) async fn look(&self, file: &Resource) -> Result<(StatText, Route)> {
        let ask = Ask::looking(&|target, id, out| Request::Stat(Stat::path(target.path)).encode(id, out));
        let answered = self.ask(file, &ask).await?;
        let stat = StatText::parse(&answered.body).map_err(|error| answered.route.at.blame(error))?;
        self.keep(&answered.route, answered.session);
        Ok((stat, answered.route))
    }

    /// The checksum of a file, computed by its server if need be; `None` for an algorithm that we
    /// do not know.
    ///
    /// # Errors
    /// The server's refusal, and `peer_stalled` when it computes for too long.
    async fn checksum(&self, route: &Route, algorithm: ChecksumAlgorithm) -> Result<Option<Checksum>> {
        let ask = Ask {
            own: &[pair("cks.type", wire_name(algorithm))],
            patience: Some(ACCEPTED_POLL_PERIOD * ACCEPTED_POLLS_MAX),
            ..Ask::looking(&|target, id, out| {
                Request::Query(Query::new(QueryKind::Checksum, target.path)).encode(id, out);
            })
        };
        let answered = self.ask_on(route.clone(), &ask).await?;
        self.keep(&answered.route, answered.session);
        parse_checksum(&answered.body).map_err(|error| route.at.blame(error))
    }

    /// Values of a server's configuration, in the order of the keys.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) async fn configuration(&self, file: &Resource, keys: &[&str]) -> Result<Vec<Option<String>>> {
        let argument = format!("{}\0", keys.join(" "));
        let encode: Encode<'_> = &|_, id, out| {
            Request::Query(Query::new(QueryKind::Config, argument.as_bytes())).encode(id, out);
        };
        let body = self.ask_text(file, &Ask::looking(encode)).await?;
        let answer = ConfigAnswer::parse(&body).map_err(|error| file.blame(error))?;
        let values = keys.iter().enumerate();
        Ok(values
            .map(|(place, key)| answer.value(place, key).map(str::to_owned))
            .collect())
    }

    /// The space behind a path.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) async fn space(&self, file: &Resource) -> Result<SpaceUsage> {
        let encode: Encode<'_> = &|target, id, out| {
            Request::Query(Query::new(QueryKind::Space, target.path)).encode(id, out);
        };
        let body = self.ask_text(file, &Ask::looking(encode)).await?;
        SpaceUsage::parse(&body).map_err(|error| file.blame(error))
    }

    /// Makes a directory, but not its parents. Servers do not say whether it existed before.
    ///
    /// # Errors
    /// `parent_missing`, `peer_exists` for a file of that name, or another refusal.
    pub(crate) async fn make_directory(&self, file: &Resource) -> Result<()> {
        let encode: Encode<'_> = &|target, id, out| {
            let request = MakeDirectory {
                options: 0,
                mode: DIRECTORY_MODE,
                path: Argument::new(target.path),
            };
            Request::MakeDirectory(request).encode(id, out);
        };
        match self.act(file, encode).await {
            Err(error) if error.code() == ErrorCode::PeerNotFound => {
                Err(recoded(&error, ErrorCode::ParentMissing, file))
            }
            other => other,
        }
    }

    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// `not_empty`, or another refusal.
    pub(crate) async fn delete(&self, file: &Resource) -> Result<()> {
        let encode: Encode<'_> = &|target, id, out| {
            let path = Argument::new(target.path);
            Request::Remove(Remove { path }).encode(id, out);
        };
        match self.act(file, encode).await {
            Err(error) if says_not_empty(&error) => Err(recoded(&error, ErrorCode::NotEmpty, file)),
            // Some servers remove empty directories with this request; others need another one.
            Err(error) if may_be_directory(&error) && self.stat(file).await.is_ok_and(|entry| entry.is_directory) => {
                self.remove_directory(file).await
            }
            other => other,
        }
    }

    pub(crate) async fn remove_directory(&self, file: &Resource) -> Result<()> {
        let encode: Encode<'_> = &|target, id, out| {
            let path = Argument::new(target.path);
            Request::RemoveDirectory(RemoveDirectory { path }).encode(id, out);
        };
        self.act(file, encode).await.map_err(|error| match error.code() {
            ErrorCode::PeerExists => recoded(&error, ErrorCode::NotEmpty, file),
            _ if says_not_empty(&error) => recoded(&error, ErrorCode::NotEmpty, file),
            _ => error,
        })
    }

    /// Renames a file or directory within its server.
    ///
    /// # Errors
    /// `peer_exists` when the new name is taken and may not be replaced (we ask first, since the
    /// protocol has no such condition), `cross_export` for another server, or another refusal.
    pub(crate) async fn rename(&self, file: &Resource, destination: &Location, overwrite: bool) -> Result<()> {
        if !file.location.same_origin(destination) {
            let error = file.error(ErrorCode::CrossExport, Phase::Open);
            return Err(error.with_detail("the new name is on another server"));
        }
        check_path(destination.path())?;
        let target = Resource {
            location: destination.clone(),
            ..file.clone()
        };
        if !overwrite {
            match self.look(&target).await {
                Ok(_) => return Err(target.error(ErrorCode::PeerExists, Phase::Open)),
                Err(error) if error.code() == ErrorCode::PeerNotFound => {}
                Err(error) => return Err(error),
            }
        }
        let encode: Encode<'_> = &|target, id, out| {
            let new_name = target.sibling(destination.path());
            let request = Rename::new(target.path, new_name.expose().as_bytes());
            Request::Rename(request).encode(id, out);
        };
        let renamed = self.act(file, encode).await;
        renamed.map_err(|error| match says_other_device(&error) {
            true => recoded(&error, ErrorCode::CrossExport, file),
            false => error,
        })
    }

    /// Sets permission bits.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) async fn set_mode(&self, file: &Resource, mode: u16) -> Result<()> {
        let encode: Encode<'_> = &|target, id, out| {
            let path = Argument::new(target.path);
            Request::ChangeMode(ChangeMode { mode, path }).encode(id, out);
        };
        self.act(file, encode).await
    }

    async fn act(&self, file: &Resource, encode: Encode<'_>) -> Result<()> {
        self.ask_text(file, &Ask::changing(encode)).await.map(drop)
    }
}

/// Whether a checksum may be computed if it is asked for again. XRootD answers an algorithm that it
/// does not compute with the same number, 3012.
fn may_pass(error: &Error) -> bool {
    let says_unsupported = error.peer_words().is_some_and(|words| words.contains("not supported"));
    error.peer_status().is_some_and(PeerStatus::may_pass) && !says_unsupported
}

/// Whether a server cannot rename across its file systems. There is no error number for that.
fn says_other_device(error: &Error) -> bool {
    let words = error.peer_words().unwrap_or_default();
    words.to_ascii_lowercase().contains("cross-device link")
}

fn may_be_directory(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::IsDirectory | ErrorCode::PeerFailed | ErrorCode::PeerExists | ErrorCode::PeerUnsupported
    )
}

fn says_not_empty(error: &Error) -> bool {
    let words = error.peer_words().unwrap_or_default().to_ascii_lowercase();
    words.contains("not empty")
}

/// The protocol's name of an algorithm.
pub(super) fn wire_name(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Sha256 => "sha256",
        other => other.name(),
    }
}

/// What a stat text says, as an entry.
pub(super) fn entry_of(path: &str, stat: &StatText) -> Entry {
    let trimmed = path.trim_end_matches('/');
    Entry {
        path: if trimmed.is_empty() { "/" } else { trimmed }.to_owned(),
        is_directory: stat.is_directory(),
        is_special: stat.flags.contains(StatFlags::OTHER),
        is_unclosed: stat.flags.contains(StatFlags::PERSIST_PENDING),
        size_bytes: (!stat.is_directory()).then_some(stat.size_bytes),
        modified_s: Some(stat.modified_s),
        ..Entry::default()
    }
}

/// Which file a stat text is about. Servers without identifiers write 0.
pub(super) fn identity_of(stat: &StatText, server: &Location) -> Option<FileIdentity> {
    (stat.id != 0).then(|| FileIdentity {
        server: server.clone(),
        id: stat.id,
        modified_s: stat.modified_s,
        is_unclosed: stat.flags.contains(StatFlags::PERSIST_PENDING),
    })
}

/// What a stat text says, as facts. Id, time and size together identify the state of the file.
pub(super) fn facts_of(stat: &StatText, location: Location) -> Facts {
    let is_directory = stat.is_directory();
    Facts {
        identity: identity_of(stat, &location),
        location,
        size_bytes: (!is_directory).then_some(stat.size_bytes),
        etag: Some(format!("\"{}-{}-{}\"", stat.id, stat.modified_s, stat.size_bytes)),
        last_modified: None,
        age_s: None,
        checksums: Vec::new(),
        cached_s: None,
        checksum_refusal: None,
        accepts_ranges: Some(true),
        compares_trailers: false,
    }
}
