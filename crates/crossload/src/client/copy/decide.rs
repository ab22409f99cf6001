//! Whether a file is copied: what is at the destination, and what the user wants then.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use storage::Overwrite;
use types::{Error, ErrorCode, Phase, Result, Side, binary_size};

use super::super::compare_files::{self, Compared, Known};
use super::super::place::Place;
use super::super::session::Info;
use super::super::tree::{Pair, There};
use super::Copier;
use super::beginning::{self, Beginning};
use crate::command_line::{CompareBy, CopyOptions, TransferOptions, Verify};
use crate::limits::BEGINNING_BYTES_MAX;

/// What happens with a file that exists at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfExists {
    /// It is an error.
    Refuse,
    /// An equal file is skipped; another one is an error.
    SkipEqual,
    /// It is skipped.
    Skip,
    /// It is skipped, unless it is older.
    Update,
    /// An equal file is skipped, another one is replaced.
    ReplaceOther,
    /// It is replaced.
    Replace,
}

impl IfExists {
    /// What the options say; `is_batch`: there may be several files.
    pub(super) fn of(options: &CopyOptions, is_batch: bool) -> Self {
        match options {
            _ if options.force => Self::Replace,
            _ if options.ignore_existing => Self::Skip,
            _ if options.update => Self::Update,
            _ if is_batch => Self::SkipEqual,
            _ => Self::Refuse,
        }
    }
}

/// Why a newer file is no success of `--update`: an earlier copy that failed may have left it.
const NEWER_AND_OTHER: &str = "it is newer and as long as the source, and has another checksum; -f replaces it";

/// What is done with a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decision {
    Copy(How),
    Skip(Reason),
}

/// How a file is copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) overwrite: Overwrite,
    /// The destination has just reported that it has no such file.
    pub(super) is_absent: bool,
}

/// Why a file is skipped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reason {
    Exists,
    Newer,
    Equal(Compared),
}

impl Reason {
    /// The name in reports for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exists => "exists",
            Self::Newer => "newer",
            Self::Equal(compared) => compared.name(),
        }
    }

    /// Whether size and time alone decided, since no checksum could be compared.
    pub(super) fn is_unverified(self) -> bool {
        matches!(self, Self::Equal(Compared::NotOlderUnverified))
    }

    /// The text for users.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Exists => "it exists",
            Self::Newer => "it is newer than the source",
            Self::Equal(compared) => compared.words(),
        }
    }
}

impl Copier {
    /// Decides about a file.
    ///
    /// # Errors
    /// The file exists and must not be replaced; its checksum cannot be computed.
    pub(super) async fn decide(&self, pair: &mut Pair) -> Result<Decision> {
        let replace = Decision::Copy(How {
            overwrite: Overwrite::Allow,
            is_absent: false,
        });
        if self.settings.if_exists == IfExists::Replace || pair.target == Place::Stdio {
            return Ok(replace);
        }
        let mut is_absent = false;
        if self.must_ask(pair) {
            match self.session.look(&pair.target, Side::Destination).await {
                Ok(found) => {
                    is_absent = found.is_none();
                    pair.there = found.map_or(There::Nothing, There::Entry);
                }
                // If the server does not allow stat, it will refuse the copy itself if necessary.
                Err(error) if error.peer_status().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        let There::Entry(there) = &pair.there else {
            return Ok(Decision::Copy(How {
                overwrite: Overwrite::Refuse,
                is_absent,
            }));
        };
        let if_exists = self.settings.if_exists;
        if there.is_unclosed && if_exists != IfExists::Refuse {
            // It is what an interrupted upload left, and no file: its server removes it later. One
            // that another client is writing is locked, and the server refuses to replace it.
            return Ok(replace);
        }
        if there.is_directory && !matches!(if_exists, IfExists::Skip | IfExists::Refuse) {
            return Err(exists(pair).with_detail("it is a directory"));
        }
        match if_exists {
            IfExists::Replace => Ok(replace),
            IfExists::Skip => Ok(Decision::Skip(Reason::Exists)),
            IfExists::Refuse => Err(exists(pair)),
            IfExists::Update => match (pair.info.modified_s, there.modified_s) {
                // What an interrupted or damaged copy left is newer than its source, too.
                (Some(here), Some(modified_s)) if modified_s > here => match self.compare(pair, there).await? {
                    Compared::OtherSize => match self.beginning(pair, there).await? {
                        Beginning::Yes => Ok(replace),
                        Beginning::No => Ok(Decision::Skip(Reason::Newer)),
                        Beginning::Perhaps => Err(too_long(pair)),
                    },
                    Compared::OtherChecksum => Err(exists(pair).with_detail(NEWER_AND_OTHER)),
                    compared if compared.is_equal() => Ok(Decision::Skip(Reason::Equal(compared))),
                    _ => Ok(Decision::Skip(Reason::Newer)),
                },
                _ => Ok(self.skip_equal(pair, there).await?.map_or(replace, Decision::Skip)),
            },
            IfExists::ReplaceOther => Ok(self.skip_equal(pair, there).await?.map_or(replace, Decision::Skip)),
            IfExists::SkipEqual => match self.compare(pair, there).await? {
                compared if compared.is_equal() => Ok(Decision::Skip(Reason::Equal(compared))),
                Compared::OtherSize => match self.beginning(pair, there).await? {
                    Beginning::Yes => Ok(replace),
                    Beginning::No => Err(exists(pair).with_detail(Compared::OtherSize.words())),
                    Beginning::Perhaps => Err(too_long(pair)),
                },
                compared => Err(exists(pair).with_detail(compared.words())),
            },
        }
    }

    /// Boxed: within the future of a copy it makes the compiler's checks take minutes.
    fn beginning<'a>(&'a self, pair: &'a Pair, there: &'a Info) -> BoxFuture<'a, Result<Beginning>> {
        beginning::compare(&self.session, pair, there, &self.settings.rate).boxed()
    }

