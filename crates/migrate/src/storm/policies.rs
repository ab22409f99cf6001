//! Fine-grained policies: `storm.authz.policies` of `application.yml`.

use super::service::Service;
use crate::migration::Migration;
use crate::rights::plain_path;
use crate::source::Source;
use crate::yaml::Node;

/// What a policy is about: a set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    pub(crate) list: bool,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) delete: bool,
}

impl Actions {
    /// Whether they have all that is in others.
    pub(crate) fn cover(self, other: Self) -> bool {
        (self.list || !other.list)
            && (self.read || !other.read)
            && (self.write || !other.write)
            && (self.delete || !other.delete)
    }

    /// Whether they share one.
    pub(crate) fn meet(self, other: Self) -> bool {
        self.list && other.list || self.read && other.read || self.write && other.write || self.delete && other.delete
    }

    /// Those that are in either.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            list: self.list || other.list,
            read: self.read || other.read,
            write: self.write || other.write,
            delete: self.delete || other.delete,
        }
    }

    /// Words of `may`. Storing files includes no deleting, and reading no listing.
    pub(crate) fn may(self) -> Vec<&'static str> {
        let mut words = Vec::new();
        match (self.list, self.read) {
            (true, true) => words.push("read"),
            (true, false) => words.push("list"),
            (false, true) => words.extend(["READ_METADATA", "DOWNLOAD"]),
            (false, false) => {}
        }
        match (self.write, self.delete) {
            (true, true) => words.extend(["write", "delete"]),
            (true, false) => words.extend(["create", "INSERT", "REPLACE"]),
            (false, true) => words.push("delete"),
            (false, false) => {}
        }
        words
    }

    /// Words of `may_not`.
    pub(crate) fn may_not(self) -> Vec<&'static str> {
        let all = [
            (self.list, "list"),
            (self.read, "DOWNLOAD"),
            (self.write, "write"),
            (self.delete, "delete"),
        ];
        all.into_iter()
            .filter(|(is_in, _)| *is_in)
            .map(|(_, word)| word)
            .collect()
    }
}

/// Who a policy is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The words of a rule.
    Words(Vec<String>),
    /// Clients without a credential, and only these.
    Anonymous,
    /// Members of this VO by a map of names.
    VoMap(String),
    /// A rule cannot name them; why.
    Unknown(String),
}

/// A policy.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// The name of its storage area.
    pub(crate) area: String,
    pub(crate) is_permit: bool,
    pub(crate) actions: Actions,
    /// Its paths within the area: each with everything below. A denial begins at the directory in
    /// front of a pattern; a permission with a pattern that is no `/**` is left out.
    pub(crate) paths: Vec<String>,
    pub(crate) who: Vec<Who>,
    pub(crate) source: Source,
}

/// Reads the policies, in their order.
pub(crate) fn read(service: &Service, migration: &mut Migration) -> Vec<Policy> {
    let mut policies = Vec::new();
    for (application, node) in service.nodes("storm.authz.policies") {
        for item in node.items() {
            let text = |key: &str| item.get(key).and_then(Node::text).unwrap_or_default();
            let words = format!("policy: {} ({})", text("description"), text("effect"));
            let source = Source::new(&application.file, item.line, &words);
            policies.push(policy(item, source, migration));
        }
    }
    policies
}

fn policy(item: &Node, source: Source, migration: &mut Migration) -> Policy {
    let text = |key: &str| item.get(key).and_then(Node::text).unwrap_or_default();
    let is_permit = text("effect").eq_ignore_ascii_case("permit");
    let mut actions = Actions::default();
    for action in texts(item, "actions") {
        match action.to_ascii_lowercase().as_str() {
            "list" => actions.list = true,
            "read" => actions.read = true,
            "write" => actions.write = true,
            "delete" => actions.delete = true,
            "all" => {
                actions = Actions {
                    list: true,
                    read: true,
                    write: true,
                    delete: true,
                }
            }
            other => {
                let words = format!("the action {other} is not known");
                migration.unknown(&source, words, "Correct it there first");
            }
        }
    }
    let mut paths = Vec::new();
    let named = texts(item, "paths");
    if named.is_empty() {
        paths.push("/".to_owned());
    }
    for path in named {
        match within(path, is_permit) {
            Some(path) => paths.push(path),
            None if !is_permit => paths.push("/".to_owned()),
            None => {
                let words = format!("the path {path} is a pattern that a rule does not have, and is left out");
                migration.in_part(
                    &source,
                    words,
                    "Write a rule for a directory; /dir/** means all that is below",
                );
            }
        }
    }
    let principals = item.get("principals").map(Node::items).unwrap_or_default();
    Policy {
        area: text("sa").to_owned(),
        is_permit,
        actions,
        paths,
        who: principals.into_iter().map(who).collect(),
        source,
    }
}

fn texts<'a>(item: &'a Node, key: &str) -> Vec<&'a str> {
    let items = item.get(key).map(Node::items).unwrap_or_default();
    items.into_iter().filter_map(Node::text).collect()
}

