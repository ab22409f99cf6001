//! `cache prefetch`: brings files into the cache of a server, by reading them through that server,
//! with the rights of the user.
//!
//! The cache fetches whole blocks. So the last byte of each is enough, and the bytes of the file do
//! not come here. Over the XRootD protocol, and from caches with smaller blocks, files are read
//! whole.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use remote::{GetOptions, Resource};
use serde_json::json;
use types::{ByteRange, Error, ErrorCode, PeerStatus, Phase, Result, Side};

use super::each::{Finished, complain, each_place, report};
use super::place::Place;
use super::session::ClientContext;
use super::tree::Selection;
use super::walk::{Order, Step, Walk};
use crate::command_line::PrefetchOptions;
use crate::failure::{Failure, exit_code};
use crate::limits::{PREFETCH_BLOCK_BYTES, PREFETCH_BLOCKS_AT_ONCE, PREFETCH_LOOKS_MAX, PREFETCH_PAUSE};
use crate::next_step::NO_CACHE;
use crate::output;

/// Brings the files at and below each place into the cache.
pub(crate) async fn run(session: &ClientContext, options: &PrefetchOptions) -> std::result::Result<u8, Failure> {
    let prefetch = Prefetch {
        session,
        options,
        selection: Selection::of(&options.select)?,
    };
    each_place("cache prefetch", &options.places, async |text| {
        prefetch.place(text).await
    })
    .await
}

struct Prefetch<'a> {
    session: &'a ClientContext,
    options: &'a PrefetchOptions,
    selection: Selection,
}

/// What was done about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The cache has it now.
    Fetched,
    /// The cache had it.
    Cached,
}

impl Prefetch<'_> {
    async fn place(&self, text: &str) -> std::result::Result<Finished, Failure> {
        let place = self.session.place(text).await?;
        let own = self.session.stat(&place, Side::Source).await?;
        if !own.is_directory {
            self.show(text, self.file(&place).await?);
            return Ok(Finished::Whole);
        }
        if !self.options.recursive {
            let error = Error::new(ErrorCode::IsDirectory, Side::Source, Phase::Open).with_subject(&place);
            return Err(Failure::advised(&error, "Give -r for all files in it."));
        }
        let mut walk = Walk::new(self.session, place, own, Side::Source, Order::Listed);
        let mut running = FuturesUnordered::new();
        let mut finished = Finished::Whole;
        while let Some(step) = walk.next().await {
            match step {
                Step::Entry(found) if found.info.is_directory => {
                    if !found.relative.is_empty() && !self.selection.wants(&found.relative, &found.info) {
                        walk.skip();
                    }
                }
                Step::Entry(found) if self.selection.wants(&found.relative, &found.info) => {
                    running.push(async move {
                        let done = self.file(&found.place).await;
                        self.conclude(&found.shown(text), done)
                    });
                }
                Step::Entry(_) => {}
                other => finished = finished.and(report("cache prefetch", text, other)?),
            }
            while running.len() >= self.options.parallel as usize {
                finished = running.next().await.map_or(finished, |done| finished.and(done));
            }
        }
        while let Some(done) = running.next().await {
            finished = finished.and(done);
        }
        Ok(finished)
    }

    /// Prints what came of a file of several.
    fn conclude(&self, name: &str, done: Result<Outcome>) -> Finished {
        match done {
            Ok(outcome) => {
                self.show(name, outcome);
                Finished::Whole
            }
            Err(error) => {
                if self.options.common.json {
                    output::json(&json!({"name": name, "outcome": "failed", "error": error.code().name()}));
                }
                let code = exit_code(&error);
                complain("cache prefetch", error);
                Finished::InPart(code)
            }
        }
    }

    fn show(&self, name: &str, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Fetched => "fetched",
            Outcome::Cached => "cached",
        };
        match self.options.common.json {
            true => output::json(&json!({"name": name, "outcome": outcome})),
            false => output::line(&format!("{outcome} {}", output::name(name))),
        }
    }

    async fn file(&self, place: &Place) -> Result<Outcome> {
        let Place::Remote(location) = place else {
            let error = Error::new(ErrorCode::NotImplemented, Side::Source, Phase::Open).with_subject(place);
            return Err(error.with_detail("only files of a server are in its cache"));
        };
        let file = self.session.resource(location, Side::Source);
        if !location.is_http() {
            self.read_whole(&file).await?;
            return Ok(Outcome::Fetched);
        }
        if self.is_cached(&file).await? {
            return Ok(Outcome::Cached);
        }
        self.read_ends(&file).await?;
        if !self.is_cached_soon(&file).await? {
            self.read_whole(&file).await?;
            if !self.is_cached_soon(&file).await? {
                let words = "it did not stay there: the cache may be full, or the file too new";
                return Err(fault(&file, ErrorCode::NotCached, words));
            }
        }
        Ok(Outcome::Fetched)
    }

    /// Whether the cache of the server has the whole file.
    async fn is_cached(&self, file: &Resource) -> Result<bool> {
        let mut demanding = file.clone();
        demanding.access.forwarded.demand_cached();
        match self.session.client.head(&demanding, &[]).await {
            Ok(facts) if facts.cached_s.is_some() || facts.size_bytes == Some(0) => Ok(true),
            Ok(_) => Err(fault(file, ErrorCode::PeerUnsupported, NO_CACHE)),
            Err(error) if error.peer_status() == Some(PeerStatus::Http(ErrorCode::NotCached.http_status())) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The same, but waits a moment: the last block is stored after its bytes have come.
    async fn is_cached_soon(&self, file: &Resource) -> Result<bool> {
        for _ in 0..PREFETCH_LOOKS_MAX {
            if self.is_cached(file).await? {
                return Ok(true);
            }
            tokio::time::sleep(PREFETCH_PAUSE).await;
        }
        Ok(false)
    }

    /// Reads the last byte of each block.
    async fn read_ends(&self, file: &Resource) -> Result<()> {
        let mut ranges = self.session.client.open_ranges(file).await?;
        let size = ranges.facts().size_bytes.unwrap_or(0);
        let end_of = |block: u64| ((block + 1) * PREFETCH_BLOCK_BYTES).min(size);
        let blocks = size.div_ceil(PREFETCH_BLOCK_BYTES);
        for first in (0..blocks).step_by(PREFETCH_BLOCKS_AT_ONCE) {
            let last = blocks.min(first + PREFETCH_BLOCKS_AT_ONCE as u64);
            let ends: Vec<_> = (first..last).map(end_of).collect();
            let bytes: Vec<_> = ends.iter().map(|end| ByteRange::new(end - 1, *end)).collect();
            ranges.read(&bytes).await?;
        }
        ranges.close().await;
        Ok(())
    }

    async fn read_whole(&self, file: &Resource) -> Result<()> {
        let mut download = self.session.client.get(file, &GetOptions::default()).await?;
        while download.next().await?.is_some() {}
        Ok(())
    }
}

fn fault(file: &Resource, code: ErrorCode, words: &str) -> Error {
    let error = Error::new(code, file.side, Phase::Open).with_subject(&file.location);
    error.with_detail(words)
}
