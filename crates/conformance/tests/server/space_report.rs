//! The storage resource report: it has what its schema demands, and the figures that clients get by
//! WebDAV and by XRootD's query.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conformance::{Lab, bytes, run, until};
use serde_json::Value;
use testkit::{Crossload, Result, available};

const SOON: Duration = Duration::from_secs(30);
const QUOTA: u64 = 1 << 30;
const FILE_BYTES: u64 = 300_000;

/// What is used and what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    used: u64,
    left: u64,
}

fn report(lab: &Lab, server: &Crossload) -> Value {
    let answer = lab.curl(&[&server.url("/srr")]).expect(200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    serde_json::from_slice(&answer.body).expect("JSON")
}

fn share<'r>(report: &'r Value, name: &str) -> &'r Value {
    let shares = report["storageservice"]["storageshares"].as_array().expect("shares");
    let found = shares.iter().find(|share| share["name"] == name);
    found.unwrap_or_else(|| panic!("no share {name}: {report:#}"))
}

fn reported(report: &Value, name: &str) -> Room {
    let share = share(report, name);
    let of = |key: &str| share[key].as_u64().expect("an integer");
    Room {
        used: of("usedsize"),
        left: of("totalsize") - of("usedsize"),
    }
}

/// By RFC 4331.
fn by_webdav(lab: &Lab, url: &str) -> Room {
    let body = "<propfind xmlns=\"DAV:\"><prop><quota-used-bytes/><quota-available-bytes/></prop></propfind>";
    let answer = lab
        .curl(&["-X", "PROPFIND", "-H", "Depth: 0", "-d", body, url])
        .expect(207)
        .text();
    let of = |name: &str| {
        let (_, rest) = answer
            .split_once(&format!("{name}>"))
            .unwrap_or_else(|| panic!("{answer}"));
        rest.split('<')
            .next()
            .and_then(|number| number.parse().ok())
            .expect("a number")
    };
    Room {
        used: of("quota-used-bytes"),
        left: of("quota-available-bytes"),
    }
}

/// By XRootD's query.
fn by_query(lab: &Lab, server: &Crossload, path: &str) -> Room {
    let mut command = lab.command("xrdfs").expect("xrdfs");
    command.arg(format!("root://localhost:{}", server.port()));
    let said = run(command.args(["query", "space", path])).succeeded().text();
    let of = |name: &str| {
        let mut pairs = said.trim().split('&').filter_map(|pair| pair.split_once('='));
        let found = pairs.find(|(key, _)| *key == name);
        found
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or_else(|| panic!("{name}: {said}"))
    };
    Room {
        used: of("oss.used"),
        left: of("oss.free"),
    }
}

