//! Directories as pages, for browsers and for programs that read links (rclone, wget): relative
//! links only, directories with a trailing slash, no scripts, nothing to load.

use std::cmp::Ordering;

use crate::limits::LISTING_SORTED_ENTRIES;
use http_wire::{ContentType, Method, RequestHead, ResponseBuilder, format_date};
use storage::{Entry, Stat};
use types::limits::LISTING_PIECE_BYTES;
use types::{ErrorCode, Result, encode_path};

use crate::exchange::FileExchange;
use endpoint::clock::unix_s;
use endpoint::{ExportPath, refusal};

/// The style: light or dark as the browser prefers, with aligned figures.
const STYLE: &str = ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:1.5rem}\
                     h1{font-size:1.3rem;overflow-wrap:anywhere}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
                     th{text-align:left;font-weight:600}th:nth-child(2){text-align:right}td,th{padding:.1rem 1.5rem .1rem 0;vertical-align:top}\
                     td:first-child{overflow-wrap:anywhere}td+td{white-space:nowrap;opacity:.75}\
                     @media(max-width:40rem){body{margin:.8rem}td,th{padding-right:.7rem}td+td+td{white-space:normal}}";

/// The page of a directory of an export. It is sorted, unless the directory is large; then it is
/// read and sent in pieces.
pub(crate) async fn directory(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    export_path: &ExportPath,
    stat: &Stat,
) -> Result<()> {
    let own_path = own_path(exchange);
    if head.method == Method::Head {
        let modified_s = unix_s(stat.modified);
        return exchange
            .http
            .bare(200, |head| {
                head.content_type(ContentType::Html)
                    .content_location(&own_path)
                    .last_modified(modified_s)
            })
            .await;
    }
    check_wanted(exchange, head)?;
    let path = exchange.http.path.clone();
    let mut pages = exchange
        .exports
        .list_to(exchange.requester(), export_path, &path)
        .await?;
    let mut entries = Vec::new();
    let mut is_all = false;
    while !is_all && entries.len() < LISTING_SORTED_ENTRIES {
        let more = pages.next().await?;
        is_all = more.is_empty();
        entries.extend(more);
    }
    if is_all {
        entries.sort_by(in_order);
    }
    let mut page = Page::begin(exchange, head);
    while !entries.is_empty() {
        for entry in &entries {
            page.entry(entry);
            if page.text.len() >= LISTING_PIECE_BYTES {
                exchange.http.piece(page.take().as_bytes()).await?;
            }
        }
        entries = if is_all { Vec::new() } else { pages.next().await? };
    }
    let note = exchange.note_unlisted(&pages);
    exchange.http.piece(page.finish(note.as_deref()).as_bytes()).await?;
    exchange.http.end_pieces(None).await
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

/// Directories first, by name.
fn in_order(one: &Entry, other: &Entry) -> Ordering {
    let is_file = |entry: &Entry| !entry.stat.is_directory();
    is_file(one)
        .cmp(&is_file(other))
        .then_with(|| one.name.cmp(&other.name))
}

/// The page of a directory above all exports.
pub(crate) async fn above(exchange: &mut FileExchange<'_, '_>, head: &RequestHead, names: &[String]) -> Result<()> {
    // Names of exports are no secret, but an invalid token is reported.
    exchange.http.credential.clone()?;
    if head.method == Method::Head {
        let own_path = own_path(exchange);
        let tell = |head: ResponseBuilder| head.content_type(ContentType::Html).content_location(&own_path);
        return exchange.http.bare(200, tell).await;
    }
    check_wanted(exchange, head)?;
    let mut page = Page::begin(exchange, head);
    for name in names {
        page.row(name, true, "", "");
    }
    exchange.http.piece(page.finish(None).as_bytes()).await?;
    exchange.http.end_pieces(None).await
}

/// A page under construction.
struct Page {
    text: String,
    /// Prefix of each name, so that links lead below this directory, however its own path was
    /// spelled.
    prefix: String,
}

impl Page {
    fn begin(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Self {
        let own_path = own_path(exchange);
        exchange.http.begin_pieces(200, |head| {
            head.content_type(ContentType::Html).content_location(&own_path)
        });
        let title = escape(exchange.http.path.as_str());
        let prefix = match exchange.http.path.name() {
            Some(name) if !head.target.path_raw.ends_with('/') => format!("./{}/", encode_path(name)),
            _ => "./".to_owned(),
        };
        let up = if prefix == "./" { "../" } else { "./" };
        let mut text = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><style>{STYLE}</style></head>\n\
             <body><h1>{title}</h1>\n<table>\n<tr><th>name</th><th>bytes</th><th>modified</th></tr>\n"
        );
        if !exchange.http.path.is_root() {
            text.push_str(&format!(
                "<tr><td><a href=\"{up}\">..</a></td><td></td><td></td></tr>\n"
            ));
        }
        Self { text, prefix }
    }

    fn entry(&mut self, entry: &Entry) {
        let size = if entry.stat.is_directory() {
            String::new()
        } else {
            entry.stat.size_bytes.to_string()
        };
        let modified = format_date(unix_s(entry.stat.modified));
        self.row(&entry.name, entry.stat.is_directory(), &size, &modified);
    }

    fn row(&mut self, name: &str, is_directory: bool, size: &str, modified: &str) {
        let slash = if is_directory { "/" } else { "" };
        let link = escape(&format!("{}{}{slash}", self.prefix, encode_path(name)));
        let name = escape(name);
        self.text.push_str(&format!(
            "<tr><td><a href=\"{link}\">{name}{slash}</a></td><td align=\"right\">{size}</td><td>{modified}</td></tr>\n"
        ));
    }

    fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    fn finish(mut self, note: Option<&str>) -> String {
        self.text.push_str("</table>");
        if let Some(note) = note {
            self.text.push_str(&format!("<p>{}</p>", escape(note)));
        }
        self.text.push_str("</body></html>\n");
        self.text
    }
}

/// Escapes text for HTML, also within quotes.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_cannot_break_out_of_the_page() {
        assert_eq!(escape("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
    }
}
