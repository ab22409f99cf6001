//! Keeping the tables in a document: what stands between the two markers of a section is replaced,
//! the rest stays.

use std::fs;
use std::path::Path;

use testkit::{Error, Result};

use crate::metric::Section;

/// The lines before and behind what belongs to `section`.
fn markers(section: Section) -> [String; 2] {
    let name = section.name();
    [
        format!("<!-- bench {name}: begin, written by ./dev bench-peers -->"),
        format!("<!-- bench {name}: end -->"),
    ]
}

/// Replaces what stands between the markers of `section` in the file at `path` by what `content`
/// makes of it.
pub(crate) fn refresh(path: &Path, section: Section, content: impl FnOnce(&str) -> String) -> Result<()> {
    let failed = |reason: &dyn std::fmt::Display| Error::Failed(format!("{}: {reason}", path.display()));
    let old = fs::read_to_string(path).map_err(|e| failed(&e))?;
    let new = replaced(&old, section, content)
        .ok_or_else(|| failed(&format!("the lines {} are missing", markers(section).join(" and "))))?;
    fs::write(path, new).map_err(|e| failed(&e))
}

fn replaced(document: &str, section: Section, content: impl FnOnce(&str) -> String) -> Option<String> {
    let [begin, end] = markers(section);
    let (before, rest) = document.split_once(&begin)?;
    let (old, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{}\n\n{end}{after}", content(old).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_marked_part_changes_and_again_the_same() {
        let [[begin, end], [root_begin, root_end]] = [Section::Http, Section::Root].map(markers);
        let other = format!("{root_begin}\nroot\n{root_end}\n");
        let old = format!("# Speed\n\n{begin}\nold\n{end}\n\nend\n{other}");
        let table = |before: &str| {
            assert_eq!(before, "\nold\n");
            "| a |\n".to_owned()
        };
        let new = replaced(&old, Section::Http, table).expect("markers are there");
        assert_eq!(new, format!("# Speed\n\n{begin}\n\n| a |\n\n{end}\n\nend\n{other}"));
        assert_eq!(replaced(&new, Section::Http, |_| "| a |\n".to_owned()), Some(new));
    }

    #[test]
    fn without_markers_nothing_is_written() {
        assert_eq!(replaced("# Speed\n", Section::Root, |_| "x".to_owned()), None);
    }
}
