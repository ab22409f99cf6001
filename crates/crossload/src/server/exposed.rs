//! Files of the server itself that lie inside an export: clients could fetch its secrets, or change who may do what.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::assemble::is_writable;
use crate::configuration::Configuration;
use crate::failure::Failure;

/// A key of the configuration: its section, the item of a repeated section, and its name.
pub(crate) type Key = (&'static str, usize, &'static str);

/// A file or directory of the server inside an export.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exposed {
    /// What it is, for people.
    pub(crate) what: &'static str,
    pub(crate) path: PathBuf,
    /// The URL path of the export that shows it, and the export's directory.
    pub(crate) export: String,
    pub(crate) directory: PathBuf,
    /// The key that names it; `None` for the configuration file itself.
    pub(crate) key: Option<Key>,
}

impl std::fmt::Display for Exposed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, path, directory) = (self.what, self.path.display(), self.directory.display());
        write!(
            formatter,
            "{what} {path} lies in {directory}, which is exported as {}: clients could reach it",
            self.export
        )
    }
}

/// A file or directory that no client may reach.
struct Guarded<'a> {
    what: &'static str,
    path: &'a Path,
    key: Option<Key>,
    /// It may be read by clients, and only must not be changed by them.
    is_public: bool,
}

/// Everything of the server that lies inside an export. `file` is the configuration file.
pub(crate) fn find(configuration: &Configuration, file: Option<&Path>) -> Vec<Exposed> {
    let guarded = secrets(configuration).into_iter().chain(rules(configuration, file));
    let mut found = Vec::new();
    for guarded in guarded {
        let holders = holders(guarded.path);
        let export = configuration.exports.iter().find(|export| {
            let can_reach = !guarded.is_public || is_writable(export, configuration);
            can_reach && identity(&export.directory).is_some_and(|own| holders.contains(&own))
        });
        if let Some(export) = export {
            found.push(Exposed {
                what: guarded.what,
                path: guarded.path.to_owned(),
                export: export.path.to_string(),
                directory: export.directory.clone(),
                key: guarded.key,
            });
        }
    }
    found
}

/// A secret file with further hard links, one of which may lie in an export. Only a search of the whole file system
/// would tell.
pub(crate) struct Linked {
    what: &'static str,
    pub(crate) path: PathBuf,
    links: u64,
    pub(crate) key: Option<Key>,
}

impl std::fmt::Display for Linked {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, path, links) = (self.what, self.path.display(), self.links);
        write!(
            formatter,
            "{what} {path} has {links} names (hard links): another one may lie in an export"
        )
    }
}

/// The secret files with further names, where an export is on the same file system.
pub(crate) fn linked(configuration: &Configuration) -> Vec<Linked> {
    let devices: Vec<u64> = configuration
        .exports
        .iter()
        .filter_map(|export| identity(&export.directory))
        .map(|(device, _)| device)
        .collect();
    let linked = |guarded: Guarded<'_>| {
        let facts = std::fs::metadata(guarded.path).ok()?;
        let may_be_exported = facts.is_file() && facts.nlink() > 1 && devices.contains(&facts.dev());
        may_be_exported.then(|| Linked {
            what: guarded.what,
            path: guarded.path.to_owned(),
            links: facts.nlink(),
            key: guarded.key,
        })
    };
    secrets(configuration).into_iter().filter_map(linked).collect()
}

/// Refuses a configuration that shows files of the server to clients.
///
/// # Errors
/// Names every such file.
pub(crate) fn refuse(configuration: &Configuration, file: Option<&Path>) -> Result<(), Failure> {
    let found = find(configuration, file);
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    Err(Failure::invalid(format!(
        "{}; move what belongs to the server out of every export",
        lines.join("; ")
    )))
}

fn guard<'a>(
    what: &'static str,
    path: Option<&'a PathBuf>,
    section: &'static str,
    name: &'static str,
) -> Option<Guarded<'a>> {
    Some(Guarded {
        what,
        path: path?,
        key: Some((section, 0, name)),
        is_public: false,
    })
}

