//! What a person reads of a mesh: the plan, the failed cells, and the sum.

use history::{Cell, Failure, Link, Outcome, Run};
use probe::mesh::{News, Planned};

use crate::output;

/// How many cells ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    pub(super) not_applicable: usize,
}

impl Tally {
    pub(super) fn of(run: &Run) -> Self {
        let mut tally = Self::default();
        for cell in &run.cells {
            match cell.outcome {
                Outcome::Passed => tally.passed += 1,
                Outcome::Failed(_) => tally.failed += 1,
                Outcome::Skipped { .. } => tally.skipped += 1,
                Outcome::NotApplicable { .. } => tally.not_applicable += 1,
            }
        }
        tally
    }

    /// As that of `smoke`: 0 when all went well, 1 when something failed, 2 when nothing failed but
    /// something was skipped.
    pub(super) fn exit_code(self) -> u8 {
        match self {
            _ if self.failed > 0 => 1,
            _ if self.skipped > 0 => 2,
            _ => 0,
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} passed, {} failed, {} skipped, {} not applicable",
            self.passed, self.failed, self.skipped, self.not_applicable
        )
    }
}

/// `A -> B https pull token`.
pub(super) fn of(link: &Link) -> String {
    let protocol = match link.source_protocol == link.destination_protocol {
        true => link.source_protocol.clone(),
        false => format!("{}->{}", link.source_protocol, link.destination_protocol),
    };
    let (mode, credential) = (link.mode.name(), &link.credential);
    format!("{} -> {} {protocol} {mode} {credential}", link.source, link.destination)
}

/// Prints what happens: failures, and with `-v` every cell. On standard error if results in JSON go
/// to standard output.
pub(super) fn news(news: News<'_>, verbose: bool, as_json: bool) {
    match news {
        News::Ended(cell) => match &cell.outcome {
            Outcome::Failed(failure) if !as_json => failed(cell, failure),
            Outcome::Failed(failure) => {
                let (side, phase) = (failure.side.name(), failure.phase.name());
                output::complain(&format!("FAILED {}: {side} {phase}: {}", of(&cell.link), failure.code));
            }
            _ if verbose => output::complain(&format!("ok {} {} ms", of(&cell.link), cell.copy_ms)),
            _ => {}
        },
        News::Swept { endpoint, count } => {
            let files = output::counted(count, "file");
            output::complain(&format!("{endpoint}: removed {files} that an interrupted run left"));
        }
        News::Left { endpoint, file, error } => {
            output::complain(&format!("{endpoint}: {file} cannot be removed: {}", error.public()));
        }
    }
}

fn failed(cell: &Cell, failure: &Failure) {
    let (side, phase) = (failure.side.name(), failure.phase.name());
    output::line(&format!("FAILED {}", of(&cell.link)));
    output::line(&format!("       {side} {phase}: {} [{}]", failure.says, failure.code));
    match (failure.server_status, &failure.server_words) {
        (Some(status), Some(words)) => output::line(&format!("       the server said {status}: \"{words}\"")),
        (Some(status), None) => output::line(&format!("       the server said {status}")),
        (None, Some(words)) => output::line(&format!("       the server said: \"{words}\"")),
        (None, None) => {}
    }
    for line in &failure.reproduce {
        output::line(&format!("       $ {line}"));
    }
}

/// Prints the plan and how many cells there are of each kind.
pub(super) fn plan(plan: &[Planned], as_json: bool) {
    let (mut tried, mut skipped, mut not_applicable) = (0_u64, 0_u64, 0_u64);
    for planned in plan {
        let (word, why) = match &planned.fate {
            Ok(_) => {
                tried += 1;
                ("try", None)
            }
            Err(Outcome::Skipped { why }) => {
                skipped += 1;
                ("skip", Some(why))
            }
            Err(Outcome::NotApplicable { why }) => {
                not_applicable += 1;
                ("never", Some(why))
            }
            Err(_) => continue,
        };
        if as_json {
            let line = serde_json::json!({ "link": planned.link, "plan": word, "why": why });
            output::json(&line);
            continue;
        }
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        output::line(&format!("{word:6}{}{why}", of(&planned.link)));
    }
    if !as_json {
        let tried = output::counted(tried, "cell");
        output::line(&format!(
            "\n{tried} to try, {skipped} to skip, {not_applicable} not applicable"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_smoke() {
        let tally = |failed, skipped| Tally {
            passed: 1,
            failed,
            skipped,
            not_applicable: 5,
        };
        let codes = [tally(0, 0), tally(0, 2), tally(1, 2)].map(Tally::exit_code);
        assert_eq!(codes, [0, 2, 1]);
    }
}
