//! Finds files of the server inside exports, where clients could read its secrets or change the
//! rules.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use config::{Configuration, KeyPath, NamedFile, Purpose, Sections as _};

use super::exported::is_writable;
use crate::failure::Failure;

/// A file or directory of the server inside an export.
pub(crate) struct Exposed {
    /// What it is, in words.
    pub(crate) what: &'static str,
    pub(crate) path: PathBuf,
    /// The URL path and directory of the export.
    pub(crate) export: String,
    pub(crate) directory: PathBuf,
    /// The configuration key that names it; `None` for the configuration file itself.
    pub(crate) place: Option<KeyPath>,
}

impl std::fmt::Display for Exposed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, path, directory) = (self.what, self.path.display(), self.directory.display());
        write!(
            formatter,
            "{what} {path} is inside {directory}, which is exported as {}: clients could access it",
            self.export
        )
    }
}

/// A file or directory that clients must not read or change.
pub(crate) struct Guarded {
    what: &'static str,
    path: PathBuf,
    place: Option<KeyPath>,
    /// Clients may read it, but not change it.
    is_public: bool,
}

/// Finds all files of the server inside exports. `file` is the main configuration file.
pub(crate) fn find(configuration: &Configuration, file: Option<&Path>) -> Vec<Exposed> {
    let directory = file
        .and_then(config::directory_of)
        .filter(|directory| directory.is_dir());
    let parts = configuration.read_from.iter().skip(1).cloned();
    let own = file.map(Path::to_owned).into_iter().chain(directory).chain(parts);
    let own = own.map(|path| Guarded {
        what: "the configuration",
        path,
        place: None,
        is_public: true,
    });
    among(guarded(configuration.files()).into_iter().chain(own), configuration)
}

/// Those of `all` that are inside an export.
pub(crate) fn among(all: impl IntoIterator<Item = Guarded>, configuration: &Configuration) -> Vec<Exposed> {
    let mut found = Vec::new();
    for guarded in all {
        let holders = holders(&guarded.path);
        let export = configuration.exports.iter().find(|export| {
            let can_reach = !guarded.is_public || is_writable(export, configuration);
            let own = export.directory.as_deref().and_then(identity);
            can_reach && own.is_some_and(|own| holders.contains(&own))
        });
        if let Some((export, directory)) = export.and_then(|export| Some((export, export.directory.clone()?))) {
            found.push(Exposed {
                what: guarded.what,
                path: guarded.path,
                export: export.path.to_string(),
                directory,
                place: guarded.place,
            });
        }
    }
    found
}

/// The files of a configuration to protect from clients: they must not read secrets, nor change
/// rules, mappings or trusted authorities.
pub(crate) fn guarded(named: Vec<NamedFile>) -> Vec<Guarded> {
    named
        .into_iter()
        .filter(|file| file.purpose != Purpose::Payload)
        .map(|file| Guarded {
            what: file.what,
            path: file.path,
            place: Some(file.place),
            is_public: !file.purpose.is_secret(),
        })
        .collect()
}

/// The secret files.
pub(crate) fn secrets(configuration: &Configuration) -> impl Iterator<Item = PathBuf> {
    let files = configuration.files().into_iter();
    files.filter(|file| file.purpose.is_secret()).map(|file| file.path)
}

/// A secret file with several hard links. Any of them can lie inside an export; finding it would
/// take a search of the whole file system.
pub(crate) struct Linked {
    what: &'static str,
    pub(crate) path: PathBuf,
    links: u64,
    pub(crate) place: KeyPath,
}

impl std::fmt::Display for Linked {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, path, links) = (self.what, self.path.display(), self.links);
        write!(
            formatter,
            "{what} {path} has {links} names (hard links): another link may be inside an export"
        )
    }
}

/// Secret files with several hard links, if an export is on the same file system.
pub(crate) fn linked(configuration: &Configuration) -> Vec<Linked> {
    let devices: Vec<u64> = configuration
        .exports
        .iter()
        .filter_map(|export| identity(export.directory.as_deref()?))
        .map(|(device, _)| device)
        .collect();
    let linked = |secret: NamedFile| {
        let facts = std::fs::metadata(&secret.path).ok()?;
        let may_be_exported = facts.is_file() && facts.nlink() > 1 && devices.contains(&facts.dev());
        may_be_exported.then(|| Linked {
            what: secret.what,
            path: secret.path,
            links: facts.nlink(),
            place: secret.place,
        })
    };
    let files = configuration.files().into_iter();
    let secrets = files.filter(|file| file.purpose.is_secret());
    secrets.filter_map(linked).collect()
}

/// Refuses a configuration that exposes files of the server to clients.
///
/// # Errors
/// All such files.
pub(crate) fn refuse(configuration: &Configuration, file: Option<&Path>) -> Result<(), Failure> {
    let found = find(configuration, file);
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    Err(Failure::invalid(format!(
        "{}; move these files out of all exports",
        lines.join("; ")
    )))
}

/// All directories above a file, and the file itself if it is a directory. Symbolic links count
/// with their targets too. The file need not exist yet.
fn holders(path: &Path) -> Vec<(u64, u64)> {
    let by_name = path.parent().map(|parent| match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    });
    let places = [
        by_name.and_then(|parent| parent.canonicalize().ok()),
        path.canonicalize().ok(),
    ];
    let places = places.iter().flatten();
    places
        .flat_map(|place| place.ancestors())
        .filter_map(identity)
        .collect()
}

