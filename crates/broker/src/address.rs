//! A broker, and how we log in there.

use types::{Secret, is_loopback_host};

/// The schemes of brokers, each with its usual port.
const SCHEMES: [Scheme; 2] = [
    Scheme {
        name: "stomp://",
        port: 61613,
        is_encrypted: false,
    },
    Scheme {
        name: "stomp+ssl://",
        port: 61614,
        is_encrypted: true,
    },
];

struct Scheme {
    name: &'static str,
    port: u16,
    is_encrypted: bool,
}

/// A broker that speaks STOMP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    url: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_encrypted: bool,
}

impl Broker {
    /// Of `stomp://host:port`, or `stomp+ssl://host:port` with TLS; `None` for anything else.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let scheme = SCHEMES.iter().find(|scheme| url.starts_with(scheme.name))?;
        let place = url[scheme.name.len()..].trim_end_matches('/');
        // The colons of an address in brackets belong to it.
        let (host, port) = match place.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (place, scheme.port),
        };
        let is_host = !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']);
        is_host.then(|| Self {
            url: url.to_owned(),
            host: host.to_owned(),
            port,
            is_encrypted: scheme.is_encrypted,
        })
    }

    /// As it was given.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name or address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether others in the network can read what is sent to it: it has no TLS, and is not on this
    /// machine.
    #[must_use]
    pub fn is_in_clear_text(&self) -> bool {
        !self.is_encrypted && !is_loopback_host(self.host())
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// A user at the brokers.
#[derive(Clone, Debug)]
pub struct BrokerLogin {
    /// The user.
    pub user: String,
    /// The password.
    pub password: Secret,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_has_a_scheme_a_host_and_a_port() {
        let broker = Broker::parse("stomp+ssl://mb.example").unwrap();
        assert_eq!(
            (broker.host.as_str(), broker.port, broker.is_encrypted),
            ("mb.example", 61614, true)
        );
        let broker = Broker::parse("stomp://[::1]:5").unwrap();
        assert_eq!(
            (broker.host.as_str(), broker.port, broker.is_encrypted),
            ("[::1]", 5, false)
        );
        assert_eq!(Broker::parse("stomp://[::1]").unwrap().port, 61613);
        for wrong in ["http://a", "stomp://", "stomp://u:p@a:1", "stomp://a:b", "stomp://a/b"] {
            assert_eq!(Broker::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_broker_without_tls_is_in_clear_text_unless_it_is_here() {
        for (url, is_in_clear_text) in [
            ("stomp://mb.example", true),
            ("stomp://192.0.2.1:61613", true),
            ("stomp://[2001:db8::1]", true),
            ("stomp+ssl://mb.example", false),
            ("stomp://localhost", false),
            ("stomp://127.0.0.2:5", false),
            ("stomp://[::1]:5", false),
            ("stomp://[::ffff:127.0.0.1]", false),
        ] {
            assert_eq!(
                Broker::parse(url).unwrap().is_in_clear_text(),
                is_in_clear_text,
                "{url}"
            );
        }
    }
}
