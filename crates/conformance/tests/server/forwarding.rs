//! A forwarding proxy: clients name the host in the path, and only listed ones are asked.

use std::path::Path;
use std::sync::{Arc, Weak};

use conformance::{Lab, Reply, Scripted, Slot, bytes, requests, run, shared, until};
use serde_json::Value;
use testkit::{
    Access, Crossload, CrossloadOptions, Export, Result, TokenIssuer, Xrootd, XrootdAccess, XrootdVersion, available,
    require_python,
};

/// How soon something must have happened.
const SOON: std::time::Duration = std::time::Duration::from_secs(30);
/// The audience of tokens for every server.
const ANY: &str = "https://wlcg.cern.ch/jwt/v1/any";
const SECRET: &[u8] = b"not for clients";
/// The proxy's own name.
const ROBOT: &str = "/O=Crossload test/CN=robot";

struct Site {
    lab: Lab,
    issuer: TokenIssuer,
    xrootd: Xrootd,
    ours: Crossload,
    /// Redirects to `hidden`, to `robots`, and to `ours`.
    astray: Scripted,
    /// Listed: `/data/kept` is for the proxy alone, `/data/led` is for others to read only.
    robots: Crossload,
    /// On no list.
    hidden: Crossload,
    proxy: Crossload,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn host(url: &str) -> String {
    url.split('/').nth(2).expect("a host").to_owned()
}

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        let lab = Lab::new("forwarding")?;
        let issuer = TokenIssuer::start(lab.authority())?;
        let hidden = lab.crossload(lab.options("hidden"))?;
        std::fs::write(hidden.data().join("away"), SECRET)?;
        let robots = lab.crossload(robots_options(&lab))?;
        for name in ["led/f", "led/ruled", "kept/f"] {
            std::fs::write(robots.data().with_file_name(name), SECRET)?;
        }
        // Opens, and what is not found.
        let to_robots = ["kept", "led"].map(|name| {
            let server = host(&robots.root_url(""));
            format!("xrootd.redirect {server} /data/{name}\nxrootd.redirect {server} ? /data/{name}\n")
        });
        let redirect = format!(
            "xrootd.redirect {} ? /data/away\n{}",
            host(&hidden.root_url("")),
            to_robots.concat()
        );
        let xrootd = lab.xrootd_with("behind", XrootdAccess::Open, &redirect)?;
        std::fs::write(xrootd.data().join("secret"), SECRET)?;
        let believes = format!(
            "[[issuer]]\nurl = \"{}\"\nvo = \"wlcg\"\nbase_paths = [\"/\"]\n",
            issuer.url()
        );
        let mut options = lab.options("ours");
        options.more.clone_from(&believes);
        let ours = lab.crossload(options)?;
        let (away, near) = (hidden.clear_url("/data/away"), ours.clear_url("/data/near"));
        let led = robots.url("");
        std::fs::write(ours.data().join("near"), b"listed")?;
        let astray = Scripted::start(move |seen| {
            let place = match seen.path.as_str() {
                path if path.contains("away") => away.clone(),
                path if path.starts_with("/data/") => format!("{}{path}", led.trim_end_matches('/')),
                _ => near.clone(),
            };
            Reply::whole(seen, "307 Temporary Redirect", &[&format!("Location: {place}")], b"")
        });
        let mut options = lab.options("proxy");
        options.exports.clear();
        options.default_sessions = true;
        let servers = [xrootd.root_url(""), ours.url(""), astray.url(""), robots.url("")].map(|url| host(&url));
        let robot = lab.authority().issue_user(ROBOT)?.write_proxy(&lab.fresh("robot"))?;
        let export =
            |path: &str, more: &str| format!("[[export]]\npath = \"{path}\"\nremote_hosts = {servers:?}\n{more}");
        options.more = [
            export(
                "/",
                "anonymous = \"write\"\nread_only = false\nrecursive_delete = true\n",
            ),
            export("/read", "anonymous = \"write\"\n"),
            export("/clients", "remote_identity = \"client\"\n"),
            export(
                "/robot",
                &format!("anonymous = \"write\"\nread_only = false\nremote_certificate = {robot:?}\n"),
            ),
            closed(&format!("/root:/{}/data/secret", servers[0])),
            closed(&format!("/https:/{}/data/led/ruled", servers[3])),
            closed(&format!("/root:/{}/data/led/ruled", servers[3])),
            believes,
        ]
        .concat();
        Ok(Site {
            proxy: lab.crossload(options)?,
            lab,
            issuer,
            xrootd,
            ours,
            astray,
            robots,
            hidden,
        })
    })
}

