//! YAML: texts, lists and mappings with their lines. Anchors and aliases are refused, because a
//! short file could stand for a huge one.

use saphyr_parser::{Event, Parser};

use crate::limits::{DEPTH_MAX, LINES_MAX};

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The line, counted from one.
    pub(crate) line: usize,
    pub(crate) value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<Node>),
    /// Keys in their order.
    Map(Vec<(String, Node)>),
}

/// Why a file is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) words: String,
}

/// A list or mapping that is not closed yet.
struct Open {
    node: Node,
    /// The key whose value comes next.
    key: Option<String>,
}

/// Reads a file: a node for each document in it.
pub(crate) fn parse(text: &str) -> Result<Vec<Node>, Fault> {
    let mut documents = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Fault {
            line: error.marker().line(),
            words: error.info().to_owned(),
        })?;
        let line = span.start.line();
        let fault = |words: &str| Fault {
            line,
            words: words.to_owned(),
        };
        if line > LINES_MAX {
            return Err(fault("the file has too many lines"));
        }
        let value = match event {
            Event::Scalar(text, ..) => Value::Text(text.into_owned()),
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if open.len() == DEPTH_MAX {
                    return Err(fault("lists and mappings are nested too deep"));
                }
                let value = match event {
                    Event::SequenceStart(..) => Value::List(Vec::new()),
                    _ => Value::Map(Vec::new()),
                };
                let node = Node { line, value };
                open.push(Open { node, key: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(closed) = open.pop() else { continue };
                put(closed.node, &mut open, &mut documents)?;
                continue;
            }
            Event::Alias(_) => return Err(fault("aliases are not read")),
            _ => continue,
        };
        put(Node { line, value }, &mut open, &mut documents)?;
    }
    Ok(documents)
}

/// Puts a node into what is open, or among the documents.
fn put(node: Node, open: &mut [Open], documents: &mut Vec<Node>) -> Result<(), Fault> {
    let Some(parent) = open.last_mut() else {
        documents.push(node);
        return Ok(());
    };
    match &mut parent.node.value {
        Value::List(items) => items.push(node),
        Value::Map(pairs) => match (parent.key.take(), node.value) {
            (Some(key), value) => pairs.push((key, Node { line: node.line, value })),
            (None, Value::Text(key)) => parent.key = Some(key),
            (None, _) => {
                return Err(Fault {
                    line: node.line,
                    words: "a key is no text".to_owned(),
                });
            }
        },
        Value::Text(_) => {}
    }
    Ok(())
}

impl Node {
    /// The text, if it is one and says something.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) if !text.is_empty() && text != "~" && text != "null" => Some(text),
            _ => None,
        }
    }

    /// The items of a list; one alone if it is no list.
    pub(crate) fn items(&self) -> Vec<&Node> {
        match &self.value {
            Value::List(items) => items.iter().collect(),
            Value::Text(_) if self.text().is_none() => Vec::new(),
            _ => vec![self],
        }
    }

    /// The value of a key. Names fit in any spelling that Spring takes: `enable-http2`,
    /// `enableHttp2`; a path of keys may be written with dots.
    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        let Value::Map(pairs) = &self.value else {
            return None;
        };
        for (key, node) in pairs {
            let (key, path) = (relaxed(key), relaxed(path));
            if key == path {
                return Some(node);
            }
            let rest = path.strip_prefix(&key).and_then(|rest| rest.strip_prefix('.'));
            if let Some(found) = rest.and_then(|rest| node.get(rest)) {
                return Some(found);
            }
        }
        None
    }

    /// All texts with the paths of their keys; items of lists are left out.
    pub(crate) fn leaves(&self) -> Vec<(String, &Node)> {
        let mut leaves = Vec::new();
        let mut open = vec![(String::new(), self)];
        while let Some((path, node)) = open.pop() {
            match &node.value {
                Value::Map(pairs) => {
                    for (key, node) in pairs.iter().rev() {
                        let dot = if path.is_empty() { "" } else { "." };
                        open.push((format!("{path}{dot}{key}"), node));
                    }
                }
                Value::Text(_) | Value::List(_) => leaves.push((path, node)),
            }
        }
        leaves
    }
}

/// A key without what its spellings differ in.
pub(crate) fn relaxed(key: &str) -> String {
    let plain = key.chars().filter(|character| !matches!(character, '-' | '_'));
    plain.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_every_spelling() {
        let text = "a:\n  enable-http2: true\n  list:\n  - x\n  - y: 1\nb.c: two\n---\nd: ~\n";
        let documents = parse(text).unwrap();
        let first = &documents[0];
        assert_eq!(first.get("a.enableHttp2").and_then(Node::text), Some("true"));
        assert_eq!(first.get("b.c").and_then(Node::text), Some("two"));
        let items = first.get("a.list").unwrap().items();
        assert_eq!(
            (items.len(), items[1].line, items[1].get("y").unwrap().text()),
            (2, 5, Some("1"))
        );
        assert_eq!(documents[1].get("d").unwrap().text(), None);
        let leaves: Vec<String> = first.leaves().into_iter().map(|(path, _)| path).collect();
        assert_eq!(leaves, ["a.enable-http2", "a.list", "b.c"]);
    }

    #[test]
    fn aliases_and_depth_are_limited() {
        assert_eq!(parse("a: &x [1]\nb: *x\n").unwrap_err().line, 2);
        assert!(parse(&"[".repeat(DEPTH_MAX + 1)).is_err());
        assert!(parse("a: [1\nb").is_err());
        assert!(parse("").unwrap().is_empty());
    }
}
