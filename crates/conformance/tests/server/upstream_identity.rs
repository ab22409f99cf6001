//! Who clients of a data transfer node are at the server behind it: by the proxy that they have
//! delegated, and by macaroons that the node mints.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use conformance::{Lab, Slot, bytes, requests, shared, until};
use serde_json::Value;
use testkit::{Access, Crossload, Result, User, XrootdAccess, available};

/// How soon something must have happened.
const SOON: Duration = Duration::from_secs(30);
/// A file with the secret that the node shares with the server behind it.
const SECRET: &str = "c2hhcmVkIGJ5IHRoZSBub2RlIGFuZCB0aGUgc2VydmVyIGJlaGluZCBpdA==";

const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];

struct Person {
    proxy: PathBuf,
    user: User,
}

struct Site {
    lab: Lab,
    behind: Crossload,
    node: Crossload,
    alice: Person,
    bob: Person,
    carol: Person,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn dn(name: &str) -> String {
    format!("/O=Crossload test/CN={name}")
}

fn person(lab: &Lab, name: &str) -> Result<Person> {
    let user = lab.authority().issue_user(&dn(name))?.proxy()?;
    let proxy = user.write_proxy(&lab.fresh("proxy"))?;
    Ok(Person { proxy, user })
}

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        let lab = Lab::new("upstream-identity")?;
        let trust = format!("[x509]\ntrust_directory = {:?}\n", lab.authority().trust_directory());
        let rule = |name: &str, path: &str| {
            let who = dn(name);
            format!("[[rule]]\nwho = \"dn:{who}\"\npath = \"{path}/{name}\"\nmay = [\"all\"]\n")
        };
        let mut options = lab.options("behind");
        options.exports[0].anonymous = Access::None;
        options.default_sessions = true;
        options.more = format!("{trust}{}", PEOPLE.map(|name| rule(name, "/data")).concat());
        std::fs::create_dir_all(&options.directory)?;
        let secret = options.directory.join("macaroon.secret");
        std::fs::write(&secret, SECRET)?;
        std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        let behind = lab.crossload(options)?;
        for name in PEOPLE {
            std::fs::create_dir_all(behind.data().join(name))?;
        }
        let mut options = lab.options("node");
        options.default_sessions = true;
        options.exports.clear();
        let delegated = options.directory.join("delegated");
        options.more = format!(
            "{trust}[delegation]\ndirectory = {delegated:?}\nkey_file = \"delegation.key\"\n\
             [[rule]]\nwho = \"authenticated\"\npath = \"/delegated\"\nmay = [\"all\"]\n"
        );
        let roots = behind.root_url("/data").replace("root:", "roots:");
        for (door, url) in [("web", behind.url("/data")), ("root", roots)] {
            for (kind, more) in [
                ("delegated", String::new()),
                ("minted", format!("remote_macaroon_secret_file = {secret:?}\n")),
            ] {
                let path = format!("/{kind}/{door}");
                options.more.push_str(&format!(
                    "[[export]]\npath = \"{path}\"\nremote = \"{url}\"\nremote_identity = \"{kind}\"\n{more}"
                ));
                options.more.push_str(&PEOPLE.map(|name| rule(name, &path)).concat());
            }
        }
        let [alice, bob, carol] = PEOPLE.map(|name| person(&lab, name));
        let node = lab.crossload(options)?;
        Ok(Site {
            lab,
            behind,
            node,
            alice: alice?,
            bob: bob?,
            carol: carol?,
        })
    })
}

impl Site {
    fn curl(&self, who: &Person, arguments: &[&str]) -> conformance::Answer {
        let proxy = who.proxy.to_str().expect("plain");
        self.lab.curl(&[&["-E", proxy][..], arguments].concat())
    }

    fn put(&self, who: &Person, url: &str, content: &[u8]) -> conformance::Answer {
        let file = self.lab.file(content);
        self.curl(who, &["-T", file.to_str().expect("plain"), url])
    }

    /// Delegates a proxy to the node, as FTS' clients do.
    fn delegate(&self, who: &Person) -> String {
        let told = self.curl(who, &[&self.node.url("/whoami")]).expect(200).text();
        let told: Value = serde_json::from_str(&told).expect("JSON");
        let place = self.node.url(&format!(
            "/delegation/{}",
            told["delegation_id"].as_str().expect("a name")
        ));
        let request = self.curl(who, &[&format!("{place}/request")]).expect(200).text();
        let signed = who.user.sign_request(&request, 60).expect("signed");
        self.put(who, &format!("{place}/credential"), signed.as_bytes())
            .expect(201);
        place
    }

