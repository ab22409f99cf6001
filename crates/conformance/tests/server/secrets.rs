//! Secrets stay secret: no output of our server repeats a secret that it received.
//!
//! Every test of this suite searches all that our programs say for all secrets that it knows, when
//! a program ends (see `testkit::secrets`). Here are those that try hard, and the one that shows
//! that the search finds what is there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use conformance::{Endpoint, Lab, Twins, exchange, until};
use testkit::{Crossload, available, secrets};

/// The server of an endpoint of ours.
fn ours(endpoint: Endpoint) -> Crossload {
    match endpoint {
        Endpoint::Crossload(server) => *server,
        Endpoint::Xrootd(_) => unreachable!("both are ours"),
    }
}

#[test]
fn a_server_that_tells_a_secret_fails_its_test() {
    let test = "a_server_that_tells_a_secret_fails_its_test";
    let Some(lab) = available(test, Lab::new("leak")) else {
        return;
    };
    let Some(server) = available(test, lab.crossload(lab.options("leaking"))) else {
        return;
    };
    // Client information belongs in the log: a secret in it was put there on purpose.
    let secret = "a-secret-that-somebody-wrote-into-client-information";
    let header = format!("ClientInfo: note={secret}");
    lab.curl(&["-H", &header, &server.url("/data/")]).expect(200);
    until("the log has it", Duration::from_secs(15), || {
        server.log().stderr().contains(secret)
    });
    secrets::note("the client's note", secret);
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(server)));
    let words = dropped.expect_err("the search finds it");
    let words = words.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(
        words.contains("the log of leaking shows a secret: the client's note"),
        "{words}"
    );
    assert!(!words.contains(secret));
}

#[test]
fn no_way_of_showing_a_token_makes_it_known() {
    let test = "no_way_of_showing_a_token_makes_it_known";
    let Some(lab) = available(test, Lab::new("shown")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "twins")) else {
        return;
    };
    twins.open.put("f", b"content");
    let token = twins.macaroon(&lab, "f", "DOWNLOAD");
    let url = twins.guarded.url("f");
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    lab.curl(&["-H", &bearer(&token), &url]).expect(200);
    // What is wrong with each of these is said without it.
    for wrong in [
        format!("{}AAAA", &token[..token.len() - 4]),
        token[..token.len() - 30].to_owned(),
        format!("{token}.{token}.{token}"),
        format!(
            "eyJhbGciOiJub25lIn0.eyJzY29wZSI6InN0b3JhZ2UucmVhZDovIn0.{}",
            &token[..60]
        ),
        format!("%{token}"),
        format!("\"{token}\""),
    ] {
        lab.curl(&["-H", &bearer(&wrong), &url]).expect(401);
        let in_url = wrong.replace(['%', '"'], "");
        if in_url != token {
            let in_url = format!("{url}?authz=Bearer%20{in_url}");
            assert!(lab.curl(&[&in_url]).status >= 400, "{in_url}");
        }
    }
    for header in [
        format!("authorization: bearer {token}, Bearer {token}"),
        format!("Authorization: Basic {token}"),
        format!("Authorization: {token}"),
        format!("Cookie: {token}"),
        format!("X-{token}: x"),
    ] {
        assert!(lab.curl(&["-H", &header, &url]).status >= 400, "{header}");
    }
    // A head that cannot be read is not shown either.
    let broken = format!("GET /data/f HTTP/1.1\r\nHost: a\r\nAuthorization : Bearer {token}\r\n\r\n");
    let Endpoint::Crossload(server) = &twins.guarded else {
        unreachable!("it is ours");
    };
    let answer = exchange(server.port(), broken.as_bytes());
    assert_eq!(answer.status(), 400);
    secrets::demand_none("the answer to a broken head", &answer.text);
    // A copy that fails at the other side quotes that side's words.
    let to = format!("TransferHeaderAuthorization: Bearer {token}");
    let source = format!("Source: {}?authz={token}", twins.guarded.url("none"));
    let answer = lab.copy(&twins.open.url("copied"), &source, &[&to]);
    secrets::demand_none("the answer to a copy", &(answer.heads.clone() + &answer.text()));
    // Each refusal is explained by its name, on the admin address.
    let refused = lab.curl(&["-H", &bearer(&token), "-X", "DELETE", &url]).expect(403);
    let text = refused.text();
    let id = text.rsplit(' ').next().unwrap_or_default().trim().to_owned();
    let admin = server.admin_url("").expect("an admin address");
    let explained = lab.run_client("explain", &[&id, "--admin", &admin]);
    assert!(
        explained.text().contains("DELETE") || explained.code != Some(0),
        "{}",
        explained.said()
    );
    // Both end here, and all that they said is searched.
    let Twins { open, guarded } = twins;
    drop(ours(open));
    drop(ours(guarded));
}

