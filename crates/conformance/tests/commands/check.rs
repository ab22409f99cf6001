//! `crossload check`: the doors as clients find them, from here and from another server, beside a
//! server that runs.

use conformance::{Endpoint, Lab, Run, json_lines, requests_with};
use serde_json::Value;
use testkit::{Access, Crossload, Result, TokenIssuer, available, free_port};

/// A server with a certificate for its name, whose configuration file is examined.
fn start(name: &str) -> Result<(Lab, Crossload)> {
    let lab = Lab::new(name)?;
    let mut options = lab.options("server");
    options.exports[0].anonymous = Access::Read;
    options.default_sessions = true;
    // As many as any machine has descriptors for.
    options.limits = "connections = 100\ntransfers = 10\n".to_owned();
    let server = lab.crossload(options)?;
    Ok((lab, server))
}

/// The server's configuration as it would be with the port that it was given, and changed.
fn configuration(server: &Crossload, change: impl FnOnce(String) -> String) -> String {
    let text = std::fs::read_to_string(server.configuration()).expect("its configuration");
    let text = text
        .replace("127.0.0.1:0\"]", &format!("127.0.0.1:{}\"]", server.port()))
        .replace(
            "admin_listen = \"127.0.0.1:0\"",
            &format!("name = \"https://localhost:{}\"", server.port()),
        );
    let file = server.configuration().with_file_name("examined.toml");
    std::fs::write(&file, change(text)).expect("a configuration");
    file.to_str().expect("plain").to_owned()
}

fn check(lab: &Lab, file: &str, more: &[&str]) -> (Run, Vec<Value>) {
    // The certificates of tests live for ten days.
    let mut arguments = vec!["--json", "--warn-days", "3", "--config", file];
    arguments.extend(more);
    let run = lab.run_client("check", &arguments);
    let findings = json_lines(&run);
    (run, findings)
}

/// The codes of what is worse than a note.
fn bad(findings: &[Value]) -> Vec<&str> {
    let worse = findings
        .iter()
        .filter(|finding| finding["severity"] == "warning" || finding["severity"] == "error");
    worse.filter_map(|finding| finding["code"].as_str()).collect()
}

fn has(findings: &[Value], code: &str) -> bool {
    findings.iter().any(|finding| finding["code"] == code)
}

#[test]
fn a_running_server_is_examined_and_not_disturbed() {
    let test = "a_running_server_is_examined_and_not_disturbed";
    let Some((lab, server)) = available(test, start("check")) else {
        return;
    };
    let file = configuration(&server, |text| text);
    let before = std::fs::read_dir(server.data()).expect("the export").count();
    let (run, findings) = check(&lab, &file, &[]);
    assert_eq!(bad(&findings), Vec::<&str>::new(), "{}", run.said());
    assert_eq!(run.code, Some(0), "{}", run.said());
    // HTTP and the XRootD protocol at the address, and the name.
    let ports = findings.iter().filter(|finding| finding["code"] == "port").count();
    assert_eq!(ports, 3, "{findings:#?}");
    for code in [
        "certificate",
        "certificate_names",
        "chain",
        "secret",
        "storage",
        "authorities",
    ] {
        assert!(has(&findings, code), "{code} is not among {findings:#?}");
    }
    assert_eq!(std::fs::read_dir(server.data()).expect("the export").count(), before);
    lab.curl(&[&server.url("/data/")]).expect(200);
    requests_with(server.log(), 1, "what the check asked", |_| true);
    // A person sees the same, and with --quiet only what is to be done.
    let told = lab
        .run_client("check", &["--warn-days", "3", "--config", &file])
        .succeeded();
    assert!(told.text().contains("0 errors, 0 warnings"), "{}", told.text());
    let quiet = lab
        .run_client("check", &["--warn-days", "3", "--config", &file, "--quiet"])
        .succeeded();
    assert_eq!(quiet.text().lines().count(), 1, "{}", quiet.text());
    // Its certificate ends before that.
    let soon = ["--warn-days", "30", "--quiet", "--config", &file];
    lab.run_client("check", &soon).failed_with(1);
    let allowed = lab.run_client("check", &[&soon[..], &["--allow-warnings"]].concat());
    assert!(allowed.succeeded().text().contains("certificate_expires_soon"));
}

#[test]
fn a_server_that_does_not_run_is_no_fault_but_a_closed_port_is() {
    let test = "a_server_that_does_not_run_is_no_fault_but_a_closed_port_is";
    let Some((lab, mut server)) = available(test, start("check-closed")) else {
        return;
    };
    let other = free_port().expect("a port");
    let two = |text: String| {
        let both = format!("127.0.0.1:{}\", \"127.0.0.1:{other}\"]", server.port());
        text.replace(&format!("127.0.0.1:{}\"]", server.port()), &both)
    };
    let file = configuration(&server, two);
    let (run, findings) = check(&lab, &file, &[]);
    assert_eq!(bad(&findings), ["port_closed", "port_closed"], "{}", run.said());
    assert_eq!(run.code, Some(2));
    let closed = findings
        .iter()
        .find(|finding| finding["code"] == "port_closed")
        .expect("found");
    assert_eq!(
        (&closed["key"], &closed["line"]),
        (&"server.listen".into(), &2.into()),
        "{closed}"
    );
    assert!(
        closed["file"]
            .as_str()
            .is_some_and(|name| name.ends_with("examined.toml")),
        "{closed}"
    );

    // Under another name clients do not believe the certificate.
    let name = format!("https://127.0.0.2:{}", server.port());
    let file = configuration(&server, |text| {
        text.replace(&format!("https://localhost:{}", server.port()), &name)
    });
    let (_, findings) = check(&lab, &file, &[]);
    let found = bad(&findings);
    assert!(
        found.contains(&"certificate_name_differs") && found.contains(&"tls_failed"),
        "{findings:#?}"
    );

    let file = configuration(&server, |text| text);
    server.process().terminate().expect("it ends");
    let (run, findings) = check(&lab, &file, &[]);
    assert!(has(&findings, "not_running"), "{findings:#?}");
    assert_eq!(run.code, Some(0), "{}", run.said());
    assert!(!has(&check(&lab, &file, &["--offline"]).1, "not_running"));
}

