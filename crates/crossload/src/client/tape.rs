//! `stage`, `evict` and `archived`: files on tape.

use remote::{ArchiveState, Locality, Resource, StageState, TapeSystem, ToStage, tape_path};
use serde_json::{Value, json};
use types::{Error, ErrorCode, Phase, Result};

use super::each::complain;
use super::place::Place;
use super::session::ClientContext;
use crate::command_line::{ArchivedOptions, Common, EvictOptions, Places, StageOptions, StageRequest};
use crate::exit_code::ExitCodes;
use crate::failure::Failure;
use crate::limits::{STAGE_LOOK_FAILURES_MAX, STAGE_LOOK_PAUSE_MAX, STAGE_LOOK_PAUSE_MIN};
use crate::next_step::NO_REQUEST;
use crate::output;

/// Brings files online, or asks about or cancels an earlier request.
pub(crate) async fn stage(session: &ClientContext, options: &StageOptions) -> std::result::Result<u8, Failure> {
    let mut tape = Tape::new(session, "stage", &options.places, &options.common);
    let groups = tape.groups(&options.places).await?;
    match options.request() {
        StageRequest::New {
            pin_s,
            is_awaited,
            limit,
        } => {
            let metadata = options.staging_metadata.as_ref().filter(|data| data.is_object());
            let requests = tape.request(&groups, pin_s, metadata).await;
            match limit {
                Some(limit) => {
                    // The requests go on.
                    let _ = tokio::time::timeout(limit, tape.wait_for(requests)).await;
                }
                None if is_awaited => tape.wait_for(requests).await,
                None => {}
            }
        }
        StageRequest::Status(id) => {
            for group in &groups {
                let mut request = Request::of(group, &id, &group.files);
                if let Err(error) = tape.look(&mut request).await {
                    tape.fail(&request.pending, error);
                }
                for (file, state) in request.pending.iter().zip(request.states) {
                    tape.say(file, state, None);
                }
            }
        }
        StageRequest::Cancel(id) => tape.cancel(&groups, &id).await,
    }
    Ok(tape.exit_code())
}

/// Lets the tape system remove files from disk that were brought online.
pub(crate) async fn evict(session: &ClientContext, options: &EvictOptions) -> std::result::Result<u8, Failure> {
    let mut tape = Tape::new(session, "evict", &options.places, &options.common);
    let groups = tape.groups(&options.places).await?;
    for group in &groups {
        let id = match &options.request {
            Some(id) => id,
            None if group.system.releases_by_request() => {
                let error = Error::new(ErrorCode::ArgumentMissing, group.place.side, Phase::Staging);
                return Err(Failure::advised(
                    &error
                        .with_detail("over HTTP, files are evicted by the request that staged them")
                        .with_subject(&group.place.location),
                    "Give it with --request: stage printed it, once for each storage.",
                ));
            }
            None => "",
        };
        for files in group.files.chunks(group.system.files_max()) {
            let files = tape.existing(group, files).await;
            if files.is_empty() {
                continue;
            }
            let paths = paths(&files);
            let released = session.client.release_staged(&group.system, &group.place, id, &paths);
            match released.await {
                Ok(()) => files.iter().for_each(|file| tape.say(file, "EVICTED", None)),
                Err(error) => tape.fail(&files, error),
            }
        }
    }
    Ok(tape.exit_code())
}

/// Prints where files are. The exit code is 0 only if all are on tape.
pub(crate) async fn archived(session: &ClientContext, options: &ArchivedOptions) -> std::result::Result<u8, Failure> {
    let mut tape = Tape::new(session, "archived", &options.places, &options.common);
    let groups = tape.groups(&options.places).await?;
    for group in &groups {
        for files in group.files.chunks(group.system.files_max()) {
            match session
                .client
                .archive_states(&group.system, &group.place, &paths(files))
                .await
            {
                Ok(states) => files
                    .iter()
                    .zip(states)
                    .for_each(|(file, state)| tape.locate(group, file, state)),
                Err(error) => tape.fail(files, error),
            }
        }
    }
    Ok(tape.exit_code())
}

/// Files of one storage.
struct Group {
    system: TapeSystem,
    /// One of its files, with the credentials for all.
    place: Resource,
    files: Vec<File>,
}

#[derive(Clone)]
struct File {
    /// As the user named it.
    name: String,
    /// As the tape system names it.
    path: String,
}

fn paths(files: &[File]) -> Vec<String> {
    files.iter().map(|file| file.path.clone()).collect()
}

/// A request that a tape system works on.
struct Request<'a> {
    group: &'a Group,
    id: String,
    /// The files that are not known to be online or lost.
    pending: Vec<File>,
    /// How far they are.
    states: Vec<&'static str>,
}

