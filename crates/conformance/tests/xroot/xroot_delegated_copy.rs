//! Copies that our client orders with a delegated proxy (TPC Lite): Debian's XRootD asks for it,
//! and fetches with it from a source that lets in only members of a VO with a role.

use std::sync::{Arc, Weak};

use conformance::{Endpoint, Lab, Run, Slot, bytes, log_lines, run, shared};
use testkit::{
    Access, KeyKind, ProxyOptions, Result, User, VomsServer, XrootdAccess, XrootdVersion, available, require,
};

use crate::xroot_delegation::delegating;

const DN: &str = "/O=Crossload test/CN=Jane Doe";
/// Third-party copies read with the proxy that the client delegated, if it did.
const FETCHES: &str = "ofs.tpc fcreds ?gsi =X509_USER_PROXY\n";
const ROLE: &str = "/testers/Role=production";

struct Site {
    lab: Lab,
    voms: VomsServer,
    jane: User,
    /// Lets in the role, by gsi and no other way.
    guarded: Endpoint,
    /// Lets in everyone.
    open: Endpoint,
    /// Fetches with delegated proxies, where it has one.
    lite: Endpoint,
    /// Asks for proxies, and does not fetch with them.
    keyed: Endpoint,
    /// Ours, which asks for proxies and fetches with them.
    ours: Endpoint,
    /// Ours without gsi, where the certificate in TLS counts.
    tls: Endpoint,
    /// As `lite`, with the certificate of another host.
    misnamed: Endpoint,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        require("voms-proxy-fake")?;
        let lab = Lab::new("lite")?;
        let voms = lab.authority().issue_voms_server("testers")?;
        let vomsdir = lab.fresh("vomsdir");
        voms.write_lsc(&vomsdir)?;
        let jane = lab.authority().issue_user(DN)?;
        let mut options = lab.options("guarded");
        options.exports[0].anonymous = Access::None;
        options.macaroons = false;
        options.more = format!(
            "[xroot]\nauthentication = [\"gsi\"]\n[x509]\ntrust_directory = \"{}\"\nvoms_directory = \"{}\"\n\
             [[rule]]\nwho = \"fqan:{ROLE}\"\npath = \"/data\"\nmay = [\"read\"]\n",
            lab.authority().trust_directory().display(),
            vomsdir.display(),
        );
        let guarded = Endpoint::Crossload(Box::new(lab.crossload(options)?));
        let open = Endpoint::Xrootd(Box::new(lab.xrootd("open", XrootdAccess::Open)?));
        let (lite, keyed) = (
            theirs(&lab, "lite", "localhost", FETCHES)?,
            theirs(&lab, "keyed", "localhost", "")?,
        );
        lab.authority()
            .issue_host("other", &["other.example"], KeyKind::Rsa2048)?;
        let ours = delegating(&lab, "ours", &vomsdir)?;
        let mut options = lab.options("tls");
        options.exports[0].anonymous = Access::None;
        options.more = format!(
            "[xroot]\nauthentication = []\n[x509]\ntrust_directory = \"{}\"\n[[rule]]\nwho = \"dn:{DN}\"\npath = \"/data\"\nmay = [\"all\"]\n",
            lab.authority().trust_directory().display(),
        );
        let tls = Endpoint::Crossload(Box::new(lab.crossload(options)?));
        let misnamed = theirs(&lab, "misnamed", "other", FETCHES)?;
        Ok(Site {
            lab,
            voms,
            jane,
            guarded,
            open,
            lite,
            keyed,
            ours,
            tls,
            misnamed,
        })
    })
}

/// Debian's XRootD, which demands gsi and asks for proxies.
fn theirs(lab: &Lab, name: &str, certificate: &str, more: &str) -> Result<Endpoint> {
    theirs_of(XrootdVersion::V5, lab, name, certificate, more)
}

