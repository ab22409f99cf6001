//! Proxies delegated in logins by gsi: what XRootD's client and gfal2 sign, and what our server
//! keeps.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use conformance::{Endpoint, Lab, Run, Slot, requests_with, run, shared};
use serde_json::Value;
use testkit::{Access, Crossload, CrossloadOptions, Result, User, VomsServer, XrootdVersion, available, require};

pub(crate) const DN: &str = "/O=Crossload test/CN=Jane Doe";
/// What XRootD's client does about delegation: 1, it offers to sign a proxy.
const VARIABLE: &str = "XrdSecGSIDELEGPROXY";

/// A user, and the server of a VO.
pub(crate) struct Member {
    voms: VomsServer,
    pub(crate) vomsdir: PathBuf,
    jane: User,
}

impl Member {
    pub(crate) fn new(lab: &Lab) -> Result<Self> {
        require("voms-proxy-fake")?;
        let voms = lab.authority().issue_voms_server("testers")?;
        let vomsdir = lab.fresh("vomsdir");
        voms.write_lsc(&vomsdir)?;
        let jane = lab.authority().issue_user(DN)?;
        Ok(Self { voms, vomsdir, jane })
    }

    /// A proxy with a role in the VO, made by VOMS' own program. The names are as VOMS servers
    /// write them: XRootD grants nothing to a proxy with a role in only some of its attributes.
    pub(crate) fn producer(&self, lab: &Lab) -> Result<String> {
        let fqans = [
            "/testers/Role=production/Capability=NULL",
            "/testers/Role=NULL/Capability=NULL",
        ];
        self.proxy_of(lab, &fqans)
    }

    /// A proxy with these names in the VO, made by VOMS' own program.
    pub(crate) fn proxy_of(&self, lab: &Lab, fqans: &[&str]) -> Result<String> {
        let made = self.voms.fake_proxy(&self.jane, fqans, &lab.fresh("fake"));
        Ok(text(&made?))
    }
}

struct Site {
    lab: Lab,
    member: Member,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        require("xrdfs")?;
        let lab = Lab::new("delegation")?;
        let member = Member::new(&lab)?;
        Ok(Site { lab, member })
    })
}

/// One of our servers, which demands gsi, asks for proxies and lets in only those with the role.
pub(crate) fn delegating(lab: &Lab, name: &str, vomsdir: &Path) -> Result<Endpoint> {
    let server = lab.crossload(delegating_options(lab, name, vomsdir))?;
    Ok(Endpoint::Crossload(Box::new(server)))
}

/// What such a server is started with.
pub(crate) fn delegating_options(lab: &Lab, name: &str, vomsdir: &Path) -> CrossloadOptions {
    let mut options = lab.options(name);
    options.exports[0].anonymous = Access::None;
    // With them clients would be made to switch to TLS, and gsi is for clear text.
    options.macaroons = false;
    let store = options.directory.join("delegated");
    options.more = format!(
        "[xroot]\nauthentication = [\"gsi\"]\n\
         [x509]\ntrust_directory = {:?}\nvoms_directory = {vomsdir:?}\n\
         [delegation]\ndirectory = {store:?}\nkey_file = \"delegation.key\"\n\
         [[rule]]\nwho = \"fqan:/testers/Role=production\"\npath = \"/data\"\nmay = [\"all\"]\n",
        lab.authority().trust_directory(),
    );
    options
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("plain").to_owned()
}

pub(crate) fn server(of: &Endpoint) -> &Crossload {
    match of {
        Endpoint::Crossload(server) => server,
        Endpoint::Xrootd(_) => panic!("it is ours"),
    }
}

/// The lines about delegation in a server's log, as soon as there are so many.
fn told(of: &Endpoint, count: usize) -> Vec<Value> {
    let is_about = |line: &Value| line["delegation"].is_string();
    let mut lines = requests_with(server(of).log(), count, "lines about delegation", is_about);
    lines.retain(is_about);
    lines
}

