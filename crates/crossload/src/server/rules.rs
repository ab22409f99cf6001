//! The rules of who may do what where: those of the configuration file, and behind them those of an XRootD
//! `authdb`.

use std::path::Path;

use config::Configuration;
use policy::{Policy, Rule, read_authdb};

use crate::failure::Failure;

/// The exports and rules of a configuration, as policy wants them.
///
/// # Errors
/// What is wrong with the `authdb`, a line for each fault.
pub(crate) fn policy(configuration: &Configuration) -> Result<Policy, Failure> {
    let exports = configuration.exports.iter().map(|export| export.rules()).collect();
    Ok(Policy::new(exports, rules(configuration)?))
}

/// All rules, in the order in which they hold.
///
/// # Errors
/// As [`policy`].
pub(crate) fn rules(configuration: &Configuration) -> Result<Vec<Rule>, Failure> {
    let mut rules = configuration.policy_rules();
    if let Some(file) = &configuration.policy.authdb_file {
        rules.extend(authdb(file)?);
    }
    Ok(rules)
}

/// The rules of an XRootD `authdb`.
///
/// # Errors
/// When it cannot be read, and everything in it that cannot be said in rules.
pub(crate) fn authdb(file: &Path) -> Result<Vec<Rule>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|cause| Failure::system(file.display().to_string(), &cause))?;
    read_authdb(&text).map_err(|faults| {
        let lines = faults
            .iter()
            .map(|fault| format!("{}:{}: {}", file.display(), fault.line, fault.words));
        Failure::invalid(lines.collect::<Vec<_>>().join("\n"))
    })
}
