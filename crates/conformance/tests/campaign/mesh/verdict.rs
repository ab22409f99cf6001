//! What the mesh found, compared with what was planted.

use serde_json::Value;

use super::arrangement::{Arrangement, Plant};

/// The results of a run, and what the history says of it.
pub(super) struct Found {
    pub(super) results: Value,
    pub(super) shown: Value,
}

/// What a fault must be called.
struct Name {
    sides: &'static [&'static str],
    phases: &'static [&'static str],
    codes: &'static [&'static str],
    /// The end at which it shows.
    roles: &'static [&'static str],
}

impl Plant {
    /// `None`: it is no fault.
    fn name(self) -> Option<Name> {
        let name = match self {
            Self::Rests => return None,
            Self::Truncates => Name {
                sides: &["source"],
                phases: &["open", "transfer"],
                codes: &["peer_failed", "peer_truncated", "peer_closed"],
                roles: &["source"],
            },
            Self::Full => Name {
                sides: &["destination"],
                phases: &["open", "transfer"],
                codes: &["no_space", "peer_no_space"],
                roles: &["destination", "both"],
            },
            Self::Expired => Name {
                sides: &["source", "destination"],
                phases: &["tls"],
                codes: &["peer_tls_failed"],
                roles: &["source", "destination", "both"],
            },
            Self::NoChecksums => Name {
                sides: &["destination"],
                phases: &["checksum"],
                codes: &["checksum_unavailable"],
                roles: &["destination"],
            },
            Self::Keeps => Name {
                sides: &["destination"],
                phases: &["cleanup"],
                codes: &["peer_forbidden"],
                roles: &["destination"],
            },
        };
        Some(name)
    }
}

impl Name {
    /// What is wrong with a finding about the right subject.
    fn violation(&self, finding: &Value) -> Option<String> {
        let symptom = &finding["symptom"];
        let is_one = |value: &Value, of: &[&str]| value.as_str().is_some_and(|word| of.contains(&word));
        let is_right = is_one(&symptom["side"], self.sides)
            && is_one(&symptom["phase"], self.phases)
            && is_one(&symptom["code"], self.codes)
            && is_one(&finding["subject"]["role"], self.roles);
        (!is_right).then(|| format!("wrong side, phase or code: {finding}"))
    }
}

impl Found {
    fn findings(&self) -> impl Iterator<Item = &Value> {
        let faults = self.shown["faults"].as_array().expect("faults");
        let isolated = self.shown["isolated"].as_array().expect("isolated failures");
        faults.iter().map(|fault| &fault["finding"]).chain(isolated)
    }

    fn cells(&self) -> impl Iterator<Item = &Value> {
        self.results["cells"].as_array().expect("cells").iter()
    }

    fn ended(&self, outcome: &str) -> usize {
        self.cells().filter(|cell| cell["outcome"]["is"] == outcome).count()
    }

    /// How many cells ended how.
    pub(super) fn counts(&self) -> String {
        let counts = ["passed", "failed", "skipped", "not_applicable"];
        counts
            .map(|outcome| format!("{} {outcome}", self.ended(outcome)))
            .join(", ")
    }

    /// The findings, a line each, and the failures without one.
    pub(super) fn words(&self) -> String {
        let findings = self.findings().map(|finding| format!("    {finding}"));
        let mut lines: Vec<String> = findings.collect();
        let mut kinds = std::collections::BTreeMap::<String, usize>::new();
        for cell in self.cells().filter(|cell| cell["outcome"]["is"] == "failed") {
            let (link, outcome) = (&cell["link"], &cell["outcome"]);
            let kind = format!(
                "{} > {} {}: {} {} {} ({})",
                link["source"],
                link["destination"],
                link["mode"],
                outcome["side"],
                outcome["phase"],
                outcome["code"],
                outcome["says"]
            );
            *kinds.entry(kind).or_default() += 1;
        }
        lines.extend(kinds.into_keys().map(|kind| format!("        {kind}")));
        lines.join("\n")
    }

    /// What the mesh has not found, or not rightly, or found although it is not there.
    pub(super) fn violations(&self, arrangement: &Arrangement<'_>) -> Vec<String> {
        let mut violations = Vec::new();
        if self.results["is_complete"] != true {
            violations.push("the run is not complete".to_owned());
        }
        let mut named = vec![false; arrangement.plants.len()];
        let mut is_link_named = false;
        for finding in self.findings() {
            let subject = &finding["subject"];
            let wrong = if finding["verdict"] != "named" {
                Some(format!("not named: {finding}"))
            } else if subject["is"] == "link" && arrangement.is_slow(subject) {
                is_link_named = finding["slow"].is_object();
                (!is_link_named).then(|| format!("it is slow, and does not fail: {finding}"))
            } else if let Some((at, name)) = arrangement.planted(subject) {
                named[at] = true;
                name.violation(finding)
            } else {
                Some(format!("blamed without a fault: {finding}"))
            };
            violations.extend(wrong);
        }
        for (at, plant) in arrangement.plants.iter().enumerate() {
            if plant.is_some_and(|plant| plant.name().is_some()) && !named[at] {
                violations.push(format!("{} {plant:?} is not named", arrangement.name(at)));
            }
        }
        if !is_link_named {
            violations.push("the slow link is not named".to_owned());
        }
        violations.extend(self.cells().filter_map(|cell| arrangement.violation(cell)));
        violations
    }
}

impl Arrangement<'_> {
    fn is_slow(&self, link: &Value) -> bool {
        link["source"] == self.name(self.slow_source) && link["destination"] == self.name(self.slow_destination)
    }

    /// The endpoint that a finding is about, if it has a fault.
    fn planted(&self, subject: &Value) -> Option<(usize, Name)> {
        let (at, plant) = self.fault_of(&subject["name"])?;
        Some((at, plant.name()?))
    }

    fn fault_of(&self, name: &Value) -> Option<(usize, Plant)> {
        let at = (0..self.plants.len()).find(|at| name == self.name(*at))?;
        Some((at, self.plants[at]?))
    }

    /// A cell fails only if an end of it has a fault; with one in downtime, it is not tried.
    fn violation(&self, cell: &Value) -> Option<String> {
        let (link, outcome) = (&cell["link"], &cell["outcome"]["is"]);
        let ends = ["source", "destination"].map(|end| self.fault_of(&link[end]).map(|(_, plant)| plant));
        let rests = ends.contains(&Some(Plant::Rests));
        let is_right = match outcome.as_str()? {
            "failed" => !rests && ends.iter().flatten().count() > 0,
            "passed" => !rests,
            "skipped" => rests && cell["copies"] == 0,
            _ => true,
        };
        (!is_right).then(|| format!("{outcome} without a reason: {cell}"))
    }
}