    /// What the server behind has logged about a name.
    fn behind_saw(&self, path: &str) -> Vec<Value> {
        let lines = requests(self.behind.log());
        lines.into_iter().filter(|line| line["path"] == path).collect()
    }
}

#[test]
fn a_delegated_proxy_serves_the_client_that_delegated_it_alone() {
    let test = "a_delegated_proxy_serves_the_client_that_delegated_it_alone";
    let Some(site) = available(test, site()) else { return };
    let content = bytes(300_000, 1);
    let url = |door: &str, name: &str| site.node.url(&format!("/delegated/{door}/{name}"));
    for door in ["web", "root"] {
        let refused = site
            .put(&site.alice, &url(door, "alice/early"), &content)
            .expect(401)
            .text();
        assert!(
            refused.contains("delegate") && refused.contains("/delegation"),
            "{refused}"
        );
        // Neither do the client's other credentials, nor no credential.
        site.lab.curl(&[&url(door, "alice/early")]).expect(401);
    }
    let place = site.delegate(&site.alice);
    for door in ["web", "root"] {
        let file = url(door, &format!("alice/{door}"));
        site.put(&site.alice, &file, &content).expect(201);
        let refused = site.curl(&site.bob, &[&file]).expect(401).text();
        assert!(refused.contains("delegate"), "{refused}");
        until("the server behind knows the client", SOON, || {
            let seen = site.behind_saw(&format!("/data/alice/{door}"));
            seen.iter().any(|line| line["subject"] == dn("alice").as_str())
        });
    }
    site.delegate(&site.bob);
    for door in ["web", "root"] {
        let file = url(door, &format!("alice/{door}"));
        // One after the other, so that each finds what the other has left: connections, sums.
        for _ in 0..3 {
            assert!(site.curl(&site.alice, &[&file]).expect(200).body == content, "{door}");
            site.curl(&site.bob, &[&file]).expect(403);
            let wish = "Want-Digest: md5";
            let told = site.curl(&site.alice, &["-I", "-H", wish, &file]).expect(200);
            assert!(told.header("digest").is_some(), "{door}");
            site.curl(&site.bob, &["-I", "-H", wish, &file]).expect(403);
            site.curl(&site.bob, &["-X", "DELETE", &file]).expect(403);
        }
        let target = site.node.root_url(&format!("/delegated/{door}/alice/{door}"));
        let (target, down) = (target.replace("root:", "roots:"), site.lab.fresh("down"));
        let read = |who: &Person| {
            let shown = [("X509_USER_PROXY", who.proxy.to_str().expect("plain"))];
            let trust = site.lab.authority().trust_directory();
            let shown = [shown[0], ("X509_CERT_DIR", trust.to_str().expect("plain"))];
            site.lab
                .xrdcp_with(&shown, &["-f", &target, down.to_str().expect("plain")])
        };
        read(&site.alice).succeeded();
        assert!(std::fs::read(&down).expect("it came") == content, "{door}");
        assert_ne!(read(&site.bob).code, Some(0), "{door}");
    }
    // What is withdrawn is not used any more.
    site.curl(&site.alice, &["-X", "DELETE", &place]).expect(204);
    site.curl(&site.alice, &[&url("web", "alice/web")]).expect(401);
}

