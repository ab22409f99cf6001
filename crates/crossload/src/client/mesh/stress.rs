//! `crossload stress`: many copies over each link of a mesh.

use history::{Cell, Outcome, Run};
use probe::mesh::{Load, Mesh, News, Settings, StopAt, Stress};
use reports::words::rate_with_unit;

use super::own::OwnMesh;
use super::show;
use super::{CLEAN_UP_TIMEOUT, Prepared, Selection, Stop, conclude, end_at_second_interrupt, interrupted, wait};
use crate::client::INTERRUPTED;
use crate::command_line::StressOptions;
use crate::failure::Failure;
use crate::output;
use crate::reporting::{self, Page};

/// Runs the stress test. The exit code is 0 if all copies succeeded, 1 if one failed, 2 if a link
/// was skipped.
///
/// # Errors
/// An unusable file of endpoints, or an interruption, after cleaning up.
pub(crate) fn run(options: &StressOptions) -> Result<u8, Failure> {
    let runtime = execution::worker_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    runtime.block_on(async {
        let select = Selection {
            topology: &options.topology,
            protocols: &options.protocol,
            modes: &options.mode,
            only: &options.only,
        };
        let prepared = Prepared::new(&options.file, &select, &options.common).await?;
        if options.dry_run {
            forecast(options, &prepared);
            return Ok(0);
        }
        let results = &options.results;
        let used = [Some(&*options.file), options.common.log_file.as_deref()];
        reporting::try_outputs(&results.reports, results.save.as_deref(), &used)?;
        let own = OwnMesh::take(&options.file)?;
        let page = Page::open(&options.results.reports, None).await?;
        let no_signals = |cause: std::io::Error| Failure::system("cannot receive signals", &cause);
        end_at_second_interrupt(INTERRUPTED).map_err(no_signals)?;
        let mut stop = Stop::new().map_err(no_signals)?;
        let code = carry_out(options, prepared, &own, page.as_ref(), &mut stop).await?;
        stop.serve(page.as_ref()).await.map(|()| code)
    })
}

fn load(options: &StressOptions) -> Load {
    Load {
        copies: options.copies,
        per: options.per,
        ramp: options.ramp,
        hold: options.hold,
    }
}

/// Says what would be moved.
fn forecast(options: &StressOptions, prepared: &Prepared) {
    let links = prepared.plan.iter().filter(|planned| planned.fate.is_ok()).count() as u64;
    let each = load(options).copies_of_link();
    let most = options.max_bytes.and_then(|most| most.checked_div(options.size));
    let planned = links.saturating_mul(each);
    let copies = most.map_or(planned, |most| most.min(planned));
    let moved = copies.checked_mul(options.size);
    let seconds = load(options).duration().as_secs();
    let untried = show::untried(&prepared.plan);
    if options.common.json {
        let reason = |(why, links): &(&str, u64)| serde_json::json!({ "why": why, "links": links });
        let forecast = serde_json::json!({
            "links": links,
            "copies_per_link": each,
            "copies": copies,
            "bytes": moved.unwrap_or(u64::MAX),
            "seconds": seconds,
            "not_tried": untried.iter().map(reason).collect::<Vec<_>>(),
        });
        return output::json(&forecast);
    }
    output::line(&format!(
        "{}: {} each, {copies} in all{}",
        output::counted(links, "link"),
        output::counted(each, "transfer"),
        if copies < planned { " with --max-bytes" } else { "" }
    ));
    let size = |bytes: u64| super::super::show::shown_size(Some(bytes), true);
    output::line(&format!(
        "{} in {seconds} s, files of {}",
        moved.map_or_else(|| format!("more than {}", size(u64::MAX)), size),
        size(options.size)
    ));
    show::reasons(&untried);
    let rate = f64::from(options.copies) / options.per.as_secs_f64() * 8.0 / 1e6;
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = rate * options.size as f64;
    output::line(&format!("{} on each link at the full rate", rate_with_unit(rate)));
}