/// A rule that takes a path away from everybody.
fn closed(path: &str) -> String {
    format!("[[rule]]\nwho = \"anyone\"\npath = \"{path}\"\nmay_not = [\"all\"]\n")
}

fn robots_options(lab: &Lab) -> CrossloadOptions {
    let mut options = lab.options("robots");
    let data = options.exports[0].directory.clone();
    options.exports = [("led", Access::Read), ("kept", Access::None)]
        .map(|(name, anonymous)| Export {
            path: format!("/data/{name}"),
            anonymous,
            ..Export::open(&data.join(name))
        })
        .into();
    options.more = format!(
        "[x509]\ntrust_directory = {:?}\n[[rule]]\nwho = \"dn:{ROBOT}\"\npath = \"/data\"\nmay = [\"all\"]\n",
        lab.authority().trust_directory()
    );
    options
}

impl Site {
    /// The forwarded form of a URL, for clients of the XRootD protocol.
    fn root(&self, url: &str) -> String {
        format!("{}//{url}", self.proxy.root_url("").trim_end_matches('/'))
    }

    fn get(&self, path: &str) -> conformance::Answer {
        self.lab.curl(&["--path-as-is", &self.proxy.url(path)])
    }
}

#[test]
fn clients_reach_listed_hosts_through_a_forwarding_proxy() {
    let test = "clients_reach_listed_hosts_through_a_forwarding_proxy";
    let Some(site) = available(test, site()) else { return };
    let newest = available(test, XrootdVersion::V6.require("xrdcp"));
    let python = available(test, require_python("XRootD"));
    let (lab, content) = (&site.lab, bytes(3_000_000, 1));
    let (source, down) = (lab.file(&content), lab.fresh("down"));
    let [source, down] = [&source, &down].map(|path| path.to_str().expect("plain"));
    for (server, stored) in [
        (site.xrootd.root_url("/data"), site.xrootd.data()),
        (site.ours.root_url("/data"), site.ours.data()),
    ] {
        let place = site.root(&format!("{server}/f"));
        lab.xrdcp(&["-f", "-C", "adler32:source", source, &place]).succeeded();
        assert!(std::fs::read(stored.join("f")).expect("stored") == content, "{place}");
        lab.xrdcp(&["-f", "-C", "adler32:source", &place, down]).succeeded();
        assert!(std::fs::read(down).expect("it came") == content, "{place}");
        if newest.is_some() {
            lab.xrdcp_of(XrootdVersion::V6, &["-f", &place, down]).succeeded();
            assert!(std::fs::read(down).expect("it came") == content, "{place}");
        }
        if let Some(python) = &python {
            std::fs::create_dir_all(stored.join("vectors")).expect("made");
            std::fs::copy(source, stored.join("vectors/source")).expect("copied");
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/xroot.py");
            let mut command = lab.prepared(python);
            let there = site.root(&format!("{server}/vectors"));
            command.arg(script).args(["vectors", &there, source]);
            run(&command).succeeded();
        }
        // The same over HTTP; the server behind is asked by its own protocol.
        let web = site.proxy.url(&format!("/{server}/f"));
        assert!(lab.curl(&["--path-as-is", &web]).expect(200).body == content, "{web}");
        lab.upload(&web, b"other", &[]).expect(204);
        assert_eq!(std::fs::read(stored.join("f")).expect("stored"), b"other");
        let directory = web.replace("/data/f", "/data");
        let listed = lab.request("PROPFIND", &directory, &["Depth: 1"]).expect(207).text();
        let named = format!("/root:/{}/data/f<", host(&server));
        assert!(listed.contains(&named), "{named}: {listed}");
        lab.request("DELETE", &web, &[]).expect(204);
        let gone = lab.curl(&[&web]).expect(404).text();
        assert!(gone.starts_with("upstream ") && gone.contains(&host(&server)), "{gone}");
    }
    // From one to the other, with the space that there is asked before.
    let [from, to] = [site.xrootd.root_url("/data/from"), site.ours.root_url("/data/to")].map(|url| site.root(&url));
    std::fs::write(site.xrootd.data().join("from"), &content).expect("written");
    lab.xrdcp(&["--tpc", "only", "-f", &from, &to]).succeeded();
    assert!(std::fs::read(site.ours.data().join("to")).expect("stored") == content);
    // Clients write a host as they like.
    let capitals = site
        .ours
        .root_url("/data/near")
        .replace("root://localhost", "xroot://LocalHost");
    lab.xrdcp(&["-f", &site.root(&capitals), down]).succeeded();
    assert_eq!(std::fs::read(down).expect("it came"), b"listed");
    assert_eq!(site.get(&format!("/{capitals}")).expect(200).text(), "listed");
    // Over HTTPS to the server behind, and not for writing where the configuration does not say so.
    let server = site.ours.url("/data/near");
    assert_eq!(site.get(&format!("/{server}")).expect(200).text(), "listed");
    assert_eq!(site.get(&format!("/read/{server}")).expect(200).text(), "listed");
    let refused = lab.upload(&site.proxy.url(&format!("/read/{server}")), b"other", &[]);
    assert!(refused.expect(403).text().contains("read-only"));
    assert_eq!(std::fs::read(site.ours.data().join("near")).expect("there"), b"listed");
    until("the log names the host", SOON, || {
        let path = format!("/https:/{}/data/near", host(&server));
        let lines = requests(site.proxy.log());
        lines
            .iter()
            .any(|line| line["path"] == path.as_str() && line["upstream"] == host(&server).as_str())
    });
}

