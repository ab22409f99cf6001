//! Who is at fault for copies that failed: the fit of the instruments, over what a queue copied.

use history::{Blame, Cell, Failure, Finding, Instrument, Link, Mode, Outcome, Role, Run, Subject, Verdict};
use types::{Phase, Side};

use crate::queue_facts::{Fault, LinkHour, Suspect};

/// What fails surely on more than this share of links is said to fail always.
const ALWAYS_RATE_MIN: f64 = 0.5;

/// What is at fault on these links, the gravest first; what fails without a pattern is left out.
///
/// This computes for a while if many links fail, and belongs on a thread for that.
#[must_use]
pub fn faults(links: &[LinkHour]) -> Vec<Fault> {
    let run = Run {
        instrument: Instrument::Stress,
        title: String::new(),
        started_ms: 0,
        ended_ms: 0,
        program: String::new(),
        is_complete: true,
        ended_by: None,
        endpoints: Vec::new(),
        cells: links.iter().map(cell).collect(),
        figures: Vec::new(),
    };
    let blame = Blame::of(&run);
    blame.faults().map(fault).collect()
}

/// The copies of a link as one observation. Their files differ, so their times say nothing.
fn cell(link: &LinkHour) -> Cell {
    let ends = Link {
        source: link.source.raw().to_owned(),
        destination: link.destination.raw().to_owned(),
        source_protocol: String::new(),
        destination_protocol: String::new(),
        // No server is known to be the active one.
        mode: Mode::Streamed,
        credential: String::new(),
    };
    let outcome = match link.failures.first() {
        Some(most) if link.failed > 0 => Outcome::Failed(Box::new(Failure {
            side: known(Side::ALL, Side::name, most.side.raw()).unwrap_or(Side::Queue),
            phase: known(Phase::ALL, Phase::name, most.phase.raw()).unwrap_or(Phase::Transfer),
            code: most.code.raw().to_owned(),
            says: String::new(),
            server_status: None,
            server_words: None,
            reproduce: Vec::new(),
        })),
        _ => Outcome::Passed,
    };
    Cell {
        copies: link.copied.saturating_add(link.failed),
        copies_failed: link.failed,
        ..Cell::untried(ends, outcome)
    }
}

fn known<T: Copy, const N: usize>(all: [T; N], name: fn(T) -> &'static str, word: &str) -> Option<T> {
    all.into_iter().find(|one| name(*one) == word)
}

fn fault(finding: &Finding) -> Fault {
    let all: Vec<&Subject> = std::iter::once(&finding.subject).chain(&finding.suspects).collect();
    let is_certain = finding.verdict == Verdict::Named;
    let who = match is_certain {
        true => {
            let is_always = finding.failed == finding.tried || finding.rate_low > ALWAYS_RATE_MIN;
            finding.subject.accusation(is_always)
        }
        false => {
            let names: Vec<String> = all.iter().map(ToString::to_string).collect();
            format!("one of these fails: {}", names.join(", "))
        }
    };
    let symptom = finding.symptom.as_ref();
    let symptom = symptom.map(|symptom| format!(": {} in {}", symptom.code, symptom.phase.name()));
    Fault {
        says: format!(
            "{who} ({} of {} links have failures){}",
            finding.failed,
            finding.tried,
            symptom.unwrap_or_default()
        )
        .into(),
        is_certain,
        suspects: all.into_iter().map(suspect).collect(),
    }
}

fn suspect(subject: &Subject) -> Suspect {
    match subject {
        Subject::Endpoint { name, role, .. } => match role {
            Role::Both => Suspect::Storage(name.as_str().into()),
            Role::Source => Suspect::Source(name.as_str().into()),
            Role::Destination => Suspect::Destination(name.as_str().into()),
        },
        Subject::Link {
            source, destination, ..
        } => Suspect::Link {
            source: source.as_str().into(),
            destination: destination.as_str().into(),
        },
        Subject::Everything { .. } | Subject::Partners { .. } => Suspect::Everything,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue_facts::FailureCount;

    fn link(source: usize, destination: usize, failed: u64) -> LinkHour {
        let kind = |count| FailureCount {
            code: "peer_failed".into(),
            side: "destination".into(),
            phase: "open".into(),
            count,
        };
        LinkHour {
            source: format!("s{source}").into(),
            destination: format!("s{destination}").into(),
            copied: 100 - failed,
            failed,
            bytes: 1000,
            failures: (failed > 0).then(|| kind(failed)).into_iter().collect(),
        }
    }

    /// Copies from each of six storages to each other.
    fn matrix(failed: impl Fn(usize, usize) -> u64) -> Vec<LinkHour> {
        let all = (0..6).flat_map(|source| (0..6).map(move |destination| (source, destination)));
        all.filter(|(source, destination)| source != destination)
            .map(|(source, destination)| link(source, destination, failed(source, destination)))
            .collect()
    }

    #[test]
    fn a_column_that_fails_is_named() {
        let found = faults(&matrix(|_, destination| if destination == 2 { 90 } else { 0 }));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].is_certain);
        assert_eq!(found[0].suspects, [Suspect::Destination("s2".into())]);
        assert_eq!(
            found[0].says.raw(),
            "s2 fails as a destination for everyone (5 of 5 links have failures): peer_failed in open"
        );
        let source = faults(&matrix(|source, _| if source == 4 { 100 } else { 0 }));
        assert_eq!(source[0].suspects, [Suspect::Source("s4".into())]);
    }

    #[test]
    fn few_failures_everywhere_accuse_no_storage() {
        assert!(faults(&matrix(|_, _| 1)).is_empty());
        assert!(faults(&matrix(|_, _| 0)).is_empty() && faults(&[]).is_empty());
    }
}