/// What a server keeps on disk.
fn kept(of: &Endpoint) -> usize {
    let directory = server(of).configuration().with_file_name("delegated");
    std::fs::read_dir(directory).expect("the directory").count()
}

/// Runs a check with the client of each release.
#[track_caller]
fn each_client(test: &str, check: impl Fn(&Site, XrootdVersion)) {
    let Some(site) = available(test, site()) else { return };
    for version in XrootdVersion::ALL {
        if available(test, version.require("xrdfs")).is_some() {
            check(&site, version);
        }
    }
}

impl Site {
    /// Looks at the export with a proxy.
    fn look(&self, version: XrootdVersion, at: &Endpoint, proxy: &str, delegate: Option<&str>) -> Run {
        let mut command = self.lab.xrootd_client(version, "xrdfs").expect("as before");
        command
            .args([&at.root_address(), "stat", "/data"])
            .env("X509_USER_PROXY", proxy);
        command.envs(delegate.map(|value| (VARIABLE, value)));
        run(&command)
    }
}

#[test]
fn xrootds_client_signs_a_proxy_when_it_is_asked() {
    each_client("xrootds_client_signs_a_proxy_when_it_is_asked", |site, version| {
        let ours = delegating(&site.lab, "signs", &site.member.vomsdir).expect("started");
        let proxy = site.member.producer(&site.lab).expect("a proxy");
        // By default it signs nothing; with 2 it would send its private key.
        for delegate in [None, Some("2")] {
            site.look(version, &ours, &proxy, delegate).succeeded();
            assert_eq!(kept(&ours), 0, "{delegate:?}");
        }
        for _ in 0..3 {
            site.look(version, &ours, &proxy, Some("1")).succeeded();
        }
        let lines = told(&ours, 2);
        let steps: Vec<_> = lines.iter().map(|line| line["delegation"].clone()).collect();
        assert_eq!(steps, ["asked", "received"], "{}", version.number());
        // Debian's release signs with SHA-1.
        let note = lines[1]["delegation_error"]["code"].as_str();
        let expected = (version == XrootdVersion::V5).then_some("certificate_weak");
        assert_eq!(note, expected, "{}", lines[1]);
        assert_eq!(kept(&ours), 1);
        let log = server(&ours).log().stderr();
        assert!(!log.contains("BEGIN") && !log.contains("PRIVATE"), "no key is logged");
    });
}

#[test]
fn a_client_with_a_limited_proxy_gets_in_without_delegating() {
    let test = "a_client_with_a_limited_proxy_gets_in_without_delegating";
    each_client(test, |site, version| {
        let ours = delegating(&site.lab, "limited", &site.member.vomsdir).expect("started");
        let member = &site.member;
        let attributes = member.voms.attributes(&member.jane, &["/testers/Role=production"]);
        let options = testkit::ProxyOptions {
            is_limited: true,
            attributes: vec![attributes.expect("attributes")],
            ..testkit::ProxyOptions::default()
        };
        let limited = member.jane.proxy_with(&options).expect("a proxy");
        let limited = text(&limited.write_proxy(&site.lab.fresh("limited")).expect("a file"));
        // XRootD's client signs a full proxy with a limited one.
        site.look(version, &ours, &limited, Some("1")).succeeded();
        let lines = told(&ours, 2);
        let refused = lines
            .iter()
            .find(|line| line["delegation"] == "refused")
            .expect("it says so");
        assert_eq!(refused["delegation_error"]["code"], "proxy_widened", "{refused}");
        assert_eq!((refused["status"].as_u64(), kept(&ours)), (Some(0), 0), "{refused}");
        // So the next login costs no key.
        site.look(version, &ours, &limited, Some("1")).succeeded();
        let lines = told(&ours, 3);
        let last = lines.iter().find(|line| line["delegation"] == "not_asked");
        let last = last.expect("it says so");
        assert_eq!(last["delegation_error"]["code"], "delegation_refused", "{last}");
    });
}