#[test]
fn a_forwarding_proxy_asks_no_host_that_is_not_listed() {
    let test = "a_forwarding_proxy_asks_no_host_that_is_not_listed";
    let Some(site) = available(test, site()) else { return };
    let listed = host(&site.xrootd.root_url(""));
    let port = listed.rsplit(':').next().expect("a port");
    let hidden = site.hidden.port();
    for path in [
        // Other spellings of what a rule takes away.
        format!("/root://localhost:{port}//data/secret"),
        format!("/root://LOCALHOST:{port}//data/secret"),
        format!("/xroot://localhost:{port}//data/secret"),
        format!("/root://localhost:0{port}//data/./secret"),
        format!("/root://%6cocalhost:{port}//data//secret"),
        // Another name of the same address, which is not listed.
        format!("/root://127.0.0.1:{port}//data/secret"),
        format!("/root://[::1]:{port}//data/secret"),
        format!("/root://[::ffff:127.0.0.1]:{port}//data/secret"),
        format!("/root://2130706433:{port}//data/secret"),
        format!("/root://0x7f.1:{port}//data/secret"),
        format!("/root://0:{port}//data/secret"),
        format!("/root://localhost.:{port}//data/secret"),
        // What some parser may take for a host.
        format!("/root://user@localhost:{port}//data/secret"),
        format!("/root://localhost:{port}@localhost:{hidden}//data/away"),
        format!("/root://%256cocalhost:{port}//data/secret"),
        format!("/root://localhost:{port}%23@x//data/secret"),
        format!("/root://localhost:{port}%3Fx//data/secret"),
        format!("/root://localhost:{port}%5C@x//data/secret"),
        format!("/root://localhost%0d%0a:{port}//data/secret"),
        format!("/root://localhost%00:{port}//data/secret"),
        format!("/ROOT://localhost:{port}//data/secret"),
        format!("/file://localhost:{port}/etc/passwd"),
        format!("/root://localhost:{port}//../../etc/passwd"),
        format!("/root://localhost:{port}//%2e%2e/etc/passwd"),
        // Hosts that are not listed, and a second proxy.
        format!("/root://localhost:{hidden}//data/away"),
        format!("/http://localhost:{hidden}/data/away"),
        format!(
            "/root://localhost:{}//root://localhost:{hidden}//data/away",
            site.ours.port()
        ),
        format!("/root://localhost:{port}//xroot:/localhost:{hidden}/data/away"),
        format!(
            "/root://localhost:{}//root://localhost:{port}//data/f",
            site.proxy.port()
        ),
    ] {
        let told = site.get(&path);
        assert!(
            matches!(told.status, 400 | 401 | 403 | 404),
            "{path}: {} {}",
            told.status,
            told.text()
        );
        assert!(!told.text().contains("not for clients"), "{path}");
    }
    // The same in an explanation.
    let asked = format!("/.well-known/crossload-explain?op=read&path=/root://LOCALHOST:{port}//data/secret");
    let told = site.get(&asked).expect(200).text();
    let plain = format!("/root:/localhost:{port}/data/secret");
    assert!(told.contains("\"allowed\":false") && told.contains(&plain), "{told}");
    // Redirects of listed hosts lead to listed hosts only, over both protocols.
    let astray = host(&site.astray.url(""));
    assert_eq!(site.get(&format!("/http://{astray}/near")).expect(200).text(), "listed");
    let told = site.get(&format!("/http://{astray}/away")).expect(403).text();
    let said = format!("{astray} redirected to localhost:{hidden}");
    assert!(told.contains(&said) && told.contains("forwards no requests"), "{told}");
    let place = site.root(&site.xrootd.root_url("/data/away"));
    let told = site.lab.xrdcp(&[&place, "-"]).said();
    assert!(
        told.contains("[3010]") && told.contains(&format!("localhost:{hidden}")),
        "{told}"
    );
    let place = site.root(&site.hidden.root_url("/data/away"));
    let told = site.lab.xrdcp(&[&place, "-"]).said();
    assert!(
        told.contains("[3010]") && told.contains(&format!("localhost:{hidden}")),
        "{told}"
    );
    // Line breaks in a name start no second request, and a query of it is no query there.
    for name in ["a%0d%0aX-Other:%20b", "f%3Fauthz=x"] {
        site.get(&format!("/http://{astray}/{name}"));
    }
    let seen = site.astray.seen();
    assert!(
        !seen
            .iter()
            .any(|seen| seen.header("x-other").is_some() || seen.path.contains("?authz"))
    );
    assert!(requests(site.hidden.log()).is_empty(), "no request went there");
}

