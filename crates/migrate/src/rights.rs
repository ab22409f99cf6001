//! Rules of ours that follow from lines of another program. Whatever stands there, it cannot become
//! a pattern that holds for more people or paths.

use policy::{Area, Who};
use toml::Value;
use types::LogicalPath;

use crate::document::DocumentKind;
use crate::migration::Migration;
use crate::source::Source;

/// What someone needs who may change files.
pub(crate) const CHANGE: &[&str] = &["read", "write", "delete"];
/// What someone needs who may read files.
pub(crate) const READ: &[&str] = &["read"];
/// Reading files without listing directories.
pub(crate) const READ_UNLISTED: &[&str] = &["READ_METADATA", "DOWNLOAD"];
/// All changes of files, for `may_not`.
pub(crate) const CHANGES: &[&str] = &["create", "write", "delete", "manage"];
/// Everything.
pub(crate) const ALL: &[&str] = &["all"];

/// A rule to add.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewRule {
    /// The words of `who`.
    pub(crate) who: Vec<String>,
    /// Where it holds: this path and what is below.
    pub(crate) path: String,
    /// Where it does not hold.
    pub(crate) except: Vec<String>,
    /// What it gives.
    pub(crate) may: Vec<&'static str>,
    /// What it takes away.
    pub(crate) may_not: Vec<&'static str>,
    /// The local user.
    pub(crate) user: Option<String>,
    /// Whether the rules behind it do not hold for the same clients.
    pub(crate) is_last: bool,
    /// What the administrator should know, above it.
    pub(crate) note: Option<String>,
}

impl NewRule {
    /// A rule that gives something below a path.
    pub(crate) fn may(who: Vec<String>, path: &str, may: &[&'static str]) -> Self {
        Self {
            who,
            path: path.to_owned(),
            may: may.to_vec(),
            ..Self::default()
        }
    }

    /// A rule that takes something away below a path.
    pub(crate) fn may_not(who: Vec<String>, path: &str, may_not: &[&'static str]) -> Self {
        Self {
            who,
            path: path.to_owned(),
            may_not: may_not.to_vec(),
            ..Self::default()
        }
    }

    /// Adds it. A rule with invalid words or paths is not added, and the result is `false`.
    pub(crate) fn add(self, migration: &mut Migration, source: &Source) -> bool {
        let says_something = !self.may.is_empty() || !self.may_not.is_empty() || self.user.is_some();
        let is_valid = says_something
            && !self.who.is_empty()
            && self.who.iter().all(|word| is_exact(word))
            && plain_path(&self.path).is_some()
            && self.except.iter().all(|path| plain_path(path).is_some());
        if !is_valid {
            return false;
        }
        let rule = migration.document(DocumentKind::Endpoint).add("rule");
        rule.note = self.note;
        rule.set("who", one_or_more(&self.who), source);
        rule.set("path", self.path, source);
        if !self.except.is_empty() {
            rule.set("except", self.except, source);
        }
        if !self.may.is_empty() {
            rule.set("may", self.may, source);
        }
        if !self.may_not.is_empty() {
            rule.set("may_not", self.may_not, source);
        }
        if let Some(user) = self.user {
            rule.set("user", user, source);
        }
        if self.is_last {
            rule.set("last", true, source);
        }
        // The origin stands once, above the rule's first key.
        for entry in rule.entries.iter_mut().skip(1) {
            entry.sources.clear();
        }
        true
    }
}

fn one_or_more(words: &[String]) -> Value {
    match words {
        [word] => Value::from(word.as_str()),
        words => Value::from(words.to_vec()),
    }
}

/// Whether a word of `who` is valid, and holds for nothing but what it names.
pub(crate) fn is_exact(word: &str) -> bool {
    let has_pattern = word.starts_with("fqan:") && word.contains('*');
    !has_pattern && Who::parse(word).is_ok()
}

/// A path that means itself and everything below, in its plain form; `None` if it could mean
/// something else in a rule, or cannot be a path here.
pub(crate) fn plain_path(text: &str) -> Option<String> {
    let path = LogicalPath::parse(text).ok()?;
    let is_plain = !path.as_str().contains(['*', '{', '}']) && Area::parse(path.as_str()).is_ok();
    is_plain.then(|| path.as_str().to_owned())
}

/// Whether a path is another one or below it; both are plain.
pub(crate) fn is_below(path: &str, other: &str) -> bool {
    let other = other.trim_end_matches('/');
    path.strip_prefix(other)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The paths that are in both sets, each with all that is below it.
pub(crate) fn common_paths(one: &[String], other: &[String]) -> Vec<String> {
    let mut common: Vec<String> = Vec::new();
    for a in one {
        for b in other {
            let deeper = match (is_below(a, b), is_below(b, a)) {
                (true, _) => a,
                (false, true) => b,
                (false, false) => continue,
            };
            if !common.contains(deeper) {
                common.push(deeper.clone());
            }
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_a_pattern_becomes_no_rule() {
        let source = Source::new("f", 1, "x");
        let mut migration = Migration::default();
        let mut add =
            |who: &str, path: &str| NewRule::may(vec![who.to_owned()], path, READ).add(&mut migration, &source);
        assert!(add("vo:atlas", "/data") && add("dn:/CN=a*b", "/"));
        for (who, path) in [
            ("fqan:/atlas/*", "/data"),
            ("vo:", "/data"),
            ("vo:atlas", "/data/*"),
            ("vo:atlas", "/data/{user}"),
            ("vo:atlas", "data"),
            ("vo:atlas", "/../x"),
        ] {
            assert!(!add(who, path), "{who} {path}");
        }
        assert!(!NewRule::may(Vec::new(), "/", READ).add(&mut migration, &source));
        assert!(!NewRule::may(vec!["anyone".to_owned()], "/", &[]).add(&mut migration, &source));
        let text = migration.document(DocumentKind::Endpoint).render("f");
        assert_eq!(text.matches("[[rule]]").count(), 2, "{text}");
    }

    #[test]
    fn common_paths_are_the_deeper_ones() {
        let paths = |list: &[&str]| list.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let common = |one: &[&str], other: &[&str]| common_paths(&paths(one), &paths(other));
        assert_eq!(common(&["/"], &["/a", "/b"]), ["/a", "/b"]);
        assert_eq!(common(&["/a", "/b/c"], &["/b", "/ab"]), ["/b/c"]);
        assert_eq!(common(&["/a"], &["/a"]), ["/a"]);
        assert!(common(&["/a"], &[]).is_empty());
    }
}
