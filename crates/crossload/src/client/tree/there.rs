//! What is at the destination of a directory.

use std::collections::HashMap;

use types::{ErrorCode, Result, Side};

use crate::client::place::Place;
use crate::client::session::{ClientContext, Info, is_missing};
use crate::limits::LISTED_THERE_MAX;

/// What is at the destination of a file.
#[derive(Debug)]
pub(crate) enum There {
    /// It is not known, and has to be asked.
    Unknown,
    Nothing,
    Entry(Info),
}

/// A directory at the destination.
pub(super) enum Existing {
    /// It has too many entries, or its server does not list it.
    Unknown,
    /// It does not exist.
    Missing,
    /// Its entries by their names, which they do not repeat.
    Listed(HashMap<String, Info>),
}

impl Existing {
    /// Lists a directory at the destination, if it exists; with `must_list`, a refusal is an error.
    ///
    /// # Errors
    /// It is a file, or its server cannot be reached.
    pub(super) async fn look(session: &ClientContext, target: &Place, must_list: bool) -> Result<Self> {
        let listed = Self::list(session, target).await;
        match listed {
            Err(error) if is_missing(&error) => Ok(Self::Missing),
            Err(error) if error.code() == ErrorCode::NotDirectory => Err(error),
            // A credential for writing may not allow listings.
            Err(error) if error.peer_status().is_some() && !must_list => Ok(Self::Unknown),
            listed => listed,
        }
    }

    async fn list(session: &ClientContext, target: &Place) -> Result<Self> {
        let mut listing = session.open_listing(target, Side::Destination).await?;
        let mut entries = HashMap::new();
        while let Some(batch) = listing.next().await? {
            // Only what is compared is held.
            for mut info in batch {
                info.etag = None;
                entries.insert(std::mem::take(&mut info.name), info);
            }
            if entries.len() > LISTED_THERE_MAX {
                return Ok(Self::Unknown);
            }
        }
        Ok(Self::Listed(entries))
    }

    /// Whether it has no directory of this name.
    pub(super) fn lacks(&self, name: &str) -> bool {
        match self {
            Self::Unknown => false,
            Self::Missing => true,
            Self::Listed(entries) => !entries.contains_key(name),
        }
    }

    /// Takes an entry out, so that what is left are names that the source does not have.
    pub(super) fn take(&mut self, name: &str) -> There {
        match self {
            Self::Unknown => There::Unknown,
            Self::Missing => There::Nothing,
            Self::Listed(entries) => entries.remove(name).map_or(There::Nothing, There::Entry),
        }
    }
}
