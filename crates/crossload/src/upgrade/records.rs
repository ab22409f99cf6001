//! What an upgrade says: on standard output, and in a file for later.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::dates::instant;
use crate::output;
use crate::token::now_s;

/// Says what is done.
pub(super) struct Records {
    log: PathBuf,
}

impl Records {
    pub(super) fn at(log: &Path) -> Self {
        Self { log: log.to_owned() }
    }

    /// A line, or several. Without the file the upgrade goes on: the package manager shows them.
    pub(super) fn say(&self, text: &str) {
        output::line(&format!("crossload: {text}"));
        let mut options = OpenOptions::new();
        let opened = options.append(true).create(true).mode(0o640).open(&self.log);
        if let Ok(mut file) = opened {
            let at = instant(now_s().saturating_mul(1000));
            let _ = writeln!(file, "{at} {text}");
        }
    }
}
