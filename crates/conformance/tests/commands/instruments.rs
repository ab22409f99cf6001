//! What `mesh`, `stress` and `smoke` have in common: a file of endpoints, reports, and the history.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use conformance::{Lab, Run, json_lines, last_json, run, visible};
use serde_json::Value;
use testkit::{Crossload, available};

use super::mesh::endpoint;

/// Two directories of our server as endpoints, one of no server, and one in downtime.
struct Site {
    lab: Lab,
    ours: Crossload,
}

/// No server listens there.
const NOWHERE: &str = "http://127.0.0.1:9/data";

impl Site {
    fn start(test: &str) -> Option<Self> {
        let lab = available(test, Lab::new("instruments"))?;
        let ours = available(test, lab.crossload(lab.options("ours")))?;
        for directory in ["one", "two"] {
            fs::create_dir_all(ours.data().join(directory)).expect("a directory");
        }
        Some(Self { lab, ours })
    }

    /// By an address: the name may have another one, where no server answers.
    fn url(&self, path: &str) -> String {
        self.ours.clear_url(path).replace("localhost", "127.0.0.1")
    }

    fn sound(&self) -> [String; 2] {
        [("ONE", "one"), ("TWO", "two")].map(|(name, directory)| {
            let url = self.url(&format!("/data/{directory}"));
            endpoint(name, &[&url], "administrators = [\"admin@example.org\"]")
        })
    }

