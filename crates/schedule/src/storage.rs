//! Names of storages: `scheme://host:port`. A storage is the same under each scheme that clients
//! use for it, so `davs://host:443` and `https://host:443` have one limit, one ban and one queue.

use std::borrow::Cow;

/// Schemes of the same protocol, and the one that stands for them.
const SAME: [(&str, &str); 7] = [
    ("davs", "https"),
    ("dav", "http"),
    ("s3s", "https"),
    ("s3", "http"),
    ("roots", "root"),
    ("xroot", "root"),
    ("xroots", "root"),
];

/// The name that stands for a storage: `davs://host:443` is `https://host:443`.
#[must_use]
pub fn canonical(storage: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = storage.split_once("://") else {
        return Cow::Borrowed(storage);
    };
    match SAME.iter().find(|(name, _)| *name == scheme) {
        Some((_, canonical)) => Cow::Owned(format!("{canonical}://{rest}")),
        None => Cow::Borrowed(storage),
    }
}

/// Host and port of a storage, without its scheme.
#[must_use]
pub fn authority(storage: &str) -> &str {
    storage.split_once("://").map_or(storage, |(_, authority)| authority)
}

/// The host of a storage, without scheme and port.
#[must_use]
pub fn host(storage: &str) -> &str {
    let authority = authority(storage);
    match authority.rfind(':') {
        // The colons of an IPv6 address are in brackets.
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    }
}

/// How exactly the name of a setting names a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exactness {
    /// `*`: each storage.
    Any,
    /// A name without port: the whole host, with all its ports and protocols.
    Host,
    /// A name with a port: one protocol of the host.
    Port,
}

/// How exactly `setting`, such as `*`, `davs://host`, `host` or `root://host:1094`, names
/// `storage`; `None`: not at all. The scheme does not matter: a port has one protocol.
#[must_use]
pub fn names(setting: &str, storage: &str) -> Option<Exactness> {
    let named = authority(setting);
    match named {
        "*" => Some(Exactness::Any),
        _ if named == authority(storage) => Some(Exactness::Port),
        _ if named == host(storage) => Some(Exactness::Host),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_is_the_same_under_each_scheme() {
        for (name, expected) in [
            ("davs://h:443", "https://h:443"),
            ("https://h:443", "https://h:443"),
            ("dav://h:80", "http://h:80"),
            ("roots://h:1094", "root://h:1094"),
            ("xroots://h:1094", "root://h:1094"),
            ("xroot://h:1094", "root://h:1094"),
            ("gsiftp://h:2811", "gsiftp://h:2811"),
            ("h:443", "h:443"),
        ] {
            assert_eq!(canonical(name), expected);
        }
    }

    #[test]
    fn settings_name_a_port_a_host_or_all() {
        for (setting, storage, expected) in [
            ("davs://h:443", "https://h:443", Some(Exactness::Port)),
            ("h:443", "davs://h:443", Some(Exactness::Port)),
            ("davs://h", "root://h:1094", Some(Exactness::Host)),
            ("h", "root://h:1094", Some(Exactness::Host)),
            ("*", "root://h:1094", Some(Exactness::Any)),
            ("davs://h:443", "https://h:8443", None),
            ("davs://h", "https://h2:443", None),
            ("https://[::1]", "https://[::1]:443", Some(Exactness::Host)),
            ("https://[::1]:443", "https://[::1]:443", Some(Exactness::Port)),
        ] {
            assert_eq!(names(setting, storage), expected, "{setting} {storage}");
        }
        assert_eq!(host("https://[::1]"), "[::1]");
    }
}
