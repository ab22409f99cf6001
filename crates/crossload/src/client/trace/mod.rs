//! `crossload trace`: what queue, redirector and endpoints know of one transfer, as one timeline.
//!
//! The parts of a transfer share identifiers: a queue's job is the trace of the requests that the
//! queue sends, an endpoint's copy has an identifier of its own and hands the trace on to the other
//! end. So each line that is found may name identifiers under which others know more.

mod bundle;
mod line;
mod source;

use std::collections::{BTreeSet, VecDeque};

use types::{Error, ErrorCode, Phase, Side};

use super::session::ClientContext;
use super::show::counted;
use crate::command_line::TraceOptions;
use crate::exit_code::ExitCodes;
use crate::failure::Failure;
use crate::limits::TRACE_IDS_MAX;
use crate::output;
use line::Line;
use source::Source;

/// What was found, and what was asked.
struct Found {
    /// By time.
    lines: Vec<Line>,
    ids: Vec<String>,
    /// What could not be asked, and why.
    silent: Vec<(String, String)>,
}

/// Prints the timeline. The exit code is 0 if something was found and all could be asked.
///
/// # Errors
/// `not_found` if none of them knows it; nothing could be asked; the bundle cannot be written.
pub(super) async fn run(session: &ClientContext, options: &TraceOptions) -> Result<u8, Failure> {
    let id = plain(&options.id)
        .ok_or_else(|| Failure::invalid("an ID has 8 to 64 letters, digits and hyphens, or is a traceparent"))?;
    let admins = options.admin.iter().map(|url| Source::admin(session, url));
    let logs = options.logs.iter().map(|path| Ok(Source::log(path)));
    let sources: Vec<Source> = admins.chain(logs).collect::<Result<_, Failure>>()?;
    let found = follow(session, &sources, &id).await?;
    if let Some(file) = &options.bundle {
        bundle::write(file, &options.id, &found)?;
    }
    print(&found, options.common.json);
    for (name, why) in &found.silent {
        output::complain(&format!("crossload trace: {name}: {why}"));
    }
    if found.lines.is_empty() {
        let error = Error::new(ErrorCode::NotFound, Side::Client, Phase::Open).with_subject(&options.id);
        let error = error.with_detail("no line of a log has it");
        let advice = "Check the ID. Servers remember only the last lines: name their log files with --log.";
        return Err(Failure::advised(&error, advice));
    }
    match found.silent.is_empty() {
        true => Ok(0),
        false => Ok(ExitCodes::chosen().of_several(1)),
    }
}

/// Asks all sources for an identifier, and for those that they name.
async fn follow(session: &ClientContext, sources: &[Source], id: &str) -> Result<Found, Failure> {
    let (mut known, mut waiting) = (BTreeSet::new(), VecDeque::from(same_as(id)));
    let mut lines: BTreeSet<Line> = BTreeSet::new();
    let mut silent: Vec<(String, String)> = Vec::new();
    while let Some(id) = waiting.pop_front() {
        if known.len() == TRACE_IDS_MAX || !known.insert(id.clone()) {
            continue;
        }
        for source in sources {
            if silent.iter().any(|(name, _)| *name == source.name()) {
                continue;
            }
            match source.about(session, &id).await {
                Ok(found) => {
                    for line in found.into_iter().map(|text| Line::read(source.name(), &text)) {
                        let Some(line) = line else { continue };
                        waiting.extend(line.ids());
                        lines.insert(line);
                    }
                }
                Err(error) => silent.push((source.name(), error)),
            }
        }
    }
    Ok(Found {
        lines: lines.into_iter().collect(),
        ids: known.into_iter().collect(),
        silent,
    })
}

/// The identifier that an argument stands for: that of the trace, of a traceparent.
fn plain(text: &str) -> Option<String> {
    let trace = text.strip_prefix("00-").and_then(|rest| rest.split('-').next());
    let id = trace.filter(|trace| trace.len() == 32).unwrap_or(text);
    let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (is_plain && (8..=64).contains(&id.len())).then(|| id.to_owned())
}

/// All forms of an identifier: a queue's job is a UUID, and its trace has the same digits.
fn same_as(id: &str) -> Vec<String> {
    let digits: String = id.chars().filter(|letter| *letter != '-').collect();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_uuid {
        return vec![id.to_owned()];
    }
    let digits = digits.to_ascii_lowercase();
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    vec![parts.join("-"), digits]
}

fn print(found: &Found, is_json: bool) {
    if is_json {
        found.lines.iter().for_each(|line| output::json(&line.as_json()));
        return;
    }
    let width = found.lines.iter().map(|line| line.source.len()).max().unwrap_or(0);
    let mut before = None;
    for line in &found.lines {
        let since = before.and_then(|before| line.seconds_since(before));
        output::line(&line.in_words(width, since));
        before = Some(line);
    }
    if !found.lines.is_empty() {
        let count = counted(found.lines.len() as u64, "line", "lines");
        let ids = counted(found.ids.len() as u64, "identifier", "identifiers");
        output::conclude(&format!("{count} by {ids}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_traces_are_found_in_both_forms() {
        let uuid = "0af76519-16cd-43dd-8448-eb211c80319c";
        let trace = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(same_as(uuid), [uuid, trace]);
        assert_eq!(same_as(&uuid.to_uppercase()), [uuid, trace]);
        assert_eq!(same_as(trace), [uuid, trace]);
        assert_eq!(same_as("65f2a1c09b3d4e7f"), ["65f2a1c09b3d4e7f"]);
        let parent = format!("00-{trace}-b7ad6b7169203331-01");
        assert_eq!(plain(&parent).as_deref(), Some(trace));
        for bad in ["", "short", "a b c d e f g", "../../metrics", &"x".repeat(65)] {
            assert_eq!(plain(bad), None, "{bad}");
        }
    }
}
