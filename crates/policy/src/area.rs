//! Where a rule holds: a part of the tree of logical paths.

use std::fmt;

use types::LogicalPath;

/// What stands for the name of the local user.
const USER: &str = "{user}";

/// A part of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Area {
    /// This path and everything below it.
    Below(LogicalPath),
    /// Every path that begins with this text, on the boundary of a component or not.
    BeginningWith(String),
    /// Every path that begins with one text, the name of the local user and the other text.
    OfUser(String, String),
}

impl Area {
    /// Reads `/data` (that and everything below), `/data/*` (only what is inside), `/data/x*` (what
    /// begins so) or `/users/{user}` (in either of these forms, with the name of the local user in
    /// its place).
    ///
    /// # Errors
    /// What is wrong, in words for the rule's author.
    pub fn parse(text: &str) -> Result<Self, String> {
        let unusable = |error: types::Error| format!("\"{text}\" cannot be used as a path: {}", error.public());
        let fixed = text.strip_suffix('*').unwrap_or(text);
        if fixed.contains('*') {
            return Err(format!("\"{text}\": a star may stand at the end only"));
        }
        if let Some((before, after)) = fixed.split_once(USER) {
            let whole = LogicalPath::parse(&fixed.replace(USER, "user")).map_err(unusable)?;
            if after.contains(USER) || !before.ends_with('/') || !(after.is_empty() || after.starts_with('/')) {
                return Err(format!("\"{text}\": {USER} stands for one whole component, once"));
            }
            if whole.as_str().len() + usize::from(fixed.ends_with('/')) != fixed.len() + "user".len() - USER.len() {
                return Err(format!("\"{text}\" is not written plainly"));
            }
            return Ok(Self::OfUser(
                before.to_owned(),
                text[before.len() + USER.len()..].to_owned(),
            ));
        }
        let path = LogicalPath::parse(fixed).map_err(unusable)?;
        if fixed.len() == text.len() {
            return Ok(Self::Below(path));
        }
        let slash = if fixed.ends_with('/') && !path.is_root() {
            "/"
        } else {
            ""
        };
        Ok(Self::BeginningWith(format!("{path}{slash}")))
    }

    /// The whole tree.
    #[must_use]
    pub fn everything() -> Self {
        Self::Below(LogicalPath::root())
    }

    /// Whether a path, in its plain form, lies in it.
    pub(crate) fn holds(&self, path: &str, user: Option<&str>) -> bool {
        match self {
            Self::Below(area) => is_below(path, area.as_str()),
            Self::BeginningWith(text) => path.starts_with(text.as_str()),
            Self::OfUser(before, after) => {
                let rest = path
                    .strip_prefix(before.as_str())
                    .zip(user.filter(|user| is_component(user)))
                    .and_then(|(rest, user)| rest.strip_prefix(user));
                rest.is_some_and(|rest| match after.strip_suffix('*') {
                    Some("") => true,
                    Some(after) => rest.starts_with(after),
                    None => is_below(rest, after),
                })
            }
        }
    }

    /// A directory below which everything lies that this holds.
    pub(crate) fn anchor(&self) -> &str {
        let text = match self {
            Self::Below(path) => return path.as_str(),
            Self::BeginningWith(text) => text.as_str(),
            Self::OfUser(before, _) => before.as_str(),
        };
        match text.rfind('/') {
            Some(0) | None => "/",
            Some(end) => &text[..end],
        }
    }

    /// The first of the paths that it holds, when that is below `path`: there the rights may
    /// change. It need not be the path of anything that can exist.
    pub(crate) fn edge_below(&self, path: &LogicalPath, user: Option<&str>) -> Option<String> {
        let edge = match self {
            Self::Below(area) if !is_below(area.as_str(), path.as_str()) => return None,
            Self::Below(area) => area.as_str().to_owned(),
            Self::BeginningWith(text) => text.clone(),
            Self::OfUser(before, after) => {
                format!(
                    "{before}{}{}",
                    user.filter(|user| is_component(user))?,
                    after.trim_end_matches('*')
                )
            }
        };
        let inside = is_below(&edge, path.as_str());
        // Of paths that only begin so, the first is none that another area could mean by its name.
        let is_beginning = self.is_beginning() && edge != path.as_str();
        let edge = if is_beginning { format!("{edge}\0") } else { edge };
        inside.then_some(edge)
    }

