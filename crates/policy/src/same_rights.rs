//! The part of the tree around a path in which the rights of a client are the same.

use credentials::Grant;
use types::LogicalPath;

use crate::area::Area;
use crate::policy::Policy;

/// A path at which rights may change.
struct Edge<'a> {
    path: &'a str,
    /// They change for this path and everything below it alike; otherwise somewhere below it.
    is_exact: bool,
}

impl Policy {
    /// A tree around a path in which a client has the same rights everywhere, whatever they are;
    /// `None` if nothing is known but the rights on that very path. `grant` is what its credential
    /// grants by itself.
    ///
    /// Another server that follows symbolic links in the client's name stays within the rights of
    /// the client if it stays within this tree.
    #[must_use]
    pub fn same_rights_around(&self, grant: Option<&Grant>, path: &LogicalPath) -> Option<LogicalPath> {
        if grant.is_some_and(|grant| !grant.except.is_empty()) {
            return None;
        }
        let edges = self.edges(grant);
        let is_below = |path: &str, tree: &str| {
            let rest = path.strip_prefix(tree.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let around = || edges.iter().filter(|edge| is_below(path.as_str(), edge.path));
        if around().any(|edge| !edge.is_exact) {
            return None;
        }
        let mut least = around().map(|edge| edge.path).max_by_key(|tree| tree.len())?;
        // Larger trees contain edges of others.
        while edges
            .iter()
            .any(|edge| edge.path != least && is_below(edge.path, least))
        {
            let rest = path.as_str().get(least.trim_end_matches('/').len() + 1..)?;
            let end = path.as_str().len() - rest.len() + rest.find('/').unwrap_or(rest.len());
            least = path.as_str().get(..end)?;
            if rest.is_empty() {
                return None;
            }
        }
        LogicalPath::parse(least).ok()
    }

    fn edges<'a>(&'a self, grant: Option<&'a Grant>) -> Vec<Edge<'a>> {
        let exact = |path: &'a LogicalPath| Edge {
            path: path.as_str(),
            is_exact: true,
        };
        let area = |area: &'a Area| Edge {
            path: area.anchor(),
            is_exact: matches!(area, Area::Below(_)),
        };
        let exports = self.exports().iter().map(|export| exact(&export.path));
        let areas = self
            .rules()
            .iter()
            .flat_map(|rule| rule.except.iter().chain([&rule.area]));
        let scopes = grant.into_iter().flat_map(|grant| &grant.scopes);
        let scopes = scopes.map(|scope| Edge {
            path: scope.path.as_str(),
            is_exact: !scope.inside_only,
        });
        exports.chain(areas.map(area)).chain(scopes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExportRules, Rule};

    fn path(text: &str) -> LogicalPath {
        LogicalPath::parse(text).unwrap()
    }

    fn policy(areas: &[&str]) -> Policy {
        let export = ExportRules {
            path: path("/data"),
            ..ExportRules::default()
        };
        let rule = |area: &&str| Rule {
            area: Area::parse(area).unwrap(),
            ..Rule::default()
        };
        Policy::new(vec![export], areas.iter().map(rule).collect())
    }

    #[test]
    fn the_tree_ends_where_rights_may_change() {
        for (areas, asked, expected) in [
            (vec![], "/data/a/f", Some("/data")),
            (vec!["/"], "/data/a/f", Some("/data")),
            (vec!["/data/a"], "/data/a/b/f", Some("/data/a")),
            (vec!["/data/a"], "/data/b/c/f", Some("/data/b")),
            (vec!["/data/a"], "/data/ab", Some("/data/ab")),
            (vec!["/data/a/x"], "/data/a/b/f", Some("/data/a/b")),
            (vec!["/data/a/x", "/data/a"], "/data/a/x/f", Some("/data/a/x")),
            (vec!["/data/a"], "/data", None),
            (vec!["/data/a/x"], "/data/a", None),
            (vec!["/data/u*"], "/data/a/f", None),
            (vec!["/data/u/*"], "/data/a/f", Some("/data/a")),
            (vec!["/data/u/{user}"], "/data/u/jane/f", None),
        ] {
            let found = policy(&areas).same_rights_around(None, &path(asked));
            assert_eq!(found, expected.map(path), "{areas:?} {asked}");
        }
    }

    #[test]
    fn the_scopes_of_a_token_are_edges_too() {
        let grant = |texts: &[&str]| Grant {
            scopes: texts
                .iter()
                .map(|text| credentials::Scope {
                    activities: credentials::Activities::READ,
                    path: path(text),
                    inside_only: text.ends_with('/') && *text != "/",
                })
                .collect(),
            expires_s: None,
            addresses: Vec::new(),
            max_upload_bytes: None,
            except: Vec::new(),
            subject: None,
        };
        for (scopes, expected) in [
            (vec!["/"], Some("/data")),
            (vec!["/data/a"], Some("/data/a")),
            (vec!["/data/b"], Some("/data/a")),
            (vec!["/data/a/"], None),
        ] {
            let found = policy(&[]).same_rights_around(Some(&grant(&scopes)), &path("/data/a/b/f"));
            assert_eq!(found, expected.map(path), "{scopes:?}");
        }
    }
}
