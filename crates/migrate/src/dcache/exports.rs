//! One tree for all doors: our server shows the same files by both protocols.

use super::doors::{Anonymous, Door};
use crate::document::DocumentKind;
use crate::migration::Migration;
use crate::rights::{NewRule, READ_UNLISTED, common_paths, is_below};
use crate::source::Source;

/// Where the files will be, unless the administrator chooses another directory.
const DIRECTORY: &str = "/srv/crossload";

/// The tree that the doors show.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// The directory of dCache's namespace that is `/` in URLs.
    root: String,
}

impl Tree {
    /// The tree below a directory of the namespace.
    pub(crate) fn new(root: &str) -> Self {
        Self { root: root.to_owned() }
    }

    /// The path in URLs of a directory of the namespace: `/` for one that holds the whole tree,
    /// `None` for one outside of it.
    pub(crate) fn url(&self, directory: &str) -> Option<String> {
        if is_below(&self.root, directory) {
            return Some("/".to_owned());
        }
        if !is_below(directory, &self.root) {
            return None;
        }
        let rest = &directory[self.root.trim_end_matches('/').len()..];
        Some(rest.to_owned())
    }

    fn urls(&self, directories: &[String]) -> Vec<String> {
        directories.iter().filter_map(|directory| self.url(directory)).collect()
    }
}

/// Writes the exports. What only some doors allow is left out: an export is the same for both
/// protocols and all addresses.
pub(crate) fn write(doors: &[Door], migration: &mut Migration) -> Option<Tree> {
    let first = doors.first()?;
    let tree = Tree::new(&first.root);
    let (merged, others): (Vec<&Door>, Vec<&Door>) = doors.iter().partition(|door| door.root == first.root);
    for door in others {
        let words = format!(
            "its root {} differs from {} of the first door, and this server has one tree",
            door.root, first.root
        );
        migration.in_part(&door.source, words, "Run a second instance for it (crossload@.service)");
    }
    let mut readable = tree.urls(&first.readable);
    let mut writable = tree.urls(&first.writable);
    for door in &merged[1..] {
        readable = common_paths(&readable, &tree.urls(&door.readable));
        writable = common_paths(&writable, &tree.urls(&door.writable));
    }
    let writable = common_paths(&writable, &readable);
    let anonymous = merged
        .iter()
        .map(|door| door.anonymous)
        .min()
        .unwrap_or(Anonymous::None);
    tell_differences(&tree, &merged, &readable, &writable, anonymous, migration);
    let deeper = writable.iter().filter(|path| !readable.contains(path));
    for path in readable.iter().chain(deeper) {
        let may_change = writable.iter().any(|whole| is_below(path, whole));
        export(path, may_change, anonymous, &first.source, migration);
    }
    if readable.is_empty() {
        let words = "no directory is open at all doors, so nothing is exported";
        migration.in_part(&first.source, words, "Write the exports by hand");
    }
    Some(tree)
}

fn export(path: &str, may_change: bool, anonymous: Anonymous, source: &Source, migration: &mut Migration) {
    let export = migration.document(DocumentKind::Endpoint).add("export");
    export.note = Some(
        "dCache's pools keep files under their PNFS IDs, so their directories cannot be served: copy the tree into \
         this directory with its owners and modes, or set remote to the URL of the WebDAV door instead."
            .to_owned(),
    );
    export.set("path", path, source);
    export.set(
        "directory",
        format!("{DIRECTORY}{}", path.trim_end_matches('/')),
        source,
    );
    if !may_change {
        export.set("read_only", true, source);
    }
    if anonymous >= Anonymous::Read {
        export.set("anonymous", "read", source);
    }
    for entry in export.entries.iter_mut().skip(1) {
        entry.sources.clear();
    }
    if anonymous == Anonymous::Unlisted {
        NewRule::may(vec!["anyone".to_owned()], path, READ_UNLISTED).add(migration, source);
    }
}

/// A remark for each door that allowed more than all doors together.
fn tell_differences(
    tree: &Tree,
    doors: &[&Door],
    readable: &[String],
    writable: &[String],
    anonymous: Anonymous,
    migration: &mut Migration,
) {
    let covers = |paths: &[String], path: &String| paths.iter().any(|whole| is_below(path, whole));
    for door in doors {
        let name = door.protocol.service();
        if tree.urls(&door.readable).iter().any(|path| !covers(readable, path)) {
            let words = format!("this {name} door shows more than other doors, and only what all show is exported");
            migration.in_part(&door.source, words, "Add an [[export]], or a second instance");
        }
        if tree.urls(&door.writable).iter().any(|path| !covers(writable, path)) {
            let words = format!(
                "this {name} door lets clients write where another door does not, so these exports are read only"
            );
            let advice = "Remove read_only to let clients that rules allow it write by both protocols";
            migration.in_part(&door.source, words, advice);
        }
        if door.anonymous > anonymous {
            let words = format!("this {name} door lets clients without a credential do more than another door");
            migration.in_part(
                &door.source,
                words,
                "Set anonymous in [[export]] if they may read by both protocols",
            );
        }
        if door.anonymous == Anonymous::Full && anonymous == Anonymous::Full {
            let words =
                "clients without a credential may write in directories that are open to all; here they may read";
            migration.in_part(&door.source, words, "Set anonymous = \"write\" if they should");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_the_namespace_have_paths_in_urls() {
        let tree = Tree::new("/pnfs/data");
        assert_eq!(tree.url("/pnfs/data/atlas").as_deref(), Some("/atlas"));
        assert_eq!(tree.url("/pnfs/data").as_deref(), Some("/"));
        assert_eq!(tree.url("/").as_deref(), Some("/"));
        assert_eq!(tree.url("/pnfs/database"), None);
        assert_eq!(Tree::new("/").url("/atlas").as_deref(), Some("/atlas"));
        assert_eq!(Tree::new("/").url("/").as_deref(), Some("/"));
    }
}
