//! Certificates and proxies of clients on both doors, shown by curl, openssl, gfal2 and davix:
//! believed and refused, on new connections and on resumed ones, and while the files that they are
//! judged by change.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Weak;
use std::time::Duration;

use conformance::{Answer, Lab, Slot, bytes, log_lines, requests_with, run, shared, until};
use testkit::{
    Access, Authority, CertificateOptions, Crossload, KeyKind, ProxyFault, ProxyOptions, Result, User, VomsServer,
    available, require,
};

const JANE: &str = "/O=Crossload test/CN=Jane Doe";
/// The server looks at its files every other second.
const NOTICED: Duration = Duration::from_secs(60);

struct Site {
    lab: Lab,
    server: Crossload,
    voms: VomsServer,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<std::sync::Arc<Site>> {
    shared(&SITE, || {
        require("curl")?;
        let lab = Lab::new("x509")?;
        let voms = lab.authority().issue_voms_server("testvo")?;
        let server = start(&lab, &voms, "")?;
        Ok(Site { lab, server, voms })
    })
}

/// A server where Jane may do everything, members of the VO may read, and others nothing.
fn start(lab: &Lab, voms: &VomsServer, more: &str) -> Result<Crossload> {
    let voms_directory = lab.fresh("vomsdir");
    voms.write_lsc(&voms_directory)?;
    let mut options = lab.options("x509");
    options.exports[0].anonymous = Access::None;
    options.more = format!(
        "[x509]\ntrust_directory = {:?}\nvoms_directory = {voms_directory:?}\n{more}\n\
         [[rule]]\nwho = \"dn:{JANE}\"\npath = \"/data\"\nmay = \"all\"\n\
         [[rule]]\nwho = \"vo:testvo\"\npath = \"/data\"\nmay = [\"read\", \"stat\", \"list\"]\n",
        lab.authority().trust_directory(),
    );
    lab.crossload(options)
}

/// Asks for the file `f` as the holder of a proxy file, with further arguments for curl.
fn ask(lab: &Lab, server: &Crossload, proxy: &Path, more: &[&str]) -> Answer {
    let (url, proxy) = (server.url("/data/f"), proxy.to_str().unwrap_or_default().to_owned());
    let mut arguments = vec!["-E", &proxy, "--key", &proxy];
    arguments.extend(more);
    arguments.push(&url);
    lab.curl(&arguments)
}

fn write(lab: &Lab, user: &User) -> PathBuf {
    user.write_proxy(&lab.fresh("proxy")).expect("a file for the proxy")
}

fn code_of(answer: &Answer) -> String {
    let text = answer.text();
    let mut words = text.split(|letter: char| !(letter.is_ascii_lowercase() || letter == '_'));
    let is_code = |word: &&str| word.starts_with("certificate_") || word.starts_with("proxy_");
    words.find(is_code).unwrap_or_default().to_owned()
}

#[test]
fn proxies_of_every_sound_kind_are_their_holders() {
    let Some(site) = available("proxies_of_every_sound_kind", site()) else {
        return;
    };
    let (lab, server) = (&site.lab, &site.server);
    std::fs::write(server.data().join("f"), bytes(1000, 1)).expect("a file");
    let jane = lab.authority().issue_user(JANE).expect("a user");
    let limited = ProxyOptions {
        is_limited: true,
        ..ProxyOptions::default()
    };
    let elliptic = ProxyOptions {
        key: KeyKind::EcdsaP256,
        ..ProxyOptions::default()
    };
    let proxy = jane.proxy().expect("a proxy");
    let sound = [
        jane.clone(),
        proxy.clone(),
        proxy.proxy().and_then(|second| second.proxy()).expect("three proxies"),
        proxy.proxy_with(&limited).expect("a limited proxy"),
        proxy.proxy_with(&elliptic).expect("a proxy with an elliptic key"),
    ];
    for (index, user) in sound.iter().enumerate() {
        let file = write(lab, user);
        for version in ["1.2", "1.3"] {
            let answer = ask(lab, server, &file, &["--tls-max", version]);
            assert_eq!(answer.status, 200, "{index} over TLS {version}: {}", answer.text());
        }
    }
    requests_with(server.log(), 1, "a request of Jane's by certificate", |line| {
        line["subject"] == JANE && line["credential"] == "certificate"
    });
    // Without any certificate one is asked for.
    let stranger = lab.curl(&[&server.url("/data/f")]);
    assert_eq!(stranger.status, 401, "{}", stranger.text());
}

#[test]
fn each_fault_has_a_code_of_its_own_and_no_fault_costs_more_than_the_identity() {
    let Some(site) = available("each_fault_has_a_code", site()) else {
        return;
    };
    let (lab, server) = (&site.lab, &site.server);
    std::fs::write(server.data().join("f"), bytes(1000, 1)).expect("a file");
    let own = lab.authority();
    let jane = own.issue_user(JANE).expect("a user");
    let proxy = jane.proxy().expect("a proxy");
    let broken = |fault: ProxyFault| {
        let options = ProxyOptions {
            fault: Some(fault),
            ..ProxyOptions::default()
        };
        jane.proxy_with(&options).expect("a broken proxy")
    };
    let limited = |is_limited, of: &User| {
        let options = ProxyOptions {
            is_limited,
            ..ProxyOptions::default()
        };
        of.proxy_with(&options).expect("a proxy")
    };
    let expired = ProxyOptions {
        ends_s: -60,
        ..ProxyOptions::default()
    };
    let shallow = ProxyOptions {
        path_length: Some(0),
        ..ProxyOptions::default()
    };
    let old = CertificateOptions {
        ends_s: -60,
        ..CertificateOptions::default()
    };
    // It has the same name as ours, and another key.
    let strange = Authority::new(&lab.fresh("stranger")).expect("another authority");
    let cases = [
        ("certificate_signature", strange.issue_user(JANE).expect("a stranger")),
        (
            "certificate_expired",
            own.issue(JANE, &old).expect("an old certificate"),
        ),
        (
            "certificate_expired",
            jane.proxy_with(&expired).expect("an expired proxy"),
        ),
        (
            "certificate_name_refused",
            own.issue_user("/O=Elsewhere/CN=Jane Doe").expect("a user"),
        ),
        ("proxy_legacy", broken(ProxyFault::Legacy)),
        ("proxy_widened", limited(false, &limited(true, &proxy))),
        (
            "proxy_too_deep",
            jane.proxy_with(&shallow)
                .and_then(|first| first.proxy())
                .expect("two proxies"),
        ),
        ("certificate_signature", broken(ProxyFault::WrongSignature)),
        ("certificate_signature", broken(ProxyFault::AlteredPolicy)),
        ("proxy_policy_refused", broken(ProxyFault::PolicyWords)),
    ];
    let mut files = cases.map(|(code, user)| (code, write(lab, &user))).to_vec();
    // A proxy without the certificate that it was made from.
    let text = std::fs::read_to_string(write(lab, &proxy)).expect("a proxy file");
    let (alone, _) = text
        .rsplit_once("-----BEGIN CERTIFICATE-----")
        .expect("two certificates");
    files.push(("certificate_untrusted", lab.file(alone.as_bytes())));
    for (code, file) in files {
        let answer = ask(lab, server, &file, &["-H", "Accept: application/json"]);
        assert_eq!(
            (answer.status, code_of(&answer).as_str()),
            (401, code),
            "{}",
            answer.text()
        );
    }
}

#[test]
fn a_storage_of_everybody_is_not_closed_to_holders_of_bad_certificates() {
    let Some(site) = available("a_storage_of_everybody", site()) else {
        return;
    };
    let lab = &site.lab;
    let mut options = lab.options("open");
    options.more = format!("[x509]\ntrust_directory = {:?}\n", lab.authority().trust_directory());
    let server = lab.crossload(options).expect("a server");
    std::fs::write(server.data().join("f"), bytes(1000, 1)).expect("a file");
    let strange = Authority::new(&lab.fresh("stranger")).expect("another authority");
    let file = write(lab, &strange.issue_user(JANE).expect("a stranger"));
    assert_eq!(ask(lab, &server, &file, &[]).status, 200);
}

#[test]
fn attributes_of_voms_give_the_rights_of_the_vo() {
    let Some(site) = available("attributes_of_voms", site()) else {
        return;
    };
    let (lab, server) = (&site.lab, &site.server);
    std::fs::write(server.data().join("f"), bytes(1000, 1)).expect("a file");
    let john = lab
        .authority()
        .issue_user("/O=Crossload test/CN=John Roe")
        .expect("a user");
    let plain = write(lab, &john.proxy().expect("a proxy"));
    assert_eq!(ask(lab, server, &plain, &[]).status, 403);
    let fake = lab.fresh("fake");
    if let Some(fake) = available("voms-proxy-fake", site.voms.fake_proxy(&john, &["/testvo"], &fake)) {
        let answer = ask(lab, server, &fake, &[]);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(
            ask(lab, server, &fake, &["-X", "DELETE"]).status,
            403,
            "reading is all that the VO may"
        );
    }
    let own = site
        .voms
        .attributes(&john, &["/testvo", "/testvo/prod"])
        .expect("attributes");
    let with = write(lab, &john.voms_proxy(vec![own]).expect("a proxy"));
    assert_eq!(ask(lab, server, &with, &[]).status, 200);
    // Attributes of another holder do not count.
    let jane = lab.authority().issue_user(JANE).expect("a user");
    let hers = site.voms.attributes(&jane, &["/testvo"]).expect("attributes");
    let stolen = write(lab, &john.voms_proxy(vec![hers]).expect("a proxy"));
    assert_eq!(ask(lab, server, &stolen, &[]).status, 403);
}

/// Runs `openssl s_client`, which asks for the file on one connection.
fn s_client(server: &Crossload, ca_file: &Path, arguments: &[&str]) -> String {
    let request = "GET /data/f HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-ign_eof", "-servername", "localhost", "-connect"])
        .arg(format!("localhost:{}", server.port()))
        .arg("-CAfile")
        .arg(ca_file)
        .args(arguments)
        .stdin(Stdio::piped());
    let done = conformance::run_with_input(&command, request.as_bytes());
    done.said()
}

