//! `du`.

use serde_json::json;
use types::Result;

use super::each::{Finished, each_place, report};
use super::place::without_query;
use super::session::ClientContext;
use super::show::shown_size;
use super::walk::{Order, Step, Walk};
use crate::command_line::UsageOptions;
use crate::failure::Failure;
use crate::output;

/// What lies below a directory, itself included.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    bytes: u64,
    files: u64,
    directories: u64,
}

impl Usage {
    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.files += other.files;
        self.directories += other.directories;
    }
}

/// Adds up the sizes of the files below each place.
pub(crate) async fn run(session: &ClientContext, options: &UsageOptions) -> std::result::Result<u8, Failure> {
    each_place("du", &options.places, async |text| {
        of_place(session, options, text).await
    })
    .await
}

async fn of_place(session: &ClientContext, options: &UsageOptions, text: &str) -> Result<Finished> {
    let place = session.place(text).await?;
    let side = place.side();
    let own = session.stat(&place, side).await?;
    let depth_max = if options.summarize { 0 } else { options.max_depth };
    let mut walk = Walk::new(session, place, own, side, Order::Listed);
    // The directories on the path, and below them a sum that is not used.
    let mut open = vec![Usage::default()];
    let mut finished = Finished::Whole;
    while let Some(step) = walk.next().await {
        match step {
            Step::Entry(found) if !found.info.is_directory && found.info.unfit.is_none() => {
                let file = Usage {
                    bytes: found.info.size_bytes.unwrap_or(0),
                    files: 1,
                    directories: 0,
                };
                add_to_last(&mut open, file);
                if found.depth == 0 {
                    print(options, without_query(text), file);
                }
            }
            Step::Enter(_) => open.push(Usage {
                directories: 1,
                ..Usage::default()
            }),
            Step::Leave(found) => {
                let usage = open.pop().unwrap_or_default();
                add_to_last(&mut open, usage);
                if found.depth <= depth_max {
                    print(options, &found.shown(text), usage);
                }
            }
            other => finished = finished.and(report("du", text, other)?),
        }
    }
    Ok(finished)
}

fn add_to_last(open: &mut [Usage], usage: Usage) {
    if let Some(directory) = open.last_mut() {
        directory.add(usage);
    }
}

fn print(options: &UsageOptions, shown: &str, usage: Usage) {
    let Usage {
        bytes,
        files,
        directories,
    } = usage;
    if options.common.json {
        output::json(&json!({"name": shown, "bytes": bytes, "files": files, "directories": directories}));
    } else {
        let size = shown_size(Some(bytes), options.human_readable);
        output::line(&format!("{size}\t{}", output::name(shown)));
    }
}
