//! The order of a listing, which the heads of its columns lead to: `?sort=size&order=desc`.

use std::cmp::Ordering;

use http_wire::Target;
use markup::Escaped;
use storage::Entry;

/// The parameters of a query, and the word for the order that is not the usual one.
const SORT: &str = "sort";
const ORDER: &str = "order";
const DESCENDING: &str = "desc";

/// A column of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Name,
    Size,
    Date,
}

impl Column {
    const ALL: [Self; 3] = [Self::Name, Self::Size, Self::Date];

    /// The value of `sort`.
    fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Size => "size",
            Self::Date => "date",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Name => "Name",
            Self::Size => "Size",
            Self::Date => "Modified (UTC)",
        }
    }
}

/// In which order entries are shown, directories always first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    column: Column,
    is_descending: bool,
}

impl Order {
    /// The order that a query asks for. Parameters that mean nothing here may be those of others,
    /// such as a token, and are no error; nor are unknown values, which count as absent.
    pub(crate) fn of(target: &Target) -> Self {
        let word = target.query_value(SORT).unwrap_or_default();
        let column = Column::ALL.into_iter().find(|column| column.word() == word);
        Self {
            column: column.unwrap_or(Column::Name),
            is_descending: target.query_value(ORDER).as_deref() == Some(DESCENDING),
        }
    }

    /// Compares two entries; those that are equal in the column are in the order of their names.
    pub(crate) fn compare(self, one: &Entry, other: &Entry) -> Ordering {
        let is_file = |entry: &Entry| !entry.stat.is_directory();
        let by_name = one.name.cmp(&other.name);
        let by_column = match self.column {
            Column::Name => by_name,
            Column::Size => one.stat.size_bytes.cmp(&other.stat.size_bytes),
            Column::Date => one.stat.modified.cmp(&other.stat.modified),
        };
        let by_column = match self.is_descending {
            true => by_column.reverse(),
            false => by_column,
        };
        is_file(one).cmp(&is_file(other)).then(by_column).then(by_name)
    }

    /// The heads of the columns as links to other orders of the directory at this relative URL.
    /// Other parameters of the query are dropped: a token must not get into the page.
    pub(crate) fn linked_heads(self, directory: &str) -> String {
        let head = |column: Column| {
            let is_sorted = column == self.column;
            let state = match (is_sorted, self.is_descending) {
                (false, _) => "",
                (true, false) => " aria-sort=\"ascending\"",
                (true, true) => " aria-sort=\"descending\"",
            };
            // The same column again turns the order round. The largest and the latest come first.
            let descends = match is_sorted {
                true => !self.is_descending,
                false => column != Column::Name,
            };
            let order = if descends { DESCENDING } else { "asc" };
            let link = format!("{directory}?{SORT}={}&{ORDER}={order}", column.word());
            format!(
                "<th scope=\"col\"{state}><a href=\"{}\" rel=\"nofollow\">{}</a></th>",
                Escaped(&link),
                column.title()
            )
        };
        Column::ALL.map(head).concat()
    }
}

/// The heads of the columns of a listing whose order is fixed.
pub(crate) fn plain_heads() -> String {
    Column::ALL
        .map(|column| format!("<th scope=\"col\">{}</th>", column.title()))
        .concat()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use storage::{Kind, Stat};

    use super::*;

    fn order(query: &str) -> Order {
        Order::of(&Target {
            authority: None,
            path_raw: "/d/".to_owned(),
            query: Some(query.to_owned()),
        })
    }

    fn entry(name: &str, kind: Kind, size_bytes: u64, modified_s: u64) -> Entry {
        Entry {
            name: name.to_owned(),
            stat: Stat {
                kind,
                size_bytes,
                modified: UNIX_EPOCH + Duration::from_secs(modified_s),
                mode: 0o644,
                inode: 1,
            },
        }
    }

    #[test]
    fn directories_come_first_in_every_order() {
        let entries = [
            entry("a", Kind::File, 5, 30),
            entry("b", Kind::File, 7, 10),
            entry("c", Kind::File, 5, 20),
            entry("d", Kind::Directory, 0, 50),
            entry("e", Kind::Directory, 0, 40),
        ];
        for (query, names) in [
            ("", "deabc"),
            ("sort=name&order=asc", "deabc"),
            ("order=desc", "edcba"),
            ("sort=size", "deacb"),
            ("authz=Bearer%20x&sort=size&order=desc", "debac"),
            ("sort=date&order=asc", "edbca"),
            ("sort=date&order=desc", "deacb"),
            ("sort=%ff", "deabc"),
            ("sort=SIZE&order=down", "deabc"),
            ("sort=size&sort=date&order", "deacb"),
        ] {
            let mut sorted = entries.to_vec();
            sorted.sort_by(|one, other| order(query).compare(one, other));
            let seen: String = sorted.iter().map(|entry| entry.name.as_str()).collect();
            assert_eq!(seen, names, "{query}");
        }
    }

    #[test]
    fn heads_lead_to_other_orders_and_say_which_one_it_is() {
        let heads = order("sort=size&order=desc&authz=secret").linked_heads("./d%26/");
        let expected = "<th scope=\"col\"><a href=\"./d%26/?sort=name&amp;order=asc\" rel=\"nofollow\">Name</a></th>\
             <th scope=\"col\" aria-sort=\"descending\"><a href=\"./d%26/?sort=size&amp;order=asc\" rel=\"nofollow\">Size</a></th>\
             <th scope=\"col\"><a href=\"./d%26/?sort=date&amp;order=desc\" rel=\"nofollow\">Modified (UTC)</a></th>";
        assert_eq!(heads, expected);
        let usual = order("").linked_heads("./");
        assert!(
            usual.contains("aria-sort=\"ascending\"><a href=\"./?sort=name&amp;order=desc\""),
            "{usual}"
        );
        assert!(!plain_heads().contains("href"));
    }
}