#[test]
fn a_resumed_session_has_the_same_identity_and_is_judged_anew() {
    let Some(site) = available("a_resumed_session", site()) else {
        return;
    };
    let lab = &site.lab;
    let own = Lab::new("x509-resumed").expect("another site");
    let voms = own.authority().issue_voms_server("testvo").expect("a VOMS server");
    let server = start(&own, &voms, "").expect("a server");
    std::fs::write(server.data().join("f"), bytes(1000, 1)).expect("a file");
    let jane = own.authority().issue_user(JANE).expect("a user");
    let (chain, key) = jane
        .write_pair(&own.scratch().create("jane").expect("a directory"), "jane")
        .expect("files");
    let (chain, key) = (chain.to_str().expect("text"), key.to_str().expect("text"));
    let ca_file = own.authority().ca_file();
    let session = |version: &str| lab.fresh(version).to_str().expect("text").to_owned();
    let sessions = ["-tls1_2", "-tls1_3"].map(|version| (version, session(version)));
    for (version, session) in &sessions {
        let first = s_client(
            &server,
            &ca_file,
            &[version, "-cert", chain, "-key", key, "-sess_out", session],
        );
        assert!(
            first.contains("New, ") && first.contains("HTTP/1.1 200"),
            "{version}: {first}"
        );
        // Nothing is shown now: all that is known of the client comes with the session.
        let again = s_client(&server, &ca_file, &[version, "-sess_in", session]);
        assert!(
            again.contains("Reused, ") && again.contains("HTTP/1.1 200"),
            "{version}: {again}"
        );
    }
    own.authority()
        .revoke(&[jane.serial().expect("a number")], 86_400)
        .expect("a list");
    until("the revocation is noticed", NOTICED, || {
        let file = write(&own, &jane);
        ask(&own, &server, &file, &[]).status == 401
    });
    for (version, session) in &sessions {
        let late = s_client(&server, &ca_file, &[version, "-sess_in", session]);
        assert!(
            late.contains("Reused, ") && late.contains("HTTP/1.1 401"),
            "{version}: {late}"
        );
    }
}

