//! `ls -l` in the columns of gfal-ls, for scripts that pick them by number.

use std::os::unix::fs::MetadataExt as _;

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Duration, OffsetDateTime};

use super::place::Place;
use super::session::Info;
use crate::command_line::TimeStyle;
use crate::output;

/// The time after which gfal-ls writes the year instead of the hour.
const RECENT: Duration = Duration::days(6 * 30);

/// A line: permissions, links, user, group, size, time in UTC, name. What a protocol does not say
/// is what gfal2 shows for it.
pub(super) fn line(place: &Place, info: &Info, style: TimeStyle, is_human: bool) -> String {
    let facts = Facts::of(place, info);
    let size = if is_human {
        format!("{:>4}", human_size(facts.size_bytes))
    } else {
        format!("{:>9}", facts.size_bytes)
    };
    let modified = OffsetDateTime::from_unix_timestamp(info.modified_s.unwrap_or_default());
    let time = modified.map_or_else(
        |_| "-".to_owned(),
        |time| written(time, style, OffsetDateTime::now_utc()),
    );
    let Facts {
        mode,
        links,
        user,
        group,
        ..
    } = facts;
    format!(
        "{mode} {links:>3} {user:<5} {group:<5} {size} {time:<11} {}\t",
        output::name(&info.name)
    )
}

/// What is known of an entry beside its name.
struct Facts {
    mode: String,
    links: u64,
    user: u32,
    group: u32,
    size_bytes: u64,
}

impl Facts {
    fn of(place: &Place, info: &Info) -> Self {
        let kind = if info.is_directory { 'd' } else { '-' };
        let known = match place {
            Place::Local(path) => std::fs::metadata(path.as_str()).ok(),
            Place::Remote(_) | Place::Stdio => None,
        };
        if let Some(known) = known {
            return Self {
                mode: format!("{kind}{}", permissions(known.mode())),
                links: known.nlink(),
                user: known.uid(),
                group: known.gid(),
                size_bytes: known.len(),
            };
        }
        let is_root = matches!(place, Place::Remote(location) if !location.is_http() && !location.is_s3());
        let bits = match is_root && !info.is_directory {
            true => 0o666,
            false => 0o777,
        };
        Self {
            mode: format!("{kind}{}", permissions(bits)),
            links: 0,
            user: 0,
            group: 0,
            size_bytes: info.size_bytes.filter(|_| !info.is_directory).unwrap_or_default(),
        }
    }
}

/// Permissions such as `rwxr-x---`.
fn permissions(mode: u32) -> String {
    let letters = "rwxrwxrwx".chars().enumerate();
    letters
        .map(|(at, letter)| if mode >> (8 - at) & 1 == 1 { letter } else { '-' })
        .collect()
}

/// A size such as `1.2K`, rounded up, as gfal-ls writes it.
fn human_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["", "K", "M", "G", "T", "P"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while value >= 1024.0 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1024.0, next);
    }
    match value < 10.0 {
        true => format!("{:.1}{unit}", (value * 10.0).ceil() / 10.0),
        false => format!("{:.0}{unit}", value.ceil()),
    }
}

fn written(time: OffsetDateTime, style: TimeStyle, now: OffsetDateTime) -> String {
    let is_recent = now - time < RECENT;
    let format: &[BorrowedFormatItem<'_>] = match (style, is_recent) {
        (TimeStyle::FullIso, _) => {
            format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:6] +0000")
        }
        (TimeStyle::LongIso, _) => format_description!("[year]-[month]-[day] [hour]:[minute]"),
        (TimeStyle::Iso, true) => format_description!("[month]-[day] [hour]:[minute]"),
        (TimeStyle::Iso, false) => format_description!("[year]-[month]-[day]"),
        (TimeStyle::Locale, true) => {
            format_description!("[month repr:short] [day padding:space] [hour]:[minute]")
        }
        (TimeStyle::Locale, false) => format_description!("[month repr:short] [day padding:space]  [year]"),
    };
    time.format(format).unwrap_or_else(|_| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use types::Location;

    use super::*;

    #[test]
    fn columns_are_those_of_gfal_ls() {
        let info = Info {
            name: "f".to_owned(),
            size_bytes: Some(3),
            modified_s: Some(1_709_210_096),
            ..Info::default()
        };
        let place = |url: &str| Place::Remote(Location::parse(url).unwrap());
        let (http, root) = (place("davs://a/f"), place("root://a//f"));
        assert_eq!(
            line(&http, &info, TimeStyle::Locale, false),
            "-rwxrwxrwx   0 0     0             3 Feb 29  2024 f\t"
        );
        assert_eq!(
            line(&root, &info, TimeStyle::LongIso, true),
            "-rw-rw-rw-   0 0     0      3.0 2024-02-29 12:34 f\t"
        );
        let time = OffsetDateTime::from_unix_timestamp(1_709_210_096).unwrap();
        assert_eq!(written(time, TimeStyle::Locale, time), "Feb 29 12:34");
        assert_eq!(written(time, TimeStyle::Iso, time), "02-29 12:34");
        assert_eq!(
            written(time, TimeStyle::FullIso, time),
            "2024-02-29 12:34:56.000000 +0000"
        );
    }

    #[test]
    fn sizes_are_rounded_up() {
        for (bytes, text) in [
            (0, "0.0"),
            (10, "10"),
            (1025, "1.1K"),
            (10 << 20, "10M"),
            (5 << 60, "5120P"),
        ] {
            assert_eq!(human_size(bytes), text);
        }
    }
}
