//! Helm, which renders charts: the one that `./dev` builds (`crates/testkit/build-helm`), or that
//! of the machine.

use std::env;
use std::path::PathBuf;

use crate::programs::{is_executable, require, target_directory};
use crate::{Error, Result};

const PROGRAM: &str = "helm";
/// The release that `./dev` builds.
const VERSION: &str = "3.22.0";
/// Names its directory, where that is not below `target/`.
const PREFIX_VARIABLE: &str = "CROSSLOAD_HELM";

/// Helm, for `helm template`.
///
/// # Errors
/// [`Error::Missing`] when there is none.
pub fn require_helm() -> Result<PathBuf> {
    let built = target_directory().join(format!("helm-{VERSION}"));
    let program = env::var_os(PREFIX_VARIABLE).map_or(built, PathBuf::from).join(PROGRAM);
    if is_executable(&program) {
        return Ok(program);
    }
    require(PROGRAM).map_err(|_| Error::Missing("helm is not there; ./dev setup test builds it".to_owned()))
}