#[test]
fn the_trust_directory_may_change_and_break_while_the_server_runs() {
    let own = match Lab::new("x509-trust") {
        Ok(own) => own,
        Err(error) => {
            available::<()>("the_trust_directory", Err(error));
            return;
        }
    };
    let voms = own.authority().issue_voms_server("testvo").expect("a VOMS server");
    let server = start(&own, &voms, "").expect("a server");
    std::fs::write(server.data().join("f"), bytes(1000, 1)).expect("a file");
    let jane = write(&own, &own.authority().issue_user(JANE).expect("a user"));
    let status = |file: &Path| ask(&own, &server, file, &[]).status;
    assert_eq!(status(&jane), 200);
    let events = || {
        log_lines(server.log())
            .into_iter()
            .filter(|line| line["event"] == "certificates")
    };
    let trust = own.authority().trust_directory();
    // A broken file is named, and changes no decision.
    std::fs::write(trust.join("0badf00d.0"), "-----BEGIN CERTIFICATE-----\nnothing\n").expect("a broken file");
    until("the broken file is named", NOTICED, || {
        events().any(|line| line["faults"].to_string().contains("0badf00d.0"))
    });
    assert_eq!(status(&jane), 200);
    // Another authority is believed from the moment on in which it is there.
    let other = Authority::new(&own.fresh("other")).expect("another authority");
    let hers = write(&own, &other.issue_user(JANE).expect("a user"));
    assert_eq!(status(&hers), 401);
    for (name, content) in other.trust_files().expect("files") {
        // Both authorities have the same name, and so the same hash.
        std::fs::write(trust.join(name.replace(".0", ".1").replace(".r0", ".r1")), content).expect("a file");
    }
    until("the other authority is believed", NOTICED, || status(&hers) == 200);
    // The directory is gone for a while, as on a network file system.
    std::fs::rename(&trust, own.scratch().join("away")).expect("renaming");
    until("the directory is missed", NOTICED, || {
        events().any(|line| line["faults"].to_string().contains("still holds"))
    });
    assert_eq!((status(&jane), status(&hers)), (200, 200));
    let lines = log_lines(server.log());
    assert!(!lines.iter().any(|line| line["event"] == "panic"), "{lines:#?}");
}

