//! Reports of runs of the instruments: on the terminal, in files, by mail, and to a webhook.

mod files;
mod mail;
mod page;
mod webhook;

use std::path::Path;

use history::Run;
use reports::View;
use reports::text::{self, Terminal};

use crate::authorities::read_of_reports;
use crate::command_line::{ReportOnOptions, ReportOptions};
use crate::exit_code::SOME_FAILED;
use crate::failure::Failure;
use crate::input_file::InputFile;
use crate::limits::SECRET_BYTES_MAX;
use crate::output;
use crate::stored_runs::{self, Past};

pub(crate) use page::Page;

/// The exit code when nothing failed, but something was skipped.
const SOMETHING_SKIPPED: u8 = 2;
/// The exit code when a report could not be written or sent (EIO).
const NOT_DELIVERED: u8 = 5;
/// Columns where the terminal does not tell how many it has, or output is no terminal.
const USUAL_COLUMNS: usize = 120;
/// Fewer columns are not used.
const COLUMNS_MIN: usize = 40;

/// `crossload report`: reports on a run that was kept.
///
/// # Errors
/// An unreadable run; a report that cannot be written or sent.
pub(crate) fn run(options: &ReportOnOptions) -> Result<u8, Failure> {
    let runtime = execution::worker_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    runtime.block_on(async {
        webhook::place(&options.reports)?;
        files::refuse_overwriting(&options.reports, None, &[Some(&options.run)])?;
        read_of_reports(&options.reports.report_cacert)?;
        let run = files::read_run(&options.run)?;
        let page = Page::open(&options.reports, Some(options.run.clone())).await?;
        let told = tell(&run, &options.reports, options.json).await;
        if let Some(page) = page {
            page.show(&run);
            if let Err(failure) = &told {
                output::complain(&failure.words);
            }
            page.serve_until_interrupted().await?;
        }
        told.map(|()| exit_code(&run))
    })
}

/// The exit code of a run: 0 if all passed, 1 if something failed, 2 if something was skipped or
/// nothing was there to be tried.
pub(crate) fn exit_code(run: &Run) -> u8 {
    let tally = View::new(run).tally;
    let is_empty = tally.passed == 0 && run.figures.is_empty();
    match (tally.failed, tally.skipped) {
        (0, 0) if !is_empty => 0,
        (0, _) => SOMETHING_SKIPPED,
        _ => SOME_FAILED,
    }
}

/// Reports a run on standard output, as JSON or as a matrix, and everywhere that the options name.
/// What fails does not keep the rest from being done.
///
/// # Errors
/// The first of: a file that cannot be read or written, mails or a message that cannot be sent. The
/// others are printed.
pub(crate) async fn tell(run: &Run, options: &ReportOptions, as_json: bool) -> Result<(), Failure> {
    deliver(run, options, Printed::Run, as_json).await
}

/// What of a run is printed on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Printed {
    /// The run, as JSON or as a matrix.
    Run,
    /// How each endpoint stands: new problems first.
    Digest,
    /// Nothing: the instrument has printed what there is.
    Nothing,
}

/// As [`tell`], with another output.
///
/// # Errors
/// As [`tell`].
pub(crate) async fn deliver(
    run: &Run,
    options: &ReportOptions,
    printed: Printed,
    as_json: bool,
) -> Result<(), Failure> {
    let (mut past, unkept) = match past(run, options.history.as_deref()) {
        Ok(past) => (past, None),
        Err(failure) => (None, Some(not_delivered(failure.words))),
    };
    let earlier = past.as_mut().and_then(|past| past.earlier.take());
    let view = view(run, past);
    match (printed, as_json) {
        (Printed::Run, true) => {
            output::json_piece(&reports::json::write(run));
            output::write_out(b"\n");
        }
        (Printed::Run, false) => output::write_out(text::write(&view, terminal()).as_bytes()),
        (Printed::Digest, _) => {
            let before = earlier.as_ref().map(View::new);
            let digest = reports::digest::of_all(&view, before.as_ref());
            output::line(&format!("\n{}\n\n{}", digest.subject, digest.text));
        }
        (Printed::Nothing, _) => {}
    }
    let mut failures: Vec<Failure> = unkept.into_iter().collect();
    failures.extend(files::write(&view, options));
    failures.extend(mail::send(&view, earlier, options, as_json).await.err());
    failures.extend(webhook::post(&view, options).await.err());
    first_of(failures)
}

/// Tries everything to which a report will go, before an instrument spends its time. `inputs` are
/// files that it uses, where an option names them.
///
/// # Errors
/// The first of what cannot be used; the others are printed.
pub(crate) fn try_outputs(
    options: &ReportOptions,
    save: Option<&Path>,
    inputs: &[Option<&Path>],
) -> Result<(), Failure> {
    files::refuse_overwriting(options, save, inputs)?;
    read_of_reports(&options.report_cacert)?;
    let mut failures = files::try_all(options, save);
    failures.extend(mail::try_out(options).err());
    failures.extend(webhook::try_out(options).err());
    failures.extend(
        options
            .history
            .as_deref()
            .and_then(|file| stored_runs::try_out(file).err()),
    );
    first_of(failures)
}

/// Writes a run to a file, as JSON.
///
/// # Errors
/// It cannot be written.
pub(crate) fn save(run: &Run, file: &Path) -> Result<(), Failure> {
    files::save(run, file)
}

/// The first of some failures; the others are printed.
pub(crate) fn first_of(failures: Vec<Failure>) -> Result<(), Failure> {
    let mut failures = failures.into_iter();
    let first = failures.next();
    failures.for_each(|failure| output::complain(&failure.words));
    first.map_or(Ok(()), Err)
}

/// Keeps a run in a history, if there is one, and returns what that knows about it.
///
/// # Errors
/// The history cannot be used.
fn past(run: &Run, history: Option<&Path>) -> Result<Option<Past>, Failure> {
    history.map(|file| stored_runs::keep(run, file)).transpose()
}

/// A run in the order in which it is shown; with a history, faults have the times since when they
/// last, and links what they did before.
fn view(run: &Run, past: Option<Past>) -> View<'_> {
    let view = View::new(run);
    match past {
        Some(past) => view
            .with_faults(&past.faults)
            .with_trends(past.links)
            .with_scores(past.scores),
        None => view,
    }
}

/// What standard output can show.
fn terminal() -> Terminal {
    let out = std::io::stdout();
    let size = rustix::termios::tcgetwinsize(&out).ok();
    let columns = size.map_or(USUAL_COLUMNS, |size| usize::from(size.ws_col));
    Terminal {
        columns: if columns == 0 {
            USUAL_COLUMNS
        } else {
            columns.max(COLUMNS_MIN)
        },
        has_colour: output::has_colour(),
    }
}

/// A failure to write or send a report, in words.
fn not_delivered(words: impl Into<String>) -> Failure {
    Failure {
        words: words.into(),
        advice: None,
        code: None,
        exit_code: NOT_DELIVERED,
    }
}

/// A failure to send a result, whatever the failure is: the run itself is over.
pub(crate) fn undelivered(failure: Failure) -> Failure {
    Failure {
        exit_code: NOT_DELIVERED,
        ..failure
    }
}

/// The content of a small file, such as a token.
///
/// # Errors
/// It cannot be read.
fn secret(file: &InputFile) -> Result<types::Secret, Failure> {
    let text = file.read_text(SECRET_BYTES_MAX);
    let text = text.map_err(|cause| Failure::system(file.path().display(), &cause))?;
    Ok(types::Secret::new(text.as_str()))
}