/// The required members of each object, and their types, as the schema of WLCG has them.
fn demand_schema(report: &Value) {
    let service = &report["storageservice"];
    let text = |value: &Value, key: &str| {
        let found = value[key].as_str();
        found
            .unwrap_or_else(|| panic!("{key} is no text: {value:#}"))
            .to_owned()
    };
    let size = |value: &Value, key: &str| {
        value[key]
            .as_u64()
            .unwrap_or_else(|| panic!("{key} is no size: {value:#}"))
    };
    let list = |value: &Value, key: &str| {
        value[key]
            .as_array()
            .unwrap_or_else(|| panic!("no {key}: {value:#}"))
            .clone()
    };
    for key in ["name", "implementation", "implementationversion"] {
        assert!(!text(service, key).is_empty());
    }
    let qualities = ["development", "testing", "pre-production", "production"];
    assert!(qualities.contains(&text(service, "qualitylevel").as_str()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    assert!(now.abs_diff(size(service, "latestupdate")) < 60);
    let online = &service["storagecapacity"]["online"];
    assert!(size(online, "usedsize") <= size(online, "totalsize"));
    assert!(list(service, "datastores").is_empty());
    for endpoint in list(service, "storageendpoints") {
        assert!(!text(&endpoint, "name").is_empty() && text(&endpoint, "endpointurl").contains("://"));
        assert!(["https", "xroot"].contains(&text(&endpoint, "interfacetype").as_str()));
        assert!(!list(&endpoint, "assignedshares").is_empty());
    }
    let shares = list(service, "storageshares");
    assert!(!shares.is_empty());
    for share in shares {
        assert!(!text(&share, "name").is_empty() && text(&share, "accesslatency") == "online");
        assert!(["open", "closed", "draining"].contains(&text(&share, "servingstate").as_str()));
        let policies = ["none", "intermediate", "replicated", "custodial", "replica"];
        assert!(policies.contains(&text(&share, "retentionpolicy").as_str()));
        assert!(size(&share, "usedsize") <= size(&share, "totalsize"));
        assert!(now.abs_diff(size(&share, "timestamp")) < 60);
        assert!(
            list(&share, "path")
                .iter()
                .all(|path| path.as_str().is_some_and(|path| path.starts_with('/')))
        );
        assert!(!list(&share, "assignedendpoints").is_empty());
        list(&share, "vos");
    }
}

fn server(lab: &Lab, name: &str, quota: u64, more: &str) -> Result<Crossload> {
    let mut options = lab.options(name);
    options.exports[0].quota_bytes = quota;
    options.more = format!("[storage_report]\npath = \"/srr\"\nname = \"{name}\"\nquality = \"testing\"\n{more}");
    lab.crossload(options)
}

#[test]
fn the_report_webdav_and_the_query_agree() {
    let test = "the_report_webdav_and_the_query_agree";
    let quota = "[[quota]]\nvo = \"atlas\"\npath = \"/data/atlas\"\nbytes = 1000000\n[[rule]]\nwho = \"vo:cms\"\npath = \"/data\"\nmay = [\"read\"]\n";
    let started = Lab::new("space-report").and_then(|lab| {
        lab.command("xrdfs")?;
        let server = server(&lab, "se", QUOTA, quota)?;
        Ok((lab, server))
    });
    let Some((lab, server)) = available(test, started) else {
        return;
    };
    let content = bytes(usize::try_from(FILE_BYTES).expect("small"), 9);
    lab.upload(&server.url("/data/f"), &content, &[]).expect(201);
    let expected = |used: u64| Room {
        used,
        left: QUOTA - used,
    };
    until("the file is counted", SOON, || {
        reported(&report(&lab, &server), "data").used >= FILE_BYTES
    });
    let told = report(&lab, &server);
    demand_schema(&told);
    let room = reported(&told, "data");
    assert_eq!(room, expected(room.used));
    assert_eq!(room, by_webdav(&lab, &server.url("/data")));
    assert_eq!(room, by_query(&lab, &server, "/data"));
    assert_eq!(share(&told, "data")["vos"], serde_json::json!(["/atlas", "/cms"]));
    let atlas = share(&told, "atlas:/data/atlas");
    assert_eq!(
        (&atlas["totalsize"], &atlas["usedsize"]),
        (&1_000_000.into(), &0.into())
    );
    let online = &told["storageservice"]["storagecapacity"]["online"];
    assert_eq!(
        (&online["totalsize"], &online["usedsize"]),
        (&QUOTA.into(), &room.used.into())
    );
    assert_eq!(told["storageservice"]["name"], "se");
    // A bad credential is refused, as everywhere.
    lab.curl(&["-H", "Authorization: Bearer none", &server.url("/srr")])
        .expect(401);
    lab.upload(&server.url("/srr"), b"x", &[]);
    demand_schema(&report(&lab, &server));
}

#[test]
fn a_redirector_reports_the_sum_of_its_nodes() {
    let test = "a_redirector_reports_the_sum_of_its_nodes";
    let started = Lab::new("space-cluster").and_then(|lab| {
        lab.command("xrdfs")?;
        let nodes = [server(&lab, "one", QUOTA, "")?, server(&lab, "two", 2 * QUOTA, "")?];
        let mut options = lab.options("redirector");
        options.exports.clear();
        options.more =
            "[storage_report]\npath = \"/srr\"\n[redirector]\npath = \"/data\"\nanonymous = \"write\"\n".to_owned();
        for node in &nodes {
            options.more.push_str(&format!("[[node]]\nurl = {:?}\n", node.url("")));
        }
        let redirector = lab.crossload(options)?;
        Ok((lab, nodes, redirector))
    });
    let Some((lab, mut nodes, redirector)) = available(test, started) else {
        return;
    };
    for (node, seed) in nodes.iter().zip([1, 2]) {
        let content = bytes(usize::try_from(FILE_BYTES).expect("small"), seed);
        lab.upload(&node.url(&format!("/data/f{seed}")), &content, &[])
            .expect(201);
    }
    let of_nodes = |nodes: &[Crossload]| {
        let rooms = nodes.iter().map(|node| reported(&report(&lab, node), "data"));
        rooms.fold(Room { used: 0, left: 0 }, |sum, room| Room {
            used: sum.used + room.used,
            left: sum.left + room.left,
        })
    };
    until("the redirector has heard of both files", SOON, || {
        let sum = of_nodes(&nodes);
        sum.used >= 2 * FILE_BYTES && reported(&report(&lab, &redirector), "data") == sum
    });
    let told = report(&lab, &redirector);
    demand_schema(&told);
    let room = reported(&told, "data");
    assert_eq!(room, by_webdav(&lab, &redirector.url("/data")));
    assert_eq!(room, by_query(&lab, &redirector, "/data"));
    assert_eq!(room.used + room.left, 3 * QUOTA);
    assert!(share(&told, "data")["message"].is_null(), "{told:#}");
    // What cannot be asked is not as if it were not there.
    nodes[1].process().kill_hard();
    until("the report says what is missing", SOON, || {
        share(&report(&lab, &redirector), "data")["message"]
            == "1 of 2 nodes does not answer: the space there is missing"
    });
    let room = reported(&report(&lab, &redirector), "data");
    assert_eq!(room.used + room.left, QUOTA);
    nodes[0].process().kill_hard();
    let mut answer = lab.curl(&[&redirector.url("/srr")]);
    until("there is no report without nodes", SOON, || {
        answer = lab.curl(&[&redirector.url("/srr")]);
        answer.status != 200
    });
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("60")));
}

