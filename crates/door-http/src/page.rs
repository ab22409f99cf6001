//! Directories as pages, for browsers and for programs that read links (rclone, wget): relative
//! links only, directories with a trailing slash, no scripts, nothing to load.
//!
//! Browsers get the way from the root and links to other orders as well. Programs would take such
//! links for entries, or follow them, so they get one link for each entry and one to the parent.

use std::fmt::Write as _;

use http_wire::{Method, RequestHead, ResponseBuilder, format_iso_date};
use markup::Escaped;
use storage::{Entry, Stat};
use types::limits::LISTING_PIECE_BYTES;
use types::{ErrorCode, Result, binary_size, encode_path};

use crate::exchange::FileExchange;
use crate::frame;
use crate::limits::LISTING_SORTED_ENTRIES;
use crate::order::{Order, plain_heads};
use endpoint::clock::unix_s;
use endpoint::{ExportPath, Pages, refusal};

/// The page of a directory of an export. It is sorted, unless the directory is large; then it is
/// read and sent in pieces.
pub(crate) async fn directory(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    export_path: &ExportPath,
    stat: &Stat,
) -> Result<()> {
    if head.method == Method::Head {
        let modified_s = unix_s(stat.modified);
        return bare(exchange, |head| head.last_modified(modified_s)).await;
    }
    check_wanted(exchange, head)?;
    let path = exchange.http.path.clone();
    let mut pages = exchange
        .exports
        .list_to(exchange.requester(), export_path, &path)
        .await?;
    let (mut entries, is_all) = first_entries(&mut pages).await?;
    let mut page = Page::begin(exchange, head);
    if is_all {
        let order = Order::of(&head.target);
        entries.sort_by(|one, other| order.compare(one, other));
        page.totals(&Totals::of(&entries));
        page.table(Some(order));
    } else {
        page.say(&format!(
            "More than {LISTING_SORTED_ENTRIES} entries: in the order of the storage, not sorted. \
             Totals are at the end."
        ));
        page.table(None);
    }
    let mut totals = Totals::default();
    while !entries.is_empty() {
        for entry in &entries {
            totals.add(entry);
            page.entry(entry);
            if page.text.len() >= LISTING_PIECE_BYTES {
                exchange.http.piece(page.take().as_bytes()).await?;
            }
        }
        entries = if is_all { Vec::new() } else { pages.next().await? };
    }
    page.end_table();
    if !is_all {
        page.totals(&totals);
    }
    if let Some(note) = exchange.note_unlisted(&pages) {
        page.say(&note);
    }
    page.send(exchange).await
}

/// Entries up to the number that is sorted, and whether these are all.
async fn first_entries(pages: &mut Pages) -> Result<(Vec<Entry>, bool)> {
    let mut entries = Vec::new();
    while entries.len() <= LISTING_SORTED_ENTRIES {
        let more = pages.next().await?;
        if more.is_empty() {
            return Ok((entries, true));
        }
        entries.extend(more);
    }
    Ok((entries, false))
}

/// The page of a directory above all exports.
pub(crate) async fn above(exchange: &mut FileExchange<'_, '_>, head: &RequestHead, names: &[String]) -> Result<()> {
    // Names of exports are no secret, but an invalid token is reported.
    exchange.http.credential.clone()?;
    if head.method == Method::Head {
        return bare(exchange, |head| head).await;
    }
    check_wanted(exchange, head)?;
    let mut page = Page::begin(exchange, head);
    page.say(&counted(names.len() as u64, "directory", "directories"));
    page.table(None);
    for name in names {
        page.row(name, true, "", "");
    }
    page.end_table();
    page.send(exchange).await
}

/// The answer to HEAD.
async fn bare(
    exchange: &mut FileExchange<'_, '_>,
    fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder,
) -> Result<()> {
    let own_path = own_path(exchange);
    let policy = &exchange.door.content_policy;
    let tell = |head: ResponseBuilder| fill(head.page(policy).content_location(&own_path));
    exchange.http.bare(200, tell).await
}

/// Whether the client wants a page: it shows pages, or its path ends with a slash. Other clients
/// would store the page as a file.
fn check_wanted(exchange: &FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    if head.prefers_html() || head.target.path_raw.ends_with('/') {
        return Ok(());
    }
    Err(refusal(ErrorCode::IsDirectory, &exchange.http.path))
}

/// The path of the directory with a trailing slash, by which a client distinguishes a listing from
/// a file.
fn own_path(exchange: &FileExchange<'_, '_>) -> String {
    let path = encode_path(exchange.http.path.as_str());
    format!("{}/", path.trim_end_matches('/'))
}

/// What a directory holds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    directories: u64,
    files: u64,
    bytes: u64,
}

impl Totals {
    fn of(entries: &[Entry]) -> Self {
        let mut totals = Self::default();
        entries.iter().for_each(|entry| totals.add(entry));
        totals
    }

    fn add(&mut self, entry: &Entry) {
        if entry.stat.is_directory() {
            self.directories += 1;
        } else {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(entry.stat.size_bytes);
        }
    }
}

