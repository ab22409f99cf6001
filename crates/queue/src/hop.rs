//! Storages between two that share no protocol.
//!
//! The queue prefers a copy by one of the two storages themselves, pull before push. Only if
//! neither can, it goes by a hop, and only without a hop through this machine.

use catalog::{FileRecord, Hop, HopFile, HopPart};
use schedule::storage::{canonical, host};
use types::{Error, ErrorCode, Location, Phase, Result, Side};

use crate::copy::problem;

/// A directory at a storage that speaks several protocols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopSite {
    doors: Vec<HopFile>,
    sources: Vec<String>,
    destinations: Vec<String>,
}

impl HopSite {
    /// A directory by its URLs, one for each protocol, for copies from and to storages that the
    /// patterns name: `*.example.org` (hosts) or `davs://*.example.org:443` (storages), where `*`
    /// is any text. Without patterns it is for all.
    ///
    /// # Errors
    /// `bad_url`; `bad_request` without a URL.
    pub fn new(urls: &[String], sources: Vec<String>, destinations: Vec<String>) -> Result<Self> {
        let mut doors = Vec::with_capacity(urls.len());
        for url in urls {
            let location = Location::parse(url)?;
            doors.push(HopFile {
                url: format!("{}/", url.trim_end_matches('/')),
                storage: storage_of(url, &location),
            });
        }
        match doors.is_empty() {
            true => Err(Error::new(ErrorCode::BadRequest, Side::Queue, Phase::Queued)),
            false => Ok(Self {
                doors,
                sources,
                destinations,
            }),
        }
    }

    /// The way of a file by this hop; `None` if the hop is not for its storages, or is one of them.
    #[must_use]
    pub fn hop_of(&self, file: &FileRecord) -> Option<Hop> {
        let [source, destination] = file.storages();
        let serves = |patterns: &[String], storage: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| names(pattern, storage))
        };
        if !serves(&self.sources, source) || !serves(&self.destinations, destination) {
            return None;
        }
        let is_end = |door: &HopFile| {
            let ends = [source, destination].map(canonical);
            ends.contains(&canonical(&door.storage))
        };
        if self.doors.iter().any(is_end) {
            return None;
        }
        // The name is this file's only, so what has it is ours.
        let name = format!("{}-{}", file.job, file.id);
        Some(Hop {
            part: HopPart::Incoming,
            incoming: self.door_for(source)?.file(&name),
            outgoing: self.door_for(destination)?.file(&name),
            source_storage: source.to_owned(),
            destination_storage: destination.to_owned(),
            checksum: None,
            size_bytes: None,
            losses: 0,
            destination_interrupted: false,
            given_up_for: None,
        })
    }

    /// The URL with the protocol of the storage on the other side, else the first one.
    fn door_for(&self, storage: &str) -> Option<Door<'_>> {
        let same = |door: &&HopFile| protocol(&door.storage) == protocol(storage);
        self.doors.iter().find(same).or(self.doors.first()).map(Door)
    }

    /// Whether one of its URLs is at a storage that a job names, with or without port.
    #[must_use]
    pub fn is_at(&self, name: &str) -> bool {
        let is_at = |door: &HopFile| schedule::storage::names(name, &door.storage).is_some();
        self.doors.iter().any(is_at)
    }
}

struct Door<'a>(&'a HopFile);

impl Door<'_> {
    fn file(&self, name: &str) -> HopFile {
        HopFile {
            url: format!("{}{name}", self.0.url),
            storage: self.0.storage.clone(),
        }
    }
}

/// The next part of the way, after the copy to the hop.
pub(crate) fn arrived(hop: &Hop, size_bytes: u64, checksum: Option<String>) -> Hop {
    Hop {
        part: HopPart::Outgoing,
        size_bytes: Some(size_bytes),
        checksum,
        ..hop.clone()
    }
}

/// The hop has lost the file: it is copied there again.
pub(crate) fn lost(hop: &Hop) -> Hop {
    Hop {
        part: HopPart::Incoming,
        losses: hop.losses.saturating_add(1),
        ..hop.clone()
    }
}

/// The hop is of no use, for this reason.
pub(crate) fn given_up(hop: &Hop, error: &Error) -> Hop {
    Hop {
        part: HopPart::GivenUp,
        given_up_for: Some(problem(error).reason),
        ..hop.clone()
    }
}

fn storage_of(url: &str, location: &Location) -> String {
    let scheme = url.split("://").next().unwrap_or_default();
    format!("{scheme}://{}:{}", location.host(), location.port()).to_ascii_lowercase()
}

/// The protocol of a storage: `http` with and without TLS is one.
fn protocol(storage: &str) -> String {
    let name = canonical(storage);
    let scheme = name.split("://").next().unwrap_or_default();
    scheme.trim_end_matches('s').to_owned()
}

/// Whether a pattern names a storage: with scheme the whole name, else its host.
fn names(pattern: &str, storage: &str) -> bool {
    match pattern.contains("://") {
        true => matches(&canonical(pattern), &canonical(storage)),
        false => matches(pattern, host(storage)),
    }
}

/// Whether a text is as the pattern says, where `*` is any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(place) => rest = &rest[place + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_hosts_or_whole_storages() {
        for (pattern, storage, fits) in [
            ("*", "root://a:1094", true),
            ("*.example.org", "https://a.example.org:443", true),
            ("*.example.org", "https://example.org:443", false),
            ("a.*.org", "https://a.b.c.org:443", true),
            ("a.*.org", "https://a.org:443", false),
            ("davs://a:*", "https://a:443", true),
            ("root://*", "https://a:443", false),
            ("a", "https://a:443", true),
            ("a", "https://ab:443", false),
        ] {
            assert_eq!(names(pattern, storage), fits, "{pattern} {storage}");
        }
    }

    #[test]
    fn a_hop_has_a_url_for_each_protocol() {
        let urls = ["davs://h:443/hop".to_owned(), "root://h:1094//hop/".to_owned()];
        let site = HopSite::new(&urls, Vec::new(), Vec::new()).unwrap();
        let url = |storage| site.door_for(storage).unwrap().file("n").url;
        assert_eq!(url("https://a:443"), "davs://h:443/hop/n");
        assert_eq!(url("dav://a:80"), "davs://h:443/hop/n");
        assert_eq!(url("root://a:1094"), "root://h:1094//hop/n");
        assert_eq!(url("roots://a:1094"), "root://h:1094//hop/n");
        assert!(site.is_at("davs://h:443") && site.is_at("root://h") && !site.is_at("davs://g:443"));
        assert!(HopSite::new(&[], Vec::new(), Vec::new()).is_err());
    }
}
