//! What a listing leaves out, so that a directory never looks emptier than it is.

use std::fmt;

/// Names in a directory that a listing leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unlisted {
    /// Names that no path can contain: not UTF-8, with control characters, or too long. No request
    /// can name them.
    pub names: LeftOut,
    /// Symbolic links that lead nowhere or out of the export. A request can name them, to remove
    /// them.
    pub links: LeftOut,
    /// Nodes of a cluster whose part is missing: they do not answer, or failed.
    pub nodes: LeftOut,
    /// What a node of a cluster says of its own part.
    pub remark: Option<String>,
}

/// Names left out for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many there are.
    pub count: u64,
    /// One of them, with `\x` and two digits for each byte that is not printable ASCII.
    pub example: Option<String>,
}

impl LeftOut {
    /// A count without an example.
    #[must_use]
    pub fn of(count: u64) -> Self {
        Self { count, example: None }
    }

    /// Counts a name.
    pub fn add(&mut self, name: &[u8]) {
        self.count += 1;
        self.example.get_or_insert_with(|| name.escape_ascii().to_string());
    }
}

impl Unlisted {
    /// Whether nothing is left out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.count == 0 && self.links.count == 0 && self.nodes.count == 0 && self.remark.is_none()
    }
}

impl fmt::Display for Unlisted {
    /// Empty when nothing is left out.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WHY: &str = "not UTF-8, with control characters, or too long";
        let names = match self.names.count {
            0 => String::new(),
            1 => format!("1 name that no path can hold ({WHY}) is not shown"),
            count => format!("{count} names that no path can hold ({WHY}) are not shown"),
        };
        let links = match self.links.count {
            0 => String::new(),
            1 => "1 symbolic link that leads nowhere or out of the export is not shown".to_owned(),
            count => format!("{count} symbolic links that lead nowhere or out of the export are not shown"),
        };
        let nodes = match (self.nodes.count, &self.nodes.example) {
            (0, _) => String::new(),
            (1, Some(node)) => format!("what only the node {node} has is not shown, because it does not answer"),
            (1, None) => "what only one node has is not shown, because it does not answer".to_owned(),
            (count, _) => format!("what only {count} nodes have is not shown, because they do not answer"),
        };
        let remark = self.remark.clone().unwrap_or_default();
        let parts = [names, links, nodes, remark]
            .into_iter()
            .filter(|part| !part.is_empty());
        formatter.write_str(&parts.collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_sentence() {
        let told = |names, links| {
            Unlisted {
                names: LeftOut::of(names),
                links: LeftOut::of(links),
                ..Unlisted::default()
            }
            .to_string()
        };
        assert_eq!(told(0, 0), "");
        assert_eq!(
            told(1, 0),
            "1 name that no path can hold (not UTF-8, with control characters, or too long) is not shown"
        );
        assert_eq!(
            told(0, 1),
            "1 symbolic link that leads nowhere or out of the export is not shown"
        );
        assert_eq!(
            told(2, 3),
            "2 names that no path can hold (not UTF-8, with control characters, or too long) are not shown; \
             3 symbolic links that lead nowhere or out of the export are not shown"
        );
        let mut nodes = Unlisted::default();
        nodes.nodes.add(b"https://d1:1094");
        assert!(!nodes.is_empty());
        assert_eq!(
            nodes.to_string(),
            "what only the node https://d1:1094 has is not shown, because it does not answer"
        );
    }
}
