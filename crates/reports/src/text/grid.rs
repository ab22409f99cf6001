//! A matrix of short texts in aligned columns, in several blocks where it is too wide.

use std::fmt::Write as _;

use super::Terminal;
use crate::words::{columns, cut};

/// The narrowest that labels are cut to for a matrix in one block, and the widest that they may be.
const LABEL_COLUMNS_MIN: usize = 16;
const LABEL_COLUMNS_MAX: usize = 30;

/// How a cell is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Paint {
    /// Not at all.
    #[default]
    Plain,
    /// Passed.
    Good,
    /// Failed.
    Bad,
    /// Not tried.
    Warning,
}

impl Terminal {
    /// The text in its colour, where the terminal has colours.
    pub(super) fn painted(self, text: &str, paint: Paint) -> String {
        // ECMA-48 §8.3.117: bold, and the colours red, green and yellow.
        let code = match paint {
            _ if !self.has_colour => return text.to_owned(),
            Paint::Plain => return text.to_owned(),
            Paint::Good => "32",
            Paint::Bad => "1;31",
            Paint::Warning => "33",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// What a cell shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    text: String,
    paint: Paint,
}

impl Shown {
    pub(super) fn new(text: impl Into<String>, paint: Paint) -> Self {
        Self {
            text: text.into(),
            paint,
        }
    }
}

/// A matrix.
#[derive(Debug)]
pub(super) struct Grid {
    /// What stands before each row.
    pub(super) labels: Vec<String>,
    /// What stands above each column.
    pub(super) heads: Vec<String>,
    /// The cells, one row after the other.
    pub(super) rows: Vec<Vec<Shown>>,
}

impl Grid {
    /// Whether it can be drawn in one block, with labels that still say enough.
    pub(super) fn fits(&self, width: usize) -> bool {
        self.cell_columns() * self.heads.len() + self.label_columns().min(LABEL_COLUMNS_MIN) <= width
    }

    /// The columns of each cell, the space in front of it included.
    fn cell_columns(&self) -> usize {
        let cells = self.rows.iter().flatten().map(|cell| columns(&cell.text));
        let heads = self.heads.iter().map(|head| columns(head));
        1 + cells.chain(heads).max().unwrap_or(0)
    }

    fn label_columns(&self) -> usize {
        let widest = self.labels.iter().map(|label| columns(label)).max().unwrap_or(0);
        widest.min(LABEL_COLUMNS_MAX)
    }

    /// Draws it, in as few blocks of columns as the terminal needs.
    pub(super) fn draw(&self, out: &mut String, terminal: Terminal) {
        let cell = self.cell_columns();
        let needed = cell * self.heads.len();
        let label = match self.fits(terminal.columns) {
            true => self.label_columns().min(terminal.columns - needed),
            false => self.label_columns().min(terminal.columns / 3),
        };
        let in_block = (terminal.columns.saturating_sub(label) / cell).max(1);
        let all: Vec<usize> = (0..self.heads.len()).collect();
        for block in all.chunks(in_block) {
            let heads = block.iter().map(|at| format!("{:>cell$}", Padded(&self.heads[*at])));
            let line = format!("{}{}", " ".repeat(label), heads.collect::<String>());
            let _ = writeln!(out, "{}", line.trim_end());
            for (name, row) in self.labels.iter().zip(&self.rows) {
                let _ = writeln!(out, "{}", line_of(name, row, block, Widths { label, cell }, terminal));
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Widths {
    label: usize,
    cell: usize,
}

fn line_of(name: &str, row: &[Shown], block: &[usize], widths: Widths, terminal: Terminal) -> String {
    let Widths { label, cell } = widths;
    let mut line = format!("{:<label$}", Padded(&cut(name, label)));
    let mut spaces = 0;
    for shown in block.iter().map(|at| &row[*at]) {
        spaces += cell - columns(&shown.text);
        if !shown.text.is_empty() {
            line.push_str(&" ".repeat(spaces));
            line.push_str(&terminal.painted(&shown.text, shown.paint));
            spaces = 0;
        }
    }
    line.trim_end().to_owned()
}

/// Text that is padded by columns, where the standard library counts characters.
struct Padded<'a>(&'a str);

impl std::fmt::Display for Padded<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let missing = formatter.width().unwrap_or(0).saturating_sub(columns(self.0));
        match formatter.align() {
            Some(std::fmt::Alignment::Right) => write!(formatter, "{:missing$}{}", "", self.0),
            _ => write!(formatter, "{}{:missing$}", self.0, ""),
        }
    }
}
