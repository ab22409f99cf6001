//! What became of a line of the other program.

use crate::source::Source;

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Our configuration says the same.
    TakenOver,
    /// Our configuration says part of it, or something narrower.
    InPart,
    /// We need no such setting.
    NotNeeded,
    /// We cannot do this, or not by configuration.
    NoEquivalent,
    /// The other program has no such setting either, or none that we know.
    Unknown,
}

impl Outcome {
    /// All, in the order of summaries.
    pub const ALL: [Self; 5] = [
        Self::TakenOver,
        Self::InPart,
        Self::NotNeeded,
        Self::NoEquivalent,
        Self::Unknown,
    ];

    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TakenOver => "taken_over",
            Self::InPart => "in_part",
            Self::NotNeeded => "not_needed",
            Self::NoEquivalent => "no_equivalent",
            Self::Unknown => "unknown",
        }
    }

    /// Its name for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::TakenOver => "taken over",
            Self::InPart => "taken over in part",
            Self::NotNeeded => "not needed",
            Self::NoEquivalent => "no equivalent",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the administrator has something to decide or to do.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::InPart | Self::NoEquivalent | Self::Unknown)
    }
}

/// What became of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The line.
    pub source: Source,
    /// What became of it.
    pub outcome: Outcome,
    /// Why, or where it is now: a sentence without its end.
    pub words: String,
    /// What the administrator can do.
    pub advice: Option<String>,
}

impl Remark {
    /// `FILE:LINE: TEXT: outcome: words; next: advice`, on one line.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!("{}: {}", self.source, self.outcome.words());
        if !self.words.is_empty() {
            line.push_str(": ");
            line.push_str(&self.words);
        }
        if let Some(advice) = &self.advice {
            line.push_str("; next: ");
            line.push_str(advice);
        }
        line
    }
}
