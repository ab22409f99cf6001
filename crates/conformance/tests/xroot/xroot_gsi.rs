//! Certificates and proxies over the XRootD protocol's own authentication (`gsi`): XRootD's clients
//! and gfal2 at our server, our client at XRootD's.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use conformance::{Endpoint, Lab, Run, Slot, log_lines, run, shared};
use serde_json::Value;
use testkit::{
    Access, Authority, KeyKind, ProxyFault, ProxyOptions, Result, User, VomsServer, Xrootd, XrootdAccess,
    XrootdOptions, XrootdVersion, available, require,
};

const DN: &str = "/O=Crossload test/CN=Jane Doe";

/// A server that everyone may read and members of a VO may write, and a member.
struct Site {
    lab: Lab,
    voms: VomsServer,
    jane: User,
    ours: Endpoint,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        for program in ["xrdcp", "xrdfs", "voms-proxy-fake"] {
            require(program)?;
        }
        let lab = Lab::new("gsi")?;
        let voms = lab.authority().issue_voms_server("testers")?;
        let directory = lab.fresh("vomsdir");
        voms.write_lsc(&directory)?;
        let jane = lab.authority().issue_user(DN)?;
        let mut options = lab.options("gsi");
        options.exports[0].anonymous = Access::Read;
        // With them clients would be made to switch to TLS, and gsi is for clear text.
        options.macaroons = false;
        options.more = format!(
            "[x509]\ntrust_directory = \"{}\"\nvoms_directory = \"{}\"\n\
             [[rule]]\nwho = \"vo:testers\"\npath = \"/data\"\nmay = [\"all\"]\n",
            lab.authority().trust_directory().display(),
            directory.display(),
        );
        let ours = Endpoint::Crossload(Box::new(lab.crossload(options)?));
        Ok(Site { lab, voms, jane, ours })
    })
}

impl Site {
    /// A proxy of Jane's as a member of the VO.
    fn member(&self) -> Result<String> {
        let attributes = self
            .voms
            .attributes(&self.jane, &["/testers/Role=NULL/Capability=NULL"])?;
        self.written(&self.jane.voms_proxy(vec![attributes])?)
    }

    fn written(&self, proxy: &User) -> Result<String> {
        Ok(text(&proxy.write_proxy(&self.lab.fresh("proxy"))?))
    }

    /// Copies a fresh file to a name by xrdcp, showing a proxy by gsi, or nothing.
    fn write(&self, proxy: Option<&str>, url: &str) -> Run {
        let local = text(&self.lab.file(b"content"));
        let variables = shown(proxy);
        self.lab.xrdcp_with(&variables, &[&local, url])
    }

    /// What the log says of the last authentication.
    fn logged(&self, of: &str) -> Vec<Value> {
        let Endpoint::Crossload(server) = &self.ours else {
            panic!("it is ours")
        };
        let mut lines = log_lines(server.log());
        lines.retain(|line| line["path"].as_str().is_some_and(|path| path.contains(of)));
        lines
    }
}

fn text(path: &std::path::Path) -> String {
    path.to_str().expect("plain").to_owned()
}

fn shown(proxy: Option<&str>) -> Vec<(&'static str, &str)> {
    match proxy {
        Some(proxy) => vec![("X509_USER_PROXY", proxy)],
        // It would look in /tmp.
        None => vec![("X509_USER_PROXY", "/nowhere")],
    }
}

#[track_caller]
fn assert_refused(run: &Run, words: &str) {
    assert_ne!(run.code, Some(0), "{}", run.said());
    assert!(run.said().contains(words), "{}", run.said());
}

