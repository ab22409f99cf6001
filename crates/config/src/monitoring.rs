//! Keys of the packets for those who watch many servers.

use std::path::PathBuf;
use std::time::Duration;

use crate::cms::is_host_and_port;
use crate::messages::{BROKER_FORM, half_identity, is_broker};
use crate::section;
use crate::section::{Purpose, RESTART};
use crate::values::Bytes;

/// Most receivers of each kind.
const DESTINATIONS_MAX: usize = 4;
/// The smallest spool: an hour of a busy server.
const SPOOL_BYTES_MIN: u64 = 1 << 20;

section! {
    /// Monitoring as XRootD does it: who used which file and how, for the accounting of experiments
    /// and sites ([monitoring.md](monitoring.md)). Receivers get it by UDP, or from a broker. Off
    /// without receivers and broker.
    "monitoring" false Monitoring {
        /// Receivers of logins and files, each `"host:port"`: XRootD's detailed monitoring, as a
        /// shoveler or a collector takes it. At most 4.
        destinations: Vec<String> = Some(Vec::new()) => RESTART;
        /// Receivers of third-party copies, each `"host:port"`: XRootD's stream `tpc`, as JSON. At
        /// most 4.
        copy_destinations: Vec<String> = Some(Vec::new()) => RESTART;
        /// Receivers of counts of HTTP requests by method and status, each `"host:port"`: the
        /// stream `http` of XRootD 6, as JSON. At most 4.
        http_destinations: Vec<String> = Some(Vec::new()) => RESTART;
        /// Receivers of a summary of the server, each `"host:port"`: XRootD's `xrd.report`, as XML.
        /// At most 4.
        summary_destinations: Vec<String> = Some(Vec::new()) => RESTART;
        /// Broker that gets the packets about logins, files and copies, each at least once, in the
        /// messages of OSG's shoveler: `"stomp://host:61613"`, or `"stomp+ssl://host:61614"` with
        /// TLS. Needs `spool`.
        broker: Option<String> = Some(None) => RESTART;
        /// Destination of the messages at the broker.
        broker_destination: String = Some("/topic/xrootd.shoveler".to_owned()) => RESTART;
        /// File with `user:password` for the broker, readable for its owner only.
        broker_password_file: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::Private, "the password for the broker");
        /// Certificate to show to a broker with TLS, in PEM.
        broker_certificate: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::Private, "the certificate for the broker");
        /// Its private key.
        broker_key: Option<PathBuf> = Some(None) => RESTART.file(Purpose::Private, "the key for the broker");
        /// Directory for packets that the broker has not confirmed. Each server needs its own.
        spool: Option<PathBuf> = Some(None) => RESTART.file(Purpose::Private, "the spool of the monitoring");
        /// Space that these packets may take. Beyond it, the oldest are dropped and counted.
        spool_bytes: Bytes = Some(Bytes(1 << 30)) => RESTART;
        /// Name of the site, as its experiments know it. Default: the name of this machine.
        site: Option<String> = Some(None) => RESTART;
        /// Also tell the names of users and the subjects of their credentials.
        personal_names: bool = Some(false) => RESTART;
        /// Send what has been gathered after this time; a full packet goes at once.
        flush_interval: Duration = Some(Duration::from_secs(5)) => RESTART;
        /// Tell how much open files have moved after this time, so that a packet that is lost hides
        /// little.
        progress_interval: Duration = Some(Duration::from_secs(60)) => RESTART;
        /// Tell again who this server is, and which logins have files open, after this time: to
        /// receivers that began later or have forgotten it.
        identity_interval: Duration = Some(Duration::from_secs(300)) => RESTART;
        /// Send a summary each time this has passed.
        summary_interval: Duration = Some(Duration::from_secs(60)) => RESTART;
    }
}

impl Monitoring {
    /// Whether there are receivers by UDP of what clients do.
    #[must_use]
    pub fn is_on(&self) -> bool {
        let lists = [&self.destinations, &self.copy_destinations, &self.http_destinations];
        lists.iter().any(|list| !list.is_empty())
    }

