//! What a person reads of a mesh before its report: the plan, and what happens.

use std::collections::BTreeMap;

use history::{Link, Outcome};
use probe::mesh::{News, Planned};

use crate::output;

/// Reasons that are printed for links that are not tried.
const REASONS_MAX: usize = 20;

/// `A -> B https pull token`.
pub(super) fn of(link: &Link) -> String {
    let protocol = match link.source_protocol == link.destination_protocol {
        true => link.source_protocol.clone(),
        false => format!("{}->{}", link.source_protocol, link.destination_protocol),
    };
    let (mode, credential) = (link.mode.name(), &link.credential);
    format!("{} -> {} {protocol} {mode} {credential}", link.source, link.destination)
}

/// Prints what happens, on standard error: failures, and with `-v` every cell. The report at the
/// end says more.
pub(super) fn news(news: News<'_>, verbose: bool) {
    match news {
        News::Ended(cell) => match &cell.outcome {
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

/// Why links of a plan are not tried, with how many of them: the most frequent reasons first.
pub(super) fn untried(plan: &[Planned]) -> Vec<(&str, u64)> {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for planned in plan {
        if let Err(Outcome::Skipped { why } | Outcome::NotApplicable { why }) = &planned.fate {
            *reasons.entry(why).or_default() += 1;
        }
    }
    let mut reasons: Vec<(&str, u64)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    reasons
}

/// Prints why links are not tried.
pub(super) fn reasons(reasons: &[(&str, u64)]) {
    for (why, count) in reasons.iter().take(REASONS_MAX) {
        output::line(&format!("{} not tried: {why}", output::counted(*count, "link")));
    }
    let left = reasons.len().saturating_sub(REASONS_MAX);
    if left > 0 {
        let left = output::counted(left as u64, "more reason");
        output::line(&format!("{left}: crossload mesh --dry-run has all"));
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