#[test]
fn members_of_a_vo_write_and_are_known_by_name() {
    let Some(site) = available("members_of_a_vo_write_and_are_known_by_name", site()) else {
        return;
    };
    let made = site.member().expect("proxy");
    let fake = text(&site.lab.fresh("fake"));
    let fake = site.voms.fake_proxy(&site.jane, &["/testers"], &PathBuf::from(fake));
    let fake = text(&fake.expect("voms-proxy-fake"));
    site.ours.make_directory("members");
    for (name, url, proxy) in [
        ("made", site.ours.root("members/made"), &made),
        ("fake", site.ours.root("members/fake"), &fake),
        ("tls", site.ours.roots("members/tls"), &made),
    ] {
        site.write(Some(proxy), &url).succeeded();
        assert_eq!(
            site.ours.stored(&format!("members/{name}")).as_deref(),
            Some(&b"content"[..])
        );
        let lines = site.logged(&format!("members/{name}"));
        let line = lines.iter().find(|line| line["credential"] == "certificate");
        let line = line.unwrap_or_else(|| panic!("{name}: {lines:?}"));
        assert_eq!(line["subject"], DN, "{line}");
    }
    let mut listed = site.lab.command("xrdfs").expect("xrdfs");
    listed
        .arg(site.ours.root_address())
        .args(["ls", "/data/members"])
        .envs(shown(Some(&made)));
    assert!(run(&listed).succeeded().text().contains("/data/members/made"));
    // The same over HTTPS with the same proxy.
    let https = site.lab.client(site.lab.client_arguments(
        "copy",
        &[
            "--proxy",
            &made,
            &text(&site.lab.file(b"https")),
            &site.ours.url("members/https"),
        ],
    ));
    run(&https.expect("our client")).succeeded();
}

#[test]
fn gfal_writes_with_a_proxy() {
    let Some(site) = available(
        "gfal_writes_with_a_proxy",
        site().and_then(|site| require("gfal-copy").map(|_| site)),
    ) else {
        return;
    };
    let proxy = site.member().expect("proxy");
    site.ours.make_directory("gfal");
    let mut command = site.lab.command("gfal-copy").expect("gfal");
    let local = format!("file://{}", text(&site.lab.file(b"by gfal")));
    command
        .args([&local, &site.ours.root("gfal/file")])
        .env("X509_USER_PROXY", &proxy);
    run(&command).succeeded();
    assert_eq!(site.ours.stored("gfal/file").as_deref(), Some(&b"by gfal"[..]));
}

#[test]
fn who_shows_nothing_is_anybody() {
    let Some(site) = available("who_shows_nothing_is_anybody", site()) else {
        return;
    };
    site.ours.put("anybody/file", b"content");
    let read = site
        .lab
        .xrdcp_with(&shown(None), &[&site.ours.root("anybody/file"), "-"]);
    assert_eq!(read.succeeded().text(), "content");
    assert_refused(&site.write(None, &site.ours.root("anybody/new")), "[3010]");
    // Known by name, but without the right to write.
    let proxy = site.written(&site.jane.proxy().expect("proxy")).expect("file");
    assert_refused(&site.write(Some(&proxy), &site.ours.root("anybody/new")), "[3010]");
    assert_eq!(site.ours.stored("anybody/new"), None);
}

#[test]
fn proxies_that_are_not_believed_give_no_rights_and_the_reason() {
    let Some(site) = available("proxies_that_are_not_believed_give_no_rights_and_the_reason", site()) else {
        return;
    };
    site.ours.put("unbelieved/file", b"content");
    let attributes = || vec![site.voms.attributes(&site.jane, &["/testers"]).expect("attributes")];
    let elsewhere = Authority::new(&site.lab.scratch().create("elsewhere").expect("directory")).expect("authority");
    let stranger = elsewhere.issue_user(DN).expect("user").proxy().expect("proxy");
    let altered = ProxyOptions {
        attributes: attributes(),
        fault: Some(ProxyFault::AlteredPolicy),
        ..ProxyOptions::default()
    };
    let wrong = ProxyOptions {
        attributes: attributes(),
        fault: Some(ProxyFault::WrongSignature),
        ..ProxyOptions::default()
    };
    for (name, proxy) in [
        ("another authority", stranger),
        ("altered policy", site.jane.proxy_with(&altered).expect("proxy")),
        ("wrong signature", site.jane.proxy_with(&wrong).expect("proxy")),
    ] {
        let proxy = site.written(&proxy).expect("file");
        let run = site.write(Some(&proxy), &site.ours.root("unbelieved/new"));
        assert_ne!(run.code, Some(0), "{name}: {}", run.said());
        assert_eq!(site.ours.stored("unbelieved/new"), None, "{name}");
    }
}

/// The client tries nothing else.
#[test]
fn a_hundred_logins() {
    let Some(site) = available("a_hundred_logins", site()) else {
        return;
    };
    let proxy = site.member().expect("proxy");
    site.ours.put("many/file", b"content");
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let mut command = site.lab.command("xrdfs").expect("xrdfs");
                    command.arg(site.ours.root_address()).args(["stat", "/data/many/file"]);
                    command.envs(shown(Some(&proxy))).env("XrdSecPROTOCOL", "gsi");
                    run(&command).succeeded();
                }
            });
        }
    });
}

