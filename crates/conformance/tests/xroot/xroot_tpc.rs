//! Third-party copies of the XRootD protocol, as its own programs and gfal2 order them: between two
//! of Debian's XRootD, which shows that the order is right, between ours and either release of
//! XRootD in both roles, and between two of ours. All that between servers that are called by a
//! name and listen for IPv4, between servers that listen for both families as XRootD does unless
//! told otherwise, and between one kind and the other. Where the newer release is a party, its
//! `xrdcp` gives the order, too.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use conformance::{Endpoint, Lab, Run, Slot, adler32, bytes, run, shared};
use testkit::{
    AddressFamilies, Result, Xrootd, XrootdAccess, XrootdOptions, XrootdVersion, available, require, require_python,
};

/// A server, and what clients call its host.
#[derive(Clone)]
struct Server {
    endpoint: Arc<Endpoint>,
    host: &'static str,
}

impl Server {
    fn new(endpoint: Endpoint, host: &'static str) -> Self {
        let endpoint = Arc::new(endpoint);
        Self { endpoint, host }
    }

    fn root(&self, name: &str) -> String {
        self.endpoint.root(name).replacen("localhost", self.host, 1)
    }

    /// The same server under another name of its host.
    fn called(&self, host: &'static str) -> Self {
        let endpoint = self.endpoint.clone();
        Self { endpoint, host }
    }
}

impl Deref for Server {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// Servers of every kind.
struct Site {
    lab: Lab,
    /// On addresses of IPv4, under a name.
    named: World,
    /// For both families, and known by their addresses: of IPv4 addresses in the form of IPv6,
    /// `/etc/hosts` knows no name.
    dual_stack: World,
    /// On addresses of IPv6, one of each.
    six: World,
}

/// Servers that listen alike.
struct World {
    families: AddressFamilies,
    ours: Vec<Server>,
    theirs: Vec<Server>,
    /// The newer release; none where it has not been built.
    newer: Vec<Server>,
}

/// A source, a destination, and who gives the order.
#[derive(Clone)]
struct Pair {
    name: String,
    from: Server,
    to: Server,
    /// The release of `xrdcp`.
    client: XrootdVersion,
}

impl Pair {
    fn new(name: &str, client: XrootdVersion, from: &Server, to: &Server) -> Self {
        let (name, from, to) = (name.to_owned(), from.clone(), to.clone());
        Self { name, from, to, client }
    }

    fn xrdcp(&self, lab: &Lab, arguments: &[&str]) -> Run {
        let mut command = lab.xrootd_client(self.client, "xrdcp").expect("it is installed");
        if self.to.host.starts_with('[') {
            command.env("XRD_NETWORKSTACK", "IPv6");
        }
        run(command.arg("--nopbar").args(arguments))
    }
}

static SITE: Slot<Site> = Slot::new(Weak::new());

/// So many servers of each kind.
fn world(lab: &Lab, families: AddressFamilies, host: &'static str, count: usize) -> Result<World> {
    let ours = || {
        let mut options = lab.options("ours");
        let address = match families {
            AddressFamilies::V4 => "127.0.0.1",
            AddressFamilies::V6 => "[::1]",
            AddressFamilies::Both => "[::]",
        };
        address.clone_into(&mut options.address);
        let server = lab.crossload(options)?;
        Ok(Server::new(Endpoint::Crossload(Box::new(server)), host))
    };
    let xrootd = |version| {
        let options = XrootdOptions {
            version,
            families,
            ..lab.xrootd_options("theirs", XrootdAccess::Open)
        };
        let server = Xrootd::start(&options)?;
        Ok(Server::new(Endpoint::Xrootd(Box::new(server)), host))
    };
    let newer: Result<Vec<Server>> = (0..count).map(|_| xrootd(XrootdVersion::V6)).collect();
    Ok(World {
        families,
        ours: (0..count).map(|_| ours()).collect::<Result<_>>()?,
        theirs: (0..count).map(|_| xrootd(XrootdVersion::V5)).collect::<Result<_>>()?,
        newer: available("pairs_with_the_newer_release", newer).unwrap_or_default(),
    })
}

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        require("xrdcp")?;
        let lab = Lab::new("xroot-tpc")?;
        Ok(Site {
            named: world(&lab, AddressFamilies::V4, "localhost", 2)?,
            dual_stack: world(&lab, AddressFamilies::Both, "127.0.0.1", 2)?,
            six: world(&lab, AddressFamilies::V6, "[::1]", 1)?,
            lab,
        })
    })
}

impl World {
    fn pairs(&self, kind: &str) -> Vec<Pair> {
        use XrootdVersion::{V5, V6};
        let (ours, theirs) = (&self.ours, &self.theirs);
        let mut pairs = vec![
            ("theirs-to-theirs", V5, &theirs[0], &theirs[1]),
            ("ours-to-theirs", V5, &ours[0], &theirs[0]),
            ("theirs-to-ours", V5, &theirs[0], &ours[0]),
            ("ours-to-ours", V5, &ours[0], &ours[1]),
        ];
        if let [first, second] = &self.newer[..] {
            pairs.extend([
                ("newer-to-newer", V6, first, second),
                ("ours-to-newer", V6, &ours[0], first),
                ("newer-to-ours", V6, first, &ours[0]),
                ("ours-to-ours-by-newer", V6, &ours[1], &ours[0]),
            ]);
        }
        let pairs = pairs.into_iter();
        pairs
            .map(|(name, client, from, to)| Pair::new(&format!("{kind}-{name}"), client, from, to))
            .collect()
    }

