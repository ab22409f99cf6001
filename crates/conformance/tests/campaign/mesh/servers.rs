//! The servers, started once for all arrangements.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use conformance::Lab;
use testkit::{
    Access, Crossload, Export, HostCertificate, Nginx, NginxOptions, Result, Tmpfs, Xrootd, XrootdAccess, XrootdVersion,
};

/// Less than one file.
const FULL_BYTES: u64 = 100_000;

/// Who made a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Make {
    Ours,
    Xrootd(XrootdVersion),
    /// It knows no third-party copies and has no checksums.
    Nginx,
}

/// A server, and where it is.
pub(super) struct Server {
    pub(super) name: String,
    pub(super) make: Make,
    pub(super) process: u32,
    pub(super) http_port: u16,
    /// The port of the XRootD protocol; ours has one for all.
    pub(super) root_port: Option<u16>,
    pub(super) data: PathBuf,
    /// The URL path of a directory without room.
    pub(super) full: Option<&'static str>,
    _guard: Guard,
}

enum Guard {
    Ours { _server: Box<Crossload> },
    Xrootd { _server: Xrootd, _full: Option<Tmpfs> },
    Nginx { _server: Nginx },
}

/// The ports of servers whose certificate has expired.
pub(super) struct Expired {
    _ours: Crossload,
    _nginx: Nginx,
    pub(super) ours_port: u16,
    pub(super) nginx_url: String,
}

/// All of them.
pub(super) struct Servers {
    pub(super) lab: Lab,
    pub(super) all: Vec<Server>,
    pub(super) expired: Expired,
}

impl Servers {
    pub(super) fn start() -> Result<Self> {
        let lab = Lab::new("mesh-campaign")?;
        let newest = match XrootdVersion::V6.require("xrootd") {
            Ok(_) => XrootdVersion::V6,
            Err(missing) => {
                println!("Debian's XRootD takes the part of the newest: {missing}");
                XrootdVersion::V5
            }
        };
        let makes = [
            ("OURS", Make::Ours, 6),
            ("DEBIAN", Make::Xrootd(XrootdVersion::V5), 2),
            ("NEWEST", Make::Xrootd(newest), 2),
            ("NGINX", Make::Nginx, 2),
        ];
        let wanted: Vec<(String, Make)> = makes
            .into_iter()
            .flat_map(|(name, make, count)| (1..=count).map(move |number| (format!("{name}-{number}"), make)))
            .collect();
        let all: Result<Vec<Server>> = thread::scope(|scope| {
            let lab = &lab;
            let starting: Vec<_> = wanted
                .into_iter()
                .map(|(name, make)| scope.spawn(move || Server::start(lab, name, make)))
                .collect();
            let started = starting.into_iter().map(|thread| thread.join().expect("no panic"));
            started.collect()
        });
        let (all, expired) = (all?, Expired::start(&lab)?);
        Ok(Self { lab, all, expired })
    }
}

impl Server {
    fn start(lab: &Lab, name: String, make: Make) -> Result<Self> {
        match make {
            Make::Ours => Self::ours(lab, name),
            Make::Xrootd(version) => Self::xrootd(lab, name, version),
            Make::Nginx => {
                let mut server = nginx(lab, &name, lab.host())?;
                Ok(Self {
                    name,
                    make,
                    process: server.process().id(),
                    http_port: port_of(&server.clear_url("")),
                    root_port: None,
                    data: server.data().to_owned(),
                    full: None,
                    _guard: Guard::Nginx { _server: server },
                })
            }
        }
    }

    fn ours(lab: &Lab, name: String) -> Result<Self> {
        let mut options = lab.options(&name);
        options.exports.push(Export {
            path: "/full".to_owned(),
            directory: options.directory.join("full"),
            anonymous: Access::Write,
            quota_bytes: FULL_BYTES,
        });
        let server = lab.crossload(options)?;
        Ok(Self {
            name,
            make: Make::Ours,
            process: server.log().id(),
            http_port: server.port(),
            root_port: Some(server.port()),
            data: server.data().to_owned(),
            full: Some("/full"),
            _guard: Guard::Ours {
                _server: Box::new(server),
            },
        })
    }

    fn xrootd(lab: &Lab, name: String, version: XrootdVersion) -> Result<Self> {
        let word = name.replace('-', "").to_lowercase();
        let mut server = lab.xrootd_of(version, &word, XrootdAccess::Open)?;
        // Without the right to mount, only ours run out of space.
        let full = Tmpfs::mount(&server.data().join("full"), FULL_BYTES).ok();
        Ok(Self {
            name,
            make: Make::Xrootd(version),
            process: server.process().id(),
            http_port: server.port(),
            root_port: Some(server.root_port()),
            data: server.data().to_owned(),
            full: full.is_some().then_some("/data/full"),
            _guard: Guard::Xrootd {
                _server: server,
                _full: full,
            },
        })
    }

    pub(super) fn is_active(&self) -> bool {
        self.make != Make::Nginx
    }

    /// Makes a directory that every server may write to.
    pub(super) fn make_directory(&self, name: &str) -> PathBuf {
        let directory = self.data.join(name);
        make_open(&directory);
        directory
    }
}

impl Expired {
    fn start(lab: &Lab) -> Result<Self> {
        let certificate = lab.authority().issue_expired_localhost()?;
        let mut options = lab.options("expired");
        options.certificate = Some(certificate.clone());
        let ours = lab.crossload(options)?;
        let nginx = nginx(lab, "expired-nginx", &certificate)?;
        Ok(Self {
            ours_port: ours.port(),
            nginx_url: nginx.url("/data"),
            _ours: ours,
            _nginx: nginx,
        })
    }
}

fn nginx(lab: &Lab, name: &str, certificate: &HostCertificate) -> Result<Nginx> {
    Nginx::start(&NginxOptions {
        name: name.to_owned(),
        directory: lab.fresh(name),
        data: lab.fresh(name).join("data"),
        certificate: certificate.clone(),
    })
}

fn make_open(directory: &Path) {
    fs::create_dir_all(directory).expect("a directory");
    fs::set_permissions(directory, PermissionsExt::from_mode(0o777)).expect("its permissions");
}

fn port_of(url: &str) -> u16 {
    let port = url.rsplit(':').next().and_then(|rest| rest.split('/').next());
    port.and_then(|port| port.parse().ok()).expect("a port")
}
