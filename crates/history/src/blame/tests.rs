//! Faults that are planted in meshes, in arrangements by seed.

use std::collections::BTreeSet;

use fastrand::Rng;
use types::Side;

use super::*;
use crate::made_up::{Mesh, Topology, seen};
use crate::model::{Cell, Downtime, Link, Mode, Outcome};

/// Arrangements of each fault in a mesh of 12 and in one of 30 endpoints.
const SEEDS: u64 = 24;
const LARGE_SEEDS: u64 = 4;

/// Something that is broken.
#[derive(Clone, Debug)]
enum Planted {
    Endpoint {
        name: String,
        role: Role,
        protocol: Option<&'static str>,
    },
    Link {
        source: String,
        destination: String,
    },
}

impl Planted {
    fn breaks(&self, link: &Link) -> bool {
        match self {
            Self::Endpoint { name, role, protocol } => {
                let is_source = link.source == *name && *role != Role::Destination;
                let is_destination = link.destination == *name && *role != Role::Source;
                let is_meant = protocol.is_none_or(|protocol| link.source_protocol == protocol);
                (is_source || is_destination) && is_meant
            }
            Self::Link { source, destination } => link.source == *source && link.destination == *destination,
        }
    }

    fn subject(&self) -> Subject {
        match self.clone() {
            Self::Endpoint { name, role, protocol } => Subject::Endpoint {
                name,
                role,
                scope: Scope {
                    protocol: protocol.map(str::to_owned),
                    ..Scope::default()
                },
            },
            Self::Link { source, destination } => Subject::Link {
                source,
                destination,
                scope: Scope::default(),
            },
        }
    }
}

/// Which faults are planted, by the randomness of an arrangement.
type Plan = fn(&mut Rng, &Mesh) -> Vec<Planted>;

fn endpoint(random: &mut Rng, mesh: &Mesh, role: Role, protocol: Option<&'static str>) -> Planted {
    Planted::Endpoint {
        name: random.choice(&mesh.endpoints).unwrap().clone(),
        role,
        protocol,
    }
}

fn link(random: &mut Rng, mesh: &Mesh) -> Planted {
    let ends = random.choose_multiple(&mesh.endpoints, 2);
    Planted::Link {
        source: ends[0].clone(),
        destination: ends[1].clone(),
    }
}

/// Two different endpoints of different roles.
fn two(random: &mut Rng, mesh: &Mesh) -> Vec<Planted> {
    let names = random.choose_multiple(&mesh.endpoints, 2);
    let bad = |name: &String, role| Planted::Endpoint {
        name: name.clone(),
        role,
        protocol: None,
    };
    vec![bad(names[0], Role::Both), bad(names[1], Role::Source)]
}

const PLANS: [(&str, Plan); 10] = [
    ("down", |random, mesh| vec![endpoint(random, mesh, Role::Both, None)]),
    ("source", |random, mesh| {
        vec![endpoint(random, mesh, Role::Source, None)]
    }),
    ("destination", |random, mesh| {
        vec![endpoint(random, mesh, Role::Destination, None)]
    }),
    ("link", |random, mesh| vec![link(random, mesh)]),
    ("one protocol", |random, mesh| {
        vec![endpoint(random, mesh, Role::Both, Some("https"))]
    }),
    ("one protocol of a source", |random, mesh| {
        vec![endpoint(random, mesh, Role::Source, Some("roots"))]
    }),
    ("two endpoints", two),
    ("an endpoint and a link", |random, mesh| {
        let (bad, link) = (endpoint(random, mesh, Role::Destination, None), link(random, mesh));
        // A link to a dead destination is not tried apart from it.
        match link {
            Planted::Link { ref destination, .. } if bad.breaks_all_of(destination) => vec![bad],
            link => vec![bad, link],
        }
    }),
    ("four endpoints", |random, mesh| {
        let names = random.choose_multiple(&mesh.endpoints, 4);
        let roles = [Role::Source, Role::Source, Role::Destination, Role::Destination];
        let bad = |(name, role): (&String, Role)| Planted::Endpoint {
            name: name.clone(),
            role,
            protocol: None,
        };
        names.into_iter().zip(roles).map(bad).collect()
    }),
    ("nothing", |_, _| Vec::new()),
];

