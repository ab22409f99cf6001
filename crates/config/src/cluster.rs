//! Keys of a server as a node of a cluster.

use std::path::PathBuf;
use std::time::Duration;

use policy::Drain;

use crate::rules::RuleSubjects;
use crate::section;
use crate::section::{LIVE, Purpose};

/// Longest time in which clients that were already sent are still served.
const GRACE_MAX: Duration = Duration::from_secs(3600);

section! {
    /// This server as a node of a cluster: who may see how busy it is, and what it is still used
    /// for ([cluster.md](cluster.md)). Redirectors on this machine need none of these keys.
    "cluster" false Cluster {
        /// Who may see load, room and changed names at `/.well-known/crossload-node`, besides
        /// clients on this machine and `operators`: the words of a rule's `who`, such as
        /// `"address:192.0.2.0/24"` or `"dn:/CN=redirector.example"`; a list in the list means
        /// that all its words must hold. `["anyone"]` shows it to everyone.
        redirectors: Vec<RuleSubjects> = Some(Vec::new()) => LIVE;
        /// Who may also drain this server, by `crossload node`; the same words. Tokens with scopes
        /// and macaroons do not count.
        operators: Vec<RuleSubjects> = Some(Vec::new()) => LIVE;
        /// What this server is used for: `"active"`, `"no_writes"` (no new files) or `"no_reads"`
        /// (nothing new). An order by `crossload node` can only add to it.
        drain: Drain = Some(Drain::Active) => LIVE;
        /// How long clients that redirectors have already sent here are still served after a step
        /// of draining began. Up to 1 h.
        drain_grace: Duration = Some(Duration::from_secs(5)) => LIVE;
        /// File that keeps the order of `crossload node drain` over restarts. When not set: an
        /// order ends with the process.
        state_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the state of the node");
        /// The site of this server, for redirectors that keep clients near.
        site: Option<String> = Some(None) => LIVE;
    }
}

impl Cluster {
    /// Mistakes in this section.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.drain_grace > GRACE_MAX {
            faults.push("drain_grace: at most 1h".to_owned());
        }
        for (key, list) in [("redirectors", &self.redirectors), ("operators", &self.operators)] {
            for subjects in list {
                if let Some(words) = subjects.rule().fault() {
                    faults.push(format!("{key}: {words}"));
                }
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Configuration;

    fn parse(text: &str) -> Result<Cluster, String> {
        let parsed = Configuration::parse(&format!("[cluster]\n{text}"), Path::new("/etc"), "c");
        parsed
            .map(|configuration| configuration.cluster)
            .map_err(|faults| faults.to_string())
    }

    #[test]
    fn redirectors_are_named_as_in_rules() {
        let read = parse("redirectors = [\"address:192.0.2.1\", [\"issuer:https://i\", \"subject:r\"]]").unwrap();
        assert_eq!(read.redirectors.len(), 2);
        assert_eq!(read.redirectors[1].0.len(), 2);
        assert_eq!(read.drain, Drain::Active);
        for wrong in [
            "redirectors = [\"192.0.2.1\"]",
            "redirectors = [\"subject:r\"]",
            "operators = [[]]",
            "drain = \"empty\"",
            "drain_grace = \"2h\"",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse("drain = \"no_reads\"").unwrap().drain, Drain::NoReads);
    }
}
