//! The samples over a line: a file to this client, files from it, and a copy between two servers.

use std::sync::Arc;

use remote::{Direction, Resource};
use types::Result;

use super::line::{Line, Measures};
use crate::Ground;
use crate::ground::Target;
use crate::load::bulk::parts;
use crate::load::data::{self, Content};
use crate::load::measure::{Sample, together};
use crate::load::third_party::{Files, Pair};
use crate::load::timeline::Timeline;
use crate::report::Failure;

type Outcome = std::result::Result<Option<Sample<u64>>, Failure>;

/// The files of one server.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    /// What is read, and its size.
    file: Option<(Resource, u64)>,
    /// Where files may be made.
    directory: Option<Resource>,
    size_bytes: u64,
    content: Content,
}

impl Shelf {
    /// Makes what will be read, unless the target names a file of its own, and a directory.
    pub(super) async fn prepare(
        ground: &Ground,
        target: &Target,
        size_bytes: u64,
        reads: bool,
        writes: bool,
    ) -> std::result::Result<Self, Failure> {
        let content = Content::default();
        let directory = match target.file.is_none() || writes {
            true => Some(ground.directory(target, "latency").await.map_err(|error| {
                Failure::of("making a directory for the run", &error)
                    .advised("give --file URL to read a file that is there")
            })?),
            false => None,
        };
        let file = match (&target.file, &directory) {
            _ if !reads => None,
            (Some(file), _) => Some(known(ground, file).await?),
            (None, Some(directory)) => {
                let file = ground.file(directory, "read");
                ground.progress.aside(format!("{}: making a file to read", target.name));
                let stored = data::upload(&ground.new_client(), &file, size_bytes, true, &content).await;
                stored.map_err(|error| Failure::of("upload of the file to read", &error))?;
                Some(known(ground, &file).await?)
            }
            (None, None) => None,
        };
        Ok(Self {
            file,
            directory,
            size_bytes,
            content,
        })
    }
}

/// A file that is there, and its size.
async fn known(ground: &Ground, file: &Resource) -> std::result::Result<(Resource, u64), Failure> {
    let looking = "looking at the file to read";
    let facts = ground.new_client().head(file, &[]).await;
    let facts = facts.map_err(|error| Failure::of(looking, &error))?;
    if !facts.location.same_origin(&file.location) {
        let words = format!(
            "the server sends its clients on to {}, past the relay",
            facts.location.authority()
        );
        return Err(Failure::new(looking, words, "measure the server that it names"));
    }
    match facts.size_bytes.filter(|size_bytes| *size_bytes > 0) {
        Some(size_bytes) => Ok((file.clone(), size_bytes)),
        None => {
            let advice = "name a file with content in --file";
            Err(Failure::new(looking, "it is empty, or its size is not told", advice))
        }
    }
}

/// The same file as it is reached over the line.
fn over(line: &Line, file: &Resource) -> Resource {
    Resource {
        location: line.leads_to(&file.location),
        ..file.clone()
    }
}

/// Downloads a file in as many ranges as there are streams.
pub(super) async fn get(ground: &Ground, target: &Target, shelf: &Shelf, streams: u32, measures: Measures) -> Outcome {
    let nothing = || Failure::new("looking at the file to read", "there is none", "");
    let (file, size_bytes) = shelf.file.as_ref().ok_or_else(nothing)?;
    let line = Line::for_clients(target, measures).await?;
    let workers = parts(*size_bytes, streams).into_iter().map(|range| {
        let (client, file) = (line.new_client(ground), over(&line, file));
        async move { data::download(&client, &file, range).await }
    });
    Ok(together(target, &ground.stop, workers.collect()).await)
}

/// Uploads as many files as there are streams, which are as large together as what a download
/// moves.
pub(super) async fn put(ground: &Ground, target: &Target, shelf: &Shelf, streams: u32, measures: Measures) -> Outcome {
    let nowhere = || Failure::new("making a directory for the run", "there is none", "");
    let directory = shelf.directory.as_ref().ok_or_else(nowhere)?;
    let line = Line::for_clients(target, measures).await?;
    let files: Vec<Resource> = (0..streams)
        .map(|number| ground.file(directory, &format!("put-{number}")))
        .collect();
    let shares = parts(shelf.size_bytes, streams).into_iter();
    let workers = shares.zip(&files).map(|(share, file)| {
        let size_bytes = share.map_or(shelf.size_bytes, |share| share.len());
        let (client, file, content) = (line.new_client(ground), over(&line, file), shelf.content.clone());
        async move {
            data::upload(&client, &file, size_bytes, true, &content).await?;
            Ok(size_bytes)
        }
    });
    let sample = together(target, &ground.stop, workers.collect()).await;
    ground.make_room(&ground.new_client(), &files).await;
    Ok(sample)
}

/// Has one server copy a file from or to the other, which it reaches over the line.
pub(super) async fn copy(
    ground: &Ground,
    pair: &Pair,
    files: &Files,
    direction: Direction,
    streams: u32,
    measures: Measures,
) -> Outcome {
    let passive = match direction {
        Direction::Pull => &pair.source,
        Direction::Push => &pair.destination,
    };
    let line = Line::for_servers(passive, measures).await?;
    let target = ground.file(&files.directory, "copy");
    let ordered = files.order(direction, &files.sources[0], &target, streams);
    let peer = line.leads_to(ordered.peer());
    let (ordered, client) = (ordered.by(peer), ground.new_client());
    let timeline = Arc::new(Timeline::start());
    let worker = async move {
        ordered.make(&client, &timeline).await?;
        Result::Ok(ordered.size_bytes())
    };
    let sample = together(&pair.together(), &ground.stop, vec![worker]).await;
    ground.make_room(&ground.new_client(), [&target]).await;
    Ok(sample)
}
