//! Arguments of commands: a file on a server, a file on this machine, or standard input or output.

use std::path::{Path, PathBuf};

use remote::Client;
use transfer::route::End;
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Result, Scheme, Side};

/// A place that a command works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A file or directory on a server.
    Remote(Location),
    /// A file or directory on this machine, absolute.
    Local(LogicalPath),
    /// Standard input or output.
    Stdio,
}

/// An argument as reports show it: without the query of a URL, which may be a credential.
pub(crate) fn without_query(text: &str) -> &str {
    match text.split_once("://") {
        Some(_) => text.split('?').next().unwrap_or(text),
        None => text,
    }
}

impl Place {
    /// Parses an argument. A symbolic link at the end of a local path is followed.
    ///
    /// # Errors
    /// `bad_url` for an unusable URL, `path_refused` for a local name that is not UTF-8.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        Self::read(text, resolve)
    }

    /// Parses an argument of `mv` or `rm`. A symbolic link at the end of the path is not followed.
    ///
    /// # Errors
    /// As [`Place::parse`].
    pub(crate) fn parse_name(text: &str) -> Result<Self> {
        Self::read(text, |path| match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => resolve(parent).join(name),
            _ => resolve(path),
        })
    }

    fn read(text: &str, resolve: impl Fn(&Path) -> PathBuf) -> Result<Self> {
        if text.is_empty() {
            let error = Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open);
            return Err(error.with_detail("an empty argument names no file"));
        }
        let location = Location::parse(text)?;
        match location.scheme() {
            Scheme::Stdio => Ok(Self::Stdio),
            Scheme::File => local(location.path(), resolve).map(Self::Local),
            _ => Ok(Self::Remote(location)),
        }
    }

    /// The place named `name` below this one.
    ///
    /// # Errors
    /// `path_refused` or `name_too_long`.
    pub(crate) fn child(&self, name: &str) -> Result<Self> {
        Ok(match self {
            // Names come from other servers' listings and must not lead outside of the directory.
            Self::Remote(location) => {
                let child = location.child(name);
                let joined = LogicalPath::root().join(name);
                joined.map_err(|error| error.with_subject(&child))?;
                Self::Remote(child)
            }
            Self::Local(path) => {
                let joined = path.join(name);
                Self::Local(joined.map_err(|error| error.with_subject(format!("{path}/{name}")))?)
            }
            Self::Stdio => Self::Stdio,
        })
    }

    /// What a name stands for in this directory: below it, or below the top of its server if the
    /// name begins with a slash. `..` leads up, and from the top nowhere.
    ///
    /// # Errors
    /// As [`Self::child`].
    pub(crate) fn join(&self, text: &str) -> Result<Self> {
        let mut place = match (self, text.starts_with('/')) {
            (Self::Remote(location), true) => Self::Remote(location.with_path("/")),
            (Self::Local(_), true) => Self::Local(LogicalPath::root()),
            _ => self.clone(),
        };
        for name in text.split('/') {
            place = match name {
                "" | "." => place,
                ".." => place.parent().unwrap_or(place),
                name => place.child(name)?,
            };
        }
        Ok(place)
    }

    /// The parent directory, if there is one.
    pub(crate) fn parent(&self) -> Option<Self> {
        match self {
            Self::Remote(location) => {
                let path = location.path().trim_end_matches('/');
                let parent = &path[..path.rfind('/')?];
                let parent = if parent.is_empty() { "/" } else { parent };
                Some(Self::Remote(location.with_path(parent)))
            }
            Self::Local(path) => path.parent().map(Self::Local),
            Self::Stdio => None,
        }
    }

    /// The names that lead from this directory down to another place; none if both are the same.
    /// `None` if the other place is not in it.
    pub(crate) fn names_to(&self, other: &Self) -> Option<Vec<String>> {
        match (self, other) {
            (Self::Remote(above), Self::Remote(below)) => above.names_to(below),
            (Self::Local(above), Self::Local(below)) if below.is_within(above) => {
                let names = below.components().skip(above.components().count());
                Some(names.map(str::to_owned).collect())
            }
            _ => None,
        }
    }

    /// The end of a route.
    ///
    /// # Errors
    /// `bad_url` for a server to which no protocol of the client speaks.
    pub(crate) fn end(&self, client: &Client) -> Result<End> {
        match self {
            Self::Remote(location) => End::at(client, location),
            Self::Local(_) => Ok(End::FILE),
            Self::Stdio => Ok(End::STREAM),
        }
    }

    /// The side of a command about this place alone, such as `ls`: the server, or this program for
    /// what is on this machine.
    pub(crate) fn side(&self) -> Side {
        match self {
            Self::Remote(_) => Side::Active,
            Self::Local(_) | Self::Stdio => Side::Client,
        }
    }

    /// Whether it is in an object store.
    pub(crate) fn is_s3(&self) -> bool {
        matches!(self, Self::Remote(location) if location.is_s3())
    }

    /// The server; empty for this machine.
    pub(crate) fn server(&self) -> String {
        match self {
            Self::Remote(location) => location.authority(),
            Self::Local(_) | Self::Stdio => String::new(),
        }
    }

    /// The last component of the path.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Remote(location) => location.file_name(),
            Self::Local(path) => path.name().unwrap_or_default().to_owned(),
            Self::Stdio => "stdin".to_owned(),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Remote(location) => write!(formatter, "{location}"),
            Self::Local(path) => write!(formatter, "{path}"),
            Self::Stdio => formatter.write_str("-"),
        }
    }
}

