//! The certificate that our client shows: found where grid programs have it, said when asked,
//! refused when others could read its key; and what a server of ours lets out about its secrets.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use conformance::{Lab, Run, requests_with, run};
use testkit::{Access, Crossload, ProxyOptions, Result, available};

const DN: &str = "/O=Crossload test/CN=Jane Doe";

/// Options, variables of the environment, and which of them is to be named.
type Way<'a> = (&'a [&'a str], &'a [(&'a str, &'a Path)], &'a str);

struct Site {
    lab: Lab,
    server: Crossload,
    proxy: PathBuf,
    pair: (PathBuf, PathBuf),
}

fn site() -> Result<Site> {
    let lab = Lab::new("client-identity")?;
    let user = lab.authority().issue_user(DN)?;
    let proxy = user.proxy()?.proxy()?.write_proxy(&lab.fresh("proxy"))?;
    let pair = user.write_pair(lab.scratch().path(), "jane")?;
    let mut options = lab.options("server");
    options.exports[0].anonymous = Access::None;
    let trust = lab.authority().trust_directory();
    options.more = format!(
        "[x509]\ntrust_directory = {trust:?}\n[[rule]]\nwho = \"dn:{DN}\"\npath = \"/data\"\nmay = [\"all\"]\n"
    );
    let server = Crossload::start(options)?;
    std::fs::write(server.data().join("f"), b"content")?;
    Ok(Site {
        lab,
        server,
        proxy,
        pair,
    })
}

impl Site {
    fn cat(&self, options: &[&str], environment: &[(&str, &Path)]) -> Run {
        let url = self.server.url("/data/f");
        let arguments = [&["cat", "-v"][..], options, &[&url]].concat();
        let mut command = self.lab.client(arguments).expect("the client");
        run(command.envs(environment.iter().copied()))
    }
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

#[test]
fn a_certificate_is_found_shown_and_named() {
    let Some(site) = available("a_certificate_is_found_shown_and_named", site()) else {
        return;
    };
    let (certificate, key) = (&site.pair.0, &site.pair.1);
    let ways: [Way<'_>; 4] = [
        (&["--proxy", plain(&site.proxy)], &[], "--proxy"),
        (&["--cert", plain(certificate), "--key", plain(key)], &[], "--cert"),
        (&[], &[("X509_USER_PROXY", &site.proxy)], "X509_USER_PROXY"),
        (
            &[],
            &[("X509_USER_CERT", certificate), ("X509_USER_KEY", key)],
            "X509_USER_CERT",
        ),
    ];
    let ways_count = ways.len();
    for (options, environment, why) in ways {
        let read = site.cat(options, environment).succeeded();
        assert_eq!(read.text(), "content");
        assert!(
            read.stderr.contains(why) && read.stderr.contains("CN=Jane Doe"),
            "{}",
            read.stderr
        );
    }
    let log = requests_with(site.server.log(), ways_count, "each reading", |line| {
        line["method"] == "GET"
    });
    assert!(log.iter().all(|line| line["subject"] == DN), "{log:?}");
    // Over the XRootD protocol with TLS it is the same.
    let place = site.server.root_url("/data/f").replacen("root:", "roots:", 1);
    let mut command = site.lab.client(["cat", &place]).expect("the client");
    let read = run(command.env("X509_USER_PROXY", &site.proxy)).succeeded();
    assert_eq!(read.text(), "content");
}

#[test]
fn a_token_decides_and_what_was_shown_is_said_when_it_is_refused() {
    let test = "a_token_decides_and_what_was_shown_is_said_when_it_is_refused";
    let Some(site) = available(test, site()) else { return };
    let token = site.lab.file(b"not-of-this-server");
    let options = ["--token-file", plain(&token), "--proxy", plain(&site.proxy)];
    let refused = site.cat(&options, &[]).failed_with(13);
    assert!(
        refused.stderr.matches("the token counts").count() == 1,
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains("not-of-this-server"));
    let alone = site
        .lab
        .run_client("cat", &[&site.server.url("/data/f")])
        .failed_with(13);
    assert!(alone.stderr.contains("none: no token in "), "{}", alone.stderr);
}

#[test]
fn a_third_party_copy_needs_no_more_than_a_certificate() {
    let test = "a_third_party_copy_needs_no_more_than_a_certificate";
    let Some(site) = available(test, site()) else { return };
    let root = |name: &str| {
        site.server
            .root_url(&format!("/data/{name}"))
            .replacen("root:", "roots:", 1)
    };
    let https = |name: &str| site.server.url(&format!("/data/{name}"));
    for (source, target, name) in [(root("f"), root("g"), "g"), (https("f"), https("h"), "h")] {
        let copy = ["--mode", "pull", "--proxy", plain(&site.proxy), &source, &target];
        site.lab.run_client("copy", &copy).succeeded();
        assert_eq!(
            std::fs::read(site.server.data().join(name)).expect("the copy"),
            b"content"
        );
    }
}

#[test]
fn what_cannot_be_used_is_said() {
    let Some(site) = available("what_cannot_be_used_is_said", site()) else {
        return;
    };
    let named = |path: &Path| site.cat(&["--proxy", plain(path)], &[]);
    std::fs::set_permissions(&site.proxy, std::fs::Permissions::from_mode(0o644)).expect("mode");
    assert!(named(&site.proxy).failed_with(13).stderr.contains("chmod 600"));
    let missing = site.lab.fresh("none");
    assert!(named(&missing).failed_with(13).stderr.contains("No such file"));
    let user = site
        .lab
        .authority()
        .issue_user("/O=Crossload test/CN=Other")
        .expect("a user");
    let ended = ProxyOptions {
        starts_s: -7200,
        ends_s: -3600,
        ..ProxyOptions::default()
    };
    let ended = user
        .proxy_with(&ended)
        .expect("a proxy")
        .write_proxy(&site.lab.fresh("ended"));
    let said = named(&ended.expect("a file")).failed_with(13).stderr;
    assert!(said.contains("expired at 20"), "{said}");
    let (certificate, _) = user.write_pair(site.lab.scratch().path(), "other").expect("files");
    let mixed = site.cat(&["--cert", plain(&certificate), "--key", plain(&site.pair.1)], &[]);
    assert!(
        mixed
            .failed_with(13)
            .stderr
            .contains("not that of the first certificate")
    );
}

#[test]
fn a_server_leaves_no_core_dump_and_shows_no_secret_about_its_process() {
    let test = "a_server_leaves_no_core_dump_and_shows_no_secret_about_its_process";
    let Some(site) = available(test, site()) else { return };
    let id = site.server.log().id();
    let of = |name: &str| std::fs::read(format!("/proc/{id}/{name}"));
    let limits = String::from_utf8(of("limits").expect("limits")).expect("text");
    let core = limits.lines().find(|line| line.starts_with("Max core file size"));
    let words: Vec<&str> = core.expect("the limit").split_whitespace().collect();
    if testkit::is_superuser() {
        assert_eq!(words[4..6], ["0", "0"], "{limits}");
    }
    let secret = std::fs::read(site.server.configuration().with_file_name("macaroon.secret")).expect("the secret");
    let start = &secret[..32];
    for name in ["cmdline", "environ"] {
        let Ok(shown) = of(name) else { continue };
        assert!(!shown.windows(start.len()).any(|part| part == start), "{name}");
    }
}
