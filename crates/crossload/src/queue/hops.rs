//! Storages on the way between two others, from the configuration.

use std::path::PathBuf;

use config::QueueHop;
use queue::HopSite;
use types::{Error, ErrorCode, Phase, Result, Secret, Side};

use crate::failure::Failure;
use crate::server::secret;

/// The hops, in order of preference.
///
/// # Errors
/// A URL that the queue cannot ask.
pub(super) fn sites(hops: &[QueueHop]) -> std::result::Result<Vec<HopSite>, Failure> {
    let site = |hop: &QueueHop| HopSite::new(&hop.urls, hop.sources.clone(), hop.destinations.clone());
    let sites = hops.iter().map(site).collect::<Result<Vec<HopSite>>>();
    Ok(sites?)
}

/// The queue's tokens for hops.
///
/// # Errors
/// A file that others may read, or that cannot be read.
pub(super) fn tokens(hops: &[QueueHop]) -> std::result::Result<HopTokens, Failure> {
    let mut places = Vec::new();
    for hop in hops {
        let Some(file) = &hop.token_file else { continue };
        secret::load_text(WHAT, file)?;
        places.extend(hop.urls.iter().map(|url| Place {
            directory: format!("{}/", url.trim_end_matches('/')),
            file: file.clone(),
        }));
    }
    Ok(HopTokens(places))
}

/// The queue's tokens for hops, by URL.
pub(super) struct HopTokens(Vec<Place>);

struct Place {
    directory: String,
    file: PathBuf,
}

/// What the files are, in messages.
const WHAT: &str = "token for a hop";

impl HopTokens {
    /// The token for this URL, as its file is now; `None`: the hop has none.
    ///
    /// # Errors
    /// The file cannot be read any more.
    pub(super) async fn of(&self, url: &str) -> Result<Option<Secret>> {
        let Some(place) = self.0.iter().find(|place| url.starts_with(&place.directory)) else {
            return Ok(None);
        };
        let file = place.file.clone();
        let read = execution::blocking(move || secret::load_text(WHAT, &file)).await;
        match read {
            Ok(Ok(text)) => Ok(Some(Secret::new(text.trim()))),
            Ok(Err(failure)) => Err(unreadable().with_private(failure.words)),
            Err(_) => Err(unreadable()),
        }
    }
}

fn unreadable() -> Error {
    Error::new(ErrorCode::Internal, Side::Queue, Phase::Authenticate)
}
