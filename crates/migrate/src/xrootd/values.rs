//! Values as XRootD writes them (`XrdOuca2x.cc`), as we do.

use std::path::Path;

/// A time such as `30`, `5m` or `2h`, in our words; a plain number is seconds.
pub(crate) fn duration(word: &str) -> Option<String> {
    let seconds = seconds(word)?;
    Some(match seconds {
        seconds if seconds > 0 && seconds.is_multiple_of(86_400) => format!("{}d", seconds / 86_400),
        seconds if seconds > 0 && seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        seconds if seconds > 0 && seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    })
}

/// The same in seconds.
pub(crate) fn seconds(word: &str) -> Option<u64> {
    let (number, unit) = divided(word)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// A size such as `512k`, `10g` or `2t`, in bytes; the units are powers of 1024.
pub(crate) fn size_bytes(word: &str) -> Option<u64> {
    let (number, unit) = divided(word)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// A number of bytes in our words.
pub(crate) fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fit = units
        .into_iter()
        .find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1_u64 << shift));
    match fit {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes}B"),
    }
}

fn divided(word: &str) -> Option<(u64, &str)> {
    let end = word.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(word.len());
    Some((word[..end].parse().ok()?, &word[end..]))
}

/// Whether a word switches something on.
pub(crate) fn is_on(word: &str) -> bool {
    ["1", "yes", "true", "on"].contains(&word.to_ascii_lowercase().as_str())
}

/// A host and a port. XRootD also writes `host port`, in two words, and `host+` for all addresses
/// of a name.
pub(crate) fn host_and_port(words: &[&str], usual: u16) -> Option<(String, u16)> {
    let (first, second) = (words.first()?, words.get(1));
    let is_address = first.starts_with('[');
    let colon = match is_address {
        true => first.find("]:").map(|at| at + 1),
        false => first.rfind(':'),
    };
    let (host, port) = match (colon, second.and_then(|word| word.parse::<u16>().ok())) {
        (Some(at), _) => (&first[..at], first[at + 1..].parse().ok()?),
        (None, Some(port)) => (*first, port),
        (None, None) => (*first, usual),
    };
    let host = host.trim_end_matches('+');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// The name of a library without directory, version and ending: `libXrdPss` for
/// `/usr/lib64/libXrdPss-5.so`.
pub(crate) fn library(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.strip_suffix(".so").unwrap_or(name);
    match name.rsplit_once('-') {
        Some((name, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}

/// A path without a slash at its end.
pub(crate) fn plain_path(path: &str) -> String {
    let plain = path.trim_end_matches('/');
    match plain.is_empty() {
        true => "/".to_owned(),
        false => plain.to_owned(),
    }
}

/// A path of names below a directory of the machine.
pub(crate) fn below(root: &str, path: &str) -> String {
    let joined = Path::new(root).join(path.trim_start_matches('/'));
    plain_path(&joined.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_written_as_ours() {
        for (word, ours) in [
            ("30", "30s"),
            ("60m", "1h"),
            ("90s", "90s"),
            ("5M", "5m"),
            ("1d", "1d"),
            ("0", "0s"),
        ] {
            let written = duration(word).unwrap();
            assert_eq!(written, ours, "{word}");
            assert!(config::parse_duration(&written).is_some(), "{word}");
        }
        for (word, ours) in [
            ("512k", "512KiB"),
            ("10t", "10TiB"),
            ("1500", "1500B"),
            ("2048m", "2GiB"),
            ("0", "0B"),
        ] {
            let written = size(size_bytes(word).unwrap());
            assert_eq!(written, ours, "{word}");
            assert_eq!(config::parse_size(&written), size_bytes(word), "{word}");
        }
        for word in ["", "x", "5x", "0.9", "99999999999999999999", "99999999999999t"] {
            assert!(duration(word).is_none() && size_bytes(word).is_none(), "{word}");
        }
    }

    #[test]
    fn hosts_have_ports_in_both_ways() {
        let read = |words: &[&str]| host_and_port(words, 1094).map(|(host, port)| format!("{host} {port}"));
        assert_eq!(read(&["a.example:1213"]).as_deref(), Some("a.example 1213"));
        assert_eq!(read(&["a.example+", "1213"]).as_deref(), Some("a.example 1213"));
        assert_eq!(read(&["a.example"]).as_deref(), Some("a.example 1094"));
        assert_eq!(read(&["[::1]:99"]).as_deref(), Some("[::1] 99"));
        assert_eq!(read(&["a:x"]), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn libraries_and_paths_are_made_plain() {
        assert_eq!(library("/usr/lib64/libXrdPss-5.so"), "libXrdPss");
        assert_eq!(library("libXrdAccSciTokens.so"), "libXrdAccSciTokens");
        assert_eq!(library("throttle"), "throttle");
        assert_eq!(below("/srv", "/a/"), "/srv/a");
        assert_eq!(below("/srv/", "/"), "/srv");
        assert_eq!(below("/", "/"), "/");
    }
}
