//! The calls of DIRAC and CRAB, with the library of FTS that they use.

use std::path::Path;

use conformance::{adler32, bytes, run};
use serde_json::{Value, json};
use testkit::{available, require_queue_python};

use crate::site::Site;

const PROGRAM: &str = "fts_agents.py";
const SIZE: usize = 300_000;

/// What the agents saw.
fn agents(site: &Site, content: &[u8]) -> Value {
    std::fs::write(site.first.data().join("f"), content).expect("file");
    let plan = json!({
        "queue": site.queue.url(), "proxy": site.proxy, "timeout_s": 60,
        "source": site.source(""), "between": site.source("between"), "destination": site.destination(""),
        "size": SIZE, "adler32": format!("{:08x}", adler32(content)),
    });
    let python = require_queue_python("python3").expect("as before");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(PROGRAM);
    let mut command = site.lab.prepared(&python);
    command.arg(script).arg(site.lab.file(plan.to_string().as_bytes()));
    let ran = run(&command).succeeded();
    let text = ran.text();
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|_| panic!("{}\n{}", ran.said(), site.queue.log()))
}

#[test]
fn the_agents_of_dirac_and_crab_get_what_they_read() {
    let test = "the_agents_of_dirac_and_crab_get_what_they_read";
    let started = require_queue_python("python3").and_then(|_| Site::start("agents", ""));
    let Some(site) = available(test, started) else {
        return;
    };
    let content = bytes(SIZE, 67);
    let seen = agents(&site, &content);
    let dirac = &seen["dirac"];

    let mixed = &dirac["mixed"];
    assert_eq!(mixed["state"], "FINISHEDDIRTY", "{seen}");
    assert_eq!(mixed["consistent"], true, "{seen}");
    assert_eq!(mixed["metadata"]["rmsReqID"], 8, "{seen}");
    let whole = &mixed["files"]["1"];
    assert_eq!(
        (&whole["state"], &whole["size"]),
        (&json!("FINISHED"), &json!(SIZE)),
        "{seen}"
    );
    assert!(whole["duration_s"].is_number(), "DIRAC's accounting reads it: {seen}");
    let missing = &mixed["files"]["2"];
    assert_eq!(missing["state"], "FAILED", "{seen}");
    assert!(
        missing["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("No such file")),
        "{seen}"
    );

    let chain = &dirac["chain"];
    assert_eq!(
        (&chain["state"], &chain["consistent"]),
        (&json!("FINISHED"), &json!(true)),
        "{seen}"
    );
    assert_eq!(dirac["canceled"], "CANCELED", "{seen}");
    assert_eq!(
        (&dirac["waiting"]["state"], &dirac["waiting"]["consistent"]),
        (&json!("CANCELED"), &json!(true)),
        "{seen}"
    );
    assert_eq!(
        (&dirac["unknown"], &dirac["unknown_canceled"]),
        (&json!("NotFound"), &json!("NotFound")),
        "{seen}"
    );
    let crab: Vec<Value> = (0..3)
        .map(|number| json!([format!("id{number}"), "FINISHED", site.source("f")]))
        .collect();
    assert_eq!(seen["crab"], json!(crab), "{seen}");
    for name in ["dirac-f", "dirac-chain", "crab-0", "crab-2"] {
        let copied = std::fs::read(site.second.data().join(name));
        assert!(copied.is_ok_and(|found| found == content), "{name}");
    }
}