#[test]
fn tokens_and_rules_hold_for_the_whole_path() {
    let test = "tokens_and_rules_hold_for_the_whole_path";
    let Some(site) = available(test, site()) else { return };
    let lab = &site.lab;
    let ours = host(&site.ours.url(""));
    std::fs::create_dir_all(site.ours.data().join("mine")).expect("made");
    for name in ["mine/f", "other"] {
        std::fs::write(site.ours.data().join(name), b"content").expect("written");
    }
    let url = |server: &str, name: &str| site.proxy.url(&format!("/clients/{server}/data/{name}"));
    let scoped = |audience: &str, scheme: &str| {
        let draft = site.issuer.token().audience(audience);
        let scope = format!("storage.read:/clients/{scheme}:/{ours}/data/mine storage.read:/data");
        draft.scope(&scope).mint()
    };
    let get =
        |token: &str, url: &str| lab.curl(&["--path-as-is", "-H", &format!("Authorization: Bearer {token}"), url]);
    let token = scoped(ANY, "https");
    assert_eq!(
        get(&token, &url(&format!("https://{ours}"), "mine/f"))
            .expect(200)
            .text(),
        "content"
    );
    // Another file, another protocol and another host are other paths.
    get(&token, &url(&format!("https://{ours}"), "other")).expect(403);
    get(&token, &url(&format!("root://{ours}"), "mine/f")).expect(403);
    get(
        &token,
        &url(&format!("https://{}", host(&site.xrootd.url(""))), "mine/f"),
    )
    .expect(403);
    // A token for this proxy alone is shown to no other host.
    let alone = site
        .issuer
        .token()
        .audience(&site.proxy.url(""))
        .scope("storage.read:/clients");
    let refused = get(&alone.mint(), &url(&format!("https://{ours}"), "mine/f"))
        .expect(401)
        .text();
    assert!(
        refused.contains("not for the upstream server") && refused.contains(&ours),
        "{refused}"
    );
    // In clear text nothing is shown: the client is anonymous there.
    let token = scoped(ANY, "http");
    get(&token, &url(&format!("http://{ours}"), "mine/f")).expect(200);
    until("the server behind saw who the client is", SOON, || {
        let lines = requests(site.ours.log());
        let has = |credential: &str| {
            lines
                .iter()
                .any(|line: &Value| line["path"] == "/data/mine/f" && line["credential"] == credential)
        };
        has("token") && has("anonymous")
    });
}

