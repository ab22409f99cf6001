//! The external name of a file or directory: absolute, normalised, safe.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::error::{Error, ErrorCode, Phase, Side};
use crate::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX};

/// An absolute, normalised path such as `/atlas/data/f1`. It has no empty component, no `.` or
/// `..`, and no NUL or other control character. The root is `/`; no other path ends in a slash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogicalPath(String);

/// Percent-encode only what would be misread: some clients never decode (XrdClHttp), others always
/// do (rclone).
const PATH_ENCODE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'\\')
    .add(b'^')
    .add(b'|')
    .add(b'[')
    .add(b']')
    .add(b'&')
    .add(b';');

impl LogicalPath {
    /// The root, `/`.
    #[must_use]
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// Parses a path that is not percent-encoded.
    ///
    /// Repeated and trailing slashes and `.` are dropped.
    ///
    /// # Errors
    /// `path_refused` for a relative path, a `..` component or a control character; `name_too_long`
    /// over [`PATH_BYTES_MAX`] or [`NAME_BYTES_MAX`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        if !text.starts_with('/') {
            return Err(refuse(ErrorCode::PathRefused, "the path is not absolute"));
        }
        let mut normal = String::with_capacity(text.len());
        for name in text.split('/').filter(|name| !name.is_empty() && *name != ".") {
            check_name(name)?;
            normal.push('/');
            normal.push_str(name);
        }
        if normal.len() > PATH_BYTES_MAX {
            return Err(refuse(ErrorCode::NameTooLong, "the path is too long"));
        }
        if normal.is_empty() {
            normal.push('/');
        }
        Ok(Self(normal))
    }

    /// Parses the path of a URL: percent-decodes it once, then as [`LogicalPath::parse`].
    ///
    /// An encoded slash is refused, because programs disagree on which file it names (RFC 3986
    /// §2.2). So is text that is not UTF-8.
    ///
    /// # Errors
    /// As [`LogicalPath::parse`], and `path_refused` for `%2F`, a broken escape or invalid UTF-8.
    pub fn parse_url_path(raw: &str) -> Result<Self, Error> {
        if !raw.contains('%') {
            return Self::parse(raw);
        }
        let is_slash = |escape: &[u8]| escape.eq_ignore_ascii_case(b"%2f");
        if raw.as_bytes().windows(3).any(is_slash) {
            return Err(refuse(
                ErrorCode::PathRefused,
                "an encoded slash is not allowed in a path",
            ));
        }
        let decoded = decode_percent(raw)
            .ok_or_else(|| refuse(ErrorCode::PathRefused, "the path is not valid percent-encoded UTF-8"))?;
        Self::parse(&decoded)
    }

    /// The path as text; it always begins with a slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The components, outermost first; none for the root.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// The last component; `None` for the root.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// The parent directory; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let cut = self.0.rfind('/').filter(|_| !self.is_root())?;
        Some(if cut == 0 {
            Self::root()
        } else {
            Self(self.0[..cut].to_owned())
        })
    }

    /// This path with one more component.
    ///
    /// # Errors
    /// As [`LogicalPath::parse`]; also `path_refused` when the name contains a slash.
    pub fn join(&self, name: &str) -> Result<Self, Error> {
        self.check_join(name)?;
        let base = if self.is_root() { "" } else { self.as_str() };
        let mut path = String::with_capacity(base.len() + 1 + name.len());
        path.push_str(base);
        path.push('/');
        path.push_str(name);
        Ok(Self(path))
    }

    /// Whether [`LogicalPath::join`] would accept the name, without building the path.
    ///
    /// # Errors
    /// As [`LogicalPath::join`].
    pub fn check_join(&self, name: &str) -> Result<(), Error> {
        if name.contains('/') || name.is_empty() || name == "." {
            return Err(refuse(
                ErrorCode::PathRefused,
                "a name may not be empty or contain a slash",
            ));
        }
        check_name(name)?;
        let base_bytes = if self.is_root() { 0 } else { self.0.len() };
        if base_bytes + 1 + name.len() > PATH_BYTES_MAX {
            return Err(refuse(ErrorCode::NameTooLong, "the path is too long"));
        }
        Ok(())
    }

    /// Whether this is `ancestor` or below it. Whole components are compared: `/foobar` is not
    /// below `/foo`.
    #[must_use]
    pub fn is_within(&self, ancestor: &Self) -> bool {
        self.below(ancestor).is_some()
    }

    /// This path relative to `ancestor`: `/a/b/c` below `/a` is `/b/c`. `None` when it is not
    /// within.
    #[must_use]
    pub fn below(&self, ancestor: &Self) -> Option<Self> {
        if ancestor.is_root() {
            return Some(self.clone());
        }
        let rest = self.0.strip_prefix(&ancestor.0)?;
        match rest.as_bytes().first() {
            None => Some(Self::root()),
            Some(b'/') => Some(Self(rest.to_owned())),
            Some(_) => None,
        }
    }

    /// This path placed below `base`: `/b` under `/a` is `/a/b`.
    #[must_use]
    pub fn under(&self, base: &Self) -> Self {
        match (base.is_root(), self.is_root()) {
            (true, _) => self.clone(),
            (false, true) => base.clone(),
            (false, false) => Self(format!("{}{}", base.0, self.0)),
        }
    }

    /// The path as written in a URL.
    #[must_use]
    pub fn to_url_path(&self) -> String {
        encode_path(&self.0)
    }
}

