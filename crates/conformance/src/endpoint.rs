//! An endpoint under test: ours, or XRootD in its place.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use testkit::{Crossload, Process, Xrootd};

/// A running endpoint. It answers TLS and clear text on the same port, and shows a directory as
/// `/data`.
#[derive(Debug)]
pub enum Endpoint {
    /// Ours.
    Crossload(Box<Crossload>),
    /// XRootD, of any release.
    Xrootd(Box<Xrootd>),
}

impl Endpoint {
    /// The URL of `/data/NAME` over TLS.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        let path = format!("/data/{name}");
        match self {
            Self::Crossload(server) => server.url(&path),
            Self::Xrootd(server) => server.url(&path),
        }
    }

    /// The URL of `/data/NAME` over TLS with the scheme of WebDAV.
    #[must_use]
    pub fn davs(&self, name: &str) -> String {
        self.url(name).replacen("https", "davs", 1)
    }

    /// The URL of `/data/NAME` in clear text.
    #[must_use]
    pub fn clear_url(&self, name: &str) -> String {
        self.url(name).replacen("https", "http", 1)
    }

    /// The URL of `/data/NAME` in the XRootD protocol in clear text.
    #[must_use]
    pub fn root(&self, name: &str) -> String {
        format!("root://{}//data/{name}", self.root_address())
    }

    /// The URL of `/data/NAME` in the XRootD protocol over TLS.
    #[must_use]
    pub fn roots(&self, name: &str) -> String {
        format!("roots://{}//data/{name}", self.root_address())
    }

    /// Where it speaks the XRootD protocol, as `host:port`.
    #[must_use]
    pub fn root_address(&self) -> String {
        format!("localhost:{}", self.root_port())
    }

    /// The port on loopback where it speaks the XRootD protocol: ours has one port for everything.
    #[must_use]
    pub fn root_port(&self) -> u16 {
        match self {
            Self::Crossload(server) => server.port(),
            Self::Xrootd(server) => server.root_port(),
        }
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Crossload(server) => server.port(),
            Self::Xrootd(server) => server.port(),
        }
    }

    /// The directory behind `/data`.
    #[must_use]
    pub fn data(&self) -> &Path {
        match self {
            Self::Crossload(server) => server.data(),
            Self::Xrootd(server) => server.data(),
        }
    }

    /// Whether it is ours.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Crossload(_))
    }

    /// What is expected of ours, or of XRootD 5.5 where it differs.
    #[must_use]
    pub fn either<T>(&self, ours: T, xrootd: T) -> T {
        if self.is_ours() { ours } else { xrootd }
    }

    /// The process, to be measured or broken.
    pub fn process(&mut self) -> &mut Process {
        match self {
            Self::Crossload(server) => server.process(),
            Self::Xrootd(server) => server.process(),
        }
    }

    /// Puts a file there behind the endpoint's back, readable for everybody, and returns its URL.
    /// It is there whole or not at all: tests that share a server put the same files while others
    /// read them.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn put(&self, name: &str, content: &[u8]) -> String {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let path = self.data().join(name);
        self.make_parents(&path);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let aside = self.data().with_file_name(format!("put-{number}"));
        std::fs::write(&aside, content).expect("file");
        let _ = std::fs::set_permissions(&aside, Permissions::from_mode(0o666));
        std::fs::rename(&aside, &path).expect("file in its place");
        self.url(name)
    }

    /// The URL of a file to be made by a third-party copy. XRootD 5.5 makes no parents for one, so
    /// they are made here.
    ///
    /// # Panics
    /// When they cannot be made.
    #[must_use]
    pub fn target(&self, name: &str) -> String {
        if !self.is_ours() {
            self.make_parents(&self.data().join(name));
        }
        self.url(name)
    }

    /// Makes a directory behind the endpoint's back, open to everybody.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn make_directory(&self, name: &str) {
        self.make_parents(&self.data().join(name).join("file"));
    }

    fn make_parents(&self, path: &Path) {
        let parent = path.parent().expect("a file has a parent");
        std::fs::create_dir_all(parent).expect("directories");
        // XRootD runs as another user than the tests do when they are run by root.
        for directory in parent.ancestors().take_while(|path| path.starts_with(self.data())) {
            let _ = std::fs::set_permissions(directory, Permissions::from_mode(0o777));
        }
    }

    /// What is stored under a name.
    #[must_use]
    pub fn stored(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.data().join(name)).ok()
    }
}
