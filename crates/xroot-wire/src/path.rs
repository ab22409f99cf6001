//! Paths and what follows them behind `?`, which the protocol calls CGI although nothing of it is
//! percent-decoded.

use std::borrow::Cow;

use types::{ErrorCode, LogicalPath, Secret, is_traceparent};

use crate::bytes::text_bytes;
use crate::refusal::Refusal;

const LINK_LIMIT: &str = "crossload.links";

/// A text of a payload as it arrived: usually a path with CGI, often with a NUL at its end. It is
/// not shown in logs, because it may hold a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Argument<'a>(&'a [u8]);

impl<'a> Argument<'a> {
    /// The argument with these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Its text up to a NUL; `None` when it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&'a str> {
        std::str::from_utf8(text_bytes(self.0)).ok()
    }

    /// The path and its CGI. Repeated slashes are one, as `root://host//path` makes them.
    ///
    /// # Errors
    /// `path_refused` for a relative path, one with `..`, with control characters or not in UTF-8,
    /// and for anything behind a NUL; `name_too_long`; `argument_missing` for an empty one.
    pub fn path(&self) -> Result<PathArgument<'a>, Refusal> {
        let bytes = self.0.strip_suffix(b"\0").unwrap_or(self.0);
        let text = std::str::from_utf8(bytes).map_err(|_| path_refused("the path is not UTF-8"))?;
        PathArgument::parse(text)
    }

    /// The same for `locate`, whose path may stand behind a `*`; `*` alone is the root.
    ///
    /// # Errors
    /// Like those of [`Argument::path`].
    pub fn locate_path(&self) -> Result<PathArgument<'a>, Refusal> {
        let bytes = self.0.strip_suffix(b"\0").unwrap_or(self.0);
        match bytes {
            b"*" => PathArgument::parse("/"),
            [b'*', path @ ..] => Self(path).path(),
            _ => self.path(),
        }
    }
}

impl std::fmt::Debug for Argument<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.0.split(|byte| *byte == b'?').next().unwrap_or_default();
        write!(
            formatter,
            "Argument({:?}, {} bytes)",
            String::from_utf8_lossy(path),
            self.0.len()
        )
    }
}

fn path_refused(detail: &'static str) -> Refusal {
    Refusal::new(ErrorCode::PathRefused, detail)
}

/// A path and its CGI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathArgument<'a> {
    /// The path, normalised.
    pub path: LogicalPath,
    /// What stands behind the first `?`.
    pub cgi: Cgi<'a>,
}

impl<'a> PathArgument<'a> {
    fn parse(text: &'a str) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Err(crate::refusal::argument_missing());
        }
        let (path, cgi) = text.split_once('?').unwrap_or((text, ""));
        if cgi.bytes().any(|byte| byte == 0) {
            return Err(path_refused("there is something behind a NUL"));
        }
        let path = LogicalPath::parse(path).map_err(|error| match error.code() {
            ErrorCode::NameTooLong => Refusal::new(ErrorCode::NameTooLong, "the path or one of its names is too long"),
            _ if !path.starts_with('/') => path_refused("the path is relative"),
            _ => path_refused("the path has a component .. or a control character"),
        })?;
        Ok(Self {
            path,
            cgi: Cgi::new(cgi),
        })
    }
}

/// Pairs of key and value, as they stand behind a `?`. It is not shown in logs, because it may hold
/// a token.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Cgi<'a>(&'a str);

impl std::fmt::Debug for Cgi<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Cgi({} bytes)", self.0.len())
    }
}

