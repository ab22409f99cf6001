//! What was measured, on what, and how far it can be believed. [`Report`] is what JSON files hold;
//! the other modules write it for people.

pub mod csv;
pub mod html;
mod noise;
mod row;
pub mod text;
pub mod view;

use serde::{Deserialize, Serialize};

pub use noise::{Noise, NoiseMeter, SPREAD_MAX};
pub use row::{Failure, Parameters, Row, Summary, Value};
pub use view::View;

use crate::machine::Machine;

/// The version of the JSON form. A reader refuses another one.
pub const FORMAT: u32 = 1;

/// One run of a load on one or more targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// Name and version of the program that measured.
    pub program: String,
    /// Which load: `bulk`, `metadata`, ….
    pub kind: String,
    /// When it began (RFC 3339, UTC).
    pub started: String,
    /// How long it took, in seconds.
    pub duration_s: f64,
    /// Whether it was ended before all was measured.
    pub interrupted: bool,
    /// The parameters that explain the figures: sizes, repetitions.
    pub parameters: Parameters,
    /// Where the client ran.
    pub machine: Machine,
    /// Who was measured.
    pub targets: Vec<Target>,
    /// The figures.
    pub tables: Vec<Table>,
    /// Rates over time.
    pub curves: Vec<Curve>,
    /// How quiet it was.
    pub noise: Noise,
    /// What else a reader should know, in sentences.
    pub notes: Vec<String>,
}

/// Who was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// What it is called in tables. Several URLs of one server may share a name.
    pub name: String,
    /// Its URL, without what a query may hold.
    pub url: String,
}

/// Which figures are good ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Throughput, requests per second.
    More,
    /// Time, memory, processor time per byte.
    Less,
}

impl Better {
    /// What is said behind a table's title.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::More => "more is better",
            Self::Less => "less is better",
        }
    }
}

/// The parameter that makes a table a plot of lines. Without, bars are drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Which of the rows' parameters it is; it must be a number in each row. It is not a part of
    /// the rows' labels.
    pub parameter: String,
    /// What it counts or in which unit it is, such as `ms`; may be empty.
    pub unit: String,
    /// Whether equal steps of the plot are equal factors.
    pub logarithmic: bool,
}

/// Figures of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What was measured, such as `Throughput`.
    pub title: String,
    /// The unit of all samples, such as `Gbit/s`.
    pub unit: String,
    /// Which figures are good ones.
    pub better: Better,
    /// What the rows are plotted against.
    pub axis: Option<Axis>,
    /// The figures, those of all targets.
    pub rows: Vec<Row>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(title: &str, unit: &str, better: Better) -> Self {
        Self {
            title: title.to_owned(),
            unit: unit.to_owned(),
            better,
            axis: None,
            rows: Vec::new(),
        }
    }

    /// The same table, plotted against a parameter of its rows.
    #[must_use]
    pub fn against(mut self, parameter: &str, unit: &str, logarithmic: bool) -> Self {
        self.axis = Some(Axis {
            parameter: parameter.to_owned(),
            unit: unit.to_owned(),
            logarithmic,
        });
        self
    }

    /// The row of a target with this label and these parameters; it is made when there is none.
    pub fn row(&mut self, target: &str, label: &str, parameters: &Parameters) -> &mut Row {
        let at = self.place(target, label, parameters).unwrap_or_else(|| {
            self.rows.push(Row::new(target, label, parameters.clone()));
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    /// Whether something has failed in the row of a target with this label and these parameters.
    #[must_use]
    pub fn has_failed(&self, target: &str, label: &str, parameters: &Parameters) -> bool {
        let place = self.place(target, label, parameters);
        place.is_some_and(|at| !self.rows[at].failures.is_empty())
    }

    fn place(&self, target: &str, label: &str, parameters: &Parameters) -> Option<usize> {
        let is_it = |row: &Row| row.target == target && row.label == label && row.parameters == *parameters;
        self.rows.iter().position(is_it)
    }
}

/// A rate over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// What is shown; curves of the same title share a plot.
    pub title: String,
    /// Whose it is.
    pub target: String,
    /// Which one, such as `pull, 100 concurrent`.
    pub label: String,
    /// The unit of the values.
    pub unit: String,
    /// Seconds since the beginning, and the value then.
    pub points: Vec<(f64, f64)>,
}

/// The result of a load, complete or until it was stopped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The figures. Tables without rows are left out of a report.
    pub tables: Vec<Table>,
    /// Rates over time.
    pub curves: Vec<Curve>,
    /// What else a reader should know, in sentences.
    pub notes: Vec<String>,
}

impl Measured {
    /// Whether anything failed.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        let mut rows = self.tables.iter().flat_map(|table| &table.rows);
        rows.any(|row| !row.failures.is_empty())
    }
}

impl Report {
    /// The report as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Its types have no keys but strings, and nothing else can fail in memory.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// A report that was kept.
    ///
    /// # Errors
    /// In words, when the text is no report, or one of another version.
    pub fn from_json(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let not_one = |cause: serde_json::Error| format!("it is no report of crossload bench: {cause}");
        let Version { format } = serde_json::from_str(text).map_err(not_one)?;
        if format != FORMAT {
            return Err(format!("its form is {format}, this program reads form {FORMAT}"));
        }
        serde_json::from_str(text).map_err(not_one)
    }

    /// Whether anything failed.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        let mut rows = self.tables.iter().flat_map(|table| &table.rows);
        rows.any(|row| !row.failures.is_empty())
    }

    /// Whether a server wanted another credential, or one at all.
    #[must_use]
    pub fn has_denials(&self) -> bool {
        let rows = self.tables.iter().flat_map(|table| &table.rows);
        rows.flat_map(|row| &row.failures).any(|failure| failure.denied)
    }
}

#[cfg(test)]
pub(crate) mod tests;
