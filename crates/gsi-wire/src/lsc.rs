//! Files that say which certificates a VO's server may have (`vomsdir/VO/HOST.lsc`): names in one
//! line, the server's first, then its issuer's and so on. `------NEXT CHAIN------` stands between
//! alternatives.

use crate::limits::LSC_CHAINS_MAX;
use types::limits::CERTIFICATE_CHAIN_MAX;

use crate::{Malformed, dn, malformed};

/// The chains of a file, each from the server's own name upwards, in the form of [`dn::canonical`].
///
/// # Errors
/// When there is none, a line is not a name, a chain has no issuer, or there are more than
/// [`LSC_CHAINS_MAX`] chains or [`CERTIFICATE_CHAIN_MAX`] names in one.
pub fn parse(text: &str) -> Result<Vec<Vec<String>>, Malformed> {
    let mut chains = vec![Vec::new()];
    for line in text.lines().map(str::trim) {
        let is_separator = line.is_empty() || (line.starts_with('-') && line.contains("NEXT CHAIN"));
        if line.starts_with('#') {
            continue;
        }
        let last = chains.last_mut().map(|chain: &mut Vec<String>| (chain.len(), chain));
        match last {
            Some((0, _)) if is_separator => {}
            _ if is_separator => chains.push(Vec::new()),
            Some((length, chain)) if line.starts_with('/') && length < CERTIFICATE_CHAIN_MAX => {
                chain.push(dn::canonical(line));
            }
            _ => return Err(malformed("a line is not a name that begins with a slash")),
        }
        if chains.len() > LSC_CHAINS_MAX {
            return Err(malformed("there are too many chains"));
        }
    }
    chains.retain(|chain| !chain.is_empty());
    if chains.is_empty() || chains.iter().any(|chain| chain.len() < 2) {
        return Err(malformed("a chain needs the names of the server and of its issuer"));
    }
    Ok(chains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_and_blank_lines_are_understood() {
        let text = "\n/DC=x/CN=voms\r\n/DC=x/CN=CA\n------NEXT CHAIN------\n# old\n/DC=y/Email=v@x\n/DC=y/CN=CA\n/DC=y/CN=Root\n\n";
        let chains = parse(text).unwrap();
        assert_eq!(chains.len(), 2);
        assert_eq!(chains[0], ["/DC=x/CN=voms", "/DC=x/CN=CA"]);
        assert_eq!(chains[1][0], "/DC=y/emailAddress=v@x");
        assert_eq!(chains[1].len(), 3);
    }

    #[test]
    fn a_chain_without_issuer_or_with_other_words_is_refused() {
        for text in ["", "/CN=alone\n", "CN=x,DC=y\nCN=z\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