impl<'a> Cgi<'a> {
    /// The pairs of a text; a leading `&` and empty pairs are passed over.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self(text.strip_prefix('?').unwrap_or(text))
    }

    /// The text as it arrived.
    #[must_use]
    pub fn text(&self) -> &'a str {
        self.0
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs().next().is_none()
    }

    /// The pairs in order. A key without `=` has an empty value.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.0
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }

    /// The value of the first pair with this key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&'a str> {
        self.pairs().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The size that an upload is going to have, in bytes (`oss.asize`).
    #[must_use]
    pub fn expected_bytes(&self) -> Option<u64> {
        self.value("oss.asize").and_then(|text| text.parse().ok())
    }

    /// The space that an upload belongs into (`oss.cgroup`).
    #[must_use]
    pub fn space_token(&self) -> Option<&'a str> {
        self.value("oss.cgroup")
    }

    /// The checksum algorithm that is asked for (`cks.type`).
    #[must_use]
    pub fn checksum_algorithm(&self) -> Option<&'a str> {
        self.value("cks.type").filter(|name| !name.is_empty())
    }

    /// How far symbolic links may lead in the path (`crossload.links`), if the sender limits that:
    /// a path, or another word for no link at all.
    #[must_use]
    pub fn link_limit(&self) -> Option<&'a str> {
        self.value(LINK_LIMIT)
    }

    /// The number with which the client marks the flow of the file (`scitag.flow`, SciTags).
    #[must_use]
    pub fn flow_tag(&self) -> Option<u16> {
        self.value("scitag.flow").and_then(|text| text.parse().ok())
    }

    /// The bearer token of this request (`authz`), without `Bearer` in any of its spellings.
    #[must_use]
    pub fn token(&self) -> Option<Secret> {
        let value = self.value("authz")?;
        let token = ["Bearer%20", "bearer%20", "Bearer ", "Bearer+"]
            .iter()
            .find_map(|scheme| value.strip_prefix(scheme))
            .unwrap_or(value);
        (!token.is_empty()).then(|| Secret::new(token))
    }

    /// The servers that a client has tried in vain (`tried`).
    pub fn tried(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        split_list(self.value("tried"))
    }

    /// Why, in the same order (`triedrc`): `enoent`, `ioerr`, `fserr`, `srverr`.
    pub fn tried_reasons(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        split_list(self.value("triedrc"))
    }

    /// The authentication protocols that the client wants, in its order (`xrd.wantprot`).
    pub fn wanted_protocols(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        split_list(self.value("xrd.wantprot"))
    }

    /// A token for the `ztn` protocol that a URL brings along (`xrd.ztn`).
    #[must_use]
    pub fn ztn_token(&self) -> Option<Secret> {
        self.value("xrd.ztn").filter(|token| !token.is_empty()).map(Secret::new)
    }

    /// The capability with which a redirector has sent the client here.
    #[must_use]
    pub fn capability(&self) -> Option<Secret> {
        self.value(CAPABILITY).filter(|text| !text.is_empty()).map(Secret::new)
    }

    /// The name of the request at the redirector that has sent the client here.
    #[must_use]
    pub fn redirect_id(&self) -> Option<&'a str> {
        self.value(REDIRECT_ID)
    }

    /// The trace that the request is part of (`crossload.traceparent`, W3C Trace Context), if it is
    /// valid.
    #[must_use]
    pub fn traceparent(&self) -> Option<&'a str> {
        self.value(TRACEPARENT).filter(|value| is_traceparent(value))
    }

    /// What this says of a third-party copy; `None` when it is none.
    #[must_use]
    pub fn third_party(&self) -> Option<crate::ThirdParty<'a>> {
        crate::ThirdParty::read(*self)
    }
}

/// The key of a request's name. It is our own, too.
const REDIRECT_ID: &str = "crossload.redirect";

/// The key of a trace. It is our own: other servers pass over it.
const TRACEPARENT: &str = "crossload.traceparent";

/// The key of a capability. It is our own: other servers pass over it.
const CAPABILITY: &str = "crossload.capability";

fn split_list(value: Option<&str>) -> impl Iterator<Item = &str> + use<'_> {
    value.unwrap_or_default().split(',').filter(|item| !item.is_empty())
}

/// Builds a path with its CGI.
#[derive(Clone)]
pub struct CgiBuilder {
    text: String,
    /// What stands between the text and the next pair.
    separator: Option<char>,
}

impl CgiBuilder {
    /// Begins with a path, which may have CGI already.
    #[must_use]
    pub fn for_path(path: &str) -> Self {
        let separator = match path.split_once('?') {
            None => Some('?'),
            Some((_, cgi)) if cgi.is_empty() || cgi.ends_with('&') => None,
            Some(_) => Some('&'),
        };
        Self {
            text: path.to_owned(),
            separator,
        }
    }

    /// Begins with nothing: pairs alone.
    #[must_use]
    pub fn pairs_only() -> Self {
        Self {
            text: String::new(),
            separator: None,
        }
    }

