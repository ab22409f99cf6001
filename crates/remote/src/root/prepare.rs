//! Tape by the XRootD protocol itself: `kXR_prepare` and the question how far it is.
//!
//! Source: `XProtocol.hh` and `XrdOfsPrepGPI.cc` of XRootD 6.2.1 (at most 48 files by default, and
//! answers to questions of 2 KiB); the answers of EOS and CTA are JSON documents, as gfal2 reads
//! them. A server without a program for requests brings nothing online, and says so in plain words:
//! then the file's own flags count.

use serde_json::Value;
use types::{ErrorCode, Phase, Result};
use xroot_wire::request::{PathArguments, Prepare, Query, QueryKind};
use xroot_wire::{PrepareExtraOptions, PrepareOptions, Request, StatFlags};

use super::ask::{Ask, Client, Encode, RequestTarget};
use super::route::check_path;
use crate::limits::{TAPE_PREPARE_ASKED_MAX, TAPE_REQUEST_ID_BYTES_MAX};
use crate::resource::Resource;
use crate::tape::{ArchiveState, Locality, StageState, TapeAnswer, TapeCall};

impl Client {
    /// Asks the tape system of a server.
    ///
    /// # Errors
    /// The server's refusal, or an answer that cannot be understood.
    pub(crate) async fn tape(&self, place: &Resource, call: TapeCall<'_>) -> Result<TapeAnswer> {
        Ok(match call {
            TapeCall::Stage(paths) => TapeAnswer::Request(self.prepare(place, paths).await?),
            TapeCall::States { request, paths } => TapeAnswer::States(self.prepared(place, request, paths).await?),
            TapeCall::Cancel { request } => {
                self.cancel_prepare(place, request).await?;
                TapeAnswer::Done
            }
            TapeCall::Release(paths) => {
                self.evict(place, paths).await?;
                TapeAnswer::Done
            }
            TapeCall::Located(paths) => TapeAnswer::Places(self.located(place, paths).await?),
        })
    }

    /// Asks for files to be brought online. Returns the name of the request.
    async fn prepare(&self, place: &Resource, paths: &[&str]) -> Result<String> {
        let what = Wanted {
            options: PrepareOptions::STAGE,
            extra_options: PrepareExtraOptions::empty(),
        };
        let answer = self.prepare_paths(place, what, paths).await?;
        let text = String::from_utf8_lossy(text_of(&answer));
        let id = text.trim();
        let is_plain = id.bytes().all(|byte| byte.is_ascii_graphic());
        if id.is_empty() || !is_plain || id.len() > TAPE_REQUEST_ID_BYTES_MAX {
            let error = place.error(ErrorCode::PeerMisbehaved, Phase::Staging);
            return Err(error.with_detail("its answer names no request"));
        }
        Ok(id.to_owned())
    }

    /// Lets go of files that were brought online.
    async fn evict(&self, place: &Resource, paths: &[String]) -> Result<()> {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let what = Wanted {
            options: PrepareOptions::empty(),
            extra_options: PrepareExtraOptions::EVICT,
        };
        self.prepare_paths(place, what, &paths).await.map(drop)
    }

    /// Cancels a whole request.
    async fn cancel_prepare(&self, place: &Resource, request: &str) -> Result<()> {
        let encode: Encode<'_> = &|_, id, out| {
            let what = Wanted {
                options: PrepareOptions::CANCEL,
                extra_options: PrepareExtraOptions::empty(),
            };
            what.request(request.as_bytes()).encode(id, out);
        };
        self.ask_text(place, &Ask::looking(encode)).await.map(drop)
    }

    async fn prepare_paths(&self, place: &Resource, what: Wanted, paths: &[&str]) -> Result<Vec<u8>> {
        for path in paths {
            check_path(path).map_err(|error| place.blame(error))?;
        }
        let encode: Encode<'_> = &|target, id, out| {
            what.request(lines("", target, paths).as_bytes()).encode(id, out);
        };
        self.ask_text(place, &Ask::changing(encode)).await
    }

    /// How far files of a request are, in their order.
    async fn prepared(&self, place: &Resource, request: &str, paths: &[String]) -> Result<Vec<StageState>> {
        let mut states = Vec::with_capacity(paths.len());
        for some in paths.chunks(TAPE_PREPARE_ASKED_MAX) {
            let names: Vec<&str> = some.iter().map(String::as_str).collect();
            let encode: Encode<'_> = &|target, id, out| {
                let argument = lines(request, target, &names);
                Request::Query(Query::new(QueryKind::PrepareStatus, argument.as_bytes())).encode(id, out);
            };
            let told = match self.ask_text(place, &Ask::looking(encode)).await {
                Ok(answer) => told(&answer, some),
                // It keeps no requests.
                Err(error) if error.code() == ErrorCode::PeerUnsupported => None,
                Err(error) => return Err(error),
            };
            match told {
                Some(told) => states.extend(told),
                None => states.extend(self.states_by_flags(place, some).await?),
            }
        }
        Ok(states)
    }

    async fn states_by_flags(&self, place: &Resource, paths: &[String]) -> Result<Vec<StageState>> {
        let mut states = Vec::with_capacity(paths.len());
        for state in self.located(place, paths).await? {
            states.push(match state {
                ArchiveState::At(Locality::Tape) => StageState::Waiting,
                ArchiveState::Refused(words) => StageState::Failed(words),
                ArchiveState::Missing(words) => StageState::Missing(words),
                _ => StageState::OnDisk,
            });
        }
        Ok(states)
    }

    /// Where files are, in their order, by their flags.
    async fn located(&self, place: &Resource, paths: &[String]) -> Result<Vec<ArchiveState>> {
        let mut states = Vec::with_capacity(paths.len());
        for path in paths {
            let file = Resource {
                location: place.location.with_path(path),
                ..place.clone()
            };
            states.push(match self.look(&file).await {
                Ok((stat, _)) => ArchiveState::At(locality(stat.flags)),
                Err(error) if error.code() == ErrorCode::PeerNotFound => ArchiveState::Missing(error.public()),
                Err(error) => return Err(error),
            });
        }
        Ok(states)
    }
}