#[test]
fn our_client_delegates_to_a_node_that_needs_it() {
    let test = "our_client_delegates_to_a_node_that_needs_it";
    let Some(site) = available(test, site()) else { return };
    let (content, proxy) = (bytes(300_000, 4), site.carol.proxy.to_str().expect("plain"));
    std::fs::write(site.behind.data().join("carol/from"), &content).expect("written");
    let url = |name: &str| site.node.url(&format!("/delegated/web/carol/{name}"));
    let run =
        |command: &str, arguments: &[&str]| site.lab.run_client(command, &[&["--proxy", proxy], arguments].concat());
    // What is refused says what to type.
    let refused = run("ls", &[&url("")]).failed_with(13).said();
    let typed = format!("crossload queue delegate -s https://localhost:{}", site.node.port());
    assert!(refused.contains(&typed) && refused.contains("--delegate"), "{refused}");
    // The first copy brings the proxy.
    let from = site.behind.url("/data/carol/from");
    run("copy", &["--delegate", &from, &url("by-copy")]).succeeded();
    assert!(std::fs::read(site.behind.data().join("carol/by-copy")).expect("stored") == content);
    // A macaroon goes before the certificate.
    let body = r#"{"caveats": ["activity:DOWNLOAD"], "validity": "PT60M"}"#;
    let wish = [
        "-X",
        "POST",
        "-H",
        "Content-Type: application/macaroon-request",
        "-d",
        body,
    ];
    let told = site.curl(&site.carol, &[&wish[..], &[&url("by-copy")]].concat());
    if told.status == 200 {
        let told: Value = serde_json::from_str(&told.text()).expect("JSON");
        let shown = format!(
            "Authorization: Bearer {}",
            told["macaroon"].as_str().expect("a macaroon")
        );
        let refused = site
            .curl(&site.carol, &["-H", &shown, &url("by-copy")])
            .expect(401)
            .text();
        assert!(refused.contains("shows a macaroon"), "{refused}");
    }
    let (server, ca) = (site.node.url(""), site.lab.authority().ca_file());
    let (server, ca) = (server.trim_end_matches('/'), ca.to_str().expect("plain"));
    let delegate = |more: &[&str]| {
        let usual = ["queue", "delegate", "--cacert", ca, "--proxy", proxy, "-s", server];
        conformance::run(&site.lab.client([&usual[..], more].concat()).expect("the client"))
    };
    delegate(&["--withdraw"]).succeeded();
    run("ls", &[&url("")]).failed_with(13);
    // The XRootD protocol delegates in the login.
    let roots = |server: &Crossload, path: &str| server.root_url(path).replace("root:", "roots:");
    let (from, to) = (
        roots(&site.behind, "/data/carol/from"),
        roots(&site.node, "/delegated/root/carol/by-root"),
    );
    run("copy", &["--delegate", &from, &to]).succeeded();
    assert!(std::fs::read(site.behind.data().join("carol/by-root")).expect("stored") == content);
    delegate(&["--withdraw"]).succeeded();
    // What was said to be typed.
    delegate(&[]).succeeded();
    run("ls", &[&url("")]).succeeded();
}

#[test]
fn a_minted_token_gives_what_the_request_needs_and_nothing_else() {
    let test = "a_minted_token_gives_what_the_request_needs_and_nothing_else";
    let Some(site) = available(test, site()) else { return };
    let content = bytes(5_000_000, 2);
    for door in ["web", "root"] {
        let url = |name: &str| site.node.url(&format!("/minted/{door}/alice/{door}-{name}"));
        let alice = |arguments: &[&str]| site.curl(&site.alice, arguments);
        site.put(&site.alice, &url("f"), &content).expect(201);
        site.put(&site.alice, &url("f"), &content).expect(204);
        assert!(alice(&[&url("f")]).expect(200).body == content, "{door}");
        assert!(alice(&["-r", "4000000-4000099", &url("f")]).expect(206).body == content[4_000_000..4_000_100]);
        assert!(
            alice(&["-I", "-H", "Want-Digest: md5", &url("f")])
                .expect(200)
                .header("digest")
                .is_some()
        );
        site.put(&site.alice, &url("new/deep/f"), b"deep").expect(201);
        alice(&["-X", "MKCOL", &url("dir")]).expect(201);
        let to = format!("Destination: {}", url("dir/moved"));
        alice(&["-X", "MOVE", "-H", &to, &url("f")]).expect(201);
        let listed = alice(&["-X", "PROPFIND", "-H", "Depth: 1", &url("dir")])
            .expect(207)
            .text();
        assert!(listed.contains("moved"), "{listed}");
        assert!(alice(&[&url("dir/moved")]).expect(200).body == content, "{door}");
        // Refused here: what is minted is for this server's decision.
        for arguments in [&["-X", "GET"][..], &["-X", "DELETE"], &["-I"]] {
            site.curl(&site.bob, &[arguments, &[&url("dir/moved")]].concat())
                .expect(403);
            site.lab.curl(&[arguments, &[&url("dir/moved")]].concat()).expect(401);
        }
        alice(&["-X", "DELETE", &url("dir/moved")]).expect(204);
        assert!(!site.behind.data().join(format!("alice/{door}-dir/moved")).exists());
    }
    // The log says who the client is there.
    let (path, host) = ("/minted/web/alice/web-f", format!("localhost:{}", site.behind.port()));
    until("the log says who the client is there", SOON, || {
        let is_it = |line: &Value| line["path"] == path && line["upstream"] == host.as_str();
        let lines = requests(site.node.log());
        let mut about = lines.iter().filter(|line| is_it(line));
        about.any(|line| line["upstream_identity"] == "minted")
    });
    let seen = site.behind_saw("/data/alice/web-f");
    assert!(
        !seen.is_empty() && seen.iter().all(|line| line["credential"] == "macaroon"),
        "{seen:?}"
    );
}