#[test]
fn a_directory_that_was_moved_counts_no_file_system_twice() {
    let test = "a_directory_that_was_moved_counts_no_file_system_twice";
    let started = Lab::new("space-moved").and_then(|lab| {
        let mut options = lab.options("se");
        let mut second = options.exports[0].clone();
        second.path = "/second".to_owned();
        second.directory = lab.fresh("second");
        options.exports.push(second);
        options.more = "[storage_report]\npath = \"/srr\"\n".to_owned();
        let moved = options.exports[1].directory.clone();
        let server = lab.crossload(options)?;
        Ok((lab, moved, server))
    });
    let Some((lab, moved, server)) = available(test, started) else {
        return;
    };
    let total = || report(&lab, &server)["storageservice"]["storagecapacity"]["online"]["totalsize"].clone();
    let size = |report: &Value, name: &str| share(report, name)["totalsize"].as_u64().expect("a size");
    let before = total().as_u64().expect("a size");
    std::fs::rename(&moved, moved.with_extension("gone")).expect("a move");
    let after = report(&lab, &server);
    assert_eq!(
        size(&after, "data").abs_diff(size(&after, "second")),
        0,
        "they share a file system"
    );
    let now = total().as_u64().expect("a size");
    // Others write to this disk.
    assert!(now < before + before / 2, "{before} {now}");
}
