//! Which faults of the fit are proven by what was tried, and who else could be at fault.

use std::collections::{BTreeMap, BTreeSet};

use super::fit::Fit;
use super::hypothesis::{About, Candidate, ENDS_MIN, Evidence, Hypothesis, Observation};
use super::subject::{Role, Scope, Subject};
use super::{Finding, Verdict, commonest};
use crate::model::Mode;

/// Partners, probes or endpoints that a fault must be seen with.
const OBSERVATIONS_MIN: usize = 2;
/// Standard deviations of a 95 % interval.
const Z: f64 = 1.96;

/// What fails, in the order of what it explains.
pub(super) fn findings(evidence: &Evidence<'_>, fit: &Fit) -> Vec<Finding> {
    let cases = Cases::new(evidence, fit);
    let mut all: Vec<Finding> = (0..fit.faults.len()).map(|at| cases.of_fault(at)).collect();
    all.extend(cases.unexplained());
    all
}

/// An endpoint in a role, in copies of one protocol and mode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct End<'a> {
    endpoint: &'a str,
    role: Role,
    protocol: &'a str,
    mode: Mode,
}

/// How an end did with one partner: cells that passed and that failed, of those that no fault
/// explains.
#[derive(Clone, Copy, Default)]
struct Record {
    passed: f64,
    failed: f64,
}

struct Cases<'e, 'a> {
    evidence: &'e Evidence<'a>,
    faults: Vec<Candidate<'a>>,
    /// How many faults explain each observation.
    covered: Vec<u32>,
    /// By end and by partner.
    records: BTreeMap<End<'a>, BTreeMap<&'a str, Record>>,
}

impl<'e, 'a> Cases<'e, 'a> {
    fn new(evidence: &'e Evidence<'a>, fit: &Fit) -> Self {
        let faults = fit.faults.iter().map(|fault| &evidence.candidates[fault.candidate]);
        let mut faults: Vec<Candidate<'a>> = faults.cloned().collect();
        let mut covered = vec![0; evidence.observations.len()];
        for place in faults.iter().flat_map(|fault| &fault.places) {
            covered[*place] += 1;
        }
        for fault in &mut faults {
            narrow(fault, evidence, &mut covered);
        }
        let mut records: BTreeMap<End<'a>, BTreeMap<&'a str, Record>> = BTreeMap::new();
        for (observation, covered) in evidence.observations.iter().zip(&covered) {
            if *covered == 0 && !observation.is_probe() {
                for (end, partner) in [
                    (source_of(observation), observation.link.destination.as_str()),
                    (destination_of(observation), observation.link.source.as_str()),
                ] {
                    let record = records.entry(end).or_default().entry(partner).or_default();
                    record.passed += 1.0 - observation.failed;
                    record.failed += observation.failed;
                }
            }
        }
        Self {
            evidence,
            faults,
            covered,
            records,
        }
    }

    /// Whether an end does well with others than this partner.
    fn does_well(&self, end: End<'a>, but_for: &str) -> bool {
        let with_others = self.records.get(&end).into_iter().flatten();
        let mut sum = Record::default();
        for (_, record) in with_others.filter(|(partner, _)| **partner != but_for) {
            sum.passed += record.passed;
            sum.failed += record.failed;
        }
        sum.passed > sum.failed
    }

    /// The observations of a fault that no other one explains; all of them if there are none.
    fn own(&self, at: usize) -> Vec<&'e Observation<'a>> {
        let places = &self.faults[at].places;
        let alone: Vec<usize> = places
            .iter()
            .copied()
            .filter(|place| self.covered[*place] == 1)
            .collect();
        let places = if alone.is_empty() { places } else { &alone };
        places.iter().map(|place| &self.evidence.observations[*place]).collect()
    }

