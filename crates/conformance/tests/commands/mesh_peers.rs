//! `crossload mesh` with peers of each kind: delegated proxies, object stores, a token for each
//! endpoint; and as a service.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use conformance::{Lab, Run, Twins, background, json_lines, last_json, run, until, visible};
use serde_json::Value;
use testkit::{
    Direction, Fault, Relay, Result, S3Bucket, SeaweedFs, VersityGateway, Xrootd, XrootdAccess, XrootdVersion,
    available,
};

/// Time for what a busy machine does slowly.
const PATIENCE: Duration = Duration::from_secs(60);
const ALL_ACTIVITIES: &str = "LIST,DOWNLOAD,UPLOAD,DELETE,MANAGE,READ_METADATA";

fn endpoint(name: &str, urls: &[&str], more: &str) -> String {
    format!("[[endpoint]]\nname = \"{name}\"\nurls = {urls:?}\n{more}\n")
}

fn mesh_file(lab: &Lab, title: &str, parts: &[&str]) -> PathBuf {
    let head = format!("[mesh]\ntitle = \"{title}\"\nsize = \"100KB\"\nparallel = 4\n");
    lab.file([&[head.as_str()], parts].concat().concat().as_bytes())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// How each cell that applies ended, such as `A>B roots lite x509: passed`.
fn ended(results: &Value) -> Vec<String> {
    let cells = results["cells"].as_array().expect("cells").iter();
    let applies = cells.filter(|cell| cell["outcome"]["is"] != "not_applicable");
    let mut ended: Vec<String> = applies
        .map(|cell| {
            let (link, outcome) = (&cell["link"], &cell["outcome"]);
            let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            let [source, destination, mode, credential] =
                ["source", "destination", "mode", "credential"].map(|key| word(&link[key]));
            let is = match word(&outcome["is"]).as_str() {
                "failed" => format!("{} {}", word(&outcome["side"]), word(&outcome["code"])),
                is => is.to_owned(),
            };
            format!("{source}>{destination} {mode} {credential}: {is}")
        })
        .collect();
    ended.sort();
    ended
}

#[test]
fn each_endpoint_is_shown_its_own_token_and_no_other() {
    let test = "each_endpoint_is_shown_its_own_token_and_no_other";
    let Some(lab) = available(test, Lab::new("mesh-tokens")) else {
        return;
    };
    let pairs: Result<Vec<Twins>> = ["one", "other"].iter().map(|name| Twins::start(&lab, name)).collect();
    let Some(pairs) = available(test, pairs) else { return };
    let urls: Vec<String> = pairs.iter().map(|pair| pair.guarded.url("")).collect();
    let tokens: Vec<String> = pairs
        .iter()
        .map(|pair| {
            let token = lab.file(pair.macaroon(&lab, "", ALL_ACTIVITIES).as_bytes());
            format!("token_file = {token:?}")
        })
        .collect();
    let file = |first: &str, second: &str| {
        let parts = [
            endpoint("ONE", &[&urls[0]], first),
            endpoint("OTHER", &[&urls[1]], second),
        ];
        mesh_file(&lab, "tokens", &[&parts[0], &parts[1]])
    };
    let right = file(&tokens[0], &tokens[1]);
    let results = last_json(&lab.run_client("mesh", &[text(&right), "--json"]).succeeded());
    let expected = [
        "ONE>OTHER pull token: passed",
        "ONE>OTHER push token: passed",
        "ONE>OTHER streamed token: passed",
        "OTHER>ONE pull token: passed",
        "OTHER>ONE push token: passed",
        "OTHER>ONE streamed token: passed",
    ];
    assert_eq!(ended(&results), expected);
    // The token of the other one is good for nothing here.
    let wrong = file(&tokens[1], &tokens[0]);
    let results = last_json(&lab.run_client("mesh", &[text(&wrong), "--json"]).failed_with(1));
    let refused = ended(&results);
    assert!(
        refused.iter().all(|cell| cell.ends_with(": source peer_denied")),
        "{refused:#?}"
    );
    for pair in &pairs {
        assert_eq!(visible(pair.open.data()), Vec::<String>::new());
    }
}

/// XRootD's programs take no authorities from a file and no key in another file than that of the
/// certificate.
#[test]
fn the_lines_of_a_failure_run_as_they_are_printed() {
    const JANE: &str = "/O=Crossload test/CN=Jane Doe";
    let test = "the_lines_of_a_failure_run_as_they_are_printed";
    let started = Lab::new("mesh-pasted").and_then(|lab| {
        let pair = lab
            .authority()
            .issue_user(JANE)?
            .write_pair(lab.scratch().path(), "jane")?;
        let servers = [lab.crossload_for("one", JANE)?, lab.crossload_for("other", JANE)?];
        Ok((lab, pair, servers))
    });
    let Some((lab, (certificate, key), servers)) = available(test, started) else {
        return;
    };
    let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, servers[1].port()))).expect("a relay");
    relay.set_fault(Fault::CutAfter(Direction::ToTarget, 60_000), usize::MAX);
    let mine = format!("cert = {certificate:?}\nkey = {key:?}\n");
    let url = |port: u16| format!("roots://127.0.0.1:{port}//data");
    let parts = [
        endpoint("ONE", &[&url(servers[0].port())], &mine),
        endpoint(
            "OTHER",
            &[&url(relay.port())],
            &format!("{mine}roles = [\"destination\"]"),
        ),
    ];
    let file = mesh_file(&lab, "pasted", &[&parts[0], &parts[1]]);
    let arguments = lab.client_arguments("mesh", &[text(&file), "--mode", "streamed", "--json"]);
    let mut mesh = lab.client(arguments).expect("the client is built");
    let results = last_json(&run(mesh.env_remove("X509_CERT_DIR")).failed_with(1));
    relay.heal();
    let cells = results["cells"].as_array().expect("cells").iter();
    let failed: Vec<&Value> = cells.filter(|cell| cell["outcome"]["is"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{results:#}");
    let lines = &failed[0]["outcome"]["reproduce"];
    let printed = lines.as_array().expect("lines").iter().filter_map(Value::as_str);
    for line in printed.clone() {
        assert!(line.starts_with("crossload "), "{line}");
        for option in ["--cacert", "--cert", "--key"] {
            assert!(line.contains(&format!(" {option} ")), "{option} is not in {line}");
        }
    }
    assert_eq!(printed.count(), 4, "{lines:#}");
    run(lab.pasted("-ec", lines).env_remove("X509_CERT_DIR")).succeeded();
    for server in &servers {
        assert_eq!(visible(server.data()), Vec::<String>::new());
    }
}

/// An XRootD that demands gsi, asks for proxies, and fetches with them.
fn fetching(lab: &Lab, version: XrootdVersion, name: &str) -> Result<Xrootd> {
    let mut options = lab.xrootd_options(name, XrootdAccess::Open);
    options.version = version;
    let own = options.directory.display().to_string();
    options.more = format!(
        "xrootd.seclib libXrdSec.so\n\
         sec.protocol gsi -certdir:{} -cert:{own}/host.pem -key:{own}/host.key -gmapopt:10 -crl:1 \
         -dlgpxy:request -exppxy:=creds\nofs.tpc fcreds ?gsi =X509_USER_PROXY\n",
        lab.authority().trust_directory().display(),
    );
    Xrootd::start(&options)
}

#[test]
fn destinations_fetch_with_the_delegated_proxy_of_the_mesh() {
    let test = "destinations_fetch_with_the_delegated_proxy_of_the_mesh";
    let Some(lab) = available(test, Lab::new("mesh-lite")) else {
        return;
    };
    let debian = fetching(&lab, XrootdVersion::V5, "debian");
    let Some(debian) = available(test, debian) else { return };
    // Without the newest, another one of Debian's.
    let newest = fetching(&lab, XrootdVersion::V6, "newest").or_else(|_| fetching(&lab, XrootdVersion::V5, "newest"));
    let Some(newest) = available(test, newest) else { return };
    let jane = lab
        .authority()
        .issue_user("/O=Crossload test/CN=Jane Doe")
        .expect("a user");
    let proxy = jane
        .proxy()
        .and_then(|proxy| proxy.write_proxy(&lab.fresh("proxy")))
        .expect("a proxy");
    let more = format!("proxy = {proxy:?}");
    let urls = [&debian, &newest].map(|server| server.root_url("/data"));
    let parts = [
        endpoint("DEBIAN", &[&urls[0]], &more),
        endpoint("NEWEST", &[&urls[1]], &more),
    ];
    let file = mesh_file(&lab, "lite", &[&parts[0], &parts[1]]);
    let arguments = [text(&file), "--mode", "lite,rendezvous", "--json"];
    let run = lab.run_client("mesh", &arguments).failed_with(1);
    let results = last_json(&run);
    // Without a delegated proxy the destination has nothing to show to a source that demands gsi.
    let expected = [
        "DEBIAN>NEWEST lite x509: passed",
        "DEBIAN>NEWEST rendezvous x509: destination peer_denied",
        "NEWEST>DEBIAN lite x509: passed",
        "NEWEST>DEBIAN rendezvous x509: destination peer_denied",
    ];
    assert_eq!(ended(&results), expected, "{}", run.said());
    for server in [&debian, &newest] {
        assert_eq!(visible(server.data()), Vec::<String>::new());
    }
}

#[test]
fn object_stores_are_copied_from_and_to_with_signed_urls() {
    let test = "object_stores_are_copied_from_and_to_with_signed_urls";
    let Some(lab) = available(test, Lab::new("mesh-s3")) else {
        return;
    };
    let seaweedfs = available(test, SeaweedFs::start(&lab.fresh("seaweedfs"), lab.host()));
    let versitygw = available(test, VersityGateway::start(&lab.fresh("versitygw"), lab.host()));
    let Some(ours) = available(test, lab.crossload(lab.options("ours"))) else {
        return;
    };
    let buckets = [
        ("SEAWEEDFS", seaweedfs.as_ref().map(SeaweedFs::bucket)),
        ("VERSITYGW", versitygw.as_ref().map(VersityGateway::bucket)),
    ];
    let mut parts = vec![endpoint("OURS", &[&ours.url("/data")], "")];
    let mut expected = Vec::new();
    for (name, bucket) in &buckets {
        let Some(bucket) = bucket else { continue };
        let url = format!("s3s://{}/{}/mesh", bucket.host(true), bucket.name());
        parts.push(endpoint(name, &[&url], ""));
        expected.push(format!("{name}>OURS pull keys: passed"));
        expected.push(format!("OURS>{name} push keys: passed"));
    }
    if expected.is_empty() {
        return;
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let file = mesh_file(&lab, "s3", &parts);
    let arguments = lab.client_arguments("mesh", &[text(&file), "--mode", "pull,push", "--json"]);
    let mut command = lab.client(arguments).expect("the client is built");
    let keys = |bucket: &S3Bucket| [bucket.access_key(), bucket.secret_key()];
    let [access_key, secret_key] = buckets
        .iter()
        .find_map(|(_, bucket)| bucket.map(keys))
        .expect("one is there");
    command
        .env("AWS_ACCESS_KEY_ID", access_key)
        .env("AWS_SECRET_ACCESS_KEY", secret_key);
    let ran: Run = run(&command).succeeded();
    let mut ended = ended(&last_json(&ran));
    ended.retain(|cell| cell.contains("OURS"));
    expected.sort();
    assert_eq!(ended, expected, "{}", ran.said());
    assert_eq!(visible(ours.data()), Vec::<String>::new());
}

#[test]
fn a_mesh_as_a_service_runs_again_and_never_over_itself() {
    let test = "a_mesh_as_a_service_runs_again_and_never_over_itself";
    let Some(lab) = available(test, Lab::new("mesh-every")) else {
        return;
    };
    let Some(ours) = available(test, lab.crossload(lab.options("ours"))) else {
        return;
    };
    for directory in ["a", "b"] {
        fs::create_dir(ours.data().join(directory)).expect("a directory");
    }
    let server = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, ours.port()));
    let relay = Relay::start(server).expect("a relay");
    // A run takes longer than the interval.
    relay.set_fault(
        Fault::Delay(Direction::ToClient, Duration::from_millis(150)),
        usize::MAX,
    );
    let parts = ["a", "b"].map(|name| endpoint(name, &[&format!("http://localhost:{}/data/{name}", relay.port())], ""));
    let file = mesh_file(&lab, "every", &[&parts[0], &parts[1]]);
    let (history, newest) = (lab.fresh("history.sqlite"), lab.fresh("newest.json"));
    let arguments = [
        text(&file),
        "--mode",
        "pull",
        "--every",
        "1s",
        "--serve",
        "0",
        "--history",
        text(&history),
        "--save",
        text(&newest),
    ];
    let mut command = lab
        .client(lab.client_arguments("mesh", &arguments))
        .expect("the client is built");
    let mut mesh = background(&mut command, lab.scratch()).expect("it starts");
    let list = lab
        .client(["history", "list", "--json", "--history", text(&history)])
        .expect("built");
    let mut runs = Vec::new();
    until("three runs are over", PATIENCE, || {
        let listed = run(&list);
        runs = if listed.code == Some(0) {
            json_lines(&listed)
        } else {
            Vec::new()
        };
        runs.len() >= 3
    });
    let said = mesh.stderr();
    let address = said.split_once("is at ").and_then(|(_, rest)| rest.split_once('\n'));
    let (address, _) = address.unwrap_or_else(|| panic!("no page: {said}"));
    let shows = |title: &str| {
        let run = lab.curl(&[&format!("{address}run.json")]).expect(200).text();
        serde_json::from_str::<Value>(&run).expect("JSON")["title"] == title
    };
    until("the newest run is served", PATIENCE, || shows("every"));
    // The file is read anew for each run, and a mistake in it costs the runs until it is mended.
    let right = fs::read_to_string(&file).expect("the file");
    fs::write(&file, "[mesh]\n").expect("a mistake");
    until("the mistake is named", PATIENCE, || {
        mesh.stderr().contains("invalid configuration")
    });
    assert!(shows("every"), "the last run stays");
    fs::write(&file, right.replace("title = \"every\"", "title = \"again\"")).expect("mended");
    until("it runs again", PATIENCE, || {
        json_lines(&run(&list)).iter().any(|run| run["title"] == "again")
    });
    until("the page follows", PATIENCE, || shows("again"));
    let status = mesh.interrupt().expect("it ends");
    assert!(
        [Some(0), Some(4)].contains(&status.code()),
        "{status:?} {}",
        mesh.stderr()
    );
    let number = |run: &Value, key: &str| run[key].as_u64().unwrap_or_else(|| panic!("{run:#}"));
    // The newest comes first.
    for pair in runs.windows(2) {
        let [later, earlier] = [&pair[0], &pair[1]];
        assert!(number(later, "started_ms") >= number(earlier, "ended_ms"), "{runs:#?}");
    }
    let begins: Vec<u64> = runs.iter().map(|run| number(run, "started_ms")).collect();
    assert!(begins[0] - begins[2] >= 2000, "the interval counts: {runs:#?}");
    let saved: Value = serde_json::from_slice(&fs::read(&newest).expect("the newest run")).expect("JSON");
    assert!(saved["started_ms"].as_u64() >= Some(begins[0]), "{saved:#}");
    assert_eq!(
        (visible(&ours.data().join("a")), visible(&ours.data().join("b"))),
        (Vec::new(), Vec::new())
    );
}