    /// Whether its servers answer at this address.
    fn is_at(&self, host: &str) -> bool {
        match self.families {
            AddressFamilies::V4 => host == "127.0.0.1",
            AddressFamilies::V6 => host == "[::1]",
            AddressFamilies::Both => true,
        }
    }
}

/// Runs a check with every pair, all at once, because the programs look only every two or three
/// seconds whether a copy has ended.
#[track_caller]
fn each_pair(test: &str, check: impl Fn(&Lab, &Pair) + Sync) {
    let Some(site) = available(test, site()) else { return };
    let pairs = [site.named.pairs("named"), site.dual_stack.pairs("dual-stack")].concat();
    each_of(&site.lab, &pairs, &check);
}

/// So many pairs are tried at once. XRootD forgets a key after 7 s, which more of them would meet
/// on slow processors.
const PAIRS_AT_ONCE: usize = 4;

fn each_of(lab: &Lab, pairs: &[Pair], check: &(impl Fn(&Lab, &Pair) + Sync)) {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let try_pairs = || {
        while let Some(pair) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if catch_unwind(AssertUnwindSafe(|| check(lab, pair))).is_err() {
                failed
                    .lock()
                    .expect("no thread panics while it holds the lock")
                    .push(pair.name.as_str());
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..PAIRS_AT_ONCE {
            scope.spawn(try_pairs);
        }
    });
    let failed = failed.into_inner().expect("no thread panics while it holds the lock");
    assert!(failed.is_empty(), "{failed:?}, see above");
}

/// Copies a file of this size and demands that it arrives.
#[track_caller]
fn copied(pair: &Pair, name: &str, size: usize, order: impl Fn(&str, &str) -> Run) {
    let (from, to) = (&pair.from, &pair.to);
    let content = bytes(size, 261);
    from.put(name, &content);
    to.make_directory(name.rsplit_once('/').expect("a directory").0);
    order(&from.root(name), &to.root(name)).succeeded();
    assert!(to.stored(name).as_ref() == Some(&content), "{name}: {size} bytes");
}

#[test]
fn xrdcp_orders_copies_of_all_sizes() {
    each_pair("xrdcp_orders_copies_of_all_sizes", |lab, pair| {
        thread::scope(|scope| {
            for (index, size) in [0, 1, 4097, 20_000_003].into_iter().enumerate() {
                let name = format!("sizes-{}/{index}", pair.name);
                scope.spawn(move || {
                    copied(pair, &name, size, |source, target| {
                        pair.xrdcp(lab, &["--tpc", "only", source, target])
                    });
                });
            }
        });
    });
}

/// A server that listens for one family names a client otherwise than one that listens for both,
/// and the name service knows only some of the forms: of the addresses of IPv6, `/etc/hosts` need
/// not know any.
#[test]
fn servers_that_listen_otherwise_name_the_client_otherwise_and_copy_still() {
    let test = "servers_that_listen_otherwise_name_the_client_otherwise_and_copy_still";
    let Some(site) = available(test, site()) else { return };
    let worlds = [&site.named, &site.dual_stack, &site.six];
    let mut pairs = Vec::new();
    for (of_ours, of_theirs) in worlds.iter().flat_map(|ours| worlds.map(|theirs| (*ours, theirs))) {
        for host in ["127.0.0.1", "[::1]"] {
            if !of_ours.is_at(host) || !of_theirs.is_at(host) {
                continue;
            }
            let ours = of_ours.ours[0].called(host);
            let theirs = of_theirs.theirs.first().map(|server| (XrootdVersion::V5, server));
            let newer = of_theirs.newer.first().map(|server| (XrootdVersion::V6, server));
            for (version, theirs) in theirs.into_iter().chain(newer) {
                let theirs = theirs.called(host);
                let listens = format!("{:?}-{:?}-{host}-{version:?}", of_ours.families, of_theirs.families);
                pairs.push(Pair::new(&format!("{listens}-to-ours"), version, &theirs, &ours));
                pairs.push(Pair::new(&format!("{listens}-from-ours"), version, &ours, &theirs));
            }
        }
    }
    each_of(&site.lab, &pairs, &|lab: &Lab, pair: &Pair| {
        let name = format!("forms-{}/file", pair.name.replace(['[', ']', ':'], ""));
        copied(pair, &name, 300_001, |source, target| {
            pair.xrdcp(lab, &["--tpc", "only", source, target])
        });
    });
    // Its clients of IPv4 are called so, in whatever form the socket told their addresses.
    if let Endpoint::Crossload(server) = &*site.dual_stack.ours[0].endpoint {
        let log = server.log().stderr();
        assert!(
            log.contains("\"peer\":\"127.0.0.1:") && !log.contains("::ffff"),
            "{log}"
        );
    }
}

