//! `copy`: finds the files that its arguments name, and copies several of them at a time.

mod arguments;
mod beginning;
mod decide;
mod file;
mod late_end;
mod link;
mod stopped;
mod sync;
mod target;
mod verified;
mod ways;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use remote::Delegation;
use storage::local::Unfit;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};
use transfer::{FileSlot, FileSlots, RateLimit};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::place::{Place, without_query};
use super::report::{Listener, Report};
use super::session::{ClientContext, Info};
use super::show::counted;
use super::totals::{Count, ExpectedListing, Totals};
use super::tree::{Directory, Found, Pair, Selection, There, Walk, spool_failed};
use crate::command_line::{Common, CopyOptions, Links, Mode, SelectOptions, TransferOptions};
use crate::exit_code::ExitCodes;
use crate::failure::{Failure, exit_code};
use crate::limits::{FOUND_QUEUED_MAX, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN};
use crate::{next_step, output};
use arguments::{Arguments, Named};
use decide::{Decision, IfExists};
use stopped::CopiesUnderWay;
use sync::Doomed;
use target::{Destination, target_of};
use verified::{ServersWithChecksums, Told};

pub(crate) use decide::Reason;
pub(crate) use sync::run as sync;
pub(crate) use ways::NotCompared;

/// Runs the command, until it is stopped for the reason that `stop` returns. Its events in JSON go
/// to the listener, if there is one.
pub(crate) async fn run(
    session: &Arc<ClientContext>,
    options: &CopyOptions,
    listener: Option<&Listener>,
    stop: impl Future<Output = Failure>,
) -> Result<u8, Failure> {
    tokio::pin!(stop);
    let (copier, arguments, destination) = tokio::select! {
        prepared = prepare(session, options, listener) => prepared?,
        reason = &mut stop => return Err(reason),
    };
    tokio::select! {
        copied = copier.copy_all(arguments, destination) => copied?,
        reason = &mut stop => return Err(copier.stop(reason).await),
    }
    copier.conclude()
}

async fn prepare(
    session: &Arc<ClientContext>,
    options: &CopyOptions,
    listener: Option<&Listener>,
) -> Result<(Arc<Copier>, Arguments, Option<Destination>), Failure> {
    let arguments = Arguments::read(options).await?;
    let several = arguments.may_be_several();
    let is_batch = several || options.recursive;
    let settings = Settings::of(options, is_batch)?;
    let destination = match &arguments.destination {
        None => None,
        Some(text) => Some(Destination::look(session, text, several).await?),
    };
    let is_stream = destination.as_ref().is_some_and(Destination::is_stdio);
    if several && is_stream {
        return Err(Failure::invalid(
            "several sources cannot go to standard output; use cat",
        ));
    }
    let payload_on_stdout = is_stream && !options.transfer.discards;
    let report = Report::new(&options.common, options.transfer.quiet, payload_on_stdout, is_batch);
    let report = report.heard_by(listener);
    Ok((Copier::new(session, settings, report), arguments, destination))
}

/// How often a file of several is copied again, if the user does not say.
const RETRIES_OF_MANY: u32 = 2;

/// What is asked for.
struct Settings {
    transfer: TransferOptions,
    delegation: Delegation,
    recursive: bool,
    if_exists: IfExists,
    selection: Selection,
    links: Links,
    /// Names that only the destination has are collected, to be deleted.
    deletes: bool,
    parent: bool,
    checkers: usize,
    /// How often a file is copied again.
    retries: u32,
    rate: RateLimit,
    /// Between servers that reported checksums of other files, a file without one fails.
    expects_checksums: bool,
}

impl Settings {
    fn of(options: &CopyOptions, is_batch: bool) -> Result<Self, Failure> {
        Ok(Self {
            recursive: options.recursive,
            parent: options.parent,
            expects_checksums: options.recursive && options.transfer.verify.is_none(),
            retries: options
                .transfer
                .retries
                .unwrap_or(if is_batch { RETRIES_OF_MANY } else { 0 }),
            ..Self::new(
                &options.transfer,
                &options.select,
                &options.common,
                IfExists::of(options, is_batch),
            )?
        })
    }

    /// Those of a tree.
    fn new(
        transfer: &TransferOptions,
        select: &SelectOptions,
        common: &Common,
        if_exists: IfExists,
    ) -> Result<Self, Failure> {
        let delegation = transfer.delegation(common.access.insecure);
        if transfer.mode == Mode::Stream && delegation == Delegation::Only {
            return Err(Failure::invalid(
                "--delegate=only needs a server that makes the copy; use another --mode",
            ));
        }
        Ok(Self {
            transfer: transfer.clone(),
            delegation,
            recursive: true,
            if_exists,
            selection: Selection::of(select)?,
            links: select.links,
            parent: false,
            deletes: false,
            checkers: select.checkers as usize,
            retries: transfer.retries.unwrap_or(RETRIES_OF_MANY),
            rate: RateLimit::new(transfer.bwlimit),
            expects_checksums: transfer.verify.is_none(),
        })
    }
}

