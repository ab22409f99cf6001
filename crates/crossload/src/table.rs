//! Tables for people: columns of equal width, separated by two blanks.

use crate::output;

/// The widest column to which others are padded, in characters.
const WIDTH_MAX: usize = 1024;

/// A table with a head.
pub(crate) struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// A table with these heads.
    pub(crate) fn new(heads: [&str; COLUMNS]) -> Self {
        Self {
            rows: vec![heads.map(str::to_owned)],
        }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row);
    }

    /// The lines. Columns in which no row has anything are left out.
    pub(crate) fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..COLUMNS)
            .map(
                |column| match self.rows.iter().skip(1).all(|row| row[column].is_empty()) {
                    true => 0,
                    false => self
                        .rows
                        .iter()
                        .map(|row| row[column].chars().count())
                        .max()
                        .unwrap_or(0),
                },
            )
            .collect();
        let line = |row: &[String; COLUMNS]| {
            let cells = row.iter().zip(&widths).filter(|(_, width)| **width > 0);
            let padded: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:<width$}", width = (*width).min(WIDTH_MAX)))
                .collect();
            padded.join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    /// Rows below the head.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len() - 1
    }

    /// Whether it has no rows below the head.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }

    /// Prints it, if it has rows.
    pub(crate) fn print_if_any(&self) {
        if !self.is_empty() {
            self.print();
        }
    }

    /// Prints it.
    pub(crate) fn print(&self) {
        self.lines().iter().for_each(|line| output::line(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let mut table = Table::new(["JOB", "WHY", "STATE"]);
        table.add(["1".to_owned(), String::new(), "FINISHED".to_owned()]);
        table.add(["1234".to_owned(), String::new(), String::new()]);
        assert_eq!(table.lines(), ["JOB   STATE", "1     FINISHED", "1234"]);
    }
}