    /// Appends a pair. Nothing in it is encoded by this protocol, so `&` and control characters,
    /// which would end it, are left out.
    #[must_use]
    pub fn pair(mut self, key: &str, value: &str) -> Self {
        self.separate();
        self.text.push_str(key);
        self.text.push('=');
        let kept = |character: &char| *character != '&' && (*character == '\t' || !character.is_control());
        self.text.extend(value.chars().filter(kept));
        self
    }

    /// Appends a pair when there is a value.
    #[must_use]
    pub fn optional(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.pair(key, value),
            None => self,
        }
    }

    /// Appends pairs as they are, such as those of a redirection, which must come back unchanged.
    #[must_use]
    pub fn raw(mut self, pairs: &str) -> Self {
        let pairs = pairs.trim_start_matches('&');
        if !pairs.is_empty() {
            self.separate();
            self.text.push_str(pairs);
        }
        self
    }

    /// Appends the size that an upload is going to have (`oss.asize`).
    #[must_use]
    pub fn expected_bytes(self, size_bytes: u64) -> Self {
        self.pair("oss.asize", &size_bytes.to_string())
    }

    /// Appends how far symbolic links may lead (`crossload.links`), for our own servers.
    #[must_use]
    pub fn link_limit(self, limit: &str) -> Self {
        self.pair(LINK_LIMIT, limit)
    }

    /// Appends a bearer token (`authz`).
    #[must_use]
    pub fn token(self, token: &Secret) -> Self {
        let value = Secret::new(format!("Bearer%20{}", token.expose()));
        self.pair("authz", value.expose())
    }

    /// Appends a capability for the server to which a client is sent.
    #[must_use]
    pub fn capability(self, text: &Secret) -> Self {
        self.pair(CAPABILITY, text.expose())
    }

    /// Appends the name of the request that redirects a client.
    #[must_use]
    pub fn redirect_id(self, id: &str) -> Self {
        self.pair(REDIRECT_ID, id)
    }

    /// Appends the trace that the request is part of (W3C Trace Context).
    #[must_use]
    pub fn traceparent(self, trace: &str) -> Self {
        self.pair(TRACEPARENT, trace)
    }

    /// Appends the checksum algorithm (`cks.type`).
    #[must_use]
    pub fn checksum_algorithm(self, name: &str) -> Self {
        self.pair("cks.type", name)
    }

    /// Appends the servers tried in vain and why (`tried`, `triedrc`).
    #[must_use]
    pub fn tried(self, hosts: &[&str], reasons: &[&str]) -> Self {
        if hosts.is_empty() {
            return self;
        }
        let tried = self.pair("tried", &hosts.join(","));
        if reasons.is_empty() {
            tried
        } else {
            tried.pair("triedrc", &reasons.join(","))
        }
    }

    /// Appends what makes a request part of a third-party copy.
    #[must_use]
    pub fn third_party(self, copy: &crate::ThirdParty<'_>) -> Self {
        copy.write(self)
    }

    /// The text.
    #[must_use]
    pub fn build(self) -> String {
        self.text
    }

    fn separate(&mut self) {
        self.text.extend(self.separator);
        self.separator = Some('&');
    }
}

impl std::fmt::Debug for CgiBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "CgiBuilder({} bytes)", self.text.len())
    }
}

/// Pairs of a source's CGI as they travel within another CGI (`tpc.scgi`): tabs stand for `&`.
/// Pairs for the first reader alone (`tpc.`, `xrd.`, `xrdcl.`, and our own) are dropped.
#[must_use]
pub fn unpack_source_cgi(packed: &str) -> String {
    let kept = |pair: &&str| {
        !pair.is_empty()
            && !["tpc.", "xrd.", "xrdcl.", "crossload."]
                .iter()
                .any(|prefix| pair.starts_with(prefix))
    };
    packed.split('\t').filter(kept).collect::<Vec<_>>().join("&")
}

/// The opposite: `&` becomes a tab.
#[must_use]
pub fn pack_source_cgi(cgi: &str) -> Cow<'_, str> {
    if cgi.contains('&') {
        Cow::Owned(cgi.replace('&', "\t"))
    } else {
        Cow::Borrowed(cgi)
    }
}