    /// The destination of a copy between servers is asked right before, since that is evidence for
    /// what a failed copy left there. The engine asks other destinations itself.
    fn must_ask(&self, pair: &Pair) -> bool {
        let client = &self.session.client;
        if matches!(&pair.target, Place::Remote(target) if client.abilities(target).allows_one_method) {
            return false;
        }
        match &pair.there {
            There::Unknown => true,
            There::Nothing => matches!((&pair.source, &pair.target), (Place::Remote(_), Place::Remote(_))),
            There::Entry(_) => false,
        }
    }

    async fn skip_equal(&self, pair: &Pair, there: &Info) -> Result<Option<Reason>> {
        let compared = self.compare(pair, there).await?;
        Ok(compared.is_equal().then_some(Reason::Equal(compared)))
    }

    async fn compare(&self, pair: &Pair, there: &Info) -> Result<Compared> {
        if there.unfit.is_some() {
            return Ok(Compared::OtherKind);
        }
        let source = Known {
            place: &pair.source,
            info: &pair.info,
        };
        let copy = Known {
            place: &pair.target,
            info: there,
        };
        let how = compare_files::How {
            by: compared_by(&self.settings.transfer),
            keeps_times: self.settings.transfer.times,
        };
        self.session.compare(source, copy, how).await
    }
}

fn too_long(pair: &Pair) -> Error {
    let limit = binary_size(BEGINNING_BYTES_MAX);
    exists(pair).with_detail(format!(
        "it is shorter, and its first {limit} are those of the source: perhaps an interrupted copy left it"
    ))
}

fn exists(pair: &Pair) -> Error {
    Error::new(ErrorCode::Exists, Side::Destination, Phase::Open).with_subject(&pair.target)
}

/// How existing files are compared. What `--verify required` promises holds for skipped files too,
/// unless the user names another way.
fn compared_by(transfer: &TransferOptions) -> CompareBy {
    match (transfer.verify, transfer.compare) {
        (Some(Verify::Required), CompareBy::Auto) => CompareBy::Checksum,
        (_, by) => by,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::command_line::{Command, CommandLine};

    #[test]
    fn what_must_be_verified_is_skipped_by_its_checksum_only() {
        for (options, by) in [
            ("", CompareBy::Auto),
            ("--verify available", CompareBy::Auto),
            ("--verify required", CompareBy::Checksum),
            ("--verify required --compare size", CompareBy::Size),
        ] {
            let line = format!("crossload sync {options} a b");
            let parsed = CommandLine::try_parse_from(line.split_whitespace()).expect("a command");
            let Command::Sync(sync) = parsed.command else {
                panic!("{line}");
            };
            assert_eq!(compared_by(&sync.transfer), by, "{options}");
        }
    }
}
