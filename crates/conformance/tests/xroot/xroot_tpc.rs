//! Third-party copies of the XRootD protocol, as its own programs and gfal2 order them: between two
//! of Debian's XRootD, which shows that the order is right, between ours and XRootD in both roles,
//! and between two of ours. All that between servers that are called by a name and listen for IPv4,
//! between servers that listen for both families as XRootD does unless told otherwise, and between
//! one kind and the other.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::thread;

use conformance::{Endpoint, Lab, Run, Slot, adler32, bytes, run, shared};
use testkit::{AddressFamilies, Result, Xrootd, XrootdAccess, XrootdOptions, available, require, require_python};

/// A server, and what clients call its host.
struct Server {
    endpoint: Endpoint,
    host: &'static str,
}

impl Server {
    fn root(&self, name: &str) -> String {
        self.endpoint.root(name).replacen("localhost", self.host, 1)
    }
}

impl Deref for Server {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// Two of each, of every kind.
struct Site {
    lab: Lab,
    /// On addresses of IPv4, under a name.
    named: World,
    /// For both families, and known by their addresses: of IPv4 addresses in the form of IPv6,
    /// `/etc/hosts` knows no name.
    dual_stack: World,
}

struct World {
    ours: [Server; 2],
    theirs: [Server; 2],
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn world(lab: &Lab, families: AddressFamilies, host: &'static str) -> Result<World> {
    let server = |endpoint| Server { endpoint, host };
    let ours = |name: &str| {
        let mut options = lab.options(name);
        if families == AddressFamilies::Both {
            "[::]".clone_into(&mut options.address);
        }
        Ok::<_, testkit::Error>(server(Endpoint::Crossload(Box::new(lab.crossload(options)?))))
    };
    let theirs = |name: &str| {
        let options = XrootdOptions {
            families,
            ..lab.xrootd_options(name, XrootdAccess::Open)
        };
        Ok::<_, testkit::Error>(server(Endpoint::Xrootd(Box::new(Xrootd::start(&options)?))))
    };
    Ok(World {
        ours: [ours("a")?, ours("b")?],
        theirs: [theirs("c")?, theirs("d")?],
    })
}

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        require("xrdcp")?;
        let lab = Lab::new("xroot-tpc")?;
        let named = world(&lab, AddressFamilies::V4, "localhost")?;
        let dual_stack = world(&lab, AddressFamilies::Both, "127.0.0.1")?;
        Ok(Site { lab, named, dual_stack })
    })
}

impl World {
    fn pairs(&self, kind: &str) -> [Pair<'_>; 4] {
        [
            ("theirs-to-theirs", &self.theirs[0], &self.theirs[1]),
            ("ours-to-theirs", &self.ours[0], &self.theirs[0]),
            ("theirs-to-ours", &self.theirs[0], &self.ours[0]),
            ("ours-to-ours", &self.ours[0], &self.ours[1]),
        ]
        .map(|(name, from, to)| (format!("{kind}-{name}"), from, to))
    }
}

/// What a pair is called, its source and its destination.
type Pair<'a> = (String, &'a Server, &'a Server);

/// Runs a check with every pair of source and destination, all at once, because the programs look
/// only every two or three seconds whether a copy has ended. The name is the pair's.
#[track_caller]
fn each_pair(test: &str, check: impl Fn(&Lab, &Server, &Server, &str) + Sync) {
    let Some(site) = available(test, site()) else { return };
    let pairs = [site.named.pairs("named"), site.dual_stack.pairs("dual-stack")].concat();
    each_of(&site.lab, &pairs, &check);
}

