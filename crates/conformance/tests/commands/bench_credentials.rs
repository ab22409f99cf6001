//! `crossload bench` on a server without anonymous access: with a token, a proxy certificate and a
//! macaroon, over HTTP and the XRootD protocol; and its messages when it is refused.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use conformance::{Endpoint, Lab, Run, macaroon, run, visible};
use serde_json::Value;
use testkit::{Access, Result, TokenIssuer, available, require};

const DN: &str = "/O=Crossload test/CN=Jane Doe";
const ALL_SCOPES: &str = "storage.read:/ storage.create:/ storage.modify:/ storage.stage:/";

/// A server that knows one issuer and one person.
struct Site {
    lab: Lab,
    issuer: TokenIssuer,
    server: Endpoint,
    proxy: PathBuf,
    stranger: PathBuf,
}

fn site(name: &str) -> Result<Site> {
    require("curl")?;
    let lab = Lab::new(name)?;
    let issuer = TokenIssuer::start(lab.authority())?;
    let proxy = |dn: &str| {
        let user = lab.authority().issue_user(dn)?;
        user.proxy()?.proxy()?.write_proxy(&lab.fresh("proxy"))
    };
    let (known, stranger) = (proxy(DN)?, proxy("/O=Crossload test/CN=John Doe")?);
    let mut options = lab.options("guarded");
    options.exports[0].anonymous = Access::None;
    let trust = lab.authority().trust_directory();
    options.more = format!(
        "[[issuer]]\nurl = \"{}\"\nvo = \"wlcg\"\nbase_paths = [\"/data\"]\n[x509]\ntrust_directory = {trust:?}\n\
         [[rule]]\nwho = \"dn:{DN}\"\npath = \"/data\"\nmay = [\"all\"]\n",
        issuer.url()
    );
    let server = Endpoint::Crossload(Box::new(lab.crossload(options)?));
    Ok(Site {
        lab,
        issuer,
        server,
        proxy: known,
        stranger,
    })
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// Short enough for a test.
const LOADS: [(&str, &[&str]); 5] = [
    ("bulk", &["-s", "100KiB", "--volume", "200KiB", "-c", "2", "-n", "1,2"]),
    ("metadata", &["--files", "20", "--during", "50ms", "-c", "2"]),
    ("vector", &["-s", "200KiB", "--during", "50ms", "-c", "2"]),
    ("overwrite", &["-s", "100KiB", "--files", "1", "-c", "2"]),
    ("mixed", &["-s", "200KiB", "--during", "50ms", "-c", "2"]),
];

impl Site {
    fn token(&self, scopes: &str) -> PathBuf {
        self.lab.file(self.issuer.token().scope(scopes).mint().as_bytes())
    }

    /// Runs a load on targets; returns what it said, and its report.
    fn bench(&self, load: &str, options: &[&str], targets: &[String]) -> (Run, Value) {
        let ca = self.lab.authority().ca_file();
        let files = ["json", "html", "csv"].map(|kind| self.lab.fresh("report").with_extension(kind));
        let mut arguments = vec!["bench", load, "-q", "-r", "1", "--cacert", plain(&ca)];
        arguments.extend([
            "--json",
            plain(&files[0]),
            "--html",
            plain(&files[1]),
            "--csv",
            plain(&files[2]),
        ]);
        arguments.extend(options);
        arguments.extend(targets.iter().map(String::as_str));
        let run = run(&self.lab.client(arguments).expect("the client"));
        for file in &files {
            let text = fs::read_to_string(file).unwrap_or_default();
            testkit::secrets::demand_none(&format!("the report of {load}"), &text);
        }
        let report = fs::read(&files[0]).unwrap_or_default();
        (run, serde_json::from_slice(&report).unwrap_or_default())
    }

    fn both(&self) -> Vec<String> {
        vec![
            format!("se={}", self.server.url("")),
            format!("se={}", self.server.roots("")),
        ]
    }

    /// All loads go well with a credential, over both protocols, and leave nothing behind.
    #[track_caller]
    fn is_measured_with(&self, credential: &[&str]) {
        for (load, options) in LOADS {
            let (run, report) = self.bench(load, &[options, credential].concat(), &self.both());
            let run = run.succeeded();
            for protocol in ["https", "roots"] {
                let text = run.text();
                assert!(text.contains(protocol), "{load}, {protocol}: {}", run.said());
            }
            assert!(
                report["tables"].as_array().is_some_and(|all| !all.is_empty()),
                "{report:#}"
            );
        }
        let copies = ["-s", "100KiB", "--during", "50ms", "-c", "2"];
        // Everybody comes through the relay, at another port of the same host, which changes
        // nothing for credentials.
        let line = [
            "-s",
            "100KiB",
            "--rtt",
            "0,4",
            "-n",
            "1,2",
            "--only",
            "get,put,pull,push",
        ];
        for url in [self.server.url(""), self.server.roots("")] {
            let pair = [format!("one={url}"), format!("two={url}")];
            for (load, options) in [("tpc", &copies[..]), ("latency", &line[..])] {
                let (run, report) = self.bench(load, &[options, credential].concat(), &pair);
                let run = run.succeeded();
                assert!(!run.text().contains("without one"), "{load}: {}", run.said());
                // Two are measured by themselves, and copies from one to the other.
                assert!(load == "tpc" || ways(&report).len() >= 3, "{}", run.said());
            }
        }
        let tls = [
            "-s",
            "100KiB",
            "--volume",
            "100KiB",
            "-c",
            "1",
            "--clients",
            "1",
            "--during",
            "50ms",
        ];
        let (run, _) = self.bench("tls", &[&tls[..], credential].concat(), &self.both());
        run.succeeded();
        assert_eq!(visible(self.server.data()), Vec::<String>::new());
    }
}

/// The first words of the labels of all rows that have a figure: `GET`, `PUT`, `pull`, `push`.
fn ways(report: &Value) -> BTreeSet<&str> {
    let tables = report["tables"].as_array().into_iter().flatten();
    let rows = tables.flat_map(|table| table["rows"].as_array().into_iter().flatten());
    let measured = rows.filter(|row| row["samples"].as_array().is_some_and(|all| !all.is_empty()));
    let known = ["GET", "PUT", "pull", "push"];
    measured
        .filter_map(|row| row["label"].as_str()?.split(' ').next())
        .filter(|word| known.contains(word))
        .collect()
}

#[test]
fn a_token_opens_all_loads() {
    let Some(site) = available("a_token_opens_all_loads", site("bench-token")) else {
        return;
    };
    site.is_measured_with(&["--token-file", plain(&site.token(ALL_SCOPES))]);
}

#[test]
fn a_proxy_certificate_opens_all_loads() {
    let Some(site) = available("a_proxy_certificate_opens_all_loads", site("bench-proxy")) else {
        return;
    };
    site.is_measured_with(&["--proxy", plain(&site.proxy)]);
}

#[test]
fn a_macaroon_opens_all_loads() {
    let Some(site) = available("a_macaroon_opens_all_loads", site("bench-macaroon")) else {
        return;
    };
    let token = fs::read_to_string(site.token(ALL_SCOPES)).expect("a token");
    let header = format!("Authorization: Bearer {token}");
    let activities = "activity:DOWNLOAD,UPLOAD,DELETE,MANAGE,LIST";
    let macaroon = macaroon(&site.lab, &site.server.url(""), &[activities], &[&header]);
    site.is_measured_with(&["--token-file", plain(&site.lab.file(macaroon.as_bytes()))]);
}

#[test]
fn whoever_is_refused_is_told_what_was_shown() {
    let test = "whoever_is_refused_is_told_what_was_shown";
    let Some(site) = available(test, site("bench-refused")) else {
        return;
    };
    let (wrong, stranger) = (site.lab.file(b"not-of-this-server"), plain(&site.stranger));
    let cases: [(&[&str], &str); 3] = [
        (&[], "none: no token in "),
        (&["--token-file", plain(&wrong)], "the token found in"),
        (&["--proxy", stranger], "CN=John Doe"),
    ];
    for (credential, shown) in cases {
        for (load, options) in LOADS {
            let (run, _) = site.bench(load, &[options, credential].concat(), &site.both());
            let run = run.failed_with(1);
            assert!(run.text().contains("Permission denied"), "{load}: {}", run.said());
            assert!(
                run.stderr.contains("credential sent to servers: ") && run.stderr.contains(shown),
                "{load}: {}",
                run.said()
            );
            let advice = "show a credential that it takes (--token-file, --proxy, --cert)";
            assert!(
                !credential.is_empty() || run.text().contains(advice),
                "{load}: {}",
                run.said()
            );
            assert_eq!(
                run.stderr.matches("credential sent to servers: ").count(),
                1,
                "{}",
                run.said()
            );
        }
    }
    assert_eq!(visible(site.server.data()), Vec::<String>::new());
}

#[test]
fn whoever_may_only_read_is_told_how_to_measure_all_the_same() {
    let test = "whoever_may_only_read_is_told_how_to_measure_all_the_same";
    let Some(site) = available(test, site("bench-reader")) else {
        return;
    };
    site.server.put("there", &conformance::bytes(300_000, 1));
    let token = site.token("storage.read:/");
    let credential = ["--token-file", plain(&token)];
    let (load, options) = LOADS[0];
    let (run, _) = site.bench(load, &[options, &credential].concat(), &site.both());
    let run = run.failed_with(1);
    assert!(
        run.text().contains("give --file URL to read a file that is there"),
        "{}",
        run.said()
    );
    let files = [site.server.url("there"), site.server.roots("there")];
    let with_file = ["--only", "get", "--file", &files[0], "--file", &files[1]];
    let (run, _) = site.bench(load, &[options, &credential, &with_file].concat(), &site.both());
    run.succeeded();
    assert_eq!(visible(site.server.data()), ["there"]);
}
