//! Secrets in URLs: signatures and tokens in the query of a source or destination.
//!
//! The catalog holds such a URL with the values of its parameters hidden, for lists, logs and
//! messages, and beside it the whole query, sealed. Only copies open it. It goes with the file's
//! job: the history keeps the hidden form alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use catalog::NewJob;
use schedule::JobId;
use types::{Error, Location, Result, Secret};

use crate::Vault;
use crate::limits::CONCEALED_BYTES_MIN;

/// Parameters that hold no secret. The values of all others are hidden: each service has its own
/// names for signatures.
const HARMLESS: [&str; 4] = ["copy_mode", "spacetoken", "svcClass", "SFN"];
/// What stands for a hidden value.
const HIDDEN: &str = "hidden";

/// A URL with the values of its parameters hidden; `None` if it has none that may be secret.
#[must_use]
pub fn hidden_query(url: &str) -> Option<String> {
    let (before, query) = url.split_once('?')?;
    let mut has_secret = false;
    let parameters = query.split('&').map(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or(("", parameter));
        match value.is_empty() || HARMLESS.contains(&name) {
            true => parameter.to_owned(),
            false => {
                has_secret = true;
                // A value without a name may be a secret as a whole.
                let equals = if name.is_empty() { "" } else { "=" };
                format!("{name}{equals}{HIDDEN}")
            }
        }
    });
    let parameters: Vec<String> = parameters.collect();
    has_secret.then(|| format!("{before}?{}", parameters.join("&")))
}

/// Hides the queries of a job's URLs, and seals them beside.
///
/// # Errors
/// As [`Vault::seal`].
pub fn hide_queries(vault: &Vault, job: &mut NewJob) -> Result<()> {
    let id = job.id;
    for file in &mut job.files {
        let options = &mut file.options;
        for (url, sealed) in [
            (&mut file.source, &mut options.source_query),
            (&mut file.destination, &mut options.destination_query),
        ] {
            let Some(shown) = hidden_query(url) else { continue };
            let (_, query) = url.split_once('?').unwrap_or_default();
            let bytes = vault.seal_query(&bound(id, &shown), query.as_bytes())?;
            *sealed = Some(BASE64.encode(bytes));
            *url = shown;
        }
    }
    Ok(())
}

/// The whole URL of a file, for its copy; `None` if the shown one hides nothing.
///
/// # Errors
/// As [`Vault::open`].
pub fn whole_url(vault: &Vault, job: JobId, shown: &str, sealed: Option<&str>) -> Result<Option<Secret>> {
    let Some(sealed) = sealed else { return Ok(None) };
    // What is no base64 does not open.
    let bytes = BASE64.decode(sealed).unwrap_or_default();
    let query = vault.open_query(&bound(job, shown), &bytes)?;
    let (before, _) = shown.split_once('?').unwrap_or((shown, ""));
    let query = String::from_utf8_lossy(&query);
    Ok(Some(Secret::new(format!("{before}?{query}"))))
}

/// What reports about a copy must not contain: servers like to quote the URL that they refuse.
pub(crate) struct Concealed(Vec<String>);

impl Concealed {
    /// The values that the records of these URLs hide, and these tokens.
    pub(crate) fn of<'a>(
        urls: impl IntoIterator<Item = &'a Secret>,
        tokens: impl IntoIterator<Item = &'a Secret>,
    ) -> Self {
        let mut all = Vec::new();
        for url in urls {
            let (_, query) = url.expose().split_once('?').unwrap_or_default();
            for parameter in query.split('&') {
                let (name, value) = parameter.split_once('=').unwrap_or(("", parameter));
                if !HARMLESS.contains(&name) {
                    all.extend(types::decode_percent(value));
                    all.push(value.to_owned());
                }
            }
        }
        all.extend(tokens.into_iter().map(|token| token.expose().to_owned()));
        all.retain(|text| text.len() >= CONCEALED_BYTES_MIN);
        // The longer first: a shorter one can be a part of it.
        all.sort_by_key(|text| std::cmp::Reverse(text.len()));
        all.dedup();
        Self(all)
    }

    /// The path and the query of a webhook.
    pub(crate) fn of_webhook(url: &Secret, place: &Location) -> Self {
        let mut all = Self::of([url], []);
        let path = place.path();
        all.0
            .extend((path.len() >= CONCEALED_BYTES_MIN).then(|| path.to_owned()));
        all
    }

    /// The text with [`HIDDEN`] in their places, and in those of other secrets that look like some.
    pub(crate) fn hide(&self, mut text: String) -> String {
        for secret in &self.0 {
            if text.contains(secret) {
                text = text.replace(secret, HIDDEN);
            }
        }
        without_secrets(&text)
    }

    /// The error with [`HIDDEN`] in their places.
    pub(crate) fn clear(&self, error: Error) -> Error {
        let hidden = |text: Option<&str>| text.map(|text| self.hide(text.to_owned()));
        let (detail, subject) = (hidden(error.detail()), hidden(error.subject()));
        let (words, private) = (hidden(error.peer_words()), hidden(error.private()));
        let status = error.peer_status();
        let mut error = error.with_peer(status, &words.unwrap_or_default());
        if let Some(detail) = detail {
            error = error.with_detail(detail);
        }
        if let Some(subject) = subject {
            error = error.with_subject(subject);
        }
        match private {
            Some(private) => error.with_private(private),
            None => error,
        }
    }
}

