//! What a server says of the protocol when it offers it.

use super::{Fault, Result, VERSION, VERSION_MIN};

/// Most authorities to list or read. A trust directory has about a hundred.
const AUTHORITIES_MAX: usize = 1024;

/// The parameters of the server's offer: `v:10600,c:ssl,ca:6629c24d.0|f36e0485.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEntry {
    /// The server's version.
    pub version: u32,
    /// The secret of the agreement is padded to the length of the prime before a key is taken from
    /// it.
    pub pads_secret: bool,
    /// Hashes of the names of authorities, with `.0` behind each: OpenSSL's in its present form and
    /// in that of before 1.0. Servers name the authority of their own certificate, and clients look
    /// for a file of that name before they go on.
    pub authorities: Vec<String>,
}

impl ServerEntry {
    /// The offer of a server whose certificate these authorities vouch for: the hashes of their
    /// names.
    #[must_use]
    pub fn new(hashes: impl IntoIterator<Item = u32>) -> Self {
        let name = |hash: u32| format!("{hash:08x}.0");
        Self {
            version: VERSION,
            pads_secret: true,
            authorities: hashes.into_iter().take(AUTHORITIES_MAX).map(name).collect(),
        }
    }

    /// The parameters as they stand in the list of protocols.
    #[must_use]
    pub fn encode(&self) -> String {
        let library = if self.pads_secret { "ssl" } else { "sslnopad" };
        format!("v:{},c:{library},ca:{}", self.version, self.authorities.join("|"))
    }

    /// Reads the parameters.
    ///
    /// # Errors
    /// A version that is too old or none, no library that is known.
    pub fn parse(parameters: &str) -> Result<Self> {
        let mut entry = Self {
            version: 0,
            pads_secret: true,
            authorities: Vec::new(),
        };
        let mut library = None;
        for part in parameters.trim_end_matches('\0').split(',') {
            match part.split_once(':') {
                Some(("v", number)) => {
                    let bad = |_| Fault("the server's version is no number");
                    entry.version = number.parse().map_err(bad)?;
                }
                Some(("c", names)) => {
                    library = names.split('|').find(|name| matches!(*name, "ssl" | "sslnopad"));
                }
                Some(("ca", names)) => {
                    let names = names.split('|').filter(|name| !name.is_empty());
                    entry.authorities = names.take(AUTHORITIES_MAX).map(str::to_owned).collect();
                }
                _ => {}
            }
        }
        if entry.version < VERSION_MIN {
            return Err(Fault("the server's version is too old"));
        }
        entry.pads_secret = library.ok_or(Fault("the server's cryptographic library is unknown"))? == "ssl";
        Ok(entry)
    }

    /// The hashes as one text, as the client repeats those that it knows.
    #[must_use]
    pub fn authority_list(&self) -> String {
        self.authorities.join("|")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offer_of_a_real_server_comes_out_as_it_went_in() {
        let text = "v:10600,c:ssl,ca:6629c24d.0|f36e0485.0";
        let entry = ServerEntry::parse(text).unwrap();
        assert_eq!(entry, ServerEntry::new([0x6629_c24d, 0xf36e_0485]));
        assert_eq!(entry.encode(), text);
        assert!(!ServerEntry::parse("v:10600,c:sslnopad,ca:").unwrap().pads_secret);
    }

    #[test]
    fn old_and_strange_servers_are_refused() {
        for text in [
            "",
            "v:10300,c:ssl,ca:1.0",
            "v:x,c:ssl",
            "v:10600,c:other,ca:1.0",
            "v:10600",
        ] {
            assert!(ServerEntry::parse(text).is_err(), "{text}");
        }
    }
}
