//! The maintainer scripts of the packages and `crossload upgrade`, in a directory that stands for a
//! machine. The scripts and the program are ours; `systemctl` is the machine's, and here a script
//! that notes what it is asked and says what the test wants.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::{Lab, Run, run};
use testkit::{Crossload, available};

const SYSTEMCTL: &str = r##"#!/bin/sh
echo "$*" >>"$MACHINE/calls"
for unit; do :; done
case "$*" in
    *"crossload@"*) ;;
    list-units*) cat "$MACHINE/running" ;;
    *ExecStart*) echo "{ argv[]=/usr/bin/crossload serve --config $MACHINE/root/etc/crossload/crossload.toml ; }" ;;
    *NRestarts*) echo 0 ;;
    *SubState*) if [ -e "$MACHINE/failed.$unit" ]; then echo auto-restart; else echo running; fi ;;
    restart*|start*)
        if [ -e "$MACHINE/fails.$unit" ] && grep -q "# new" "$MACHINE/root/usr/bin/crossload"; then
            echo "Job for $unit failed." >&2
            exit 1
        fi
        ;;
    is-active*) echo active ;;
esac
"##;

/// What stands for a machine: a root directory, and its systemctl.
struct Machine {
    _lab: Lab,
    directory: PathBuf,
}

impl Machine {
    /// One whose systemd runs an endpoint and a queue, with the previous program installed.
    fn start(name: &str) -> testkit::Result<Self> {
        let lab = Lab::new(name)?;
        let machine = Self {
            directory: lab.fresh("machine"),
            _lab: lab,
        };
        for directory in [
            "bin",
            "root/usr/bin",
            "root/run/systemd/system",
            "root/etc/crossload",
            "root/var/log",
        ] {
            fs::create_dir_all(machine.at(directory))?;
        }
        machine.write("bin/systemctl", SYSTEMCTL);
        machine.write(
            "running",
            "crossload.service loaded\ncrossload-queue.service loaded\ncrossload-other.service x\n",
        );
        let export = format!("path = \"/\"\ndirectory = {:?}\n", machine.at("root"));
        let text = format!("[server]\nlisten = [\"127.0.0.1:0\"]\n[[export]]\n{export}");
        machine.write("root/etc/crossload/crossload.toml", &text);
        // The user is there: none is made on the machine of the test.
        machine.write("root/etc/passwd", "crossload:x:990:990::/:/bin/false\n");
        machine.install("old", "")?;
        Ok(machine)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).expect("written");
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(0o755)).expect("executable");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    /// Puts a program in place that is ours under another name, with a line before it.
    fn install(&self, name: &str, line: &str) -> testkit::Result<()> {
        let program = Crossload::binary()?;
        let text = format!("#!/bin/sh\n# {name}\n{line}\nexec {program:?} \"$@\"\n");
        self.write("root/usr/bin/crossload", &text);
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.read("root/usr/bin/crossload").contains(&format!("# {name}\n"))
    }

    /// Runs a maintainer script with these arguments.
    fn script(&self, name: &str, arguments: &[&str]) -> Run {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/scripts");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command.arg(scripts.join(name)).args(arguments);
        command
            .env("PATH", format!("{}:{path}", self.at("bin").display()))
            .env("MACHINE", &self.directory)
            .env("DPKG_ROOT", self.at("root"))
            .env("CROSSLOAD_UPGRADE_WATCH", "1ms");
        run(&command).succeeded()
    }

    /// The orders to systemctl since the last call, without questions.
    fn orders(&self) -> Vec<String> {
        let calls = self.read("calls");
        let _ = fs::remove_file(self.at("calls"));
        let orders = calls.lines().filter(|call| {
            let verb = call.split(' ').next().unwrap_or_default();
            !matches!(verb, "list-units" | "show" | "is-active" | "reset-failed")
        });
        orders.map(str::to_owned).collect()
    }
}