/// An XRootD that demands gsi.
fn theirs(site: &Site, version: XrootdVersion) -> Result<Endpoint> {
    let own = site.lab.fresh("theirs");
    let more = format!(
        "xrootd.seclib libXrdSec.so\n\
         sec.protocol gsi -certdir:{} -cert:{own}/host.pem -key:{own}/host.key -gmapopt:10 -crl:1\n",
        site.lab.authority().trust_directory().display(),
        own = own.display(),
    );
    let server = Xrootd::start(&XrootdOptions {
        version,
        data: own.join("files/data"),
        directory: own,
        more,
        ..site.lab.xrootd_options("theirs", XrootdAccess::Open)
    })?;
    Ok(Endpoint::Xrootd(Box::new(server)))
}

#[test]
fn the_newest_xrdcp_shows_its_proxy_to_ours() {
    let test = "the_newest_xrdcp_shows_its_proxy_to_ours";
    let Some(site) = available(test, site()) else { return };
    let command = || site.lab.xrootd_client(XrootdVersion::V6, "xrdcp");
    if available(test, command()).is_none() {
        return;
    }
    let proxy = site.member().expect("proxy");
    site.ours.make_directory("newest");
    let local = text(&site.lab.file(b"content"));
    let url = site.ours.root("newest/file");
    let copy = |proxy: Option<&str>| {
        let mut command = command().expect("it was there");
        run(command.args(["--nopbar", &local, &url]).envs(shown(proxy)))
    };
    assert_ne!(copy(None).code, Some(0));
    copy(Some(&proxy)).succeeded();
    assert_eq!(site.ours.stored("newest/file").as_deref(), Some(&b"content"[..]));
}

#[test]
fn our_client_shows_its_proxy_to_xrootd() {
    let test = "our_client_shows_its_proxy_to_xrootd";
    let Some(site) = available(test, site()) else { return };
    for version in XrootdVersion::ALL {
        if let Some(theirs) = available(test, theirs(&site, version)) {
            shows_its_proxy(&site, &theirs);
        }
    }
}

#[track_caller]
fn shows_its_proxy(site: &Site, theirs: &Endpoint) {
    let proxy = site.member().expect("proxy");
    theirs.put("gsi/file", b"content");
    let run = |arguments: &[&str]| site.lab.run_client("copy", arguments);
    let target = text(&site.lab.fresh("copied"));
    let refused = run(&[&theirs.root("gsi/file"), &target]);
    assert_refused(&refused, "gsi");
    for url in [
        theirs.root("gsi/file"),
        theirs.roots("gsi/file"),
        site.ours.root("gsi/file"),
    ] {
        site.ours.put("gsi/file", b"content");
        run(&["-f", "--proxy", &proxy, &url, &target]).succeeded();
        assert_eq!(std::fs::read(&target).expect("copied"), b"content");
    }
    run(&[
        "--proxy",
        &proxy,
        &text(&site.lab.file(b"new")),
        &theirs.root("gsi/new"),
    ])
    .succeeded();
    assert_eq!(theirs.stored("gsi/new").as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_server_under_another_name_sees_no_certificate() {
    let Some(site) = available("a_server_under_another_name_sees_no_certificate", site()) else {
        return;
    };
    let proxy = site.member().expect("proxy");
    let mut options = site.lab.options("misnamed");
    let other = site
        .lab
        .authority()
        .issue_host("other", &["other.example"], KeyKind::Rsa2048);
    options.certificate = Some(other.expect("issued"));
    options.more = format!(
        "[xroot]\nauthentication = [\"gsi\"]\n[x509]\ntrust_directory = \"{}\"\n",
        site.lab.authority().trust_directory().display(),
    );
    let misnamed = Endpoint::Crossload(Box::new(site.lab.crossload(options).expect("started")));
    misnamed.put("file", b"content");
    let target = text(&site.lab.fresh("copied"));
    let refused = site
        .lab
        .run_client("copy", &["--proxy", &proxy, &misnamed.root("file"), &target]);
    assert_refused(&refused, "not for localhost, but for other.example");
    let theirs = site.lab.xrdcp_with(
        &[("X509_USER_PROXY", &proxy), ("XrdSecGSITRUSTDNS", "0")],
        &[&misnamed.root("file"), &target],
    );
    assert_ne!(theirs.code, Some(0), "{}", theirs.said());
}