/// What to do with files.
#[derive(Clone, Copy)]
struct Wanted {
    options: PrepareOptions,
    extra_options: PrepareExtraOptions,
}

impl Wanted {
    fn request(self, lines: &[u8]) -> Request<'_> {
        Request::Prepare(Prepare {
            options: self.options,
            priority: 0,
            port: 0,
            extra_options: self.extra_options,
            paths: PathArguments::new(lines),
        })
    }
}

/// One path on each line, with the token where the connection is encrypted, behind a first line.
fn lines(first: &str, target: &RequestTarget<'_>, paths: &[&str]) -> String {
    let first = Some(first.to_owned()).filter(|first| !first.is_empty());
    let paths = paths.iter().map(|path| target.sibling(path).expose().to_owned());
    first.into_iter().chain(paths).collect::<Vec<_>>().join("\n")
}

fn locality(flags: StatFlags) -> Locality {
    match (flags.contains(StatFlags::OFFLINE), flags.contains(StatFlags::BACKED_UP)) {
        (true, _) => Locality::Tape,
        (false, true) => Locality::DiskAndTape,
        (false, false) => Locality::Disk,
    }
}

/// An answer up to its NUL. XRootD 6 sends a byte more, of any value.
fn text_of(answer: &[u8]) -> &[u8] {
    answer.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// What a JSON document says of the files; `None`: it is none.
fn told(answer: &[u8], paths: &[String]) -> Option<Vec<StageState>> {
    let text = String::from_utf8_lossy(text_of(answer));
    let document: Value = serde_json::from_str(text.trim()).ok()?;
    let responses = document.get("responses")?.as_array()?;
    let of = |path: &String| responses.iter().find(|entry| entry["path"].as_str() == Some(path));
    let missing = || StageState::Failed("the answer does not name this file".to_owned());
    Some(paths.iter().map(|path| of(path).map_or_else(missing, state)).collect())
}

fn state(entry: &Value) -> StageState {
    let words = entry["error_text"].as_str().unwrap_or_default().trim();
    let is = |key: &str| entry[key].as_bool();
    match () {
        () if is("online") == Some(true) => StageState::OnDisk,
        () if is("path_exists") == Some(false) && words.is_empty() => {
            StageState::Missing("there is no such file".to_owned())
        }
        () if is("path_exists") == Some(false) => StageState::Missing(words.to_owned()),
        () if !words.is_empty() => StageState::Failed(words.to_owned()),
        () if is("has_reqid") == Some(false) || is("requested") == Some(false) => StageState::Canceled,
        () => StageState::Started,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_a_tape_system_is_read() {
        let text = br#"{"request_id": "7", "responses": [
            {"path": "/a", "path_exists": true, "on_tape": true, "online": true, "requested": false, "error_text": ""},
            {"path": "/b", "path_exists": true, "online": false, "requested": true, "has_reqid": true, "error_text": ""},
            {"path": "/c", "path_exists": true, "online": false, "requested": true, "error_text": "torn"},
            {"path": "/d", "path_exists": false, "online": false},
            {"path": "/e", "path_exists": true, "online": false, "requested": false, "has_reqid": false}]}"#;
        let paths = ["/a", "/b", "/c", "/d", "/e", "/f"].map(str::to_owned);
        let failed = |words: &str| StageState::Failed(words.to_owned());
        let expected = [
            StageState::OnDisk,
            StageState::Started,
            failed("torn"),
            StageState::Missing("there is no such file".to_owned()),
            StageState::Canceled,
            failed("the answer does not name this file"),
        ];
        assert_eq!(told(text, &paths).unwrap(), expected);
        // As XRootD 6.2.1 sends it.
        let with_rest = [text, &b"\0\xc0"[..]].concat();
        assert_eq!(told(&with_rest, &paths).unwrap(), expected);
        for words in ["No information found.\0", "", "[]", "{\"responses\": 1}"] {
            assert_eq!(told(words.as_bytes(), &paths), None, "{words}");
        }
    }

    #[test]
    fn flags_say_where_a_file_is() {
        assert_eq!(locality(StatFlags::OFFLINE | StatFlags::BACKED_UP), Locality::Tape);
        assert_eq!(
            locality(StatFlags::READABLE | StatFlags::BACKED_UP),
            Locality::DiskAndTape
        );
        assert_eq!(locality(StatFlags::READABLE), Locality::Disk);
    }
}
