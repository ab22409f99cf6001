//! `compare`: which files of two trees differ, and which only one of them has.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use futures_util::StreamExt as _;
use serde_json::json;
use storage::local::Unfit;
use tokio::sync::{Semaphore, mpsc};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::compare_files::{Compared, How, Known};
use super::place::Place;
use super::session::ClientContext;
use super::tree::{Directory, Found, Pair, Selection, There, Walk};
use crate::command_line::CompareOptions;
use crate::exit_code::ExitCodes;
use crate::failure::{self, Failure, Reader, describe};
use crate::limits::FOUND_QUEUED_MAX;
use crate::output;

/// Runs the command.
pub(crate) async fn run(session: &ClientContext, options: &CompareOptions) -> Result<u8, Failure> {
    let (first, second) = (
        session.place(&options.first).await?,
        session.place(&options.second).await?,
    );
    for (place, side) in [(&first, Side::Source), (&second, Side::Destination)] {
        if !session.stat(place, side).await?.is_directory {
            return Err(Error::new(ErrorCode::NotDirectory, side, Phase::Open)
                .with_subject(place)
                .into());
        }
    }
    let comparison = Comparison {
        session,
        options,
        counts: Counts::default(),
    };
    let selection = Selection::of(&options.select)?;
    let checkers = options.select.checkers as usize;
    let listings = Semaphore::new(checkers);
    let (found, pairs) = mpsc::channel(FOUND_QUEUED_MAX);
    let walking = async {
        let walk = Walk {
            session,
            listings: &listings,
            listings_max: checkers,
            retries: 2,
            selection: &selection,
            links: options.select.links,
            makes_directories: false,
            looks: true,
            finds_extras: true,
            totals: None,
            found,
        };
        walk.run(Directory::top(first, second)).await;
    };
    let pairs = futures_util::stream::unfold(pairs, |mut pairs| async { Some((pairs.recv().await?, pairs)) });
    let comparing = pairs.for_each_concurrent(checkers, |found| comparison.take(found));
    tokio::join!(walking, comparing);
    Ok(comparison.conclude())
}

#[derive(Debug, Default)]
struct Counts {
    equal: AtomicU64,
    /// Those of them that are equal by size and time, since no checksum could be compared.
    unverified: AtomicU64,
    different: AtomicU64,
    only_first: AtomicU64,
    only_second: AtomicU64,
    left_out: AtomicU64,
    failed: AtomicU64,
    /// The exit code of the last failure.
    last: AtomicU8,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

struct Comparison<'a> {
    session: &'a ClientContext,
    options: &'a CompareOptions,
    counts: Counts,
}

