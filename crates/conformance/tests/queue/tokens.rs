//! Tokens that end while their files wait: renewed at their issuer, once for all files, and kept
//! when the queue is killed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use conformance::{Lab, bytes, run, until};
use serde_json::{Value, json};
use testkit::{
    Access, Crossload, IssuerMode, Queue, Result, TOKEN_CLIENT, TapeServer, TokenIssuer, available,
    require_queue_python,
};

use crate::site::options;

struct Site {
    lab: Lab,
    issuer: TokenIssuer,
    source: Crossload,
    destination: Crossload,
    queue: Queue,
}

impl Site {
    fn start() -> Result<Self> {
        let lab = Lab::new("queue-tokens")?;
        let issuer = TokenIssuer::start(lab.authority())?;
        let keys = lab.file(issuer.jwks().as_bytes());
        let trusted = format!("[[issuer]]\nurl = \"{}\"\njwks_file = {keys:?}\n", issuer.url());
        let endpoint = |name: &str| {
            let mut options = lab.options(name);
            options.exports[0].anonymous = Access::None;
            options.more.clone_from(&trusted);
            Crossload::start(options)
        };
        let (source, destination) = (endpoint("source")?, endpoint("destination")?);
        let clients: PathBuf = lab.file(format!("{} {} {}\n", issuer.url(), TOKEN_CLIENT.0, TOKEN_CLIENT.1).as_bytes());
        std::fs::set_permissions(&clients, std::fs::Permissions::from_mode(0o600))?;
        let lines = format!("anonymous = true\ntoken_clients_file = {clients:?}");
        let mut options = options(&lab, &lines);
        options.more = trusted;
        let queue = Queue::start(options)?;
        Ok(Self {
            lab,
            issuer,
            source,
            destination,
            queue,
        })
    }

    fn call(&self, arguments: &[&str]) -> Value {
        let mut curl = self.lab.command("curl").expect("curl");
        curl.arg("-s")
            .arg("--cacert")
            .arg(self.lab.authority().ca_file())
            .args(arguments);
        serde_json::from_str(&run(&curl).succeeded().text()).expect("JSON")
    }