#[test]
fn a_redirect_takes_no_credential_to_another_listed_host() {
    let test = "a_redirect_takes_no_credential_to_another_listed_host";
    let Some(site) = available(test, site()) else { return };
    let lab = &site.lab;
    let (target, root) = (host(&site.robots.url("")), site.robots.root_url("/data/kept/f"));
    let through = |url: &str| site.proxy.url(&format!("/robot/{url}"));
    // A client that may name the server itself has the proxy's rights there.
    for url in [site.robots.url("/data/kept/f"), root.replace("root:", "roots:"), root] {
        let told = lab.curl(&["--path-as-is", &through(&url)]).expect(200);
        assert_eq!(told.body, SECRET, "{url}");
    }
    let content = lab.file(b"owned");
    let content = content.to_str().expect("plain");
    let xroot = |path: &str| {
        let server = format!("{}//{}", site.proxy.root_url("/robot"), site.xrootd.root_url(path));
        (server, site.xrootd.root_url(path))
    };
    for (from, led, kept) in [
        ("astray", site.astray.url("/data/led"), site.astray.url("/data/kept")),
        ("xrootd", xroot("/data/led").1, xroot("/data/kept").1),
    ] {
        // Reading, as everybody may there.
        let told = lab.curl(&["--path-as-is", &through(&format!("{led}/f"))]).expect(200);
        assert_eq!(told.body, SECRET, "{from}");
        let told = lab.curl(&["--path-as-is", &through(&format!("{kept}/f"))]);
        assert!(
            told.status != 200 && !told.text().contains("not for clients"),
            "{from}: {}",
            told.text()
        );
        // Changes, which name both servers.
        let both = format!("{} redirected to {target}", host(&led));
        let (file, other) = (through(&format!("{led}/f")), through(&format!("{led}/other")));
        let destination = format!("Destination: {other}");
        let new = through(&format!("{led}/none/directory"));
        for (method, url, headers) in [
            ("DELETE", &file, vec![]),
            ("MKCOL", &new, vec![]),
            ("MOVE", &file, vec![destination.as_str()]),
        ] {
            let told = lab.request(method, url, &headers);
            assert!((400..=599).contains(&told.status), "{from} {method}: {}", told.text());
            if method != "MKCOL" {
                assert!(
                    told.status == 403 && told.text().contains(&both),
                    "{from} {method}: {}",
                    told.text()
                );
            }
        }
        // An empty file, since the scripted server wants a body before it answers.
        let told = lab.upload(&other, b"", &[]).expect(403).text();
        assert!(told.contains(&both), "{from}: {told}");
    }
    let told = lab.xrdcp(&[content, &xroot("/data/led/other").0]).said();
    let both = format!("{} redirected to {target}", host(&site.xrootd.root_url("")));
    assert!(told.contains("[3010]") && told.contains(&both), "{told}");
    let data = site.robots.data();
    assert_eq!(std::fs::read(data.join("f")).expect("there"), SECRET);
    let stored = data.join("other").exists() || data.join("none").exists();
    assert!(!stored, "nothing is changed there");
}

#[test]
fn rules_hold_where_a_redirect_leads_and_the_log_names_that_server() {
    let test = "rules_hold_where_a_redirect_leads_and_the_log_names_that_server";
    let Some(site) = available(test, site()) else { return };
    let led = host(&site.robots.url(""));
    for (from, direct) in [
        (site.astray.url("/data/led"), site.robots.url("/data/led")),
        (site.xrootd.root_url("/data/led"), site.robots.root_url("/data/led")),
    ] {
        let get = |place: &str, name: &str| site.get(&format!("/{place}/{name}"));
        for place in [&direct, &from] {
            assert_eq!(get(place, "f").expect(200).body, SECRET, "{place}");
            let told = get(place, "ruled");
            assert!(matches!(told.status, 401 | 403), "{place}: {}", told.text());
            assert!(!told.text().contains("not for clients"), "{place}");
        }
        let told = get(&from, "ruled").text();
        assert!(
            told.starts_with("client authorize: ")
                && told.contains(&format!("redirects to a path where the client may not do this: {led}")),
            "{told}"
        );
        let told = site.lab.xrdcp(&[&site.root(&format!("{from}/ruled")), "-"]).said();
        assert!(told.contains("[3010]") && told.contains("may not do this"), "{told}");
        let down = site.lab.fresh("down");
        let down = down.to_str().expect("plain");
        site.lab
            .xrdcp(&["-f", &site.root(&format!("{from}/f")), down])
            .succeeded();
        // Over both doors.
        let named = host(&from);
        let path = format!("/{}/{named}/data/led/f", from.split('/').next().expect("a scheme"));
        until("the log names the server that sent the file", SOON, || {
            let lines = requests(site.proxy.log());
            let about = |method: &str| {
                lines.iter().any(|line: &Value| {
                    line["path"] == path.as_str()
                        && line["method"] == method
                        && line["upstream_redirected_to"] == led.as_str()
                })
            };
            about("GET") && about("close")
        });
    }
}
