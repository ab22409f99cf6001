//! The entries of a directory on a server.

use std::fmt;
use std::time::{Duration, Instant};

use types::{ErrorCode, Phase, Result};

use crate::Entry;
use crate::limits::{LISTING_ENTRIES_MAX, LISTING_GAP_BYTES_MAX, LISTING_PACE_BYTES_MIN, LISTING_PACE_WINDOW};
use crate::protocol::Pending;
use crate::resource::Resource;

/// A listing on its way from a server, in one protocol. Dropping it early ends the listing.
pub trait DirectoryListing: fmt::Debug + Send {
    /// As [`Listing::next`].
    fn next(&mut self) -> Pending<'_, Option<Vec<Entry>>>;

    /// As [`Listing::description`].
    fn description(&self) -> Option<&str> {
        None
    }
}

/// How fast a listing arrives. A server that sends a byte now and then is never silent for long,
/// and would hold its client forever.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    waited: Duration,
    bytes: usize,
}

impl Pace {
    /// Counts `bytes` that came after waiting since `asked`.
    ///
    /// # Errors
    /// `peer_stalled` if that is too slow.
    pub(crate) fn note(&mut self, asked: Instant, bytes: usize, file: &Resource) -> Result<()> {
        if self.is_enough(asked.elapsed(), bytes) {
            return Ok(());
        }
        let seconds = LISTING_PACE_WINDOW.as_secs();
        let words = format!("less than {LISTING_PACE_BYTES_MIN} bytes of the listing came within {seconds} s");
        Err(file.error(ErrorCode::PeerStalled, Phase::Transfer).with_detail(words))
    }

    fn is_enough(&mut self, waited: Duration, bytes: usize) -> bool {
        self.waited += waited;
        self.bytes += bytes;
        if self.waited < LISTING_PACE_WINDOW {
            return true;
        }
        let is_enough = self.bytes >= LISTING_PACE_BYTES_MIN;
        *self = Self::default();
        is_enough
    }
}

/// How much of a listing has come. A server that never ends one would hold its client forever.
#[derive(Debug, Default)]
pub(crate) struct Extent {
    entries: u64,
    /// Bytes since the last entry.
    gap_bytes: u64,
}

impl Extent {
    /// Counts what came: so many entries, in so many bytes.
    ///
    /// # Errors
    /// `peer_misbehaved` if that is too much.
    pub(crate) fn note(&mut self, entries: usize, bytes: usize, file: &Resource) -> Result<()> {
        self.entries += entries as u64;
        self.gap_bytes = match entries {
            0 => self.gap_bytes + bytes as u64,
            _ => 0,
        };
        let words = if self.entries > LISTING_ENTRIES_MAX {
            format!("the listing has more than {LISTING_ENTRIES_MAX} entries")
        } else if self.gap_bytes > LISTING_GAP_BYTES_MAX {
            "the listing goes on without entries".to_owned()
        } else {
            return Ok(());
        };
        let error = file.error(ErrorCode::PeerMisbehaved, Phase::Transfer);
        Err(error.with_detail(words))
    }
}

/// A listing on its way from a server, in constant memory. Dropping it early closes the connection.
#[derive(Debug)]
pub struct Listing(Box<dyn DirectoryListing>);

impl Listing {
    /// A listing that was begun in some protocol.
    #[must_use]
    pub fn new(listing: impl DirectoryListing + 'static) -> Self {
        Self(Box::new(listing))
    }

    /// The next entries, at least one; `None` when all have come. The directory itself is not among
    /// them.
    ///
    /// # Errors
    /// `not_directory` when a file was listed; an answer that cannot be understood, or a lost
    /// connection.
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>> {
        self.0.next().await
    }

    /// What the server says about the listing as a whole, once all have come: that it omits
    /// entries. In the XRootD protocol only our servers can say so.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.0.description()
    }
}

#[cfg(test)]
mod tests {
    use types::{Location, Side};

    use super::*;

    #[test]
    fn a_listing_has_an_end() {
        let directory = Resource {
            location: Location::parse("https://h/d/").unwrap(),
            access: crate::Access::default(),
            side: Side::Source,
        };
        let mut long = Extent::default();
        let page = 1000;
        let pages = LISTING_ENTRIES_MAX / page;
        assert!((0..pages).all(|_| long.note(page as usize, 1 << 20, &directory).is_ok()));
        let words = long.note(1, 0, &directory).unwrap_err().public();
        assert!(words.contains("more than 10000000 entries"), "{words}");
        let mut empty = Extent::default();
        let half = LISTING_GAP_BYTES_MAX as usize / 2;
        for entries in [0, 0, 1, 0, 0] {
            empty.note(entries, half, &directory).unwrap();
        }
        assert!(empty.note(0, 1, &directory).is_err());
    }

    #[test]
    fn a_listing_that_drips_is_given_up_and_a_slow_one_is_not() {
        let second = Duration::from_secs(1);
        let seconds = LISTING_PACE_WINDOW.as_secs() as usize;
        let mut pace = Pace::default();
        let fast_enough: Vec<bool> = (0..seconds).map(|_| pace.is_enough(second, 1)).collect();
        assert!(fast_enough[..seconds - 1].iter().all(|is_enough| *is_enough) && !fast_enough[seconds - 1]);
        // An entry each second, for hours; or all of it after a long silence.
        assert!((0..20 * seconds).all(|_| pace.is_enough(second, 500)));
        assert!(pace.is_enough(LISTING_PACE_WINDOW, LISTING_PACE_BYTES_MIN));
    }
}
