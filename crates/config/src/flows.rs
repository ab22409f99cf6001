//! Keys of SciTags: which flows are marked, and who hears of them.

use std::path::Path;
use std::time::Duration;

use credentials::AddressRange;
use toml::de::DeValue;
use types::LogicalPath;

use crate::cms::is_host_and_port;
use crate::section;
use crate::section::{Conflict, LIVE, RESTART, Values as _};
use crate::values::{Setting, quoted, read_integer};

/// Most collectors.
const DESTINATIONS_MAX: usize = 4;

/// The experiments that have a number in the registry of SciTags (scitags.org, version 1 of
/// 2025-09-04).
const EXPERIMENTS: [(&str, u16); 14] = [
    ("default", 1),
    ("atlas", 2),
    ("cms", 3),
    ("lhcb", 4),
    ("alice", 5),
    ("belleii", 6),
    ("ska", 7),
    ("dune", 8),
    ("lsst", 9),
    ("ilc", 10),
    ("auger", 11),
    ("juno", 12),
    ("nova", 13),
    ("xenon", 14),
];

/// The largest number of an experiment, which has ten bits.
const EXPERIMENT_MAX: u16 = 1023;

/// The largest number of an activity, which has six bits.
const ACTIVITY_MAX: u32 = 63;

/// Networks whose flows never leave a site.
const LOCAL_NETWORKS: [&str; 8] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "::1",
    "fc00::/7",
    "fe80::/10",
];

/// The number of an experiment in the registry of SciTags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment(pub u16);

impl Setting for Experiment {
    const KIND: &'static str = "name or number";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        if let Some(name) = value.as_str() {
            let found = EXPERIMENTS.iter().find(|(known, _)| *known == name);
            let names: Vec<&str> = EXPERIMENTS.iter().map(|(name, _)| *name).collect();
            let why = || format!("\"{name}\" is none of {}; write its number", names.join(", "));
            return found.map(|(_, number)| Self(*number)).ok_or_else(why);
        }
        let number = read_integer(value).and_then(Result::ok);
        let number = number.and_then(|number| u16::try_from(number).ok());
        let number = number.filter(|number| (1..=EXPERIMENT_MAX).contains(number));
        number
            .map(Self)
            .ok_or_else(|| format!("write the name of an experiment, or a number between 1 and {EXPERIMENT_MAX}"))
    }

    fn write(&self) -> Option<String> {
        let known = EXPERIMENTS.iter().find(|(_, number)| *number == self.0);
        Some(known.map_or_else(|| self.0.to_string(), |(name, _)| quoted(name)))
    }
}

fn local_networks() -> Vec<AddressRange> {
    LOCAL_NETWORKS.into_iter().filter_map(AddressRange::parse).collect()
}

section! {
    /// SciTags: tells networks by UDP which experiment and activity the connections with payload
    /// belong to ([monitoring.md](monitoring.md#scitags)). Off without receivers.
    "scitags" false SciTags {
        /// Collectors that get a firefly for each marked connection, each `"host:port"`; their
        /// usual port is 10514. At most 4.
        destinations: Vec<String> = Some(Vec::new()) => RESTART;
        /// Also send each firefly to port 10514 of the other end of its connection.
        to_peers: bool = Some(false) => RESTART;
        /// Connections to these networks are not marked. Default: loopback, private and link-local
        /// addresses.
        excluded: Vec<AddressRange> = Some(local_networks()) => LIVE;
        /// Also put the label into the IPv6 packets of connections that this server opens for
        /// third-party copies.
        label_packets: bool = Some(true) => LIVE;
        /// Tell again after this time that a connection goes on, and how much it has carried.
        ongoing_interval: Duration = Some(Duration::from_secs(60)) => RESTART;
    }
}

section! {
    /// What connections belong to whose clients name no SciTag. Repeat the section for several; the
    /// first that holds counts. Without conditions it holds for all.
    "flow" true FlowRule {
        /// Clients of this virtual organisation.
        vo: Option<String> = Some(None) => LIVE;
        /// Files in this directory, as clients name it.
        path: Option<LogicalPath> = Some(None) => LIVE;
        /// The experiment: its name in the registry of SciTags, or its number (1 to 1023).
        experiment: Experiment = None => LIVE;
        /// The number of the activity (1 to 63), as the registry has it for the experiment.
        activity: u32 = Some(1) => LIVE;
    }
}

impl SciTags {
    /// Whether anything hears of flows.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.destinations.is_empty() || self.to_peers
    }

    /// Mistakes in this section.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.destinations.len() > DESTINATIONS_MAX {
            faults.push(format!("destinations: at most {DESTINATIONS_MAX}; remove some"));
        }
        let wrong = self.destinations.iter().filter(|receiver| !is_host_and_port(receiver));
        faults.extend(wrong.map(|text| {
            format!("destinations: \"{text}\" is no receiver; write host:port, such as \"collector.example:10514\"")
        }));
        if self.ongoing_interval.as_secs() == 0 {
            faults.push("ongoing_interval: must be at least 1s".to_owned());
        }
        faults
    }
}

/// Mistakes in the rules about flows.
pub(crate) fn flow_faults(rules: &[FlowRule]) -> Vec<Conflict> {
    let is_wrong = |rule: &FlowRule| !(1..=ACTIVITY_MAX).contains(&rule.activity);
    let wrong = rules.iter().enumerate().filter(|(_, rule)| is_wrong(rule));
    let conflicts = wrong.map(|(index, rule)| Conflict {
        section: FlowRule::SECTION.name,
        index,
        words: format!(
            "activity: {} is no activity of it; write a number between 1 and {ACTIVITY_MAX}",
            rule.activity
        ),
    });
    conflicts.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Configuration;

    fn read(text: &str) -> Result<Configuration, String> {
        Configuration::parse(text, Path::new("/etc"), "c.toml").map_err(|faults| faults.to_string())
    }

    #[test]
    fn experiments_have_names_or_numbers() {
        let text = "[[flow]]\nvo = \"atlas\"\nexperiment = \"atlas\"\n[[flow]]\nexperiment = 77\nactivity = 26\n";
        let flows = read(text).unwrap().flows;
        let parts: Vec<_> = flows.iter().map(|flow| (flow.experiment.0, flow.activity)).collect();
        assert_eq!(parts, [(2, 1), (77, 26)]);
        for wrong in ["\"altas\"", "0", "1024", "true"] {
            let told = read(&format!("[[flow]]\nexperiment = {wrong}\n")).unwrap_err();
            assert!(told.contains(":2: experiment: "), "{wrong}: {told}");
        }
        let told = read("[[flow]]\nexperiment = 3\nactivity = 64\n").unwrap_err();
        assert!(told.contains("activity: 64 is no activity of it"), "{told}");
    }

    #[test]
    fn flows_that_stay_at_the_site_are_left_out_by_default() {
        let scitags = read("").unwrap().scitags;
        assert!(!scitags.is_on());
        let holds = |address: &str| {
            scitags
                .excluded
                .iter()
                .any(|range| range.contains(address.parse().unwrap()))
        };
        assert!(holds("127.0.0.1") && holds("::1") && holds("10.9.8.7") && holds("fe80::1"));
        assert!(!holds("192.0.2.1") && !holds("2001:db8::1"));
        assert_eq!(scitags.excluded.len(), super::LOCAL_NETWORKS.len());
        let told = read("[scitags]\ndestinations = [\"collector.example\"]\n").unwrap_err();
        assert!(told.contains("is no receiver"), "{told}");
    }
}