fn theirs_of(version: XrootdVersion, lab: &Lab, name: &str, certificate: &str, more: &str) -> Result<Endpoint> {
    let mut options = lab.xrootd_options(name, XrootdAccess::Open);
    options.version = version;
    let own = options.directory.display().to_string();
    let authority = lab.authority().ca_file();
    let beside = |ending: &str| authority.with_file_name(format!("{certificate}.{ending}"));
    (options.certificate.certificate, options.certificate.key) = (beside("pem"), beside("key"));
    options.more = format!(
        "xrootd.seclib libXrdSec.so\n\
         sec.protocol gsi -certdir:{} -cert:{own}/host.pem -key:{own}/host.key -gmapopt:10 -crl:1 \
         -dlgpxy:request -exppxy:=creds\n{more}",
        lab.authority().trust_directory().display(),
    );
    Ok(Endpoint::Xrootd(Box::new(testkit::Xrootd::start(&options)?)))
}

impl Site {
    /// Jane's proxy with her role, by Debian's own program.
    fn proxy(&self) -> String {
        let path = self.lab.fresh("proxy");
        let made = self
            .voms
            .fake_proxy(&self.jane, &[ROLE], &path)
            .expect("voms-proxy-fake");
        made.to_str().expect("plain").to_owned()
    }

    /// Runs `copy`, and no way through this machine.
    fn copy(&self, proxy: &str, arguments: &[&str]) -> Run {
        let usual = ["--proxy", proxy, "--mode", "pull", "-v"];
        self.lab.run_client("copy", &[&usual, arguments].concat())
    }

    /// Who has logged in at the guarded source for a file.
    fn logins(&self, name: &str) -> Vec<String> {
        let Endpoint::Crossload(server) = &self.guarded else {
            panic!("it is ours")
        };
        let lines = log_lines(server.log());
        let of = lines
            .iter()
            .filter(|line| line["path"].as_str().is_some_and(|path| path.contains(name)));
        of.filter_map(|line| line["subject"].as_str().map(str::to_owned))
            .collect()
    }
}

#[track_caller]
fn assert_says(run: &Run, words: &str) {
    assert!(run.said().contains(words), "{words}: {}", run.said());
}

#[test]
fn a_source_that_lets_in_a_role_only_is_read_with_the_users_proxy() {
    let test = "a_source_that_lets_in_a_role_only_is_read_with_the_users_proxy";
    let Some(site) = available(test, site()) else { return };
    let content = bytes(3_000_001, 61);
    site.guarded.put("role/file", &content);
    let (from, proxy) = (site.guarded.root("role/file"), site.proxy());
    for (index, wish) in ["--delegate", "--delegate=only"].into_iter().enumerate() {
        let name = format!("by-{index}");
        let done = site.copy(&proxy, &[wish, &from, &site.lite.root(&name)]);
        assert_says(&done, "acts with a proxy that you delegated to it");
        done.succeeded();
        assert!(site.lite.stored(&name).as_ref() == Some(&content), "{wish}");
    }
    assert!(site.logins("role/file").iter().all(|subject| subject == DN));
    // With nothing delegated the destination cannot log in there.
    let refused = site.copy(&proxy, &[&from, &site.lite.root("without")]);
    assert_ne!(refused.code, Some(0), "{}", refused.said());
    // The variable of XRootD's client says the same.
    let arguments = [
        "copy",
        "--proxy",
        &proxy,
        "--mode",
        "pull",
        &from,
        &site.lite.root("variable"),
    ];
    let mut command = site
        .lab
        .client(site.lab.client_arguments(arguments[0], &arguments[1..]))
        .expect("built");
    run(command.env("XrdSecGSIDELEGPROXY", "1")).succeeded();
    assert!(site.lite.stored("variable").as_ref() == Some(&content));
    // Without the role the proxy is of no use.
    let plain = site
        .jane
        .proxy()
        .expect("a proxy")
        .write_proxy(&site.lab.fresh("proxy"));
    let plain = plain.expect("a file").to_str().expect("plain").to_owned();
    let refused = site.copy(&plain, &["--delegate=only", &from, &site.lite.root("no-role")]);
    assert_ne!(refused.code, Some(0), "{}", refused.said());
    assert_eq!(site.lite.stored("no-role"), None);
}

