//! Services that run, by `systemctl`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use config::Configuration;

use super::programs::Program;
use super::records::Records;
use crate::check::ports::reachable;
use crate::limits::{UPGRADE_LOOK_PERIOD, UPGRADE_READY_WAIT};
use crate::server::configured::CREDENTIALS_OF_UNITS;

/// Where the packages have configurations.
const CONFIGURATIONS: &str = "/etc/crossload";

/// A service that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    /// Its unit.
    pub(super) unit: String,
    /// Its configuration file, if it has one.
    pub(super) config: Option<PathBuf>,
}

/// The services of Crossload that run, of these units if any are given. Without systemd there are
/// none.
pub(super) fn running(units: &[String], records: &Records) -> Vec<Service> {
    let arguments = [
        "list-units",
        "--type=service",
        "--state=active,reloading,activating",
        "--plain",
        "--no-legend",
        "--no-pager",
        "crossload*.service",
    ];
    let listed = match systemctl(&arguments) {
        Ok(listed) if listed.status.success() => listed,
        // No systemctl, or a system that systemd has not started, as in a chroot.
        Ok(_) => return Vec::new(),
        Err(cause) => {
            if cause.kind() != std::io::ErrorKind::NotFound {
                records.say(&format!("cannot ask which services run: systemctl: {cause}"));
            }
            return Vec::new();
        }
    };
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    let wanted = |unit: &str| units.is_empty() || units.iter().any(|given| full(given) == unit);
    names
        .filter(|unit| is_ours(unit) && wanted(unit))
        .map(|unit| Service {
            unit: unit.to_owned(),
            config: config_of(unit),
        })
        .collect()
}

fn systemctl(arguments: &[&str]) -> std::io::Result<Output> {
    Command::new("systemctl").args(arguments).output()
}

/// A unit with the end of its name.
fn full(unit: &str) -> String {
    match unit.ends_with(".service") {
        true => unit.to_owned(),
        false => format!("{unit}.service"),
    }
}

/// Whether a unit is one of the packages.
fn is_ours(unit: &str) -> bool {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    matches!(name, "crossload" | "crossload-queue" | "crossload-redirector") || name.starts_with("crossload@")
}

/// A property of a unit; empty if systemd does not tell it.
fn property(unit: &str, name: &str) -> String {
    let shown = systemctl(&["show", &format!("--property={name}"), "--value", unit]);
    shown.map_or_else(
        |_| String::new(),
        |shown| String::from_utf8_lossy(&shown.stdout).trim().to_owned(),
    )
}

/// The configuration of a unit: what its command line names, else as the packages have it.
fn config_of(unit: &str) -> Option<PathBuf> {
    let named = config_in(&property(unit, "ExecStart")).or_else(|| Some(usual_config(unit)));
    named.filter(|file| file.is_file())
}

/// The argument of `--config` in a command line as `systemctl show` prints it.
fn config_in(text: &str) -> Option<PathBuf> {
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(file) = word.strip_prefix("--config=") {
            return Some(PathBuf::from(file));
        }
    }
    None
}

fn usual_config(unit: &str) -> PathBuf {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    let name = match name.split_once('@') {
        Some((_, instance)) => instance,
        None => name.strip_prefix("crossload-").unwrap_or(name),
    };
    Path::new(CONFIGURATIONS).join(format!("{name}.toml"))
}

impl Service {
    /// Whether it says that it can do its work.
    pub(super) fn is_ready(&self, program: &Program) -> bool {
        self.admin().is_some_and(|admin| program.finds_ready(&admin))
    }

    /// Whether it has ended by itself, and systemd waits to start it again.
    pub(super) fn has_failed(&self) -> bool {
        property(&self.unit, "SubState") == "auto-restart"
    }

    /// Where systemd shows the credentials of its unit.
    pub(super) fn credentials(&self) -> PathBuf {
        Path::new(CREDENTIALS_OF_UNITS).join(&self.unit)
    }

    /// Its configuration, if it is valid.
    pub(super) fn configuration(&self) -> Option<Configuration> {
        let loaded = Configuration::load_with_sources(self.config.as_deref()?, Some(&self.credentials()));
        loaded.ok().map(|(configuration, _)| configuration)
    }

    /// The URL of its admin address.
    fn admin(&self) -> Option<String> {
        let configuration = self.configuration()?;
        let address = configuration
            .server
            .admin_listen
            .filter(|address| address.port() != 0)?;
        Some(format!("http://{}", reachable(address)))
    }