/// What servers say, without the secrets that it quotes: values in queries of URLs, and tokens.
/// They may be those of others: a request to a tape system has files of many jobs, and a server
/// may quote its own signed URLs.
pub(crate) fn without_secrets(text: &str) -> String {
    let ends = |character: char| character.is_whitespace() || "\"'<>()[]{}`,;\\".contains(character);
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(ends).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        plain.push_str(&word_without_secrets(word));
        let between = behind.find(|character| !ends(character)).unwrap_or(behind.len());
        plain.push_str(&behind[..between]);
        rest = &behind[between..];
    }
    plain
}

/// A word without white space or quotation marks.
fn word_without_secrets(word: &str) -> String {
    // A question mark at the end of a sentence begins no query.
    let has_query = word.split_once('?').is_some_and(|(_, query)| query.contains('='));
    if has_query {
        return hidden_query(word).unwrap_or_else(|| word.to_owned());
    }
    match word.find(JWT_BEGIN).filter(|begin| is_token(&word[*begin..])) {
        Some(begin) => format!("{}{HIDDEN}", &word[..begin]),
        None => word.to_owned(),
    }
}

/// How the header of a JSON Web Token begins in base64: `{"`.
const JWT_BEGIN: &str = "eyJ";

/// Whether a word is a JSON Web Token (RFC 7519): parts in base64 with dots between them.
fn is_token(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'=');
    word.len() >= CONCEALED_BYTES_MIN && word.contains('.') && word.bytes().all(is_part)
}

/// A query opens for its own file only.
fn bound(job: JobId, shown: &str) -> String {
    format!("{job} {shown}")
}

#[cfg(test)]
mod tests {
    use credentials::SealingKey;

    use super::*;

    #[test]
    fn values_are_hidden_unless_their_names_are_known() {
        for (url, shown) in [
            ("https://a/p", None),
            ("https://a/p?", None),
            ("https://a/p?svcClass=x&copy_mode=push", None),
            ("https://a/p?authz=Bearer%20x", Some("https://a/p?authz=hidden")),
            (
                "https://a/p?X-Amz-Date=1&svcClass=x&X-Amz-Signature=ff=",
                Some("https://a/p?X-Amz-Date=hidden&svcClass=x&X-Amz-Signature=hidden"),
            ),
            ("https://a/p?eyJhbGciOi.x.y", Some("https://a/p?hidden")),
            ("https://a/p?a=1?sig=2", Some("https://a/p?a=hidden")),
        ] {
            assert_eq!(hidden_query(url).as_deref(), shown, "{url}");
        }
    }

    #[test]
    fn a_quoted_url_or_token_is_hidden() {
        let url = Secret::new("https://a/p?X-Amz-Signature=5f0123ab%2Fcd&n=7&copy_mode=push");
        let token = Secret::new("eyJhbGciOi.x.y");
        let concealed = Concealed::of([&url], [&token]);
        for (text, hidden) in [
            (
                "403 for /p?X-Amz-Signature=5f0123ab%2Fcd&n=7",
                "403 for /p?X-Amz-Signature=hidden&n=hidden",
            ),
            ("bad signature 5f0123ab/cd", "bad signature hidden"),
            ("got Bearer eyJhbGciOi.x.y", "got Bearer hidden"),
            ("7 of 7, push", "7 of 7, push"),
        ] {
            assert_eq!(concealed.hide(text.to_owned()), hidden);
        }
    }

    #[test]
    fn secrets_of_others_are_hidden_too() {
        for (text, hidden) in [
            (
                "no right for \"https://door/x/p?uuid=6f0c-1&authz=Bearer%20eyJ.a.b\", user 7",
                "no right for \"https://door/x/p?uuid=hidden&authz=hidden\", user 7",
            ),
            (
                "/p?svcClass=x&sig=1 is offline; why?",
                "/p?svcClass=x&sig=hidden is offline; why?",
            ),
            ("is it TLS? a=b", "is it TLS? a=b"),
            ("Bearer eyJhbGciOi.x-_.y= refused", "Bearer hidden refused"),
            ("(token=eyJhbGciOi.x.y)", "(token=hidden)"),
            ("eyJoe is no user", "eyJoe is no user"),
        ] {
            assert_eq!(without_secrets(text), hidden, "{text}");
        }
        let token = Secret::new("opaque-token-7");
        let concealed = Concealed::of([], [&token]);
        let error = Error::new(
            types::ErrorCode::PeerForbidden,
            types::Side::Source,
            types::Phase::Staging,
        )
        .with_peer(
            Some(types::PeerStatus::Http(403)),
            "opaque-token-7 may not read /p?uuid=1",
        )
        .with_detail("opaque-token-7");
        let cleared = concealed.clear(error);
        assert_eq!(cleared.peer_words(), Some("hidden may not read /p?uuid=hidden"));
        assert_eq!(
            (cleared.detail(), cleared.code().name()),
            (Some("hidden"), "peer_forbidden")
        );
    }

    #[test]
    fn a_query_opens_for_its_own_file_only() {
        let vault = Vault::new(SealingKey::new(b"key"));
        let job = JobId([1; 16]);
        let shown = "https://a/p?sig=hidden";
        let sealed = BASE64.encode(vault.seal_query(&bound(job, shown), b"sig=s3cr3t").unwrap());
        let open = |job, shown| whole_url(&vault, job, shown, Some(&sealed));
        assert_eq!(open(job, shown).unwrap().unwrap().expose(), "https://a/p?sig=s3cr3t");
        assert!(open(JobId([2; 16]), shown).is_err());
        assert!(open(job, "https://b/p?sig=hidden").is_err());
        assert!(whole_url(&vault, job, shown, Some("no base64!")).is_err());
        assert!(whole_url(&vault, job, "https://a/p", None).unwrap().is_none());
    }
}