/// One run of the command.
struct Copier {
    session: Arc<ClientContext>,
    settings: Settings,
    report: Report,
    totals: Totals,
    under_way: CopiesUnderWay,
    doomed: Doomed,
    slots: FileSlots,
    last_error: Mutex<Option<Error>>,
    /// No further file is begun.
    is_stopped: AtomicBool,
    stopping: Notify,
    /// The user has read that `--bwlimit` does not hold.
    has_warned: AtomicBool,
    /// The user knows that a server sets times itself.
    has_told_times: AtomicBool,
    verified: ServersWithChecksums,
    unverified: Told,
}

impl Copier {
    fn new(session: &Arc<ClientContext>, settings: Settings, report: Report) -> Arc<Self> {
        let slots = match settings.transfer.transfers {
            Some(count) => FileSlots::fixed(count as usize),
            None => FileSlots::chosen(&session.budget),
        };
        Arc::new(Self {
            session: Arc::clone(session),
            settings,
            report,
            totals: Totals::default(),
            under_way: CopiesUnderWay::default(),
            doomed: Doomed::default(),
            slots,
            last_error: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            stopping: Notify::new(),
            has_warned: AtomicBool::new(false),
            has_told_times: AtomicBool::new(false),
            verified: ServersWithChecksums::default(),
            unverified: Told::default(),
        })
    }

    fn last_error(&self) -> MutexGuard<'_, Option<Error>> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts and prints a failure.
    fn fail(&self, source: &str, error: Error) {
        self.totals.add(|count| count.failed += 1);
        self.report.failed(source, &error);
        *self.last_error() = Some(error);
        if self.settings.transfer.abort_on_failure {
            self.is_stopped.store(true, Ordering::Relaxed);
            self.stopping.notify_one();
        }
    }

