//! Ranges of IP addresses, as the `ip:` caveat names them.

use std::fmt;
use std::net::IpAddr;

/// One address or a CIDR range (RFC 4632 §3.1, RFC 4291 §2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    network: IpAddr,
    prefix_bits: u8,
}

impl AddressRange {
    /// Reads `192.0.2.1`, `192.0.2.0/24`, `2001:db8::1` or `2001:db8::/32`.
    ///
    /// `None` when it is neither, or the prefix is longer than the address.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = width_bits(address);
        let prefix_bits = match prefix {
            None => width,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
            Some(_) => return None,
        };
        if prefix_bits > width {
            return None;
        }
        // An IPv4 address written the IPv6 way is the same host; the range follows it when it lies
        // wholly within the mapped block.
        let canonical = address.to_canonical();
        if canonical.is_ipv4() && address.is_ipv6() && prefix_bits >= 96 {
            return Some(Self {
                network: canonical,
                prefix_bits: prefix_bits - 96,
            });
        }
        Some(Self {
            network: address,
            prefix_bits,
        })
    }

    /// Whether the address lies in the range. An IPv4-mapped IPv6 address, as a dual-stack socket
    /// reports it, counts as the IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => same_prefix(
                u32::from(network).into(),
                u32::from(address).into(),
                32,
                self.prefix_bits,
            ),
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                same_prefix(network.into(), address.into(), 128, self.prefix_bits)
            }
            _ => false,
        }
    }
}

fn width_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn same_prefix(network: u128, address: u128, width_bits: u32, prefix_bits: u8) -> bool {
    // A shift by the whole width (prefix 0) matches everything and has no value in u128.
    (network ^ address)
        .checked_shr(width_bits - u32::from(prefix_bits))
        .unwrap_or(0)
        == 0
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.network)?;
        if self.prefix_bits < width_bits(self.network) {
            write!(formatter, "/{}", self.prefix_bits)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(range: &str, address: &str) -> bool {
        AddressRange::parse(range).unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn ranges_hold_what_they_should() {
        assert!(holds("192.0.2.1", "192.0.2.1") && !holds("192.0.2.1", "192.0.2.2"));
        assert!(holds("192.0.2.0/24", "192.0.2.255") && !holds("192.0.2.0/24", "192.0.3.0"));
        assert!(holds("192.0.2.77/24", "192.0.2.1"));
        assert!(holds("0.0.0.0/0", "8.8.8.8") && !holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("::/0", "2001:db8::1") && !holds("::/0", "8.8.8.8"));
        assert!(holds("2001:db8::/32", "2001:db8:ffff::1") && !holds("2001:db8::/32", "2001:db9::1"));
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address() {
        assert!(holds("192.0.2.0/24", "::ffff:192.0.2.9"));
        assert!(holds("::ffff:192.0.2.0/120", "192.0.2.9") && !holds("::ffff:192.0.2.0/120", "192.0.3.9"));
    }

    #[test]
    fn nonsense_is_no_range() {
        for bad in [
            "",
            "host",
            "1.2.3",
            "1.2.3.4/33",
            "1.2.3.4/",
            "1.2.3.4/+8",
            "::1/129",
            "1.2.3.4/24/8",
            " 1.2.3.4",
        ] {
            assert_eq!(AddressRange::parse(bad), None, "{bad}");
        }
    }
}
