//! Targets for the vocabulary's own parsers: paths and locations.

use types::{Location, LogicalPath};

/// Pieces of URL paths.
pub(crate) const PATH_WORDS: &[&str] = &[
    "/", "..", ".", "%2F", "%2f", "%00", "%2e%2e", "%", "%25", "\\", "ä", "%C3%A4", "//",
];

/// Pieces of locations.
pub(crate) const LOCATION_WORDS: &[&str] = &[
    "https://", "davs://", "root://", "file://", "[::1]", ":443", "@", "?", "#", "..", "%2F", "/", "//", "-",
];

/// An accepted path is normal and comes back unchanged from its URL form.
pub(crate) fn url_path(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(path) = LogicalPath::parse_url_path(text) else {
        return;
    };
    assert!(path.as_str().starts_with('/'));
    assert!(
        path.components()
            .all(|name| !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']))
    );
    let again = LogicalPath::parse_url_path(&path.to_url_path());
    assert_eq!(again.ok().as_ref(), Some(&path), "{:?}", path.to_url_path());
}

/// What is sent to a peer names the same place when it is read again.
pub(crate) fn location(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(location) = Location::parse(text) else { return };
    if !location.is_http() {
        return;
    }
    let wire = location.to_wire();
    let again = Location::parse(&wire).unwrap_or_else(|error| panic!("{wire:?} was written and is refused: {error}"));
    assert_eq!(again.scheme(), location.scheme());
    assert_eq!((again.host(), again.port()), (location.host(), location.port()));
    assert_eq!(again.target(), location.target());
}