/// A page under construction.
struct Page {
    text: String,
    /// Prefix of each name, so that links lead below this directory, however its own path was
    /// spelled.
    prefix: String,
    /// Whether a person reads the page, and not a program its links.
    is_for_people: bool,
    /// The link to the parent in the table; people have the way from the root.
    parent: Option<&'static str>,
}

impl Page {
    fn begin(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Self {
        let own_path = own_path(exchange);
        let policy = &exchange.door.content_policy;
        exchange
            .http
            .begin_pieces(200, |head| head.page(policy).content_location(&own_path));
        let path = &exchange.http.path;
        let sent = &head.target.path_raw;
        let (prefix, parent) = match path.name() {
            Some(name) if !sent.ends_with('/') => (format!("./{}/", encode_path(name)), Some("./")),
            Some(_) => ("./".to_owned(), Some("../")),
            None => ("./".to_owned(), None),
        };
        let is_for_people = head.prefers_html();
        let way = is_for_people.then(|| frame::way(path, sent));
        let heading = path.name().unwrap_or("/");
        let mut text = frame::begin(path.as_str(), heading, way.as_deref());
        text.push_str("<section>\n");
        Self {
            text,
            prefix,
            is_for_people,
            parent: parent.filter(|_| !is_for_people),
        }
    }

    /// A sentence beside the table.
    fn say(&mut self, words: &str) {
        let _ = writeln!(self.text, "<p class=\"sub\">{}</p>", Escaped(words));
    }

    fn totals(&mut self, totals: &Totals) {
        let _ = writeln!(
            self.text,
            "<p class=\"sub\">{}, {}, {}</p>",
            counted(totals.directories, "directory", "directories"),
            counted(totals.files, "file", "files"),
            size(totals.bytes)
        );
    }

    /// Begins the table; with an `order`, other orders may be asked for.
    fn table(&mut self, order: Option<Order>) {
        let heads = match order {
            Some(order) if self.is_for_people => order.linked_heads(&self.prefix),
            _ => plain_heads(),
        };
        let _ = writeln!(self.text, "<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>");
        if let Some(parent) = self.parent {
            let _ = writeln!(
                self.text,
                "<tr><th scope=\"row\"><a href=\"{parent}\">..</a></th><td></td><td></td></tr>"
            );
        }
    }

    fn entry(&mut self, entry: &Entry) {
        let is_directory = entry.stat.is_directory();
        let size = match is_directory {
            true => String::new(),
            false => size(entry.stat.size_bytes),
        };
        self.row(&entry.name, is_directory, &size, &minute(unix_s(entry.stat.modified)));
    }

    /// A row; `size` and `modified` are markup.
    fn row(&mut self, name: &str, is_directory: bool, size: &str, modified: &str) {
        let slash = if is_directory { "/" } else { "" };
        let link = format!("{}{}{slash}", self.prefix, encode_path(name));
        let _ = writeln!(
            self.text,
            "<tr><th scope=\"row\"><a href=\"{}\">{}{slash}</a></th><td>{size}</td><td>{modified}</td></tr>",
            Escaped(&link),
            Escaped(name)
        );
    }

    fn end_table(&mut self) {
        self.text.push_str("</tbody></table>\n");
    }

    fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Ends the page, and sends what is left of it.
    async fn send(mut self, exchange: &mut FileExchange<'_, '_>) -> Result<()> {
        self.text.push_str("</section>\n");
        frame::end(&mut self.text, &exchange.door.server.server_name);
        exchange.http.piece(self.text.as_bytes()).await?;
        exchange.http.end_pieces(None).await
    }
}

/// A count with its noun.
fn counted(count: u64, one: &str, many: &str) -> String {
    let noun = if count == 1 { one } else { many };
    format!("{count} {noun}")
}

/// A size as markup: rounded for people, and exact for programs.
fn size(bytes: u64) -> String {
    format!(
        "<data value=\"{bytes}\" title=\"{}\">{}</data>",
        counted(bytes, "byte", "bytes"),
        binary_size(bytes)
    )
}

/// A time as markup: to the minute for people, and to the second for programs.
fn minute(unix_s: i64) -> String {
    let exact = format_iso_date(unix_s);
    let (day, time) = (
        exact.get(..10).unwrap_or_default(),
        exact.get(11..16).unwrap_or_default(),
    );
    format!("<time datetime=\"{exact}\">{day} {time}</time>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_for_people_and_for_programs() {
        assert_eq!(
            size(1_500_000),
            "<data value=\"1500000\" title=\"1500000 bytes\">1.4 MiB</data>"
        );
        assert_eq!(
            minute(1_795_287_684),
            "<time datetime=\"2026-11-21T19:01:24Z\">2026-11-21 19:01</time>"
        );
        assert_eq!(
            minute(i64::MIN),
            "<time datetime=\"1970-01-01T00:00:00Z\">1970-01-01 00:00</time>"
        );
        assert_eq!(counted(1, "file", "files"), "1 file");
        assert_eq!(counted(0, "file", "files"), "0 files");
    }
}
