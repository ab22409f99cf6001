//! Delegated credentials: davix and gfal2 with a proxy and their default headers, FTS' way by curl
//! and openssl, and what must be refused. The peer is a server that demands the right certificate.

use std::path::PathBuf;

use conformance::{Lab, bytes, last_line, run};
use serde_json::json;
use testkit::{Access, Crossload, Result, User, Xrootd, XrootdAccess, available, require};

const DN: &str = "/O=Crossload test/CN=Jane Doe";

struct Site {
    lab: Lab,
    /// Makes copies, and takes credentials.
    active: Crossload,
    /// Lets only Jane Doe in.
    passive: Crossload,
    user: User,
    proxy: PathBuf,
    vomsdir: PathBuf,
}

fn site() -> Result<Site> {
    let lab = Lab::new("delegation")?;
    let user = lab.authority().issue_user(DN)?;
    let proxy = user.proxy()?.write_proxy(&lab.fresh("proxy"))?;
    let trust = lab.authority().trust_directory();
    let x509 = format!("[x509]\ntrust_directory = {trust:?}\n");
    let mut active = lab.options("active");
    let store = active.directory.join("delegated");
    let vomsdir = lab.fresh("vomsdir");
    std::fs::create_dir_all(&vomsdir)?;
    active.more = format!(
        "{x509}voms_directory = {vomsdir:?}\n[delegation]\ndirectory = {store:?}\nkey_file = \"delegation.key\"\n"
    );
    let mut passive = lab.options("passive");
    passive.exports[0].anonymous = Access::None;
    passive.more = format!("{x509}[[rule]]\nwho = \"dn:{DN}\"\npath = \"/data\"\nmay = [\"all\"]\n");
    Ok(Site {
        active: Crossload::start(active)?,
        passive: Crossload::start(passive)?,
        lab,
        user,
        proxy,
        vomsdir,
    })
}