/// The newest XRootD as the destination, ordered by our client and by its own program.
#[test]
fn the_newest_xrootd_fetches_with_the_users_proxy() {
    let test = "the_newest_xrootd_fetches_with_the_users_proxy";
    let Some(site) = available(test, site()) else { return };
    let newest = theirs_of(XrootdVersion::V6, &site.lab, "newest", "localhost", FETCHES);
    let Some(newest) = available(test, newest) else { return };
    let content = bytes(3_000_001, 62);
    site.guarded.put("newest/file", &content);
    let (from, proxy) = (site.guarded.root("newest/file"), site.proxy());
    let done = site.copy(&proxy, &["--delegate=only", &from, &newest.root("by-ours")]);
    assert_says(&done, "acts with a proxy that you delegated to it");
    done.succeeded();
    let mut command = site.lab.xrootd_client(XrootdVersion::V6, "xrdcp").expect("it is there");
    command
        .args([
            "--nopbar",
            "--tpc",
            "delegate",
            "only",
            &from,
            &newest.root("by-theirs"),
        ])
        .envs([("X509_USER_PROXY", &*proxy), ("XrdSecPROTOCOL", "gsi")]);
    run(&command).succeeded();
    for name in ["by-ours", "by-theirs"] {
        assert!(newest.stored(name).as_ref() == Some(&content), "{name}");
    }
    assert!(site.logins("newest/file").iter().all(|subject| subject == DN));
}

/// Our server asks for a proxy once, and says that it has one when it is asked again.
#[test]
fn our_server_fetches_with_the_users_proxy_too() {
    let test = "our_server_fetches_with_the_users_proxy_too";
    let Some(site) = available(test, site()) else { return };
    let content = bytes(3_000_001, 62);
    site.guarded.put("ours/file", &content);
    let (from, proxy) = (site.guarded.root("ours/file"), site.proxy());
    // Before the first copy the server has no proxy of the user, and says so when it is asked.
    for (name, option) in [
        ("first", "--delegate"),
        ("again", "--delegate"),
        ("only", "--delegate=only"),
    ] {
        let done = site.copy(&proxy, &[option, &from, &site.ours.root(name)]);
        assert_says(&done, "acts with a proxy that you delegated to it");
        done.succeeded();
        assert!(site.ours.stored(name).as_ref() == Some(&content), "{name}");
    }
    let refused = site.copy(&proxy, &[&from, &site.ours.root("without")]);
    assert_ne!(refused.code, Some(0), "{}", refused.said());
}

/// Over TLS too the login is by gsi, the only one that delegates.
#[test]
fn a_proxy_is_delegated_over_tls_too() {
    let test = "a_proxy_is_delegated_over_tls_too";
    let Some(site) = available(test, site()) else { return };
    let content = bytes(300_001, 64);
    site.guarded.put("tls/file", &content);
    site.open.put("tls", b"content");
    let (from, proxy) = (site.guarded.root("tls/file"), site.proxy());
    for to in [&site.ours, &site.lite] {
        let done = site.copy(&proxy, &["--delegate=only", &from, &to.roots("over-tls")]);
        assert_says(&done, "acts with a proxy that you delegated to it");
        done.succeeded();
        assert!(to.stored("over-tls").as_ref() == Some(&content));
    }
    // A server without gsi knows us by the certificate in TLS.
    let refused = site.copy(&proxy, &["--delegate=only", &from, &site.tls.roots("no")]);
    assert_says(&refused, "it offers no gsi that could delegate one");
    refused.failed_with(38);
    site.copy(
        &proxy,
        &["--delegate", &site.open.root("tls"), &site.tls.roots("by-key")],
    )
    .succeeded();
}

/// A server without `[delegation]` is not planned with, and its log names the client's offer.
#[test]
fn a_server_without_delegation_says_so() {
    let test = "a_server_without_delegation_says_so";
    let Some(site) = available(test, site()) else { return };
    site.open.put("plain/file", b"content");
    let (from, to, proxy) = (site.open.root("plain/file"), site.guarded.root("target"), site.proxy());
    let plan = site.copy(&proxy, &["--dry-run", "--delegate", &from, &to]);
    assert_says(
        &plan,
        "no delegated pull: the destination does not fetch with delegated proxies: it says so",
    );
    plan.succeeded();
    let refused = site.copy(&proxy, &["--delegate=only", &from, &to]);
    assert_ne!(refused.code, Some(0), "{}", refused.said());
}

