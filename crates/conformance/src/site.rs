//! What the tests of one file share: a throw-away site with two endpoints.

use testkit::{Crossload, CrossloadOptions, Export, Result, XrootdAccess, XrootdVersion, available, require};

use crate::endpoint::Endpoint;
use crate::lab::Lab;
use crate::xroot::ALIVE;

/// Two endpoints and what is around them.
#[derive(Debug)]
pub struct Site {
    /// Files, authority, clients.
    pub lab: Lab,
    /// One endpoint.
    pub first: Endpoint,
    /// Another one, with files of its own.
    pub second: Endpoint,
}

impl Site {
    /// Two endpoints of the kind under test (see [`Lab::endpoint`]), for tests that run `program`.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] without the program, and as the launchers.
    pub fn start(name: &str, program: &str) -> Result<Self> {
        require(program)?;
        let lab = Lab::new(name)?;
        let (first, second) = (lab.endpoint("first")?, lab.endpoint("second")?);
        Ok(Self { lab, first, second })
    }

    /// Two endpoints of ours, whatever is under test.
    ///
    /// # Errors
    /// As [`Crossload::start`].
    pub fn of_ours(name: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let (first, second) = (ours(&lab, "first")?, ours(&lab, "second")?);
        Ok(Self { lab, first, second })
    }

    /// Ours, and Debian's XRootD as the peer, for tests that run `program`.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] without XRootD or the program.
    pub fn with_xrootd(name: &str, program: &str) -> Result<Self> {
        Self::with_xrootd_of(XrootdVersion::V5, name, program)
    }

    /// Ours, and an XRootD of this release as the peer, for tests that run `program`.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] without that XRootD or the program.
    pub fn with_xrootd_of(version: XrootdVersion, name: &str, program: &str) -> Result<Self> {
        require(program)?;
        let lab = Lab::new(name)?;
        let theirs = lab.xrootd_of(version, "theirs", XrootdAccess::OpenWithMacaroons)?;
        let first = ours(&lab, "ours")?;
        Ok(Self {
            lab,
            first,
            second: Endpoint::Xrootd(Box::new(theirs)),
        })
    }

    /// Runs `check` with XRootD, which shows that the check is right, and then with ours; with
    /// XRootD only when the environment asks for it.
    #[expect(
        clippy::print_stdout,
        reason = "the harness shows it when the check fails, and hides it otherwise"
    )]
    pub fn compare(&self, check: impl Fn(&Lab, &Endpoint)) {
        for server in [self.theirs(), self.ours()] {
            if server.is_ours() && Lab::tests_xrootd() {
                continue;
            }
            println!("against {}", server.either("ours", "XRootD"));
            check(&self.lab, server);
        }
    }

    /// Ours, at a site [`Site::with_xrootd`].
    #[must_use]
    pub fn ours(&self) -> &Endpoint {
        &self.first
    }

    /// XRootD, at a site [`Site::with_xrootd`] or [`Site::with_xrootd_of`].
    #[must_use]
    pub fn theirs(&self) -> &Endpoint {
        &self.second
    }
}

fn ours(lab: &Lab, name: &str) -> Result<Endpoint> {
    Ok(Endpoint::Crossload(Box::new(Crossload::start(lab.options(name))?)))
}

/// A server of ours of its own, so that every part that is found is the test's. It has the file
/// `alive`. Without it the test is reported as skipped.
///
/// # Panics
/// When it does not start.
pub fn alone(test: &str, change: impl FnOnce(&mut CrossloadOptions)) -> Option<(Lab, Crossload)> {
    let started = Lab::new("alone").and_then(|lab| {
        let mut options = lab.options("server");
        change(&mut options);
        let server = Crossload::start(options)?;
        std::fs::write(server.data().join("alive"), ALIVE)?;
        Ok((lab, server))
    });
    available(test, started)
}

/// A server whose first export may be filled to the last byte: the space that an export usually
/// keeps free is more than a small file system has.
///
/// # Panics
/// Its directory cannot be made.
#[must_use]
pub fn reserving_nothing(mut options: CrossloadOptions) -> CrossloadOptions {
    let export = options.exports.remove(0);
    options.more = format!(
        "[[export]]\npath = \"/data\"\ndirectory = {:?}\nanonymous = \"write\"\nreserve_bytes = 0\n",
        export.directory
    );
    std::fs::create_dir_all(&export.directory).expect("the export's directory");
    let elsewhere = Export {
        path: "/elsewhere".to_owned(),
        ..export
    };
    options.exports.push(elsewhere);
    options
}
