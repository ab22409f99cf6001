//! Which files belong to the project.
//!
//! Git knows best: tracked files, and new ones that no ignore rule covers, so that a file is
//! checked before it is committed. Outside of a git work tree (a release archive) every file is
//! taken except the build directories.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories that hold results of builds and runs, never sources.
const BUILD_DIRECTORIES: [&str; 3] = ["target", ".git", "artifacts"];

/// Paths of the project's files, relative to `root`, with `/` between components, sorted.
///
/// # Errors
/// When a directory cannot be read.
pub(crate) fn files(root: &Path) -> io::Result<Vec<String>> {
    let mut paths = match from_git(root) {
        Some(paths) => paths,
        None => from_directory(root)?,
    };
    paths.retain(|path| root.join(path).is_file());
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn from_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let listing = String::from_utf8(output.stdout).ok()?;
    Some(listing.split_terminator('\0').map(str::to_owned).collect())
}

fn from_directory(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut waiting: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if entry.file_type()?.is_dir() {
                if !BUILD_DIRECTORIES.iter().any(|skipped| name == *skipped) {
                    waiting.push(entry.path());
                }
            } else if let Ok(relative) = entry.path().strip_prefix(root) {
                found.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_walk_leaves_out_build_directories() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = from_directory(root).expect("the crate's own directory can be read");
        assert!(found.iter().any(|path| path == "src/tree.rs"), "{found:?}");
        assert!(!found.iter().any(|path| path.starts_with("target/")));
    }
}
