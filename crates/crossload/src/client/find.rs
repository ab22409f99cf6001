//! `find`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use globset::GlobSet;
use types::Result;

use super::each::{Finished, each_place, report};
use super::session::{ClientContext, Info};
use super::show::as_json;
use super::walk::{Found, Order, Step, Walk};
use crate::command_line::{FindOptions, FoundKind};
use crate::failure::Failure;
use crate::output;

/// Prints what fits, in and below each place.
pub(crate) async fn run(session: &ClientContext, options: &FindOptions) -> std::result::Result<u8, Failure> {
    let search = Search::new(session, options)?;
    each_place("find", &options.places, async |text| search.place(text).await).await
}

struct Search<'a> {
    session: &'a ClientContext,
    options: &'a FindOptions,
    names: GlobSet,
    now_s: i64,
}

impl<'a> Search<'a> {
    fn new(session: &'a ClientContext, options: &'a FindOptions) -> std::result::Result<Self, Failure> {
        let names = GlobSet::new(&options.name).map_err(|cause| Failure::invalid(cause.to_string()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            session,
            options,
            names,
            now_s: seconds(now),
        })
    }

    async fn place(&self, text: &str) -> Result<Finished> {
        let place = self.session.place(text).await?;
        let side = place.side();
        let own = self.session.stat(&place, side).await?;
        let mut walk = Walk::new(self.session, place, own, side, Order::Listed);
        let mut finished = Finished::Whole;
        while let Some(step) = walk.next().await {
            match step {
                Step::Entry(found) => {
                    if found.depth >= self.options.max_depth {
                        walk.skip();
                    }
                    if self.fits(&found) {
                        self.print(&found, text);
                    }
                }
                other => finished = finished.and(report("find", text, other)?),
            }
        }
        Ok(finished)
    }

    fn print(&self, found: &Found, text: &str) {
        let shown = found.shown(text);
        if self.options.common.json {
            output::json(&as_json(&found.place, &found.info));
        } else if self.options.print0 {
            output::write_out(format!("{shown}\0").as_bytes());
        } else {
            output::line(&output::name(&shown));
        }
    }

    fn fits(&self, found: &Found) -> bool {
        let Info {
            is_directory, unfit, ..
        } = found.info;
        let is_kind = match self.options.kind {
            None => true,
            Some(FoundKind::File) => !is_directory && unfit.is_none(),
            Some(FoundKind::Directory) => is_directory,
            Some(FoundKind::Other) => unfit.is_some(),
        };
        is_kind && self.has_name(found) && self.has_size(&found.info) && self.has_age(&found.info)
    }

    fn has_name(&self, found: &Found) -> bool {
        let is_named = |name: &str| self.names.is_match(name);
        match found.depth {
            _ if self.options.name.is_empty() => true,
            0 => is_named(&found.place.name()),
            _ => is_named(&found.info.name),
        }
    }

    /// A directory has no size.
    fn has_size(&self, info: &Info) -> bool {
        let (min, max) = (self.options.min_size, self.options.max_size);
        let size = info.size_bytes.filter(|_| !info.is_directory);
        let fits = |size| min.is_none_or(|min| size >= min) && max.is_none_or(|max| size <= max);
        (min.is_none() && max.is_none()) || size.is_some_and(fits)
    }

    fn has_age(&self, info: &Info) -> bool {
        let (min, max) = (self.options.min_age, self.options.max_age);
        let age_s = info.modified_s.map(|modified| self.now_s.saturating_sub(modified));
        let fits = |age_s| min.is_none_or(|min| age_s >= seconds(min)) && max.is_none_or(|max| age_s <= seconds(max));
        (min.is_none() && max.is_none()) || age_s.is_some_and(fits)
    }
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}
