//! The destinations of sources. The rule for directories is rsync's.

use types::{Error, ErrorCode, Phase, Result, Side};

use crate::client::place::Place;
use crate::client::session::ClientContext;
use crate::remotes::split;

/// The destination of the command line.
pub(super) struct Destination {
    place: Place,
    /// Files go into it, under their own names.
    is_directory: bool,
}

impl Destination {
    /// Parses it, and asks whether it is a directory: it is if it ends with a slash, or there are
    /// several sources.
    ///
    /// # Errors
    /// It is no place.
    pub(super) async fn look(session: &ClientContext, text: &str, several: bool) -> Result<Self> {
        let place = session.place(text).await?;
        let is_directory = several || text.ends_with('/') || {
            let found = session.look(&place, Side::Destination).await;
            // A credential for writing may not allow stat.
            found.ok().flatten().is_some_and(|info| info.is_directory)
        };
        Ok(Self { place, is_directory })
    }

    /// The destination in the line of a list: a directory if it ends with a slash.
    ///
    /// # Errors
    /// It is no place.
    pub(super) async fn named(session: &ClientContext, text: &str) -> Result<Self> {
        let place = session.place(text).await?;
        let is_directory = text.ends_with('/');
        Ok(Self { place, is_directory })
    }

    pub(super) fn is_stdio(&self) -> bool {
        self.place == Place::Stdio
    }
}

/// The target of a source, from the text that names it: the destination of its line, or else that
/// of the command line.
///
/// A directory keeps its name below the destination, unless it ends with a slash: then its contents
/// go there. So the result does not depend on whether the destination exists, and a repeated copy
/// finds what the first one made. A file keeps its name below a directory.
///
/// # Errors
/// There is no destination, or the source has no name, such as `/`.
pub(super) fn target_of(
    text: &str,
    source: &Place,
    is_directory: bool,
    destination: Option<&Destination>,
) -> Result<Place> {
    let Some(destination) = destination else {
        let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open);
        return Err(error.with_detail("the line names no destination, and the command has none"));
    };
    let keeps_name = match is_directory {
        true => !names_contents(text) && !is_remote_itself(text, source),
        false => destination.is_directory,
    };
    if !keeps_name || destination.is_stdio() {
        return Ok(destination.place.clone());
    }
    destination.place.child(&source.name())
}

/// Whether the argument is the name of a remote, without a path: it stands for the contents.
fn is_remote_itself(text: &str, source: &Place) -> bool {
    // A local directory can have a colon at the end of its own name.
    split(text).is_some_and(|(_, path)| path.is_empty()) && source.name() != text
}

/// Whether the argument stands for the contents of the directory: `set/`, `.`, `set/..`.
fn names_contents(text: &str) -> bool {
    let path = text
        .split_once("://")
        .map_or(text, |(_, rest)| rest.split('?').next().unwrap_or(rest));
    matches!(path.rsplit('/').next(), Some("" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(source: &str, is_directory: bool, destination: Option<&Destination>) -> Result<String> {
        let place = Place::parse(source).unwrap();
        target_of(source, &place, is_directory, destination).map(|target| target.to_string())
    }

    fn destination(text: &str, is_directory: bool) -> Destination {
        Destination {
            place: Place::parse(text).unwrap(),
            is_directory,
        }
    }

    #[test]
    fn a_file_keeps_its_name_below_a_directory() {
        let (name, directory) = (destination("https://b/e", false), destination("https://b/e", true));
        let file = |default| target("https://a/d/f%20x", false, Some(default)).unwrap();
        assert_eq!(file(&name), "https://b/e");
        assert_eq!(file(&directory), "https://b/e/f%20x");
        assert_eq!(file(&destination("-", true)), "-");
        assert!(target("https://a/d/f", false, None).is_err(), "no destination");
    }

    #[test]
    fn a_slash_at_the_end_of_a_directory_stands_for_its_contents() {
        // Whether the destination exists or not.
        for is_directory in [true, false] {
            let into = destination("https://b/e", is_directory);
            let tree = |source| target(source, true, Some(&into)).unwrap();
            assert_eq!(tree("https://a/set"), "https://b/e/set");
            assert_eq!(tree("root://a//set"), "https://b/e/set");
            for contents in ["https://a/set/", "https://a/", "/tmp/", "/tmp/.", "."] {
                assert_eq!(tree(contents), "https://b/e", "{contents}");
            }
            let place = Place::parse("https://a/set").unwrap();
            let of = |text| target_of(text, &place, true, Some(&into)).unwrap().to_string();
            assert_eq!(of("site:"), "https://b/e", "a remote itself");
            assert_eq!(of("site:set"), "https://b/e/set");
            let place = Place::parse("/tmp/here:").unwrap();
            let target = target_of("here:", &place, true, Some(&into)).unwrap();
            assert_eq!(target.to_string(), "https://b/e/here:", "a local directory");
        }
    }
}