    /// Reports an entry that is not copied.
    fn leave_out(&self, source: &str, why: Unfit) {
        self.totals.add(|count| count.left_out += 1);
        self.report.left_out(source, why);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Prints the totals.
    fn summarize(&self) -> Count {
        let end = self.totals.snapshot();
        // For a copy, files without a checksum to compare are other files, which exist.
        let option = match self.settings.if_exists {
            IfExists::SkipEqual => "--force",
            _ => "--compare checksum",
        };
        self.report.skipped_unverified(end.count.skipped_unverified, option);
        self.report.summary(&end, self.settings.transfer.dry_run);
        end.count
    }

    /// The exit code: that of the error for a single file; 1 if some of several files failed or
    /// were left out.
    fn conclude(&self) -> Result<u8, Failure> {
        let count = self.summarize();
        match self.last_error().take() {
            None if count.left_out == 0 => Ok(0),
            None => Ok(1),
            Some(error) if count.files + count.failed + count.skipped + count.left_out == 1 => {
                if !next_step::is_local(&error) {
                    self.session.explain_denial(error.code());
                }
                Ok(exit_code(&error))
            }
            Some(error) => {
                let (failed, all) = (count.failed, count.files + count.failed + count.skipped);
                output::complain(&format!("{failed} of {} failed", counted(all, "file", "files")));
                Ok(ExitCodes::chosen().of_several(exit_code(&error)))
            }
        }
    }

    /// Finds and copies the files, and shows how far that is.
    async fn copy_all(self: &Arc<Self>, arguments: Arguments, destination: Option<Destination>) -> Result<(), Failure> {
        let (found, files) = mpsc::channel(FOUND_QUEUED_MAX);
        let finding = async {
            let read = self.find_all(arguments, destination.as_ref(), found).await;
            self.totals.end_search();
            read
        };
        let working = async {
            let copying = self.copy_found(files);
            tokio::pin!(finding, copying);
            tokio::select! {
                read = &mut finding => {
                    copying.await;
                    read
                }
                // After an abort, further sources do not matter.
                () = &mut copying => match self.is_stopped() {
                    true => Ok(()),
                    false => finding.await,
                },
            }
        };
        self.report
            .watch_all(&self.totals, beside(working, self.slots.grow()))
            .await
    }

    /// Finds the files of all arguments.
    async fn find_all(
        &self,
        mut arguments: Arguments,
        destination: Option<&Destination>,
        found: mpsc::Sender<Found>,
    ) -> Result<(), Failure> {
        let checkers = self.settings.checkers;
        let listings = Semaphore::new(checkers);
        let walk = Walk {
            session: &self.session,
            listings: &listings,
            listings_max: checkers,
            retries: self.settings.retries,
            selection: &self.settings.selection,
            links: self.settings.links,
            makes_directories: !self.settings.transfer.dry_run,
            looks: self.settings.if_exists != IfExists::Replace,
            finds_extras: self.settings.deletes,
            totals: Some(&self.totals),
            found,
        };
        let walk = &walk;
        let (named, names) = mpsc::channel::<Named>(1);
        let reading = async move {
            let _arguments = self.totals.listing();
            while let Some(next) = arguments.next().await? {
                self.totals.expect_listings(1);
                if self.is_stopped() || named.send(next).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        let names = futures_util::stream::unfold(names, |mut names| async { Some((names.recv().await?, names)) });
        let at_once = match self.settings.transfer.abort_on_failure {
            true => 1,
            false => checkers,
        };
        let finding = names.for_each_concurrent(at_once, |named| async move {
            let listing = self.totals.listing();
            if let Err(error) = self.find(walk, &named, destination, listing).await {
                let source = without_query(&named.source).to_owned();
                let _ = walk.found.send(Found::Failed { source, error }).await;
            }
        });
        tokio::join!(reading, finding).0
    }

    /// Finds the file that an argument names, or all files of its tree.
    async fn find(
        &self,
        walk: &Walk<'_>,
        named: &Named,
        default: Option<&Destination>,
        listing: ExpectedListing<'_>,
    ) -> Result<()> {
        let source = self.session.place(&named.source).await?;
        let may_be_read = |refusal: &Error| {
            let client = &self.session.client;
            matches!(&source, Place::Remote(location) if client.abilities(location).may_read_after(refusal))
        };
        // The question would be a request for its first byte, which the copy makes too.
        let is_one_file = matches!(&source, Place::Remote(location)
            if self.session.client.abilities(location).allows_one_method && location.signature().is_some());
        let is_unneeded = matches!(self.settings.if_exists, IfExists::Refuse | IfExists::Replace);
        let stat = async {
            match is_one_file && is_unneeded {
                true => Ok(Info::default()),
                false => self.session.stat(&source, Side::Source).await,
            }
        };
        let (info, refusal) = match stat.await {
            // The server may allow only GET. The copy will show.
            Err(error) if may_be_read(&error) => (Info::default(), Some(error)),
            info => (info?, None),
        };
        let own = match &named.destination {
            Some(text) => Some(Destination::named(&self.session, text).await?),
            None => None,
        };
        let default = own.as_ref().or(default);
        let target = target_of(&named.source, &source, info.is_directory, default)?;
        if info.is_directory && !self.settings.recursive {
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
        if info.is_directory {
            self.refuse_overlap(&source, &target)?;
            // That of its top.
            self.totals.expect_listings(1);
            drop(listing);
            walk.run(Directory::top(source, target)).await;
            return Ok(());
        }
        let pair = Pair {
            source,
            link: None,
            target,
            info,
            there: There::Unknown,
            has_parent: false,
            refusal,
        };
        self.totals.count_found(pair.info.size_bytes);
        drop(listing);
        let _ = walk.found.send(Found::File(Box::new(pair))).await;
        Ok(())
    }

    /// Refuses to copy a tree into itself, which would have no end, and to delete the source of a
    /// tree as something that only the destination has. Excluded directories are safe from both.
    fn refuse_overlap(&self, source: &Place, target: &Place) -> Result<()> {
        let enters = |names: Vec<String>| !names.is_empty() && self.settings.selection.enters(&names);
        let words = if source.names_to(target).is_some_and(enters) {
            "the destination is in the source; use another one, or exclude it"
        } else if self.settings.deletes && target.names_to(source).is_some_and(enters) {
            "the source is in the destination, and --delete would delete it; exclude it"
        } else {
            return Ok(());
        };
        let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open);
        Err(error.with_detail(words).with_subject(target))
    }

    /// Copies what is found, as many files at a time as there are slots.
    async fn copy_found(self: &Arc<Self>, found: mpsc::Receiver<Found>) {
        let running = Mutex::new(JoinSet::new());
        let found = futures_util::stream::unfold(found, |mut found| async {
            tokio::select! {
                next = found.recv() => Some((next?, found)),
                () = self.stopping.notified() => None,
            }
        });
        let copying = found.for_each_concurrent(self.settings.checkers, |next| self.take(next, &running));
        copying.await;
        let mut running = running.into_inner().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = running.join_next().await {
            self.note_end(ended);
        }
    }

    async fn take(self: &Arc<Self>, found: Found, running: &Mutex<JoinSet<()>>) {
        if self.is_stopped() {
            return;
        }
        match found {
            Found::File(pair) => self.take_file(pair, running).await,
            Found::Directory(directory) => {
                let (source, target) = (&directory.source, &directory.target);
                self.report.would("make directory", source, target, None);
            }
            Found::Link { source, target } => self.copy_link(&source, &target).await,
            Found::Extra { path, info, .. } => {
                if let Err(cause) = self.doomed.add(path, info.is_directory) {
                    self.fail("the list of names to delete", spool_failed(&cause));
                }
            }
            Found::LeftOut { source, why } => {
                if matches!(why, Unfit::Unlisted | Unfit::Loop) {
                    self.doomed.pardon(&source);
                }
                self.leave_out(&source, why);
            }
            Found::Failed { source, error } => {
                self.doomed.pardon(&source);
                self.fail(&source, error);
            }
        }
    }

    /// Skips a file, or begins to copy it as soon as a slot is free.
    async fn take_file(self: &Arc<Self>, mut pair: Box<Pair>, running: &Mutex<JoinSet<()>>) {
        let decided = self.decide(&mut pair).await;
        match decided {
            Ok(Decision::Skip(why)) => return self.skip(&pair, why, false),
            Err(error) if !self.may_pass(&error, 0) => return self.fail_pair(*pair, error, false),
            Ok(Decision::Copy(_)) | Err(_) => self.totals.choose(pair.info.size_bytes),
        }
        let slot = self.slots.next().await;
        if self.is_stopped() {
            return;
        }
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = running.try_join_next() {
            self.note_end(ended);
        }
        running.spawn(Arc::clone(self).copy_one(pair, decided, slot));
    }

    /// `is_chosen`: it was to be copied.
    fn skip(&self, pair: &Pair, why: Reason, is_chosen: bool) {
        self.totals.skip(pair.info.size_bytes, is_chosen);
        self.totals
            .add(|count| count.skipped_unverified += u64::from(why.is_unverified()));
        self.report.skipped(&pair.source, &pair.target, why);
    }

    /// A file whose task has crashed is not passed over in silence.
    fn note_end(&self, ended: std::result::Result<(), JoinError>) {
        if let Err(cause) = ended {
            let error = Error::new(ErrorCode::Internal, Side::Client, Phase::Transfer);
            self.fail("a file", error.with_private(cause));
        }
    }

    /// Copies a file, again if it fails in a way that may pass.
    async fn copy_one(self: Arc<Self>, mut pair: Box<Pair>, mut decided: Result<Decision>, slot: FileSlot) {
        let mut pause = RETRY_PAUSE_MIN;
        let mut retries = 0;
        loop {
            let copied = match decided {
                Ok(Decision::Copy(how)) => self.copy_file(&pair, how).await,
                Ok(Decision::Skip(why)) => return self.skip(&pair, why, true),
                Err(error) => Err(error),
            };
            let error = match copied {
                Ok(()) => return slot.done(),
                Err(error) if self.may_pass(&error, retries) => error,
                Err(error) => return self.fail_pair(*pair, error, true),
            };
            let wait = error.retry_after().unwrap_or_default().clamp(pause, RETRY_PAUSE_MAX);
            self.report.retried(&pair.source, &error, wait);
            tokio::time::sleep(wait).await;
            (pause, retries) = ((pause * 2).min(RETRY_PAUSE_MAX), retries + 1);
            // The attempt may have succeeded without our knowledge.
            pair.there = There::Unknown;
            decided = self.decide(&mut pair).await;
        }
    }

    /// Whether the file is copied again after this failure, and so many retries.
    fn may_pass(&self, error: &Error, retries: u32) -> bool {
        error.retry() && retries < self.settings.retries && !self.is_stopped()
    }

    fn fail_pair(&self, pair: Pair, error: Error, is_chosen: bool) {
        self.totals.forget_failed(pair.info.size_bytes, is_chosen);
        let error = transfer::refusal_or(pair.refusal, error);
        self.fail(&pair.source.to_string(), error);
    }
}

/// Runs `work`, and beside it something that has no end.
async fn beside<T>(work: impl Future<Output = T>, endless: impl Future<Output = ()>) -> T {
    tokio::pin!(work, endless);
    tokio::select! {
        done = &mut work => done,
        () = &mut endless => work.await,
    }
}
