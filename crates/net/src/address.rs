//! Which addresses the server may connect to on behalf of a client.
//!
//! A server that fetches URLs for others can be sent to its own loopback services or into its
//! private network. The check is made on the address that is then connected to, never on a name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::getifaddrs;

/// The kinds of address that matter for connections on behalf of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This machine or its link: loopback, link-local, unspecified.
    Local,
    /// A private network (RFC 1918, RFC 6598, RFC 4193).
    Private,
    /// Everything else that can be connected to.
    Public,
    /// No unicast address: multicast, broadcast, reserved.
    Unusable,
}

/// The addresses that transfers may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Whether this machine's own addresses are allowed: loopback, link-local, and those of its
    /// interfaces.
    pub local: bool,
    /// Whether private networks are allowed.
    pub private: bool,
}

impl AddressPolicy {
    /// Everything that can be connected to: for a person's own client.
    pub const ANY: Self = Self {
        local: true,
        private: true,
    };

    /// Whether `address` may be dialled. Where this machine's own are not allowed it asks the
    /// system for the addresses of its interfaces.
    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        let own = if self.local { Vec::new() } else { own_addresses() };
        self.allows_beside(address, &own)
    }

    fn allows_beside(self, address: IpAddr, own: &[IpAddr]) -> bool {
        let is_own = |form: IpAddr| own.contains(&form);
        if !self.local && (is_own(address) || embedded(address).into_iter().map(IpAddr::V4).any(is_own)) {
            return false;
        }
        match reach(address) {
            Reach::Local => self.local,
            Reach::Private => self.private,
            Reach::Public => true,
            Reach::Unusable => false,
        }
    }
}

/// Addresses of this machine's interfaces; none where the system does not tell.
fn own_addresses() -> Vec<IpAddr> {
    let Ok(interfaces) = getifaddrs() else {
        return Vec::new();
    };
    let address = |interface: nix::ifaddrs::InterfaceAddress| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|found| IpAddr::V4(found.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|found| IpAddr::V6(found.ip())))
    };
    interfaces.filter_map(address).collect()
}

/// Classifies an address. IPv6 addresses that carry an IPv4 one (mapped, translated, compatible,
/// NAT64, 6to4, Teredo) are as that one; those that a site's own NAT64 translates (RFC 8215) are as
/// private, and local where they may carry a local one.
#[must_use]
pub fn reach(address: IpAddr) -> Reach {
    let address = match address {
        IpAddr::V4(address) => return reach_v4(address),
        IpAddr::V6(address) => address,
    };
    if is_site_nat64(address) {
        let is_local = |carried: &Ipv4Addr| carried.is_loopback() || carried.is_link_local();
        return match site_nat64(address).iter().any(is_local) {
            true => Reach::Local,
            false => Reach::Private,
        };
    }
    embedded_v4(address).map_or_else(|| reach_v6(address), reach_v4)
}

/// All IPv4 addresses that an address may stand for.
fn embedded(address: IpAddr) -> Vec<Ipv4Addr> {
    match address {
        IpAddr::V6(address) if is_site_nat64(address) => site_nat64(address).to_vec(),
        IpAddr::V6(address) => embedded_v4(address).into_iter().collect(),
        IpAddr::V4(_) => Vec::new(),
    }
}

fn is_site_nat64(address: Ipv6Addr) -> bool {
    address.segments()[..3] == [0x64, 0xff9b, 1]
}

/// What a site's NAT64 may translate an address to: the length of its prefix, 48 to 96 bits, is
/// known to the site only (RFC 6052 §2.2).
fn site_nat64(address: Ipv6Addr) -> [Ipv4Addr; 4] {
    let bytes = address.octets();
    [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], [12, 13, 14, 15]]
        .map(|[a, b, c, d]| Ipv4Addr::new(bytes[a], bytes[b], bytes[c], bytes[d]))
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let [first, second, ..] = address.octets();
    if address.is_loopback() || address.is_link_local() || first == 0 {
        Reach::Local
    } else if address.is_private() || (first == 100 && (64..128).contains(&second)) {
        Reach::Private
    } else if first >= 224 {
        Reach::Unusable
    } else {
        Reach::Public
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let segments = address.segments();
    let first = segments[0];
    if address.is_loopback() || address.is_unspecified() || first & 0xffc0 == 0xfe80 {
        Reach::Local
    } else if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 {
        Reach::Private
    } else if first & 0xff00 == 0xff00 {
        Reach::Unusable
    } else {
        Reach::Public
    }
}

fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let tail = |at: usize| {
        let [a, b] = segments[at].to_be_bytes();
        let [c, d] = segments[at + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(tail(6)),
        [0, 0, 0, 0, 0, 0, high, _] if high != 0 => Some(tail(6)),
        [0x2002, ..] => Some(tail(1)),
        // Teredo hides the client's address from translators by inverting it (RFC 4380 §4).
        [0x2001, 0, ..] => Some(Ipv4Addr::from_bits(!tail(6).to_bits())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_classified_in_every_disguise() {
        let cases = [
            ("127.0.0.1", Reach::Local),
            ("169.254.1.1", Reach::Local),
            ("0.0.0.0", Reach::Local),
            ("::1", Reach::Local),
            ("::", Reach::Local),
            ("fe80::1", Reach::Local),
            ("::ffff:127.0.0.1", Reach::Local),
            ("::ffff:0:127.0.0.1", Reach::Local),
            ("64:ff9b::7f00:1", Reach::Local),
            ("64:ff9b:1::7f00:1", Reach::Local),
            ("64:ff9b:1:7f00:0:100::", Reach::Local),
            ("64:ff9b:1::a00:1", Reach::Private),
            ("2001:0:4136:e378:8000:63bf:80ff:fffe", Reach::Local),
            ("2002:7f00:1::", Reach::Local),
            ("::127.0.0.1", Reach::Local),
            ("10.0.0.1", Reach::Private),
            ("172.31.255.255", Reach::Private),
            ("192.168.1.1", Reach::Private),
            ("100.64.0.1", Reach::Private),
            ("fd00::1", Reach::Private),
            ("::ffff:10.1.2.3", Reach::Private),
            ("224.0.0.1", Reach::Unusable),
            ("255.255.255.255", Reach::Unusable),
            ("ff02::1", Reach::Unusable),
            ("192.0.2.1", Reach::Public),
            ("2001:db8::1", Reach::Public),
        ];
        for (text, expected) in cases {
            assert_eq!(reach(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn the_policy_lifts_each_ban_separately() {
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        let private: IpAddr = "10.0.0.1".parse().unwrap();
        let strict = AddressPolicy {
            local: false,
            private: true,
        };
        assert!(!strict.allows(loopback) && strict.allows(private));
        assert!(AddressPolicy::ANY.allows(loopback));
        assert!(!AddressPolicy::ANY.allows("224.0.0.1".parse().unwrap()));
    }

    #[test]
    fn an_own_address_is_local_in_every_disguise() {
        let own: Vec<IpAddr> = ["198.51.100.7", "2001:db8::7"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        for text in [
            "198.51.100.7",
            "2001:db8::7",
            "::ffff:198.51.100.7",
            "::ffff:0:198.51.100.7",
            "::198.51.100.7",
            "64:ff9b::198.51.100.7",
            "64:ff9b:1::198.51.100.7",
            "64:ff9b:1:c633:64:700::",
            "64:ff9b:1:c6:33:6407::",
            "64:ff9b:1:0:c6:3364:700:0",
            "2002:c633:6407::1",
            "2001:0:4136:e378:8000:63bf:39cc:9bf8",
        ] {
            let address = text.parse().unwrap();
            let policy = |local| AddressPolicy { local, private: true };
            assert!(!policy(false).allows_beside(address, &own), "{text}");
            assert!(policy(true).allows_beside(address, &own), "{text}");
        }
        for text in [
            "198.51.100.8",
            "2001:db8::8",
            "::ffff:198.51.100.8",
            "64:ff9b::198.51.100.8",
        ] {
            let policy = AddressPolicy {
                local: false,
                private: true,
            };
            assert!(policy.allows_beside(text.parse().unwrap(), &own), "{text}");
        }
    }

    #[test]
    fn the_addresses_of_the_interfaces_are_refused() {
        let own = own_addresses();
        assert!(own.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)), "{own:?}");
        let strict = AddressPolicy {
            local: false,
            private: true,
        };
        for address in own {
            assert!(!strict.allows(address), "{address}");
        }
    }
}
