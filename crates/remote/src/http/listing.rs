//! The entries of a directory from a multistatus, in constant memory.

use std::time::Instant;

use http_wire::webdav::MultistatusParser;
use types::{ErrorCode, Phase, Result, decode_percent};

use super::answer::Answer;
use crate::Entry;
use crate::listing::{DirectoryListing, Extent, Pace};
use crate::protocol::Pending;
use crate::resource::Resource;

/// A listing on its way from a server. Dropping it early closes the connection.
pub(crate) struct Listing {
    answer: Option<Answer>,
    parser: MultistatusParser,
    directory: Resource,
    /// The directory's own paths: as requested, and after all redirects.
    own_paths: [String; 2],
    first_seen: bool,
    pace: Pace,
    extent: Extent,
}

impl Listing {
    pub(crate) fn new(answer: Answer, directory: &Resource) -> Self {
        let own_paths = [
            comparable(directory.location.path()),
            comparable(answer.file.location.path()),
        ];
        Self {
            parser: MultistatusParser::of_xrootd(answer.head.is_from_xrootd()),
            answer: Some(answer),
            directory: directory.clone(),
            own_paths,
            first_seen: false,
            pace: Pace::default(),
            extent: Extent::default(),
        }
    }

    /// Removes the directory's own entry. It comes first everywhere. Behind some HTTP proxies its
    /// path is another one; then its last name decides.
    fn drop_own(&mut self, entries: &mut Vec<Entry>) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let own = &self.own_paths;
        if !self.first_seen {
            self.first_seen = true;
            let first = &entries[0];
            let by_path = own.contains(&comparable_plain(&first.path));
            let by_name = first.is_directory && own.iter().any(|path| path.rsplit('/').next() == Some(first.name()));
            if by_path && !first.is_directory {
                self.answer = None;
                return Err(self.directory.error(ErrorCode::NotDirectory, Phase::Open));
            }
            if by_path || by_name {
                entries.remove(0);
                return Ok(());
            }
        }
        entries.retain(|entry| !own.contains(&comparable_plain(&entry.path)));
        Ok(())
    }
}

impl DirectoryListing for Listing {
    fn next(&mut self) -> Pending<'_, Option<Vec<Entry>>> {
        Box::pin(async move {
            while let Some(answer) = &mut self.answer {
                let asked = Instant::now();
                let Some(batch) = answer.next().await? else {
                    self.parser.finish().map_err(|error| self.directory.blame(error))?;
                    // RFC 4918 §9.1: the directory itself is one of the entries. Without any, this
                    // is a refusal, and no empty directory.
                    if !self.first_seen {
                        let said = self.parser.description().unwrap_or("the listing has no entry");
                        return Err(answer.misbehaved(said));
                    }
                    if let Some(answer) = self.answer.take() {
                        answer.release();
                    }
                    break;
                };
                self.pace.note(asked, batch.len(), &self.directory)?;
                let mut entries = Vec::new();
                for piece in batch.slices() {
                    let more = self.parser.feed(piece).map_err(|error| self.directory.blame(error))?;
                    entries.extend(more);
                }
                self.extent.note(entries.len(), batch.len(), &self.directory)?;
                self.drop_own(&mut entries)?;
                if !entries.is_empty() {
                    return Ok(Some(entries));
                }
            }
            Ok(None)
        })
    }

    fn description(&self) -> Option<&str> {
        self.parser.description()
    }
}

/// A URL's path as listings name it: decoded, without trailing or doubled slashes.
fn comparable(raw: &str) -> String {
    comparable_plain(&decode_percent(raw).unwrap_or_else(|| raw.to_owned()))
}

fn comparable_plain(path: &str) -> String {
    let names: Vec<_> = path.split('/').filter(|name| !name.is_empty()).collect();
    format!("/{}", names.join("/"))
}

impl std::fmt::Debug for Listing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Listing({})", self.directory.location)
    }
}
