//! Directories as pages for browsers, and for programs that read links (rclone, wget): relative
//! links only, directories with a slash at their end.

use http_wire::{ContentType, Method, RequestHead, format_date};
use storage::{Entry, Stat};
use types::limits::LISTING_PIECE_BYTES;
use types::{Result, encode_path};

use crate::exchange::Exchange;
use transfer::Spot;
use transfer::chance::unix_s;

/// The page of a directory of an export. A page at a time is read and sent, whatever its size.
pub(crate) async fn directory(exchange: &mut Exchange<'_>, head: &RequestHead, spot: &Spot, stat: &Stat) -> Result<()> {
    if head.method == Method::Head {
        let modified_s = unix_s(stat.modified);
        return exchange
            .bare(200, |head| {
                head.content_type(ContentType::Html).last_modified(modified_s)
            })
            .await;
    }
    let mut pages = spot.store.list(&spot.path).await?;
    let mut page = Page::begin(exchange, head);
    loop {
        let entries = pages.next().await?;
        if entries.is_empty() {
            break;
        }
        for entry in &entries {
            page.entry(entry);
        }
        if page.text.len() >= LISTING_PIECE_BYTES {
            exchange.piece(page.take().as_bytes()).await?;
        }
    }
    exchange.piece(page.finish().as_bytes()).await?;
    exchange.end_pieces(None).await
}

/// The page of a directory above all exports.
pub(crate) async fn above(exchange: &mut Exchange<'_>, head: &RequestHead, names: &[String]) -> Result<()> {
    // Names of exports are no secret, but a token that is of no use is to be told so.
    exchange.credential.clone()?;
    if head.method == Method::Head {
        return exchange.bare(200, |head| head.content_type(ContentType::Html)).await;
    }
    let mut page = Page::begin(exchange, head);
    for name in names {
        page.row(name, true, "", "");
    }
    exchange.piece(page.finish().as_bytes()).await?;
    exchange.end_pieces(None).await
}

/// A page in the making.
struct Page {
    text: String,
    /// What goes in front of a name so that the link leads below this directory, however its own
    /// path was written.
    prefix: String,
}

impl Page {
    fn begin(exchange: &mut Exchange<'_>, head: &RequestHead) -> Self {
        exchange.begin_pieces(200, |head| head.content_type(ContentType::Html));
        let title = escape(exchange.path.as_str());
        let prefix = match exchange.path.name() {
            Some(name) if !head.target.path_raw.ends_with('/') => format!("./{}/", encode_path(name)),
            _ => "./".to_owned(),
        };
        let up = if prefix == "./" { "../" } else { "./" };
        let mut text = format!(
            "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
             <body><h1>{title}</h1>\n<table>\n"
        );
        if !exchange.path.is_root() {
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

    fn finish(mut self) -> String {
        self.text.push_str("</table></body></html>\n");
        self.text
    }
}

/// Text as HTML, within quotes too.
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
