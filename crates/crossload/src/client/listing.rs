//! `ls`.

use std::cmp::Ordering;

use types::Result;

use super::each::{Finished, each_place, report};
use super::gfal_columns;
use super::place::{Place, without_query};
use super::session::{ClientContext, Info};
use super::show::{as_json, before_name, style};
use super::walk::{Compare, Found, Order, Step, Walk};
use crate::command_line::{ListOptions, ListedName, SortKey};
use crate::failure::Failure;
use crate::output;

/// Lists each place.
pub(crate) async fn run(session: &ClientContext, options: &ListOptions) -> std::result::Result<u8, Failure> {
    let mut listing = Listing {
        session,
        options,
        headers: 0,
    };
    each_place("ls", &options.places, async |text| listing.place(text).await).await
}

struct Listing<'a> {
    session: &'a ClientContext,
    options: &'a ListOptions,
    /// Headers that were printed.
    headers: usize,
}

impl Listing<'_> {
    async fn place(&mut self, text: &str) -> Result<Finished> {
        let place = self.session.place(text).await?;
        let side = place.side();
        let own = self.session.stat(&place, side).await?;
        if self.options.directory || !own.is_directory {
            let name = without_query(text).to_owned();
            self.print(&place, &Info { name, ..own });
            return Ok(Finished::Whole);
        }
        let mut walk = Walk::new(self.session, place, own, side, order(self.options));
        let mut finished = Finished::Whole;
        while let Some(step) = walk.next().await {
            match step {
                Step::Entry(found) if found.depth > 0 => {
                    let is_shown = self.is_shown(&found);
                    if !is_shown || !self.options.recursive {
                        walk.skip();
                    }
                    if is_shown {
                        self.print(&found.place, &found.info);
                    }
                }
                Step::Unnamed(found, _) if !self.options.recursive => self.print(&found.place, &found.info),
                Step::Enter(found) => self.header(&found.shown(text)),
                // A listing that says what it lacks is a listing.
                unlisted @ Step::Unlisted(..) => {
                    report("ls", text, unlisted)?;
                }
                other => finished = finished.and(report("ls", text, other)?),
            }
        }
        Ok(finished)
    }

    fn is_shown(&self, found: &Found) -> bool {
        self.options.all || !found.info.name.starts_with('.')
    }

    /// Names the directory whose entries follow, if there can be several.
    fn header(&mut self, shown: &str) {
        let is_whole = self.options.names != ListedName::Name;
        if is_whole || self.options.common.json || (self.options.places.is_one() && !self.options.recursive) {
            return;
        }
        let gap = if self.headers > 0 { "\n" } else { "" };
        output::line(&format!("{gap}{}:", output::name(shown)));
        self.headers += 1;
    }

    fn print(&self, place: &Place, info: &Info) {
        if self.options.common.json {
            output::json(&as_json(place, info));
            return;
        }
        let name = match (self.options.names, place) {
            (ListedName::Path, Place::Remote(location)) => location.path().to_owned(),
            (ListedName::Path | ListedName::Url, place) => place.to_string(),
            (ListedName::Name, _) => info.name.clone(),
        };
        let info = &Info { name, ..info.clone() };
        if let Some(times) = self.options.habits.gfal_times().filter(|_| self.options.long) {
            output::line(&gfal_columns::line(place, info, times, self.options.human_readable));
            return;
        }
        let before = match self.options.long {
            true => before_name(info, self.options.human_readable),
            false => String::new(),
        };
        output::entry(&before, &output::name(&info.name), style(info));
    }
}

/// The order that the options ask for.
fn order(options: &ListOptions) -> Order {
    let compare: Compare = match (options.sort, options.reverse) {
        (SortKey::None, _) => return Order::Listed,
        (SortKey::Name, false) => by_name,
        (SortKey::Name, true) => |first, second| by_name(second, first),
        (SortKey::Size, false) => by_size,
        (SortKey::Size, true) => |first, second| by_size(second, first),
        (SortKey::Time, false) => by_time,
        (SortKey::Time, true) => |first, second| by_time(second, first),
    };
    Order::Sorted(compare)
}

/// By name, byte by byte.
pub(crate) fn by_name(first: &Info, second: &Info) -> Ordering {
    first.name.cmp(&second.name)
}

/// The largest first; directories, and what has no size, last.
fn by_size(first: &Info, second: &Info) -> Ordering {
    let size = |info: &Info| info.size_bytes.filter(|_| !info.is_directory);
    let sizes = size(second).cmp(&size(first));
    sizes.then_with(|| by_name(first, second))
}

/// The latest first; without a time last.
fn by_time(first: &Info, second: &Info) -> Ordering {
    let times = second.modified_s.cmp(&first.modified_s);
    times.then_with(|| by_name(first, second))
}
