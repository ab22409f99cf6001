//! What people do with tokens on the command line: look into them, ask for macaroons, and narrow
//! them.

use std::path::Path;

use conformance::{Lab, Run, Twins, json_lines, last_json, run, run_with_input};
use serde_json::Value;
use testkit::available;

/// Runs one of our commands, with `input` on its standard input.
fn ours(lab: &Lab, arguments: &[&str], input: &str) -> Run {
    let command = lab.client(arguments).expect("the client");
    run_with_input(&command, input.as_bytes())
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

#[test]
fn a_macaroon_is_asked_for_narrowed_and_looked_into() {
    let test = "a_macaroon_is_asked_for_narrowed_and_looked_into";
    let Some(lab) = available(test, Lab::new("tokens")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "twins")) else {
        return;
    };
    twins.open.put("dir/f", b"content");
    twins.open.put("other", b"more");
    let wide = lab.fresh("wide");
    let url = twins.open.davs("");
    let arguments = [
        "token",
        "macaroon",
        &url,
        "--activity",
        "DOWNLOAD,LIST",
        "--for",
        "90s",
        "--output",
        plain(&wide),
    ];
    let asked = ours(&lab, &arguments, "").succeeded();
    let token = std::fs::read_to_string(&wide).expect("the macaroon");
    assert!(!asked.said().contains(token.trim()), "written, so not printed");
    ours(&lab, &arguments, "").failed_with(17);

    let told = last_json(&ours(&lab, &["token", "inspect", "--token", plain(&wide), "--json"], "").succeeded());
    assert_eq!(told["kind"], "macaroon", "{told}");
    assert!(
        told["seconds_left"]
            .as_i64()
            .is_some_and(|left| (1..=90).contains(&left)),
        "{told}"
    );
    assert!(
        told["caveats"]
            .as_array()
            .is_some_and(|all| all.iter().all(|one| one["known"] == true)),
        "{told}"
    );

    let narrowed = ours(
        &lab,
        &["token", "attenuate", "--path", "/data/dir", "--activity", "download"],
        &token,
    )
    .succeeded();
    let narrow = narrowed.text();
    assert_ne!(narrow, token);
    let text = ours(&lab, &["token", "inspect"], &narrow).succeeded();
    assert!(
        text.text().contains("to read files, on /data/dir and below"),
        "{}",
        text.said()
    );

    let read = |token: &str, name: &str| {
        let mut command = lab.client(["cat", &twins.guarded.url(name)]).expect("the client");
        run(command.env("BEARER_TOKEN", token.trim()))
    };
    assert_eq!(read(&token, "other").succeeded().text(), "more");
    assert_eq!(read(&narrow, "dir/f").succeeded().text(), "content");
    read(&narrow, "other").failed_with(13);
    for tokens in [&text, &asked] {
        assert!(!tokens.said().contains(&token[token.len() / 2..token.len() / 2 + 40]));
    }
}

#[test]
fn what_cannot_be_done_with_a_token_is_said() {
    let test = "what_cannot_be_done_with_a_token_is_said";
    let Some(lab) = available(test, Lab::new("tokens")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "twins")) else {
        return;
    };
    ours(
        &lab,
        &["token", "macaroon", &twins.guarded.url("f"), "--activity", "LIST"],
        "",
    )
    .failed_with(13);
    ours(&lab, &["token", "inspect", "--token", "/nowhere"], "").failed_with(2);
    ours(&lab, &["token", "attenuate"], &twins.macaroon(&lab, "f", "LIST")).failed_with(22);
    let nothing = ours(
        &lab,
        &["token", "attenuate", "--path", "/else"],
        &twins.macaroon(&lab, "f", "LIST"),
    );
    assert!(nothing.failed_with(22).stderr.contains("it would allow nothing"));
    let garbage = "neither-a-macaroon-nor-anything-else";
    let unknown = ours(&lab, &["token", "inspect", "--json"], garbage).failed_with(13);
    assert_eq!(last_json(&unknown)["kind"], "unknown");
    assert!(!unknown.said().contains(garbage), "it may have been a password");
    let jwt =
        "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lhbS5leGFtcGxlLm9yZy8iLCJzY29wZSI6InN0b3JhZ2UucmVhZDovYSJ9.c2VjcmV0";
    let lines: Vec<Value> = json_lines(&ours(&lab, &["token", "inspect", "--json"], jwt).succeeded());
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (&lines[0]["kind"], &lines[0]["facts"]["issuer"]),
        (&"jwt".into(), &"https://iam.example.org/".into())
    );
    assert!(!lines[0].to_string().contains("c2VjcmV0"), "{}", lines[0]);
}

#[test]
fn a_server_that_issues_no_macaroons_says_which_line_is_missing() {
    let test = "a_server_that_issues_no_macaroons_says_which_line_is_missing";
    let Some(lab) = available(test, Lab::new("no-macaroons")) else {
        return;
    };
    let mut options = lab.options("server");
    options.macaroons = false;
    let Some(server) = available(test, lab.crossload(options)) else {
        return;
    };
    std::fs::write(server.data().join("f"), b"content").expect("written");
    let words = "The server issues no macaroons (macaroons.secret_file is not set)";
    let (source, target) = (server.url("/data/f"), server.url("/data/g"));
    let ca = lab.authority().ca_file();
    let ask = [
        "token",
        "macaroon",
        "--activity",
        "DOWNLOAD",
        "--cacert",
        plain(&ca),
        &source,
    ];
    let asked = ours(&lab, &ask, "").failed_with(38);
    assert!(asked.stderr.contains(words), "{}", asked.said());
    let advice = "ask its administrator for macaroons";
    assert!(asked.stderr.contains(advice), "{}", asked.said());
    let copied = lab
        .run_client("copy", &["-v", "--mode", "pull", &source, &target])
        .succeeded();
    assert!(copied.stderr.contains(words), "{}", copied.said());
    let place = format!("se={}", server.url("/data"));
    let load = [
        "bench",
        "tpc",
        "--cacert",
        plain(&ca),
        "-q",
        "-r",
        "1",
        "-c",
        "1",
        "-s",
        "1KiB",
        "--during",
        "10ms",
        &place,
        &place,
    ];
    let measured = ours(&lab, &load, "").succeeded();
    assert!(measured.text().contains(words), "{}", measured.said());
}
