//! Times as text.

use std::time::SystemTime;

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

/// RFC 3339 in UTC, with microseconds in six digits.
const TIME: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");

pub(crate) fn time_of(time: SystemTime) -> String {
    OffsetDateTime::from(time).format(TIME).unwrap_or_default()
}