impl Comparison<'_> {
    async fn take(&self, found: Found) {
        match found {
            Found::File(pair) => {
                if let Err(error) = self.compare(*pair).await {
                    self.fail(&error);
                }
            }
            // Its files are counted as they come.
            Found::Directory(_) => {}
            Found::Link { source, target } => self.compare_link(&source, &target),
            Found::Extra { target, .. } => {
                add(&self.counts.only_second);
                self.tell("only_second", &target, "only the second tree has it");
            }
            Found::LeftOut { source, why } => {
                add(&self.counts.left_out);
                if self.options.common.json {
                    output::json(&json!({"event": "left_out", "place": source, "reason": why.name()}));
                } else {
                    output::complain(&format!("left out {}: {}", output::name(&source), left_out_words(why)));
                }
            }
            Found::Failed { error, .. } => self.fail(&error),
        }
    }

    async fn compare(&self, pair: Pair) -> Result<()> {
        let there = match pair.there {
            There::Nothing => None,
            There::Entry(info) => Some(info),
            There::Unknown => self.session.look(&pair.target, Side::Destination).await?,
        };
        let Some(there) = there else {
            add(&self.counts.only_first);
            let named = pair.link.as_ref().unwrap_or(&pair.source);
            self.tell("only_first", named, "only the first tree has it");
            return Ok(());
        };
        let compared = if there.is_directory || there.unfit.is_some() {
            Compared::OtherKind
        } else {
            let known = |place, info| Known { place, info };
            let how = How {
                by: self.options.compare,
                keeps_times: true,
            };
            let (first, second) = (known(&pair.source, &pair.info), known(&pair.target, &there));
            self.session.compare(first, second, how).await?
        };
        match compared {
            Compared::Unknown => {
                let error = Error::new(ErrorCode::ChecksumUnavailable, Side::Destination, Phase::Checksum);
                return Err(error.with_detail(compared.words()).with_subject(&pair.target));
            }
            compared if compared.is_equal() => {
                add(&self.counts.equal);
                if compared == Compared::NotOlderUnverified {
                    add(&self.counts.unverified);
                }
                if self.options.common.verbose > 0 {
                    self.tell(compared.name(), &pair.target, compared.words());
                }
            }
            compared => {
                add(&self.counts.different);
                self.tell(compared.name(), &pair.target, compared.words());
            }
        }
        Ok(())
    }

    /// Links that are to be copied are compared by where they lead.
    fn compare_link(&self, source: &Place, target: &Place) {
        let leads_to = |place: &Place| match place {
            Place::Local(path) => std::fs::read_link(path.as_str()).ok(),
            Place::Remote(_) | Place::Stdio => None,
        };
        match (leads_to(source), leads_to(target)) {
            (Some(first), Some(second)) if first == second => add(&self.counts.equal),
            _ => {
                add(&self.counts.different);
                self.tell("other_link", target, "it is no link to the same");
            }
        }
    }

    fn tell(&self, event: &str, place: &Place, words: &str) {
        if self.options.common.json {
            output::json(&json!({"event": event, "place": place.to_string()}));
        } else {
            output::line(&format!("{place}: {words}"));
        }
    }

    fn fail(&self, error: &Error) {
        add(&self.counts.failed);
        self.counts.last.store(failure::exit_code(error), Ordering::Relaxed);
        if self.options.common.json {
            let (code, message) = (error.code().name(), error.public());
            output::json(&json!({"event": "failed", "code": code, "message": message}));
        }
        let words = match error.code() {
            // That of a copy names an option which this command does not have.
            ErrorCode::ChecksumUnavailable => {
                let sizes = Failure::advised(error, "Use --compare size to compare sizes only.");
                sizes.message(Reader::User)
            }
            _ => describe(error),
        };
        output::complain(&format!("crossload compare error: {words}"));
    }

    fn conclude(&self) -> u8 {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        let [equal, different, left_out, failed] =
            [&counts.equal, &counts.different, &counts.left_out, &counts.failed].map(count);
        let unverified = count(&counts.unverified);
        let (only_first, only_second) = (count(&counts.only_first), count(&counts.only_second));
        if self.options.common.json {
            output::json(
                &json!({"event": "summary", "equal": equal, "unverified": unverified, "different": different,
                "only_first": only_first, "only_second": only_second, "left_out": left_out, "failed": failed}),
            );
        } else {
            let found = format!(
                "{equal} equal, {different} different, {only_first} only in the first tree, {only_second} only in the \
                 second, {left_out} left out, {failed} could not be compared"
            );
            let is_good = different + only_first + only_second + left_out + failed == 0;
            output::verdict(&found, is_good);
            if unverified > 0 {
                output::complain(&format!(
                    "{unverified} of the equal files were compared by size and time alone, since no checksum could be \
                     compared"
                ));
            }
        }
        let last = match failed {
            0 => LEFT_OUT,
            _ => counts.last.load(Ordering::Relaxed),
        };
        exit_code(
            ExitCodes::chosen(),
            different + only_first + only_second,
            (left_out + failed > 0).then_some(last),
        )
    }
}

/// EIO, where entries were left out that gfal's tools would have failed with.
const LEFT_OUT: u8 = 5;

/// The exit code. A difference is certain, whatever could not be compared beside it; `last` is the
/// code of the last failure.
fn exit_code(codes: ExitCodes, different: u64, last: Option<u8>) -> u8 {
    match (different, last) {
        (0, None) => 0,
        (0, Some(last)) => codes.of_several(last),
        _ => codes.of_no(),
    }
}

/// Why an entry was left out, and the option that includes it.
fn left_out_words(why: Unfit) -> String {
    let option = match why {
        Unfit::Link => "; --links copy compares where it leads, --links follow the file there",
        _ => "",
    };
    format!("{}{option}", why.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_counts_more_than_what_was_not_compared() {
        for (different, last, own, gfal) in [
            (0, None, 0, 0),
            (1, None, 3, 1),
            (1, Some(13), 3, 1),
            (0, Some(13), 1, 13),
        ] {
            assert_eq!(exit_code(ExitCodes::Own, different, last), own);
            assert_eq!(exit_code(ExitCodes::Gfal, different, last), gfal);
        }
    }

    #[test]
    fn a_link_that_was_left_out_names_its_option() {
        assert!(left_out_words(Unfit::Link).contains("--links copy"));
        assert_eq!(left_out_words(Unfit::Loop), Unfit::Loop.words());
    }
}
