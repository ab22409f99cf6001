//! The activities that a macaroon may name, and sets of them.
//!
//! The words are those of dCache and XRootD; both read and write them in capitals.

use std::fmt;

/// One thing that a bearer may do with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the words are the vocabulary of the caveat itself")]
pub enum Activity {
    ReadMetadata,
    UpdateMetadata,
    List,
    Download,
    Upload,
    Manage,
    Delete,
    Stage,
    /// Make new names. No credential can name it: it is part of MANAGE and UPLOAD, for rules that a
    /// site takes over from an XRootD `authdb`.
    Insert,
    /// Write into files, likewise.
    Replace,
    /// Take names away, likewise.
    Rename,
}

impl Activity {
    /// All activities that a macaroon can name, in the order in which they are written.
    pub const ALL: [Self; 8] = [
        Self::ReadMetadata,
        Self::UpdateMetadata,
        Self::List,
        Self::Download,
        Self::Upload,
        Self::Manage,
        Self::Delete,
        Self::Stage,
    ];

    /// Those that only the rules of a site can name.
    pub const OF_RULES: [Self; 3] = [Self::Insert, Self::Replace, Self::Rename];

    /// The word used in caveats and scopes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadMetadata => "READ_METADATA",
            Self::UpdateMetadata => "UPDATE_METADATA",
            Self::List => "LIST",
            Self::Download => "DOWNLOAD",
            Self::Upload => "UPLOAD",
            Self::Manage => "MANAGE",
            Self::Delete => "DELETE",
            Self::Stage => "STAGE",
            Self::Insert => "INSERT",
            Self::Replace => "REPLACE",
            Self::Rename => "RENAME",
        }
    }

    /// The activity of that name; capitals only, as the peers have it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|activity| activity.name() == name)
    }
}

/// A set of activities.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Activities(u16);

impl Activities {
    /// No activity.
    pub const NONE: Self = Self(0);
    /// Every activity.
    pub const ALL: Self = Self((1 << 11) - 1);
    /// What reading takes: metadata, listing, download.
    pub const READ: Self = Self::of(&[Activity::ReadMetadata, Activity::List, Activity::Download]);

    /// The set of these activities.
    #[must_use]
    pub const fn of(list: &[Activity]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < list.len() {
            bits |= 1 << list[index] as u16;
            index += 1;
        }
        Self(bits)
    }

    /// Reads a comma-separated list; blanks around the names are dropped.
    ///
    /// `None` for an empty list, an empty item or a name that is not known: what is not understood
    /// must not be taken for a right.
    #[must_use]
    pub fn parse(list: &str) -> Option<Self> {
        let mut all = Self::NONE;
        for name in list.split(',') {
            all = all.union(Self::of(&[Activity::from_name(name.trim())?]));
        }
        Some(all)
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every activity of `other` is in this set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in this set and not in the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The activities of the set, in the order of [`Activity::ALL`], and behind them those of
    /// rules, where MANAGE does not include them.
    pub fn iter(self) -> impl Iterator<Item = Activity> {
        let manages = self.contains(Self::of(&[Activity::Manage]));
        let of_rules = Activity::OF_RULES.into_iter().filter(move |_| !manages);
        Activity::ALL
            .into_iter()
            .chain(of_rules)
            .filter(move |activity| self.contains(Self::of(&[*activity])))
    }
}

/// The list as it stands in a caveat: `LIST,DOWNLOAD`.
impl fmt::Display for Activities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, activity) in self.iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            formatter.write_str(activity.name())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Activities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        let set = Activities::parse("DOWNLOAD, LIST ,READ_METADATA").unwrap();
        assert_eq!(set, Activities::READ);
        assert_eq!(set.to_string(), "READ_METADATA,LIST,DOWNLOAD");
        let nameable = Activities::of(&Activity::ALL);
        assert_eq!(Activities::parse(&Activities::ALL.to_string()), Some(nameable));
        assert_eq!(Activities::ALL.without(nameable), Activities::of(&Activity::OF_RULES));
    }

    #[test]
    fn what_is_not_known_is_not_a_right() {
        for bad in [
            "",
            ",",
            "LIST,",
            "list",
            "LIST DOWNLOAD",
            "LIST;DOWNLOAD",
            "ALL",
            "INSERT",
        ] {
            assert_eq!(Activities::parse(bad), None, "{bad}");
        }
    }
}
