//! The copy of one file, with its checks before and after.

use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use storage::local::discard_part;
use transfer::route::{Plan, Way};
use transfer::{Flow, Order, Progress, Streams, Verification};
use types::limits::CHOSEN_STREAMS_MAX;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use super::super::place::Place;
use super::super::report::Done;
use super::super::session::Info;
use super::super::traced::Begun;
use super::super::tree::Pair;
use super::decide::How;
use super::ways::{Copied, NotCompared};
use super::{Copier, ways};
use crate::command_line::{ChecksumMode, TransferOptions, Verify};

impl Copier {
    /// Copies a file.
    pub(super) async fn copy_file(&self, pair: &Pair, how: How) -> Result<()> {
        let progress = Progress::counted_in(&self.session.budget, Flow::Through);
        let traces = self.session.traces();
        let span = Begun::new(&traces, progress.span());
        let copied = self.copy_traced(pair, how, &progress, span.traceparent()).await;
        if !self.settings.transfer.dry_run {
            span.copied(&traces, [&pair.source, &pair.target], &progress, copied.as_ref().err());
        }
        copied
    }

    async fn copy_traced(&self, pair: &Pair, how: How, progress: &Progress, traceparent: String) -> Result<()> {
        let Pair {
            source, target, info, ..
        } = pair;
        let mut job = ways::FileCopy {
            session: &self.session,
            options: &self.settings.transfer,
            delegation: self.settings.delegation,
            report: &self.report,
            source,
            target,
            order: self.order(how, info),
            is_absent: how.is_absent,
            progress,
            traceparent,
        };
        let mut plan = ways::plan(&job).await?;
        self.warn_of_limit(&plan);
        if self.settings.transfer.dry_run {
            self.report.would("copy", source, target, Some(&plan));
            self.totals.add(|count| count.files += 1);
            return Ok(());
        }
        self.check_comparable(target)?;
        if let Some(parent) = target.parent().filter(|_| self.settings.parent && !pair.has_parent) {
            self.session.make_directory(&parent, true, Side::Destination).await?;
        }
        self.report
            .start(source, target, info.size_bytes, trace_of(&job.traceparent));
        if self.session.common.verbose > 0 {
            let words = format!("{source}: trace {}", trace_of(&job.traceparent));
            self.report.complain(&words);
        }
        let expected = self.sum_before(source).await?;
        if let Some(bytes) = info.size_bytes {
            progress.set_total(bytes);
        }
        job.order.expected.clone_from(&expected);
        let running = self.totals.begin(progress);
        let number = self.under_way.begin(pair, how.is_absent, progress);
        let copied = self.report.watch(progress, job.copy(&mut plan)).await;
        self.under_way.end(number);
        if copied.is_err() {
            self.report.tried(source, &plan);
        }
        if let (Err(error), Place::Local(path)) = (&copied, target)
            && matches!(error.code(), ErrorCode::ChecksumMismatch | ErrorCode::SourceChanged)
        {
            discard_part(path);
        }
        let copied = copied?;
        self.note_times(&copied, target);
        let verified = match self.sum_after(target, expected).await? {
            Some(sum) => Ok(sum),
            None => self.judge(&copied, source, target).await?,
        };
        running.done(copied.bytes);
        if let Err(why) = verified {
            self.note_unverified(target, why);
        }
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

    /// Fails where `--verify required` cannot be kept, before anything is copied.
    fn check_comparable(&self, target: &Place) -> Result<()> {
        let is_output = *target == Place::Stdio;
        let TransferOptions { verify, checksum, .. } = &self.settings.transfer;
        match is_output && checksum.is_none() && *verify == Some(Verify::Required) {
            true => Err(nothing_compared(NotCompared::Stdio.words())),
            false => Ok(()),
        }
    }

    /// What was compared, or why nothing was. With `--verify required`, two local files are read
    /// again.
    ///
    /// # Errors
    /// Something should have been compared: the user demands it, or both servers reported checksums
    /// of other files of the tree.
    async fn judge(
        &self,
        copied: &Copied,
        source: &Place,
        target: &Place,
    ) -> Result<std::result::Result<String, NotCompared>> {
        let is_required = self.settings.transfer.verify == Some(Verify::Required);
        match &copied.verified {
            Ok(sum) => {
                self.verified.note(source, target);
                Ok(Ok(sum.clone()))
            }
            Err(NotCompared::Local) if is_required => self.compare_local(source, target).await.map(Ok),
            Err(why) if is_required => Err(nothing_compared(why.words()).with_subject(target)),
            Err(why) if why.is_notable() && self.settings.expects_checksums && self.verified.knows(source, target) => {
                let words = format!(
                    "{}, but did for other files; --verify available accepts this",
                    why.words()
                );
                Err(nothing_compared(&words).with_subject(target))
            }
            Err(why) => Ok(Err(*why)),
        }
    }

    async fn compare_local(&self, source: &Place, target: &Place) -> Result<String> {
        let algorithm = ChecksumAlgorithm::Adler32;
        let ours = self.session.sum(source, algorithm, Side::Source).await?;
        let theirs = self.session.sum(target, algorithm, Side::Destination).await?;
        match ours == theirs {
            true => Ok(theirs.to_string()),
            false => Err(mismatch(&theirs, &ours).with_subject(target)),
        }
    }

    /// Counts a file for which no checksum was compared, and says so where a server is the reason.
    fn note_unverified(&self, target: &Place, why: NotCompared) {
        if why != NotCompared::NotAsked {
            self.totals.add(|count| count.unverified += 1);
        }
        if why.is_notable() && self.unverified.is_new(why) {
            self.report.unverified(target, why);
        }
    }

    /// Says once that a server has not kept the time of a file.
    fn note_times(&self, copied: &Copied, target: &Place) {
        let is_lost = self.settings.transfer.times && !copied.keeps_modified && matches!(target, Place::Remote(_));
        if is_lost && !self.has_told_times.swap(true, Ordering::Relaxed) {
            let words = format!("{target}: its server sets modification times itself; --times has no effect there");
            self.report.complain(&words);
        }
    }

    /// Says once that other servers know nothing of `--bwlimit`.
    fn warn_of_limit(&self, plan: &Plan) {
        let is_elsewhere = matches!(plan.way(), Way::Pull | Way::DelegatedPull | Way::Push | Way::Within);
        if is_elsewhere && self.settings.transfer.bwlimit.is_some() && !self.has_warned.swap(true, Ordering::Relaxed) {
            let words = "--bwlimit does not hold: the servers copy directly; with --mode stream it does";
            self.report.complain(words);
        }
    }

    fn order(&self, how: How, info: &Info) -> Order {
        let usual = Order::default();
        Order {
            overwrite: how.overwrite,
            modified: info
                .modified_s
                .filter(|_| self.settings.transfer.times)
                .and_then(|modified_s| {
                    let since = Duration::from_secs(u64::try_from(modified_s).ok()?);
                    UNIX_EPOCH.checked_add(since)
                }),
            rates: self
                .settings
                .transfer
                .bwlimit
                .map(|_| self.settings.rate.clone())
                .into_iter()
                .collect(),
            streams: self.streams(),
            verification: match self.settings.transfer.verify {
                Some(Verify::Required) => Verification::Required,
                Some(Verify::Available) | None => Verification::WhenAvailable,
                Some(Verify::Never) => Verification::Never,
            },
            ask_first: !self.settings.transfer.just_copy,
            // By default the grid's common checksum is computed while data moves, so that the file
            // need not be read again to compare it with the other side's.
            keep: match &self.settings.transfer.checksum {
                Some(wish) => vec![wish.algorithm],
                None => usual.keep.clone(),
            },
            create_parents: self.settings.parent,
            listed_bytes: info.size_bytes,
            ..usual
        }
    }

    /// A limited copy needs no second stream, and several would not share the limit.
    fn streams(&self) -> Streams {
        match self.settings.transfer.bwlimit {
            Some(_) => Streams::Fixed(1),
            None => Streams::asked(self.settings.transfer.nbstreams, u32::MAX, CHOSEN_STREAMS_MAX),
        }
    }

    /// With -K: returns the expected checksum, after checking that the source has it.
    async fn sum_before(&self, source: &Place) -> Result<Option<Checksum>> {
        let Some(wish) = &self.settings.transfer.checksum else {
            return Ok(None);
        };
        if *source == Place::Stdio || self.settings.transfer.checksum_mode == ChecksumMode::Target {
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
        let Some(wish) = &self.settings.transfer.checksum else {
            return Ok(None);
        };
        if *target == Place::Stdio || self.settings.transfer.checksum_mode == ChecksumMode::Source {
            return Ok(None);
        }
        let theirs = self.session.sum(target, wish.algorithm, Side::Destination).await?;
        match expected {
            Some(expected) if expected != theirs => Err(mismatch(&theirs, &expected).with_subject(target)),
            _ => Ok(Some(theirs.to_string())),
        }
    }
}

/// The identifier of the trace (W3C Trace Context §3.2.2.3).
fn trace_of(traceparent: &str) -> &str {
    traceparent.split('-').nth(1).unwrap_or_default()
}

fn mismatch(theirs: &Checksum, expected: &Checksum) -> Error {
    let error = Error::new(ErrorCode::ChecksumMismatch, Side::Destination, Phase::Checksum);
    error.with_detail(format!("it has {theirs}, expected is {expected}"))
}

/// A checksum was demanded, and there is none to compare.
fn nothing_compared(why: &str) -> Error {
    Error::new(ErrorCode::ChecksumUnavailable, Side::Destination, Phase::Checksum).with_detail(why)
}