    fn file(&self, endpoints: &[String]) -> String {
        let mesh = "[mesh]\ntitle = \"site\"\nsize = \"100KB\"\n".to_owned();
        plain(&self.lab.file([&[mesh], endpoints].concat().concat().as_bytes()))
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Run {
        self.lab.run_client(command, arguments)
    }

    /// A stress test of a second, with its results as JSON.
    fn load(&self, file: &str, more: &[&str]) -> Run {
        let short = [
            "--copies", "5", "--per", "1s", "--size", "10KB", "--ramp", "0", "--hold", "1s",
        ];
        self.run("stress", &[&[file], &short[..], more, &["--json"]].concat())
    }

    fn history(&self, arguments: &[&str]) -> Vec<Value> {
        let arguments = [&["history"], arguments].concat();
        json_lines(&run(&self.lab.client(arguments).expect("the client is built")).succeeded())
    }

    fn fresh(&self, ending: &str) -> PathBuf {
        self.lab.fresh("output").with_extension(ending)
    }

    fn is_clean(&self) -> bool {
        ["one", "two"]
            .iter()
            .all(|name| visible(&self.ours.data().join(name)).is_empty())
    }
}

fn plain(path: &Path) -> String {
    path.to_str().expect("plain").to_owned()
}

#[test]
fn a_mesh_reports_on_itself_and_tries_its_outputs_first() {
    let Some(site) = Site::start("a_mesh_reports_on_itself_and_tries_its_outputs_first") else {
        return;
    };
    let file = site.file(&site.sound());
    let [html, save, history] = ["html", "json", "sqlite"].map(|ending| plain(&site.fresh(ending)));
    let outputs = ["--html", &html, "--save", &save, "--history", &history];
    let bad = ["--junit", "/nowhere/run.xml", "--prometheus", "/nowhere/run.prom"];
    let refused = site
        .run("mesh", &[&[file.as_str()], &outputs[..], &bad].concat())
        .failed_with(5);
    for name in ["/nowhere/run.xml", "/nowhere/run.prom"] {
        assert!(refused.stderr.contains(name), "{}", refused.said());
    }
    // Nothing was copied, and no history has it.
    assert!(!Path::new(&html).exists() && !Path::new(&save).exists());
    let none = site
        .lab
        .client(["history", "list", "--history", &history])
        .expect("built");
    assert!(run(&none).succeeded().text().lines().count() <= 1);

    let told = site
        .run("mesh", &[&[file.as_str()], &outputs[..], &["--mail-dry-run"]].concat())
        .succeeded();
    assert!(told.text().contains("2 endpoints, "), "{}", told.said());
    assert!(told.text().contains("To: admin@example.org"), "{}", told.said());
    assert!(fs::read_to_string(&html).expect("a page").ends_with("</html>\n"));
    let saved: Value = serde_json::from_str(&fs::read_to_string(&save).expect("a run")).expect("JSON");
    assert_eq!(site.history(&["export", "--history", &history]), [saved]);
    assert!(site.is_clean());

    let loaded = site.load(&file, &["--history", &history]);
    let results = last_json(&loaded.succeeded());
    let newest = site.history(&["export", "--history", &history, "--instrument", "stress"]);
    assert_eq!(newest, [results]);
    assert!(site.is_clean());
}

#[test]
fn copies_between_the_protocols_pass_where_the_file_asks_for_them() {
    let Some(site) = Site::start("copies_between_the_protocols_pass_where_the_file_asks_for_them") else {
        return;
    };
    let parts = [("ONE", "one"), ("TWO", "two")].map(|(name, directory)| {
        let path = format!("/data/{directory}");
        endpoint(name, &[&site.url(&path), &site.ours.root_url(&path)], "")
    });
    let mesh = "[mesh]\ntitle = \"both\"\nsize = \"100KB\"\nmixed = true\nmodes = [\"streamed\"]\n".to_owned();
    let file = plain(&site.lab.file([&[mesh], &parts[..]].concat().concat().as_bytes()));
    let results = last_json(&site.run("mesh", &[&file, "--json"]).succeeded());
    let cells = results["cells"].as_array().expect("cells").iter();
    let mut crossing: Vec<String> = cells
        .filter(|cell| cell["outcome"]["is"] == "passed" && cell["link"]["source"] == "ONE")
        .map(|cell| {
            let family = |end: &str| {
                cell["link"][end]
                    .as_str()
                    .unwrap_or_default()
                    .trim_end_matches('s')
                    .to_owned()
            };
            format!("{}>{}", family("source_protocol"), family("destination_protocol"))
        })
        .collect();
    crossing.sort();
    assert_eq!(
        crossing,
        ["http>http", "http>root", "root>http", "root>root"],
        "{results:#}"
    );
    // A stress test of the XRootD protocol, by the mode that HTTP has not.
    let loaded = site.load(&file, &["--protocol", "root", "--mode", "rendezvous"]);
    let loaded = last_json(&loaded.succeeded());
    let cells = loaded["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2, "{loaded:#}");
    for cell in cells {
        assert_eq!(cell["link"]["mode"], "rendezvous", "{loaded:#}");
        assert!(cell["copies"].as_u64() > Some(0), "{loaded:#}");
    }
    assert!(site.is_clean());
}

#[test]
fn what_is_not_tried_has_its_reason() {
    let Some(site) = Site::start("what_is_not_tried_has_its_reason") else {
        return;
    };
    let url = site.url("/data/one");
    let missing = endpoint("ONE", &[&url], "token_file = \"missing.token\"");
    let [_, other] = site.sound();
    let file = site.file(&[missing, other]);
    let planned = site.run("mesh", &[&file, "--dry-run"]).succeeded();
    assert!(planned.text().contains("missing.token"), "{}", planned.said());
    assert!(
        !planned.text().contains("--token-file"),
        "the file names it: {}",
        planned.said()
    );
    let forecast = site.run("stress", &[&file, "--dry-run"]).succeeded();
    assert!(forecast.text().contains("0 links: "), "{}", forecast.said());
    assert!(
        forecast
            .text()
            .contains("2 links not tried: no credential (token) for ONE: "),
        "{}",
        forecast.said()
    );
    let forecast = last_json(&site.run("stress", &[&file, "--dry-run", "--json"]).succeeded());
    assert_eq!(forecast["not_tried"][0]["links"], 2, "{forecast:#}");
}

#[test]
fn smoke_probes_a_list_each_day_and_says_how_its_endpoints_stand() {
    let Some(site) = Site::start("smoke_probes_a_list_each_day_and_says_how_its_endpoints_stand") else {
        return;
    };
    let [one, two] = site.sound();
    let downtime = "[[downtime]]\nendpoint = \"RESTING\"\nfrom = \"2020-01-01T00:00:00Z\"\n\
        until = \"2100-01-01T00:00:00Z\"\nreason = \"new disks\"\n";
    let with = |bad: &str| {
        let bad = endpoint("BAD", &[bad], "");
        let resting = endpoint("RESTING", &[NOWHERE], "");
        site.file(&[one.clone(), two.clone(), bad, resting, downtime.to_owned()])
    };
    let [history, save] = ["sqlite", "json"].map(|ending| plain(&site.fresh(ending)));
    let daily = |file: &str| {
        let arguments = [
            file,
            "--daily",
            "--history",
            &history,
            "--save",
            &save,
            "--size",
            "100KB",
        ];
        site.run("smoke", &[&["--list"], &arguments[..]].concat())
    };
    // At first all is well: the third endpoint is our server too.
    let good = daily(&with(&site.url("/data"))).failed_with(2);
    assert!(
        good.text().contains("smoke of site: 1 in downtime, 3 without problems"),
        "{}",
        good.said()
    );
    let bad = daily(&with(NOWHERE)).failed_with(1);
    let text = bad.text();
    assert!(
        text.contains("smoke of site: 1 with new problems, 1 in downtime, 2 without problems"),
        "{}",
        bad.said()
    );
    assert!(
        text.contains("BAD: FAILED   http "),
        "its probes have its name: {}",
        bad.said()
    );
    let heads: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("PROBLEM") || line.ends_with("problems"))
        .collect();
    assert_eq!(
        heads[1..],
        ["BAD: 1 NEW PROBLEM", "ONE: no problems", "TWO: no problems"],
        "{text}"
    );
    assert!(
        text.contains("; score 10 of 20") && text.contains("; score 12 of 20"),
        "{text}"
    );
    assert!(text.contains("fails since "), "{text}");
    let saved: Value = serde_json::from_str(&fs::read_to_string(&save).expect("a run")).expect("JSON");
    assert_eq!(site.history(&["export", "--history", &history]), [saved]);
    assert!(site.is_clean());
    // What it prints as JSON names the endpoint. One that reports no checksums is not asked for
    // any.
    let unsummed = endpoint("UNSUMMED", &[&site.url("/data")], "checksums = false");
    let bad = endpoint("BAD", &[NOWHERE], "");
    let file = site.file(&[one, two, bad, unsummed]);
    let lines = json_lines(
        &site
            .run("smoke", &["--list", &file, "--size", "100KB", "--json"])
            .failed_with(1),
    );
    let (sum, probes) = lines.split_last().expect("lines");
    assert!(sum["failed"].as_u64().is_some_and(|failed| failed > 0), "{sum:#}");
    assert!(
        probes
            .iter()
            .any(|probe| probe["endpoint"] == "BAD" && probe["outcome"] == "failed")
    );
    assert!(
        probes
            .iter()
            .any(|probe| probe["endpoint"] == "ONE" && probe["outcome"] == "passed")
    );
    let summed = probes
        .iter()
        .filter(|probe| probe["probe"].as_str().is_some_and(|name| name.contains("adler32")));
    let summed: BTreeSet<&str> = summed.filter_map(|probe| probe["endpoint"].as_str()).collect();
    assert!(summed.contains("ONE") && !summed.contains("UNSUMMED"), "{summed:?}");
}

#[test]
fn smoke_of_one_endpoint_is_kept_too() {
    let Some(site) = Site::start("smoke_of_one_endpoint_is_kept_too") else {
        return;
    };
    let history = plain(&site.fresh("sqlite"));
    let url = site.url("/data/one");
    let root = site.ours.root_url("/data/one").replace("localhost", "127.0.0.1");
    let said = site.run("smoke", &[&url, &root, "--size", "100KB", "--history", &history]);
    assert_eq!(said.code, Some(2), "no third party: {}", said.said());
    let kept = &site.history(&["export", "--history", &history])[0];
    assert_eq!(
        (&kept["instrument"], &kept["title"]),
        (&"smoke".into(), &url.as_str().into())
    );
    let software = kept["endpoints"][0]["software"].as_str().unwrap_or_default();
    assert!(software.starts_with("crossload"), "{kept:#}");
    let cells = kept["cells"].as_array().expect("cells");
    let protocols: Vec<&str> = cells
        .iter()
        .filter_map(|cell| cell["link"]["source_protocol"].as_str())
        .collect();
    assert!(
        protocols.contains(&"http") && protocols.contains(&"root"),
        "{protocols:?}"
    );
    assert!(cells.iter().all(|cell| cell["link"]["mode"] == "probe"), "{kept:#}");
}