#[test]
fn issuers_are_asked_for_their_keys() {
    let test = "issuers_are_asked_for_their_keys";
    let Some((lab, server)) = available(test, start("check-issuer")) else {
        return;
    };
    let Some(issuer) = available(test, TokenIssuer::start(lab.authority())) else {
        return;
    };
    let with = |url: &str| {
        let more = format!("\n[[issuer]]\nurl = \"{url}\"\n");
        configuration(&server, |text| text + &more)
    };
    let (run, findings) = check(&lab, &with(&issuer.url()), &[]);
    assert_eq!(bad(&findings), Vec::<&str>::new(), "{}", run.said());
    for code in ["issuer", "audiences"] {
        assert!(has(&findings, code), "{code} is not among {findings:#?}");
    }
    // A slash makes it another issuer; the finding names the line.
    let wrong = match issuer.url().strip_suffix('/') {
        Some(bare) => bare.to_owned(),
        None => issuer.url() + "/",
    };
    let (run, findings) = check(&lab, &with(&wrong), &[]);
    assert_eq!(bad(&findings), ["issuer_name_differs"], "{}", run.said());
    let finding = findings
        .iter()
        .find(|finding| finding["code"] == "issuer_name_differs")
        .expect("found");
    assert_eq!(finding["key"], "issuer.url");
    assert!(
        finding["change"]
            .as_str()
            .is_some_and(|change| change.contains(&issuer.url())),
        "{finding}"
    );
    let nobody = format!("https://localhost:{}/", free_port().expect("a port"));
    let (_, findings) = check(&lab, &with(&nobody), &[]);
    assert_eq!(bad(&findings), ["issuer_unreachable"], "{findings:#?}");
}

#[test]
fn another_server_dials_back() {
    let test = "another_server_dials_back";
    let Some((lab, server)) = available(test, start("check-from")) else {
        return;
    };
    let Some(other) = available(test, lab.crossload(lab.options("other"))) else {
        return;
    };
    let other = Endpoint::Crossload(Box::new(other));
    let from = other.url("");
    let file = configuration(&server, |text| text);
    let (run, findings) = check(&lab, &file, &["--from", &from]);
    assert_eq!(bad(&findings), Vec::<&str>::new(), "{}", run.said());
    assert!(has(&findings, "from") && has(&findings, "clock"), "{findings:#?}");
    assert_eq!(
        conformance::visible(other.data()),
        Vec::<String>::new(),
        "nothing comes into being there"
    );
    // Without a listener the other server fails like every client.
    let closed = format!("https://localhost:{}", free_port().expect("a port"));
    let (run, findings) = check(&lab, &file, &["--from", &from, "--url", &closed]);
    assert!(bad(&findings).contains(&"closed_from_elsewhere"), "{}", run.said());
    assert_eq!(run.code, Some(2));
}

/// Answers every request in the words of another program.
fn stranger(listener: std::net::TcpListener, count: usize) -> std::thread::JoinHandle<()> {
    use std::io::{Read as _, Write as _};
    std::thread::spawn(move || {
        for _ in 0..count {
            let (mut socket, _) = listener.accept().expect("a connection");
            let _ = socket.read(&mut [0; 4096]);
            let _ = socket.write_all(b"HTTP/1.1 404 Not Found\r\nServer: nginx/1.22.1\r\nContent-Length: 0\r\n\r\n");
        }
    })
}

#[test]
fn a_port_that_another_program_holds_is_said_plainly() {
    let test = "a_port_that_another_program_holds_is_said_plainly";
    let Some((lab, server)) = available(test, start("held")) else {
        return;
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let answering = stranger(listener.try_clone().expect("the same"), 1);
    let held = format!("127.0.0.1:{port}\"]");
    let file = configuration(&server, |text| {
        text.replace(&format!("127.0.0.1:{}\"]", server.port()), &held)
    });
    let (run, findings) = check(&lab, &file, &[]);
    assert_eq!(bad(&findings), ["port_held"], "{}", run.said());
    assert!(run.said().contains("nginx/1.22.1"), "{}", run.said());
    answering.join().expect("it answered");
    // A server that is started says the same.
    let mut command = lab.client(["serve", "--config", &file]).expect("the program");
    let refused = conformance::run(command.env("RUST_BACKTRACE", "0"));
    assert!(refused.code.is_some_and(|code| code != 0), "{}", refused.said());
    assert!(refused.said().contains("another program uses it"), "{}", refused.said());
    drop(listener);
}
