//! What our pages have around their content: the head with their style, the way from the root, and
//! the end. They load nothing, and nothing on them runs.

use std::fmt::Write as _;

use markup::{Escaped, THEME, style_source};
use types::LogicalPath;

use crate::limits::WAY_NAMES_MAX;

/// The looks of our pages, below the colours of all pages.
const STYLE: &str = include_str!("page.css");

/// What a page may load and run, and where it is shown (Content Security Policy 3): nothing but its
/// own style, in no frame.
pub(crate) fn content_policy() -> String {
    let style = style_source(&format!("{THEME}{STYLE}"));
    format!("default-src 'none'; style-src {style}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
}

/// Begins a page, up to its heading. `way` is for people: programs take each link for an entry of
/// the directory, or follow it.
pub(crate) fn begin(title: &str, heading: &str, way: Option<&str>) -> String {
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><style>{THEME}{STYLE}</style></head>\n\
         <body>\n",
        Escaped(title)
    );
    if let Some(way) = way {
        let _ = writeln!(
            text,
            "<a class=\"skip\" href=\"#content\">Skip to content</a>\n<header>{way}</header>"
        );
    }
    let _ = writeln!(
        text,
        "<main id=\"content\" tabindex=\"-1\">\n<h1>{}</h1>",
        Escaped(heading)
    );
    text
}

/// Ends a page, which `program` has made.
pub(crate) fn end(text: &mut String, program: &str) {
    let _ = writeln!(
        text,
        "</main>\n<footer><p>{}</p></footer>\n</body></html>",
        Escaped(program)
    );
}

/// The way from the root to a path. Each directory above it is a link, relative to the path as it
/// was sent: a proxy in front may show the server below another path.
pub(crate) fn way(path: &LogicalPath, sent: &str) -> String {
    let names: Vec<&str> = path.components().collect();
    // Links are resolved against all segments but the last, and without those that are a dot
    // (RFC 3986 §5.2). Empty ones count.
    let mut segments: Vec<&str> = sent.split('/').skip(1).collect();
    let ends_with_name = segments.pop().is_some_and(is_name);
    segments.retain(|segment| *segment != ".");
    let places = segments.iter().enumerate().filter(|(_, segment)| is_name(segment));
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    // Otherwise the path is spelled otherwise than it was sent, and segments are not its names.
    let is_as_sent = places.len() + usize::from(ends_with_name) == names.len();
    let mut out = "<nav aria-label=\"Path\"><ol>".to_owned();
    if !names.is_empty() {
        let root = up(segments.len());
        let _ = write!(out, "<li><a href=\"{root}\" aria-label=\"root directory\">/</a></li>");
    }
    let left_out = names.len().saturating_sub(WAY_NAMES_MAX);
    if left_out > 0 {
        out.push_str("<li>…</li>");
    }
    for (at, name) in names.iter().enumerate().skip(left_out) {
        let is_last = at + 1 == names.len();
        let place = places.get(at).filter(|_| is_as_sent && !is_last);
        let _ = match place {
            Some(place) => {
                let link = up(segments.len() - 1 - place);
                write!(out, "<li><a href=\"{link}\">{}</a></li>", Escaped(name))
            }
            None if is_last => write!(out, "<li aria-current=\"page\">{}</li>", Escaped(name)),
            None => write!(out, "<li>{}</li>", Escaped(name)),
        };
    }
    if names.is_empty() {
        out.push_str("<li aria-current=\"page\">/</li>");
    }
    out.push_str("</ol></nav>");
    out
}

/// Whether a segment of a URL's path names something.
fn is_name(segment: &str) -> bool {
    !matches!(segment, "" | ".")
}

