//! Third-party copies with delegated proxies (TPC Lite), ordered by XRootD's clients and gfal2,
//! between ours and either release of XRootD in both roles. Every server demands gsi, and lets in
//! only members of a VO with a certain role: a copy with any other credential fails.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use conformance::{Endpoint, Lab, Run, Slot, bytes, run, shared, transfers, until};
use testkit::{Result, Xrootd, XrootdAccess, XrootdOptions, XrootdVersion, available, require};

use crate::xroot_delegation::{Member, delegating, server};

const PATIENCE: Duration = Duration::from_secs(30);

struct Site {
    lab: Lab,
    member: Member,
    /// A proxy of a user with the role.
    producer: String,
    ours: [Endpoint; 2],
    theirs: [Endpoint; 2],
    /// The newer release; none where it has not been built.
    newer: Option<[Endpoint; 2]>,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        require("xrdcp")?;
        let lab = Lab::new("tpc-lite")?;
        let member = Member::new(&lab)?;
        let ours = |name| delegating(&lab, name, &member.vomsdir);
        let pair = |version| Ok([theirs(&lab, &member, version)?, theirs(&lab, &member, version)?]);
        Ok(Site {
            producer: member.producer(&lab)?,
            ours: [ours("a")?, ours("b")?],
            theirs: pair(XrootdVersion::V5)?,
            newer: available("pairs_with_the_newer_release", pair(XrootdVersion::V6)),
            member,
            lab,
        })
    })
}

/// An XRootD that demands gsi and asks VOMS' library about the client's role. It copies with the
/// proxy of its client.
fn theirs(lab: &Lab, member: &Member, version: XrootdVersion) -> Result<Endpoint> {
    theirs_with(lab, member, version, "")
}

/// The same with further lines of its configuration.
fn theirs_with(lab: &Lab, member: &Member, version: XrootdVersion, more: &str) -> Result<Endpoint> {
    version.require_plug_in("libXrdVoms")?;
    let own = lab.fresh("theirs");
    let rules = lab.file(b"r production /data a\n");
    let more = format!(
        "setenv X509_VOMS_DIR = {vomsdir}\n\
         xrootd.seclib libXrdSec.so\n\
         sec.protocol gsi -certdir:{trust} -cert:{own}/host.pem -key:{own}/host.key -crl:1 \
         -gmapopt:0 -vomsat:require -vomsfun:libXrdVoms.so -dlgpxy:request -exppxy:=creds\n\
         ofs.tpc fcreds ?gsi =X509_USER_PROXY\n\
         ofs.authorize 1\n\
         acc.authdb {rules}\n{more}",
        vomsdir = member.vomsdir.display(),
        trust = lab.authority().trust_directory().display(),
        own = own.display(),
        rules = rules.display(),
    );
    let server = Xrootd::start(&XrootdOptions {
        version,
        data: own.join("files/data"),
        directory: own,
        more,
        ..lab.xrootd_options("theirs", XrootdAccess::Open)
    })?;
    Ok(Endpoint::Xrootd(Box::new(server)))
}

/// A source, a destination, and who gives the order.
#[derive(Clone, Copy)]
struct Pair<'a> {
    name: &'static str,
    /// The release of `xrdcp`.
    client: XrootdVersion,
    from: &'a Endpoint,
    to: &'a Endpoint,
}

impl Site {
    fn pairs(&self) -> Vec<Pair<'_>> {
        use XrootdVersion::{V5, V6};
        let (ours, theirs) = (&self.ours, &self.theirs);
        let mut pairs = vec![
            ("theirs-to-theirs", V5, &theirs[0], &theirs[1]),
            ("ours-to-theirs", V5, &ours[0], &theirs[0]),
            ("theirs-to-ours", V5, &theirs[0], &ours[0]),
            ("ours-to-ours", V5, &ours[0], &ours[1]),
        ];
        if let Some(newer) = &self.newer {
            pairs.extend([
                ("newer-to-newer", V6, &newer[0], &newer[1]),
                ("ours-to-newer", V6, &ours[0], &newer[0]),
                ("newer-to-ours", V6, &newer[0], &ours[0]),
                ("ours-to-ours-by-newer", V6, &ours[1], &ours[0]),
            ]);
        }
        let pair = |(name, client, from, to)| Pair { name, client, from, to };
        pairs.into_iter().map(pair).collect()
    }

    fn xrdcp(&self, client: XrootdVersion, proxy: &str, arguments: &[&str]) -> Run {
        let mut command = self.lab.xrootd_client(client, "xrdcp").expect("as before");
        command.arg("--nopbar").args(arguments).env("X509_USER_PROXY", proxy);
        run(&command)
    }
}

