//! What came of the probes, as the cells of a run that is kept and reported on.

use history::{Cell, Failure as KeptFailure, Link, Mode, Outcome as KeptOutcome, Step};

use super::{Blame, Failure, Outcome, Probe, Protocol};
use crate::kind::Kind;
use crate::mesh::{milliseconds, without_tokens};

/// The cells of an endpoint: one for each protocol and kind of credential, whose steps are its
/// probes. A probe that failed by a fault of the third party does not make the cell fail.
#[must_use]
pub fn cells(endpoint: &str, probes: &[Probe], started_ms: u64) -> Vec<Cell> {
    let mut cells: Vec<(Protocol, Kind, Vec<&Probe>)> = Vec::new();
    for probe in probes {
        let of = |(protocol, kind, _): &&mut (Protocol, Kind, Vec<&Probe>)| {
            (*protocol, *kind) == (probe.protocol, probe.kind)
        };
        match cells.iter_mut().find(of) {
            Some((_, _, probes)) => probes.push(probe),
            None => cells.push((probe.protocol, probe.kind, vec![probe])),
        }
    }
    let cell = |(protocol, kind, probes): (Protocol, Kind, Vec<&Probe>)| Cell {
        steps: probes.iter().map(|probe| step(probe)).collect(),
        started_ms,
        copies: 1,
        copies_failed: u64::from(first_failure(&probes).is_some()),
        ..Cell::untried(link(endpoint, protocol, kind), outcome(&probes))
    };
    cells.into_iter().map(cell).collect()
}

fn link(endpoint: &str, protocol: Protocol, kind: Kind) -> Link {
    Link {
        source: endpoint.to_owned(),
        destination: endpoint.to_owned(),
        source_protocol: protocol.name().to_owned(),
        destination_protocol: protocol.name().to_owned(),
        mode: Mode::Probe,
        credential: kind.name().to_owned(),
    }
}

/// The first failure that is not the third party's.
fn first_failure<'a>(probes: &[&'a Probe]) -> Option<&'a Failure> {
    probes.iter().find_map(|probe| match &probe.outcome {
        Outcome::Failed(failure) if failure.blame != Blame::ThirdParty => Some(&**failure),
        _ => None,
    })
}

fn outcome(probes: &[&Probe]) -> KeptOutcome {
    if let Some(failure) = first_failure(probes) {
        return KeptOutcome::Failed(Box::new(kept(failure)));
    }
    if probes.iter().any(|probe| matches!(probe.outcome, Outcome::Passed)) {
        return KeptOutcome::Passed;
    }
    let why = probes.iter().find_map(|probe| match &probe.outcome {
        Outcome::Skipped(why) => Some(without_tokens(why)),
        Outcome::Failed(failure) => Some(format!(
            "a fault of the third party: {}",
            without_tokens(&failure.says_to_all)
        )),
        Outcome::Passed => None,
    });
    KeptOutcome::Skipped {
        why: why.unwrap_or_default(),
    }
}

fn step(probe: &Probe) -> Step {
    let name = match probe.address {
        Some(address) => format!("{} at {address}", probe.name),
        None => probe.name.clone(),
    };
    Step {
        name,
        took_ms: milliseconds(probe.took),
        outcome: match &probe.outcome {
            Outcome::Passed => KeptOutcome::Passed,
            Outcome::Skipped(why) => KeptOutcome::Skipped {
                why: without_tokens(why),
            },
            // The cell has the lines.
            Outcome::Failed(failure) => KeptOutcome::Failed(Box::new(KeptFailure {
                reproduce: Vec::new(),
                ..kept(failure)
            })),
        },
    }
}

fn kept(failure: &Failure) -> KeptFailure {
    KeptFailure {
        side: failure.side,
        phase: failure.phase,
        code: failure.code.unwrap_or("failed").to_owned(),
        says: without_tokens(&failure.says_to_all),
        server_status: failure.server_status,
        server_words: failure.server_words.as_deref().map(without_tokens),
        reproduce: failure.reproduce.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use types::{Error, ErrorCode, Location, Phase, Side};

    use super::*;

    fn probe(name: &str, kind: Kind, outcome: Outcome) -> Probe {
        Probe {
            name: name.to_owned(),
            protocol: Protocol::Https,
            kind,
            address: None,
            place: Location::parse("https://a/f").unwrap(),
            outcome,
            took: Duration::from_millis(7),
        }
    }

    fn failed(side: Side) -> Outcome {
        let error = Error::new(ErrorCode::PeerFailed, side, Phase::Open).with_private("/secret/path");
        Outcome::Failed(Box::new(Failure::of(
            &error,
            Some(Side::Source),
            vec!["curl".to_owned()],
        )))
    }

    #[test]
    fn each_protocol_and_credential_is_a_cell() {
        let probes = [
            probe("connect", Kind::Anonymous, Outcome::Passed),
            probe("upload", Kind::Token, Outcome::Passed),
            probe("delete", Kind::Token, failed(Side::Active)),
            probe("upload", Kind::Proxy, Outcome::Skipped("no proxy".to_owned())),
            probe("pull", Kind::Proxy, failed(Side::Source)),
        ];
        let cells = cells("SE", &probes, 9);
        let ends: Vec<(&str, &str, usize)> = cells
            .iter()
            .map(|cell| (cell.link.credential.as_str(), cell.outcome.name(), cell.steps.len()))
            .collect();
        assert_eq!(
            ends,
            [
                ("anonymous", "passed", 1),
                ("token", "failed", 2),
                ("x509", "skipped", 2)
            ]
        );
        let failure = cells[1].outcome.failure().unwrap();
        assert_eq!((failure.code.as_str(), failure.reproduce.len()), ("peer_failed", 1));
        assert!(!failure.says.contains("secret"), "{}", failure.says);
    }
}