#[track_caller]
fn each_of(lab: &Lab, pairs: &[Pair<'_>], check: &(impl Fn(&Lab, &Server, &Server, &str) + Sync)) {
    thread::scope(|scope| {
        let start = |(name, from, to)| (name, scope.spawn(move || check(lab, from, to, name)));
        let all: Vec<_> = pairs
            .iter()
            .map(|(name, from, to)| start((name.as_str(), *from, *to)))
            .collect();
        let failed: Vec<&str> = all
            .into_iter()
            .filter_map(|(name, running)| running.join().is_err().then_some(name))
            .collect();
        assert!(failed.is_empty(), "{failed:?}, see above");
    });
}

/// Copies a file of this size and demands that it arrives.
#[track_caller]
fn copied(from: &Server, to: &Server, name: &str, size: usize, order: impl Fn(&str, &str) -> Run) {
    let content = bytes(size, 261);
    from.put(name, &content);
    to.make_directory(name.rsplit_once('/').expect("a directory").0);
    order(&from.root(name), &to.root(name)).succeeded();
    assert!(to.stored(name).as_ref() == Some(&content), "{name}: {size} bytes");
}

#[test]
fn xrdcp_orders_copies_of_all_sizes() {
    each_pair("xrdcp_orders_copies_of_all_sizes", |lab, from, to, pair| {
        thread::scope(|scope| {
            for (index, size) in [0, 1, 4097, 20_000_003].into_iter().enumerate() {
                let name = format!("sizes-{pair}/{index}");
                scope.spawn(move || {
                    copied(from, to, &name, size, |source, target| {
                        lab.xrdcp(&["--tpc", "only", source, target])
                    });
                });
            }
        });
    });
}

/// A server that listens for IPv4 only names a client otherwise than one that listens for both
/// families.
#[test]
fn servers_that_listen_otherwise_name_the_client_otherwise_and_copy_still() {
    let test = "servers_that_listen_otherwise_name_the_client_otherwise_and_copy_still";
    let Some(site) = available(test, site()) else { return };
    let (named, dual) = (&site.named, &site.dual_stack);
    let pairs: [(&str, &Server, &Server); 4] = [
        ("theirs-for-both-to-ours-for-one", &dual.theirs[0], &named.ours[0]),
        ("theirs-for-one-to-ours-for-both", &named.theirs[0], &dual.ours[0]),
        ("ours-for-both-to-theirs-for-one", &dual.ours[0], &named.theirs[0]),
        ("ours-for-one-to-theirs-for-both", &named.ours[0], &dual.theirs[0]),
    ];
    let pairs = pairs.map(|(name, from, to)| (name.to_owned(), from, to));
    each_of(&site.lab, &pairs, &|lab: &Lab,
                                 from: &Server,
                                 to: &Server,
                                 pair: &str| {
        copied(from, to, &format!("mixed-{pair}/xrdcp"), 3_000_001, |source, target| {
            // The other name of the named ones: each host is called by its address in both orders.
            let [source, target] = [source, target].map(|url| url.replacen("localhost", "127.0.0.1", 1));
            lab.xrdcp(&["--tpc", "only", &source, &target])
        });
    });
    // Its clients of IPv4 are called so, in whatever form the socket told their addresses.
    if let Endpoint::Crossload(server) = &dual.ours[0].endpoint {
        let log = server.log().stderr();
        assert!(
            log.contains("\"peer\":\"127.0.0.1:") && !log.contains("::ffff"),
            "{log}"
        );
    }
}

#[test]
fn our_client_orders_copies() {
    each_pair("our_client_orders_copies", |lab, from, to, pair| {
        copied(from, to, &format!("client-{pair}/file"), 3_000_001, |source, target| {
            lab.run_client("copy", &["--mode", "pull", "-K", "adler32", source, target])
        });
    });
}

#[test]
fn xrdcp_compares_the_checksums_of_both_sides() {
    each_pair("xrdcp_compares_the_checksums_of_both_sides", |lab, from, to, pair| {
        let name = format!("sums-{pair}/file");
        copied(from, to, &name, 3_000_001, |source, target| {
            lab.xrdcp(&["--tpc", "only", "-C", "adler32:source", source, target])
        });
        let (source, target) = (from.root(&name), to.root(&format!("sums-{pair}/wrong")));
        let wrong = lab.xrdcp(&["--tpc", "only", "-C", "adler32:00000001", &source, &target]);
        assert_ne!(wrong.code, Some(0), "{}", wrong.said());
        assert!(wrong.said().contains("CheckSum error"), "{}", wrong.said());
    });
}

#[test]
fn xrdcp_asks_for_several_streams_first_and_delegation() {
    each_pair(
        "xrdcp_asks_for_several_streams_first_and_delegation",
        |lab, from, to, pair| {
            let ways = [&["only", "-S", "4"][..], &["first"], &["delegate", "first"]];
            thread::scope(|scope| {
                for (index, way) in ways.into_iter().enumerate() {
                    let name = format!("ways-{pair}/{index}");
                    scope.spawn(move || {
                        copied(from, to, &name, 20_000_003, |source, target| {
                            let arguments = [&["--tpc"], way, &[source, target]].concat();
                            lab.xrdcp(&arguments)
                        });
                    });
                }
            });
        },
    );
}

#[test]
fn what_is_missing_or_there_already_is_told_and_kept() {
    each_pair(
        "what_is_missing_or_there_already_is_told_and_kept",
        |lab, from, to, pair| {
            to.make_directory(&format!("kept-{pair}"));
            let only = |arguments: &[&str]| lab.xrdcp(&[&["--tpc", "only"], arguments].concat());
            let target = to.root(&format!("kept-{pair}/target"));
            let missing = only(&[&from.root(&format!("kept-{pair}/none")), &target]).failed_with(54);
            assert!(missing.stderr.contains("[3011]"), "{}", missing.said());
            assert_eq!(to.stored(&format!("kept-{pair}/target")), None);
            let (old, new) = (bytes(1000, 262), bytes(2_000_000, 263));
            // Uploaded, so that the server may replace it.
            let local = lab.file(&old);
            lab.xrdcp(&[local.to_str().expect("plain"), &target]).succeeded();
            let source = format!("kept-{pair}/source");
            from.put(&source, &new);
            let refused = only(&[&from.root(&source), &target]);
            assert_ne!(refused.code, Some(0), "{}", refused.said());
            assert!(refused.stderr.contains("file exists"), "{}", refused.said());
            assert!(to.stored(&format!("kept-{pair}/target")).as_ref() == Some(&old));
            only(&["-f", &from.root(&source), &target]).succeeded();
            assert!(to.stored(&format!("kept-{pair}/target")).as_ref() == Some(&new));
        },
    );
}

#[test]
fn gfal_orders_copies() {
    each_pair("gfal_orders_copies", |lab, from, to, pair| {
        if available("gfal_orders_copies", require("gfal-copy")).is_none() {
            return;
        }
        let content = bytes(9_000_001, 264);
        let name = format!("gfal-{pair}/file");
        from.put(&name, &content);
        to.make_directory(&format!("gfal-{pair}"));
        let sum = format!("ADLER32:{:08x}", adler32(&content));
        let (source, target) = (from.root(&name), to.root(&name));
        lab.gfal("copy", &["-K", &sum, &source, &target]).succeeded();
        assert!(to.stored(&name).as_ref() == Some(&content));
        lab.gfal("copy", &[&source, &target]).failed_with(17);
        let missing = from.root(&format!("gfal-{pair}/none"));
        let elsewhere = to.root(&format!("gfal-{pair}/missing"));
        lab.gfal("copy", &[&missing, &elsewhere]).failed_with(2);
        assert_eq!(to.stored(&format!("gfal-{pair}/missing")), None);
    });
}

#[test]
fn a_later_client_orders_several_copies_at_once() {
    let test = "a_later_client_orders_several_copies_at_once";
    let Some(python) = available(test, require_python("uproot")) else {
        return;
    };
    each_pair(test, |lab, from, to, pair| {
        let content = bytes(5_000_001, 265);
        let name = format!("later-{pair}/file");
        from.put(&name, &content);
        to.make_directory(&format!("later-{pair}"));
        let mut command = lab.prepared(&python);
        let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("python/thirdparty.py");
        // XRootD now and then never answers one of several.
        let count = to.either(6, 1);
        command
            .arg(script)
            .args([&from.root(&name), &to.root(&name), &count.to_string()]);
        run(&command).succeeded();
        for index in 0..count {
            assert!(
                to.stored(&format!("{name}-{index}")).as_ref() == Some(&content),
                "{index}"
            );
        }
    });
}