#[test]
fn a_session_of_the_xrootd_protocol_is_its_certificates_holder() {
    let Some(site) = available("a_session_of_the_xrootd_protocol", site()) else {
        return;
    };
    let (lab, server) = (&site.lab, &site.server);
    let content = bytes(3 << 20, 9);
    std::fs::write(server.data().join("by-root"), &content).expect("a file");
    let jane = lab.authority().issue_user(JANE).expect("a user");
    let proxy = write(lab, &jane.proxy().expect("a proxy"));
    let strange = Authority::new(&lab.fresh("stranger")).expect("another authority");
    let foreign = write(lab, &strange.issue_user(JANE).expect("a stranger"));
    let ca_file = lab.authority().ca_file();
    let get = |shown: Option<&Path>, streams: &str| {
        let target = lab.fresh("got");
        let url = server.root_url("/data/by-root").replace("root://", "roots://");
        let mut command = lab
            .client(["copy", "-f", "-n", streams, "--cacert"])
            .expect("our client");
        command.arg(&ca_file);
        if let Some(file) = shown {
            command.arg("--proxy").arg(file);
        }
        command.arg(url).arg(&target);
        (run(&command), std::fs::read(&target).unwrap_or_default())
    };
    // Further streams of a session have handshakes of their own.
    for streams in ["1", "4"] {
        let (done, got) = get(Some(&proxy), streams);
        assert_eq!(done.code, Some(0), "{streams} streams: {}", done.said());
        assert!(got == content, "{streams} streams");
    }
    requests_with(server.log(), 1, "a file that Jane opened", |line| {
        line["method"] == "open" && line["subject"] == JANE
    });
    let (done, _) = get(None, "1");
    assert_eq!(done.code, Some(13), "{}", done.said());
    let (done, _) = get(Some(&foreign), "1");
    assert!(
        done.code != Some(0) && done.said().contains("certificate_signature"),
        "{}",
        done.said()
    );
}

#[test]
fn gfal_and_davix_show_the_proxy_of_their_user() {
    let Some(site) = available("gfal_and_davix", site()) else {
        return;
    };
    let (lab, server) = (&site.lab, &site.server);
    let jane = lab.authority().issue_user(JANE).expect("a user");
    let proxy = write(lab, &jane.proxy().expect("a proxy"));
    let url = server.url("/data/by-client").replace("https://", "davs://");
    let source = format!("file://{}", lab.file(&bytes(100_000, 5)).display());
    let proxy_text = proxy.to_str().expect("text");
    let trust = lab.authority().trust_directory().to_str().expect("text").to_owned();
    let commands: [&[&str]; 5] = [
        &["gfal-copy", "-f", &source, &url],
        &["gfal-ls", &url],
        &["davix-ls", "--capath", &trust, "-E", proxy_text, &url],
        &["davix-get", "--capath", &trust, "-E", proxy_text, &url, "/dev/null"],
        &["gfal-rm", &url],
    ];
    for words in commands {
        let Some(mut command) = available(words[0], lab.command(words[0])) else {
            continue;
        };
        command.env("X509_USER_PROXY", &proxy).args(&words[1..]);
        let done = run(&command);
        assert_eq!(done.code, Some(0), "{words:?}: {}", done.said());
    }
}

#[test]
fn arc_copies_and_lists_with_the_proxy_of_its_user() {
    let Some(site) = available("arc_copies_and_lists", site()) else {
        return;
    };
    let (lab, server) = (&site.lab, &site.server);
    let jane = lab.authority().issue_user(JANE).expect("a user");
    let proxy = write(lab, &jane.proxy().expect("a proxy"));
    let content = bytes(100_000, 6);
    let (up, down) = (lab.file(&content), lab.fresh("down"));
    let (up, down_text) = (up.to_str().expect("text"), down.to_str().expect("text"));
    let url = server.url("/data/by-arc");
    let commands: [&[&str]; 4] = [
        &["arccp", up, &url],
        &["arcls", "-l", &url],
        &["arccp", &url, down_text],
        &["arcrm", &url],
    ];
    for words in commands {
        let Some(mut command) = available(words[0], lab.command(words[0])) else {
            return;
        };
        command.env("X509_USER_PROXY", &proxy).args(&words[1..]);
        let done = run(&command);
        assert_eq!(done.code, Some(0), "{words:?}: {}", done.said());
    }
    assert!(std::fs::read(&down).expect("a copy") == content, "the copy differs");
    assert!(!server.data().join("by-arc").exists());
}
