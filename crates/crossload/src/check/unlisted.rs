//! Finds entries of exports that clients never see: unusable names, and links that are dangling or
//! leave the export.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::limits::{CHECK_ENTRIES_MAX, CHECK_WALK_TIME};
use storage::DeadLinks;
use types::{LogicalPath, Unlisted};

use super::finding::{Finding, Position};

/// Limits of the search, over all exports.
pub(crate) struct Budget {
    entries: usize,
    until: Instant,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(CHECK_ENTRIES_MAX, CHECK_WALK_TIME)
    }
}

impl Budget {
    pub(crate) fn new(entries: usize, time: Duration) -> Self {
        let until = Instant::now() + time;
        Self { entries, until }
    }

    /// Takes one entry; false if the budget is used up.
    fn take(&mut self) -> bool {
        let is_left = self.entries > 0 && Instant::now() < self.until;
        self.entries = self.entries.saturating_sub(1);
        is_left
    }
}

/// Searches one export. Symbolic links are not followed; unreadable directories are skipped.
pub(crate) fn check(export: &Path, position: &Position, budget: &mut Budget) -> Vec<Finding> {
    let mut walk = Walk::default();
    let is_complete = walk.through(export, budget);
    let shown = export.display();
    let mut findings = Vec::new();
    let names = Unlisted {
        names: walk.unlisted.names,
        ..Unlisted::default()
    };
    let links = Unlisted {
        links: walk.unlisted.links,
        ..Unlisted::default()
    };
    if let Some(example) = &names.names.example {
        let says = format!("in {shown}: {names}, such as {example}");
        let finding = Finding::warning("names_unlisted", says).at(position.clone());
        findings.push(finding.change("rename them; clients can neither see nor access them"));
    }
    if let Some(example) = &links.links.example {
        let says = format!("in {shown}: {links}, such as {example}");
        let finding = Finding::warning("links_unlisted", says).at(position.clone());
        findings.push(finding.change("remove them, or make them relative links inside the export"));
    }
    if !is_complete {
        let says = format!(
            "{shown} is large: names were checked in its first {} entries only",
            walk.seen
        );
        findings.push(Finding::note("names_not_all_seen", says).at(position.clone()));
    }
    findings
}

#[derive(Default)]
struct Walk {
    seen: usize,
    unlisted: Unlisted,
}

impl Walk {
    /// Walks the tree; false if the budget ended first.
    fn through(&mut self, export: &Path, budget: &mut Budget) -> bool {
        let links = DeadLinks::below(export).ok();
        let mut pending: Vec<(PathBuf, LogicalPath)> = vec![(export.to_owned(), LogicalPath::root())];
        while let Some((directory, path)) = pending.pop() {
            let Ok(entries) = fs::read_dir(&directory) else {
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                if path.is_root() && name == storage::HIDDEN_DIRECTORY {
                    continue;
                }
                if !budget.take() {
                    return false;
                }
                self.seen += 1;
                let Some(inner) = name.to_str().and_then(|name| path.join(name).ok()) else {
                    self.unlisted.names.add(name.as_bytes());
                    continue;
                };
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => pending.push((entry.path(), inner)),
                    Ok(kind) if kind.is_symlink() && links.as_ref().is_some_and(|links| links.is_dead(&inner)) => {
                        self.unlisted.links.add(name.as_bytes());
                    }
                    _ => {}
                }
            }
        }
        true
    }
}