impl<'a> Request<'a> {
    fn of(group: &'a Group, id: &str, files: &[File]) -> Self {
        Self {
            group,
            id: id.to_owned(),
            pending: files.to_vec(),
            states: Vec::new(),
        }
    }
}

/// One command about tape.
struct Tape<'a> {
    session: &'a ClientContext,
    command: &'static str,
    is_json: bool,
    /// Whether there is one file at most.
    is_one: bool,
    /// The exit code of the last failure.
    last: Option<u8>,
    /// A file is not on tape.
    is_missing: bool,
}

impl<'a> Tape<'a> {
    fn new(session: &'a ClientContext, command: &'static str, places: &Places, common: &Common) -> Self {
        Self {
            session,
            command,
            is_json: common.json,
            is_one: places.is_one(),
            last: None,
            is_missing: false,
        }
    }

    fn exit_code(&self) -> u8 {
        let codes = ExitCodes::chosen();
        match self.last {
            // That a file is not on tape is certain, whatever failed beside it.
            _ if self.is_missing => codes.of_no(),
            None => 0,
            Some(last) if self.is_one => last,
            Some(last) => codes.of_several(last),
        }
    }

    /// The places by storage, with the tape system of each. Those without one are reported.
    ///
    /// # Errors
    /// That the only place has none; the list of places cannot be read.
    async fn groups(&mut self, places: &Places) -> std::result::Result<Vec<Group>, Failure> {
        let mut storages: Vec<(Resource, Vec<File>)> = Vec::new();
        for name in places.all()? {
            let name = name?;
            let place = match self.place_on_tape(&name).await {
                Ok(place) => place,
                Err(error) if places.is_one() => return Err(error.into()),
                Err(error) => {
                    let path = name.clone();
                    self.fail(&[File { name, path }], error);
                    continue;
                }
            };
            let path = tape_path(&place.location);
            let file = File { name, path };
            let known = storages
                .iter_mut()
                .find(|(first, _)| first.location.same_origin(&place.location));
            match known {
                Some((_, files)) => files.push(file),
                None => storages.push((place, vec![file])),
            }
        }
        let mut groups = Vec::new();
        for (place, files) in storages {
            match self.system_of(&place).await {
                Ok(system) => groups.push(Group { system, place, files }),
                Err(failure) if places.is_one() => return Err(failure),
                Err(failure) => self.fail(&files, failure),
            }
        }
        Ok(groups)
    }

    async fn place_on_tape(&self, name: &str) -> Result<Resource> {
        let place = self.session.place(name).await?;
        let side = place.side();
        match &place {
            Place::Remote(location) if location.is_s3() => {
                let error = Error::new(ErrorCode::PeerUnsupported, side, Phase::Staging).with_subject(&place);
                Err(error.with_detail(NO_REQUEST))
            }
            Place::Remote(location) => Ok(self.session.resource(location, side)),
            Place::Local(_) | Place::Stdio => {
                let error = Error::new(ErrorCode::NotImplemented, side, Phase::Staging).with_subject(&place);
                Err(error.with_detail("files of this machine are not on tape"))
            }
        }
    }

    /// The tape system of a storage.
    async fn system_of(&self, place: &Resource) -> std::result::Result<TapeSystem, Failure> {
        if let Some(system) = self.session.client.tape_system(place).await? {
            return Ok(system);
        }
        let error = Error::new(ErrorCode::PeerUnsupported, place.side, Phase::Staging).with_subject(&place.location);
        let error = error.with_detail("the storage announces no tape system (WLCG Tape REST API)");
        Err(Failure::advised(
            &error,
            "Use a root URL, if its tape is reached by XRootD's prepare.",
        ))
    }

    fn say(&self, file: &File, outcome: &str, request: Option<&str>) {
        let name = &file.name;
        match (self.is_json, request) {
            (true, _) => output::json(&json!({"name": name, "outcome": outcome, "request": request})),
            (false, Some(request)) => output::line(&format!("{}\t{outcome}\t{request}", output::name(name))),
            (false, None) => output::line(&format!("{}\t{outcome}", output::name(name))),
        }
    }

    fn fail(&mut self, files: &[File], failure: impl Into<Failure>) {
        files.iter().for_each(|file| self.say(file, "FAILED", None));
        let failure = failure.into();
        self.last = Some(failure.exit_code);
        complain(self.command, failure);
    }

    /// A file that the tape system refuses.
    fn fail_one(&mut self, file: &File, words: &str) {
        self.say(file, "FAILED", None);
        output::complain(&format!("crossload {} error: {}: {words}", self.command, file.name));
        self.last = Some(ErrorCode::StagingFailed.exit_code());
    }

    fn fail_missing(&mut self, group: &Group, file: &File) {
        let location = group.place.location.with_path(&file.path);
        let error = Error::new(ErrorCode::PeerNotFound, group.place.side, Phase::Open);
        self.fail(std::slice::from_ref(file), error.with_subject(&location));
    }