impl Planted {
    fn breaks_all_of(&self, destination: &str) -> bool {
        matches!(self, Self::Endpoint { name, .. } if name == destination)
    }
}

/// The side that an error names: mostly the right one.
fn side(random: &mut Rng) -> Side {
    *random
        .choice(&[Side::Source, Side::Destination, Side::Active, Side::Client])
        .unwrap()
}

/// Plants faults, with a share of failures by chance, and expects these names and no others.
fn check(mesh: &Mesh, plan: (&str, Plan), seed: u64, noise: f64, runs: u64) {
    let mut random = Rng::with_seed(seed);
    let planted = plan.1(&mut random, mesh);
    let runs: Vec<Run> = (0..runs)
        .map(|at| {
            mesh.run(at * 3_600_000, |link| {
                let is_broken = planted.iter().any(|fault| fault.breaks(link));
                (is_broken || random.f64() < noise).then(|| side(&mut random))
            })
        })
        .collect();
    let blame = Blame::over(&runs.iter().collect::<Vec<_>>());
    let mut found: Vec<Subject> = blame.named().map(|finding| finding.subject.clone()).collect();
    let mut expected: Vec<Subject> = planted.iter().map(Planted::subject).collect();
    found.sort();
    expected.sort();
    let said: Vec<String> = blame.findings.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected, "{}, seed {seed}, noise {noise}: {said:#?}", plan.0);
    let unsure = blame.findings.iter().filter(|one| one.verdict == Verdict::Undecided);
    assert_eq!(unsure.count(), 0, "{}, seed {seed}: {said:#?}", plan.0);
}

#[test]
fn planted_faults_are_named_and_nothing_else() {
    for plan in PLANS {
        for seed in 0..SEEDS {
            check(&Mesh::full(12), plan, seed, 0.0, 1);
        }
        for seed in 0..LARGE_SEEDS {
            check(&Mesh::full(30), plan, seed, 0.0, 1);
        }
    }
}

#[test]
fn chance_is_not_blamed_and_hides_nothing() {
    for plan in PLANS {
        // Over two protocols a bad link fails twice in a run, which chance does as well.
        for seed in 0..SEEDS {
            check(&Mesh::full(12), plan, seed, 0.02, 3);
        }
        for seed in 0..LARGE_SEEDS {
            let is_link = plan.0.contains("link");
            check(&Mesh::full(30), plan, seed, 0.02, if is_link { 3 } else { 1 });
        }
    }
}

#[test]
fn a_single_failure_is_no_bad_link() {
    let mesh = Mesh {
        protocols: vec!["https"],
        ..Mesh::full(12)
    };
    let bad = Planted::Link {
        source: "site-03".to_owned(),
        destination: "site-07".to_owned(),
    };
    let run = mesh.run(0, |link| bad.breaks(link).then_some(Side::Source));
    let blame = Blame::of(&run);
    assert_eq!(blame.findings.len(), 1);
    assert_eq!(blame.findings[0].verdict, Verdict::Isolated);
    assert_eq!(
        blame.findings[0].to_string(),
        "the link site-03 → site-07 failed without a pattern (1 of 1 copies): peer_failed in transfer"
    );
    // In three runs it is one.
    let named: Vec<String> = Blame::over(&[&run, &run, &run])
        .named()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        named,
        ["the link site-03 → site-07 fails (3 of 3 copies): peer_failed in transfer"]
    );
}

#[test]
fn an_endpoint_in_downtime_is_no_evidence() {
    let mesh = Mesh::full(12);
    for seed in 0..SEEDS {
        let mut random = Rng::with_seed(seed);
        let away = random.choice(&mesh.endpoints).unwrap().clone();
        let is_away = |link: &Link| link.source == away || link.destination == away;
        // Half of its cells were skipped, the others failed before the calendar was read.
        let mut run = mesh.run(0, |link| is_away(link).then_some(Side::Source));
        for cell in run.cells.iter_mut().filter(|cell| is_away(&cell.link)).step_by(2) {
            let why = "in downtime".to_owned();
            *cell = Cell::untried(cell.link.clone(), Outcome::Skipped { why });
        }
        let there = run.endpoints.iter_mut().find(|endpoint| endpoint.name == away).unwrap();
        there.downtime = Some(Downtime {
            from_ms: 0,
            until_ms: 1,
            reason: "a new floor".to_owned(),
        });
        let blame = Blame::of(&run);
        assert_eq!(
            (blame.findings.len(), blame.tried, blame.failed),
            (0, 220, 0),
            "seed {seed}"
        );
        // Without the calendar the same endpoint is blamed.
        run.endpoints.iter_mut().for_each(|endpoint| endpoint.downtime = None);
        assert_eq!(Blame::of(&run).about(&away), Some(Verdict::Named), "seed {seed}");
    }
}

