//! Keeping the table in a document: what stands between two markers is replaced, the rest stays.

use std::fs;
use std::path::Path;

use testkit::{Error, Result};

const BEGIN: &str = "<!-- bench: begin, written by ./dev bench -->";
const END: &str = "<!-- bench: end -->";

/// Replaces what stands between the markers of the file at `path` by `content`.
pub(crate) fn refresh(path: &Path, content: &str) -> Result<()> {
    let failed = |reason: &dyn std::fmt::Display| Error::Failed(format!("{}: {reason}", path.display()));
    let old = fs::read_to_string(path).map_err(|e| failed(&e))?;
    let new = replaced(&old, content).ok_or_else(|| failed(&format!("the lines {BEGIN} and {END} are missing")))?;
    fs::write(path, new).map_err(|e| failed(&e))
}

fn replaced(document: &str, content: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", content.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_marked_part_changes_and_again_the_same() {
        let old = format!("# Speed\n\n{BEGIN}\nold\n{END}\n\nend\n");
        let new = replaced(&old, "| a |\n").expect("markers are there");
        assert_eq!(new, format!("# Speed\n\n{BEGIN}\n\n| a |\n\n{END}\n\nend\n"));
        assert_eq!(replaced(&new, "| a |\n"), Some(new));
    }

    #[test]
    fn without_markers_nothing_is_written() {
        assert_eq!(replaced("# Speed\n", "x"), None);
    }
}