/// A path of Ant's patterns as one that means everything below it.
fn within(path: &str, is_permit: bool) -> Option<String> {
    if path == "/**" || path == "**" {
        return Some("/".to_owned());
    }
    if let Some(directory) = path
        .strip_suffix("/**")
        .filter(|directory| !directory.contains(['*', '?', '{']))
    {
        return plain_path(directory);
    }
    if is_permit {
        return None;
    }
    // A denial may take more: it begins above the first component with a pattern.
    let end = path.find(['*', '?', '{']).unwrap_or(path.len());
    let directory = match end == path.len() {
        true => path,
        false => path[..end].rfind('/').map_or("/", |slash| &path[..slash]),
    };
    plain_path(if directory.is_empty() { "/" } else { directory })
}

fn who(item: &Node) -> Who {
    let parameter = |key: &str| item.get(&format!("params.{key}")).and_then(Node::text);
    let kind = item.get("type").or(Some(item)).and_then(Node::text).unwrap_or_default();
    let words = |words: Option<Vec<String>>| {
        words.map_or_else(|| Who::Unknown(format!("a parameter of {kind} is missing")), Who::Words)
    };
    let issuer = parameter("iss").map(|issuer| format!("issuer:{issuer}"));
    match kind {
        "anyone" => Who::Words(vec!["anyone".to_owned()]),
        "any-authenticated-user" => Who::Words(vec!["authenticated".to_owned()]),
        "anonymous" => Who::Anonymous,
        "vo" => words(parameter("vo").map(|vo| vec![format!("vo:{vo}")])),
        "vo-map" => parameter("vo").map_or_else(|| words(None), |vo| Who::VoMap(vo.to_owned())),
        "fqan" => words(parameter("fqan").map(|fqan| vec![format!("fqan:{fqan}")])),
        "jwt-issuer" => words(issuer.map(|issuer| vec![issuer])),
        "jwt-subject" => words(
            parameter("sub")
                .zip(issuer)
                .map(|(sub, issuer)| vec![format!("subject:{sub}"), issuer]),
        ),
        "jwt-group" => {
            let group = parameter("group").filter(|group| group.starts_with('/'));
            let group = group.map(|group| format!("group:{group}"));
            match group.zip(issuer) {
                Some((group, issuer)) => Who::Words(vec![group, issuer]),
                None => Who::Unknown("groups of tokens begin with a slash here".to_owned()),
            }
        }
        "x509-subject" => match parameter("subject").and_then(one_line) {
            Some(name) => Who::Words(vec![format!("dn:{name}")]),
            None => Who::Unknown("the name of the certificate is not understood".to_owned()),
        },
        other => Who::Unknown(format!("a rule cannot name clients by \"{other}\"")),
    }
}

/// A name of RFC 2253, `CN=x,O=y`, as `/O=y/CN=x`.
pub(crate) fn one_line(name: &str) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut part = String::new();
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        match character {
            // Escapes of bytes would need the encoding of the name.
            '\\' => part.push(characters.next().filter(|next| !next.is_ascii_hexdigit())?),
            ',' => parts.push(std::mem::take(&mut part)),
            '+' | '"' | '#' => return None,
            other => part.push(other),
        }
    }
    parts.push(part);
    let mut line = String::new();
    for part in parts.iter().rev() {
        let (kind, value) = part.trim().split_once('=')?;
        if kind.is_empty() || value.is_empty() || value.contains('/') {
            return None;
        }
        line.push_str(&format!("/{}={value}", kind.trim()));
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rfc_2253_are_turned() {
        assert_eq!(
            one_line("CN=test0,O=IGI, C=IT").as_deref(),
            Some("/C=IT/O=IGI/CN=test0")
        );
        assert_eq!(
            one_line("CN=Doe\\, Jane,DC=org").as_deref(),
            Some("/DC=org/CN=Doe, Jane")
        );
        for bad in ["", "CN", "CN=a+UID=b", "CN=\\C3\\A4", "CN=a/b,O=c"] {
            assert_eq!(one_line(bad), None, "{bad}");
        }
    }

    #[test]
    fn permissions_have_no_patterns_and_denials_take_more() {
        assert_eq!(within("/dir/**", true).as_deref(), Some("/dir"));
        assert_eq!(within("/**", true).as_deref(), Some("/"));
        for pattern in ["/dir/*", "/dir/*/x/**", "/file", "/a?/**"] {
            assert_eq!(within(pattern, true), None, "{pattern}");
        }
        assert_eq!(within("/dir/*/x", false).as_deref(), Some("/dir"));
        assert_eq!(within("/d*", false).as_deref(), Some("/"));
        assert_eq!(within("/file", false).as_deref(), Some("/file"));
    }

    #[test]
    fn words_of_rights_give_no_more_than_the_actions() {
        let read = Actions {
            read: true,
            ..Actions::default()
        };
        assert_eq!(read.may(), ["READ_METADATA", "DOWNLOAD"]);
        let write = Actions { write: true, ..read };
        assert!(!write.may().contains(&"write") && write.cover(read) && !read.cover(write) && read.meet(write));
    }
}
