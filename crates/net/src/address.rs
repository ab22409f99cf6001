//! Which addresses may be dialled on somebody else's behalf.
//!
//! A server that fetches URLs for others can be sent to its own loopback services or into its
//! private network. The check is made on the address that is then connected to, never on a name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is, as far as reaching it for strangers matters.
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
    /// Whether loopback and link-local addresses are allowed.
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

    /// Whether `address` may be dialled.
    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        match reach(address) {
            Reach::Local => self.local,
            Reach::Private => self.private,
            Reach::Public => true,
            Reach::Unusable => false,
        }
    }
}

/// Classifies an address. IPv6 addresses that carry an IPv4 one (mapped, translated, compatible, NAT64,
/// 6to4) are as that one; those that a site's own NAT64 translates (RFC 8215) are as private.
#[must_use]
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => embedded_v4(address).map_or_else(|| reach_v6(address), reach_v4),
    }
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
    } else if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 || segments[..3] == [0x64, 0xff9b, 1] {
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
            ("64:ff9b:1::7f00:1", Reach::Private),
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
}
