//! What was found, as one file for a ticket.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::Found;
use crate::failure::Failure;
use crate::token::now_s;

/// Names of people are in it.
const BUNDLE_MODE: u32 = 0o600;
/// What stands for something that others must not see.
const HIDDEN: &str = "[removed]";

/// Writes a new file.
///
/// # Errors
/// It exists, or cannot be written.
pub(super) fn write(file: &Path, id: &str, found: &Found) -> Result<(), Failure> {
    let lines = found.lines.iter().map(|line| without_secrets(line.as_json()));
    let silent = found
        .silent
        .iter()
        .map(|(name, why)| json!({"source": name, "why": why}));
    let document = json!({
        "id": id,
        "identifiers": found.ids,
        "written": http_wire::format_iso_date(now_s()),
        "version": env!("CARGO_PKG_VERSION"),
        "not_asked": silent.collect::<Vec<_>>(),
        "timeline": lines.collect::<Vec<_>>(),
    });
    let failed = |cause| Failure::system(file.display(), &cause);
    let mut options = OpenOptions::new();
    let mut opened = options
        .write(true)
        .create_new(true)
        .mode(BUNDLE_MODE)
        .open(file)
        .map_err(failed)?;
    let text = format!("{document:#}\n");
    opened
        .write_all(text.as_bytes())
        .and_then(|()| opened.sync_all())
        .map_err(failed)
}

/// The value without what gives access: queries of URLs, passwords in them, and tokens. Logs have
/// none; those of other programs might.
fn without_secrets(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(all) => all.into_iter().map(without_secrets).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, without_secrets(value)))
            .collect(),
        other => other,
    }
}

fn clean(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let (mut word, query) = word.split_once('?').map_or((word.to_owned(), None), |(plain, query)| {
            (plain.to_owned(), Some(query))
        });
        if let Some((scheme, rest)) = word.clone().split_once("://")
            && let Some((user, behind)) = rest.split_once('@')
            && !user.contains('/')
        {
            word = format!("{scheme}://{HIDDEN}@{behind}");
        }
        // Each part of a token (RFC 7519 §3) begins with `{"` in base64url.
        let is_token = word.matches("eyJ").count() > 0 && word.matches('.').count() >= 2;
        match (is_token, query) {
            (true, _) => HIDDEN.to_owned(),
            (false, Some(query)) if query.contains('=') => format!("{word}?{HIDDEN}"),
            (false, Some(query)) => format!("{word}?{query}"),
            (false, None) => word,
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gives_access_is_removed_wherever_it_stands() {
        let line =
            json!({"path": "/d/f?authz=abc", "list": ["root://jane:pw@h//f why?", "Bearer eyJa.eyJb.c"], "n": 1});
        let clean =
            json!({"path": "/d/f?[removed]", "list": ["root://[removed]@h//f why?", "Bearer [removed]"], "n": 1});
        assert_eq!(without_secrets(line), clean);
    }
}
