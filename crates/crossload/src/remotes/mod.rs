//! Named remotes of the client: `mysite:path`. Their file is `client.toml` in the user's
//! configuration directory; it holds names of files with secrets, never the secrets.

mod edit;
pub(crate) mod rclone;

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use config::{CONFIGURATION_BYTES_MAX, ClientConfiguration, Remote, read_text};

use crate::command_line::RemoteAction;
use crate::failure::Failure;
use crate::next_step::NO_REMOTE;

/// Permission bits with which others may write.
const OTHERS_WRITE: u32 = 0o022;

/// `config remote`.
///
/// # Errors
/// The file is invalid or cannot be changed, or there is no such remote.
pub(crate) fn run(action: &RemoteAction) -> Result<(), Failure> {
    let remotes = Remotes::load()?;
    match action {
        RemoteAction::Add(options) => edit::add(&remotes, options),
        RemoteAction::List { json } => edit::list(&remotes, *json),
        RemoteAction::Show { name, json } => edit::show(&remotes, name, *json),
        RemoteAction::Remove { name } => edit::remove(&remotes, name),
    }
}

/// The remotes of the user.
#[derive(Debug)]
pub(crate) struct Remotes {
    /// Their file, which need not exist.
    pub(crate) file: PathBuf,
    text: String,
    known: ClientConfiguration,
}

impl Remotes {
    /// Reads the file; there are none without it.
    ///
    /// # Errors
    /// The file cannot be read, others may write it, or it has mistakes; all are named with line
    /// and key.
    pub(crate) fn load() -> Result<Self, Failure> {
        Self::load_from(directory()?.join("client.toml"))
    }

    fn load_from(file: PathBuf) -> Result<Self, Failure> {
        let text = match read_text(&file, CONFIGURATION_BYTES_MAX) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => String::new(),
            read => {
                let text = read.map_err(|cause| Failure::system(file.display(), &cause))?;
                refuse_of_others(&file)?;
                text
            }
        };
        let known = ClientConfiguration::parse(&text, &file)?;
        Ok(Self { file, text, known })
    }

    /// All of them.
    pub(crate) fn all(&self) -> std::slice::Iter<'_, Remote> {
        self.known.remotes.iter()
    }

    /// The remote with this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Remote> {
        self.known.remotes.iter().find(|remote| remote.name == name)
    }

    /// The remote with this name.
    ///
    /// # Errors
    /// There is none; the words say which there are.
    pub(crate) fn get(&self, name: &str) -> Result<&Remote, Failure> {
        self.find(name).ok_or_else(|| Failure::invalid(self.unknown(name)))
    }

    /// The words for a name that no remote has.
    pub(crate) fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.known.remotes.iter().map(|remote| remote.name.as_str()).collect();
        let there = match names.is_empty() {
            true => "there are none".to_owned(),
            false => format!("there are {}", names.join(", ")),
        };
        format!("{NO_REMOTE} \"{name}\"; {there} in {}", self.file.display())
    }

    /// Replaces the file, after checking the new text.
    ///
    /// # Errors
    /// The text has mistakes, or the file cannot be written.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        ClientConfiguration::parse(text, &self.file)?;
        // A link to the file, for example into a repository, stays.
        let file = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        replace(&file, text.as_bytes()).map_err(|cause| Failure::system(file.display(), &cause))
    }
}

/// The directory of the client's own files: `crossload` in `XDG_CONFIG_HOME`, or in `.config` of
/// `HOME`. Relative values do not count (XDG Base Directory Specification).
///
/// # Errors
/// Neither variable is set.
pub(crate) fn directory() -> Result<PathBuf, Failure> {
    let found = base("XDG_CONFIG_HOME", ".config");
    found.ok_or_else(|| Failure::invalid("set HOME or XDG_CONFIG_HOME: the client's files are there"))
}

/// The directory of what the client notes for its next runs: `crossload` in `XDG_STATE_HOME`, or in
/// `.local/state` of `HOME`.
pub(crate) fn state_directory() -> Option<PathBuf> {
    base("XDG_STATE_HOME", ".local/state")
}

fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)));
    Some(base?.join("crossload"))
}