/// What `check` says about an export with these lines.
fn check(lab: &Lab, sections: &str, lines: &str) -> String {
    let file = lab.fresh("check.toml");
    let text = format!(
        "{sections}[trust]\nca_files = [{:?}]\nca_directories = []\nsystem = false\n[[export]]\npath = \"/x\"\n{lines}",
        lab.authority().ca_file()
    );
    std::fs::write(&file, text).expect("written");
    lab.run_client("check", &["--config", file.to_str().expect("plain")])
        .text()
}

fn secret_file(lab: &Lab, secret: &str) -> PathBuf {
    let file = lab.fresh("secret");
    std::fs::write(&file, secret).expect("written");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its mode");
    file
}

#[test]
fn check_tries_a_macaroon_at_the_server_behind() {
    let test = "check_tries_a_macaroon_at_the_server_behind";
    let Some(site) = available(test, site()) else { return };
    let (right, wrong) = (
        secret_file(&site.lab, SECRET),
        secret_file(&site.lab, &SECRET.replace('c', "d")),
    );
    let roots = site.behind.root_url("/data").replace("root:", "roots:");
    for url in [site.behind.url("/data"), roots] {
        let told = |secret: &PathBuf| {
            let lines = format!("remote = \"{url}\"\nremote_identity = \"minted\"\n");
            check(
                &site.lab,
                "",
                &format!("{lines}remote_macaroon_secret_file = {secret:?}\n"),
            )
        };
        let good = told(&right);
        assert!(
            !good.contains("upstream_denied") && good.contains("accepts the macaroons"),
            "{url}: {good}"
        );
        let bad = told(&wrong);
        assert!(
            bad.contains("upstream_denied") && bad.contains("export.remote_macaroon_secret_file"),
            "{url}: {bad}"
        );
    }
}

/// The lines with which XRootD asks for a certificate in the login.
fn gsi(lab: &Lab, own: &Path) -> String {
    let (trust, own) = (lab.authority().trust_directory(), own.display());
    format!(
        "xrootd.seclib libXrdSec.so\nsec.protocol gsi -certdir:{} -cert:{own}/host.pem -key:{own}/host.key -gmapopt:10 \
         -crl:1\n",
        trust.display()
    )
}

/// XRootD lets this server in, and keeps one directory from it.
#[test]
fn a_file_that_is_kept_from_this_server_is_forbidden() {
    let test = "a_file_that_is_kept_from_this_server_is_forbidden";
    let Some(lab) = available(test, Lab::new("upstream-kept")) else {
        return;
    };
    let mut options = lab.xrootd_options("behind", testkit::XrootdAccess::Open);
    let rules = lab.file(b"u * /data/ours a /data l\n");
    options.more = gsi(&lab, &options.directory) + &format!("ofs.authorize 1\nacc.authdb {}\n", rules.display());
    let Some(behind) = available(test, testkit::Xrootd::start(&options)) else {
        return;
    };
    for name in ["ours", "kept"] {
        std::fs::create_dir(behind.data().join(name)).expect("made");
        std::fs::write(behind.data().join(name).join("f"), b"content").expect("written");
    }
    let robot = lab.authority().issue_user(&dn("robot")).expect("a certificate");
    let robot = robot.write_proxy(&lab.fresh("robot")).expect("a proxy");
    let mut options = lab.options("node");
    options.exports.clear();
    let places = [("root", behind.root_url("/data")), ("web", behind.url("/data"))];
    for (path, url) in &places {
        options.more.push_str(&format!(
            "[[export]]\npath = \"/{path}\"\nremote = \"{url}\"\nremote_certificate = {robot:?}\nanonymous = \"read\"\n"
        ));
    }
    let node = lab.crossload(options).expect("a node");
    for (path, url) in &places {
        let host = url.split('/').nth(2).expect("a host");
        let refused = format!("({host}: it gives the credential of this server no right to this)");
        let kept = format!("/{path}/kept/f");
        assert_eq!(
            lab.curl(&[&node.url(&format!("/{path}/ours/f"))]).expect(200).text(),
            "content"
        );
        let told = lab.curl(&[&node.url(&kept)]).expect(403).text();
        assert!(told.starts_with("upstream ") && told.contains(&refused), "{told}");
        assert!(!told.contains("robot"), "{told}");
        let told = lab.xrdcp(&[&node.root_url(&kept), "-"]).said();
        assert!(told.contains("[3010]") && told.contains(&refused), "{told}");
        until("the log says what to do", SOON, || {
            let lines = requests(node.log());
            let error = |line: &Value, key: &str| line["error"][key].as_str().unwrap_or_default().to_owned();
            let about = lines.iter().filter(|line| error(line, "message").contains(&kept));
            let is_right = |line: &&Value| {
                error(line, "side") == "upstream" && error(line, "next").contains("rights at the upstream server")
            };
            about.filter(is_right).count() >= 2
        });
    }
}

