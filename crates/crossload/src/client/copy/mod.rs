//! `copy`: its arguments, and the copy file by file.

mod descent;
mod target;
mod ways;

use std::io::BufRead as _;
use std::time::{Duration, Instant};

use remote::Delegation;
use storage::Overwrite;
use storage::local::{Unfit, discard_part};
use transfer::{Flow, Order, Progress, Streams, Verification, refusal_or};
use types::limits::CHOSEN_STREAMS_MAX;
use types::{Checksum, Error, ErrorCode, Phase, Result, Side};

use super::place::Place;
use super::report::{Count, Done, Report};
use super::session::{ClientContext, Info};
use crate::command_line::{ChecksumMode, CopyOptions, Mode};
use crate::failure::Failure;
use crate::output;
use descent::{Item, Level};
use target::target_of;

/// Runs the command: copies the sources one after the other.
pub(crate) async fn run(session: &ClientContext, options: &CopyOptions) -> Result<u8, Failure> {
    let (sources, destination_text) = arguments(options)?;
    let destination = Place::parse(&destination_text)?;
    if options.mode == Mode::Stream && options.delegation() == Delegation::Only {
        return Err(Failure::invalid(
            "--delegate=only needs a server that makes the copy; use another --mode",
        ));
    }
    let payload_on_stdout = destination == Place::Stdio;
    let report = Report::new(options.common.json, options.common.verbose > 0, payload_on_stdout);
    let mut copier = Copier::new(session, options, &report);
    let found = session.look(&destination, Side::Destination).await;
    // A credential for writing may not allow stat.
    let is_directory = found.ok().flatten().is_some_and(|info| info.is_directory);
    let several = sources.len() > 1;
    if several && payload_on_stdout {
        return Err(Failure::invalid(
            "several sources cannot go to standard output; use cat",
        ));
    }
    let started = Instant::now();
    for text in &sources {
        let into = is_directory || several || destination_text.ends_with('/');
        let outcome = copier.copy_argument(text, &destination, into).await;
        if outcome.is_err() && options.abort_on_failure {
            break;
        }
    }
    copier.conclude(started.elapsed())
}

/// The sources and the destination.
fn arguments(options: &CopyOptions) -> Result<(Vec<String>, String), Failure> {
    let mut places = options.places.clone();
    let destination = places.pop().unwrap_or_default();
    if let Some(file) = &options.from_file {
        let failed = |cause: std::io::Error| Failure::system(file.display(), &cause);
        let lines: Vec<String> = if file.as_os_str() == "-" {
            std::io::stdin()
                .lock()
                .lines()
                .collect::<std::io::Result<_>>()
                .map_err(failed)?
        } else {
            std::fs::read_to_string(file)
                .map_err(failed)?
                .lines()
                .map(str::to_owned)
                .collect()
        };
        let wanted = lines
            .iter()
            .map(|line| line.trim())
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        places.extend(wanted.map(str::to_owned));
    }
    if places.is_empty() {
        return Err(Failure::invalid("give a source and a destination"));
    }
    Ok((places, destination))
}

/// One run of the command.
struct Copier<'a> {
    session: &'a ClientContext,
    options: &'a CopyOptions,
    report: &'a Report,
    count: Count,
    last_error: Option<Error>,
}

impl<'a> Copier<'a> {
    fn new(session: &'a ClientContext, options: &'a CopyOptions, report: &'a Report) -> Self {
        Self {
            session,
            options,
            report,
            count: Count::default(),
            last_error: None,
        }
    }

    /// Counts and prints a failure.
    fn fail(&mut self, source: &str, error: Error) -> Error {
        self.count.failed += 1;
        self.last_error = Some(error.clone());
        self.report.failed(source, &error);
        error
    }

    /// Reports an entry that is not copied.
    fn leave_out(&mut self, source: &str, why: Unfit) {
        self.count.left_out += 1;
        self.report.left_out(source, why);
    }