/// Runs a check with every pair, all at once, because the programs look only every two or three
/// seconds whether a copy has ended.
#[track_caller]
fn each_pair(test: &str, check: impl Fn(&Site, &Pair<'_>) + Sync) {
    let Some(site) = available(test, site()) else { return };
    let pairs = site.pairs();
    thread::scope(|scope| {
        let (site, check) = (&site, &check);
        let start = |pair| scope.spawn(move || check(site, pair));
        // All are begun before one is waited for.
        let running: Vec<_> = pairs.iter().map(|pair| (pair.name, start(pair))).collect();
        let failed: Vec<&str> = running
            .into_iter()
            .filter_map(|(name, running)| running.join().is_err().then_some(name))
            .collect();
        assert!(failed.is_empty(), "{failed:?}, see above");
    });
}

/// Orders a copy, and demands that it arrives by the delegated proxy.
#[track_caller]
fn copied(pair: &Pair<'_>, way: &str, order: impl FnOnce(&str, &str) -> Run) {
    let (content, file) = (bytes(3_000_001, 271), format!("{}-{way}", pair.name));
    let (from, to) = (pair.from, pair.to);
    from.put(&file, &content);
    order(&from.root(&file), &to.root(&file)).succeeded();
    assert!(to.stored(&file).as_ref() == Some(&content), "{file}");
    if to.is_ours() {
        let path = format!("/data/{file}");
        until("the log says what was shown", PATIENCE, || {
            let lines = transfers(server(to).log());
            let mut about = lines.iter().filter(|line| line["path"] == path.as_str());
            about.any(|line| line["peer_credential"] == "delegated_proxy" && line["outcome"] == "success")
        });
    }
}

#[test]
fn xrdcp_orders_copies_with_its_proxy() {
    each_pair("xrdcp_orders_copies_with_its_proxy", |site, pair| {
        for way in ["only", "first"] {
            copied(pair, way, |source, target| {
                let order = ["--tpc", "delegate", way, source, target];
                site.xrdcp(pair.client, &site.producer, &order)
            });
        }
    });
}

#[test]
fn gfal_orders_copies_with_its_proxy() {
    each_pair("gfal_orders_copies_with_its_proxy", |site, pair| {
        if available("gfal_orders_copies_with_its_proxy", require("gfal-copy")).is_none() {
            return;
        }
        copied(pair, "gfal", |source, target| {
            let mut command = site.lab.command("gfal-copy").expect("as before");
            command.args([source, target]).env("X509_USER_PROXY", &site.producer);
            run(&command)
        });
    });
}

#[test]
fn a_copy_without_the_proxy_fails_at_such_a_source() {
    let test = "a_copy_without_the_proxy_fails_at_such_a_source";
    each_pair(test, |site, pair| {
        let file = format!("{}-key", pair.name);
        pair.from.put(&file, b"content");
        // The destination has nothing but the key, and the source demands gsi.
        let order = ["--tpc", "only", &pair.from.root(&file), &pair.to.root(&file)];
        let failed = site.xrdcp(pair.client, &site.producer, &order);
        assert_ne!(failed.code, Some(0), "{}", failed.said());
        assert_eq!(pair.to.stored(&file), None, "{}", pair.name);
    });
}

/// With the same proxies as in the copies above, less the role.
#[test]
fn a_member_without_the_role_is_refused() {
    let test = "a_member_without_the_role_is_refused";
    each_pair(test, |site, pair| {
        let file = format!("{}-member", pair.name);
        pair.from.put(&file, b"content");
        let member = site.member.proxy_of(&site.lab, &["/testers/Role=NULL/Capability=NULL"]);
        let (member, down) = (member.expect("a proxy"), site.lab.fresh("down"));
        let down = down.to_str().expect("plain");
        let refused = site.xrdcp(pair.client, &member, &[&pair.from.root(&file), down]);
        assert!(refused.stderr.contains("[3010]"), "{}: {}", pair.name, refused.said());
        site.xrdcp(pair.client, &site.producer, &[&pair.from.root(&file), down])
            .succeeded();
    });
}

#[test]
fn our_client_orders_copies_with_its_proxy() {
    each_pair("our_client_orders_copies_with_its_proxy", |site, pair| {
        copied(pair, "ours", |source, target| {
            let arguments = [
                "--proxy",
                &site.producer,
                "--mode",
                "pull",
                "--delegate=only",
                source,
                target,
            ];
            site.lab.run_client("copy", &arguments)
        });
    });
}

/// The source lets in destinations that show no certificate, and gives them nothing but what a key
/// is registered for.
#[test]
fn our_client_orders_copies_with_a_key_that_its_proxy_registers() {
    let test = "our_client_orders_copies_with_a_key_that_its_proxy_registers";
    let Some(site) = available(test, site()) else { return };
    for version in XrootdVersion::ALL {
        let plain = "sec.protocol unix\nsec.protbind * gsi unix\n";
        let source = theirs_with(&site.lab, &site.member, version, plain);
        let Some(source) = available(test, source) else {
            continue;
        };
        let content = bytes(3_000_001, 273);
        source.put("keyed", &content);
        let destinations = [("theirs", &site.theirs[0]), ("ours", &site.ours[0])];
        for (name, to) in destinations {
            let name = format!("{name}-keyed-{}", version.number());
            let order = [
                "--proxy",
                &site.producer,
                "--mode",
                "pull",
                "-v",
                &source.root("keyed"),
                &to.root(&name),
            ];
            site.lab.run_client("copy", &order).succeeded();
            assert!(to.stored(&name).as_ref() == Some(&content), "{name}");
        }
        // Without the proxy there is no key, and no file.
        let down = site.lab.fresh("down");
        let refused = site
            .lab
            .run_client("copy", &[&source.root("keyed"), down.to_str().expect("plain")]);
        assert_ne!(refused.code, Some(0), "{}", refused.said());
    }
}
