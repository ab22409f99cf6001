//! A place for a pod: files as Kubernetes mounts them, the pod's user, and the program with a
//! rendered configuration.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use testkit::{Crossload, Process, Result, Scratch, is_superuser, require};

/// The user of the image.
const USER: u32 = 65532;
/// Time to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Permissions of files in a secret: read by the group of the pod (`fsGroup`).
const SECRET_MODE: u32 = 0o440;
/// Permissions of files in a ConfigMap.
const CONFIG_MODE: u32 = 0o644;
/// Permissions of the directories of both.
const DIRECTORY_MODE: u32 = 0o1777;

/// A place for one pod. Its files are below `directory` instead of below `/`.
#[derive(Debug)]
pub(crate) struct Pod {
    directory: PathBuf,
    program: PathBuf,
    /// What the configuration says in other words, such as addresses.
    words: BTreeMap<String, String>,
}

/// A server in it.
#[derive(Debug)]
pub(crate) struct Server {
    _process: Process,
    pub(crate) port: u16,
    pub(crate) admin_port: u16,
}

impl Pod {
    /// An empty place, with a copy of the program that its user can read.
    pub(crate) fn new(scratch: &Scratch, name: &str) -> Result<Self> {
        let directory = scratch.create(name)?;
        let program = scratch.join("crossload");
        if !program.exists() {
            std::fs::copy(Crossload::binary()?, &program)?;
        }
        let pod = Self {
            directory,
            program,
            words: BTreeMap::new(),
        };
        for own in ["srv/crossload", "var/lib/crossload", "log"] {
            let path = pod.directory.join(own);
            std::fs::create_dir_all(&path)?;
            if is_superuser() {
                chown(&path, Some(USER), Some(USER))?;
            }
        }
        Ok(pod)
    }

    /// Has the configuration say `there` instead of `here`.
    pub(crate) fn say(&mut self, here: &str, there: &str) {
        self.words.insert(here.to_owned(), there.to_owned());
    }

    /// The directory that exports serve.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("srv/crossload")
    }

    /// Mounts the secret at this place, or puts its new content there.
    pub(crate) fn mount_secret(&self, place: &str, secret: &Value) {
        let data = secret["data"].as_object().expect("a secret");
        let files = data.iter().map(|(name, text)| {
            let text = STANDARD.decode(text.as_str().expect("base64")).expect("base64");
            (name.clone(), text)
        });
        self.mount(place, &files.collect(), SECRET_MODE);
    }

    /// The same of a configuration file, in the words of this place.
    pub(crate) fn mount_configuration(&self, name: &str, text: &str) {
        let mut text = text.to_owned();
        for (here, there) in &self.words {
            text = text.replace(here, there);
        }
        for place in ["/etc/crossload", "/srv/crossload", "/var/lib/crossload"] {
            text = text.replace(place, self.path(place).to_str().expect("plain"));
        }
        text = text.replace("\"[::]:1094\"", "\"127.0.0.1:0\"");
        text = text.replace("\"[::]:8446\"", "\"127.0.0.1:0\"");
        for port in ["9090", "9446"] {
            text = text.replace(&format!("\"[::]:{port}\""), "\"127.0.0.1:0\"");
        }
        let files = BTreeMap::from([(name.to_owned(), text.into_bytes())]);
        self.mount("/etc/crossload/config", &files, CONFIG_MODE);
    }

    /// Files as the kubelet writes them: their names lead through the link `..data`, which is
    /// replaced as a whole.
    pub(crate) fn mount(&self, place: &str, files: &BTreeMap<String, Vec<u8>>, mode: u32) {
        let place = self.path(place);
        std::fs::create_dir_all(&place).expect("a directory");
        let open = std::fs::Permissions::from_mode(DIRECTORY_MODE);
        std::fs::set_permissions(&place, open).expect("permissions");
        let taken = std::fs::read_dir(&place).expect("a directory").count();
        let generation = format!("..{taken}");
        std::fs::create_dir(place.join(&generation)).expect("a directory");
        for (name, content) in files {
            let file = place.join(&generation).join(name);
            std::fs::write(&file, content).expect("a file");
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("permissions");
            if is_superuser() {
                chown(&file, Some(0), Some(USER)).expect("a group");
            }
        }
        let (new, current) = (place.join("..data_new"), place.join("..data"));
        symlink(&generation, &new).expect("a link");
        std::fs::rename(new, current).expect("the new link");
        for name in files.keys() {
            let file = place.join(name);
            if file.symlink_metadata().is_err() {
                symlink(Path::new("..data").join(name), file).expect("a link");
            }
        }
    }

    /// Starts the server as the pod's user, with the arguments of its container.
    pub(crate) fn start(&self, container: &Value, index: usize) -> Result<Server> {
        let mut command = self.command_of(container, index)?;
        let mut process = Process::spawn("server", &mut command, &self.directory.join("log"))?;
        let (port, admin_port) = process.wait_for("ready", START_TIMEOUT, |process| ports(&process.stdout()))?;
        Ok(Server {
            _process: process,
            port,
            admin_port,
        })
    }

    /// The program as the pod's user, with the arguments of a container.
    pub(crate) fn command_of(&self, container: &Value, index: usize) -> Result<Command> {
        let mut command = self.command()?;
        for argument in container["args"].as_array().expect("arguments") {
            let argument = argument.as_str().expect("a text");
            let argument = argument.replace("$(POD_INDEX)", &index.to_string());
            match argument.starts_with("/etc/crossload") {
                true => command.arg(self.path(&argument)),
                false => command.arg(argument),
            };
        }
        Ok(command)
    }

    /// The program as the pod's user.
    fn command(&self) -> Result<Command> {
        if !is_superuser() {
            return Ok(Command::new(&self.program));
        }
        let mut command = Command::new(require("setpriv")?);
        command.args([&format!("--reuid={USER}"), &format!("--regid={USER}")]);
        command.args(["--clear-groups", "--no-new-privs"]).arg(&self.program);
        Ok(command)
    }

    fn path(&self, place: &str) -> PathBuf {
        self.directory.join(place.trim_start_matches('/'))
    }
}

/// Reads what a server prints when it starts; `None` until it is ready.
fn ports(stdout: &str) -> Option<(u16, u16)> {
    let (lines, _) = stdout.split_once("ready\n")?;
    let after = |prefix: &str| -> Option<u16> {
        let place = lines.lines().find_map(|line| line.strip_prefix(prefix))?;
        place.trim_end_matches('/').rsplit_once(':')?.1.parse().ok()
    };
    Some((after("listening on ")?, after("admin on ")?))
}
