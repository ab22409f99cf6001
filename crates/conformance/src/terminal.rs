//! A terminal of tmux: what a user sees, and types.

use std::path::Path;

use testkit::{Result, require};

use crate::lab::Lab;
use crate::run::run;

/// A server of tmux of its own; dropping it ends its terminals.
pub struct Terminal<'a> {
    lab: &'a Lab,
    socket: String,
}

impl<'a> Terminal<'a> {
    /// A terminal that shows nothing yet.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] when tmux is not installed.
    ///
    /// # Panics
    /// When the path of the scratch directory is no text.
    pub fn new(lab: &'a Lab) -> Result<Self> {
        require("tmux")?;
        let socket = lab.fresh("tmux");
        Ok(Self {
            lab,
            socket: socket.to_str().expect("plain").to_owned(),
        })
    }

    /// Runs a line of the shell in a directory, on a screen of 24 rows and so many columns.
    ///
    /// # Panics
    /// When the path of the directory is no text.
    #[track_caller]
    pub fn start(&self, columns: usize, directory: &Path, line: &str) {
        let (columns, directory) = (columns.to_string(), directory.to_str().expect("plain"));
        let size = ["-x", columns.as_str(), "-y", "24"];
        let place = ["-c", directory, line];
        self.tmux(&[&["new-session", "-d"][..], &size, &place].concat());
    }

    #[track_caller]
    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.lab.command("tmux").expect("tmux is installed");
        command.args(["-S", &self.socket, "-f", "/dev/null"]).args(arguments);
        run(command.env("TERM", "xterm-256color")).text()
    }

    /// Presses keys, by tmux's names for them.
    ///
    /// # Panics
    /// When tmux is missing.
    #[track_caller]
    pub fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"][..], keys].concat());
    }

    /// The lines on the screen, without empty ones at the end.
    ///
    /// # Panics
    /// When tmux is missing.
    #[track_caller]
    #[must_use]
    pub fn picture(&self) -> Vec<String> {
        let shown = self.tmux(&["capture-pane", "-p"]);
        let lines = shown.trim_end().lines();
        lines.map(|line| line.trim_end().to_owned()).collect()
    }

    /// What is on the screen, with the sequences that colour it.
    ///
    /// # Panics
    /// When tmux is missing.
    #[track_caller]
    #[must_use]
    pub fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Whether a line on the screen has this text.
    ///
    /// # Panics
    /// When tmux is missing.
    #[track_caller]
    #[must_use]
    pub fn shows(&self, text: &str) -> bool {
        self.picture().iter().any(|line| line.contains(text))
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}
