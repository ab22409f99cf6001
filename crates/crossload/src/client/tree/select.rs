//! Which entries of a tree a command is about: globs, age and size.

use std::time::{SystemTime, UNIX_EPOCH};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::client::session::Info;
use crate::command_line::SelectOptions;
use crate::failure::Failure;

/// The entries that the user wants.
#[derive(Debug)]
pub(crate) struct Selection {
    included: Option<GlobSet>,
    excluded: GlobSet,
    /// Excluded directories: patterns that end with a slash match nothing else.
    excluded_directories: GlobSet,
    min_size_bytes: u64,
    /// Files that were last changed before are not wanted, in seconds since 1970.
    changed_after_s: Option<i64>,
}

impl Selection {
    /// What the options select now.
    ///
    /// # Errors
    /// A pattern that is none.
    pub(crate) fn of(options: &SelectOptions) -> Result<Self, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::new(options, i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
    }

    /// What the options select; `now_s` is in seconds since 1970.
    ///
    /// # Errors
    /// A pattern that is none.
    fn new(options: &SelectOptions, now_s: i64) -> Result<Self, Failure> {
        let only_directories = |pattern: &&String| pattern.ends_with('/');
        let excluded = options.exclude.iter();
        let age_s = options
            .max_age
            .map(|age| i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
        Ok(Self {
            included: match options.include.is_empty() {
                true => None,
                false => Some(globs(options.include.iter())?),
            },
            excluded: globs(excluded.clone().filter(|pattern| !only_directories(pattern)))?,
            excluded_directories: globs(excluded.filter(only_directories))?,
            min_size_bytes: options.min_size.unwrap_or(0),
            changed_after_s: age_s.map(|age_s| now_s.saturating_sub(age_s)),
        })
    }

    /// Whether no entry is left out.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.is_everything() && self.excluded.is_empty() && self.excluded_directories.is_empty()
    }

    /// Whether all files are wanted that are not excluded, so that empty directories are, too.
    pub(crate) fn is_everything(&self) -> bool {
        self.included.is_none() && self.min_size_bytes == 0 && self.changed_after_s.is_none()
    }

    /// Whether the directory with these names below the top of the tree is entered.
    pub(crate) fn enters(&self, names: &[String]) -> bool {
        (1..=names.len()).all(|count| self.wants_name(&names[..count].join("/"), true))
    }

    /// Whether the patterns want an entry; `path` is relative to the top of the tree.
    fn wants_name(&self, path: &str, is_directory: bool) -> bool {
        if self.excluded.is_match(path) || (is_directory && self.excluded_directories.is_match(path)) {
            return false;
        }
        is_directory || self.included.as_ref().is_none_or(|included| included.is_match(path))
    }

    /// Whether an entry is wanted. What its server does not say of it excludes no file.
    pub(crate) fn wants(&self, path: &str, info: &Info) -> bool {
        if !self.wants_name(path, info.is_directory) {
            return false;
        }
        let is_recent = |after_s: i64| info.modified_s.is_none_or(|modified_s| modified_s >= after_s);
        info.is_directory
            || info.size_bytes.is_none_or(|bytes| bytes >= self.min_size_bytes)
                && self.changed_after_s.is_none_or(is_recent)
    }
}

/// Compiles patterns. One with a slash before its end is relative to the top of the tree; another
/// matches names in all directories.
fn globs<'a>(patterns: impl Iterator<Item = &'a String>) -> Result<GlobSet, Failure> {
    let invalid = |cause: &globset::Error| Failure::invalid(cause.to_string());
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let plain = pattern.trim_end_matches('/');
        let pattern = match plain.strip_prefix('/') {
            Some(anchored) => anchored.to_owned(),
            None if plain.contains('/') => plain.to_owned(),
            None => format!("**/{plain}"),
        };
        let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
        set.add(glob.map_err(|cause| invalid(&cause))?);
    }
    set.build().map_err(|cause| invalid(&cause))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn selection(include: &[&str], exclude: &[&str]) -> Selection {
        let owned = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let options = SelectOptions {
            include: owned(include),
            exclude: owned(exclude),
            ..SelectOptions::default()
        };
        Selection::new(&options, 0).unwrap()
    }

    #[test]
    fn patterns_match_names_or_paths_and_exclusion_wins() {
        let named = selection(&["*.root", "raw/**"], &["*.tmp.root", "/old", "cache/"]);
        for (path, wanted) in [
            ("a.root", true),
            ("deep/er/a.root", true),
            ("a.tmp.root", false),
            ("deep/a.tmp.root", false),
            ("a.txt", false),
            ("raw/a.txt", true),
            ("deep/raw/a.txt", false),
            ("old", false),
            ("cache", false),
        ] {
            assert_eq!(named.wants_name(path, false), wanted, "{path}");
        }
        for (path, wanted) in [
            ("old", false),
            ("deep/old", true),
            ("cache", false),
            ("deep/cache", false),
        ] {
            assert_eq!(named.wants_name(path, true), wanted, "{path}");
        }
        assert!(
            selection(&[], &["cache/"]).wants_name("cache", false),
            "only a directory"
        );
        let below = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert!(named.enters(&below(&["deep", "old"])) && named.enters(&[]));
        assert!(!named.enters(&below(&["deep", "cache", "er"])));
        assert!(selection(&["a*b"], &[]).wants_name("axb", false));
        assert!(
            !selection(&["/a*b"], &[]).wants_name("a/b", false),
            "* is within a name"
        );
    }

    #[test]
    fn files_are_selected_by_age_and_size_and_directories_are_not() {
        let options = SelectOptions {
            min_size: Some(10),
            max_age: Some(Duration::from_secs(100)),
            ..SelectOptions::default()
        };
        let selection = Selection::new(&options, 1000).unwrap();
        let wants = |size_bytes, modified_s, is_directory| {
            let info = Info {
                size_bytes,
                modified_s,
                is_directory,
                ..Info::default()
            };
            selection.wants("name", &info)
        };
        assert!(wants(Some(10), Some(900), false));
        assert!(!wants(Some(9), Some(900), false));
        assert!(!wants(Some(10), Some(899), false));
        assert!(wants(None, None, false), "what is unknown excludes nothing");
        assert!(wants(Some(0), Some(0), true));
        assert!(!selection.is_everything());
    }
}
