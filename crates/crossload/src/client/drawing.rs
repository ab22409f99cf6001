//! `tree`.

use types::Result;

use super::each::{Finished, each_place, report};
use super::listing::by_name;
use super::session::ClientContext;
use super::show::{as_json, counted, shown_size, style};
use super::walk::{Found, Order, Step, Walk};
use crate::command_line::TreeOptions;
use crate::failure::Failure;
use crate::output;

/// Draws the tree below each place.
pub(crate) async fn run(session: &ClientContext, options: &TreeOptions) -> std::result::Result<u8, Failure> {
    let mut drawing = Drawing {
        session,
        options,
        is_last: Vec::new(),
        directories: 0,
        files: 0,
    };
    let code = each_place("tree", &options.places, async |text| drawing.place(text).await).await?;
    if !options.common.json {
        output::line(&format!(
            "\n{}, {}",
            counted(drawing.directories, "directory", "directories"),
            counted(drawing.files, "file", "files")
        ));
    }
    Ok(code)
}

struct Drawing<'a> {
    session: &'a ClientContext,
    options: &'a TreeOptions,
    /// Whether the entry at each depth, from the first below the top, is the last of its directory.
    is_last: Vec<bool>,
    directories: u64,
    files: u64,
}

impl Drawing<'_> {
    async fn place(&mut self, text: &str) -> Result<Finished> {
        let place = self.session.place(text).await?;
        let side = place.side();
        let own = self.session.stat(&place, side).await?;
        let mut walk = Walk::new(self.session, place, own, side, Order::InPlace(by_name));
        let mut finished = Finished::Whole;
        while let Some(step) = walk.next().await {
            if let Step::Entry(found) | Step::Unnamed(found, _) = &step {
                if found.depth >= self.options.max_depth {
                    walk.skip();
                }
                self.draw(found, text);
            }
            finished = finished.and(report("tree", text, step)?);
        }
        Ok(finished)
    }

    /// Prints a line. The top is not counted.
    fn draw(&mut self, found: &Found, text: &str) {
        let mut line = String::new();
        if let Some(above) = found.depth.checked_sub(1) {
            self.is_last.truncate(above);
            self.is_last
                .iter()
                .for_each(|is_last| line.push_str(if *is_last { "    " } else { "│   " }));
            line.push_str(if found.is_last { "└── " } else { "├── " });
            self.is_last.push(found.is_last);
            let counted = if found.info.is_directory {
                &mut self.directories
            } else {
                &mut self.files
            };
            *counted += 1;
        }
        if self.options.common.json {
            output::json(&as_json(&found.place, &found.info));
            return;
        }
        if self.options.human_readable && !found.info.is_directory {
            line.push_str(&format!("[{:>7}]  ", shown_size(found.info.size_bytes, true)));
        }
        let name = if found.depth == 0 { text } else { &found.info.name };
        output::entry(&line, &output::name(name), style(&found.info));
    }
}