/// The relative URL of the directory that is so many levels above.
fn up(levels: usize) -> String {
    match levels {
        0 => "./".to_owned(),
        _ => "../".repeat(levels),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_names_are_shown_as_they_are() {
        let page = begin("/a", "two  blanks ", Some("<nav></nav>"));
        assert!(page.contains("<h1>two  blanks </h1>"), "{page}");
        let rule = STYLE.lines().find(|line| line.contains("white-space: pre-wrap"));
        let (elements, _) = rule.and_then(|rule| rule.split_once(" {")).unwrap();
        // The heading, the way from the root, the rows, and the facts of errors.
        assert_eq!(elements, "h1, nav li, tbody th a, .keys dd");
    }

    fn links(sent: &str) -> Vec<String> {
        let way = way(&LogicalPath::parse_url_path(sent).unwrap(), sent);
        let links = way.split("href=\"").skip(1);
        links
            .filter_map(|rest| rest.split_once('"'))
            .map(|(link, _)| link.to_owned())
            .collect()
    }

    /// What a browser makes of a relative link that only climbs.
    fn resolved(sent: &str, link: &str) -> String {
        let (base, _) = sent.rsplit_once('/').unwrap();
        let mut segments: Vec<&str> = base.split('/').skip(1).filter(|segment| *segment != ".").collect();
        for _ in 0..link.matches("../").count() {
            segments.pop();
        }
        format!("/{}", segments.join("/"))
    }

    #[test]
    fn each_directory_above_is_a_relative_link() {
        assert_eq!(links("/a/b/c/"), ["../../../", "../../", "../"]);
        assert_eq!(links("/a/b/c"), ["../../", "../", "./"]);
        assert_eq!(links("/a"), ["./"]);
        assert_eq!(links("/"), [""; 0]);
        for sent in ["/a/b/c/", "/a/b/c", "/a//b/c", "//a/b/./c/", "/a/./b//c//", "/a/b/c/."] {
            let found: Vec<String> = links(sent).iter().map(|link| resolved(sent, link)).collect();
            let plain: Vec<String> = found.iter().map(|path| path.replace("//", "/")).collect();
            let plain: Vec<&str> = plain.iter().map(|path| path.trim_end_matches('/')).collect();
            assert_eq!(plain, ["", "/a", "/a/b"], "{sent}: {found:?}");
        }
    }

    #[test]
    fn names_on_the_way_are_text() {
        let path = LogicalPath::parse("/<b>/a\u{202e}&b/x").unwrap();
        let way = way(&path, "/%3Cb%3E/a%E2%80%AE&b/x");
        assert!(
            way.contains(">&lt;b&gt;</a>") && way.contains(">a\\u{202e}&amp;b</a>"),
            "{way}"
        );
        assert!(way.contains("<li aria-current=\"page\">x</li>"), "{way}");
    }

    #[test]
    fn a_path_that_is_spelled_otherwise_leads_to_the_root_alone() {
        let way = way(&LogicalPath::parse("/a/b/c").unwrap(), "/a/c/");
        assert_eq!(way.matches("href").count(), 1, "{way}");
        assert!(way.contains("<li>a</li><li>b</li>"), "{way}");
    }

    #[test]
    fn the_way_of_a_deep_path_is_short() {
        let deep = "/a".repeat(1000);
        let way = way(&LogicalPath::parse(&deep).unwrap(), &deep);
        assert_eq!(way.matches("<li>").count() + 1, 1 + 1 + WAY_NAMES_MAX, "{way}");
        assert!(way.len() < 16 * 1024, "{}", way.len());
        assert!(way.contains("<li>…</li>"), "{way}");
    }

    #[test]
    fn a_page_allows_its_own_style_alone() {
        let page = begin("<t>", "<h>", None);
        assert!(page.contains("<title>&lt;t&gt;</title>") && page.contains("<h1>&lt;h&gt;</h1>"));
        assert!(!page.contains("href"), "{page}");
        let (_, rest) = page.split_once("<style>").unwrap();
        let (style, _) = rest.split_once("</style>").unwrap();
        let policy = content_policy();
        assert!(
            policy.starts_with("default-src 'none'; ") && policy.contains(&style_source(style)),
            "{policy}"
        );
    }
}
