//! Files that options name may be pipes of a shell, whose content comes once.

use std::process::Command;

use conformance::{Lab, Reply, Run, Scripted, json_lines, run};
use testkit::{Crossload, Result, available};

fn lab_with_bash(name: &str) -> Result<Lab> {
    let lab = Lab::new(name)?;
    lab.command("bash")?;
    Ok(lab)
}

/// Runs our client as bash does with these words, in which `$0` is the client.
fn in_bash(lab: &Lab, words: &str, arguments: &[&str]) -> Run {
    let mut bash: Command = lab.command("bash").expect("bash");
    bash.args(["-c", words]).arg(Crossload::binary().expect("our client"));
    run(bash.args(arguments).env_remove("X509_CERT_DIR"))
}

#[test]
fn authorities_may_come_from_a_pipe() {
    let test = "authorities_may_come_from_a_pipe";
    let started = lab_with_bash("pipes").and_then(|lab| {
        let server = lab.crossload(lab.options("se"))?;
        Ok((lab, server))
    });
    let Some((lab, server)) = available(test, started) else {
        return;
    };
    let authority = lab.authority().ca_file();
    let arguments = [authority.to_str().expect("plain"), &server.url("")];
    in_bash(&lab, r#"exec "$0" ls "$2""#, &arguments).failed_with(71);
    in_bash(&lab, r#"exec "$0" ls --cacert <(cat "$1") "$2""#, &arguments).succeeded();
    let empty = in_bash(&lab, r#"exec "$0" ls --cacert <(true) "$2""#, &arguments).failed_with(22);
    assert!(
        empty.stderr.contains("there is no certificate in it"),
        "{}",
        empty.said()
    );
}

#[test]
fn what_reports_need_is_kept_from_a_pipe_until_the_run_has_ended() {
    let test = "what_reports_need_is_kept_from_a_pipe_until_the_run_has_ended";
    let Some(lab) = available(test, lab_with_bash("pipes-webhook")) else {
        return;
    };
    let receiver = Scripted::start(|seen| Reply::whole(seen, "204 No Content", &[], b""));
    // Nothing listens there.
    let endpoint = |name: &str| {
        format!("[[endpoint]]\nname = {name:?}\nurls = [\"http://127.0.0.1:1/{name}\"]\nanonymous = true\n")
    };
    let file = format!("[mesh]\ntitle = \"t\"\n{}{}", endpoint("A"), endpoint("B"));
    let file = lab.file(file.as_bytes());
    let words = r#"exec "$0" mesh "$1" --mode streamed --webhook "$2" --webhook-token <(echo from-a-pipe)"#;
    let arguments = [file.to_str().expect("plain"), &receiver.url("/")];
    in_bash(&lab, words, &arguments).failed_with(1);
    let seen = receiver.seen();
    let seen = seen.first().expect("a request");
    assert_eq!(seen.header("authorization"), Some("Bearer from-a-pipe"));
}

#[test]
fn a_configuration_may_come_from_a_pipe() {
    let test = "a_configuration_may_come_from_a_pipe";
    let Some(lab) = available(test, lab_with_bash("pipes-configuration")) else {
        return;
    };
    let file = lab.file(b"[queue]\nlisten = [\"127.0.0.1:0\"]\n");
    let arguments = [file.to_str().expect("plain")];
    // The codes and lines of what is found.
    let found = |given: &str| {
        let words = format!("exec \"$0\" check --offline --json --config {given}");
        let checked = in_bash(&lab, &words, &arguments);
        let findings = json_lines(&checked).into_iter();
        let findings = findings.map(|finding| (finding["code"].clone(), finding["line"].clone()));
        findings.collect::<Vec<_>>()
    };
    let known = found("\"$1\"");
    assert!(known.iter().any(|(_, line)| line.is_u64()), "{known:?}");
    assert_eq!(found("<(cat \"$1\")"), known);
    let refused = in_bash(&lab, r#"exec "$0" serve --config <(cat "$1")"#, &arguments).failed_with(22);
    assert!(
        refused.stderr.contains("crossload queue serve --config"),
        "{}",
        refused.said()
    );
}
