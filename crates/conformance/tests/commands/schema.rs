//! What `--json` prints, against its schema (`docs/client-output.schema.json`).

use std::path::Path;

use conformance::{Endpoint, JsonLines, Reply, Run, Scripted, Site, bytes, json_lines, run};
use serde_json::json;
use testkit::{PUBLIC_CLIENT, TokenIssuer, available, require_queue_python};

use crate::{client, history};

/// Lines of commands with the names of their schemas.
fn lines(site: &Site, all: &mut JsonLines) {
    let lab = &site.lab;
    let mut add = |schema: &str, run: Run| all.add(schema, &json_lines(&run));
    let tree = lab.fresh("schema");
    let tree = tree.to_str().expect("plain");
    std::fs::create_dir(tree).expect("a directory");
    for name in ["a", "b"] {
        std::fs::write(format!("{tree}/{name}"), bytes(1000, 109)).expect("a file");
    }
    std::os::unix::fs::symlink("a", format!("{tree}/link")).expect("a link");
    let (source, target) = (format!("{tree}/"), site.first.davs("schema"));
    let (file, missing) = (format!("{target}/a"), format!("{target}/none"));
    let client = |command: &str, arguments: &[&str]| lab.run_client(command, &[&["--json"], arguments].concat());
    add("copy", client("copy", &["-r", "--dry-run", &source, &target]));
    add("copy", client("copy", &["-r", &source, &target]));
    add("copy", client("copy", &["-r", &source, &target]));
    add("copy", client("copy", &[&file, &missing]));
    add("copy", client("copy", &[&missing, &file]));
    // All ways fail: it makes no copies, and has no space.
    let full = Scripted::start(|seen| {
        let status = match seen.method.as_str() {
            "PUT" => "507 Insufficient Storage",
            "HEAD" | "PROPFIND" => "404 Not Found",
            _ => "405 Method Not Allowed",
        };
        Reply::whole(seen, status, &[], b"")
    });
    let tried = client("copy", &[&file, &full.url("/f")]);
    assert!(tried.text().contains(r#""event":"tried""#), "{}", tried.said());
    add("copy", tried);
    let across = client("copy", &["--dry-run", &file, &full.url("/f")]).succeeded();
    assert!(across.text().contains(r#""passed_over""#), "{}", across.said());
    add("copy", across);
    add("compare", client("compare", &["-v", &source, &target]));
    for command in ["ls", "stat", "find", "tree"] {
        add("entry", client(command, &[&target]));
    }
    let sums = client("sum", &[&file]);
    let list = lab.file(&sums.stdout);
    add("sum", sums);
    add("sum_check", client("sum", &["-c", list.to_str().expect("plain")]));
    add("du", client("du", &[&target]));
    add("df", client("df", &[&target]));
    add("rm", client("rm", &[&file, &file]));
    let by_root = site.first.root("schema/b");
    let (made, moved) = (site.first.root("schema/made"), site.first.root("schema/moved"));
    let changes: [(&str, &[&str], &[&str]); 3] = [
        ("mkdir", &[&made, &by_root], &["MADE", "FAILED"]),
        ("touch", &[&file], &["TOUCHED"]),
        ("chmod", &["750", &made, &missing], &["CHANGED", "FAILED"]),
    ];
    for (command, arguments, outcomes) in changes {
        let changed = client(command, arguments);
        let told: Vec<_> = json_lines(&changed)
            .iter()
            .map(|line| line["outcome"].clone())
            .collect();
        assert_eq!(told, outcomes, "{command}: {}", changed.said());
        add("changed", changed);
    }
    add("mv", client("mv", &[&made, &moved]).succeeded());
    add("mv", client("mv", &[&made, &moved]).failed_with(21));
    for command in ["cat", "head", "tail"] {
        let refused = client(command, &[&file]).failed_with(22);
        assert!(refused.stderr.contains("leave it out"), "{}", refused.said());
    }
    let set = ["xattr", "set", "--json", &by_root, "origin", "simulation"];
    add(
        "xattr_changed",
        run(&lab.client(set).expect("the client is built")).succeeded(),
    );
    let xattr = |command: &str, more: &[&str]| {
        let arguments = [&["xattr", command, "--json", &by_root], more].concat();
        run(&lab.client(arguments).expect("the client is built")).succeeded()
    };
    add("xattr_name", xattr("ls", &[]));
    add("xattr", xattr("get", &["origin"]));
    add("xattr_changed", xattr("rm", &["origin"]));
    for command in ["stage", "evict", "archived"] {
        add("tape", client(command, &[&by_root]));
    }
    let smoke = client("smoke", &[&site.first.davs("schema")]);
    assert!(smoke.code.is_some_and(|code| code < 3), "{}", smoke.said());
    add("smoke", smoke);
    let endpoint = |name: &str, url: &str| format!("[[endpoint]]\nname = \"{name}\"\nurls = [\"{url}\"]\n");
    // Nothing listens there.
    let dead = endpoint("B", "https://localhost:1/x");
    let mesh = ["[mesh]\ntitle = \"t\"\n", &endpoint("A", &target), &dead].concat();
    let mesh = lab.file(mesh.as_bytes());
    let mesh = mesh.to_str().expect("plain");
    add("mesh_plan", client("mesh", &[mesh, "--dry-run"]));
    add("run", client("mesh", &[mesh]).failed_with(1));
    add("stress_plan", client("stress", &[mesh, "--dry-run"]));
    let short = [
        "--copies", "2", "--per", "1s", "--ramp", "0s", "--hold", "1s", "--size", "1KB",
    ];
    add("run", client("stress", &[&[mesh], &short[..]].concat()).failed_with(1));
    let report = lab.fresh("report");
    let report = report.to_str().expect("plain");
    let load = [
        "bench", "bulk", "-s", "64KiB", "--volume", "64KiB", "-r", "1", "-n", "1",
    ];
    let mut bench = lab.client(load).expect("the client is built");
    bench
        .args(["--json", report, "--cacert"])
        .arg(lab.authority().ca_file());
    run(bench.arg(site.first.davs("schema"))).succeeded();
    let report = std::fs::read_to_string(report).expect("a report");
    let report = serde_json::from_str(&report).expect("JSON");
    history::lines(lab, &report, all);
    all.add("bench", &[report]);
}

/// The same of commands about credentials, configurations and remotes.
fn lines_about_this_machine(site: &Site, all: &mut JsonLines) {
    let lab = &site.lab;
    let config = lab.fresh("config");
    let mut add = |schema: &str, arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = lab.client(arguments).expect("the client is built");
        let said = run(command.env("XDG_CONFIG_HOME", &config).envs(variables.iter().copied()));
        all.add(schema, &json_lines(&said));
    };
    let shown = |path: &Path| path.to_str().expect("plain").to_owned();
    let url = site.first.davs("");
    let token_file = shown(&lab.file(b"no token"));
    let made = ["config", "remote", "add", "one", &url, "--token-file", &token_file];
    let mut made = lab.client(made).expect("the client is built");
    run(made.env("XDG_CONFIG_HOME", &config)).succeeded();
    add("remote", &["config", "remote", "show", "one", "--json"], &[]);
    add("remote_name", &["config", "remote", "list", "--json"], &[]);
    let rclone = "[dav]\ntype = webdav\nurl = https://localhost/x\nheaders = A,b\n[drive]\ntype = drive\n";
    let rclone = shown(&lab.file(rclone.as_bytes()));
    add(
        "import",
        &["config", "import", "rclone", "--json", "--dry-run", &rclone],
        &[],
    );
    let user = lab.authority().issue_user("/O=Crossload test/CN=json").expect("a user");
    let voms = lab.authority().issue_voms_server("testvo").expect("a VOMS server");
    let attributes = voms.attributes(&user, &["/testvo"]).expect("attributes");
    let proxy = user
        .voms_proxy(vec![attributes])
        .and_then(|proxy| proxy.write_proxy(&lab.fresh("proxy")));
    let proxy = shown(&proxy.expect("a file for the proxy"));
    add("proxy", &["proxy", "info", "--json"], &[("X509_USER_PROXY", &proxy)]);
    let issuer = TokenIssuer::start(lab.authority()).expect("an issuer");
    add(
        "login",
        &["login", &issuer.url(), "--client-id", PUBLIC_CLIENT, "--json"],
        &[],
    );
    add("logout", &["logout", &issuer.url(), "--json"], &[]);
    let token = issuer.token().scope("storage.read:/").mint();
    let token = shown(&lab.file(token.as_bytes()));
    add("token", &["token", "inspect", "--json", "--token", &token], &[]);
    add("token", &["token", "inspect", "--json", "--token", &token_file], &[]);
    let authority = shown(&lab.authority().ca_file());
    let ask = [
        "token",
        "macaroon",
        "--activity",
        "DOWNLOAD,LIST",
        "--cacert",
        &authority,
        &url,
    ];
    let macaroon = run(&lab.client(ask).expect("the client is built")).succeeded().text();
    let macaroon = shown(&lab.file(macaroon.as_bytes()));
    add("token", &["token", "inspect", "--json", "--token", &macaroon], &[]);
    let narrowed = shown(&lab.fresh("narrowed"));
    let narrow = ["token", "attenuate", "--json", "--token", &macaroon, "--for", "5m"];
    add("token", &narrow, &[]);
    add("token_file", &[&narrow[..], &["--output", &narrowed]].concat(), &[]);
    let Endpoint::Crossload(server) = &site.first else {
        unreachable!("it is ours")
    };
    let configuration = shown(&server.configuration());
    for operation in ["read", "write"] {
        let explain = [
            "explain",
            "--json",
            "--config",
            &configuration,
            "--op",
            operation,
            "--path",
            "/data/f",
        ];
        add("explain", &explain, &[]);
    }
    add(
        "check",
        &["check", "--json", "--offline", "--config", &configuration],
        &[],
    );
    let admin = server.admin_url("").expect("an admin door");
    add("healthy", &["healthy", "--json", &admin], &[]);
    let theirs = shown(&lab.file(b"all.export /data\nxrd.port 1094\n"));
    add("migration", &["migrate", "xrootd", "--json", &theirs], &[]);
    let line = br#"{"time":"2026-11-30T06:00:01.500Z","event":"request","request_id":"65f2a1c09b3d"}"#;
    let log = shown(&lab.file(line));
    add("trace", &["trace", "--json", "65f2a1c09b3d", "--log", &log], &[]);
    let cache = lab.fresh("cache");
    std::fs::create_dir(&cache).expect("a directory");
    std::fs::write(cache.join("lock"), "").expect("the mark of a cache");
    add("cache_verify", &["cache", "verify", "--json", &shown(&cache)], &[]);
    std::fs::write(server.data().join("prefetched"), "x").expect("written");
    let file = server.root_url("/data/prefetched");
    add("cache_prefetch", &["cache", "prefetch", "--json", &file], &[]);
}

#[test]
fn json_fits_its_schema() {
    let test = "json_fits_its_schema";
    let needed = require_queue_python("python3").and_then(|python| Ok((python, client::site()?)));
    let Some((python, site)) = available(test, needed) else {
        return;
    };
    let mut all = JsonLines::default();
    lines(&site, &mut all);
    lines_about_this_machine(&site, &mut all);
    all.check(&python).succeeded();
    // It refuses what does not fit.
    let mut odd = JsonLines::default();
    odd.add("du", &[json!({"name": "a", "bytes": 1, "files": -1, "directories": 0})]);
    odd.check(&python).failed_with(1);
    for event in [
        json!({"event": "tried", "source": "a", "attempts": [{"way": "pull"}, {"way": "push"}]}),
        json!({"event": "would", "what": "copy", "source": "a", "destination": "b", "plan": {"chosen": "pull"}}),
    ] {
        let mut odd = JsonLines::default();
        odd.add("copy", &[event]);
        odd.check(&python).failed_with(1);
    }
}

/// Commands whose JSON has a schema, by the test above; those of `queue`, `node`, `why` and `top`
/// by the tests of queues, clusters and pages, that of `cleanup` by those of S3, that of `report`
/// by its own.
const WITH_SCHEMA: [&str; 83] = [
    "cache ls",
    "cache stat",
    "cache evict",
    "cache verify",
    "cache prefetch",
    "copy",
    "sync",
    "compare",
    "ls",
    "du",
    "df",
    "find",
    "tree",
    "stat",
    "sum",
    "rm",
    "cleanup",
    "mkdir",
    "touch",
    "chmod",
    "mv",
    "xattr set",
    "xattr rm",
    "xattr ls",
    "xattr get",
    "stage",
    "evict",
    "archived",
    "token inspect",
    "token macaroon",
    "token attenuate",
    "proxy info",
    "login",
    "logout",
    "explain",
    "check",
    "healthy",
    "migrate xrootd",
    "migrate dcache",
    "migrate storm",
    "migrate fts",
    "migrate gfal",
    "smoke",
    "mesh",
    "stress",
    "history list",
    "history show",
    "history compare",
    "history import",
    "history remove",
    "history check",
    "report",
    "config remote list",
    "config remote show",
    "config import rclone",
    "why",
    "trace",
    "top",
    "node status",
    "node drain",
    "node undrain",
    "node wait",
    "queue submit",
    "queue status",
    "queue list",
    "queue cancel",
    "queue log",
    "queue priority",
    "queue why",
    "queue watch",
    "queue links",
    "queue pause",
    "queue resume",
    "queue limits",
    "queue ban",
    "queue drain",
    "queue shares",
    "queue whoami",
    "queue delegate",
    "queue webhooks list",
    "queue webhooks add",
    "queue webhooks remove",
    "queue webhooks enable",
];
/// Commands that print files, and refuse the option.
const REFUSED: [&str; 3] = ["cat", "head", "tail"];
/// Commands that print answers of other commands (`docs/stdio.md`), or write a report: all loads of
/// `bench` the same one.
const ELSEWHERE: [&str; 3] = ["bench ", "shell", "stdio"];

/// The commands below these words, by their help.
fn commands_below(site: &Site, words: &[String]) -> Vec<Vec<String>> {
    let help = run(&site
        .lab
        .client(words.iter().map(String::as_str).chain(["--help"]))
        .expect("the client is built"));
    let text = help.succeeded().text();
    let list = text.split_once("\nCommands:\n").map(|(_, list)| list);
    let lines = list
        .into_iter()
        .flat_map(|list| list.lines().take_while(|line| !line.trim().is_empty()));
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let below: Vec<Vec<String>> = names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .flat_map(|name| commands_below(site, &[words, &[name.to_owned()]].concat()))
        .collect();
    match below.is_empty() {
        true if text.contains("--json") => vec![words.to_vec()],
        _ => below,
    }
}

#[test]
fn each_command_with_json_has_a_schema() {
    let Some(site) = available("each_command_with_json_has_a_schema", client::site()) else {
        return;
    };
    let found: Vec<String> = commands_below(&site, &[]).iter().map(|words| words.join(" ")).collect();
    assert!(found.len() > 30, "{found:?}");
    for command in found {
        let is_known = WITH_SCHEMA.contains(&command.as_str())
            || REFUSED.contains(&command.as_str())
            || ELSEWHERE.iter().any(|service| command.starts_with(service));
        assert!(
            is_known,
            "{command}: its JSON has no schema in docs/client-output.schema.json"
        );
    }
}
