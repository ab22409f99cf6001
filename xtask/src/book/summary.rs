//! The order of the manual: `docs/SUMMARY.md`, in the form of mdBook.

/// Spaces by which each level of a list is indented.
const INDENT: usize = 2;

/// A page in the order of the manual.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chapter {
    pub(crate) title: String,
    /// Relative to `docs/`.
    pub(crate) path: String,
    /// 0: at the first level.
    pub(crate) depth: usize,
    /// The part to which it belongs; `None`: before the first.
    pub(crate) part: Option<usize>,
    /// Its line in the summary.
    pub(crate) line: usize,
}

impl Chapter {
    /// The source, relative to the repository's root.
    pub(crate) fn source(&self) -> String {
        format!("{}{}", super::PAGES, self.path)
    }
}

/// Parts, and the chapters of all of them.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) parts: Vec<String>,
    pub(crate) chapters: Vec<Chapter>,
}

impl Summary {
    /// # Errors
    /// The line that is neither a heading nor a chapter.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut summary = Self::default();
        let mut headings = 0;
        for (index, line) in text.lines().enumerate() {
            let bare = line.trim();
            if bare.is_empty() || bare.starts_with("<!--") {
                continue;
            }
            if let Some(heading) = bare.strip_prefix("# ") {
                headings += 1;
                // The first is the summary's own.
                if headings > 1 {
                    summary.parts.push(heading.to_owned());
                }
                continue;
            }
            let item = bare.strip_prefix("- ").unwrap_or(bare);
            let chapter = chapter(item).ok_or_else(|| format!("line {}: no chapter: {bare}", index + 1))?;
            summary.chapters.push(Chapter {
                title: chapter.0.to_owned(),
                path: chapter.1.to_owned(),
                depth: (line.len() - line.trim_start().len()) / INDENT,
                part: summary.parts.len().checked_sub(1),
                line: index + 1,
            });
        }
        Ok(summary)
    }
}

/// Title and path in `[TITLE](PATH)`.
fn chapter(item: &str) -> Option<(&str, &str)> {
    let (title, path) = item.strip_prefix('[')?.strip_suffix(')')?.rsplit_once("](")?;
    Some((title, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_levels_are_read() {
        let text = "# Summary\n\n[Start](README.md)\n\n# Part\n<!-- later -->\n- [A](a.md)\n  - [B `x`](b/b.md)\n";
        let summary = Summary::parse(text).expect("a summary");
        assert_eq!(summary.parts, ["Part"]);
        let read: Vec<_> = summary
            .chapters
            .iter()
            .map(|chapter| {
                (
                    chapter.title.as_str(),
                    chapter.path.as_str(),
                    chapter.depth,
                    chapter.part,
                )
            })
            .collect();
        let expected = [
            ("Start", "README.md", 0, None),
            ("A", "a.md", 0, Some(0)),
            ("B `x`", "b/b.md", 1, Some(0)),
        ];
        assert_eq!(read, expected);
        assert_eq!(summary.chapters[2].source(), "docs/b/b.md");
    }

    #[test]
    fn other_lines_are_refused() {
        let refusal = Summary::parse("# Summary\nwords\n").expect_err("no chapter");
        assert_eq!(refusal, "line 2: no chapter: words");
    }
}