    /// Restarts it, and watches it for a time. What was ready before must be ready again.
    ///
    /// # Errors
    /// Why it is not up, in words.
    pub(super) fn restart(&self, program: &Program, was_ready: bool, watch: Duration) -> Result<(), String> {
        self.order("restart")?;
        let starts = self.starts();
        let begun = Instant::now();
        let mut is_ready = !was_ready;
        loop {
            self.check_active()?;
            if self.starts() != starts {
                return Err("it ended by itself and was started again".to_owned());
            }
            is_ready = is_ready || self.is_ready(program);
            match begun.elapsed() {
                elapsed if is_ready && elapsed >= watch => return Ok(()),
                elapsed if elapsed >= watch.max(UPGRADE_READY_WAIT) => {
                    return Err("it was ready before, and does not become ready".to_owned());
                }
                _ => std::thread::sleep(UPGRADE_LOOK_PERIOD),
            }
        }
    }

    /// Stops it; whether that works shows when it is started.
    pub(super) fn stop(&self) {
        let _ = self.order("stop");
    }

    /// Starts it.
    ///
    /// # Errors
    /// Why it is not up, in words.
    pub(super) fn start(&self) -> Result<(), String> {
        // One that has failed often is not started before this.
        let _ = self.order("reset-failed");
        self.order("start")?;
        self.check_active()
    }

    fn order(&self, verb: &str) -> Result<(), String> {
        match systemctl(&[verb, &self.unit]) {
            Ok(said) if said.status.success() => Ok(()),
            Ok(said) => {
                let says = String::from_utf8_lossy(&said.stderr).trim().replace('\n', " ");
                Err(format!("systemctl {verb}: {says}"))
            }
            Err(cause) => Err(format!("systemctl {verb}: {cause}")),
        }
    }

    fn check_active(&self) -> Result<(), String> {
        let says = match systemctl(&["is-active", &self.unit]) {
            Ok(said) => String::from_utf8_lossy(&said.stdout).trim().to_owned(),
            Err(cause) => return Err(format!("systemctl is-active: {cause}")),
        };
        match says.as_str() {
            "active" | "reloading" => Ok(()),
            other => Err(format!("it is {other}")),
        }
    }

    /// How often systemd has started it again by itself.
    fn starts(&self) -> String {
        property(&self.unit, "NRestarts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_the_configuration_of_its_command_line() {
        let shown =
            "{ path=/usr/bin/crossload ; argv[]=/usr/bin/crossload serve --config /etc/x.toml ; ignore_errors=no }";
        assert_eq!(config_in(shown), Some("/etc/x.toml".into()));
        assert_eq!(
            config_in("argv[]=/usr/bin/crossload serve --config=/y ;"),
            Some("/y".into())
        );
        assert_eq!(config_in("argv[]=/usr/bin/crossload queue serve ;"), None);
        for (unit, file) in [
            ("crossload.service", "crossload.toml"),
            ("crossload-queue.service", "queue.toml"),
            ("crossload-redirector.service", "redirector.toml"),
            ("crossload@north.service", "north.toml"),
        ] {
            assert_eq!(usual_config(unit), Path::new("/etc/crossload").join(file), "{unit}");
            assert!(is_ours(unit) && is_ours(&full(unit)), "{unit}");
        }
        assert!(!is_ours("crossload-exporter.service"));
    }

    #[test]
    fn a_configuration_with_credentials_of_its_unit_is_read() {
        let site = tempfile::tempdir().unwrap();
        let file = site.path().join("c.toml");
        let text = "[server]\nadmin_listen = \"127.0.0.1:9\"\n[macaroons]\nsecret_file = \"credential:secret\"\n";
        std::fs::write(&file, text).unwrap();
        let service = Service {
            unit: "crossload@none.service".to_owned(),
            config: Some(file),
        };
        let secret = Path::new("/run/credentials/crossload@none.service/secret");
        let configuration = service.configuration().unwrap();
        assert_eq!(configuration.macaroons.secret_file.as_deref(), Some(secret));
        assert_eq!(service.admin().as_deref(), Some("http://127.0.0.1:9"));
    }

    #[test]
    fn servers_that_listen_everywhere_are_asked_here() {
        for (listens, asked) in [
            ("0.0.0.0:9", "127.0.0.1:9"),
            ("[::]:9", "[::1]:9"),
            ("192.0.2.1:9", "192.0.2.1:9"),
        ] {
            assert_eq!(reachable(listens.parse().unwrap()), asked.parse().unwrap());
        }
    }
}