#[test]
fn a_star_cannot_tell_its_centre_from_all_others() {
    let star = Mesh {
        topology: Topology::Star,
        ..Mesh::full(12)
    };
    let centre = star.endpoints[0].clone();
    let blame = Blame::of(&star.run(0, |link| (link.source == centre).then_some(Side::Source)));
    assert_eq!(blame.named().count(), 0);
    let said: Vec<String> = blame.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "undecided: site-00 as a source or all partners of site-00 as destinations \
          (22 of 22 copies): peer_failed in transfer"
        ]
    );
    // One of the others: it, or what is between.
    let leaf = star.endpoints[5].clone();
    let blame = Blame::of(&star.run(0, |link| (link.destination == leaf).then_some(Side::Destination)));
    let [finding] = &blame.findings[..] else {
        panic!("{:?}", blame.findings)
    };
    assert_eq!(finding.verdict, Verdict::Undecided);
    let all: Vec<String> = std::iter::once(&finding.subject)
        .chain(&finding.suspects)
        .map(ToString::to_string)
        .collect();
    assert_eq!(all, ["site-05 as a destination", "the link site-00 → site-05"]);
}

#[test]
fn a_ring_cannot_tell_ends_from_links() {
    let ring = Mesh {
        topology: Topology::Ring,
        ..Mesh::full(12)
    };
    let (third, fourth) = (ring.endpoints[3].clone(), ring.endpoints[4].clone());
    let blame = Blame::of(&ring.run(0, |link| (link.source == third).then_some(Side::Source)));
    let [finding] = &blame.findings[..] else {
        panic!("{:?}", blame.findings)
    };
    assert_eq!(finding.verdict, Verdict::Undecided, "{finding}");
    assert_eq!(
        (blame.about(&third), blame.about(&fourth)),
        (Some(Verdict::Undecided), Some(Verdict::Undecided))
    );
    assert!(finding.to_string().contains("the link site-03 → site-04"), "{finding}");
}

#[test]
fn a_fault_of_all_is_no_fault_of_each() {
    let mesh = Mesh {
        modes: vec![Mode::Pull, Mode::Push],
        ..Mesh::full(12)
    };
    let run = mesh.run(0, |link| (link.source_protocol == "https").then_some(Side::Client));
    let said: Vec<String> = Blame::of(&run).findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        ["everything fails over https (264 of 264 copies): peer_failed in transfer"]
    );
    // A server that cannot be active: it pulls nothing and pushes nothing, and serves others.
    let passive = mesh.endpoints[2].clone();
    let run = mesh.run(0, |link| {
        let active = if link.mode == Mode::Pull {
            &link.destination
        } else {
            &link.source
        };
        (*active == passive).then_some(Side::Active)
    });
    let mut said: Vec<String> = Blame::of(&run)
        .findings
        .iter()
        .map(|one| one.subject.to_string())
        .collect();
    said.sort();
    assert_eq!(
        said,
        ["site-02 as a destination by pull", "site-02 as a source by push"]
    );
}

#[test]
fn an_endpoint_that_fails_at_times_is_named_with_its_share() {
    for seed in 0..SEEDS {
        let mesh = Mesh {
            modes: vec![Mode::Pull, Mode::Push],
            ..Mesh::full(12)
        };
        let mut random = Rng::with_seed(seed);
        let busy = random.choice(&mesh.endpoints).unwrap().clone();
        let run = mesh.run(0, |link| {
            (link.source == busy && random.f64() < 0.6).then_some(Side::Source)
        });
        let blame = Blame::of(&run);
        let named: Vec<&Finding> = blame.named().collect();
        let said: Vec<String> = blame.findings.iter().map(ToString::to_string).collect();
        let [finding] = named[..] else {
            panic!("seed {seed}: {said:#?}")
        };
        assert!(finding.subject.is_endpoint(&busy), "seed {seed}: {said:#?}");
        assert!(
            finding.rate_low < 0.6 && finding.rate_high > 0.5,
            "seed {seed}: {said:#?}"
        );
        assert_eq!(
            (finding.tried, finding.observations),
            (44, 11),
            "seed {seed}: {said:#?}"
        );
    }
}