/// The absolute path, with `.`, `..` and links in its directories resolved as the system does.
fn local(text: &str, resolve: impl Fn(&Path) -> PathBuf) -> Result<LogicalPath> {
    let refuse = |words: String| Error::new(ErrorCode::PathRefused, Side::Client, Phase::Open).with_detail(words);
    let absolute = std::path::absolute(text).map_err(|cause| refuse(format!("{text}: {cause}")))?;
    let resolved = resolve(&absolute);
    let name = resolved
        .to_str()
        .ok_or_else(|| refuse("the name is not UTF-8".to_owned()))?;
    LogicalPath::parse(name)
}

/// Resolves the part of the path that exists, and appends the rest.
fn resolve(path: &Path) -> PathBuf {
    if let Ok(resolved) = path.canonicalize() {
        return resolved;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolve(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart_and_have_names_parents_and_children() {
        let remote = Place::parse("davs://a/dir/f%20g").unwrap();
        assert_eq!(remote.name(), "f g");
        assert_eq!(remote.parent().unwrap().to_string(), "davs://a/dir");
        assert_eq!(remote.child("x y").unwrap().to_string(), "davs://a/dir/f%20g/x%20y");
        assert!(remote.child("..").is_err() && remote.child("a/b").is_err());
        assert_eq!(Place::parse("-").unwrap(), Place::Stdio);
        assert_eq!(Place::parse("s3://a/b/f%20g").unwrap().name(), "f g");
        let root = Place::parse("https://a/").unwrap();
        assert!(root.parent().is_none());
        let [above, below] = ["/data/a", "/data/a/b/c"].map(|text| Place::Local(LogicalPath::parse(text).unwrap()));
        assert_eq!(above.names_to(&below).unwrap(), ["b", "c"]);
        assert_eq!(
            (above.names_to(&above), below.names_to(&above)),
            (Some(Vec::new()), None)
        );
        assert!(root.names_to(&below).is_none());
    }

    #[test]
    fn names_are_relative_to_a_directory() {
        for (directory, name, place) in [
            ("davs://a/x/y", "f g", "davs://a/x/y/f%20g"),
            ("davs://a/x/y/", "../z/./f", "davs://a/x/z/f"),
            ("davs://a/x", "/t", "davs://a/t"),
            ("davs://a/x", "../../..", "davs://a/"),
            ("root://a//x", "a#b", "root://a//x/a#b"),
            ("root://a//x", "/", "root://a//"),
            ("/tmp", "../etc/x", "/etc/x"),
        ] {
            let joined = Place::parse(directory).unwrap().join(name).unwrap();
            assert_eq!(joined.to_string(), place, "{directory} {name}");
        }
    }

    #[test]
    fn local_names_are_absolute_and_climb_as_the_system_does() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("a")).unwrap();
        let place = Place::parse(&format!("{}/a/../new/file", base.display())).unwrap();
        assert_eq!(place.to_string(), format!("{}/new/file", base.display()));
    }
}
