//! "Did you mean": the known word nearest to an unknown one.

/// Most edits (insertion, deletion, replacement) for a word to count as a misspelling.
const EDITS_MAX: usize = 3;

/// The known word that `word` most likely misspells.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = word.to_ascii_lowercase().replace('-', "_");
    let known: Vec<&str> = known.into_iter().collect();
    // The unit or the kind was left out: "cache_size" of "cache_size_bytes".
    let begun = |candidate: &&&str| {
        let rest = candidate.strip_prefix(plain.as_str());
        rest.is_some_and(|rest| rest.starts_with('_')) && plain.contains('_')
    };
    if let Some(whole) = known.iter().filter(begun).min_by_key(|candidate| candidate.len()) {
        return Some(whole);
    }
    known
        .into_iter()
        .map(|candidate| (distance(&plain, candidate), candidate))
        // For short words allow fewer edits, because three edits turn them into anything.
        .filter(|(edits, candidate)| *edits <= EDITS_MAX.min(candidate.len().div_ceil(2)))
        .min()
        .map(|(_, candidate)| candidate)
}

/// The Levenshtein distance of two words, in bytes.
fn distance(first: &str, second: &str) -> usize {
    let mut row: Vec<usize> = (0..=second.len()).collect();
    for (line, left) in first.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, right) in second.bytes().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[second.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_are_recognised_and_other_words_are_not() {
        let known = ["listen", "certificate", "key", "admin_listen"];
        assert_eq!(nearest("listne", known), Some("listen"));
        assert_eq!(nearest("certificates", known), Some("certificate"));
        assert_eq!(nearest("admin-listen", known), Some("admin_listen"));
        assert_eq!(nearest("Listen", known), Some("listen"));
        assert_eq!(nearest("colour", known), None);
        let keys = ["remote_key", "remote_token_file", "cache_size_bytes"];
        assert_eq!(nearest("remote_token", keys), Some("remote_token_file"));
        assert_eq!(nearest("cache_size", keys), Some("cache_size_bytes"));
        assert_eq!(nearest("xyz", known), None);
    }
}