    /// Submits files of a source with tokens that live so long; the job.
    fn submit(&self, source: &str, names: &[&str], life_s: i64) -> String {
        let token = |scope: &str, number: usize| {
            let draft = self.issuer.token().scope(scope).lifetime_s(life_s);
            draft.claim("jti", format!("{source}-{number}")).mint()
        };
        let files = names.iter().enumerate().map(|(number, name)| {
            json!({
                "sources": [format!("{source}/data/{name}")],
                "destinations": [self.destination.url(&format!("/data/{name}"))],
                "source_tokens": [token("storage.read:/data offline_access", number)],
                "destination_tokens": [token("storage.modify:/data storage.read:/data offline_access", number)],
            })
        });
        let body = json!({"files": files.collect::<Value>()}).to_string();
        let answer = self.call(&["-d", &body, &format!("{}/jobs", self.queue.url())]);
        answer["job_id"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }

    fn ends_well(&self, job: &str) {
        let mut last = Value::Null;
        until("the job ends", Duration::from_secs(30), || {
            last = self.call(&[&format!("{}/jobs/{job}", self.queue.url())]);
            let state = last["job_state"].as_str().unwrap_or_default();
            assert!(!matches!(state, "FAILED" | "FINISHEDDIRTY" | "CANCELED"), "{last}");
            state == "FINISHED"
        });
    }
}

#[test]
fn tokens_that_end_soon_are_renewed_once_and_survive_a_kill() {
    let test = "tokens_that_end_soon_are_renewed_once_and_survive_a_kill";
    let Some(mut site) = available(test, Site::start()) else {
        return;
    };
    let names = ["a", "b", "c", "d"];
    for name in names {
        std::fs::write(site.source.data().join(name), bytes(1000, 3)).expect("file");
    }
    let source = site.source.url("");
    let source = source.trim_end_matches('/').to_owned();
    // A job that goes on using the grants: its source does not answer.
    let waits = site.submit("https://localhost:1", &["none"], 40);
    let job = site.submit(&source, &names, 40);
    site.ends_well(&job);
    let grants = site.issuer.grants();
    assert_eq!(
        (grants.exchanged, grants.refused),
        (2, 0),
        "one for the sources, one for the destinations"
    );

    site.queue.process().kill_hard();
    site.queue.start_again().expect("starts");
    for name in names {
        std::fs::remove_file(site.destination.data().join(name)).expect("file");
    }
    let again = site.submit(&source, &names, 40);
    site.ends_well(&again);
    assert_eq!(site.issuer.grants().exchanged, 2, "the grants were stored");
    let waiting = site.call(&[&format!("{}/jobs/{waits}", site.queue.url())]);
    assert!(
        matches!(waiting["job_state"].as_str(), Some("SUBMITTED" | "ACTIVE")),
        "{waiting}"
    );
}

#[test]
fn scopes_that_are_too_narrow_are_named_before_and_after_the_refusal() {
    let test = "scopes_that_are_too_narrow_are_named_before_and_after_the_refusal";
    let Some(site) = available(test, Site::start()) else {
        return;
    };
    std::fs::write(site.source.data().join("f"), bytes(1000, 4)).expect("file");
    let token = |scope: &str| site.issuer.token().scope(scope).lifetime_s(3600).mint();
    let submit = |source: &str, read: &str, write: &str| {
        let body = json!({"files": [{
            "sources": [source], "destination": site.destination.url("/data/f"),
            "source_token": token(read), "destination_token": token(write),
        }]});
        let answer = site.call(&["-d", &body.to_string(), &format!("{}/v1/jobs", site.queue.url())]);
        let job = answer["job_id"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned();
        (job, answer["warnings"].clone())
    };
    let ask = |path: String| site.call(&[&format!("{}/v1/jobs/{path}", site.queue.url())]);

    // It waits, since its source does not answer.
    let narrow = "storage.create:/data/mine";
    let (waits, warnings) = submit("https://localhost:1/data/f", "storage.read:/", narrow);
    let of_destination = "the token for the destination may not allow to write /data/f: its scopes are for other paths \
                          (storage.create:/data/mine)";
    assert_eq!(warnings, json!([of_destination]));
    let why = ask(format!("{waits}/why"));
    let reasons = why["items"][0]["reasons"].as_array().expect("reasons").clone();
    let of_scope: Vec<&Value> = reasons
        .iter()
        .filter(|reason| reason["code"] == "token_scope")
        .collect();
    assert!(of_scope.len() == 1 && of_scope[0]["words"] == of_destination, "{why}");

    let source = site.source.url("/data/f");
    let (fails, warnings) = submit(&source, "storage.modify:/data", "storage.modify:/data");
    let of_source = "the token for the source may not allow to read /data/f: none of its scopes allows that \
                     (storage.modify:/data)";
    assert_eq!(warnings, json!([of_source]));
    let mut file = Value::Null;
    until("it fails", Duration::from_secs(30), || {
        file = ask(format!("{fails}/files"))["items"][0].clone();
        file["state"] == "failed"
    });
    let reason = file["reason"].as_str().unwrap_or_default();
    assert!(
        reason.starts_with("SOURCE [1] Permission denied") && reason.ends_with(of_source),
        "{reason}"
    );

    let (works, warnings) = submit(&source, "storage.read:/data", "storage.create:/data");
    assert_eq!(warnings, json!([]));
    site.ends_well(&works);
}

/// Tokens that a queue would exchange at once if it managed them.
#[test]
fn unmanaged_tokens_are_shown_as_they_came() {
    let test = "unmanaged_tokens_are_shown_as_they_came";
    let started = Site::start().and_then(|site| {
        let tape = TapeServer::start(site.lab.host())?;
        Ok((site, tape))
    });
    let Some((site, tape)) = available(test, started) else {
        return;
    };
    let content = bytes(1000, 5);
    tape.put_on_tape("/data/f", &content);
    tape.bring_all_online();
    std::fs::write(site.source.data().join("f"), &content).expect("file");
    let token = |scope: &str| {
        let draft = site.issuer.token().scope(&format!("{scope} offline_access"));
        draft.lifetime_s(50).mint()
    };
    let destination = |name: &str| site.destination.url(&format!("/data/{name}"));

    let (reads, writes) = (
        token("storage.read:/data storage.stage:/data"),
        token("storage.modify:/data"),
    );
    let file = json!({
        "sources": [tape.url("/data/f")], "destinations": [destination("from-tape")],
        "source_tokens": [reads], "destination_tokens": [writes],
    });
    let body = json!({"files": [file], "params": {"unmanaged_tokens": true, "bring_online": 3600}}).to_string();
    let answer = site.call(&["-d", &body, &format!("{}/jobs", site.queue.url())]);
    site.ends_well(answer["job_id"].as_str().unwrap_or_else(|| panic!("{answer}")));
    assert!(std::fs::read(site.destination.data().join("from-tape")).expect("there") == content);
    let calls = tape.wait_for_calls("POST /release", 1).expect("released");
    assert_eq!(calls[0].bearer.as_deref(), Some(&*reads));
    assert!(tape.calls().iter().all(|call| call.bearer.as_ref() == Some(&reads)));

    if let Some(submit) = available(test, require_queue_python("fts-rest-transfer-submit")) {
        let of_queue = site.issuer.token().lifetime_s(3600).mint();
        let (reads, writes) = (token("storage.read:/data"), token("storage.modify:/data"));
        let mut command = site.lab.prepared(&submit);
        command.args(["-s", &site.queue.url(), "--fts-access-token", &of_queue]);
        command.args([
            "--src-access-token",
            &reads,
            "--dst-access-token",
            &writes,
            "--unmanaged-tokens",
        ]);
        command.args([&site.source.url("/data/f"), &destination("by-client")]);
        let said = run(&command).succeeded().text();
        let job = said.split_whitespace().last().expect("the job");
        let asked = ["-H", &format!("Authorization: Bearer {of_queue}")];
        let url = format!("{}/jobs/{job}", site.queue.url());
        until("the job ends", Duration::from_secs(30), || {
            let status = site.call(&[&asked[..], &[&url]].concat());
            assert!(status["user_dn"].is_string(), "it is the token's user's: {status}");
            status["job_state"] == "FINISHED"
        });
        assert!(std::fs::read(site.destination.data().join("by-client")).expect("there") == content);
    }
    let grants = site.issuer.grants();
    assert_eq!((grants.exchanged, grants.refused), (0, 0));

    // One that the queue manages waits for its issuer.
    site.issuer.set_mode(IssuerMode::Failing);
    let source = site.source.url("");
    let job = site.submit(source.trim_end_matches('/'), &["f"], 50);
    let why = site.call(&[&format!("{}/v1/jobs/{job}/why", site.queue.url())]);
    assert_eq!(why["items"][0]["reasons"][0]["code"], "tokens", "{why}");
}
