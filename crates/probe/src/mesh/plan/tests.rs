//! Plans of small meshes.

use history::Downtime;
use remote::Access;
use types::Location;

use super::super::endpoint::Credential;
use super::*;

fn endpoint(name: &str, urls: &[&str], kinds: &[CredentialKind]) -> Endpoint {
    let credential = |kind: &CredentialKind| Credential {
        kind: *kind,
        access: Access::default(),
        file: None,
    };
    let place = |url: &&str| Place {
        location: Location::parse(url).unwrap(),
        credentials: kinds.iter().map(credential).collect(),
        missing: Vec::new(),
    };
    Endpoint {
        name: name.to_owned(),
        tags: vec!["all".to_owned()],
        administrators: Vec::new(),
        roles: Role::ALL.to_vec(),
        modes: Vec::new(),
        has_checksums: true,
        places: urls.iter().map(place).collect(),
        downtimes: Vec::new(),
    }
}

fn open(name: &str, urls: &[&str]) -> Endpoint {
    endpoint(name, urls, &[CredentialKind::Anonymous])
}

fn wanted(topology: Topology) -> Wanted {
    Wanted {
        topology,
        protocols: Vec::new(),
        modes: Vec::new(),
        only: Vec::new(),
        mixed: false,
        now_ms: 1_000,
    }
}

/// The cells as `A>B pull token passed`, sorted.
fn cells(endpoints: &[Endpoint], wanted: &Wanted) -> Vec<String> {
    let plan = plan(endpoints, wanted).unwrap();
    let show = |cell: &Planned| {
        let link = &cell.link;
        let word = cell.fate.as_ref().err().map_or("planned", Outcome::name);
        let (mode, credential) = (link.mode.name(), &link.credential);
        format!("{}>{} {mode} {credential} {word}", link.source, link.destination)
    };
    let mut shown: Vec<String> = plan.iter().map(show).collect();
    shown.sort();
    shown
}

fn four() -> Vec<Endpoint> {
    ["A", "B", "C", "D"]
        .map(|name| open(name, &[&format!("https://{name}/x")]))
        .to_vec()
}

#[test]
fn topologies_have_their_pairs() {
    let only_pull = |topology| Wanted {
        modes: vec![Mode::Pull],
        ..wanted(topology)
    };
    let four = four();
    assert_eq!(cells(&four, &only_pull(Topology::Full)).len(), 12);
    let star = cells(&four, &only_pull(Topology::Star { centre: "B".to_owned() }));
    assert_eq!(star.len(), 6);
    assert!(star.iter().all(|cell| cell.contains('B')), "{star:?}");
    let ring = cells(&four, &only_pull(Topology::Ring));
    let links: Vec<&str> = ring.iter().map(|cell| &cell[..3]).collect();
    assert_eq!(links, ["A>B", "B>C", "C>D", "D>A"]);
    let sample = |seed| cells(&four, &only_pull(Topology::Sample { pairs: 5, seed }));
    assert_eq!((sample(1).len(), sample(1)), (5, sample(1)));
    assert!((2..20).any(|seed| sample(seed) != sample(1)));
    let mut distinct = sample(3);
    distinct.dedup();
    assert_eq!(distinct.len(), 5, "no pair twice");
    let nowhere = Topology::Star { centre: "X".to_owned() };
    assert!(plan(&four, &wanted(nowhere)).unwrap_err().contains("no endpoint \"X\""));
}

#[test]
fn thirty_endpoints_in_two_protocols_and_two_modes_each() {
    let urls = |name: usize| [format!("https://h{name}/x"), format!("root://h{name}//x")];
    let endpoints: Vec<Endpoint> = (0..30)
        .map(|name| {
            let [http, root] = urls(name);
            open(&format!("E{name}"), &[&http, &root])
        })
        .collect();
    let two = Wanted {
        modes: vec![Mode::Pull, Mode::Push, Mode::Rendezvous, Mode::Streamed],
        ..wanted(Topology::Full)
    };
    let planned = plan(&endpoints, &two).unwrap();
    // Three modes of HTTP, two of the XRootD protocol.
    assert_eq!(planned.len(), 30 * 29 * 5);
    // Sixteen copies that run side by side use an endpoint at most twice.
    for window in planned.chunks(5 * 15).take(10) {
        for endpoint in 0..30 {
            let name = format!("E{endpoint}");
            let uses = window.iter().filter(|cell| cell.link.source == name).count();
            assert!(uses <= 5, "{name} {uses}");
        }
    }
}

#[test]
fn a_cell_that_is_not_tried_says_why() {
    let mut passive = open("P", &["https://p/x"]);
    passive.roles = vec![Role::Source, Role::Destination, Role::Passive];
    let both = open("B", &["https://b/x", "root://b//x"]);
    let plan = plan(&[passive, both], &wanted(Topology::Full)).unwrap();
    let why = |source: &str, protocol: &str, mode: Mode| {
        let mut found = plan.iter().filter(|cell| {
            let link = &cell.link;
            link.source == source && link.source_protocol == protocol && link.mode == mode
        });
        match &found.next().unwrap().fate {
            Ok(_) => "planned".to_owned(),
            Err(Outcome::NotApplicable { why }) => why.clone(),
            Err(other) => panic!("{other:?}"),
        }
    };
    assert_eq!(why("B", "https", Mode::Pull), "P is no active side of copies");
    assert_eq!(why("P", "https", Mode::Push), "P is no active side of copies");
    assert_eq!(why("P", "https", Mode::Pull), "planned");
    assert_eq!(why("B", "root", Mode::Rendezvous), "P has no root URL");
    assert_eq!(why("B", "root", Mode::Streamed), "P has no root URL");
}

