//! The results of one run.

mod cell;

use serde::{Deserialize, Serialize};

pub use cell::{Cell, CountedFailure, Failure, Link, Mode, Outcome, RatePoint, Step};

/// Which instrument was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instrument {
    /// Each request that a transfer needs, at one endpoint after the other.
    Smoke,
    /// One small copy from each endpoint to each other.
    Mesh,
    /// Many copies over each link, for a time.
    Stress,
    /// Loads against one endpoint, with figures.
    Bench,
}

impl Instrument {
    /// All instruments.
    pub const ALL: [Self; 4] = [Self::Smoke, Self::Mesh, Self::Stress, Self::Bench];

    /// The word on the command line, in tables and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Mesh => "mesh",
            Self::Stress => "stress",
            Self::Bench => "bench",
        }
    }

    /// An instrument, by its word.
    ///
    /// # Errors
    /// The words that there are.
    pub fn from_name(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|known| known.name() == word);
        found.ok_or_else(|| format!("not one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// One run of an instrument and everything that it found.
///
/// A run that ended early has the cells that had ended by then, and `is_complete` is false.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What was run.
    pub instrument: Instrument,
    /// The title of the file of endpoints, or the URL of the only endpoint. Runs of the same
    /// instrument with the same title are compared with each other.
    pub title: String,
    /// Begin, in milliseconds since 1970.
    pub started_ms: u64,
    /// End, in milliseconds since 1970.
    pub ended_ms: u64,
    /// Name and version of the program that ran.
    pub program: String,
    /// Whether everything that was planned was tried.
    pub is_complete: bool,
    /// Why it ended early, such as `interrupted` or `the limit of bytes is reached`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// The endpoints, in the order of their file.
    pub endpoints: Vec<EndpointSeen>,
    /// What was tried between them.
    pub cells: Vec<Cell>,
    /// Figures of a benchmark; empty for the other instruments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
}

/// An endpoint as the run saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndpointSeen {
    /// Its name, unique in the run.
    pub name: String,
    /// Free words, to select by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Mail addresses of those who care for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub administrators: Vec<String>,
    /// The software and version that it says it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<String>,
    /// Why nothing was tried here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downtime: Option<Downtime>,
}

/// A time in which an endpoint is announced to be out of service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Downtime {
    /// Begin, in milliseconds since 1970.
    pub from_ms: u64,
    /// End, in milliseconds since 1970; not part of it.
    pub until_ms: u64,
    /// What the calendar says about it.
    pub reason: String,
}

/// Which values of a figure are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// A rate, for example.
    Higher,
    /// A time, for example.
    Lower,
}

/// A figure of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured; the same name in each run.
    pub name: String,
    /// The median of the repetitions.
    pub value: f64,
    /// Its unit, as it is shown.
    pub unit: String,
    /// Which values are good.
    pub wish: Wish,
}