/// Device and inode, which do not depend on the name or mount of a directory.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.dev(), facts.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(directory: &Path, text: &str) -> Configuration {
        let export = "[[export]]\npath = \"/d\"\ndirectory = \"data\"\nanonymous = \"read\"\n";
        Configuration::parse(&format!("{export}{text}"), directory, "test").unwrap()
    }

    fn names(configuration: &Configuration, file: Option<&Path>) -> Vec<&'static str> {
        let found = find(configuration, file);
        found
            .iter()
            .map(|one| one.place.map_or("", |place| place.key.name))
            .collect()
    }

    #[test]
    fn every_secret_file_in_an_export_is_found_and_refused() {
        let site = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(site.path().join("data/own/state")).unwrap();
        let cases = [
            ("[server]\ncertificate = \"c\"\nkey = \"data/key\"\n", "key"),
            ("[macaroons]\nsecret_file = \"data/own/secret\"\n", "secret_file"),
            (
                "[macaroons]\nsecret_file = \"s\"\nold_secret_files = [\"data/old\"]\n",
                "old_secret_files",
            ),
            (
                "[delegation]\ndirectory = \"data/own\"\nkey_file = \"k\"\n",
                "directory",
            ),
            ("[delegation]\ndirectory = \"own\"\nkey_file = \"data/k\"\n", "key_file"),
            ("[hand_over]\nkey_file = \"data/k\"\n", "key_file"),
            ("[tokens]\nstate_directory = \"data/own/state\"\n", "state_directory"),
            ("[log]\nfile = \"data/log\"\n", "file"),
        ];
        for (text, key) in cases {
            let configuration = configuration(site.path(), text);
            assert_eq!(names(&configuration, None), [key], "{text}");
            let words = refuse(&configuration, None).expect_err("refused").words;
            assert!(words.contains("exported as /d") && words.contains("data"), "{words}");
        }
        let outside = configuration(
            site.path(),
            "[macaroons]\nsecret_file = \"secret\"\n[log]\nfile = \"log\"\n",
        );
        assert!(refuse(&outside, None).is_ok());
    }

    #[test]
    fn a_secret_with_a_second_hard_link_is_reported() {
        let site = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(site.path().join("data")).unwrap();
        std::fs::write(site.path().join("secret"), "").unwrap();
        let configuration = configuration(site.path(), "[macaroons]\nsecret_file = \"secret\"\n");
        assert!(linked(&configuration).is_empty());
        std::fs::hard_link(site.path().join("secret"), site.path().join("data/innocent")).unwrap();
        let found = linked(&configuration);
        assert!(found[0].to_string().contains("has 2 names"), "{}", found[0]);
    }

    #[test]
    fn links_and_other_names_of_the_export_hide_nothing() {
        use std::os::unix::fs::symlink;
        let site = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(site.path().join("data/inner")).unwrap();
        std::fs::write(site.path().join("data/inner/secret"), "").unwrap();
        std::fs::write(site.path().join("outside"), "").unwrap();
        symlink(site.path().join("data/inner"), site.path().join("elsewhere")).unwrap();
        symlink(site.path().join("data/inner/secret"), site.path().join("link")).unwrap();
        symlink(site.path().join("outside"), site.path().join("data/link")).unwrap();
        for name in [
            "elsewhere/secret",
            "elsewhere/not-there-yet",
            "link",
            "data/link",
            "data/../data/secret",
        ] {
            let configuration = configuration(site.path(), &format!("[macaroons]\nsecret_file = {name:?}\n"));
            assert_eq!(names(&configuration, None), ["secret_file"], "{name}");
        }
    }

    #[test]
    fn a_directory_of_the_configuration_in_an_export_is_refused() {
        let site = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(site.path().join("data/inner")).unwrap();
        std::os::unix::fs::symlink(site.path().join("data/inner"), site.path().join("c.d")).unwrap();
        let main = site.path().join("c.toml");
        let text = "[[export]]\npath = \"/d\"\ndirectory = \"data\"\nanonymous = \"write\"\n";
        std::fs::write(&main, text).unwrap();
        let configuration = Configuration::load(&main).unwrap();
        let found = find(&configuration, Some(&main));
        assert_eq!(found.len(), 1, "clients could add files");
        assert_eq!(found[0].path, site.path().join("c.d"));
    }

    #[test]
    fn clients_may_read_a_file_that_decides_rights_but_not_write_it() {
        let site = tempfile::tempdir().unwrap();
        std::fs::create_dir(site.path().join("data")).unwrap();
        let file = site.path().join("data/crossload.toml");
        std::fs::write(&file, "").unwrap();
        let grid_map = "[x509]\ngrid_map_file = \"data/map\"\n";
        assert_eq!(names(&configuration(site.path(), grid_map), Some(&file)), [""; 0]);
        let rule = format!("{grid_map}[[rule]]\nwho = \"authenticated\"\nmay = \"write\"\n");
        assert_eq!(
            names(&configuration(site.path(), &rule), Some(&file)),
            ["grid_map_file", ""]
        );
    }
}
