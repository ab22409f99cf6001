//! Chromium without a window: what it makes of a page, and how the page looks in it.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Result, require};

use crate::lab::Lab;
use crate::run::run;

/// Debian's name of it.
pub const CHROMIUM: &str = "chromium";
/// It opens another page and looks at it.
const LAYOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/pages/layout.html");
const FOUND: &str = "<pre id=\"found\">";

/// A page after a browser has opened it.
#[derive(Debug)]
pub struct Browsed {
    /// The document as it stands then, as markup.
    pub document: String,
    /// What was written to the console: errors of scripts, what was blocked.
    pub console: Vec<String>,
}

impl Lab {
    /// Opens `url` in Chromium with `options`.
    ///
    /// # Errors
    /// [`testkit::Error::Missing`] when it is not installed.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn browse(&self, url: &str, options: &[&str]) -> Result<Browsed> {
        require(CHROMIUM)?;
        let profile = self.fresh("browser");
        let mut command = self.command(CHROMIUM)?;
        command
            .arg(format!("--user-data-dir={}", profile.display()))
            // Its sandbox refuses root, and containers refuse the sandbox; the pages are our own.
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
            // It would look for news of its maker's.
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
            ])
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1")
            .args([
                "--ignore-certificate-errors",
                "--virtual-time-budget=10000",
                "--dump-dom",
            ])
            .args(options)
            .arg(url);
        let done = run(&command).succeeded();
        drop(std::fs::remove_dir_all(profile));
        let console = done.stderr.lines().filter(|line| line.contains(":CONSOLE:"));
        Ok(Browsed {
            document: done.text(),
            console: console.map(str::to_owned).collect(),
        })
    }

    /// Opens a page in a file in a frame that is `width_px` wide, and tells how it looks: see
    /// `pages/layout.html`. What was written to the console is in `console`.
    ///
    /// # Errors
    /// As [`Lab::browse`].
    ///
    /// # Panics
    /// When the page cannot be looked at.
    #[track_caller]
    pub fn layout(&self, file: &Path, width_px: u32, options: &[&str]) -> Result<Value> {
        let fragment = json!([width_px, format!("file://{}", file.display())]).to_string();
        let fragment: String = fragment.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let options = [&["--allow-file-access-from-files"], options].concat();
        let seen = self.browse(&format!("file://{LAYOUT}#{fragment}"), &options)?;
        let found = seen.document.split_once(FOUND);
        let found = found.and_then(|(_, rest)| rest.split_once("</pre>"));
        let (found, _) = found.unwrap_or_else(|| panic!("nothing was found: {seen:?}"));
        // The words of the page are text in the document.
        let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let mut found: Value = serde_json::from_str(&found).unwrap_or_else(|cause| panic!("{cause}: {found}"));
        found["console"] = json!(seen.console);
        Ok(found)
    }
}
