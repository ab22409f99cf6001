//! One row of figures: the samples of one target under one load.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use types::{Error, ErrorCode};

use super::noise::SPREAD_MAX;

/// The parameters under which something was measured, in the order in which they are to be read.
pub type Parameters = IndexMap<String, Value>;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number: what a plot's axis may be.
    Number(f64),
    /// A name.
    Text(String),
}

impl Value {
    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::Text(text) => formatter.write_str(text),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Value {
    /// Exact to 2^53, which is 9 PB.
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

impl From<usize> for Value {
    /// Exact to 2^53.
    fn from(number: usize) -> Self {
        Self::Number(number as f64)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The samples of one target under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The name of the target.
    pub target: String,
    /// What was measured, the axis' parameter left out, such as `GET https`.
    pub label: String,
    /// Under which parameters.
    pub parameters: Parameters,
    /// One figure for each repetition, in the table's unit.
    pub samples: Vec<f64>,
    /// What went wrong.
    pub failures: Vec<Failure>,
}

/// The middle and the ends of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The smallest.
    pub min: f64,
    /// The one in the middle; of an even number of samples, the mean of both.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of samples; `None` of none, and when one of them is no number.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        if !samples.iter().all(|sample| sample.is_finite()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let half = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[half - 1], sorted[half]),
            _ => sorted[half],
        };
        Some(Self { min, median, max })
    }

    /// Whether the samples lie so far apart that their median says little.
    #[must_use]
    pub fn is_noisy(&self) -> bool {
        self.max > self.min * SPREAD_MAX
    }
}

impl Row {
    /// A row without samples.
    #[must_use]
    pub fn new(target: &str, label: &str, parameters: Parameters) -> Self {
        Self {
            target: target.to_owned(),
            label: label.to_owned(),
            parameters,
            samples: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Median, smallest and largest; `None` when nothing was measured.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.samples)
    }

    /// Whether its samples lie too far apart.
    #[must_use]
    pub fn is_noisy(&self) -> bool {
        self.summary().is_some_and(|summary| summary.is_noisy())
    }

    /// Adds a sample. What is no number (a rate of nothing in no time) is left out: JSON could not
    /// hold it.
    pub fn add(&mut self, sample: f64) {
        if sample.is_finite() {
            self.samples.push(sample);
        }
    }

    /// Notes a failure; the same one again is counted, also when it is about another file of the
    /// run.
    pub fn fail(&mut self, failure: Failure) {
        match self.failures.iter_mut().find(|known| known.is_like(&failure)) {
            Some(known) => known.count += failure.count,
            None => self.failures.push(failure),
        }
    }
}

/// What went wrong, how often, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// At what: `upload of the test file`, `GET`.
    pub phase: String,
    /// What happened.
    pub words: String,
    /// What to do next; may be empty.
    pub advice: String,
    /// How often.
    pub count: u64,
    /// Whether a server wanted another credential, or one at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
}

/// What helps against most refusals.
const CREDENTIALS: &str = "show a credential that it takes (--token-file, --proxy, --cert)";

impl Failure {
    /// An error that was met while `phase` was done.
    #[must_use]
    pub fn of(phase: &str, error: &Error) -> Self {
        let has_none = error.code() == ErrorCode::PeerDenied;
        let advice = match has_none {
            true => CREDENTIALS.to_owned(),
            false => error.code().for_our_client(),
        };
        Self {
            phase: phase.to_owned(),
            words: error.public(),
            advice,
            count: 1,
            denied: has_none || error.code() == ErrorCode::PeerForbidden,
        }
    }

    /// The same with other advice, for a missing credential with both ways.
    #[must_use]
    pub fn advised(mut self, advice: &str) -> Self {
        self.advice = match self.advice.as_str() {
            CREDENTIALS => format!("{CREDENTIALS}, or {advice}"),
            _ => advice.to_owned(),
        };
        self
    }

    /// Whether it is the same failure, but for names that were made for this run: of its files, of
    /// requests.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.phase == other.phase && self.advice == other.advice && is_like(&self.words, &other.words)
    }

    /// A failure that is no error of a transfer.
    #[must_use]
    pub fn new(phase: &str, words: impl Into<String>, advice: &str) -> Self {
        Self {
            phase: phase.to_owned(),
            words: words.into(),
            advice: advice.to_owned(),
            count: 1,
            denied: false,
        }
    }
}

fn is_like(one: &str, other: &str) -> bool {
    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|character: char| !character.is_ascii_alphanumeric() && character != '-')
    }
    let (mut one, mut other) = (words(one), words(other));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if one == other || (is_made_name(one) && is_made_name(other)) => {}
            _ => return false,
        }
    }
}

/// Whether a word is likely to be the name of one thing among many: `copy-12`, or an identifier in
/// hexadecimal digits. Neither a status nor a port is.
fn is_made_name(word: &str) -> bool {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    let is_identifier = word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    has_digit && (word.contains('-') || is_identifier)
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.phase, self.words)?;
        if !self.advice.is_empty() && !self.words.contains(&self.advice) {
            write!(formatter, " - {}", self.advice)?;
        }
        match self.count {
            1 => Ok(()),
            count => write!(formatter, " ({count} times)"),
        }
    }
}
