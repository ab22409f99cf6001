//! Reads configurations, with the credentials that the service manager passes.

use std::path::{Path, PathBuf};

use config::{Configuration, Faults, Sources};

/// Where the service manager shows credentials (`LoadCredential=` of systemd).
pub(crate) const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";
/// Where systemd keeps those of all units, each in a directory with the name of the unit.
pub(crate) const CREDENTIALS_OF_UNITS: &str = "/run/credentials";

/// Reads a configuration file, and those of the directory beside it.
///
/// # Errors
/// Every mistake with its file and line.
pub(crate) fn load(file: &Path) -> Result<Configuration, Faults> {
    load_with_sources(file).map(|(configuration, _)| configuration)
}

/// As [`load`], with the texts.
///
/// # Errors
/// As [`load`].
pub(crate) fn load_with_sources(file: &Path) -> Result<(Configuration, Sources), Faults> {
    let credentials = std::env::var_os(CREDENTIALS).map(PathBuf::from);
    Configuration::load_with_sources(file, credentials.as_deref())
}
