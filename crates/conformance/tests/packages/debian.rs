//! A package's life in small Debian systems: installed, upgraded, used, removed, installed again,
//! purged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use conformance::{Run, background, bytes, run};
use testkit::{DebianRoot, Result, available};

use crate::workshop::{VERSION, Workshop, recipe, workshop};

const START_LIMIT: Duration = Duration::from_secs(60);
const OLDER_VERSION: &str = "9.8.6";
/// What an administrator has added to a file of configuration.
const OWN_LINE: &str = "# of this site\n";

/// A Debian system, and what is installed in it.
struct Site {
    workshop: Arc<Workshop>,
    root: DebianRoot,
}

impl Site {
    fn new(suite: &str) -> Result<Self> {
        let workshop = workshop()?;
        let root = DebianRoot::unpack(suite, &workshop.scratch.join(suite))?;
        Ok(Self { workshop, root })
    }

    fn inside(&self, program: &str, arguments: &[&str]) -> Run {
        let mut command = self.root.command(program);
        run(command.args(arguments))
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.root.path().join(inside.trim_start_matches('/'))
    }

    fn install(&self) {
        let package = self.workshop.debian_package();
        fs::copy(package, self.path("/tmp/crossload.deb")).expect("a copy");
        self.inside("dpkg", &["--install", "/tmp/crossload.deb"]).succeeded();
        let state = self.inside(
            "dpkg-query",
            &["--show", "--showformat", "${db:Status-Status} ${Version}", "crossload"],
        );
        assert_eq!(state.succeeded().text(), format!("installed {VERSION}-1"));
        let verified = self.inside("dpkg", &["--verify", "crossload"]).succeeded();
        let changed: Vec<String> = verified.text().lines().map(str::to_owned).collect();
        // Files of configuration may be changed, the others not.
        assert!(changed.iter().all(|line| line.contains(" c ")), "{changed:?}");
    }

    /// A package of the release before, in which another program stands for ours.
    fn install_older(&self) {
        let mut build = recipe("deb/build");
        build.env("PACKAGE_VERSION", OLDER_VERSION);
        let made = run(build.args([&self.workshop.light, &self.path("/tmp")])).succeeded();
        fs::rename(made.text().trim(), self.path("/tmp/older.deb")).expect("renamed");
        self.inside("dpkg", &["--install", "/tmp/older.deb"]).succeeded();
    }

    fn configuration(&self) -> Vec<PathBuf> {
        let list = self.inside("dpkg-query", &["--show", "--showformat", "${Conffiles}", "crossload"]);
        let text = list.succeeded().text();
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        names.map(|name| self.path(name)).collect()
    }

    /// All paths that name the program, except for data and logs.
    fn remains(&self) -> Vec<String> {
        let mut find = Command::new("find");
        find.arg(self.root.path())
            .args(["-name", "*crossload*", "-printf", "/%P\n"]);
        let found = run(&find).succeeded().text();
        let kept = |path: &&str| !path.starts_with("/tmp/") && !path.starts_with("/srv/");
        found.lines().filter(kept).map(str::to_owned).collect()
    }
}

/// The endpoint as it is installed, started as its unit starts it, gives out a file and takes none.
pub(crate) fn serves(root: &DebianRoot, workshop: &Workshop) {
    let content = bytes(100_000, 43);
    fs::write(root.path().join("srv/crossload/file"), &content).expect("a file");
    let mut serve = root.command("setpriv");
    serve.args(["--reuid", "crossload", "--regid", "crossload", "--init-groups"]);
    serve.args(["crossload", "serve", "--config", "/etc/crossload/crossload.toml"]);
    // Instead of the ports in the file, which another test may use.
    serve.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let mut server = background(&mut serve, &workshop.scratch).expect("the server");
    let address = server
        .wait_for("listening", START_LIMIT, |process| {
            let said = process.stdout();
            let url = said.lines().find_map(|line| line.strip_prefix("listening on "));
            url.map(str::to_owned)
        })
        .expect("an address");
    let curl = |arguments: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*"]);
        run(curl.args(arguments))
    };
    assert_eq!(curl(&[format!("{address}/file").as_str()]).succeeded().stdout, content);
    let source = root.path().join("srv/crossload/file");
    let refused = curl(&[
        "--upload-file",
        source.to_str().expect("plain"),
        &format!("{address}/other"),
    ]);
    assert!(refused.stderr.contains("401"), "{}", refused.said());
}

fn is_version(shown: &Run) {
    assert_eq!(shown.text().trim(), concat!("crossload ", env!("CARGO_PKG_VERSION")));
}

fn a_package_lives(test: &str, suite: &str) {
    let Some(site) = available(test, Site::new(suite)) else {
        return;
    };
    site.install_older();
    let configuration = site.configuration();
    assert!(
        configuration.contains(&site.path("/etc/crossload/crossload.toml")),
        "{configuration:?}"
    );
    for path in &configuration {
        let text = fs::read_to_string(path).expect("a file of configuration");
        fs::write(path, text + OWN_LINE).expect("changed");
    }
    let is_kept = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.ends_with(OWN_LINE));
    site.install();
    assert!(configuration.iter().all(|path| is_kept(path)), "{configuration:?}");
    is_version(&site.inside("crossload", &["--version"]).succeeded());
    serves(&site.root, &site.workshop);

    site.inside("dpkg", &["--remove", "crossload"]).succeeded();
    assert!(!site.path("/usr/bin/crossload").exists());
    assert!(configuration.iter().all(|path| is_kept(path)), "{configuration:?}");
    // By an administrator who has changed her mind.
    site.install();
    assert!(configuration.iter().all(|path| is_kept(path)), "{configuration:?}");

    let of_units = ["/var/cache/crossload", "/var/log/crossload"].map(|place| site.path(place));
    for place in &of_units {
        fs::create_dir_all(place).expect("a directory as a unit makes it");
        fs::write(place.join("file"), "x").expect("a file");
    }
    site.inside("dpkg", &["--purge", "crossload"]).succeeded();
    assert!(of_units.iter().all(|place| !place.exists()), "{of_units:?}");
    site.inside("dpkg-query", &["--show", "crossload"]).failed_with(1);
    assert_eq!(site.remains(), [""; 0]);
    // Data is never removed with a package.
    assert!(site.path("/srv/crossload/file").exists());
}

#[test]
fn debian_12_installs_uses_and_removes_the_package() {
    a_package_lives("debian_12_installs_uses_and_removes_the_package", "bookworm");
}

#[test]
fn debian_13_installs_uses_and_removes_the_package() {
    a_package_lives("debian_13_installs_uses_and_removes_the_package", "trixie");
}
