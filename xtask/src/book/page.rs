//! One page: its headings, its links, and its HTML.

use std::collections::HashMap;

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// What documents use beyond CommonMark.
const OPTIONS: Options = Options::ENABLE_TABLES;

/// A heading with its place on the page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) anchor: String,
    pub(crate) level: HeadingLevel,
}

/// A link as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) target: String,
    pub(crate) line: usize,
}

/// All headings of a page.
pub(crate) fn sections(text: &str) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut open: Option<(HeadingLevel, String)> = None;
    for event in Parser::new_ext(text, OPTIONS) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => open = Some((level, String::new())),
            Event::Text(words) | Event::Code(words) => {
                if let Some((_, title)) = &mut open {
                    title.push_str(&words);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                if let Some((level, title)) = open.take() {
                    let anchor = unique(anchor_of(&title), &mut seen);
                    found.push(Section { title, anchor, level });
                }
            }
            _ => {}
        }
    }
    found
}

/// A heading's anchor, as GitHub and mdBook make it.
pub(crate) fn anchor_of(title: &str) -> String {
    let character = |character: char| match character {
        '_' | '-' => Some(character),
        letter if letter.is_alphanumeric() => Some(letter),
        space if space.is_whitespace() => Some('-'),
        _ => None,
    };
    title.to_lowercase().chars().filter_map(character).collect()
}

/// The second of two equal anchors ends with `-1`.
fn unique(anchor: String, seen: &mut HashMap<String, usize>) -> String {
    let count = seen.entry(anchor.clone()).or_default();
    let own = match *count {
        0 => anchor,
        earlier => format!("{anchor}-{earlier}"),
    };
    *count += 1;
    own
}

/// All links and pictures of a page.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let events = Parser::new_ext(text, OPTIONS).into_offset_iter();
    let targets = events.filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(Link {
            target: dest_url.to_string(),
            line: line_at(text, range.start),
        }),
        _ => None,
    });
    targets.collect()
}

/// Lines with HTML other than comments, which no page shows.
pub(crate) fn raw_html(text: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut is_comment = false;
    for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
        match event {
            Event::Start(Tag::HtmlBlock) => is_comment = text[range].trim_start().starts_with("<!--"),
            Event::End(TagEnd::HtmlBlock) => is_comment = false,
            Event::Html(words) | Event::InlineHtml(words) if !is_comment && !words.starts_with("<!--") => {
                lines.push(line_at(text, range.start));
            }
            _ => {}
        }
    }
    lines
}

fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// The page as HTML. `href` says where a link leads; without a place its words stay.
pub(crate) fn render(text: &str, href: impl Fn(&str) -> Option<String>) -> String {
    let mut anchors = sections(text).into_iter().map(|section| section.anchor);
    let mut kept: Vec<bool> = Vec::new();
    let mut events: Vec<Event<'_>> = Vec::new();
    for event in Parser::new_ext(text, OPTIONS) {
        match event {
            Event::Start(Tag::Heading {
                level, classes, attrs, ..
            }) => {
                let id = anchors.next().map(CowStr::from);
                events.push(Event::Start(Tag::Heading {
                    level,
                    id,
                    classes,
                    attrs,
                }));
            }
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }) => {
                let place = href(&dest_url);
                kept.push(place.is_some());
                if let Some(place) = place {
                    let dest_url = CowStr::from(place);
                    events.push(Event::Start(Tag::Link {
                        link_type,
                        dest_url,
                        title,
                        id,
                    }));
                }
            }
            Event::End(TagEnd::Link) => {
                if kept.pop().unwrap_or_default() {
                    events.push(Event::End(TagEnd::Link));
                }
            }
            Event::Html(_) | Event::InlineHtml(_) => {}
            other => events.push(other),
        }
    }
    let mut page = String::new();
    html::push_html(&mut page, events.into_iter());
    without_styles(&page)
}

/// Columns of tables are aligned by classes: servers forbid styles in pages.
fn without_styles(page: &str) -> String {
    page.replace(" style=\"text-align: right\"", " class=\"right\"")
        .replace(" style=\"text-align: center\"", " class=\"center\"")
        .replace(" style=\"text-align: left\"", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A `b`, and c\n\n<!-- run: no: a\nreason -->\n\nSee [there](x.md#y) and [code](z.rs).\n\n\
                        ## Twice\n## Twice\n\n| a |\n|--:|\n| 1 |\n";

    #[test]
    fn headings_have_the_anchors_of_github() {
        let anchors: Vec<String> = sections(PAGE).into_iter().map(|section| section.anchor).collect();
        assert_eq!(anchors, ["a-b-and-c", "twice", "twice-1"]);
        assert_eq!(
            anchor_of("Options of gfal's tools and xrdcp"),
            "options-of-gfals-tools-and-xrdcp"
        );
    }

    #[test]
    fn links_have_their_lines() {
        let link = |target: &str| Link {
            target: target.to_owned(),
            line: 6,
        };
        assert_eq!(links(PAGE), [link("x.md#y"), link("z.rs")]);
    }

    #[test]
    fn only_comments_may_be_html() {
        assert_eq!(raw_html(PAGE), [0_usize; 0]);
        assert_eq!(raw_html("a\n\nb <host> c\n\n<table>\n"), [3, 5]);
    }

    #[test]
    fn a_page_has_links_that_lead_somewhere_and_no_styles() {
        let page = render(PAGE, |target| {
            target.strip_prefix("x.md").map(|rest| format!("x.html{rest}"))
        });
        assert!(
            page.contains("<h1 id=\"a-b-and-c\">A <code>b</code>, and c</h1>"),
            "{page}"
        );
        assert!(page.contains("See <a href=\"x.html#y\">there</a> and code."), "{page}");
        assert!(page.contains("<td class=\"right\">1</td>"), "{page}");
        assert!(!page.contains("style=") && !page.contains("reason"), "{page}");
    }
}
