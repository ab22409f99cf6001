//! What is around each page: contents, sections, and the pages before and after.

use std::fmt::Write as _;

use pulldown_cmark::HeadingLevel;
use pulldown_cmark::html::push_html;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::output_of;
use super::page::Section;
use super::summary::{Chapter, Summary};

/// The style sheet of all pages.
pub(crate) const STYLE: &str = include_str!("manual.css");
/// Fewer sections need no list.
const SECTIONS_MIN: usize = 3;

/// The frame of a page.
pub(crate) struct Frame<'a> {
    /// The title of the manual.
    pub(crate) book: &'a str,
    pub(crate) summary: &'a Summary,
    /// The page among the chapters.
    pub(crate) current: usize,
    /// Leads from the page to the manual's root: empty, or `../`.
    pub(crate) up: &'a str,
    pub(crate) sections: &'a [Section],
}

impl Frame<'_> {
    /// The whole page.
    pub(crate) fn around(&self, content: &str) -> String {
        let (book, up) = (escaped(self.book), self.up);
        // The title stays first.
        let (heading, rest) = content.split_once("</h1>").unwrap_or(("", content));
        let end = if heading.is_empty() { "" } else { "</h1>\n" };
        let title = plain(&self.summary.chapters[self.current].title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title} · {book}</title>\n<link rel=\"stylesheet\" href=\"{up}manual.css\">\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#content\">Skip to content</a>\n\
             <header><p><a href=\"{up}index.html\">{book}</a></p></header>\n{}\
             <main id=\"content\" tabindex=\"-1\">\n{heading}{end}{}{rest}{}</main>\n</body>\n</html>\n",
            self.contents(),
            self.on_this_page(),
            self.around_links(),
        )
    }

    /// The chapters; those below another only where the reader is.
    fn contents(&self) -> String {
        let mut text = String::from("<nav class=\"contents\" aria-label=\"Contents\">\n<ul>\n");
        let mut part = None;
        let chapters = &self.summary.chapters;
        for (index, chapter) in chapters.iter().enumerate() {
            if chapter.part != part {
                part = chapter.part;
                let name = part.and_then(|part| self.summary.parts.get(part));
                let _ = write!(
                    text,
                    "</ul>\n<h2>{}</h2>\n<ul>\n",
                    name.map(|name| escaped(name)).unwrap_or_default()
                );
            }
            if chapter.depth > 0 && self.chapter_above(index) != self.chapter_above(self.current) {
                continue;
            }
            let class = if chapter.depth > 0 { " class=\"below\"" } else { "" };
            let current = if index == self.current {
                " aria-current=\"page\""
            } else {
                ""
            };
            let place = self.place(chapter);
            let _ = writeln!(
                text,
                "<li{class}><a href=\"{place}\"{current}>{}</a></li>",
                titled(&chapter.title)
            );
        }
        text.push_str("</ul>\n</nav>\n");
        text
    }

    /// The chapter of the first level to which one belongs.
    fn chapter_above(&self, index: usize) -> Option<usize> {
        let until = &self.summary.chapters[..=index];
        until.iter().rposition(|chapter| chapter.depth == 0)
    }

    fn on_this_page(&self) -> String {
        let sections: Vec<&Section> = self
            .sections
            .iter()
            .filter(|section| section.level == HeadingLevel::H2)
            .collect();
        if sections.len() < SECTIONS_MIN {
            return String::new();
        }
        let mut text = String::from("<details class=\"sections\">\n<summary>On this page</summary>\n<ul>\n");
        for section in sections {
            let _ = writeln!(
                text,
                "<li><a href=\"#{}\">{}</a></li>",
                section.anchor,
                escaped(&section.title)
            );
        }
        text.push_str("</ul>\n</details>\n");
        text
    }

    /// Links to the pages before and after.
    fn around_links(&self) -> String {
        let chapters = &self.summary.chapters;
        let link = |chapter: Option<&Chapter>, relation: &str, word: &str| {
            let chapter = chapter?;
            let (place, title) = (self.place(chapter), titled(&chapter.title));
            Some(format!("<a rel=\"{relation}\" href=\"{place}\">{word}: {title}</a>\n"))
        };
        let before = self.current.checked_sub(1).and_then(|index| chapters.get(index));
        let before = link(before, "prev", "Before").unwrap_or_default();
        let after = link(chapters.get(self.current + 1), "next", "Next").unwrap_or_default();
        format!("<nav class=\"around\" aria-label=\"Pages before and after\">\n{before}{after}</nav>\n")
    }

    fn place(&self, chapter: &Chapter) -> String {
        format!("{}{}", self.up, output_of(&chapter.source()))
    }
}

/// A title in Markdown as HTML, without a paragraph around it.
fn titled(title: &str) -> String {
    let events = Parser::new(title);
    let inside = events.filter(|event| !matches!(event, Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph)));
    let mut text = String::new();
    push_html(&mut text, inside);
    text.trim().to_owned()
}

/// A title in Markdown without marks.
fn plain(title: &str) -> String {
    escaped(&title.replace('`', ""))
}

/// Text that cannot end an element or an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_its_neighbours_and_its_place() {
        let text =
            "# Summary\n[Start](README.md)\n# One\n- [A `x`](a.md)\n  - [B](a/b.md)\n- [C](c.md)\n  - [D](d.md)\n";
        let summary = Summary::parse(text).expect("a summary");
        let frame = Frame {
            book: "Book & Co",
            summary: &summary,
            current: 2,
            up: "../",
            sections: &[],
        };
        let page = frame.around("<h1>B</h1>\n");
        for expected in [
            "<title>B · Book &amp; Co</title>",
            "<li><a href=\"../a.html\">A <code>x</code></a></li>",
            "<li class=\"below\"><a href=\"../a/b.html\" aria-current=\"page\">B</a></li>",
            "<a rel=\"prev\" href=\"../a.html\">Before: A <code>x</code></a>",
            "<a rel=\"next\" href=\"../c.html\">Next: C</a>",
        ] {
            assert!(page.contains(expected), "{expected} is not in {page}");
        }
        assert!(
            !page.contains("d.html"),
            "what is below another chapter is left out: {page}"
        );
    }
}
