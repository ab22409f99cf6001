//! How far symbolic links may lead in a request that was judged by another server.

use std::sync::Arc;

use storage::{LinkChecker, LinkUse, refused_behind_link};
use types::{ErrorCode, LogicalPath, Result};

use crate::exports::PathTarget;

/// The limit as text if links lead nowhere else.
const NOWHERE: &str = "none";

/// How far symbolic links may lead. It takes rights away and gives none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkLimit {
    /// No link is followed.
    Nowhere,
    /// To this path and what is below it.
    Within(LogicalPath),
}

impl LinkLimit {
    /// Reads a limit. What cannot be read lets links lead nowhere.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match LogicalPath::parse(text) {
            Ok(tree) if text.starts_with('/') => Self::Within(tree),
            _ => Self::Nowhere,
        }
    }

    /// The limit as text. It can be put into a header and into parameters as it is: a tree whose
    /// name would have to be encoded there is not named.
    #[must_use]
    pub fn text(&self) -> &str {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
        match self {
            Self::Within(tree) if tree.as_str().bytes().all(is_plain) => tree.as_str(),
            _ => NOWHERE,
        }
    }

    fn allows(&self, path: &LogicalPath) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Within(tree) => path.is_within(tree),
        }
    }
}

impl PathTarget {
    /// The same, where links lead no further than this.
    #[must_use]
    pub fn limiting_links(self, limit: Option<&LinkLimit>) -> Self {
        match (self, limit) {
            (Self::Stored(mut export_path), Some(limit)) => {
                let limit = LimitedLinks {
                    limit: limit.clone(),
                    export: export_path.export.clone(),
                    rights: export_path.store.link_checker(),
                };
                export_path.store = export_path.store.with_link_checker(Some(Arc::new(limit)));
                Self::Stored(export_path)
            }
            (target, _) => target,
        }
    }
}

/// A limit besides the rights of the client.
#[derive(Debug)]
struct LimitedLinks {
    limit: LinkLimit,
    export: LogicalPath,
    rights: Option<Arc<dyn LinkChecker>>,
}

impl LinkChecker for LimitedLinks {
    fn check(&self, reached: &LogicalPath, used: LinkUse<'_>) -> Result<()> {
        let leads_away = |inner: &LogicalPath| !self.limit.allows(&inner.under(&self.export));
        let is_target_away = matches!(used, LinkUse::Rename { target, .. } if leads_away(target));
        if leads_away(reached) || is_target_away {
            let error = refused_behind_link(ErrorCode::Forbidden);
            return Err(error.with_detail("a symbolic link leads to a path for which the client was not judged"));
        }
        match &self.rights {
            Some(rights) => rights.check(reached, used),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> LogicalPath {
        LogicalPath::parse(text).unwrap()
    }

    #[test]
    fn a_limit_says_the_same_at_the_other_end() {
        for limit in [LinkLimit::Nowhere, LinkLimit::Within(path("/data/a-b_c.d"))] {
            assert_eq!(LinkLimit::parse(limit.text()), limit);
        }
        for tree in ["/data/a&b", "/data/a b", "/data/\u{e4}", "/data/a%2fb"] {
            let limit = LinkLimit::Within(path(tree));
            assert_eq!(LinkLimit::parse(limit.text()), LinkLimit::Nowhere, "{tree}");
        }
        for strange in ["", "data", "/data/../x", "none"] {
            assert_eq!(LinkLimit::parse(strange), LinkLimit::Nowhere, "{strange}");
        }
    }

    #[test]
    fn both_ends_of_a_rename_stay_within_the_limit() {
        let (near, far) = (path("/a/f"), path("/b/f"));
        let limited = LimitedLinks {
            limit: LinkLimit::Within(path("/data/a")),
            export: path("/data"),
            rights: None,
        };
        let to = |target| LinkUse::Rename {
            asked: &near,
            inode: 1,
            target,
            replaces: false,
        };
        assert!(limited.check(&near, LinkUse::Read).is_ok());
        assert!(limited.check(&far, LinkUse::Read).is_err());
        assert!(limited.check(&near, to(&near)).is_ok());
        assert!(limited.check(&near, to(&far)).is_err());
        assert!(limited.check(&far, to(&near)).is_err());
    }
}
