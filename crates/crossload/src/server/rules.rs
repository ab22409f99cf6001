//! The policy's rules: those of the configuration file, then those of an XRootD `authdb`.

use std::path::Path;

use config::Configuration;
use policy::{Policy, Rule, read_authdb};

use crate::failure::Failure;

/// The policy of a configuration: its exports and rules.
///
/// # Errors
/// The faults of the `authdb`, one per line.
pub(crate) fn policy(configuration: &Configuration) -> Result<Policy, Failure> {
    let exports = configuration.exports.iter().map(|export| export.rules()).collect();
    Ok(Policy::new(exports, rules(configuration)?))
}

/// All rules, in order.
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
/// It cannot be read, or has records that no rule can express.
pub(crate) fn authdb(file: &Path) -> Result<Vec<Rule>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|cause| Failure::system(file.display().to_string(), &cause))?;
    read_authdb(&text).map_err(|faults| {
        let lines = faults
            .iter()
            .map(|fault| format!("{}:{}: {}", file.display(), fault.line, fault.words));
        Failure::invalid(lines.collect::<Vec<_>>().join("\n"))
    })
}