    /// Mistakes in this section.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let lists = [
            ("destinations", &self.destinations),
            ("copy_destinations", &self.copy_destinations),
            ("http_destinations", &self.http_destinations),
            ("summary_destinations", &self.summary_destinations),
        ];
        for (key, list) in lists {
            if list.len() > DESTINATIONS_MAX {
                faults.push(format!("{key}: at most {DESTINATIONS_MAX}; remove some"));
            }
            let wrong = list.iter().filter(|receiver| !is_host_and_port(receiver));
            faults.extend(wrong.map(|text| {
                format!("{key}: \"{text}\" is no receiver; write host:port, such as \"shoveler.example:9993\"")
            }));
        }
        faults.extend(self.broker_faults());
        let intervals = [
            ("flush_interval", self.flush_interval),
            ("progress_interval", self.progress_interval),
            ("identity_interval", self.identity_interval),
            ("summary_interval", self.summary_interval),
        ];
        let short = intervals.into_iter().filter(|(_, interval)| interval.as_secs() == 0);
        faults.extend(short.map(|(key, _)| format!("{key}: must be at least 1s")));
        faults
    }

    fn broker_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(broker) = self.broker.as_ref().filter(|broker| !is_broker(broker)) {
            faults.push(format!("broker: \"{broker}\" is no broker; {BROKER_FORM}"));
        }
        if self.broker.is_some() && self.spool.is_none() {
            faults.push("broker: packets need a directory until it confirms them; set spool, too".to_owned());
        }
        let is_printable = !self.broker_destination.is_empty() && !self.broker_destination.contains(char::is_control);
        if !is_printable {
            faults.push("broker_destination: write a destination such as \"/topic/xrootd.shoveler\"".to_owned());
        }
        if self.spool_bytes.0 < SPOOL_BYTES_MIN {
            faults.push("spool_bytes: must be at least 1MiB".to_owned());
        }
        faults.extend(half_identity(
            self.broker_certificate.as_deref(),
            self.broker_key.as_deref(),
        ));
        faults
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Configuration;

    fn faults(lines: &str) -> String {
        let text = format!("[monitoring]\n{lines}\n");
        let read = Configuration::parse(&text, Path::new("/etc"), "c.toml");
        read.map_or_else(|faults| faults.to_string(), |_| String::new())
    }

    #[test]
    fn a_broker_needs_a_spool_that_holds_something() {
        let broker = "broker = \"stomp+ssl://mb.example:61614\"";
        assert_eq!(faults(&format!("{broker}\nspool = \"/s\"\nspool_bytes = \"1MiB\"")), "");
        let wrong = [
            (broker, "set spool, too"),
            ("broker = \"mb.example\"\nspool = \"/s\"", "is no broker"),
            ("broker = \"stomp://u:p@mb.example\"\nspool = \"/s\"", "is no broker"),
            ("spool_bytes = \"1KiB\"", "at least 1MiB"),
            ("broker_destination = \"\"", "write a destination"),
            ("broker_key = \"k\"", "set broker_certificate, too"),
        ];
        for (lines, words) in wrong {
            let told = faults(lines);
            assert!(told.contains(words), "{lines}: {told}");
        }
    }

    #[test]
    fn receivers_are_hosts_with_ports() {
        assert_eq!(faults("destinations = [\"shoveler.example:9993\", \"[::1]:9993\"]"), "");
        let told = faults("copy_destinations = [\"shoveler.example\"]");
        assert!(
            told.contains(":2: copy_destinations: \"shoveler.example\" is no receiver"),
            "{told}"
        );
        assert!(faults("summary_destinations = [\"mona\"]").contains("\"mona\" is no receiver"));
        for key in ["flush_interval", "summary_interval"] {
            assert!(faults(&format!("{key} = \"10ms\"")).contains("at least 1s"), "{key}");
        }
    }
}
