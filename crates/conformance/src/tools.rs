//! The command-line programs that tests drive, each prepared to trust the site's authority.

use std::process::Command;

use serde_json::Value;
use testkit::{Crossload, Result, XrootdVersion};

use crate::endpoint::Endpoint;
use crate::lab::Lab;
use crate::run::{Run, run, run_with_input};

impl Lab {
    /// Runs `gfal-TOOL`.
    ///
    /// # Panics
    /// When gfal2 is missing.
    #[track_caller]
    #[must_use]
    pub fn gfal(&self, tool: &str, arguments: &[&str]) -> Run {
        let mut command = self.command(&format!("gfal-{tool}")).expect("gfal2 is installed");
        command.args(arguments);
        run(&command)
    }

    /// Runs `davix-TOOL`.
    ///
    /// # Panics
    /// When davix is missing.
    #[track_caller]
    #[must_use]
    pub fn davix(&self, tool: &str, arguments: &[&str]) -> Run {
        let mut command = self.command(&format!("davix-{tool}")).expect("davix is installed");
        command
            .arg("--capath")
            .arg(self.authority().trust_directory())
            .args(arguments);
        run(&command)
    }

    /// Runs `xrdcp` without its progress bar.
    ///
    /// # Panics
    /// When XRootD's client is missing.
    #[track_caller]
    #[must_use]
    pub fn xrdcp(&self, arguments: &[&str]) -> Run {
        self.xrdcp_with(&[], arguments)
    }

    /// Runs `xrdcp` without its progress bar and with further variables in its environment.
    ///
    /// # Panics
    /// When XRootD's client is missing.
    #[track_caller]
    #[must_use]
    pub fn xrdcp_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
        let mut command = self.command("xrdcp").expect("XRootD's client is installed");
        command.arg("--nopbar").args(arguments).envs(variables.iter().copied());
        run(&command)
    }

    /// A command of the client `program` of an XRootD release, prepared as [`Lab::command`] does.
    /// From 6 on it speaks HTTP too.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] when it is not installed.
    pub fn xrootd_client(&self, version: XrootdVersion, program: &str) -> Result<Command> {
        let mut command = self.prepared(&version.require(program)?);
        if version >= XrootdVersion::V6 {
            let directory = self.fresh("plugins");
            std::fs::create_dir(&directory)?;
            let plug_in = "url = http://*;https://*;dav://*;davs://*\nlib = libXrdClHttp.so\nenable = true\n";
            std::fs::write(directory.join("http.conf"), plug_in)?;
            command.env("XRD_PLUGINCONFDIR", directory);
        }
        Ok(command)
    }

    /// Runs `xrdcp` of an XRootD release without its progress bar.
    ///
    /// # Panics
    /// When it is missing.
    #[track_caller]
    #[must_use]
    pub fn xrdcp_of(&self, version: XrootdVersion, arguments: &[&str]) -> Run {
        let mut command = self.xrootd_client(version, "xrdcp").expect("it is installed");
        command.arg("--nopbar").args(arguments);
        run(&command)
    }

    /// Runs one command of `xrdfs` at a server.
    ///
    /// # Panics
    /// When XRootD's client is missing.
    #[track_caller]
    #[must_use]
    pub fn xrdfs(&self, server: &Endpoint, arguments: &[&str]) -> Run {
        let mut command = self.command("xrdfs").expect("XRootD's client is installed");
        command.arg(server.root_address()).args(arguments);
        run(&command)
    }

    /// A shell with the lines that reproduce a failure, as a person would paste them. `option` is
    /// `-c`, or `-ec` to end at the first line that fails.
    ///
    /// # Panics
    /// When there are none, or our client has not been built.
    #[track_caller]
    #[must_use]
    pub fn pasted(&self, option: &str, lines: &Value) -> Command {
        let lines = lines.as_array().expect("lines").iter();
        let script: Vec<&str> = lines.filter_map(Value::as_str).collect();
        assert!(!script.is_empty(), "no lines");
        let own = Crossload::binary().expect("the client is built");
        let path = std::env::var("PATH").expect("a path");
        let path = format!("{}:{path}", own.parent().expect("a directory").display());
        let mut shell = self.command("sh").expect("a shell");
        shell.args([option, &script.join("\n")]).env("PATH", path);
        shell
    }

    /// What our client is started with for `command`.
    #[must_use]
    pub fn client_arguments(&self, command: &str, arguments: &[&str]) -> Vec<String> {
        let ca = self.authority().ca_file().to_string_lossy().into_owned();
        let start = [command.to_owned(), "--cacert".to_owned(), ca];
        start
            .into_iter()
            .chain(arguments.iter().map(|text| (*text).to_owned()))
            .collect()
    }

    /// Runs `command` of our client.
    ///
    /// # Panics
    /// When it has not been built.
    #[track_caller]
    #[must_use]
    pub fn run_client(&self, command: &str, arguments: &[&str]) -> Run {
        self.run_client_with_input(command, arguments, &[])
    }

    /// Runs `command` of our client and feeds it `input`.
    ///
    /// # Panics
    /// When it has not been built.
    #[track_caller]
    #[must_use]
    pub fn run_client_with_input(&self, command: &str, arguments: &[&str], input: &[u8]) -> Run {
        let command = self
            .client(self.client_arguments(command, arguments))
            .expect("the client is built");
        run_with_input(&command, input)
    }
}
