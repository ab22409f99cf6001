//! A client that has another address to each server of a third-party copy, as behind NAT or with
//! two networks: with XRootD as the source and as the destination, ours as the other side. Network
//! namespaces make three hosts, so it needs root.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use conformance::{Endpoint, Lab, Run, bytes, run};
use testkit::{Crossload, Error, Result, XrootdAccess, XrootdVersion, available, is_superuser, require};

/// The host of XRootD, of our server, and of the client, which has the third towards XRootD and the
/// fourth towards ours. The network is one for documents (RFC 5737).
const XROOTD: &str = "198.51.100.1";
const OURS: &str = "198.51.100.2";
const CLIENT: [&str; 2] = ["198.51.100.3", "198.51.100.4"];

/// Three hosts: this machine, and two namespaces. Dropping it removes them.
struct Network {
    /// The names of the namespaces and of the interfaces begin with it.
    name: String,
}

fn ip(arguments: &str) -> Result<()> {
    let output = Command::new(require("ip")?).args(arguments.split(' ')).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::Missing(format!(
            "ip {arguments}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

impl Network {
    fn new() -> Result<Self> {
        if !is_superuser() {
            return Err(Error::Missing("only root makes network namespaces".to_owned()));
        }
        let name = format!("xl{}", std::process::id());
        let network = Self { name: name.clone() };
        ip(&format!("link add {name}b type bridge"))?;
        ip(&format!("addr add {XROOTD}/24 dev {name}b"))?;
        ip(&format!("link set {name}b up"))?;
        for (host, addresses) in [("s", &[OURS][..]), ("c", &CLIENT[..])] {
            ip(&format!("netns add {name}{host}"))?;
            ip(&format!(
                "link add {name}{host} type veth peer name eth0 netns {name}{host}"
            ))?;
            ip(&format!("link set {name}{host} master {name}b up"))?;
            for address in addresses {
                ip(&format!("-n {name}{host} addr add {address}/24 dev eth0"))?;
            }
            ip(&format!("-n {name}{host} link set lo up"))?;
            ip(&format!("-n {name}{host} link set eth0 up"))?;
        }
        for (server, client) in [(XROOTD, CLIENT[0]), (OURS, CLIENT[1])] {
            ip(&format!("-n {name}c route add {server}/32 dev eth0 src {client}"))?;
        }
        Ok(network)
    }

    /// A program that starts `program` in the namespace of this host.
    fn wrap(&self, host: &str, program: &Path, file: PathBuf) -> Result<PathBuf> {
        let (ip, name) = (require("ip")?, &self.name);
        let text = format!(
            "#!/bin/sh\nexec {} netns exec {name}{host} {} \"$@\"\n",
            ip.display(),
            program.display()
        );
        fs::write(&file, text)?;
        fs::set_permissions(&file, Permissions::from_mode(0o755))?;
        Ok(file)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let name = &self.name;
        for arguments in [
            format!("netns del {name}s"),
            format!("netns del {name}c"),
            format!("link del {name}b"),
        ] {
            let _ = ip(&arguments);
        }
    }
}

struct Site {
    ours: Endpoint,
    lab: Lab,
    network: Network,
}

fn site() -> Result<Site> {
    let (lab, network) = (Lab::new("nat")?, Network::new()?);
    let mut options = lab.options("ours");
    options.address = "0.0.0.0".to_owned();
    options.binary = Some(network.wrap("s", &Crossload::binary()?, lab.fresh("start"))?);
    let ours = Endpoint::Crossload(Box::new(lab.crossload(options)?));
    Ok(Site { ours, lab, network })
}

impl Site {
    fn xrdcp(&self, version: XrootdVersion, arguments: &[&str]) -> Run {
        let client = self.lab.xrootd_client(version, "xrdcp").expect("it is installed");
        let program = client.get_program().to_owned();
        let wrapped = self.network.wrap("c", Path::new(&program), self.lab.fresh("xrdcp"));
        let mut command = self.lab.prepared(&wrapped.expect("a script"));
        run(command.arg("--nopbar").args(arguments))
    }
}

fn at(endpoint: &Endpoint, host: &str, name: &str) -> String {
    endpoint.root(name).replacen("localhost", host, 1)
}

/// XRootD as the source compares the host of the client, too: it refuses a client that it knows by
/// another address than the destination does, and serves one that both know by the same.
#[test]
fn a_client_with_another_address_for_each_server_orders_copies() {
    let test = "a_client_with_another_address_for_each_server_orders_copies";
    let Some(site) = available(test, site()) else { return };
    thread::scope(|scope| {
        for version in XrootdVersion::ALL {
            let theirs = site.lab.xrootd_of(version, "theirs", XrootdAccess::Open);
            let Some(theirs) = available(test, theirs) else {
                continue;
            };
            let (theirs, site) = (Endpoint::Xrootd(Box::new(theirs)), &site);
            scope.spawn(move || orders_copies(site, &theirs, version));
        }
    });
}

fn orders_copies(site: &Site, theirs: &Endpoint, version: XrootdVersion) {
    let (content, number) = (bytes(1_000_003, 276), version.number());
    let name = format!("to-theirs-{number}");
    site.ours.put(&name, &content);
    let (from, to) = (at(&site.ours, OURS, &name), at(theirs, XROOTD, &name));
    site.xrdcp(version, &["--tpc", "only", &from, &to]).succeeded();
    assert!(theirs.stored(&name).as_ref() == Some(&content), "{name}");

    let name = format!("to-ours-{number}");
    theirs.put(&name, &content);
    let (from, to) = (at(theirs, XROOTD, &name), at(&site.ours, OURS, &name));
    let order = ["--tpc", "only", &from, &to];
    let refused = site.xrdcp(version, &order);
    assert!(
        refused.stderr.contains("tpc authorization expired"),
        "{}",
        refused.said()
    );
    assert_eq!(site.ours.stored(&name), None);
    site.lab.xrdcp_of(version, &order).succeeded();
    assert!(site.ours.stored(&name).as_ref() == Some(&content), "{name}");
}
