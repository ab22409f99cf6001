//! Pages in Chromium, driven step by step: what a person would meet on a telephone and a screen, by
//! light and in the dark, by mouse and keyboard.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Error, Result, require};

use crate::browser::CHROMIUM;
use crate::lab::Lab;
use crate::run::run;

/// Pages that one browser looks at: more would take longer than a command may.
const PATHS_AT_ONCE: usize = 6;
/// It opens the pages and tells what it found.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/pages/look.mjs");

/// Pages to look at.
#[derive(Debug)]
pub struct Look {
    url: String,
    paths: Vec<String>,
    has_scripts: bool,
    wait_for: Option<String>,
    token: Option<String>,
    is_signed_in_at_issuer: bool,
}

impl Look {
    /// Pages of a server, at 390 and 1440 pixels, light and dark.
    #[must_use]
    pub fn new(url: &str, paths: &[&str]) -> Self {
        Self {
            url: url.to_owned(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            has_scripts: true,
            wait_for: None,
            token: None,
            is_signed_in_at_issuer: false,
        }
    }

    /// The same in a browser that runs no scripts.
    #[must_use]
    pub fn without_scripts(mut self) -> Self {
        self.has_scripts = false;
        self
    }

    /// The same by a browser that has signed in with this token, by the form.
    #[must_use]
    pub fn signed_in_with(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// The same by a browser that has signed in at the issuer, by the link on the first page, which
    /// asks for that.
    #[must_use]
    pub fn signed_in_at_issuer(mut self) -> Self {
        self.is_signed_in_at_issuer = true;
        self
    }

    /// Waits until this expression holds on each page.
    #[must_use]
    pub fn wait_for(mut self, expression: &str) -> Self {
        self.wait_for = Some(expression.to_owned());
        self
    }
}

/// Looks at pages: for each page, width and scheme an object with `status`, `errors` (of the
/// console), `at` (its URL at the end), `viewer` (who has signed in), `cookies` (without their
/// values), `wide` (pixels that the page is wider than its window), `keys` (what the keyboard
/// reaches) and `axe` (violations of accessibility). `SCREENSHOTS` names a directory for pictures
/// of all that (`screenshot`); without it none are taken.
///
/// # Errors
/// [`Error::Missing`] without Chromium, Node.js or the modules.
#[track_caller]
pub fn look_at(lab: &Lab, look: &Look) -> Result<Vec<Value>> {
    require(CHROMIUM)?;
    let modules = modules()?;
    let pictures = std::env::var_os("SCREENSHOTS").map(PathBuf::from);
    if let Some(directory) = &pictures {
        std::fs::create_dir_all(directory).expect("a directory");
    }
    let mut seen = Vec::new();
    for paths in look.paths.chunks(PATHS_AT_ONCE) {
        let order = json!({"url": look.url, "paths": paths, "javaScript": look.has_scripts,
            "waitFor": look.wait_for, "token": look.token, "issuer": look.is_signed_in_at_issuer,
            "pictures": pictures});
        let mut command = lab.command("node")?;
        command.arg(SCRIPT).arg(order.to_string());
        command.env("CROSSLOAD_NPM", &modules);
        // One browser keeps two processors busy; several at once are too slow for their limits.
        let turn = std::fs::File::create(modules.join("browser.lock")).expect("a file beside the modules");
        turn.lock().expect("the browser is free at some time");
        let said = run(&command).succeeded().text();
        drop(turn);
        let pages: Vec<Value> = serde_json::from_str(&said).unwrap_or_else(|cause| panic!("{cause}: {said}"));
        seen.extend(pages);
    }
    Ok(seen)
}

/// Demands that each of these pages was seen at both widths, by light and in the dark, and that
/// everyone can read it: nothing violates the rules of accessibility, no page is wider than its
/// window, the keyboard reaches what it has, visibly, and the console has no errors.
///
/// # Panics
/// If it is otherwise.
#[track_caller]
pub fn assert_pages_are_good(seen: &[Value], paths: &[&str]) {
    assert_eq!(seen.len(), 4 * paths.len(), "two widths, two schemes");
    for page in seen {
        assert_eq!(page["axe"], json!([]), "{page:#}");
        assert!(page["wide"].as_i64().is_some_and(|pixels| pixels <= 0), "{page:#}");
        let keys = page["keys"].as_array().expect("places");
        assert!(
            keys.len() >= 2 && keys.iter().all(|key| key["shows"] == true),
            "{page:#}"
        );
        // A refused page is an error of the network for its console.
        let status = page["status"].as_u64().unwrap_or_default();
        let said = format!("status of {status}");
        let is_status = |error: &Value| status >= 400 && error.as_str().is_some_and(|text| text.contains(&said));
        let errors = page["errors"].as_array().expect("errors");
        let wrong = errors.iter().filter(|error| !is_status(error));
        assert_eq!(wrong.count(), 0, "{page:#}");
    }
}

/// The directory with the npm modules, which `./dev` installs.
fn modules() -> Result<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(default, PathBuf::from);
    let directory = target.join("npm");
    match directory.join("node_modules/playwright-core").is_dir() {
        true => Ok(directory),
        false => Err(Error::Missing(
            "the npm modules are not there; ./dev setup test installs them".to_owned(),
        )),
    }
}
