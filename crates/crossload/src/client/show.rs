//! `stat`, and how entries are printed.

use std::time::Duration;

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::macros::format_description;

use super::each::{Finished, each_place};
use super::place::{Place, without_query};
use super::session::{ClientContext, Info};
use crate::command_line::StatOptions;
use crate::failure::Failure;
use crate::output;
use storage::local::Unfit;
use types::binary_size;

/// What `ls -l` prints before a name, with what servers report: kind, size, time.
pub(crate) fn before_name(info: &Info, human: bool) -> String {
    let kind = match info.unfit {
        Some(Unfit::Link) => "l",
        Some(Unfit::Pipe) => "p",
        Some(Unfit::Socket) => "s",
        Some(_) => "?",
        None if info.is_directory => "d",
        None => "-",
    };
    let size = shown_size(info.size_bytes, human);
    format!("{kind} {size:>14} {} ", written_time(info.modified_s))
}

/// How a name looks in a listing.
pub(crate) fn style(info: &Info) -> Option<anstyle::Style> {
    match info.unfit {
        Some(Unfit::Link) => Some(output::LINK),
        None if info.is_directory => Some(output::DIRECTORY),
        _ => None,
    }
}

/// A size as commands print it: `-` if it is unknown.
pub(crate) fn shown_size(bytes: Option<u64>, human: bool) -> String {
    match (bytes, human) {
        (None, _) => "-".to_owned(),
        (Some(bytes), true) => human_size(bytes),
        (Some(bytes), false) => bytes.to_string(),
    }
}

/// A size such as `1.2G`, in powers of 1024, as `ls -h` prints it.
pub(crate) fn human_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["", "K", "M", "G", "T", "P"] {
        if value < 1024.0 {
            return if unit.is_empty() {
                bytes.to_string()
            } else {
                format!("{value:.1}{unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1}E")
}

/// A mean rate for sentences, such as `1.2 MiB/s`.
pub(crate) fn binary_rate(bytes: u64, elapsed: Duration) -> String {
    let bytes_per_s = bytes as f64 / elapsed.as_secs_f64().max(1e-6);
    format!("{}/s", binary_size(bytes_per_s as u64))
}

/// A time for sentences, such as `9 s`, `2 min` or `1 h 30 min`.
pub(crate) fn rough_time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min"),
        (1..48, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} days", hours / 24),
    }
}

/// A number of things, such as `1 file` and `2 files`.
pub(crate) fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn written_time(modified_s: Option<i64>) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    let time = modified_s.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    time.and_then(|time| time.format(format).ok())
        .unwrap_or_else(|| format!("{:>19}", "-"))
}

/// The object of `ls --json` and `stat --json`.
pub(crate) fn as_json(place: &Place, info: &Info) -> Value {
    let checksums: Vec<String> = info.checksums.iter().map(ToString::to_string).collect();
    let kind = match info.unfit {
        Some(unfit) => unfit.name(),
        None if info.is_directory => "directory",
        None => "file",
    };
    json!({"name": info.name, "place": place.to_string(), "kind": kind,
        "bytes": info.size_bytes, "modified_s": info.modified_s, "checksums": checksums})
}

/// `stat`.
pub(crate) async fn stat(session: &ClientContext, options: &StatOptions) -> Result<u8, Failure> {
    each_place("stat", &options.places, async |text| -> types::Result<Finished> {
        let place = session.place(text).await?;
        let info = session.stat(&place, place.side()).await?;
        match options.common.json {
            true => {
                let name = without_query(text).to_owned();
                output::json(&as_json(&place, &Info { name, ..info }));
            }
            false => print_properties(without_query(text), &info),
        }
        Ok(Finished::Whole)
    })
    .await
}

fn print_properties(text: &str, info: &Info) {
    let kind = match info.unfit {
        Some(unfit) => unfit.words(),
        None if info.is_directory => "directory",
        None => "regular file",
    };
    output::line(&format!("  File: '{text}'"));
    let size = info
        .size_bytes
        .map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    output::line(&format!("  Size: {size}\t{kind}"));
    output::line(&format!("Modify: {} UTC", written_time(info.modified_s)));
    for checksum in &info.checksums {
        output::line(&format!("   Sum: {checksum}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_long_listing() {
        let info = Info {
            name: "f".to_owned(),
            size_bytes: Some(1536),
            modified_s: Some(0),
            ..Info::default()
        };
        assert_eq!(before_name(&info, false), "-           1536 1970-01-01 00:00:00 ");
        assert_eq!(before_name(&info, true), "-           1.5K 1970-01-01 00:00:00 ");
        assert_eq!(human_size(1023), "1023");
        let second = Duration::from_secs(1);
        assert_eq!(binary_rate(3 << 20, 2 * second), "1.5 MiB/s");
        let times = [59, 60, 5400, 200_000].map(|seconds| rough_time(seconds * second));
        assert_eq!(times, ["59 s", "1 min", "1 h 30 min", "2 days"]);
        let counts = [0, 1, 2].map(|count| counted(count, "file", "files"));
        assert_eq!(counts, ["0 files", "1 file", "2 files"]);
        let directory = Info {
            is_directory: true,
            ..info.clone()
        };
        assert_eq!((style(&info), style(&directory)), (None, Some(output::DIRECTORY)));
    }
}