impl std::fmt::Display for LogicalPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Percent-encodes what a URL path may not contain literally; slashes stay.
#[must_use]
pub fn encode_path(text: &str) -> String {
    utf8_percent_encode(text, PATH_ENCODE).to_string()
}

/// Percent-decodes once. `None` when a `%` is not followed by two hexadecimal digits, or the bytes
/// are not UTF-8.
#[must_use]
pub fn decode_percent(raw: &str) -> Option<String> {
    let bytes = raw.as_bytes();
    for (index, _) in raw.match_indices('%') {
        let escape = bytes.get(index + 1..index + 3)?;
        if !escape.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
    }
    percent_decode_str(raw)
        .decode_utf8()
        .ok()
        .map(std::borrow::Cow::into_owned)
}

fn check_name(name: &str) -> Result<(), Error> {
    if name == ".." {
        return Err(refuse(ErrorCode::PathRefused, "a path may not go up with .."));
    }
    // Beyond ASCII there are control characters too (U+0080 to U+009F); most names are ASCII.
    let is_suspect = |byte: u8| !(b' '..0x7f).contains(&byte);
    if name.bytes().any(is_suspect) && name.chars().any(char::is_control) {
        return Err(refuse(
            ErrorCode::PathRefused,
            "a path may not contain control characters",
        ));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(refuse(ErrorCode::NameTooLong, "a name in the path is too long"));
    }
    Ok(())
}

fn refuse(code: ErrorCode, why: &str) -> Error {
    Error::new(code, Side::Client, Phase::Open).with_detail(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_path_become_one() {
        for spelling in ["/a/b", "//a///b/", "/./a/./b/.", "/%61/b"] {
            assert_eq!(
                LogicalPath::parse_url_path(spelling).unwrap().as_str(),
                "/a/b",
                "{spelling}"
            );
        }
        assert!(LogicalPath::parse_url_path("//").unwrap().is_root());
    }

    #[test]
    fn what_could_escape_is_refused() {
        for bad in [
            "a/b",
            "",
            "/a/../b",
            "/%2e%2E/etc",
            "/a%2fb",
            "/a%2Fb",
            "/a%00b",
            "/a\nb",
            "/%",
            "/%zz",
            "/%ff",
        ] {
            assert_eq!(
                LogicalPath::parse_url_path(bad).unwrap_err().code(),
                ErrorCode::PathRefused,
                "{bad}"
            );
        }
        let long = format!("/{}", "x".repeat(NAME_BYTES_MAX + 1));
        assert_eq!(LogicalPath::parse(&long).unwrap_err().code(), ErrorCode::NameTooLong);
        let deep = "/abc".repeat(PATH_BYTES_MAX / 4 + 1);
        assert_eq!(LogicalPath::parse(&deep).unwrap_err().code(), ErrorCode::NameTooLong);
    }

    #[test]
    fn names_that_only_look_dangerous_pass() {
        for good in ["/...", "/..a", "/a..b", "/ä ö", "/a\\b", "/%25"] {
            assert!(LogicalPath::parse_url_path(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn what_is_joined_is_what_would_be_read() {
        let path = |text: &str| LogicalPath::parse(text).unwrap();
        assert_eq!(path("/").join("a").unwrap(), path("/a"));
        assert_eq!(path("/a").join("ü b").unwrap(), path("/a/ü b"));
        let long = path(&format!(
            "/{}",
            vec!["x".repeat(NAME_BYTES_MAX); PATH_BYTES_MAX / 256].join("/")
        ));
        assert_eq!(long.as_str().len(), PATH_BYTES_MAX);
        for (base, name) in [
            ("/", ""),
            ("/", "."),
            ("/a", ".."),
            ("/a", "b/c"),
            ("/a", "b\n"),
            ("/a", "\u{85}"),
            ("/a", "\u{7f}"),
        ] {
            assert_eq!(
                path(base).join(name).unwrap_err().code(),
                ErrorCode::PathRefused,
                "{name:?}"
            );
        }
        assert_eq!(long.join("y").unwrap_err().code(), ErrorCode::NameTooLong);
    }

    #[test]
    fn descent_is_by_whole_components() {
        let path = |text| LogicalPath::parse(text).unwrap();
        assert_eq!(path("/foo/bar").below(&path("/foo")), Some(path("/bar")));
        assert_eq!(path("/foo").below(&path("/foo")), Some(LogicalPath::root()));
        assert_eq!(path("/foobar").below(&path("/foo")), None);
        assert_eq!(path("/x").under(&path("/foo")), path("/foo/x"));
        assert_eq!(path("/a/b").parent(), Some(path("/a")));
        assert_eq!(path("/a").parent(), Some(LogicalPath::root()));
        assert_eq!(LogicalPath::root().parent(), None);
    }

    #[test]
    fn encoding_and_decoding_are_inverse() {
        let name = "/a b#c?d%e<f>\"&g;ü/100%";
        let path = LogicalPath::parse(name).unwrap();
        assert_eq!(LogicalPath::parse_url_path(&path.to_url_path()).unwrap(), path);
    }
}
