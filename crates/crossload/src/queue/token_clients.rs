//! The queue's names and secrets at token issuers, from their file.

use std::path::Path;
use std::time::Duration;

use config::Configuration;
use credentials::https_location;
use queue::RenewalLog;
use remote::TokenProvider;
use serde_json::json;
use types::{Error, Secret};

use crate::failure::Failure;
use crate::server::log::Log;
use crate::server::secret;

/// Issuers that the file may name.
const ISSUERS_MAX: usize = 100;

/// Writes which issuers fail.
pub(super) fn renewal_log(log: Log) -> impl RenewalLog {
    move |issuer: &str, error: &Error, pause: Duration| {
        let fields = json!({"issuer": issuer, "error": error.public(), "next_attempt_s": pause.as_secs()});
        log.write("token_issuer_failed", &fields);
    }
}

/// The clients that the configuration names.
///
/// # Errors
/// As [`load`].
pub(crate) fn configured(configuration: &Configuration) -> Result<Vec<TokenProvider>, Failure> {
    let file = configuration.queue.token_clients_file.as_deref();
    file.map_or(Ok(Vec::new()), load)
}

/// Reads the file.
///
/// # Errors
/// Others may access it, it cannot be read, or a line is invalid; the message quotes no secret.
pub(crate) fn load(file: &Path) -> Result<Vec<TokenProvider>, Failure> {
    let text = secret::load_text("token clients", file)?;
    let fault = |number: usize, why: &str| {
        Failure::invalid(format!("token clients {}: line {}: {why}", file.display(), number + 1))
    };
    let mut providers: Vec<TokenProvider> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (issuer, client_id, secret, place) = match words[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [issuer, client_id, secret] => (issuer, client_id, secret, None),
            [issuer, client_id, secret, place] => (issuer, client_id, secret, Some(place)),
            _ => return Err(fault(number, "not ISSUER NAME SECRET [TOKEN_ENDPOINT]")),
        };
        for url in std::iter::once(issuer).chain(place) {
            https_location(url).map_err(|_| fault(number, "not an https URL"))?;
        }
        if providers.iter().any(|known| known.issuer == issuer) {
            return Err(fault(number, "the issuer is named twice"));
        }
        if providers.len() >= ISSUERS_MAX {
            return Err(fault(number, &format!("more than {ISSUERS_MAX} issuers")));
        }
        providers.push(TokenProvider {
            issuer: issuer.to_owned(),
            client_id: client_id.to_owned(),
            client_secret: Some(Secret::new(secret)),
            token_url: place.map(str::to_owned),
        });
    }
    Ok(providers)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn loaded(text: &str) -> Result<Vec<TokenProvider>, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("clients");
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        load(&file).map_err(|failure| failure.words)
    }

    #[test]
    fn each_line_is_an_issuer_and_no_message_has_a_secret() {
        let good = "# ours\n\nhttps://iam.example q s3cr3t\nhttps://b.example/ r t https://b.example/token\n";
        let read = loaded(good).unwrap();
        assert_eq!(read.len(), 2);
        let secret = read[0].client_secret.as_ref().map(Secret::expose);
        assert_eq!((read[0].client_id.as_str(), secret), ("q", Some("s3cr3t")));
        assert_eq!(read[1].token_url.as_deref(), Some("https://b.example/token"));
        for bad in [
            "https://iam.example q",
            "http://iam.example q s3cr3t",
            "https://iam.example q s3cr3t http://x/token",
            "https://a q s3cr3t\nhttps://a q s3cr3t",
        ] {
            let message = loaded(bad).unwrap_err();
            assert!(message.contains("line") && !message.contains("s3cr3t"), "{message}");
        }
    }
}
