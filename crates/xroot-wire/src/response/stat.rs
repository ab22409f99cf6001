//! What a file is, as text.

use types::Error;

use crate::bytes::text_bytes;
use crate::flags::StatFlags;
use crate::refusal::misbehaved;

/// What a file is: four numbers, and five words more from servers since version 4.12.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatText {
    /// Any number that tells files apart; 0 would mean that the file is offline.
    pub id: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// What it is and may be used for.
    pub flags: StatFlags,
    /// When its content changed, in seconds since 1970.
    pub modified_s: i64,
    /// The rest, where the server tells it.
    pub extension: Option<StatExtension>,
}

/// The rest of a stat text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatExtension {
    /// When its attributes changed, in seconds since 1970.
    pub changed_s: i64,
    /// When it was read, in seconds since 1970.
    pub accessed_s: i64,
    /// Unix permission bits.
    pub mode: u32,
    /// Name of its owner.
    pub owner: String,
    /// Name of its group.
    pub group: String,
}

impl StatText {
    /// Appends the text, without a NUL. Numbers are never padded, since clients would take them for
    /// octal ones; the mode is octal and always has four digits.
    pub fn write(&self, out: &mut Vec<u8>) {
        decimal(out, self.id);
        for value in [self.size_bytes, u64::from(self.flags.bits())] {
            out.push(b' ');
            decimal(out, value);
        }
        out.push(b' ');
        signed(out, self.modified_s);
        let Some(more) = &self.extension else { return };
        for time in [more.changed_s, more.accessed_s] {
            out.push(b' ');
            signed(out, time);
        }
        out.push(b' ');
        octal(out, more.mode);
        for name in [&more.owner, &more.group] {
            out.push(b' ');
            out.extend_from_slice(word(name).as_bytes());
        }
    }

    /// Reads a text of four or nine words; more are ignored.
    ///
    /// # Errors
    /// `peer_misbehaved` for anything else.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = || misbehaved("a stat text cannot be understood");
        let text = std::str::from_utf8(text_bytes(bytes)).map_err(|_| wrong())?;
        let mut words = text.split_ascii_whitespace();
        let mut stat = Self {
            id: number(words.next()).ok_or_else(wrong)?,
            size_bytes: number(words.next()).ok_or_else(wrong)?,
            flags: StatFlags::from_bits_retain(number(words.next()).ok_or_else(wrong)?),
            modified_s: number(words.next()).ok_or_else(wrong)?,
            extension: None,
        };
        let rest = [words.next(), words.next(), words.next(), words.next(), words.next()];
        if let [Some(changed), Some(accessed), Some(mode), Some(owner), Some(group)] = rest {
            stat.extension = Some(StatExtension {
                changed_s: number(Some(changed)).ok_or_else(wrong)?,
                accessed_s: number(Some(accessed)).ok_or_else(wrong)?,
                mode: u32::from_str_radix(mode, 8).map_err(|_| wrong())?,
                owner: word(owner).to_owned(),
                group: word(group).to_owned(),
            });
        }
        Ok(stat)
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.flags.contains(StatFlags::DIRECTORY)
    }
}

fn number<N: std::str::FromStr>(word: Option<&str>) -> Option<N> {
    word?.parse().ok()
}

/// A name as one plain word of the text, also where a peer sent something else.
fn word(name: &str) -> &str {
    let plain = |character: char| !character.is_whitespace() && !character.is_control();
    if name.is_empty() || !name.chars().all(plain) {
        "?"
    } else {
        name
    }
}

/// Appends a decimal number. Programs ask for thousands of these texts at once: the formatting of
/// the standard library takes a tenth of the whole answer.
fn decimal(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = value;
    loop {
        at -= 1;
        // A digit fits into a byte.
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    decimal(out, value.unsigned_abs());
}

/// Appends an octal number of at least four digits.
fn octal(out: &mut Vec<u8>, value: u32) {
    let highest = (0..11)
        .rev()
        .find(|place| value >> (3 * place) != 0)
        .unwrap_or(0)
        .max(3);
    out.extend((0..=highest).rev().map(|place| b'0' + (value >> (3 * place) & 7) as u8));
}

/// The space of an export, in the words of a stat for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceText {
    /// Servers that can be written to.
    pub writable_nodes: u64,
    /// Most free space on one of them, in MB.
    pub writable_free_mb: u64,
    /// How full they are, in percent.
    pub writable_used_percent: u64,
    /// Servers that can bring files online.
    pub staging_nodes: u64,
    /// Most free space on one of those, in MB.
    pub staging_free_mb: u64,
    /// How full those are, in percent.
    pub staging_used_percent: u64,
}

impl SpaceText {
    /// The text, without a NUL.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!(
            "{} {} {} {} {} {}",
            self.writable_nodes,
            self.writable_free_mb,
            self.writable_used_percent,
            self.staging_nodes,
            self.staging_free_mb,
            self.staging_used_percent
        )
    }

    /// Reads the text.
    ///
    /// # Errors
    /// `peer_misbehaved` for anything but six numbers.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = || misbehaved("a text about space cannot be understood");
        let text = std::str::from_utf8(text_bytes(bytes)).map_err(|_| wrong())?;
        let numbers: Option<Vec<u64>> = text.split_ascii_whitespace().map(|word| number(Some(word))).collect();
        match numbers.as_deref() {
            Some([nodes, free, used, staging_nodes, staging_free, staging_used]) => Ok(Self {
                writable_nodes: *nodes,
                writable_free_mb: *free,
                writable_used_percent: *used,
                staging_nodes: *staging_nodes,
                staging_free_mb: *staging_free,
                staging_used_percent: *staging_used,
            }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_does() {
        for value in [0, 9, 10, 1_795_286_507, i64::MAX, -1, i64::MIN] {
            let mut text = Vec::new();
            signed(&mut text, value);
            assert_eq!(text, value.to_string().into_bytes());
        }
        let mut text = Vec::new();
        decimal(&mut text, u64::MAX);
        assert_eq!(text, u64::MAX.to_string().into_bytes());
        for value in [0, 0o7, 0o644, 0o1644, 0o7777, 0o100_644, u32::MAX] {
            let mut text = Vec::new();
            octal(&mut text, value);
            assert_eq!(text, format!("{value:04o}").into_bytes());
        }
    }
}