#[test]
fn a_delegated_pull_is_a_way_of_the_plan() {
    let test = "a_delegated_pull_is_a_way_of_the_plan";
    let Some(site) = available(test, site()) else { return };
    let (from, to, proxy) = (site.open.root("plan/file"), site.lite.root("plan"), site.proxy());
    site.open.put("plan/file", b"content");
    let plan = ["--proxy", &proxy, "--dry-run", "--delegate", &from, &to];
    let plan = site.lab.run_client("copy", &plan);
    let words = "by delegated pull (the destination fetches as the user, with a delegated proxy: it says so); if that \
                 fails, pull, then stream";
    assert_says(&plan, words);
    plan.succeeded();
    let plan = site.copy(&proxy, &["--dry-run", "--delegate=only", &from, &to]);
    assert_says(&plan, "by delegated pull (as ordered)");
    plan.succeeded();
    let done = site.copy(&proxy, &["--json", "--delegate", &from, &to]);
    assert_says(&done, r#""mode":"delegated pull""#);
    done.succeeded();
    assert_eq!(site.lite.stored("plan").as_deref(), Some(&b"content"[..]));
}

#[test]
fn a_tree_is_copied_in_one_session() {
    let Some(site) = available("a_tree_is_copied_in_one_session", site()) else {
        return;
    };
    for name in ["tree/a", "tree/b", "tree/c/d"] {
        site.guarded.put(name, name.as_bytes());
    }
    let (from, to) = (site.guarded.root("tree/"), site.lite.root("copied"));
    site.copy(&site.proxy(), &["-r", "--delegate=only", &from, &to])
        .succeeded();
    assert_eq!(site.lite.stored("copied/c/d").as_deref(), Some(&b"tree/c/d"[..]));
}

#[test]
fn without_a_proxy_the_copy_goes_on_or_fails_as_the_user_wishes() {
    let test = "without_a_proxy_the_copy_goes_on_or_fails_as_the_user_wishes";
    let Some(site) = available(test, site()) else { return };
    site.open.put("keyed/file", b"content");
    let from = site.open.root("keyed/file");
    let last = ProxyOptions {
        path_length: Some(0),
        ..ProxyOptions::default()
    };
    let last = site
        .jane
        .proxy_with(&last)
        .expect("a proxy")
        .write_proxy(&site.lab.fresh("proxy"));
    let last = last.expect("a file").to_str().expect("plain").to_owned();
    for (name, proxy, to, words, code) in [
        (
            "unused",
            &site.proxy(),
            &site.keyed,
            "does not fetch with delegated proxies",
            38,
        ),
        ("last", &last, &site.lite, "allows no further proxy", 13),
    ] {
        let target = to.root(name);
        let only = site.copy(proxy, &["--delegate=only", &from, &target]).failed_with(code);
        assert_says(&only, words);
        assert_eq!(to.stored(name), None);
        let first = site.copy(proxy, &["--delegate", &from, &target]);
        assert_says(&first, words);
        first.succeeded();
        assert_eq!(to.stored(name).as_deref(), Some(&b"content"[..]));
    }
}

#[test]
fn a_destination_with_the_certificate_of_another_host_gets_no_proxy() {
    let test = "a_destination_with_the_certificate_of_another_host_gets_no_proxy";
    let Some(site) = available(test, site()) else { return };
    site.open.put("other/file", b"content");
    for wish in ["--delegate", "--delegate=only"] {
        let refused = site.copy(
            &site.proxy(),
            &[wish, &site.open.root("other/file"), &site.misnamed.root("file")],
        );
        assert_ne!(refused.code, Some(0), "{}", refused.said());
        assert_says(&refused, "not for localhost, but for other.example");
    }
    assert_eq!(site.misnamed.stored("file"), None);
}