/// Replaces or makes a file that only the user can read; its directory is made too.
///
/// # Errors
/// The system's.
pub(crate) fn replace(file: &Path, content: &[u8]) -> std::io::Result<()> {
    let directory = file.parent().unwrap_or(file);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    // Temporary files have mode 0600.
    let mut fresh = tempfile::NamedTempFile::new_in(directory)?;
    fresh.write_all(content)?;
    fresh.as_file().sync_all()?;
    fresh.persist(file).map(drop).map_err(|error| error.error)
}

/// The name of a remote and the path in it, if an argument can be one: `NAME:PATH`, and no URL.
pub(crate) fn split(text: &str) -> Option<(&str, &str)> {
    let (name, path) = text.split_once(':')?;
    // `file:/path` is a URL (RFC 8089 §2).
    let is_url = path.starts_with("//") || name.eq_ignore_ascii_case("file") && path.starts_with('/');
    (Remote::is_name(name) && !is_url).then_some((name, path))
}

/// The URL or path of a place in a remote. An empty path is the remote's own place.
pub(crate) fn url_of(remote: &Remote, path: &str) -> String {
    let url = match (&remote.access_key_id, remote.url.split_once("://")) {
        // Buckets of a server of HTTP.
        (Some(_), Some(("https", rest))) => format!("s3s://{rest}"),
        (Some(_), Some(("http", rest))) => format!("s3://{rest}"),
        _ => remote.url.clone(),
    };
    match path.trim_start_matches('/') {
        "" => url,
        path => format!("{}/{path}", url.trim_end_matches('/')),
    }
}

/// Someone else who can write the file could have credentials sent to another server.
fn refuse_of_others(file: &Path) -> Result<(), Failure> {
    let found = std::fs::metadata(file).map_err(|cause| Failure::system(file.display(), &cause))?;
    let owners = [0, rustix::process::geteuid().as_raw()];
    match found.mode() & OTHERS_WRITE == 0 && owners.contains(&found.uid()) {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "{}: others may write it (mode {:o}, owner {}); run chmod 600 if its content is right",
            file.display(),
            found.mode() & 0o777,
            found.uid()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_argument_with_a_name_is_no_url_and_no_path() {
        assert_eq!(split("site:a/b"), Some(("site", "a/b")));
        assert_eq!(split("site:"), Some(("site", "")));
        assert_eq!(split("site:/a"), Some(("site", "/a")));
        assert_eq!(split("file:/a"), None);
        for other in [
            "https://a/b",
            "./a:b",
            "/a:b",
            "dir/a:b",
            "-",
            "a b:c",
            ":a",
            "f",
            "a~:b",
        ] {
            assert_eq!(split(other), None, "{other}");
        }
    }

    #[test]
    fn a_path_is_below_the_remote() {
        let of = |url: &str, path: &str| {
            let text = format!("[[remote]]\nname = \"a\"\nurl = \"{url}\"\n");
            let known = ClientConfiguration::parse(&text, Path::new("/c/client.toml")).unwrap();
            url_of(&known.remotes[0], path)
        };
        assert_eq!(of("davs://h/base/", "a/b"), "davs://h/base/a/b");
        assert_eq!(of("root://h//base", "/a"), "root://h//base/a");
        assert_eq!(of("https://h", ""), "https://h");
        assert_eq!(of("/srv/data", "f"), "/srv/data/f");
    }

    #[test]
    fn a_file_that_others_may_write_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("new/client.toml");
        let none = Remotes::load_from(file.clone()).unwrap();
        assert!(none.get("a").unwrap_err().words.contains("there are none"));
        none.write("[[remote]]\nname = \"a\"\nurl = \"https://h\"\n").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert!(
            none.write("[[remote]]\nname = \"a\"\n")
                .unwrap_err()
                .words
                .contains("client.toml:1:")
        );
        let one = Remotes::load_from(file.clone()).unwrap();
        assert!(
            one.get("b").unwrap_err().words.contains("there are a in "),
            "{:?}",
            one.get("b")
        );
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o620)).unwrap();
        let refused = Remotes::load_from(file).unwrap_err().words;
        assert!(refused.contains("mode 620"), "{refused}");
    }
}
