//! Keys of the transfer queue's messages.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::section;
use crate::section::{Purpose, RESTART};

/// The schemes of brokers.
const SCHEMES: [&str; 2] = ["stomp://", "stomp+ssl://"];
/// How brokers are written.
pub(crate) const BROKER_FORM: &str = "write stomp://host:port or stomp+ssl://host:port";
/// Brokers that a queue sends to.
const BROKERS_MAX: usize = 8;

section! {
    /// Messages of the transfer queue about its copies, in the formats of FTS: for clients that
    /// subscribe by STOMP, such as Rucio's receiver, and for brokers such as ActiveMQ. Certificate
    /// and key of the listener are those of `[server]`. `crossload serve` ignores this section.
    "messages" false Messages {
        /// Addresses for subscribers by STOMP. The usual port is 61613. Default: none.
        listen: Vec<SocketAddr> = Some(Vec::new()) => RESTART;
        /// File with the subscribers' passwords, one `user:password` a line, readable for its owner
        /// only. Without TLS, passwords count for clients on this machine only.
        password_file: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::Private, "the subscribers' passwords");
        /// Users who may subscribe with a certificate, or with a token as passcode: names of
        /// certificates, attributes of VOMS, or `subject@issuer` of tokens. A subscriber sees the
        /// messages about all users.
        users: Vec<String> = Some(Vec::new()) => RESTART;
        /// Brokers that get all messages: `"stomp://host:61613"`, or `"stomp+ssl://host:61614"`
        /// with TLS. Each gets them at least once, also after it was away for up to a day.
        brokers: Vec<String> = Some(Vec::new()) => RESTART;
        /// File with `user:password` for the brokers, readable for its owner only.
        broker_password_file: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::Private, "the password for the brokers");
        /// Certificate to show to brokers with TLS, in PEM.
        broker_certificate: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::Private, "the certificate for the brokers");
        /// Its private key.
        broker_key: Option<PathBuf> = Some(None) => RESTART.file(Purpose::Private, "the key for the brokers");
        /// What stands before the names of FTS's topics at the brokers.
        broker_prefix: String = Some("/topic/".to_owned()) => RESTART;
        /// Whether brokers keep the messages on disk.
        persistent: bool = Some(true) => RESTART;
    }
}

impl Messages {
    /// Mistakes that involve several keys. `is_open`: the queue serves everyone.
    pub(crate) fn faults(&self, is_open: bool) -> Vec<String> {
        let mut faults = Vec::new();
        let has_users = self.password_file.is_some() || !self.users.is_empty();
        if !self.listen.is_empty() && !has_users && !is_open {
            faults.push("listen: no client could log in; set password_file or users".to_owned());
        }
        for broker in &self.brokers {
            if !is_broker(broker) {
                faults.push(format!("brokers: \"{broker}\" is no broker; {BROKER_FORM}"));
            }
        }
        if self.brokers.len() > BROKERS_MAX {
            faults.push(format!("brokers: at most {BROKERS_MAX}"));
        }
        faults.extend(half_identity(
            self.broker_certificate.as_deref(),
            self.broker_key.as_deref(),
        ));
        faults
    }
}

/// Whether a text names a broker.
pub(crate) fn is_broker(text: &str) -> bool {
    let place = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
    place.is_some_and(|place| !place.is_empty() && !place.contains(['/', '@', '?']))
}

/// What is missing of a certificate for brokers.
pub(crate) fn half_identity(certificate: Option<&Path>, key: Option<&Path>) -> Option<String> {
    let words = match (certificate, key) {
        (Some(_), None) => "broker_certificate: its private key is missing; set broker_key, too",
        (None, Some(_)) => "broker_key: its certificate is missing; set broker_certificate, too",
        _ => return None,
    };
    Some(words.to_owned())
}