#[test]
fn our_client_orders_copies() {
    each_pair("our_client_orders_copies", |lab, pair| {
        copied(
            pair,
            &format!("client-{}/file", pair.name),
            3_000_001,
            |source, target| lab.run_client("copy", &["--mode", "pull", "-K", "adler32", source, target]),
        );
    });
}

#[test]
fn xrdcp_compares_the_checksums_of_both_sides() {
    each_pair("xrdcp_compares_the_checksums_of_both_sides", |lab, pair| {
        let directory = format!("sums-{}", pair.name);
        let name = format!("{directory}/file");
        copied(pair, &name, 3_000_001, |source, target| {
            pair.xrdcp(lab, &["--tpc", "only", "-C", "adler32:source", source, target])
        });
        let (source, target) = (pair.from.root(&name), pair.to.root(&format!("{directory}/wrong")));
        let wrong = pair.xrdcp(lab, &["--tpc", "only", "-C", "adler32:00000001", &source, &target]);
        assert_ne!(wrong.code, Some(0), "{}", wrong.said());
        assert!(wrong.said().contains("CheckSum error"), "{}", wrong.said());
    });
}

#[test]
fn xrdcp_asks_for_several_streams_first_and_delegation() {
    each_pair("xrdcp_asks_for_several_streams_first_and_delegation", |lab, pair| {
        let ways = [&["only", "-S", "4"][..], &["first"], &["delegate", "first"]];
        thread::scope(|scope| {
            for (index, way) in ways.into_iter().enumerate() {
                let name = format!("ways-{}/{index}", pair.name);
                scope.spawn(move || {
                    copied(pair, &name, 20_000_003, |source, target| {
                        let arguments = [&["--tpc"], way, &[source, target]].concat();
                        pair.xrdcp(lab, &arguments)
                    });
                });
            }
        });
    });
}

#[test]
fn what_is_missing_or_there_already_is_told_and_kept() {
    each_pair("what_is_missing_or_there_already_is_told_and_kept", |lab, pair| {
        let (from, to, directory) = (&pair.from, &pair.to, format!("kept-{}", pair.name));
        to.make_directory(&directory);
        let only = |arguments: &[&str]| pair.xrdcp(lab, &[&["--tpc", "only"], arguments].concat());
        let target = to.root(&format!("{directory}/target"));
        let missing = only(&[&from.root(&format!("{directory}/none")), &target]).failed_with(54);
        assert!(missing.stderr.contains("[3011]"), "{}", missing.said());
        assert_eq!(to.stored(&format!("{directory}/target")), None);
        let (old, new) = (bytes(1000, 262), bytes(2_000_000, 263));
        // Uploaded, so that the server may replace it.
        let local = lab.file(&old);
        pair.xrdcp(lab, &[local.to_str().expect("plain"), &target]).succeeded();
        let source = format!("{directory}/source");
        from.put(&source, &new);
        let refused = only(&[&from.root(&source), &target]);
        assert_ne!(refused.code, Some(0), "{}", refused.said());
        let words = refused.stderr.to_ascii_lowercase();
        assert!(words.contains("file exists"), "{}", refused.said());
        assert!(to.stored(&format!("{directory}/target")).as_ref() == Some(&old));
        only(&["-f", &from.root(&source), &target]).succeeded();
        assert!(to.stored(&format!("{directory}/target")).as_ref() == Some(&new));
    });
}

#[test]
fn gfal_orders_copies() {
    each_pair("gfal_orders_copies", |lab, pair| {
        let (from, to, directory) = (&pair.from, &pair.to, format!("gfal-{}", pair.name));
        if available("gfal_orders_copies", require("gfal-copy")).is_none() {
            return;
        }
        let content = bytes(9_000_001, 264);
        let name = format!("{directory}/file");
        from.put(&name, &content);
        to.make_directory(&directory);
        let sum = format!("ADLER32:{:08x}", adler32(&content));
        let (source, target) = (from.root(&name), to.root(&name));
        lab.gfal("copy", &["-K", &sum, &source, &target]).succeeded();
        assert!(to.stored(&name).as_ref() == Some(&content));
        lab.gfal("copy", &[&source, &target]).failed_with(17);
        let missing = from.root(&format!("{directory}/none"));
        let elsewhere = to.root(&format!("{directory}/missing"));
        lab.gfal("copy", &[&missing, &elsewhere]).failed_with(2);
        assert_eq!(to.stored(&format!("{directory}/missing")), None);
    });
}

#[test]
fn a_later_client_orders_several_copies_at_once() {
    let test = "a_later_client_orders_several_copies_at_once";
    let Some(python) = available(test, require_python("uproot")) else {
        return;
    };
    each_pair(test, |lab, pair| {
        let (from, to, directory) = (&pair.from, &pair.to, format!("later-{}", pair.name));
        let content = bytes(5_000_001, 265);
        let name = format!("{directory}/file");
        from.put(&name, &content);
        to.make_directory(&directory);
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
