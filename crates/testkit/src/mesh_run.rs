//! Runs of instruments for tests: a mesh with planted faults.

use history::{Cell, Downtime, EndpointSeen, Failure, Instrument, Link, Mode, Outcome, Run, Step};
use types::{Phase, Side};

/// 2026-11-29 12:00 UTC.
const BEGAN_MS: u64 = 1_795_953_600_000;

/// The ways to copy of a mesh.
const WAYS: [(&str, Mode); 4] = [
    ("https", Mode::Pull),
    ("https", Mode::Push),
    ("roots", Mode::Rendezvous),
    ("roots", Mode::Lite),
];

/// The name of an endpoint of [`mesh_run`], by its number from 1.
#[must_use]
pub fn mesh_endpoint(number: usize) -> String {
    format!("SE-{number:02}.example.org")
}

/// A mesh of `count` endpoints, of which the last is in downtime. Planted are a source that
/// truncates (1), a destination without room (2), one without checksums over `roots` (3), and a
/// link that stalls (4 to 5).
#[must_use]
pub fn mesh_run(count: usize) -> Run {
    let mut cells = Vec::new();
    for (protocol, mode) in WAYS {
        for source in 1..=count {
            for destination in (1..=count).filter(|destination| *destination != source) {
                cells.push(cell(protocol, mode, [source, destination], count));
            }
        }
    }
    Run {
        instrument: Instrument::Mesh,
        title: "sample sites".to_owned(),
        started_ms: BEGAN_MS,
        ended_ms: BEGAN_MS + 412_000,
        program: "crossload 0.1.0".to_owned(),
        is_complete: true,
        ended_by: None,
        endpoints: (1..=count).map(|number| endpoint(number, count)).collect(),
        cells,
        figures: Vec::new(),
    }
}

fn endpoint(number: usize, count: usize) -> EndpointSeen {
    EndpointSeen {
        name: mesh_endpoint(number),
        tags: vec![if number.is_multiple_of(2) { "tier-2" } else { "tier-1" }.to_owned()],
        administrators: vec![format!("admin-{}@example.org", number % 3)],
        software: (!number.is_multiple_of(4)).then(|| format!("dCache {number}.2.1")),
        downtime: (number == count).then(|| Downtime {
            from_ms: BEGAN_MS - 3_600_000,
            until_ms: BEGAN_MS + 86_400_000,
            reason: "new disks".to_owned(),
        }),
    }
}

fn cell(protocol: &str, mode: Mode, [source, destination]: [usize; 2], count: usize) -> Cell {
    let link = Link {
        source: mesh_endpoint(source),
        destination: mesh_endpoint(destination),
        source_protocol: protocol.to_owned(),
        destination_protocol: protocol.to_owned(),
        mode,
        credential: "token".to_owned(),
    };
    if [source, destination].contains(&count) {
        let why = format!("{} is in downtime: new disks", mesh_endpoint(count));
        return Cell::untried(link, Outcome::Skipped { why });
    }
    let failed = match (source, destination) {
        (1, _) => Some((
            Side::Source,
            Phase::Transfer,
            "peer_truncated",
            "the source sent less than it announced",
        )),
        (_, 2) => Some((
            Side::Destination,
            Phase::Open,
            "no_space",
            "the destination has no space left",
        )),
        (_, 3) if protocol == "roots" => Some((
            Side::Destination,
            Phase::Checksum,
            "checksum_unavailable",
            "the destination has no checksum",
        )),
        (4, 5) => Some((
            Side::Active,
            Phase::Transfer,
            "stalled",
            "the copy moved too little for 60 s",
        )),
        _ => None,
    };
    let outcome = failed.map_or(Outcome::Passed, |(side, phase, code, says)| {
        Outcome::Failed(Box::new(failure(side, phase, code, says, &link)))
    });
    let took = |name: &str, took_ms: usize| Step {
        name: name.to_owned(),
        took_ms: took_ms as u64,
        outcome: Outcome::Passed,
    };
    let mut steps = vec![took("seed", 20 + source), took("copy", 100 * source + destination)];
    match &outcome {
        Outcome::Passed => {
            steps.extend([("size", 3), ("checksum", 4), ("remove", 5)].map(|(name, ms)| took(name, ms)));
        }
        outcome => steps[1].outcome = outcome.clone(),
    }
    Cell {
        outcome,
        steps,
        started_ms: BEGAN_MS + 1000,
        copy_ms: (100 * source + destination) as u64,
        bytes: 1_000_000,
        copies: 1,
        job_url: (mode == Mode::Pull).then(|| format!("https://queue.example.org/ui/job/{source}-{destination}")),
        ..Cell::untried(link, Outcome::Passed)
    }
}

fn failure(side: Side, phase: Phase, code: &str, says: &str, link: &Link) -> Failure {
    let (source, destination) = (&link.source, &link.destination);
    Failure {
        side,
        phase,
        code: code.to_owned(),
        says: says.to_owned(),
        server_status: Some(507),
        server_words: Some("Insufficient Storage: <no room> & \"nothing\"".to_owned()),
        reproduce: vec![format!(
            "crossload copy --token-file \"$TOKEN_FILE\" https://{source}:1094/store/mesh/seed-1a2b \
             https://{destination}:1094/store/mesh/copy-1a2b"
        )],
    }
}