#[test]
fn a_package_upgrade_restarts_what_runs_or_goes_back() {
    let test = "a_package_upgrade_restarts_what_runs_or_goes_back";
    let Some(machine) = available(test, Machine::start("upgrade")) else {
        return;
    };
    // The words of dpkg, and the numbers of rpm.
    for (before, after) in [(["upgrade", "0.1.0"], ["configure", "0.1.0"]), (["2", ""], ["2", ""])] {
        machine.install("old", "").expect("installed");
        machine.script("preinst", &before);
        machine.script("prerm", &["upgrade", "0.2.0"]);
        machine.install("new", "").expect("installed");
        let said = machine.script("postinst", &after).text();
        assert!(said.contains("crossload-queue.service is up with"), "{said}");
        assert!(machine.has("new"));
        let orders = [
            "daemon-reload",
            "restart crossload.service",
            "restart crossload-queue.service",
        ];
        assert_eq!(machine.orders(), orders);
    }

    // The endpoint is up, the queue is not: both get the previous program again.
    machine.write("fails.crossload-queue.service", "");
    machine.install("old", "").expect("installed");
    machine.script("preinst", &["upgrade"]);
    machine.install("new", "").expect("installed");
    let said = machine.script("postinst", &["configure", "0.1.0"]).text();
    assert!(said.contains("Job for crossload-queue.service failed"), "{said}");
    assert!(machine.has("old"), "{said}");
    let orders = machine.orders();
    let ends = [
        "stop crossload.service",
        "stop crossload-queue.service",
        "start crossload.service",
        "start crossload-queue.service",
    ];
    assert!(orders.ends_with(&ends.map(str::to_owned)), "{orders:?}");
    let log = machine.read("root/var/log/crossload-upgrade.log");
    assert!(
        log.contains("journalctl -u crossload-queue.service") && log.contains("--reinstall crossload"),
        "{log}"
    );

    // A service that was down before is no reason to go back.
    machine.write("failed.crossload-queue.service", "");
    machine.script("preinst", &["upgrade"]);
    machine.install("new", "").expect("installed");
    let said = machine.script("postinst", &["configure", "0.1.0"]).text();
    assert!(said.contains("not up before either"), "{said}");
    assert!(machine.has("new"), "{said}");
}

#[test]
fn a_program_that_cannot_serve_is_taken_back_before_a_restart() {
    let test = "a_program_that_cannot_serve_is_taken_back_before_a_restart";
    let Some(machine) = available(test, Machine::start("taken-back")) else {
        return;
    };
    let refuses = "if [ \"$1\" = check ]; then echo 'error: no such key: x'; exit 2; fi";
    let panics = "if [ \"$1\" = check ]; then exit 101; fi";
    for (line, says) in [
        (refuses, "no such key"),
        (panics, "its check crashed"),
        ("exit 127", "does not start"),
    ] {
        machine.install("old", "").expect("installed");
        machine.script("preinst", &["upgrade"]);
        machine.install("new", line).expect("installed");
        let said = machine.script("postinst", &["configure", "0.1.0"]).said();
        assert!(said.contains(says), "{said}");
        assert!(machine.has("old"), "{line}");
        let orders = machine.orders();
        assert!(!orders.iter().any(|order| order.contains("start ")), "{orders:?}");
    }

    // A package that is installed again after its upgrade was killed.
    machine.script("preinst", &["upgrade"]);
    machine.install("new", "exit 127").expect("installed");
    machine.script("preinst", &["upgrade"]);
    machine.script("postinst", &["configure", "0.1.0"]);
    assert!(machine.has("old"), "the program of before is kept");
    machine.script("preinst", &["upgrade"]);
    assert!(machine.at("root/usr/lib/crossload/previous/pending").exists());
    machine.script("postinst", &["configure", "0.1.0"]);
    assert!(!machine.at("root/usr/lib/crossload/previous/pending").exists());

    // One that cannot lead the upgrade is led by the previous one.
    let crashes = "if [ \"$1\" = upgrade ]; then kill -SEGV $$; fi";
    machine.script("preinst", &["upgrade"]);
    machine.install("new", crashes).expect("installed");
    let said = machine.script("postinst", &["configure", "0.1.0"]).said();
    assert!(said.contains("crossload-queue.service is up with"), "{said}");
    assert!(machine.has("new") && said.contains("crashed in its upgrade"), "{said}");
}

#[test]
fn a_package_comes_and_goes_also_without_systemd() {
    let test = "a_package_comes_and_goes_also_without_systemd";
    let Some(machine) = available(test, Machine::start("comes-and-goes")) else {
        return;
    };
    let state = machine.at("root/var/lib/crossload");
    for has_systemd in [true, false] {
        machine.script("preinst", &["install"]);
        machine.script("postinst", &["configure"]);
        assert!(state.is_dir() && machine.at("root/srv/crossload").is_dir());
        machine.write("root/srv/crossload/file", "data");
        machine.write("root/var/lib/crossload/secret", "secret");
        // In an upgrade the services go on.
        machine.script("prerm", &["1"]);
        assert!(machine.orders().iter().all(|order| order == "daemon-reload"));
        machine.script("prerm", &["remove"]);
        let orders = machine.orders();
        let stopped = orders.contains(&"disable --now crossload-queue.service".to_owned());
        assert_eq!(stopped, has_systemd, "{orders:?}");
        machine.script("postrm", &["remove"]);
        assert!(state.join("secret").exists(), "only a purge removes it");
        machine.script("postrm", &["purge"]);
        assert!(!state.exists() && machine.at("root/srv/crossload/file").exists());
        assert_eq!(machine.orders().is_empty(), !has_systemd);
        let _ = fs::remove_dir_all(machine.at("root/run"));
    }
}
