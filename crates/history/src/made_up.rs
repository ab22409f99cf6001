//! Runs for tests.

use types::{Phase, Side};

use crate::model::{Cell, EndpointSeen, Failure, Instrument, Link, Mode, Outcome, Run, Step};

/// Which links are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Full,
    /// From and to the first endpoint.
    Star,
    /// From each endpoint to the next.
    Ring,
}

/// A mesh.
#[derive(Clone, Debug)]
pub(crate) struct Mesh {
    pub(crate) endpoints: Vec<String>,
    pub(crate) topology: Topology,
    pub(crate) protocols: Vec<&'static str>,
    pub(crate) modes: Vec<Mode>,
}

impl Mesh {
    /// All links between `count` endpoints, over two protocols and in one mode.
    pub(crate) fn full(count: usize) -> Self {
        Self {
            endpoints: (0..count).map(|at| format!("site-{at:02}")).collect(),
            topology: Topology::Full,
            protocols: vec!["https", "roots"],
            modes: vec![Mode::Pull],
        }
    }

    fn has(&self, source: usize, destination: usize) -> bool {
        let is_wanted = match self.topology {
            Topology::Full => true,
            Topology::Star => source == 0 || destination == 0,
            Topology::Ring => (source + 1) % self.endpoints.len() == destination,
        };
        is_wanted && source != destination
    }

    pub(crate) fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for source in 0..self.endpoints.len() {
            for destination in (0..self.endpoints.len()).filter(|at| self.has(source, *at)) {
                for protocol in &self.protocols {
                    links.extend(self.modes.iter().map(|mode| Link {
                        source: self.endpoints[source].clone(),
                        destination: self.endpoints[destination].clone(),
                        source_protocol: (*protocol).to_owned(),
                        destination_protocol: (*protocol).to_owned(),
                        mode: *mode,
                        credential: "token".to_owned(),
                    }));
                }
            }
        }
        links
    }

    /// A run in which the links fail for which `fails` names a side.
    pub(crate) fn run(&self, started_ms: u64, mut fails: impl FnMut(&Link) -> Option<Side>) -> Run {
        let cell = |link: Link| {
            let outcome = fails(&link).map_or(Outcome::Passed, |side| Outcome::Failed(Box::new(failure(side))));
            tried(link, outcome, started_ms)
        };
        let cells: Vec<Cell> = self.links().into_iter().map(cell).collect();
        Run {
            instrument: Instrument::Mesh,
            title: "testbed".to_owned(),
            started_ms,
            ended_ms: started_ms + 600_000,
            program: "crossload 0.1.0".to_owned(),
            is_complete: true,
            ended_by: None,
            endpoints: self.endpoints.iter().map(|name| seen(name)).collect(),
            cells,
            figures: Vec::new(),
        }
    }
}

pub(crate) fn seen(name: &str) -> EndpointSeen {
    EndpointSeen {
        name: name.to_owned(),
        ..EndpointSeen::default()
    }
}

pub(crate) fn failure(side: Side) -> Failure {
    Failure {
        side,
        phase: Phase::Transfer,
        code: "peer_failed".to_owned(),
        says: "the server answered with an error".to_owned(),
        server_status: Some(500),
        server_words: Some("Internal Server Error".to_owned()),
        reproduce: vec!["crossload copy https://a/f https://b/f".to_owned()],
    }
}

/// A cell of one copy.
pub(crate) fn tried(link: Link, outcome: Outcome, started_ms: u64) -> Cell {
    let has_passed = outcome.has_passed();
    let step = |name: &str, took_ms, outcome| Step {
        name: name.to_owned(),
        took_ms,
        outcome,
    };
    let steps = vec![
        step("seed", 12, Outcome::Passed),
        step("copy", 40, outcome.clone()),
        step("remove", 3, Outcome::Passed),
    ];
    Cell {
        steps,
        started_ms: started_ms + 1_000,
        copy_ms: 40,
        bytes: if has_passed { 1 << 20 } else { 0 },
        copies: 1,
        copies_failed: u64::from(!has_passed),
        ..Cell::untried(link, outcome)
    }
}
