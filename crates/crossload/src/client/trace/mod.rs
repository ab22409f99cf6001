//! `crossload trace`: what queue, redirector and endpoints know of one transfer, as one timeline.
//!
//! The parts of a transfer share identifiers: a queue's job is the trace of the requests that the
//! queue sends, an endpoint's copy has an identifier of its own and hands the trace on to the other
//! end. So each line that is found may name identifiers under which others know more.

mod bundle;
mod line;
mod source;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use endpoint::ids::is_traced_id;
use types::{Error, ErrorCode, Phase, Side, is_traceparent};

use super::session::ClientContext;
use super::show::counted;
use crate::command_line::TraceOptions;
use crate::exit_code::ExitCodes;
use crate::failure::{Advice, Failure};
use crate::limits::{TRACE_IDS_MAX, TRACE_LINES_MAX};
use crate::output;
use line::Line;
use source::{Silence, Source};

const CHECK_ID: &str = "Check the ID. Servers remember only the last lines: name their log files with --log.";

/// What was found, and what was asked.
#[derive(Default)]
struct Found {
    /// By time.
    lines: BTreeSet<Line>,
    ids: BTreeSet<String>,
    /// Why sources could not be asked, by their names.
    silent: BTreeMap<String, Silence>,
    /// What is missing in the lines, in words.
    left_out: BTreeSet<String>,
}

/// Prints the timeline. The exit code is 0 if something was found, all could be asked, and nothing
/// was left out.
///
/// # Errors
/// `not_found` if none of them knows it; nothing could be asked; the bundle cannot be written.
pub(super) async fn run(session: &ClientContext, options: &TraceOptions) -> Result<u8, Failure> {
    let id = plain(&options.id).ok_or_else(|| {
        Failure::invalid("an ID has 8 to 64 hexadecimal digits and hyphens, or is a traceparent, or JOB:FILE")
    })?;
    let admins = options.admin.iter().map(|url| Source::admin(session, url));
    let logs = options.logs.iter().map(|path| Ok(Source::log(path)));
    let sources: Vec<Source> = admins.chain(logs).collect::<Result<_, Failure>>()?;
    let mut found = follow(session, &sources, &id).await;
    if sources.len() == 1
        && found.lines.is_empty()
        && let Some((_, silence)) = found.silent.pop_first()
    {
        return Err(silence.failure);
    }
    print(&found, options.common.json);
    for (name, silence) in &found.silent {
        output::complain(&format!("crossload trace: {name}: {}", silence.why));
    }
    for words in &found.left_out {
        output::complain(&format!("crossload trace: {words}"));
    }
    if found.lines.is_empty() {
        return Err(nothing(&options.id, &found, sources.len()));
    }
    if let Some(file) = &options.bundle {
        bundle::write(file, &options.id, &found)?;
    }
    let last = found.silent.values().next_back();
    match found.silent.is_empty() && found.left_out.is_empty() {
        true => Ok(0),
        false => Ok(ExitCodes::chosen().of_several(last.map_or(1, |silence| silence.failure.exit_code))),
    }
}

/// The failure if no line was found.
fn nothing(id: &str, found: &Found, sources: usize) -> Failure {
    let Some(last) = found.silent.values().next_back() else {
        let error = Error::new(ErrorCode::NotFound, Side::Client, Phase::Open).with_subject(id);
        return Failure::advised(&error.with_detail("no line of a log has it"), CHECK_ID);
    };
    let silent = found.silent.len();
    Failure {
        words: format!("no line of a log has {id}, but {silent} of {sources} servers and logs could not be asked"),
        advice: Some(Advice::Own("Correct --admin or --log, and ask again.".to_owned())),
        code: None,
        exit_code: ExitCodes::chosen().of_several(last.failure.exit_code),
    }
}

/// Asks all sources for an identifier, and for those that they name.
async fn follow(session: &ClientContext, sources: &[Source], id: &str) -> Found {
    let (mut found, mut waiting) = (Found::default(), VecDeque::from(same_as(id)));
    while let Some(id) = waiting.pop_front() {
        if found.ids.contains(&id) {
            continue;
        }
        if found.ids.len() == TRACE_IDS_MAX {
            let words = format!("more lines were left out: only {TRACE_IDS_MAX} identifiers were followed");
            found.left_out.insert(words);
            break;
        }
        found.ids.insert(id.clone());
        for source in sources {
            let name = source.name();
            if found.silent.contains_key(&name) {
                continue;
            }
            match source.about(session, &id).await {
                Ok(lines) => {
                    if lines.is_cut {
                        let words = format!("more lines were left out: at most {TRACE_LINES_MAX} about an identifier");
                        found.left_out.insert(format!("{name}: {words}"));
                    }
                    for text in lines.texts {
                        let Some(line) = Line::read(name.clone(), &text) else {
                            continue;
                        };
                        waiting.extend(line.ids());
                        found.lines.insert(line);
                    }
                }
                Err(silence) => {
                    found.silent.insert(name, silence);
                }
            }
        }
    }
    found
}

/// The identifier that an argument stands for: the trace of a traceparent, the job of JOB:FILE.
fn plain(text: &str) -> Option<String> {
    if is_traceparent(text) {
        return text.split('-').nth(1).map(str::to_owned);
    }
    let is_file = |file: &str| !file.is_empty() && file.bytes().all(|byte| byte.is_ascii_digit());
    let job = text.rsplit_once(':').filter(|(_, file)| is_file(file));
    let id = job.map_or(text, |(job, _)| job);
    is_traced_id(id).then(|| id.to_owned())
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
        assert_eq!(plain(&format!("{uuid}:43")).as_deref(), Some(uuid));
        for bad in [
            "",
            "short",
            "a b c d e f g",
            "../../metrics",
            &"a".repeat(65),
            "0af76519:",
            "0af76519:x",
        ] {
            assert_eq!(plain(bad), None, "{bad}");
        }
    }
    #[test]
    fn sources_that_cannot_be_asked_are_no_unknown_identifier() {
        let mut found = Found::default();
        let unknown = nothing("65f2a1c09b3d", &found, 2);
        assert_eq!((unknown.exit_code, unknown.code), (2, Some(ErrorCode::NotFound)));
        let failure = Failure::invalid("refused");
        let why = "refused".to_owned();
        found.silent.insert("h:9090".to_owned(), Silence { why, failure });
        let partly = nothing("65f2a1c09b3d", &found, 2);
        assert_eq!((partly.exit_code, partly.code), (1, None));
        assert!(partly.words.contains("1 of 2"), "{}", partly.words);
    }
}