/// What nobody else may read.
fn secrets(configuration: &Configuration) -> Vec<Guarded<'_>> {
    let Configuration {
        server,
        macaroons,
        hand_over,
        delegation,
        tokens,
        log,
        ..
    } = configuration;
    let single = [
        guard("the private key", server.key.as_ref(), "server", "key"),
        guard(
            "the macaroon secret",
            macaroons.secret_file.as_ref(),
            "macaroons",
            "secret_file",
        ),
        guard(
            "the key of the hand-over",
            hand_over.key_file.as_ref(),
            "hand_over",
            "key_file",
        ),
        guard(
            "the key of delegated credentials",
            delegation.key_file.as_ref(),
            "delegation",
            "key_file",
        ),
        guard(
            "the directory of delegated credentials",
            delegation.directory.as_ref(),
            "delegation",
            "directory",
        ),
        guard(
            "the state directory",
            tokens.state_directory.as_ref(),
            "tokens",
            "state_directory",
        ),
        guard("the log", log.file.as_ref(), "log", "file"),
    ];
    let old = macaroons
        .old_secret_files
        .iter()
        .filter_map(|file| guard("the old macaroon secret", Some(file), "macaroons", "old_secret_files"));
    single.into_iter().flatten().chain(old).collect()
}

/// What says who may do what, and whom to believe: a client that may write must not change it.
fn rules<'a>(configuration: &'a Configuration, file: Option<&'a Path>) -> Vec<Guarded<'a>> {
    let Configuration {
        server,
        policy,
        tokens,
        x509,
        trust,
        issuers,
        ..
    } = configuration;
    let mut all: Vec<Guarded<'_>> = [
        guard("the certificate", server.certificate.as_ref(), "server", "certificate"),
        guard("the authdb", policy.authdb_file.as_ref(), "policy", "authdb_file"),
        guard("the file", tokens.scitokens_file.as_ref(), "tokens", "scitokens_file"),
        guard(
            "the trust directory",
            x509.trust_directory.as_ref(),
            "x509",
            "trust_directory",
        ),
        guard(
            "the VOMS directory",
            x509.voms_directory.as_ref(),
            "x509",
            "voms_directory",
        ),
        guard("the grid map", x509.grid_map_file.as_ref(), "x509", "grid_map_file"),
        guard("the VOMS map", x509.voms_map_file.as_ref(), "x509", "voms_map_file"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let authorities = trust.ca_files.iter().map(|path| (path, "ca_files"));
    let authorities = authorities.chain(trust.ca_directories.iter().map(|path| (path, "ca_directories")));
    all.extend(authorities.filter_map(|(path, name)| guard("the authorities", Some(path), "trust", name)));
    for (index, issuer) in issuers.iter().enumerate() {
        for (path, name) in [
            (&issuer.name_map_file, "name_map_file"),
            (&issuer.jwks_file, "jwks_file"),
        ] {
            let guarded = guard("the issuer's file", path.as_ref(), "issuer", name);
            all.extend(guarded.map(|guarded| Guarded {
                key: Some(("issuer", index, name)),
                ..guarded
            }));
        }
    }
    all.extend(file.map(|path| Guarded {
        what: "the configuration",
        path,
        key: None,
        is_public: true,
    }));
    for guarded in &mut all {
        guarded.is_public = true;
    }
    all
}

/// The directories that hold a file, itself included when it is one: those of its name, and those of what a symbolic
/// link leads to. A file that is still to be made is held by the directory that it will be in.
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

/// Device and inode, which are the same by whatever name or mount a directory is reached.
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
            .map(|one| one.key.map_or("", |(_, _, name)| name))
            .collect()
    }

    #[test]
    fn everything_that_is_secret_is_found_in_an_export_and_refused() {
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
    fn a_secret_with_another_name_is_told() {
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
    fn what_decides_rights_may_be_read_and_not_written() {
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