    fn is_beginning(&self) -> bool {
        match self {
            Self::Below(_) => false,
            Self::BeginningWith(_) => true,
            Self::OfUser(_, after) => after.ends_with('*'),
        }
    }
}

impl fmt::Display for Area {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below(path) => write!(out, "{path}"),
            Self::BeginningWith(text) => write!(out, "{text}*"),
            Self::OfUser(before, after) => write!(out, "{before}{USER}{after}"),
        }
    }
}

/// Whether a path is the other or below it. `/` holds everything.
fn is_below(path: &str, area: &str) -> bool {
    let area = if area == "/" { "" } else { area };
    path.strip_prefix(area)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a user's name is one component of a path.
fn is_component(user: &str) -> bool {
    !user.is_empty() && user != "." && user != ".." && !user.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_end_where_they_say() {
        for (area, path, inside) in [
            ("/", "/", true),
            ("/", "/x", true),
            ("/data", "/data", true),
            ("/data", "/data/x", true),
            ("/data/", "/data", true),
            ("/data", "/database", false),
            ("/data/*", "/data", false),
            ("/data/*", "/data/x", true),
            ("/data*", "/database", true),
            ("/data/x*", "/data/xy/z", true),
            ("/data/x*", "/data/y", false),
            ("/*", "/x", true),
            ("/users/{user}", "/users/ann", true),
            ("/users/{user}", "/users/ann/x", true),
            ("/users/{user}", "/users/anna", false),
            ("/users/{user}*", "/users/anna", true),
            ("/users/{user}/*", "/users/ann", false),
            ("/users/{user}/*", "/users/ann/x", true),
            ("/users/{user}/in", "/users/ann/in/x", true),
            ("/users/{user}/in", "/users/ann/index", false),
            ("/users/{user}", "/users/bob", false),
        ] {
            let parsed = Area::parse(area).unwrap();
            assert_eq!(parsed.holds(path, Some("ann")), inside, "{area} {path}");
            assert!(!inside || is_below(path, parsed.anchor()), "{area} {path}");
        }
        assert!(!Area::parse("/users/{user}").unwrap().holds("/users/", None));
        assert!(!Area::parse("/users/{user}").unwrap().holds("/users/../x", Some("..")));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            "",
            "data",
            "/a/../b",
            "/a*b",
            "/a/**",
            "/users/x{user}",
            "/users/{user}x",
            "/{user}/{user}",
            "/users//{user}",
            "*",
        ] {
            assert!(Area::parse(bad).is_err(), "{bad}");
        }
        for text in [
            "/",
            "/data",
            "/data/*",
            "/data*",
            "/users/{user}",
            "/users/{user}/*",
            "/users/{user}/x*",
        ] {
            assert_eq!(Area::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn edges_are_where_rights_change() {
        let edge = |area: &str, path: &str| {
            Area::parse(area)
                .unwrap()
                .edge_below(&LogicalPath::parse(path).unwrap(), Some("ann"))
        };
        assert_eq!(edge("/a/b", "/a").as_deref(), Some("/a/b"));
        assert_eq!(edge("/a", "/a/b"), None);
        assert_eq!(edge("/a/*", "/a").as_deref(), Some("/a/\0"));
        assert_eq!(edge("/a/x*", "/a").as_deref(), Some("/a/x\0"));
        assert_eq!(edge("/a*", "/a").as_deref(), Some("/a"));
        assert_eq!(edge("/h/{user}", "/h").as_deref(), Some("/h/ann"));
        assert_eq!(edge("/ab", "/a"), None);
    }
}
