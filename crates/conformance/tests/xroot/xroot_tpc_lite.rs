//! Third-party copies with delegated proxies (TPC Lite), ordered by XRootD's client and gfal2,
//! between ours and Debian's XRootD in both roles. Our source lets in only members of a VO with a
//! certain role, XRootD as the source only one person, all by gsi: a copy with any other credential
//! fails.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use conformance::{Endpoint, Lab, Run, Slot, bytes, run, shared, transfers, until};
use testkit::{Result, Xrootd, XrootdAccess, XrootdOptions, available, require};

use crate::xroot_delegation::{DN, Member, delegating, server};

const PATIENCE: Duration = Duration::from_secs(30);

struct Site {
    lab: Lab,
    /// A user with the role.
    producer: String,
    ours: [Endpoint; 2],
    theirs: [Endpoint; 2],
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        require("xrdcp")?;
        let lab = Lab::new("tpc-lite")?;
        let member = Member::new(&lab)?;
        Ok(Site {
            producer: member.producer(&lab)?,
            ours: [
                delegating(&lab, "a", &member.vomsdir)?,
                delegating(&lab, "b", &member.vomsdir)?,
            ],
            theirs: [theirs(&lab, "c")?, theirs(&lab, "d")?],
            lab,
        })
    })
}

/// Debian's XRootD, which demands gsi and lets only Jane Doe in. It copies with the proxy of its
/// client. (VOMS' library, which it would ask about the role, does not accept what
/// `voms-proxy-fake` signs.)
fn theirs(lab: &Lab, name: &str) -> Result<Endpoint> {
    let own = lab.fresh(name);
    let (rules, map) = (
        lab.file(b"u jdoe /data a\n"),
        lab.file(format!("\"{DN}\" jdoe\n").as_bytes()),
    );
    let more = format!(
        "xrootd.seclib libXrdSec.so\n\
         sec.protocol gsi -certdir:{trust} -cert:{own}/host.pem -key:{own}/host.key -crl:1 \
         -gridmap:{map} -gmapopt:2 -dlgpxy:request -exppxy:=creds\n\
         ofs.tpc fcreds ?gsi =X509_USER_PROXY\n\
         ofs.authorize 1\n\
         acc.authdb {rules}\n",
        trust = lab.authority().trust_directory().display(),
        own = own.display(),
        map = map.display(),
        rules = rules.display(),
    );
    let server = Xrootd::start(&XrootdOptions {
        data: own.join("files/data"),
        directory: own,
        more,
        ..lab.xrootd_options(name, XrootdAccess::Open)
    })?;
    Ok(Endpoint::Xrootd(Box::new(server)))
}

/// What a pair is called, its source and its destination.
type Pair<'a> = (&'static str, &'a Endpoint, &'a Endpoint);

impl Site {
    fn pairs(&self) -> [Pair<'_>; 4] {
        [
            ("theirs-to-theirs", &self.theirs[0], &self.theirs[1]),
            ("ours-to-theirs", &self.ours[0], &self.theirs[0]),
            ("theirs-to-ours", &self.theirs[0], &self.ours[0]),
            ("ours-to-ours", &self.ours[0], &self.ours[1]),
        ]
    }

    fn xrdcp(&self, arguments: &[&str]) -> Run {
        self.lab.xrdcp_with(&[("X509_USER_PROXY", &self.producer)], arguments)
    }
}

/// Runs a check with every pair, all at once, because the programs look only every two or three
/// seconds whether a copy has ended.
#[track_caller]
fn each_pair(test: &str, check: impl Fn(&Site, Pair<'_>) + Sync) {
    let Some(site) = available(test, site()) else { return };
    let pairs = site.pairs();
    thread::scope(|scope| {
        let (site, check) = (&site, &check);
        let running = pairs.map(|pair| (pair.0, scope.spawn(move || check(site, pair))));
        let failed = running
            .into_iter()
            .filter_map(|(name, running)| running.join().is_err().then_some(name));
        let failed: Vec<&str> = failed.collect();
        assert!(failed.is_empty(), "{failed:?}, see above");
    });
}

/// Orders a copy, and demands that it arrives by the delegated proxy.
#[track_caller]
fn copied((name, from, to): Pair<'_>, way: &str, order: impl FnOnce(&str, &str) -> Run) {
    let content = bytes(3_000_001, 271);
    let file = format!("{name}-{way}");
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
                site.xrdcp(&["--tpc", "delegate", way, source, target])
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
    each_pair(
        "a_copy_without_the_proxy_fails_at_such_a_source",
        |site, (name, from, to)| {
            let file = format!("{name}-key");
            from.put(&file, b"content");
            // The destination has nothing but the key, and the source demands gsi.
            let failed = site.xrdcp(&["--tpc", "only", &from.root(&file), &to.root(&file)]);
            assert_ne!(failed.code, Some(0), "{}", failed.said());
            assert_eq!(to.stored(&file), None, "{name}");
        },
    );
}
