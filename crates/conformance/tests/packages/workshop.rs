//! Making packages: the recipes of `packaging/`, and the trees that several tests pack.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock, Weak};

use conformance::{Slot, run, shared};
use testkit::{Crossload, Result, Scratch, require};

/// The version that the tests pack.
pub(crate) const VERSION: &str = "9.8.7";
/// The time that all files have, in seconds since 1970.
pub(crate) const EPOCH: &str = "1700000000";

/// A command of `packaging/NAME`.
pub(crate) fn recipe(name: &str) -> Command {
    let path = repository().join("packaging").join(name);
    let mut command = Command::new(path);
    command
        .env("PACKAGE_VERSION", VERSION)
        .env("PACKAGE_RELEASE", "1")
        .env("SOURCE_DATE_EPOCH", EPOCH)
        .env("PACKAGE_COMPRESSION", "fast")
        .env_remove("CROSSLOAD_SIGNING_KEY");
    command
}

/// The top of the repository.
pub(crate) fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

/// The trees that are packed.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) scratch: Scratch,
    /// The program without symbols, and its symbols.
    pub(crate) program: PathBuf,
    pub(crate) symbols: PathBuf,
    /// Everything that is installed.
    pub(crate) stage: PathBuf,
    /// The same with another, small program, for tests that do not run it: packing the program of
    /// tests, a hundred megabytes, takes seconds each time.
    pub(crate) light: PathBuf,
    pub(crate) light_symbols: PathBuf,
    debian_package: OnceLock<PathBuf>,
}

static WORKSHOP: Slot<Workshop> = Slot::new(Weak::new());

/// The trees, made by the first test that asks.
pub(crate) fn workshop() -> Result<Arc<Workshop>> {
    shared(&WORKSHOP, || {
        let binary = Crossload::binary()?;
        for program in ["dpkg-deb", "rpmbuild", "objcopy", "xz"] {
            require(program)?;
        }
        // Another program that was linked for this machine.
        let other = fs::canonicalize(require("true")?)?;
        let scratch = Scratch::new("packages")?;
        let at = |name: &str| scratch.join(name);
        run(recipe("split").args([&binary, &at("split")])).succeeded();
        run(recipe("split").args([&other, &at("light-split")])).succeeded();
        run(recipe("stage").args([&at("split/crossload"), &at("stage")])).succeeded();
        let mut copy = Command::new("cp");
        run(copy.arg("-a").args([&at("stage"), &at("light")])).succeeded();
        fs::copy(at("light-split/crossload"), at("light/usr/bin/crossload"))?;
        Ok(Workshop {
            program: at("split/crossload"),
            symbols: at("split/crossload.debug"),
            stage: at("stage"),
            light: at("light"),
            light_symbols: at("light-split/crossload.debug"),
            debian_package: OnceLock::new(),
            scratch,
        })
    })
}

impl Workshop {
    /// Packs the tree `stage` by `packaging/KIND/build` into a directory of that name, and returns
    /// the paths of the packages.
    #[track_caller]
    pub(crate) fn pack(&self, kind: &str, stage: &Path, symbols: Option<&Path>, directory: &str) -> Vec<PathBuf> {
        let mut build = recipe(&format!("{kind}/build"));
        build.arg(stage).arg(self.scratch.join(directory)).args(symbols);
        let printed = run(&build).succeeded().text();
        printed.lines().map(PathBuf::from).collect()
    }

    /// Debian's package of the program that is tested.
    #[track_caller]
    pub(crate) fn debian_package(&self) -> &Path {
        self.debian_package
            .get_or_init(|| self.pack("deb", &self.stage, None, "debian").remove(0))
    }
}