#[test]
fn a_probe_needs_no_partner() {
    let probe = |name: &str, protocol: &str| Link {
        source: name.to_owned(),
        destination: name.to_owned(),
        source_protocol: protocol.to_owned(),
        destination_protocol: protocol.to_owned(),
        mode: Mode::Probe,
        credential: "token".to_owned(),
    };
    let mesh = Mesh {
        endpoints: vec!["a".to_owned(), "b".to_owned()],
        ..Mesh::full(0)
    };
    let mut run = mesh.run(0, |_| None);
    let mut said = |all: &[(&str, &str)], fails: fn(&Link) -> bool| -> Vec<String> {
        let names: BTreeSet<&str> = all.iter().map(|(name, _)| *name).collect();
        run.endpoints = names.iter().map(|name| seen(name)).collect();
        let cells = all.iter().map(|(name, protocol)| {
            let link = probe(name, protocol);
            let outcome = match fails(&link) {
                true => Outcome::Failed(Box::new(crate::made_up::failure(Side::Destination))),
                false => Outcome::Passed,
            };
            crate::made_up::tried(link, outcome, 0)
        });
        run.cells = cells.collect();
        let blame = Blame::of(&run);
        for name in names {
            let has_failed = run
                .cells
                .iter()
                .any(|cell| cell.link.source == name && cell.copies_failed > 0);
            let verdict = has_failed.then_some(Verdict::Named);
            assert_eq!(blame.about(name), verdict, "{name}: {:?}", blame.findings);
        }
        blame.findings.iter().map(ToString::to_string).collect()
    };
    let each = |name| ["https", "roots", "s3"].map(|protocol| (name, protocol));
    let is_b = |link: &Link| link.source == "b";
    let two = [each("a"), each("b")].concat();
    assert_eq!(
        said(&two, is_b),
        ["b fails for everyone (3 of 3 copies): peer_failed in transfer"]
    );
    // A single one, as of an endpoint with one URL and one credential.
    let three = [("a", "https"), ("b", "https"), ("c", "https")];
    let once = ["b fails for everyone (1 of 1 copies): peer_failed in transfer"];
    assert_eq!(said(&three, is_b), once);
    assert_eq!(said(&three[1..2], is_b), once);
    let one_of_three = |link: &Link| link.source == "b" && link.source_protocol == "roots";
    assert_eq!(
        said(&two, one_of_three),
        ["b fails for everyone over roots (1 of 1 copies): peer_failed in transfer"]
    );
    // Two that fail in everything have nothing in common yet.
    let mut both = said(&two, |_| true);
    both.sort();
    assert_eq!(
        both,
        ["a", "b"].map(|name| format!("{name} fails for everyone (3 of 3 copies): peer_failed in transfer"))
    );
}

#[test]
fn two_faults_of_an_endpoint_do_not_share_copies() {
    let mesh = Mesh {
        protocols: vec!["https"],
        modes: vec![Mode::Pull, Mode::Push, Mode::Streamed],
        ..Mesh::full(4)
    };
    let bad = "site-01";
    let failed = |code: &str, phase| {
        Outcome::Failed(Box::new(Failure {
            code: code.to_owned(),
            phase,
            ..crate::made_up::failure(Side::Client)
        }))
    };
    // A source that breaks off and refuses to push, and a destination that cannot pull; and a
    // destination that breaks off, and a source from which nothing can be pulled.
    for (chiefly, beside) in [(Role::Source, Role::Destination), (Role::Destination, Role::Source)] {
        let mut run = mesh.run(0, |_| None);
        for cell in &mut run.cells {
            let is_end = |role| match role {
                Role::Source => cell.link.source == bad,
                _ => cell.link.destination == bad,
            };
            let outcome = match cell.link.mode {
                Mode::Push if is_end(chiefly) => failed("peer_unsupported", Phase::Open),
                _ if is_end(chiefly) => failed("peer_closed", Phase::Transfer),
                Mode::Pull if is_end(beside) => failed("peer_unsupported", Phase::Open),
                _ => continue,
            };
            *cell = crate::made_up::tried(cell.link.clone(), outcome, 0);
        }
        let mut said: Vec<String> = Blame::of(&run).findings.iter().map(ToString::to_string).collect();
        let words = |role| match role {
            Role::Source => "as a source",
            _ => "as a destination",
        };
        let mut expected = [
            format!(
                "{bad} fails {} for everyone (9 of 9 copies): peer_closed in transfer",
                words(chiefly)
            ),
            format!(
                "{bad} fails {} for everyone by pull (3 of 3 copies): peer_unsupported in open",
                words(beside)
            ),
        ];
        said.sort();
        expected.sort();
        assert_eq!(said, expected);
    }
}

