//! What is in a directory: names, or pairs of lines with name and stat text.

use types::{Checksum, Error};

use crate::limits::LISTING_LINE_BYTES_MAX;
use crate::refusal::misbehaved;
use crate::response::StatText;

/// What a listing with stat texts begins with. A client knows by it that the server understood.
const STAT_PREFIX: &[u8] = b".\n0 0 0 0\n";

/// Builds the body of a listing, which may be sent in parts that end anywhere.
#[derive(Clone, Debug)]
pub struct ListingWriter {
    with_stat: bool,
    /// The separator of the entry before; becomes a NUL at the end.
    pending: bool,
    body: Vec<u8>,
}

impl ListingWriter {
    /// Begins a listing, with stat texts or without.
    #[must_use]
    pub fn new(with_stat: bool) -> Self {
        let prefix = if with_stat {
            &STAT_PREFIX[..STAT_PREFIX.len() - 1]
        } else {
            &[]
        };
        Self {
            with_stat,
            pending: with_stat,
            body: prefix.to_vec(),
        }
    }

    /// Adds an entry. In a listing with stat texts `stat` must be there; its checksum, if that is
    /// asked for too, is `algorithm:value`, or `algorithm:none` when it is not kept. A name with a
    /// line end cannot be listed in this protocol: it is left out, and `false` says so.
    pub fn add(&mut self, name: &str, stat: Option<&StatText>, checksum: Option<&str>) -> bool {
        if name.is_empty() || name.contains(['\n', '\0']) || self.with_stat != stat.is_some() {
            return false;
        }
        self.separate();
        self.body.extend_from_slice(name.as_bytes());
        if let Some(stat) = stat {
            self.body.push(b'\n');
            stat.write(&mut self.body);
            if let Some(checksum) = checksum {
                self.body.extend_from_slice(b" [ ");
                self.body.extend_from_slice(checksum.as_bytes());
                self.body.extend_from_slice(b" ]");
            }
        }
        self.pending = true;
        true
    }

    /// Bytes that are gathered.
    #[must_use]
    pub fn gathered_bytes(&self) -> usize {
        self.body.len()
    }

    /// Takes what is gathered, to be sent as a part.
    #[must_use]
    pub fn take_part(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }

    /// The last part. It ends with a NUL, unless the directory is empty and has no stat texts.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if self.pending {
            self.body.push(0);
        }
        self.body
    }

    fn separate(&mut self) {
        if self.pending {
            self.body.push(b'\n');
        }
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its name.
    pub name: String,
    /// What it is, if the listing tells.
    pub stat: Option<StatText>,
    /// Its checksum as `algorithm:value`, if the listing tells.
    pub checksum: Option<String>,
}

/// Reads a checksum of a listing; `None` for `none` and for an algorithm that this house does not
/// know.
#[must_use]
pub fn parse_listed_checksum(text: &str) -> Option<Checksum> {
    let (name, value) = text.split_once(':')?;
    Checksum::from_hex(types::ChecksumAlgorithm::from_name(name)?, value)
}

/// Reads a listing while it passes in pieces of any size.
#[derive(Clone, Debug)]
pub struct ListingReader {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    kind: Kind,
    /// The name whose stat text has not come.
    name: Option<String>,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The first two lines have not come, and stat texts were asked for.
    Unknown,
    /// The first line was `.`.
    MaybeStat,
    Plain,
    Stat,
}

impl ListingReader {
    /// For a listing where stat texts were asked for, or not. A server may leave them out all the
    /// same.
    #[must_use]
    pub fn new(asked_for_stat: bool) -> Self {
        Self {
            line: Vec::new(),
            kind: if asked_for_stat { Kind::Unknown } else { Kind::Plain },
            name: None,
            ended: false,
        }
    }

    /// Whether the entries have stat texts, once that is known.
    #[must_use]
    pub fn has_stat(&self) -> bool {
        self.kind == Kind::Stat
    }

    /// Takes the next piece and hands over each entry that it completes.
    ///
    /// # Errors
    /// `peer_misbehaved` for a line that is too long or cannot be understood, and for names that
    /// could lead out of the directory.
    pub fn feed(&mut self, mut piece: &[u8], mut entry: impl FnMut(ListedEntry)) -> Result<(), Error> {
        while !piece.is_empty() && !self.ended {
            let end = piece.iter().position(|byte| matches!(byte, b'\n' | 0));
            let (part, rest) = piece.split_at(end.unwrap_or(piece.len()));
            if self.line.len() + part.len() > LISTING_LINE_BYTES_MAX {
                return Err(misbehaved("a line of a listing is too long"));
            }
            self.line.extend_from_slice(part);
            let Some((separator, behind)) = rest.split_first() else {
                break;
            };
            piece = behind;
            self.line_ends(&mut entry)?;
            self.ended = *separator == 0;
        }
        Ok(())
    }

    /// The end of the last part. Some servers end it without a NUL.
    ///
    /// # Errors
    /// Like those of [`ListingReader::feed`], and for a name without its stat text.
    pub fn finish(mut self, mut entry: impl FnMut(ListedEntry)) -> Result<(), Error> {
        if !self.line.is_empty() {
            self.line_ends(&mut entry)?;
        }
        if self.name.is_some() || self.kind == Kind::MaybeStat {
            return Err(misbehaved("a listing ends in the middle of an entry"));
        }
        Ok(())
    }

    fn line_ends(&mut self, entry: &mut impl FnMut(ListedEntry)) -> Result<(), Error> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8(line).map_err(|_| misbehaved("a line of a listing is not UTF-8"))?;
        match self.kind {
            Kind::Unknown if line == "." => self.kind = Kind::MaybeStat,
            Kind::MaybeStat if line == "0 0 0 0" => self.kind = Kind::Stat,
            Kind::MaybeStat => return Err(misbehaved("a listing begins wrongly")),
            Kind::Unknown | Kind::Plain => {
                self.kind = Kind::Plain;
                // Some servers end each line, the last one too.
                if !line.is_empty() {
                    entry(plain(line)?);
                }
            }
            Kind::Stat => match self.name.take() {
                None if line.is_empty() => {}
                None => self.name = Some(checked_name(line)?),
                Some(name) => entry(with_stat(name, &line)?),
            },
        }
        Ok(())
    }
}

fn plain(name: String) -> Result<ListedEntry, Error> {
    Ok(ListedEntry {
        name: checked_name(name)?,
        stat: None,
        checksum: None,
    })
}

fn with_stat(name: String, line: &str) -> Result<ListedEntry, Error> {
    let (stat, checksum) = match line.split_once(" [ ") {
        Some((stat, rest)) => {
            let checksum = rest.trim_end().strip_suffix(']').map(str::trim);
            let checksum = checksum.ok_or_else(|| misbehaved("a checksum of a listing has no end"))?;
            (stat, Some(checksum.to_owned()))
        }
        None => (line, None),
    };
    Ok(ListedEntry {
        name,
        stat: Some(StatText::parse(stat.as_bytes())?),
        checksum,
    })
}

/// A name that stays within the directory.
fn checked_name(name: String) -> Result<String, Error> {
    if name.is_empty() || name == "." || name == ".." || name.contains('/') {
        return Err(misbehaved("a listing has a name that is none"));
    }
    Ok(name)
}