impl Site {
    fn with_proxy<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let proxy = self.proxy.to_str().expect("plain");
        [&["-E", proxy][..], more].concat()
    }

    /// What the active server keeps on disk.
    fn kept(&self) -> Vec<PathBuf> {
        let directory = self.active.configuration().with_file_name("delegated");
        let entries = std::fs::read_dir(directory).expect("the directory");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

#[test]
fn davix_and_gfal_delegate_when_they_are_asked_to() {
    let test = "davix_and_gfal_delegate_when_they_are_asked_to";
    let Some(site) = available(test, require("davix-cp").and_then(|_| site())) else {
        return;
    };
    let content = bytes(300_000, 51);
    std::fs::write(site.passive.data().join("f"), &content).expect("file");
    let from = site.passive.url("/data/f");
    let refused = site
        .lab
        .copy(&site.active.url("/data/no"), &format!("Source: {from}"), &[]);
    assert_ne!(refused.status, 202, "without any credential");

    let mut davix = site.lab.command("davix-cp").expect("as before");
    let trust = site.lab.authority().trust_directory();
    davix.arg("--capath").arg(trust).arg("-E").arg(&site.proxy);
    davix.args(["--copy-mode", "pull", &from, &site.active.url("/data/by-davix")]);
    run(&davix).succeeded();
    assert!(std::fs::read(site.active.data().join("by-davix")).expect("there") == content);
    assert_eq!(site.kept().len(), 1);
    let sealed = std::fs::read(&site.kept()[0]).expect("the file");
    assert!(!sealed.windows(5).any(|part| part == b"BEGIN"), "it is sealed");

    if available(test, require("gfal-copy")).is_some() {
        let davs = |url: String| url.replacen("https", "davs", 1);
        let mut gfal = site.lab.command("gfal-copy").expect("as before");
        gfal.env("X509_USER_PROXY", &site.proxy);
        gfal.args(["-D", "HTTP PLUGIN:RETRIEVE_BEARER_TOKEN=false", "--copy-mode", "pull"]);
        gfal.args(["-D", "HTTP PLUGIN:ENABLE_FALLBACK_TPC_COPY=false"]);
        gfal.args([davs(from), davs(site.active.url("/data/by-gfal"))]);
        run(&gfal).succeeded();
        assert!(std::fs::read(site.active.data().join("by-gfal")).expect("there") == content);
    }
    let log = site.active.log().stderr();
    assert!(!log.contains("BEGIN") && !log.contains("PRIVATE"), "no key is logged");
    conformance::requests_with(site.passive.log(), 1, "a request as Jane Doe", |line| {
        line["subject"] == DN && line["status"] == 200
    });
}

#[test]
fn our_client_delegates_when_it_is_asked_to() {
    let test = "our_client_delegates_when_it_is_asked_to";
    let Some(site) = available(test, site()) else { return };
    let Some(xrootd) = available(test, guarded_xrootd(&site.lab)) else {
        return;
    };
    let content = bytes(100_000, 52);
    std::fs::write(xrootd.data().join("f"), &content).expect("file");
    let proxy = site.proxy.to_str().expect("plain");
    let target = site.active.url("/data/by-us");
    let from = xrootd.url("/data/f");
    let copy = |more: &[&str], target: &str| {
        let usual = ["--proxy", proxy, "--mode", "pull", "-v", &from, target];
        site.lab.run_client("copy", &[more, &usual].concat())
    };
    for more in [&[][..], &["--delegate=never"]] {
        let refused = copy(more, &target);
        assert_ne!(refused.code, Some(0), "{}", refused.said());
        assert_eq!(site.kept().len(), 0);
    }
    for wish in ["--delegate", "--delegate=only"] {
        let done = copy(&["-f", wish], &target).succeeded();
        // Nothing else than the proxy is shown, so nothing else is asked for.
        let is_asked_for = done.said().contains("gave out no macaroon");
        assert_eq!(is_asked_for, wish == "--delegate", "{}", done.said());
        assert!(std::fs::read(site.active.data().join("by-us")).expect("there") == content);
        assert_eq!(site.kept().len(), 1);
    }
    conformance::until(
        "the log says what was shown",
        std::time::Duration::from_secs(30),
        || {
            let lines = conformance::transfers(site.active.log());
            lines.iter().any(|line| line["peer_credential"] == "delegated_proxy")
        },
    );
    // A server that takes no proxies.
    let plain = site.passive.url("/data/by-us");
    let refused = copy(&["--delegate=only"], &plain).failed_with(38);
    assert!(
        refused.said().contains("takes no delegated proxies"),
        "{}",
        refused.said()
    );
    let first = copy(&["--delegate"], &plain);
    assert!(first.said().contains("got no proxy"), "{}", first.said());
}

#[test]
fn the_service_of_fts_takes_what_belongs_to_its_client() {
    let test = "the_service_of_fts_takes_what_belongs_to_its_client";
    let Some(mut site) = available(test, require("openssl").and_then(|_| site())) else {
        return;
    };
    let url = |path: &str| site.active.url(path);
    let who = site.lab.curl(&site.with_proxy(&[&url("//whoami")])).expect(200).text();
    let who: serde_json::Value = serde_json::from_str(&who).expect("JSON");
    assert_eq!(who["user_dn"], DN);
    let id = who["delegation_id"].as_str().expect("a name").to_owned();
    assert_eq!(id.len(), 16);
    site.lab.curl(&[&url("/whoami")]).expect(401);
    let place = url(&format!("/delegation/{id}"));
    assert_eq!(site.lab.curl(&site.with_proxy(&[&place])).expect(200).text(), "null");
    site.lab
        .curl(&site.with_proxy(&[&url("/delegation/0123456789abcdef/request")]))
        .expect(403);

    let request = site
        .lab
        .curl(&site.with_proxy(&[&format!("{place}/request")]))
        .expect(200)
        .body;
    let signed = sign(&site, &request);
    let put = |text: &str| {
        let file = site.lab.file(text.as_bytes());
        let name = file.to_str().expect("plain").to_owned();
        let target = format!("{place}/credential");
        site.lab.curl(&site.with_proxy(&["-T", &name, &target]))
    };
    let alone = put(&signed[..signed.find("-----END").expect("PEM") + 26]).expect(403);
    assert!(alone.text().contains("comes with the certificate"), "{}", alone.text());
    put("garbage").expect(403);
    let own = std::fs::read_to_string(&site.proxy).expect("the proxy");
    assert!(put(&own).expect(403).text().contains("another key"));
    put(&signed).expect(403);

    let request = site
        .lab
        .curl(&site.with_proxy(&[&format!("{place}/request")]))
        .expect(200)
        .body;
    put(&sign(&site, &request)).expect(201);
    let told = site.lab.curl(&site.with_proxy(&[&place])).expect(200).text();
    assert!(told.contains("termination_time"), "{told}");
    std::fs::write(site.passive.data().join("f"), b"content").expect("file");
    let source = format!("Source: {}", site.passive.url("/data/f"));
    let copy = |site: &Site, credential: &str| {
        let target = site.active.url("/data/by-fts");
        let all = site.with_proxy(&["-X", "COPY", "-H", &source, "-H", credential, &target]);
        site.lab.curl(&all)
    };
    assert!(last_line(&copy(&site, "Credential: gridsite").expect(202)).starts_with("success"));
    copy(&site, "Credential: none").expect(502);
    copy(&site, "Credential: oidc").expect(400);
    // It is still there after a restart.
    site.active.start_again().expect("comes up again");
    assert!(last_line(&copy(&site, "Credential: gridsite").expect(202)).starts_with("success"));
    let place = site.active.url(&format!("/delegation/{id}"));
    site.lab.curl(&site.with_proxy(&["-X", "DELETE", &place])).expect(204);
    assert!(site.kept().is_empty());
    let asked = copy(&site, "Credential: gridsite").expect(302);
    assert!(
        asked
            .header("X-Delegate-To")
            .is_some_and(|url| url.ends_with("/delegation"))
    );
    let again = asked.header("Location").expect("a Location").to_owned();
    let all = site.with_proxy(&["-X", "COPY", "-H", &source, "-H", "Credential: gridsite", &again]);
    site.lab.curl(&all).expect(401);
}

/// Signs a proxy for a request with openssl, as FTS' client does, and appends the chain.
fn sign(site: &Site, request: &[u8]) -> String {
    let lab = &site.lab;
    let (certificate, key) = site.user.write_pair(lab.scratch().path(), "signer").expect("files");
    let (request, extensions) = (lab.file(request), lab.file(EXTENSIONS.as_bytes()));
    let mut openssl = lab.command("openssl").expect("openssl");
    openssl.args([
        "x509",
        "-req",
        "-days",
        "1",
        "-subj",
        &format!("{DN}/CN=4711"),
        "-set_serial",
        "4711",
        "-in",
    ]);
    openssl
        .arg(&request)
        .arg("-CA")
        .arg(&certificate)
        .arg("-CAkey")
        .arg(&key);
    openssl.arg("-extfile").arg(&extensions);
    let mut text = run(&openssl).succeeded().text();
    text.push_str(&site.user.chain_pem());
    text
}

const EXTENSIONS: &str = "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature,keyEncipherment\n\
    proxyCertInfo=critical,language:id-ppl-inheritAll\n";

/// Debian's XRootD that maps Jane Doe to a user and lets only her in.
fn guarded_xrootd(lab: &Lab) -> Result<Xrootd> {
    let (gridmap, authdb) = (
        lab.file(format!("\"{DN}\" jdoe\n").as_bytes()),
        lab.file(b"u jdoe /data a\n"),
    );
    let more = format!(
        "ofs.authorize 1\nacc.authdb {}\nhttp.gridmap {}\nhttp.trace all\n",
        authdb.display(),
        gridmap.display()
    );
    lab.xrootd_with("xrootd", XrootdAccess::Open, &more)
}

#[test]
fn xrootd_is_shown_what_was_delegated() {
    let test = "xrootd_is_shown_what_was_delegated";
    let Some(site) = available(test, require("davix-cp").and_then(|_| site())) else {
        return;
    };
    let Some(xrootd) = available(test, guarded_xrootd(&site.lab)) else {
        return;
    };
    let content = bytes(200_000, 53);
    std::fs::write(xrootd.data().join("f"), &content).expect("file");
    let proxy = site.proxy.to_str().expect("plain");
    // Our client shows it as well.
    let local = site.lab.fresh("down");
    let local_name = local.to_str().expect("plain").to_owned();
    site.lab
        .run_client("copy", &[&xrootd.url("/data/f"), &local_name])
        .failed_with(13);
    let arguments = ["--proxy", proxy, &xrootd.url("/data/f"), &local_name];
    site.lab.run_client("copy", &arguments).succeeded();
    assert!(std::fs::read(&local).expect("there") == content);

    let mut davix = site.lab.command("davix-cp").expect("as before");
    let trust = site.lab.authority().trust_directory();
    davix.arg("--capath").arg(trust).arg("-E").arg(&site.proxy);
    davix.args([
        "--copy-mode",
        "pull",
        &xrootd.url("/data/f"),
        &site.active.url("/data/from-xrootd"),
    ]);
    run(&davix).succeeded();
    assert!(std::fs::read(site.active.data().join("from-xrootd")).expect("there") == content);
}

#[test]
fn whoever_has_attributes_is_told_their_organisations_and_the_log_why_some_do_not_count() {
    let test = "whoever_has_attributes_is_told_their_organisations_and_the_log_why_some_do_not_count";
    let Some(site) = available(test, require("curl").and_then(|_| site())) else {
        return;
    };
    let ask = |vo: &str| {
        let server = site.lab.authority().issue_voms_server(vo).expect("a VOMS server");
        if vo == "atlas" {
            server.write_lsc(&site.vomsdir).expect("written");
        }
        let fqans = [format!("/{vo}/Role=production"), format!("/{vo}")];
        let attributes = server
            .attributes(&site.user, &[&fqans[0], &fqans[1]])
            .expect("attributes");
        let proxy = site.user.voms_proxy(vec![attributes]).expect("a proxy");
        let proxy = proxy.write_proxy(&site.lab.fresh("proxy")).expect("a file");
        let answer = site
            .lab
            .curl(&["-E", proxy.to_str().expect("plain"), &site.active.url("/whoami")]);
        let who: serde_json::Value = serde_json::from_str(&answer.expect(200).text()).expect("JSON");
        who
    };
    let strange = ask("strangers");
    assert_eq!((&strange["vos"], &strange["voms_cred"]), (&json!([]), &json!([])));
    // The line comes behind the answer.
    conformance::until("the fault is in the log", std::time::Duration::from_secs(30), || {
        let log = conformance::requests(site.active.log());
        let mut faults = log.iter().filter_map(|line| line["attribute_faults"].as_str());
        faults.any(|fault| fault.contains("strangers"))
    });
    // The directory is looked at every two seconds.
    conformance::until("the VOMS server is known", std::time::Duration::from_secs(30), || {
        let who = ask("atlas");
        // The identifier that FTS gives to this name.
        let expected = (json!(["atlas"]), json!(["a884b056-0359-5c31-af8e-e25b2d364632"]));
        (who["vos"].clone(), who["vos_id"].clone()) == expected
    });
}
