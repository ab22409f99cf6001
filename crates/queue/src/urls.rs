//! Secrets in URLs: signatures and tokens in the query of a source or destination.
//!
//! The catalog holds such a URL with the values of its parameters hidden, for lists, logs and
//! messages, and beside it the whole query, sealed. Only copies open it. It goes with the file's
//! job: the history keeps the hidden form alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use catalog::NewJob;
use schedule::JobId;
use types::{Result, Secret};

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

    /// The text with [`HIDDEN`] in their places.
    pub(crate) fn hide(&self, mut text: String) -> String {
        for secret in &self.0 {
            if text.contains(secret) {
                text = text.replace(secret, HIDDEN);
            }
        }
        text
    }
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
                "403 for /p?X-Amz-Signature=hidden&n=7",
            ),
            ("bad signature 5f0123ab/cd", "bad signature hidden"),
            ("got Bearer eyJhbGciOi.x.y", "got Bearer hidden"),
            ("7 of 7, push", "7 of 7, push"),
        ] {
            assert_eq!(concealed.hide(text.to_owned()), hidden);
        }
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
