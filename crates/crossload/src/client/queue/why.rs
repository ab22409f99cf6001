//! `crossload queue why`: what a file waits for, by our own API.

use serde_json::Value;
use types::ErrorCode;

use super::jobs::{Named, text};
use super::links;
use super::pages;
use super::service::{Queue, mistake};
use super::times::{now_ms, until};
use super::watch::counts;
use crate::client::session::ClientContext;
use crate::command_line::QueueWhyOptions;
use crate::failure::Failure;
use crate::limits::QUEUE_WHY_FILES;
use crate::output;

/// Prints why a file, the files of a job, or those of a link are where they are.
///
/// # Errors
/// The queue's refusal; `peer_unsupported` for an FTS.
pub(super) async fn run(session: &ClientContext, options: &QueueWhyOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    if let Some(destination) = &options.destination {
        queue.demand_ours("why").await?;
        return links::explain(&queue, &options.what, destination, options.common.json).await;
    }
    let is_number = options.what.parse::<u64>().is_ok();
    let mut of_job = None;
    let paths = match (is_number, options.what.as_str()) {
        (true, file) => vec![format!("/v1/files/{file}/why")],
        (false, what) => {
            let Named { job, files } = Named::parse(what)?;
            let of_files = files.iter().map(|file| format!("/v1/files/{file}/why")).collect();
            let of_all = vec![format!("/v1/jobs/{job}/why")];
            of_job = Some(job);
            if files.is_empty() { of_all } else { of_files }
        }
    };
    queue.demand_ours("why").await?;
    for path in paths {
        let mut shown = 0;
        let show = |page: Vec<Value>, _| {
            for why in page {
                shown += 1;
                if shown > QUEUE_WHY_FILES && !options.common.json {
                    return Ok(false);
                }
                if of_job.as_deref().is_some_and(|job| why["job_id"] != job) {
                    let words = format!("the job has no file {}", text(&why["file_id"]));
                    return Err(mistake(ErrorCode::PeerNotFound, &words));
                }
                match options.common.json {
                    true => output::json(&why),
                    false => lines(&why, now_ms()).iter().for_each(|line| output::line(line)),
                }
            }
            Ok(true)
        };
        if let Some(job) = of_job
            .as_ref()
            .filter(|_| path.starts_with("/v1/jobs/") && !options.common.json)
        {
            let told = queue.get(&format!("/v1/jobs/{job}")).await?;
            if told["files"]["total"].as_u64().is_some_and(|total| total > 1)
                && let Some(counts) = counts(&told["files"])
            {
                output::line(&counts);
            }
        }
        pages::each(&queue, &path, show).await?;
        if shown > QUEUE_WHY_FILES && !options.common.json {
            let words =
                format!("only the first {QUEUE_WHY_FILES} files are explained; --json explains all, JOB:FILE one");
            output::complain(&words);
        }
    }
    Ok(0)
}

/// An explanation for people, at this time.
pub(super) fn lines(why: &Value, now_ms: i64) -> Vec<String> {
    let mut lines = vec![format!("file {}  {}", text(&why["file_id"]), text(&why["state"]))];
    let reasons = why["reasons"].as_array().into_iter().flatten();
    lines.extend(reasons.map(|reason| format!("  {} [{}]", text(&reason["words"]), text(&reason["code"]))));
    if let Some(ahead) = why["ahead"].as_u64() {
        let files = if ahead == 1 { "file is" } else { "files are" };
        lines.push(format!("  {ahead} {files} ahead of it"));
    }
    let estimate = &why["estimate"];
    if let Some(start_ms) = estimate["start_ms"].as_i64() {
        let end = estimate["end_ms"]
            .as_i64()
            .map_or_else(String::new, |end_ms| format!(", ends {}", until(end_ms, now_ms)));
        let basis = match basis(&estimate["basis"]) {
            basis if basis.is_empty() => basis,
            basis => format!(" ({basis})"),
        };
        lines.push(format!("  starts {}{end}{basis}", until(start_ms, now_ms)));
    }
    for contender in why["contenders"].as_array().into_iter().flatten() {
        let [source, destination, vo, activity, active, waiting] =
            ["source", "destination", "vo", "activity", "active", "waiting"].map(|name| text(&contender[name]));
        lines.push(format!(
            "  has slots: {vo}, {activity}, {source} -> {destination}: {active} active, {waiting} waiting"
        ));
    }
    if let Some(expires_ms) = why["credential_expires_ms"].as_i64() {
        lines.push(format!("  its credential expires {}", until(expires_ms, now_ms)));
    }
    lines
}

/// What an estimate is based on.
fn basis(basis: &Value) -> String {
    match (basis["started"].as_u64(), basis["window_ms"].as_i64()) {
        (Some(started), Some(window_ms)) => {
            let window_s = window_ms / 1000;
            let files = if started == 1 {
                "file of its queue has"
            } else {
                "files of its queue have"
            };
            format!("{started} {files} started within {window_s} s")
        }
        _ if basis["kind"].is_string() => text(&basis["kind"]).replace('_', " "),
        _ => text(basis),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_explanation_names_reason_place_and_time() {
        let why = json!({
            "file_id": 12, "job_id": "x", "state": "submitted", "ahead": 1, "credential_expires_ms": 1_000_000 + 2_040_000,
            "contenders": [{"source": "https://a:443", "destination": "https://b:443", "vo": "cms", "activity": "default",
                "active": 2, "waiting": 9}],
            "reasons": [{"code": "destination_limit", "words": "https://b:443 takes 2 copies at once", "limit": 2}],
            "estimate": {"start_ms": 1_005_000, "end_ms": 1_000_000 + 3_700_000, "basis": {"kind": "pace", "started": 7, "window_ms": 60_000}},
        });
        assert_eq!(
            lines(&why, 1_000_000),
            [
                "file 12  submitted",
                "  https://b:443 takes 2 copies at once [destination_limit]",
                "  1 file is ahead of it",
                "  starts in 5 s, ends in 1 h 1 min (7 files of its queue have started within 60 s)",
                "  has slots: cms, default, https://a:443 -> https://b:443: 2 active, 9 waiting",
                "  its credential expires in 34 min",
            ]
        );
        let bare = json!({"file_id": 1, "state": "active", "reasons": [], "ahead": null, "estimate": null});
        assert_eq!(lines(&bare, 0), ["file 1  active"]);
    }
}
