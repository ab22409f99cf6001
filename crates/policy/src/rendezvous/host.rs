//! Whether the host that a client named is the host that connects.
//!
//! The reference servers compare the name with what the name service says about the address. That
//! name is often missing or another of the same host, so the addresses of the name that was given
//! count as well, and all loopback addresses are one host.

use std::net::IpAddr;

/// A host by its name as written, with the addresses that the name service gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedHost {
    name: String,
    addresses: Vec<IpAddr>,
}

/// A host at the other end of a connection, with the name that the name service knows for its
/// address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenHost {
    address: IpAddr,
    name: Option<String>,
}

impl SeenHost {
    /// A host at this address.
    #[must_use]
    pub fn new(address: IpAddr, name: Option<String>) -> Self {
        Self {
            address: address.to_canonical(),
            name,
        }
    }

    /// Its address, an IPv4 one as such.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }
}

impl NamedHost {
    /// A host of this name, which may be an address, in brackets or not.
    #[must_use]
    pub fn new(name: &str, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let addresses = addresses.into_iter().map(|address| address.to_canonical());
        Self {
            name: name.to_owned(),
            addresses: literal(name).into_iter().chain(addresses).collect(),
        }
    }

    /// Whether a name has to be looked up to know its addresses.
    #[must_use]
    pub fn needs_lookup(name: &str) -> bool {
        literal(name).is_none()
    }

    /// Whether it is the host that we see.
    #[must_use]
    pub fn is(&self, seen: &SeenHost) -> bool {
        let same_name = |other: &String| plain(&self.name).eq_ignore_ascii_case(plain(other));
        self.addresses.contains(&seen.address)
            || seen.name.as_ref().is_some_and(same_name)
            || (seen.address.is_loopback() && self.is_loopback())
    }

    fn is_loopback(&self) -> bool {
        let names = ["localhost", "localhost.localdomain", "localhost4", "localhost6"];
        names.iter().any(|name| plain(&self.name).eq_ignore_ascii_case(name))
            || self.addresses.iter().any(IpAddr::is_loopback)
    }
}

/// The address that a name is, if it is one.
fn literal(name: &str) -> Option<IpAddr> {
    let bare = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(name);
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// A name without the dot at the end that makes it absolute.
fn plain(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(address: &str, name: Option<&str>) -> SeenHost {
        SeenHost::new(address.parse().unwrap(), name.map(str::to_owned))
    }

    fn named(name: &str, addresses: &[&str]) -> NamedHost {
        NamedHost::new(name, addresses.iter().map(|address| address.parse().unwrap()))
    }

    #[test]
    fn a_name_is_known_by_its_addresses_or_by_the_name_of_the_address() {
        let door = named("door.example.org", &["192.0.2.7", "2001:db8::7"]);
        assert!(door.is(&seen("192.0.2.7", None)) && door.is(&seen("2001:db8::7", Some("other.example.org"))));
        assert!(door.is(&seen("::ffff:192.0.2.7", None)));
        assert!(door.is(&seen("192.0.2.9", Some("DOOR.example.org."))));
        assert!(!door.is(&seen("192.0.2.8", None)) && !door.is(&seen("192.0.2.8", Some("door.example.com"))));
    }

    #[test]
    fn addresses_may_stand_for_names_in_every_spelling() {
        for spelling in ["192.0.2.7", "[192.0.2.7]", "::ffff:192.0.2.7", "[::ffff:192.0.2.7]"] {
            assert!(!NamedHost::needs_lookup(spelling));
            assert!(named(spelling, &[]).is(&seen("192.0.2.7", None)), "{spelling}");
            assert!(!named(spelling, &[]).is(&seen("192.0.2.8", None)), "{spelling}");
        }
        assert!(NamedHost::needs_lookup("192.0.2"));
    }

    #[test]
    fn all_loopback_addresses_are_one_host_and_no_other() {
        for name in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"] {
            let here = named(name, &[]);
            assert!(
                here.is(&seen("127.0.0.2", None)) && here.is(&seen("::1", None)),
                "{name}"
            );
            assert!(!here.is(&seen("192.0.2.7", None)), "{name}");
        }
        let own_name = named("host", &["127.0.1.1"]);
        assert!(own_name.is(&seen("127.0.0.1", None)) && !own_name.is(&seen("192.0.2.7", None)));
        assert!(!named("host", &["192.0.2.7"]).is(&seen("127.0.0.1", None)));
    }
}
