//! Why may this be done, or not? Answered on the command line as the server decides.

use std::path::{Path, PathBuf};
use std::time::Duration;

use conformance::{Endpoint, Lab, Run, Twins, json_lines, requests, run, until};
use testkit::{Crossload, available};

/// How soon the log must have a line.
const SOON: Duration = Duration::from_secs(15);

/// The configuration of a server, which the launcher wrote.
fn configuration(server: &Endpoint) -> PathBuf {
    let Endpoint::Crossload(server) = server else {
        unreachable!("it is ours")
    };
    server.configuration()
}

fn explain(lab: &Lab, server: &Endpoint, arguments: &[&str]) -> Run {
    let mut command = lab.client(["explain", "--config"]).expect("the client");
    run(command.arg(configuration(server)).args(arguments))
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

#[test]
fn a_decision_is_explained_offline_as_the_server_decides() {
    let test = "a_decision_is_explained_offline_as_the_server_decides";
    let Some(lab) = available(test, Lab::new("explain")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "twins")) else {
        return;
    };
    twins.open.put("dir/f", b"content");
    let token = twins.macaroon(&lab, "dir", "DOWNLOAD,UPLOAD");
    let file = lab.file(token.as_bytes());
    let token_file = ["--token", plain(&file)];
    let answer = |name: &str, verb: &str| {
        let header = format!("Authorization: Bearer {token}");
        lab.curl(&["-X", verb, "-H", "Depth: 1", "-H", &header, &twins.guarded.url(name)])
            .status
    };
    for (op, verb, name, code, status) in [
        ("read", "GET", "dir/f", 0, 200),
        ("delete", "DELETE", "dir/f", 13, 403),
        ("read", "GET", "other", 13, 403),
        ("list", "PROPFIND", "dir", 13, 403),
        ("mkdir", "MKCOL", "dir/new", 0, 201),
    ] {
        let path = format!("/data/{name}");
        let told = explain(
            &lab,
            &twins.guarded,
            &[&["--op", op, "--path", &path][..], &token_file].concat(),
        );
        let told = told.failed_with(code);
        assert_eq!(answer(name, verb), status, "{op} {name}");
        let text = told.text();
        for words in [
            "asked ",
            "received  credential: macaroon",
            "read ",
            "rules ",
            "decision ",
        ] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
        assert_eq!(text.contains("to pass   send a token that grants"), code != 0, "{text}");
        assert!(!told.said().contains(&token[token.len() / 2..token.len() / 2 + 40]));
    }
}

#[test]
fn a_file_that_is_written_is_explained_twice_and_a_bad_token_is_looked_into() {
    let test = "a_file_that_is_written_is_explained_twice_and_a_bad_token_is_looked_into";
    let Some(lab) = available(test, Lab::new("explain")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "twins")) else {
        return;
    };
    let token = lab.file(twins.macaroon(&lab, "f", "UPLOAD").as_bytes());
    let write = ["--op", "write", "--path", "/data/f", "--json"];
    let told = explain(
        &lab,
        &twins.guarded,
        &[&write[..], &["--token", plain(&token)]].concat(),
    )
    .succeeded();
    let lines = json_lines(&told);
    assert_eq!(lines.len(), 2, "{}", told.said());
    assert_eq!(
        (&lines[0]["allowed"], &lines[1]["allowed"]),
        (&true.into(), &false.into())
    );
    assert_eq!(lines[1]["code"], "forbidden");
    assert!(
        lines[1]["remedies"]
            .to_string()
            .contains("UPLOAD,DELETE or MANAGE on /data/f"),
        "{}",
        lines[1]
    );
    explain(&lab, &twins.guarded, &write).failed_with(13);

    let foreign =
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lhbS5leGFtcGxlLm9yZy8iLCJleHAiOjF9.c2VjcmV0LXNpZ25hdHVyZQ";
    let file = lab.file(foreign.as_bytes());
    let read = ["--op", "read", "--path", "/data/f", "--token", plain(&file)];
    let told = explain(&lab, &twins.open, &read).failed_with(13);
    for words in [
        "https://iam.example.org/",
        "it expired",
        "send no token: it is allowed without one",
    ] {
        assert!(told.text().contains(words), "{words}: {}", told.said());
    }
    assert!(!told.said().contains("c2VjcmV0"), "{}", told.said());
    explain(&lab, &twins.open, &["--op", "read", "--path", "/else"]).failed_with(2);
}

/// The value of the first line of the log that tells of a refusal by `method`.
fn refused_request(server: &Crossload, method: &str) -> String {
    let mut found = None;
    until("the log tells of the refusal", SOON, || {
        let lines = requests(server.log());
        let refused = lines
            .iter()
            .find(|line| line["method"] == method && !line["error"].is_null());
        found = refused.and_then(|line| line["request_id"].as_str()).map(str::to_owned);
        found.is_some()
    });
    found.expect("it was found")
}

#[test]
fn a_refusal_of_either_door_is_explained_afterwards_by_its_name() {
    let test = "a_refusal_of_either_door_is_explained_afterwards_by_its_name";
    let Some(lab) = available(test, Lab::new("explain")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "twins")) else {
        return;
    };
    let Endpoint::Crossload(server) = &twins.guarded else {
        unreachable!("it is ours")
    };
    let admin = server.admin_url("").expect("an admin address");
    let token = twins.macaroon(&lab, "f", "LIST");
    let header = format!("Authorization: Bearer {token}");
    let refused = lab.curl(&["-H", &header, &twins.guarded.url("f")]).expect(403);
    // The last word of the answer is the name of the request.
    let told = refused.text();
    let by_http = told.split_whitespace().last().expect("a name");
    let by_root = run(&lab.client(["stat", &twins.guarded.root("f")]).expect("the client"));
    assert_ne!(by_root.code, Some(0), "{}", by_root.said());
    let by_root_id = refused_request(server, "stat");
    assert!(
        by_root.said().contains(&by_root_id),
        "the client is told: {}",
        by_root.said()
    );

    let ask = |id: &str, more: &[&str]| {
        let arguments = [&["explain", id, "--admin", &admin][..], more].concat();
        run(&lab.client(&arguments).expect("the client"))
    };
    let text = ask(by_http, &[]).succeeded();
    for words in [
        "asked     read /data/f",
        "the token grants LIST on /data/f",
        "requires DOWNLOAD",
        "to pass   send a token",
    ] {
        assert!(text.text().contains(words), "{words}: {}", text.said());
    }
    let by_curl = lab.curl(&[&format!("{admin}/explain/{by_http}")]).expect(200);
    assert_eq!(by_curl.text(), text.text(), "the same words");
    let root = ask(&by_root_id, &["--json"]).succeeded();
    let list: serde_json::Value = serde_json::from_slice(&root.stdout).expect("JSON");
    assert_eq!(
        (&list[0]["code"], &list[0]["allowed"]),
        (&"unauthenticated".into(), &false.into()),
        "{list}"
    );
    ask("00000000", &[]).failed_with(2);
    ask("../metrics", &[]).failed_with(22);
    let log = server.log().stderr();
    for said in [text.said(), root.said(), by_curl.text().to_owned(), log] {
        let piece = &token[token.len() / 2..token.len() / 2 + 40];
        assert!(!said.contains(piece), "the token is shown");
    }
}
