//! How we log in at brokers: a file with user and password, or a certificate.

use std::path::Path;

use broker::{Broker, BrokerLogin};
use net::tls::ClientIdentity;
use serde_json::json;
use types::Secret;

use super::log::Log;
use super::secret;
use crate::failure::Failure;

/// The user of a file with `user:password`.
///
/// # Errors
/// The file cannot be read, others may read it, or it holds something else.
pub(crate) fn login(file: Option<&Path>) -> Result<Option<BrokerLogin>, Failure> {
    let Some(file) = file else { return Ok(None) };
    let lines = secret::load_passwords(file)?;
    let parts = lines.first().and_then(|line| line.split_once(':'));
    let (user, password) =
        parts.ok_or_else(|| Failure::invalid(format!("passwords {}: not user:password", file.display())))?;
    Ok(Some(BrokerLogin {
        user: user.to_owned(),
        password: Secret::new(password),
    }))
}

/// The certificate that brokers are shown, with its key.
///
/// # Errors
/// A file cannot be read, or the two do not belong together.
pub(crate) fn identity(certificate: Option<&Path>, key: Option<&Path>) -> Result<Option<ClientIdentity>, Failure> {
    let files = certificate.zip(key);
    let identity = files.map(|(certificate, key)| ClientIdentity::load(certificate, key));
    Ok(identity.transpose()?)
}

/// What to do about a password in clear text.
pub(crate) const USE_TLS: &str =
    "write stomp+ssl:// and the port that the broker has for TLS, usually 61614, or remove broker_password_file";

/// The warning if others in the network can read the password for this broker.
pub(crate) fn clear_text_warning(broker: &Broker, has_password: bool) -> Option<String> {
    (has_password && broker.is_in_clear_text()).then(|| {
        format!(
            "the password in broker_password_file goes to {} without TLS: anyone on the way can read it",
            broker.url()
        )
    })
}

/// Logs that warning.
pub(crate) fn log_clear_text(log: &Log, broker: &Broker, login: Option<&BrokerLogin>) {
    if let Some(says) = clear_text_warning(broker, login.is_some()) {
        let says = format!("{says}; {USE_TLS}");
        log.write("broker_clear_text", &json!({"broker": broker.url(), "says": says}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_clear_text_is_logged() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("log");
        let log = Log::to_file(&file);
        let login = BrokerLogin {
            user: "u".to_owned(),
            password: Secret::new("s3cr3t"),
        };
        for url in ["stomp://mb.example", "stomp+ssl://tls.example", "stomp://localhost:1"] {
            log_clear_text(&log, &Broker::parse(url).unwrap(), Some(&login));
        }
        log_clear_text(&log, &Broker::parse("stomp://open.example").unwrap(), None);
        log.flush();
        let lines = std::fs::read_to_string(&file).unwrap();
        assert_eq!(lines.matches("broker_clear_text").count(), 1, "{lines}");
        assert!(
            lines.contains("stomp://mb.example without TLS") && lines.contains("stomp+ssl://"),
            "{lines}"
        );
        assert!(!lines.contains("s3cr3t"), "{lines}");
    }
}