    /// The exit code: that of the error for a single file; 1 if some of several files failed or
    /// were left out.
    fn conclude(self, elapsed: Duration) -> Result<u8, Failure> {
        self.report.summary(&self.count, elapsed);
        let Count {
            files,
            failed,
            left_out,
            ..
        } = self.count;
        match self.last_error {
            None if left_out == 0 => Ok(0),
            None => Ok(1),
            Some(error) if files + failed + left_out == 1 => {
                self.session.explain_denial(error.code());
                Ok(error.code().exit_code())
            }
            Some(_) => {
                output::complain(&format!("{failed} of {} files failed", files + failed));
                Ok(1)
            }
        }
    }

    /// Copies an argument with everything below it.
    async fn copy_argument(&mut self, text: &str, destination: &Place, into: bool) -> Result<()> {
        let begun = async {
            let source = Place::parse(text)?;
            let may_be_read = |refusal: &Error| {
                let client = &self.session.client;
                matches!(&source, Place::Remote(location) if client.abilities(location).may_read_after(refusal))
            };
            let (info, refused) = match self.session.stat(&source, Side::Source).await {
                // The server may allow only GET. The copy will show.
                Err(error) if may_be_read(&error) => (Info::default(), Some(error)),
                info => (info?, None),
            };
            let target = target_of(&source, destination, into)?;
            if info.is_directory && !self.options.recursive {
                return Err(Error::new(ErrorCode::IsDirectory, Side::Source, Phase::Open).with_subject(&source));
            }
            if let Some(why) = info.unfit {
                let code = match why {
                    // Links were resolved before, so this one is dangling.
                    Unfit::Link => ErrorCode::NotFound,
                    _ => ErrorCode::PathRefused,
                };
                let error = Error::new(code, Side::Source, Phase::Open).with_subject(&source);
                return Err(error.with_detail(why.words()));
            }
            Ok((source, target, info, refused))
        };
        let (source, target, info, mut refused) = match begun.await {
            Ok(begun) => begun,
            Err(error) => return Err(self.fail(text, error)),
        };
        let mut result = Ok(());
        let mut pending = vec![Item::first(source, target, info)];
        while let Some(item) = pending.pop() {
            let failed = self.count.failed;
            let outcome = if item.info.is_directory {
                self.enter_directory(&item).await.map(|entries| pending.extend(entries))
            } else {
                self.copy_file(&item.source, &item.target, &item.info).await
            };
            if let Err(error) = outcome {
                let error = refusal_or(refused.take(), error);
                result = Err(self.fail(&item.source.to_string(), error));
            }
            if self.options.abort_on_failure && self.count.failed > failed {
                break;
            }
        }
        result
    }

    /// Makes the directory at the destination; returns the entries of the source that can be
    /// copied.
    async fn enter_directory(&mut self, item: &Item) -> Result<Vec<Item>> {
        let (source, target) = (&item.source, &item.target);
        let entries = self.session.list(source, Side::Source).await?;
        // Local links are never followed, so only a server can show a loop.
        let level = match source {
            Place::Remote(_) => Level::below(item.level.as_ref(), &entries),
            _ => Some(Level::top()),
        };
        let Some(level) = level else {
            self.leave_out(&source.to_string(), Unfit::Loop);
            return Ok(Vec::new());
        };
        if self.options.dry_run {
            self.report.would("make directory", source, target, None);
        } else {
            self.session.make_directory(target, true, Side::Destination).await?;
        }
        let mut items = Vec::with_capacity(entries.len());
        for entry in entries {
            let shown = match entry.unfit {
                Some(Unfit::Unlisted) => source.to_string(),
                _ => format!("{}/{}", source.to_string().trim_end_matches('/'), entry.name),
            };
            if let Some(why) = entry.unfit {
                self.leave_out(&shown, why);
                continue;
            }
            match (source.child(&entry.name), target.child(&entry.name)) {
                (Ok(from), Ok(to)) => items.push(Item::below(&level, from, to, entry)),
                (Err(error), _) | (_, Err(error)) => drop(self.fail(&shown, error)),
            }
        }
        // Items are taken from the end.
        items.reverse();
        Ok(items)
    }

