//! Keys of the packets for those who watch many servers.

use std::time::Duration;

use crate::cms::is_host_and_port;
use crate::section;
use crate::section::RESTART;

/// Most receivers of each kind.
const DESTINATIONS_MAX: usize = 4;

section! {
    /// Monitoring as XRootD does it: who used which file and how, told to receivers by UDP, for the
    /// accounting of experiments and sites ([monitoring.md](monitoring.md)). Off without receivers.
    "monitoring" false Monitoring {
        /// Receivers of logins and files, each `"host:port"`: XRootD's detailed monitoring, as a
        /// shoveler or a collector takes it. At most 4.
        destinations: Vec<String> = Some(Vec::new()) => RESTART;
        /// Receivers of third-party copies, each `"host:port"`: XRootD's stream `tpc`, as JSON. At
        /// most 4.
        copy_destinations: Vec<String> = Some(Vec::new()) => RESTART;
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
    }
}

impl Monitoring {
    /// Whether there are receivers.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.destinations.is_empty() || !self.copy_destinations.is_empty()
    }

    /// Mistakes in this section.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let lists = [
            ("destinations", &self.destinations),
            ("copy_destinations", &self.copy_destinations),
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
        let intervals = [
            ("flush_interval", self.flush_interval),
            ("progress_interval", self.progress_interval),
            ("identity_interval", self.identity_interval),
        ];
        let short = intervals.into_iter().filter(|(_, interval)| interval.as_secs() == 0);
        faults.extend(short.map(|(key, _)| format!("{key}: must be at least 1s")));
        faults
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Configuration;

    #[test]
    fn receivers_are_hosts_with_ports() {
        let faults = |lines: &str| {
            let text = format!("[monitoring]\n{lines}\n");
            let read = Configuration::parse(&text, Path::new("/etc"), "c.toml");
            read.map_or_else(|faults| faults.to_string(), |_| String::new())
        };
        assert_eq!(faults("destinations = [\"shoveler.example:9993\", \"[::1]:9993\"]"), "");
        let told = faults("copy_destinations = [\"shoveler.example\"]");
        assert!(
            told.contains(":2: copy_destinations: \"shoveler.example\" is no receiver"),
            "{told}"
        );
        assert!(faults("flush_interval = \"10ms\"").contains("at least 1s"));
    }
}