#[test]
fn a_secret_with_a_second_name_in_an_export_is_not_served() {
    let test = "a_secret_with_a_second_name_in_an_export_is_not_served";
    let Some(lab) = available(test, Lab::new("linked")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "twins")) else {
        return;
    };
    let Endpoint::Crossload(server) = &twins.guarded else {
        unreachable!("it is ours");
    };
    let secret = server.configuration().with_file_name("macaroon.secret");
    let linked = twins.guarded.data().join("linked");
    std::fs::hard_link(secret, &linked).expect("a second name");
    std::fs::write(twins.guarded.data().join("f"), b"content").expect("a file");
    for (name, status) in [("linked", 403), ("f", 200)] {
        let bearer = format!("Authorization: Bearer {}", twins.macaroon(&lab, name, "DOWNLOAD"));
        lab.curl(&["-H", &bearer, &twins.guarded.url(name)]).expect(status);
    }
    std::fs::remove_file(linked).expect("a name");
}

#[test]
fn the_commands_for_tokens_show_no_signature() {
    let test = "the_commands_for_tokens_show_no_signature";
    let Some(lab) = available(test, Lab::new("inspect")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "twins")) else {
        return;
    };
    let token = twins.macaroon(&lab, "f", "DOWNLOAD");
    let file = lab.file(token.as_bytes());
    let file = file.to_str().expect("plain");
    let Endpoint::Crossload(server) = &twins.guarded else {
        unreachable!("it is ours");
    };
    let configuration = server.configuration();
    let configuration = configuration.to_str().expect("plain");
    for arguments in [
        vec!["token", "inspect", "--token", file],
        vec!["token", "inspect", "--json", "--token", file],
        vec![
            "explain",
            "--config",
            configuration,
            "--op",
            "write",
            "--path",
            "/data/f",
            "--token",
            file,
        ],
        vec![
            "explain",
            "--json",
            "--config",
            configuration,
            "--op",
            "read",
            "--path",
            "/data/f",
            "--token",
            file,
        ],
        vec!["check", "--offline", "--config", configuration],
        vec!["ls", "-vv", "--token-file", file, &twins.guarded.url("")],
    ] {
        // The run itself demands that the token is not shown.
        let run = conformance::run(&lab.client(&arguments).expect("the client"));
        assert!(!run.said().is_empty(), "{arguments:?} says nothing");
        assert!(!run.said().contains(&token[token.len() - 40..]), "{arguments:?}");
    }
}

#[test]
fn a_server_leaves_no_core_dump() {
    let test = "a_server_leaves_no_core_dump";
    let Some(lab) = available(test, Lab::new("core")) else {
        return;
    };
    let Some(server) = available(test, lab.crossload(lab.options("server"))) else {
        return;
    };
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.log().id())).expect("its limits");
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size"));
    let values: Vec<&str> = core.unwrap_or_default().split_whitespace().take(2).collect();
    assert_eq!(values, ["0", "0"], "{limits}");
}

#[test]
fn a_server_that_would_serve_its_own_secrets_does_not_start() {
    let test = "a_server_that_would_serve_its_own_secrets_does_not_start";
    let Some((lab, binary)) = available(
        test,
        Lab::new("exposed").and_then(|lab| Ok((lab, Crossload::binary()?))),
    ) else {
        return;
    };
    let site = lab.fresh("site");
    let data = site.join("data");
    std::fs::create_dir_all(&data).expect("an export");
    let file = site.join("crossload.toml");
    let text = "[server]\nlisten = [\"127.0.0.1:0\"]\n[[export]]\ndirectory = \"data\"\nanonymous = \"read\"\n\
                [macaroons]\nsecret_file = \"data/macaroon.secret\"\n[log]\nfile = \"data/log\"\n";
    std::fs::write(&file, text).expect("a configuration");
    let mut command = std::process::Command::new(binary);
    let run = command
        .arg("serve")
        .arg("--config")
        .arg(&file)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && run.stdout.is_empty(), "{said}");
    assert!(
        said.contains("the macaroon secret") && said.contains("the log"),
        "{said}"
    );
    // Neither was made before it was refused.
    let count = std::fs::read_dir(&data).expect("the export").count();
    assert_eq!(count, 0);
}
