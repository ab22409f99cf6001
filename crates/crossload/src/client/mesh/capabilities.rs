//! What a mesh has seen that endpoints can do, in the words of a transfer queue.

use std::collections::BTreeMap;

use history::{Cell, Mode, Outcome, Run};
use probe::mesh::{Credential, CredentialKind, Endpoint, Place};
use types::Side;

use crate::client::queue::SeenCapability;

/// The code of an active server that refuses the order as such.
const REFUSED: &str = "peer_unsupported";

/// Each capability once. An endpoint that did something for one of its partners can do it.
pub(super) fn seen(endpoints: &[Endpoint], run: &Run) -> Vec<SeenCapability> {
    let mut known: BTreeMap<_, SeenCapability> = BTreeMap::new();
    let ends = [Side::Source, Side::Destination];
    let all = run
        .cells
        .iter()
        .flat_map(|cell| ends.map(|end| seen_at(endpoints, cell, end)));
    for one in all.flatten() {
        let key = (one.storage.clone(), one.operation, one.part, one.peer, one.credential);
        let entry = known.entry(key).or_insert_with(|| one.clone());
        if (one.can, one.at_ms) > (entry.can, entry.at_ms) {
            *entry = one;
        }
    }
    known.into_values().collect()
}

/// What a cell shows of one of its ends.
fn seen_at(endpoints: &[Endpoint], cell: &Cell, end: Side) -> Option<SeenCapability> {
    let link = &cell.link;
    let (name, scheme, other, operation) = match end {
        Side::Source => (&link.source, &link.source_protocol, &link.destination_protocol, "read"),
        _ => (
            &link.destination,
            &link.destination_protocol,
            &link.source_protocol,
            "write",
        ),
    };
    let is_active = active_end(link.mode) == Some(end);
    let can = match copied(cell)? {
        Outcome::Passed => true,
        Outcome::Failed(failure) if is_active && failure.side == end && failure.code == REFUSED => false,
        // What else fails may be a matter of the moment.
        _ => return None,
    };
    let endpoint = endpoints.iter().find(|endpoint| endpoint.name == *name)?;
    let mut places = endpoint.places.iter();
    let place = places.find(|place| place.location.wire_scheme() == scheme)?;
    Some(SeenCapability {
        storage: format!("{scheme}://{}:{}", place.location.host(), place.location.port()),
        operation,
        part: if is_active { "active" } else { "passive" },
        peer: peer(other)?,
        credential: word(credential(place, &link.credential)?)?,
        can,
        at_ms: cell.started_ms,
    })
}

/// How the copy itself ended, whatever came after it.
fn copied(cell: &Cell) -> Option<&Outcome> {
    let step = cell.steps.iter().find(|step| step.name == "copy")?;
    Some(&step.outcome)
}

/// The end that fetches or sends.
fn active_end(mode: Mode) -> Option<Side> {
    match mode {
        Mode::Push => Some(Side::Source),
        Mode::Pull | Mode::Rendezvous | Mode::Lite => Some(Side::Destination),
        Mode::Streamed | Mode::Probe => None,
    }
}

/// What the endpoint was shown there.
fn credential<'a>(place: &'a Place, kind: &str) -> Option<&'a Credential> {
    let kind = CredentialKind::ALL.into_iter().find(|known| known.name() == kind)?;
    place.credentials.get(place.credential(kind)?)
}

/// The queue's word; none for keys that only this client has.
fn word(credential: &Credential) -> Option<&'static str> {
    match credential.kind {
        CredentialKind::X509 => Some("x509"),
        CredentialKind::Token => Some("token"),
        CredentialKind::Anonymous => Some("none"),
        CredentialKind::Keys => None,
    }
}

/// The queue's word for a family of protocols, by a scheme.
fn peer(scheme: &str) -> Option<&'static str> {
    match scheme {
        "http" | "https" => Some("http"),
        "root" | "roots" => Some("root"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use history::{Failure, Instrument, Link, Step};
    use probe::mesh::Role;
    use remote::Access;
    use types::{Location, Phase};

    use super::*;

    fn endpoint(name: &str, kind: CredentialKind) -> Endpoint {
        let place = Place {
            location: Location::parse(&format!("https://{name}.example.org:1094/data")).unwrap(),
            credentials: vec![Credential {
                kind,
                access: Access::default(),
                file: None,
            }],
            missing: Vec::new(),
        };
        Endpoint {
            name: name.to_owned(),
            tags: Vec::new(),
            administrators: Vec::new(),
            roles: Role::ALL.to_vec(),
            modes: Vec::new(),
            has_checksums: true,
            places: vec![place],
            downtimes: Vec::new(),
        }
    }

    fn cell(source: &str, destination: &str, mode: Mode, refused_by: Option<(Side, &str)>) -> Cell {
        let link = Link {
            source: source.to_owned(),
            destination: destination.to_owned(),
            source_protocol: "https".to_owned(),
            destination_protocol: "https".to_owned(),
            mode,
            credential: "token".to_owned(),
        };
        let failure = |(side, code): (Side, &str)| {
            Outcome::Failed(Box::new(Failure {
                side,
                phase: Phase::Open,
                code: code.to_owned(),
                says: String::new(),
                server_status: Some(405),
                server_words: None,
                reproduce: Vec::new(),
            }))
        };
        let outcome = refused_by.map_or(Outcome::Passed, failure);
        let copy = Step {
            name: "copy".to_owned(),
            took_ms: 1,
            outcome: outcome.clone(),
        };
        Cell {
            started_ms: 7,
            steps: vec![copy],
            ..Cell::untried(link, outcome)
        }
    }

    fn words(cells: Vec<Cell>) -> Vec<String> {
        let endpoints = [
            endpoint("a", CredentialKind::Token),
            endpoint("b", CredentialKind::Anonymous),
        ];
        let run = Run {
            instrument: Instrument::Mesh,
            title: "test".to_owned(),
            started_ms: 1,
            ended_ms: 9,
            program: "test".to_owned(),
            is_complete: true,
            ended_by: None,
            endpoints: Vec::new(),
            cells,
            figures: Vec::new(),
        };
        let seen = seen(&endpoints, &run).into_iter();
        seen.map(|one| {
            format!(
                "{} {} {} {} {}",
                one.storage, one.operation, one.part, one.credential, one.can
            )
        })
        .collect()
    }

    #[test]
    fn a_copy_shows_what_both_ends_can_do() {
        let shown = words(vec![cell("a", "b", Mode::Pull, None)]);
        let expected = [
            "https://a.example.org:1094 read passive token true",
            "https://b.example.org:1094 write active none true",
        ];
        assert_eq!(shown, expected);
        let streamed = words(vec![cell("a", "b", Mode::Streamed, None)]);
        assert!(streamed[1].contains("write passive"), "{streamed:?}");
    }

    #[test]
    fn only_a_refusal_as_such_shows_an_inability_and_one_success_outweighs_it() {
        let refusal = Some((Side::Source, REFUSED));
        let refused = words(vec![cell("a", "b", Mode::Push, refusal)]);
        assert_eq!(refused, ["https://a.example.org:1094 read active token false"]);
        for no_sign in [Some((Side::Destination, REFUSED)), Some((Side::Source, "peer_failed"))] {
            assert!(words(vec![cell("a", "b", Mode::Push, no_sign)]).is_empty());
        }
        let both = words(vec![
            cell("a", "b", Mode::Push, None),
            cell("a", "b", Mode::Push, refusal),
        ]);
        assert_eq!(both[0], "https://a.example.org:1094 read active token true");
    }
}