    async fn copy_file(&mut self, source: &Place, target: &Place, info: &Info) -> Result<()> {
        let is_absent = !self.options.force && self.refuse_existing(target).await?;
        let progress = Progress::counted_in(&self.session.budget, Flow::Through);
        let mut job = ways::FileCopy {
            session: self.session,
            options: self.options,
            report: self.report,
            source,
            target,
            order: self.order(None),
            is_absent,
            progress: &progress,
        };
        let mut plan = ways::plan(&job).await?;
        if self.options.dry_run {
            self.report.would("copy", source, target, Some(&plan));
            self.count.files += 1;
            return Ok(());
        }
        if let Some(parent) = target.parent().filter(|_| self.options.parent) {
            self.session.make_directory(&parent, true, Side::Destination).await?;
        }
        self.report.start(source, target, info.size_bytes);
        let expected = self.sum_before(source).await?;
        if let Some(bytes) = info.size_bytes {
            progress.set_total(bytes);
        }
        job.order.expected.clone_from(&expected);
        let copied = self.report.watch(&progress, job.copy(&mut plan)).await;
        if copied.is_err() {
            self.report.tried(source, &plan);
        }
        if let (Err(error), Place::Local(path)) = (&copied, target)
            && matches!(error.code(), ErrorCode::ChecksumMismatch | ErrorCode::SourceChanged)
        {
            discard_part(path);
        }
        let copied = copied?;
        let verified = self.sum_after(target, expected).await?.or(copied.verified);
        self.count.files += 1;
        self.count.bytes += copied.bytes;
        self.report.done(&Done {
            source,
            destination: target,
            bytes: copied.bytes,
            elapsed: progress.elapsed(),
            way: copied.way,
            verified,
        });
        Ok(())
    }

    /// Whether the destination says that there is no such file.
    async fn refuse_existing(&self, target: &Place) -> Result<bool> {
        let found = match self.session.look(target, Side::Destination).await {
            // If the server does not allow stat, it will refuse the copy itself if necessary.
            Err(error) if error.peer_status().is_some() => return Ok(false),
            other => other?,
        };
        match found.filter(|_| *target != Place::Stdio) {
            Some(_) => Err(Error::new(ErrorCode::Exists, Side::Destination, Phase::Open).with_subject(target)),
            None => Ok(true),
        }
    }

    fn order(&self, expected: Option<Checksum>) -> Order {
        let usual = Order::default();
        Order {
            overwrite: if self.options.force {
                Overwrite::Allow
            } else {
                Overwrite::Refuse
            },
            streams: Streams::asked(self.options.nbstreams, u32::MAX, CHOSEN_STREAMS_MAX),
            verification: Verification::WhenAvailable,
            // By default the grid's common checksum is computed while data moves, so that the file
            // need not be read again to compare it with the other side's.
            keep: match &self.options.checksum {
                Some(wish) => vec![wish.algorithm],
                None => usual.keep.clone(),
            },
            expected,
            create_parents: self.options.parent,
            ..usual
        }
    }

    /// With -K: returns the expected checksum, after checking that the source has it.
    async fn sum_before(&self, source: &Place) -> Result<Option<Checksum>> {
        let Some(wish) = &self.options.checksum else {
            return Ok(None);
        };
        if *source == Place::Stdio || self.options.checksum_mode == ChecksumMode::Target {
            return Ok(wish.value.clone());
        }
        let theirs = self.session.sum(source, wish.algorithm, Side::Source).await?;
        match &wish.value {
            Some(value) if *value != theirs => {
                let error = Error::new(ErrorCode::ChecksumPrecondition, Side::Source, Phase::Checksum);
                Err(error
                    .with_detail(format!("it has {theirs}, expected is {value}"))
                    .with_subject(source))
            }
            _ => Ok(Some(theirs)),
        }
    }

    /// With -K: checks that the destination has the expected checksum.
    async fn sum_after(&self, target: &Place, expected: Option<Checksum>) -> Result<Option<String>> {
        let Some(wish) = &self.options.checksum else {
            return Ok(None);
        };
        if *target == Place::Stdio || self.options.checksum_mode == ChecksumMode::Source {
            return Ok(None);
        }
        let theirs = self.session.sum(target, wish.algorithm, Side::Destination).await?;
        match expected {
            Some(expected) if expected != theirs => {
                let error = Error::new(ErrorCode::ChecksumMismatch, Side::Destination, Phase::Checksum);
                Err(error
                    .with_detail(format!("it has {theirs}, expected is {expected}"))
                    .with_subject(target))
            }
            _ => Ok(Some(theirs.to_string())),
        }
    }
}