async fn carry_out(
    options: &StressOptions,
    prepared: Prepared,
    own: &OwnMesh,
    page: Option<&Page>,
    stop: &mut Stop,
) -> Result<u8, Failure> {
    let usual = prepared.settings(&options.common, own);
    let settings = Settings {
        size_bytes: options.size,
        checksums: false,
        parallel: options.parallel.unwrap_or(usual.parallel),
        parallel_each: options.parallel_each.unwrap_or(usual.parallel_each),
        ..usual
    };
    let verbose = options.common.verbose > 0;
    let tell = move |news: News<'_>| match news {
        // The end has the failures by reason.
        News::Ended(_) if !verbose => {}
        news => show::news(news, verbose),
    };
    let client = prepared.session.client.clone();
    let mesh = Mesh::new(settings, prepared.endpoints, prepared.plan, client, tell);
    let stop_at = StopAt {
        bytes: options.max_bytes,
        failures: options.max_failures,
    };
    let stress = Stress::new(mesh, load(options), stop_at);
    let ended_by = tokio::select! {
        () = stress.run() => None,
        () = stop.wait() => Some("interrupted"),
        () = wait(options.common.timeout) => Some("stopped by --timeout"),
    };
    let cleaning = stress.clean_up(ended_by.is_some());
    if tokio::time::timeout(CLEAN_UP_TIMEOUT, cleaning).await.is_err() {
        output::complain("clean-up timed out: the next run removes what is left of this one");
    }
    let mut results = stress.results();
    if let Some(why) = ended_by {
        results.ended_by = Some(why.to_owned());
    }
    if !options.common.json {
        show_links(&results);
    }
    explain_end(&stress);
    conclude(&options.results, &options.common, page, &results).await?;
    match ended_by {
        None => Ok(reporting::exit_code(&results)),
        Some(why) => Err(interrupted(why)),
    }
}

/// Prints each link with its rate and failures, and the sums.
fn show_links(results: &Run) {
    results.cells.iter().for_each(show_link);
    let sum = |count: fn(&Cell) -> u64| results.cells.iter().map(count).sum::<u64>();
    let (copies, failed) = (sum(|cell| cell.copies), sum(|cell| cell.copies_failed));
    let bytes = super::super::show::shown_size(Some(sum(|cell| cell.bytes)), true);
    output::line(&format!(
        "{}: {}, {failed} failed, {bytes} copied\n",
        results.title,
        output::counted(copies, "transfer")
    ));
}

/// Says why not all copies were begun.
fn explain_end(stress: &Stress<'_>) {
    if let Some(why) = stress.stopped_by() {
        output::complain(&format!("stopped before the time was over: {why}"));
    }
    let late = stress.late_copies();
    if late > 0 {
        output::complain(&format!(
            "{} not begun: the endpoints did not keep up with the rate, or had no room",
            output::counted(late, "transfer")
        ));
    }
}

/// Prints the rate of a link and its failures by reason.
fn show_link(cell: &Cell) {
    let link = show::of(&cell.link);
    match &cell.outcome {
        Outcome::Skipped { why } => return output::line(&format!("skipped {link}: {why}")),
        Outcome::NotApplicable { .. } => return,
        Outcome::Passed | Outcome::Failed(_) => {}
    }
    let rate = cell.rate_mbps().map_or_else(|| "- Mb/s".to_owned(), rate_with_unit);
    let (copies, failed) = (output::counted(cell.copies, "transfer"), cell.copies_failed);
    output::line(&format!("{rate:>14} {link}: {copies}, {failed} failed"));
    for known in &cell.failures {
        let failure = &known.failure;
        let (side, phase) = (failure.side.name(), failure.phase.name());
        output::line(&format!(
            "          {} times {side} {phase}: {} [{}]",
            known.count, failure.says, failure.code
        ));
    }
}