#[test]
fn keys_and_open_endpoints_stand_in_for_a_credential() {
    let token = endpoint("T", &["https://t/x"], &[CredentialKind::Token]);
    let bucket = endpoint("S", &["s3s://s/b/x"], &[CredentialKind::Keys]);
    let other = endpoint("O", &["https://o/x"], &[CredentialKind::Anonymous]);
    let star = wanted(Topology::Star { centre: "T".to_owned() });
    assert_eq!(
        cells(&[token.clone(), bucket, other], &star),
        [
            "O>T pull token planned",
            "O>T push token planned",
            "O>T streamed token planned",
            "S>T pull token planned",
            "S>T streamed token planned",
            "T>O pull token planned",
            "T>O push token planned",
            "T>O streamed token planned",
            "T>S push token planned",
            "T>S streamed token planned",
        ]
    );
    let proxy = endpoint("X", &["https://x/x"], &[CredentialKind::X509]);
    let pulls = Wanted {
        modes: vec![Mode::Pull],
        ..wanted(Topology::Ring)
    };
    assert_eq!(
        cells(&[token, proxy], &pulls),
        [
            "T>X pull token skipped",
            "T>X pull x509 skipped",
            "X>T pull token skipped",
            "X>T pull x509 skipped",
        ]
    );
}

#[test]
fn between_the_protocols_only_servers_of_http_push() {
    let both = |name: &str| open(name, &[&format!("https://{name}/x"), &format!("root://{name}//x")]);
    let mixed = Wanted {
        mixed: true,
        ..wanted(Topology::Ring)
    };
    let plan = plan(&[both("A"), both("B")], &mixed).unwrap();
    let modes = |source: &str, destination: &str| {
        let of_pair = plan.iter().map(|cell| &cell.link).filter(|link| {
            link.source == "A" && link.source_protocol == source && link.destination_protocol == destination
        });
        of_pair.map(|link| link.mode).collect::<Vec<Mode>>()
    };
    assert_eq!(modes("https", "root"), [Mode::Pull, Mode::Push, Mode::Streamed]);
    assert_eq!(modes("root", "https"), [Mode::Pull, Mode::Streamed]);
    assert!(plan.iter().all(|cell| cell.fate.is_ok()), "{plan:?}");
}

#[test]
fn an_endpoint_in_downtime_is_left_out_while_it_lasts() {
    let mut four = four();
    four[1].downtimes.push(Downtime {
        from_ms: 1_000,
        until_ms: 2_000,
        reason: "new disks".to_owned(),
    });
    let at = |now_ms| {
        let pulls = Wanted {
            modes: vec![Mode::Pull],
            now_ms,
            ..wanted(Topology::Ring)
        };
        plan(&four, &pulls).unwrap()
    };
    let skipped = |plan: &[Planned]| plan.iter().filter(|cell| cell.fate.is_err()).count();
    assert_eq!(
        [999, 1_000, 1_999, 2_000].map(|now_ms| skipped(&at(now_ms))),
        [0, 2, 2, 0]
    );
    let plan = at(1_500);
    let Err(Outcome::Skipped { why }) = &plan[0].fate else {
        panic!("{plan:?}")
    };
    assert_eq!(why, "B is in downtime: new disks");
}

#[test]
fn only_selects_by_name_and_tag() {
    let mut four = four();
    four[2].tags = vec!["tape".to_owned()];
    let only = |words: &[&str]| Wanted {
        modes: vec![Mode::Pull],
        only: words.iter().map(|word| (*word).to_owned()).collect(),
        ..wanted(Topology::Full)
    };
    assert_eq!(cells(&four, &only(&["A"])).len(), 6);
    assert_eq!(cells(&four, &only(&["tape"])).len(), 6);
    assert_eq!(cells(&four, &only(&["all"])).len(), 12);
    assert!(plan(&four, &only(&["Z"])).unwrap_err().contains("\"Z\""));
}

#[test]
fn lite_needs_a_certificate() {
    let pair = |kinds: &[CredentialKind]| {
        [
            endpoint("A", &["roots://a//x"], kinds),
            endpoint("B", &["roots://b//x"], kinds),
        ]
    };
    let usual = |kinds: &[CredentialKind]| {
        let shown = cells(&pair(kinds), &wanted(Topology::Ring));
        shown
            .into_iter()
            .filter(|cell| cell.contains("lite"))
            .collect::<Vec<String>>()
    };
    assert_eq!(usual(&[CredentialKind::Token]), Vec::<String>::new());
    let both = [CredentialKind::X509, CredentialKind::Token];
    assert_eq!(usual(&both), ["A>B lite x509 planned", "B>A lite x509 planned"]);
    let asked = Wanted {
        modes: vec![Mode::Lite],
        ..wanted(Topology::Ring)
    };
    assert_eq!(
        cells(&pair(&[CredentialKind::Token]), &asked),
        ["A>B lite token not_applicable", "B>A lite token not_applicable"]
    );
}