    fn of_fault(&self, at: usize) -> Finding {
        let (hypothesis, own) = (self.faults[at].hypothesis, self.own(at));
        let subject = hypothesis.subject();
        match hypothesis.about {
            About::Everything => everything(subject, &own),
            About::Endpoint { name, role } => self.endpoint(subject, name, role, &own),
            About::Link { .. } => {
                let suspects = self.suspects_of_link(&own);
                let verdict = match suspects.is_empty() {
                    true => Verdict::Named,
                    false => Verdict::Undecided,
                };
                let shares: Vec<f64> = own.iter().map(|one| one.failed).collect();
                finding(subject, verdict, suspects, &own, &shares)
            }
        }
    }

    /// An endpoint is proven bad by partners that do well with others, and by probes.
    fn endpoint(&self, subject: Subject, name: &'a str, role: Role, own: &[&Observation<'a>]) -> Finding {
        let mut proven: BTreeMap<&str, Record> = BTreeMap::new();
        let mut probes: Vec<f64> = Vec::new();
        let mut failing: BTreeSet<&str> = BTreeSet::new();
        for one in own {
            let (partner, end) = match one.link.source == name {
                true => (one.link.destination.as_str(), destination_of(one)),
                false => (one.link.source.as_str(), source_of(one)),
            };
            if one.is_probe() {
                probes.push(one.failed);
                continue;
            }
            if one.has_failed() {
                failing.insert(partner);
            }
            if self.does_well(end, name) {
                let record = proven.entry(partner).or_default();
                record.failed += one.failed;
                record.passed += 1.0 - one.failed;
            }
        }
        let shares: Vec<f64> = proven
            .values()
            .map(|record| record.failed / (record.failed + record.passed))
            .chain(probes.iter().copied())
            .collect();
        let proofs = proven.values().filter(|record| record.failed > 0.0).count();
        let is_named = proofs >= OBSERVATIONS_MIN || probes.iter().any(|failed| *failed > 0.0);
        let (verdict, suspects) = match is_named {
            true => (Verdict::Named, Vec::new()),
            false => {
                let partner = failing.first().copied().filter(|_| failing.len() == 1);
                let is_good = partner.is_some_and(|partner| proven.contains_key(partner));
                (
                    Verdict::Undecided,
                    suspects_beside(&subject, name, role, partner, is_good),
                )
            }
        };
        finding(subject, verdict, suspects, own, &shares)
    }

    /// The ends of a link that nothing else tests.
    fn suspects_of_link(&self, own: &[&Observation<'a>]) -> Vec<Subject> {
        let mut suspects = Vec::new();
        let is_bad = |end: fn(&Observation<'a>) -> End<'a>, partner: fn(&Observation<'a>) -> &'a str| {
            let failed = own.iter().filter(|one| one.has_failed());
            failed.clone().next().is_some() && !failed.clone().any(|one| self.does_well(end(one), partner(one)))
        };
        let Some(first) = own.first() else {
            return suspects;
        };
        let endpoint = |name: &str, role| Subject::Endpoint {
            name: name.to_owned(),
            role,
            scope: Scope::default(),
        };
        if is_bad(source_of, |one| &one.link.destination) {
            suspects.push(endpoint(&first.link.source, Role::Source));
        }
        if is_bad(destination_of, |one| &one.link.source) {
            suspects.push(endpoint(&first.link.destination, Role::Destination));
        }
        suspects
    }

    /// Failures that no fault explains, one finding for each link, and one for each endpoint that
    /// failed in a probe.
    fn unexplained(&self) -> Vec<Finding> {
        let mut links: BTreeMap<(&str, &str, bool), Vec<&Observation<'a>>> = BTreeMap::new();
        for (observation, covered) in self.evidence.observations.iter().zip(&self.covered) {
            if *covered == 0 {
                let (source, destination) = (&observation.link.source, &observation.link.destination);
                let link = (source.as_str(), destination.as_str(), observation.is_probe());
                links.entry(link).or_default().push(observation);
            }
        }
        let failing = links
            .into_iter()
            .filter(|(_, own)| own.iter().any(|one| one.has_failed()));
        let finding = |((source, destination, is_probe), own): ((&str, &str, bool), Vec<&Observation<'a>>)| {
            if is_probe {
                return probed(source, own);
            }
            let suspects = self.suspects_of_link(&own);
            let subject = Subject::Link {
                source: source.to_owned(),
                destination: destination.to_owned(),
                scope: common_scope(&own),
            };
            let shares: Vec<f64> = own.iter().map(|one| one.failed).collect();
            finding(subject, Verdict::Isolated, suspects, &own, &shares)
        };
        failing.map(finding).collect()
    }
}

/// Restricts a fault of an endpoint to one end, if others explain all that happened at the other
/// end. Two faults of one endpoint may share copies, and the wider one is the cheaper hypothesis:
/// "fails by pull" for a bad source that cannot pull either. Both would be described by the copies
/// that they do not share, which leaves out the commonest failure.
fn narrow<'a>(fault: &mut Candidate<'a>, evidence: &Evidence<'a>, covered: &mut [u32]) {
    let About::Endpoint { name, role: Role::Both } = fault.hypothesis.about else {
        return;
    };
    let own = fault.places.iter().filter(|place| covered[**place] == 1);
    let own = own.map(|place| &evidence.observations[*place]);
    if own.clone().any(Observation::is_probe) {
        return;
    }
    let mut ends: BTreeSet<Role> = BTreeSet::new();
    for one in own {
        let is_source = one.link.source == name;
        ends.extend(is_source.then_some(Role::Source));
        ends.extend((one.link.destination == name).then_some(Role::Destination));
    }
    let Some(role) = ends.pop_first().filter(|_| ends.is_empty()) else {
        return;
    };
    fault.hypothesis = Hypothesis {
        about: About::Endpoint { name, role },
        ..fault.hypothesis
    };
    fault.places.retain(|place| {
        let link = evidence.observations[*place].link;
        let is_kept = match role {
            Role::Source => link.source == name,
            Role::Both | Role::Destination => link.destination == name,
        };
        covered[*place] -= u32::from(!is_kept);
        is_kept
    });
}

/// The finding for an endpoint that failed in probes: there is no partner to be at fault.
fn probed(name: &str, mut own: Vec<&Observation<'_>>) -> Finding {
    let scope = common_scope(&own);
    own.retain(|one| scope.has(one));
    let subject = Subject::Endpoint {
        name: name.to_owned(),
        role: Role::Both,
        scope,
    };
    let shares: Vec<f64> = own.iter().map(|one| one.failed).collect();
    finding(subject, Verdict::Named, Vec::new(), &own, &shares)
}

/// The schemes of a copy in words.
fn protocols(one: &Observation<'_>) -> String {
    match one.link.source_protocol == one.link.destination_protocol {
        true => one.link.source_protocol.clone(),
        false => format!("{} to {}", one.link.source_protocol, one.link.destination_protocol),
    }
}

impl Scope {
    /// Whether a copy is in it; `protocol` as [`protocols`] has it.
    fn has(&self, one: &Observation<'_>) -> bool {
        let Self {
            protocol,
            mode,
            credential,
        } = self;
        protocol.as_ref().is_none_or(|protocol| *protocol == protocols(one))
            && mode.is_none_or(|mode| mode == one.link.mode)
            && credential
                .as_ref()
                .is_none_or(|credential| *credential == one.link.credential)
    }
}

/// What the failed ones have in common that the others of the link have not.
fn common_scope(own: &[&Observation<'_>]) -> Scope {
    let failed = || own.iter().filter(|one| one.has_failed());
    let differs = |key: fn(&Observation<'_>) -> String| {
        let all: BTreeSet<String> = own.iter().map(|one| key(one)).collect();
        let bad: BTreeSet<String> = failed().map(|one| key(one)).collect();
        (bad.len() == 1 && all.len() > 1)
            .then(|| bad.into_iter().next())
            .flatten()
    };
    let protocol = differs(protocols);
    let mode = differs(|one| one.link.mode.name().to_owned());
    Scope {
        protocol,
        mode: mode.and_then(|_| failed().next()).map(|one| one.link.mode),
        credential: differs(|one| one.link.credential.clone()),
    }
}

fn everything(subject: Subject, own: &[&Observation<'_>]) -> Finding {
    let failed = || own.iter().filter(|one| one.has_failed());
    let sources: BTreeSet<&str> = failed().map(|one| one.link.source.as_str()).collect();
    let destinations: BTreeSet<&str> = failed().map(|one| one.link.destination.as_str()).collect();
    let verdict = match sources.len().min(destinations.len()) {
        ENDS_MIN.. => Verdict::Named,
        _ => Verdict::Undecided,
    };
    let shares: Vec<f64> = own.iter().map(|one| one.failed).collect();
    finding(subject, verdict, Vec::new(), own, &shares)
}

/// Who else can be at fault when an endpoint is not proven to be. `partner`: the only one with
/// which it failed; `is_good`: whether that one does well with others.
fn suspects_beside(subject: &Subject, name: &str, role: Role, partner: Option<&str>, is_good: bool) -> Vec<Subject> {
    let Subject::Endpoint { scope, .. } = subject else {
        return Vec::new();
    };
    let Some(partner) = partner else {
        return vec![Subject::Partners {
            of: name.to_owned(),
            role: role.opposite(),
            scope: scope.clone(),
        }];
    };
    let link = |source: &str, destination: &str| Subject::Link {
        source: source.to_owned(),
        destination: destination.to_owned(),
        scope: scope.clone(),
    };
    let mut suspects = Vec::new();
    if !is_good {
        suspects.push(Subject::Endpoint {
            name: partner.to_owned(),
            role: role.opposite(),
            scope: scope.clone(),
        });
    }
    if role != Role::Destination {
        suspects.push(link(name, partner));
    }
    if role != Role::Source {
        suspects.push(link(partner, name));
    }
    suspects
}

fn finding(
    subject: Subject,
    verdict: Verdict,
    suspects: Vec<Subject>,
    own: &[&Observation<'_>],
    shares: &[f64],
) -> Finding {
    let failed = own.iter().filter(|one| one.has_failed());
    let (rate_low, rate_high) = interval(shares.iter().sum(), shares.len() as f64);
    Finding {
        subject,
        verdict,
        suspects,
        tried: own.len() as u64,
        failed: failed.clone().count() as u64,
        observations: shares.len() as u64,
        rate_low,
        rate_high,
        symptom: commonest(failed.filter_map(|one| one.failure)),
        slow: None,
    }
}

/// Wilson's interval for a share: right for few observations and for shares of 0 and 1. Without
/// observations it is everything.
fn interval(failed: f64, all: f64) -> (f64, f64) {
    if all <= 0.0 {
        return (0.0, 1.0);
    }
    let share = failed / all;
    let middle = (share + Z * Z / (2.0 * all)) / (1.0 + Z * Z / all);
    let half = Z / (1.0 + Z * Z / all) * (share * (1.0 - share) / all + Z * Z / (4.0 * all * all)).sqrt();
    // A thousandth is more than is known, and such numbers are the same after JSON.
    let rounded = |share: f64| (share.clamp(0.0, 1.0) * 1000.0).round() / 1000.0;
    (rounded(middle - half), rounded(middle + half))
}

fn source_of<'a>(observation: &Observation<'a>) -> End<'a> {
    let link = observation.link;
    End {
        endpoint: &link.source,
        role: Role::Source,
        protocol: &link.source_protocol,
        mode: link.mode,
    }
}

fn destination_of<'a>(observation: &Observation<'a>) -> End<'a> {
    let link = observation.link;
    End {
        endpoint: &link.destination,
        role: Role::Destination,
        protocol: &link.destination_protocol,
        mode: link.mode,
    }
}

#[cfg(test)]
mod tests {
    use super::interval;

    #[test]
    fn intervals_are_wilsons() {
        // Wilson 1927; the values of R's binom::binom.wilson.
        let (low, high) = interval(11.0, 11.0);
        assert!((low - 0.7412).abs() < 1e-3 && high == 1.0, "{low} {high}");
        let (low, high) = interval(1.0, 10.0);
        assert!(
            (low - 0.0179).abs() < 1e-3 && (high - 0.4042).abs() < 1e-3,
            "{low} {high}"
        );
        assert_eq!(interval(0.0, 0.0), (0.0, 1.0));
    }
}
