//! A mesh whose copies are jobs of a queue.

use std::fs;

use conformance::{last_json, visible};
use serde_json::Value;
use testkit::available;

use crate::open_site::OpenSite;

#[test]
fn a_mesh_through_the_queue_tells_the_job_and_the_reason_of_each_cell() {
    let test = "a_mesh_through_the_queue_tells_the_job_and_the_reason_of_each_cell";
    let Some(site) = available(test, OpenSite::start("mesh-queue")) else {
        return;
    };
    let data = site.endpoint.data();
    for directory in ["a", "b"] {
        fs::create_dir(data.join(directory)).expect("a directory");
    }
    let endpoint = |name: &str, directory: &str, roles: &str| {
        let url = site.endpoint.url(&format!("/data/{directory}"));
        format!("[[endpoint]]\nname = \"{name}\"\nurls = [\"{url}\"]\nroles = [{roles}]\n")
    };
    let all = "\"source\", \"destination\", \"active\", \"passive\"";
    let file = [
        "[mesh]\ntitle = \"jobs\"\nsize = \"100KB\"\n".to_owned(),
        endpoint("A", "a", all),
        endpoint("B", "b", all),
        // A file in place of the directory.
        endpoint("FILE", "file", "\"destination\", \"active\""),
    ];
    fs::write(data.join("file"), b"no directory").expect("a file");
    let file = site.lab.file(file.concat().as_bytes());
    let queue = site.queue.url();
    let arguments = [file.to_str().expect("plain"), "--json", "--queue", &queue];
    let results = last_json(&site.lab.run_client("mesh", &arguments).failed_with(1));
    let cells = results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 6 - 2 + 2, "{results:#}");
    let tried = cells.iter().filter(|cell| cell["outcome"]["is"] != "not_applicable");
    for cell in tried {
        let job = cell["job_url"].as_str().unwrap_or_else(|| panic!("{cell:#}"));
        let path = job.strip_prefix(&queue).expect("of this queue");
        let state = site.get(path)["job_state"].clone();
        if cell["link"]["destination"] == "FILE" {
            let outcome = &cell["outcome"];
            assert_eq!(
                (&state, &outcome["is"]),
                (&"FAILED".into(), &"failed".into()),
                "{cell:#}"
            );
            assert_eq!(outcome["side"], "destination", "{cell:#}");
            assert!(
                outcome["says"]
                    .as_str()
                    .is_some_and(|says| says.starts_with("DESTINATION ["))
            );
            assert!(
                outcome["code"].as_str().is_some_and(|code| !code.starts_with("fts")),
                "{cell:#}"
            );
        } else {
            assert_eq!(
                (&state, &cell["outcome"]["is"]),
                (&Value::from("FINISHED"), &"passed".into()),
                "{cell:#}"
            );
        }
    }
    assert_eq!(visible(data), ["file"]);
}