/// A run in which all copies pass, and take some time.
fn timed(mesh: &Mesh, mut took_ms: impl FnMut(&Link) -> u64) -> Run {
    let mut run = mesh.run(0, |_| None);
    run.cells.iter_mut().for_each(|cell| cell.copy_ms = took_ms(&cell.link));
    run
}

#[test]
fn a_slow_endpoint_and_a_slow_link_are_told_apart_on_a_busy_machine() {
    let mesh = Mesh {
        modes: vec![Mode::Pull, Mode::Push],
        ..Mesh::full(12)
    };
    for seed in 0..SEEDS {
        let mut random = Rng::with_seed(seed);
        // One copy in thirty waits for long.
        let mut busy_ms = move || random.u64(50..500) * if random.u32(..30) == 0 { 20 } else { 1 };
        let said = |run: &Run| -> Vec<String> { Blame::of(run).findings.iter().map(ToString::to_string).collect() };
        let none = said(&timed(&mesh, |_| busy_ms()));
        assert!(none.is_empty(), "seed {seed}: {none:#?}");
        let run = timed(&mesh, |link| {
            let is_slow_link = (link.source.as_str(), link.destination.as_str()) == ("site-03", "site-07");
            let more = if is_slow_link { 8_000 } else { 0 };
            busy_ms() + more + if link.source == "site-05" { 8_000 } else { 0 }
        });
        let found = said(&run);
        let [endpoint, link] = &found[..] else {
            panic!("seed {seed}: {found:#?}")
        };
        assert!(
            endpoint.starts_with("site-05 as a source is slow (44 copies): "),
            "seed {seed}: {endpoint}"
        );
        assert!(
            link.starts_with("the link site-03 → site-07 is slow (4 copies): "),
            "seed {seed}: {link}"
        );
        // It is no fault of the endpoint that it fails.
        assert_eq!(Blame::of(&run).about("site-05"), None);
    }
}

#[test]
fn short_copies_and_rings_say_nothing_of_rates() {
    let run = timed(&Mesh::full(12), |link| if link.source == "site-05" { 900 } else { 20 });
    assert_eq!(Blame::of(&run).findings, []);
    let ring = Mesh {
        topology: Topology::Ring,
        ..Mesh::full(12)
    };
    let run = timed(&ring, |link| if link.source == "site-05" { 90_000 } else { 20 });
    assert_eq!(Blame::of(&run).findings, []);
}

#[test]
fn a_code_that_says_what_is_wrong_is_preferred() {
    let failure = |code: &str| Failure {
        code: code.to_owned(),
        ..crate::made_up::failure(Side::Destination)
    };
    let symptom = |codes: &[(&str, usize)]| {
        let all: Vec<Failure> = codes
            .iter()
            .flat_map(|(code, count)| std::iter::repeat_n(failure(code), *count))
            .collect();
        commonest(all.iter()).map(|symptom| (symptom.code, symptom.count))
    };
    let is = |code: &str, count| Some((code.to_owned(), count));
    assert_eq!(
        symptom(&[("peer_failed", 8), ("peer_no_space", 3)]),
        is("peer_no_space", 3)
    );
    // A rarity explains nothing, and among codes that say something the commonest counts.
    assert_eq!(
        symptom(&[("peer_failed", 20), ("peer_no_space", 1)]),
        is("peer_failed", 20)
    );
    assert_eq!(
        symptom(&[("peer_no_space", 2), ("peer_tls_failed", 5)]),
        is("peer_tls_failed", 5)
    );
    assert_eq!(symptom(&[("peer_failed", 2)]), is("peer_failed", 2));
    assert_eq!(symptom(&[]), None);
}