    /// Asks for all files. Returns the requests that were accepted.
    async fn request<'g>(
        &mut self,
        groups: &'g [Group],
        pin_s: Option<u32>,
        metadata: Option<&Value>,
    ) -> Vec<Request<'g>> {
        let mut requests = Vec::new();
        for group in groups {
            for files in group.files.chunks(group.system.files_max()) {
                let wanted: Vec<_> = files
                    .iter()
                    .map(|file| ToStage {
                        path: &file.path,
                        pin_s,
                        metadata,
                    })
                    .collect();
                match self.session.client.stage(&group.system, &group.place, &wanted).await {
                    Ok(id) => {
                        files.iter().for_each(|file| self.say(file, "REQUESTED", Some(&id)));
                        requests.push(Request::of(group, &id, files));
                    }
                    Err(error) => self.fail(files, error),
                }
            }
        }
        requests
    }

    /// Waits until no file is pending. Some failed looks in a row are endured: staging takes hours.
    async fn wait_for(&mut self, mut requests: Vec<Request<'_>>) {
        let (mut pause, mut failures) = (STAGE_LOOK_PAUSE_MIN, 0);
        loop {
            for request in &mut requests {
                match self.look(request).await {
                    Ok(()) => failures = 0,
                    Err(error) if failures >= STAGE_LOOK_FAILURES_MAX || !error.retry() => {
                        self.fail(&std::mem::take(&mut request.pending), error);
                    }
                    Err(_) => failures += 1,
                }
            }
            requests.retain(|request| !request.pending.is_empty());
            if requests.is_empty() {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(STAGE_LOOK_PAUSE_MAX);
        }
    }

    /// Looks how far the pending files of a request are, and reports those that have ended.
    async fn look(&mut self, request: &mut Request<'_>) -> Result<()> {
        let (group, client) = (request.group, &self.session.client);
        let paths = paths(&request.pending);
        let states = client
            .stage_states(&group.system, &group.place, &request.id, &paths)
            .await?;
        request.states.clear();
        let mut pending = Vec::new();
        for (file, state) in std::mem::take(&mut request.pending).into_iter().zip(states) {
            match state {
                StageState::Waiting | StageState::Started => {
                    request.states.push(if state == StageState::Waiting {
                        "WAITING"
                    } else {
                        "STARTED"
                    });
                    pending.push(file);
                }
                StageState::OnDisk => self.say(&file, "ONLINE", None),
                StageState::Canceled => {
                    self.say(&file, "CANCELED", None);
                    self.last = Some(ErrorCode::Cancelled.exit_code());
                }
                StageState::Failed(words) => self.fail_one(&file, &words),
                StageState::Missing(_) => self.fail_missing(group, &file),
            }
        }
        request.pending = pending;
        Ok(())
    }

    /// The files without those that do not exist, which are reported: XRootD lets go of any name.
    /// Where that cannot be asked, all of them.
    async fn existing(&mut self, group: &Group, files: &[File]) -> Vec<File> {
        if group.system.releases_by_request() {
            return files.to_vec();
        }
        let (client, paths) = (&self.session.client, paths(files));
        let Ok(states) = client.archive_states(&group.system, &group.place, &paths).await else {
            return files.to_vec();
        };
        let mut existing = Vec::new();
        for (file, state) in files.iter().zip(states) {
            match state {
                ArchiveState::Missing(_) => self.fail_missing(group, file),
                _ => existing.push(file.clone()),
            }
        }
        existing
    }

    async fn cancel(&mut self, groups: &[Group], id: &str) {
        for group in groups {
            let (client, files) = (&self.session.client, &group.files);
            let paths = paths(files);
            let canceled = client.cancel_staging(&group.system, &group.place, id, &paths, true);
            match canceled.await {
                Ok(()) => files.iter().for_each(|file| self.say(file, "CANCELED", None)),
                Err(error) => self.fail(files, error),
            }
        }
    }

    fn locate(&mut self, group: &Group, file: &File, state: ArchiveState) {
        let locality = match state {
            ArchiveState::At(locality) => locality,
            ArchiveState::Refused(words) => return self.fail_one(file, &words),
            ArchiveState::Missing(_) => return self.fail_missing(group, file),
            ArchiveState::Unanswered => return self.fail_one(file, "the answer does not name this file"),
        };
        let words = match locality {
            Locality::Disk => "DISK",
            Locality::Tape => "TAPE",
            Locality::DiskAndTape => "DISK_AND_TAPE",
            Locality::Lost => "LOST",
            Locality::Nowhere => "NONE",
            Locality::Unavailable => "UNAVAILABLE",
        };
        self.say(file, words, None);
        if !locality.is_on_tape() {
            self.is_missing = true;
        }
    }
}