/// XRootD as server behind: open to everyone, and with logins by gsi and macaroons.
struct Theirs {
    lab: Lab,
    open: testkit::Xrootd,
    guarded: testkit::Xrootd,
    /// The macaroon secret of the guarded one.
    secret: String,
}

static THEIRS: Slot<Theirs> = Slot::new(Weak::new());

fn theirs() -> Result<Arc<Theirs>> {
    shared(&THEIRS, || {
        let lab = Lab::new("upstream-logins")?;
        let open = testkit::Xrootd::start(&lab.xrootd_options("open", XrootdAccess::Open))?;
        let mut options = lab.xrootd_options("guarded", XrootdAccess::ReadOnlyWithMacaroons);
        let own = options.directory.clone();
        // XRootD refuses macaroons for another site than its own.
        options.more = format!("all.sitename localhost:HTTP_PORT\n{}", gsi(&lab, &own));
        let guarded = testkit::Xrootd::start(&options)?;
        let secret = std::fs::read_to_string(own.join("macaroon-secret"))?;
        Ok(Theirs {
            lab,
            open,
            guarded,
            secret,
        })
    })
}

#[test]
fn check_says_whether_a_server_takes_delegated_proxies() {
    let test = "check_says_whether_a_server_takes_delegated_proxies";
    let Some(theirs) = available(test, theirs()) else {
        return;
    };
    let lab = &theirs.lab;
    let trust = lab.authority().trust_directory();
    let sections = format!(
        "[x509]\ntrust_directory = {trust:?}\n[delegation]\ndirectory = {:?}\nkey_file = {:?}\n",
        lab.fresh("delegated"),
        lab.fresh("key")
    );
    let no_login = Some("asks for no credential in the login");
    for (server, words) in [(&theirs.open, no_login), (&theirs.guarded, None)] {
        let url = server.root_url("/data").replace("root:", "roots:");
        let told = check(
            lab,
            &sections,
            &format!("remote = \"{url}\"\nremote_identity = \"delegated\"\n"),
        );
        assert_eq!(told.contains("upstream_login_unfit"), words.is_some(), "{told}");
        match words {
            Some(words) => assert!(told.contains(words), "{told}"),
            None => assert!(told.contains("of each client it sees the proxy"), "{told}"),
        }
        assert!(!told.contains("upstream_denied"), "{told}");
    }
}

#[test]
fn xrootd_takes_minted_macaroons() {
    let test = "xrootd_takes_minted_macaroons";
    let Some(theirs) = available(test, theirs()) else {
        return;
    };
    let (lab, url) = (&theirs.lab, theirs.guarded.url("/data"));
    let minted = |url: &str, secret: &PathBuf| {
        format!(
            "remote = \"{url}\"\nremote_identity = \"minted\"\nremote_macaroon_secret_file = {secret:?}\n\
             anonymous = \"write\"\n"
        )
    };
    let (right, wrong) = (secret_file(lab, &theirs.secret), secret_file(lab, SECRET));
    let mut options = lab.options("minting");
    options.exports.clear();
    options.more = format!(
        "[[export]]\npath = \"/right\"\n{}[[export]]\npath = \"/wrong\"\n{}",
        minted(&url, &right),
        minted(&url, &wrong)
    );
    let node = lab.crossload(options).expect("a node");
    // Clients without a macaroon may only read there.
    let content = bytes(100_000, 7);
    lab.upload(&node.url("/right/dir/f"), &content, &[]).expect(201);
    let stored = std::fs::read(theirs.guarded.data().join("dir/f")).expect("it is stored");
    assert!(stored == content, "{} bytes", stored.len());
    assert!(lab.curl(&[&node.url("/right/dir/f")]).expect(200).body == content);
    let to = format!("Destination: {}", node.url("/right/dir/g"));
    lab.request("MOVE", &node.url("/right/dir/f"), &[&to]).expect(201);
    lab.request("DELETE", &node.url("/right/dir/g"), &[]).expect(204);
    let refused = lab.upload(&node.url("/wrong/h"), &content, &[]);
    assert!(refused.status >= 400, "{}", refused.text());
    assert!(!theirs.guarded.data().join("h").exists());
    // A server that ignores macaroons takes those of every secret.
    let told = check(lab, "", &minted(&theirs.open.url("/data"), &wrong));
    assert!(told.contains("upstream_open: "), "{told}");
}
