//! `crossload mesh`: the mode of a cell is what the two servers did, by their own logs.

use std::fs;

use conformance::{Lab, last_json, log_lines, requests_with};
use serde_json::Value;
use testkit::{Access, Crossload, Result, available};

use super::mesh::endpoint;

const JANE: &str = "/O=Crossload test/CN=Jane Doe";

/// Two of our servers.
struct Ends {
    lab: Lab,
    source: Crossload,
    destination: Crossload,
    /// Further lines for both in the file of endpoints.
    credential: String,
}

/// What a mesh of one mode left in the logs of the two servers: each third-party copy that a server
/// began, with what it showed to the other one.
#[derive(Debug, PartialEq, Eq)]
struct Copies {
    at_source: Vec<String>,
    at_destination: Vec<String>,
}

impl Copies {
    fn of(at_source: &[&str], at_destination: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            at_source: owned(at_source),
            at_destination: owned(at_destination),
        }
    }
}

impl Ends {
    /// Servers that are open to all.
    fn open() -> Result<Self> {
        let lab = Lab::new("mesh-modes")?;
        Ok(Self {
            source: lab.crossload(lab.options("source"))?,
            destination: lab.crossload(lab.options("destination"))?,
            credential: String::new(),
            lab,
        })
    }

    /// Servers that demand gsi, and take proxies.
    fn delegating() -> Result<Self> {
        let lab = Lab::new("mesh-modes-lite")?;
        let jane = lab.authority().issue_user(JANE)?;
        let proxy = jane.proxy()?.write_proxy(&lab.fresh("proxy"))?;
        let start = |name: &str| {
            let mut options = lab.options(name);
            options.exports[0].anonymous = Access::None;
            // With them clients would be made to switch to TLS, and gsi is for clear text.
            options.macaroons = false;
            let store = options.directory.join("delegated");
            options.more = format!(
                "[xroot]\nauthentication = [\"gsi\"]\n[x509]\ntrust_directory = {:?}\n\
                 [delegation]\ndirectory = {store:?}\nkey_file = \"delegation.key\"\n\
                 [[rule]]\nwho = \"dn:{JANE}\"\nmay = \"all\"\n",
                lab.authority().trust_directory(),
            );
            lab.crossload(options)
        };
        Ok(Self {
            source: start("source")?,
            destination: start("destination")?,
            credential: format!("proxy = {proxy:?}\n"),
            lab,
        })
    }

    /// Runs a mesh of one link in one mode. Its only cell must pass.
    #[track_caller]
    fn copied(&self, mode: &str, url: impl Fn(&Crossload, &str) -> String) -> Copies {
        let ends = [(&self.source, "source"), (&self.destination, "destination")];
        let directory = self.lab.fresh(mode);
        let directory = directory.file_name().and_then(|name| name.to_str()).expect("a name");
        let mut parts = vec![format!("[mesh]\ntitle = \"{mode}\"\nsize = \"300KB\"\n")];
        for (server, role) in ends {
            fs::create_dir(server.data().join(directory)).expect("a directory");
            let url = url(server, &format!("/data/{directory}"));
            let roles = format!("roles = [\"{role}\", \"active\", \"passive\"]\n{}", self.credential);
            parts.push(endpoint(role, &[&url], &roles));
        }
        let file = self.lab.file(parts.concat().as_bytes());
        let arguments = [file.to_str().expect("plain"), "--mode", mode, "--json"];
        let results = last_json(&self.lab.run_client("mesh", &arguments).succeeded());
        let cells = results["cells"].as_array().expect("cells").iter();
        let passed: Vec<&Value> = cells.filter(|cell| cell["outcome"]["is"] == "passed").collect();
        assert_eq!(passed.len(), 1, "{mode}: {results:#}");
        assert_eq!(passed[0]["link"]["mode"], mode, "{results:#}");
        let [at_source, at_destination] = ends.map(|(server, _)| begun(server, directory));
        Copies {
            at_source,
            at_destination,
        }
    }
}

/// The third-party copies of files in a directory that a server began, by its log.
#[track_caller]
fn begun(server: &Crossload, directory: &str) -> Vec<String> {
    let is_there = |line: &Value| {
        let path = line["path"].as_str().unwrap_or_default();
        path.starts_with(&format!("/data/{directory}/"))
    };
    // The last that a mesh does at each server, so that no line of a copy is still to come.
    let is_removal = |line: &Value| is_there(line) && (line["method"] == "DELETE" || line["method"] == "remove");
    requests_with(server.log(), 1, "the file is removed", is_removal);
    let lines = log_lines(server.log());
    let begun = lines
        .iter()
        .filter(|line| line["event"] == "transfer_started" && is_there(line));
    begun
        .map(|line| {
            let word = |key: &str| line[key].as_str().unwrap_or("nothing").to_owned();
            format!("{} with {}", word("mode"), word("peer_credential"))
        })
        .collect()
}

#[test]
fn a_push_is_made_by_the_source_and_a_pull_by_the_destination() {
    let test = "a_push_is_made_by_the_source_and_a_pull_by_the_destination";
    let Some(ends) = available(test, Ends::open()) else {
        return;
    };
    let http = |server: &Crossload, path: &str| server.url(path);
    // The mesh asks the passive server for a macaroon.
    assert_eq!(ends.copied("push", http), Copies::of(&["push with token"], &[]));
    assert_eq!(ends.copied("pull", http), Copies::of(&[], &["pull with token"]));
    assert_eq!(ends.copied("streamed", http), Copies::of(&[], &[]));
    let root = |server: &Crossload, path: &str| server.root_url(path);
    assert_eq!(ends.copied("rendezvous", root), Copies::of(&[], &["pull with key"]));
    assert_eq!(ends.copied("streamed", root), Copies::of(&[], &[]));
}

#[test]
fn a_lite_copy_is_made_with_the_delegated_proxy() {
    let test = "a_lite_copy_is_made_with_the_delegated_proxy";
    let Some(ends) = available(test, Ends::delegating()) else {
        return;
    };
    let root = |server: &Crossload, path: &str| server.root_url(path);
    assert_eq!(
        ends.copied("lite", root),
        Copies::of(&[], &["pull with delegated_proxy"])
    );
    assert_eq!(ends.copied("streamed", root), Copies::of(&[], &[]));
}
