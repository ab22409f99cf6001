//! What a session of dCache may see: `omnisession.conf`, and the roots of accounts.

use super::maps::{Account, Principal};
use crate::source::Source;

/// What is said of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// The directory that the client sees as `/`.
    pub(crate) root: Option<String>,
    /// The directory that it is confined to.
    pub(crate) prefix: Option<String>,
    pub(crate) is_read_only: bool,
    pub(crate) has_upload_limit: bool,
}

impl Attributes {
    /// Whether they restrict the client.
    pub(crate) fn restrict(&self) -> bool {
        let is_narrow = |path: &Option<String>| path.as_ref().is_some_and(|path| path != "/");
        self.is_read_only || is_narrow(&self.root) || is_narrow(&self.prefix)
    }

    /// The directory in which the client may do something; `None` if none remains.
    pub(crate) fn directory(&self) -> Option<&str> {
        let root = self.root.as_deref().unwrap_or("/");
        let prefix = self.prefix.as_deref().unwrap_or("/");
        match (
            crate::rights::is_below(prefix, root),
            crate::rights::is_below(root, prefix),
        ) {
            (true, _) => Some(prefix),
            (false, true) => Some(root),
            (false, false) => None,
        }
    }
}

/// A line of `omnisession.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionLine {
    /// Who it is about; `None` for `DEFAULT`.
    pub(crate) of: Option<Principal>,
    /// What it says; `None` if an attribute is not understood, for which dCache refuses the login.
    pub(crate) attributes: Option<Attributes>,
    pub(crate) source: Source,
}

/// Reads an `omnisession.conf`.
pub(crate) fn parse(file: &str, text: &str) -> Vec<SessionLine> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let source = Source::new(file, index + 1, line);
        let (of, rest) = match line.strip_prefix("DEFAULT ") {
            Some(rest) => (None, rest),
            None => match predicate(line) {
                Some((of, rest)) => (Some(of), rest),
                None => {
                    let of = Some(Principal::new("unknown", line));
                    let attributes = None;
                    lines.push(SessionLine { of, attributes, source });
                    continue;
                }
            },
        };
        lines.push(SessionLine {
            of,
            attributes: attributes(rest),
            source,
        });
    }
    lines
}

/// `kind:value`, or `kind:"a value"`, and what is behind it.
fn predicate(line: &str) -> Option<(Principal, &str)> {
    let (kind, rest) = line.split_once(':')?;
    let (value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => rest.split_once(' ').unwrap_or((rest, "")),
    };
    (!value.is_empty()).then(|| (Principal::new(kind, value), rest))
}

fn attributes(text: &str) -> Option<Attributes> {
    let mut attributes = Attributes::default();
    for word in text.split_whitespace() {
        match word.split_once(':') {
            None if word == "read-only" => attributes.is_read_only = true,
            Some(("root", path)) if path.starts_with('/') => attributes.root = Some(path.to_owned()),
            Some(("prefix", path)) if path.starts_with('/') => attributes.prefix = Some(path.to_owned()),
            Some(("home", path)) if path.starts_with('/') => {}
            Some(("max-upload", _)) => attributes.has_upload_limit = true,
            _ => return None,
        }
    }
    Some(attributes)
}

/// What all session plug-ins together know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    /// Accounts, of `session … authzdb` and `kpwd`.
    pub(crate) accounts: Vec<Account>,
    /// Lines of `omnisession.conf`, if the plug-in is there.
    pub(crate) lines: Option<Vec<SessionLine>>,
}

impl Sessions {
    /// The session of a client with these names; `None` if dCache refuses the login.
    pub(crate) fn of(&self, names: &[Principal]) -> Option<Attributes> {
        if let Some(account) = account_of(&self.accounts, names) {
            return Some(Attributes {
                root: Some(account.root.clone()),
                is_read_only: account.is_read_only,
                ..Attributes::default()
            });
        }
        let Some(lines) = &self.lines else {
            // With other plug-ins, such as nsswitch, clients see the whole tree.
            return self.accounts.is_empty().then(Attributes::default);
        };
        let is_about = |line: &&SessionLine| line.of.as_ref().is_none_or(|of| names.contains(of));
        let about: Vec<&SessionLine> = lines.iter().filter(is_about).collect();
        if about.is_empty() {
            return None;
        }
        // DEFAULT comes last, wherever it stands.
        let (defaults, named): (Vec<&SessionLine>, Vec<&SessionLine>) =
            about.into_iter().partition(|line| line.of.is_none());
        let mut all = Attributes::default();
        for line in named.into_iter().chain(defaults) {
            let said = line.attributes.as_ref()?;
            all.root = all.root.or_else(|| said.root.clone());
            all.prefix = all.prefix.or_else(|| said.prefix.clone());
            all.is_read_only |= said.is_read_only;
            all.has_upload_limit |= said.has_upload_limit;
        }
        Some(all)
    }
}

/// The account of a client with these names: that of its user name, else of its first group.
pub(crate) fn account_of<'a>(accounts: &'a [Account], names: &[Principal]) -> Option<&'a Account> {
    let with = |kind: &str| {
        let mut named = names.iter().filter(|name| name.kind == kind);
        named.find_map(|name| accounts.iter().find(|account| account.name == name.value))
    };
    with("username").or_else(|| with("group"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(text: &str) -> Sessions {
        Sessions {
            accounts: Vec::new(),
            lines: Some(parse("o", text)),
        }
    }

    #[test]
    fn the_first_line_that_says_something_counts_and_default_comes_last() {
        let all = sessions(
            "DEFAULT root:/ home:/\nusername:ann prefix:/people/ann read-only\ndn:\"/CN=a b\" root:/data\nusername:bad x:y\n",
        );
        let of = |kind: &str, value: &str| all.of(&[Principal::new(kind, value)]);
        let ann = of("username", "ann").unwrap();
        assert_eq!(
            (ann.directory(), ann.is_read_only, ann.restrict()),
            (Some("/people/ann"), true, true)
        );
        assert_eq!(of("dn", "/CN=a b").unwrap().directory(), Some("/data"));
        assert_eq!(
            of("username", "other").unwrap(),
            Attributes {
                root: Some("/".to_owned()),
                ..Attributes::default()
            }
        );
        assert_eq!(of("username", "bad"), None);
        assert_eq!(sessions("username:x root:/\n").of(&[]), None);
        assert_eq!(Sessions::default().of(&[]), Some(Attributes::default()));
    }

    #[test]
    fn root_and_prefix_outside_of_each_other_leave_nothing() {
        let all = sessions("DEFAULT root:/a prefix:/b\n");
        assert_eq!(all.of(&[]).unwrap().directory(), None);
    }
}
