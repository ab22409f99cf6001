//! The label of packets over IPv6 (SciTags), for networks that do not hear fireflies.

use std::net::IpAddr;
use std::sync::Arc;

use credentials::AddressRange;
use monitoring_wire::FlowLabel;
use net::random::random;

use crate::resource::Access;

/// What the packets of connections belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketMark {
    /// The label of their flow.
    pub label: FlowLabel,
    /// Packets to these networks are not marked.
    pub excluded: Arc<[AddressRange]>,
}

impl PacketMark {
    /// The mark that a client chose by its tag, for all networks; `None`: the number is no label.
    #[must_use]
    pub fn of_tag(tag: Option<u16>) -> Option<Self> {
        let label = tag.and_then(FlowLabel::of)?;
        let excluded = Arc::default();
        Some(Self { label, excluded })
    }

    /// The label of packets to this address. Five of its bits are random for each connection.
    fn label_to(&self, address: IpAddr) -> Option<u32> {
        let address = address.to_canonical();
        let is_excluded = self.excluded.iter().any(|range| range.contains(address));
        let [random_bits] = random::<1>();
        self.label.in_packets(random_bits).filter(|_| !is_excluded)
    }
}

impl Access {
    /// What connections are marked with: a connection with another mark is not used again.
    pub(crate) fn connection_label(&self) -> Option<FlowLabel> {
        self.packets.as_ref().map(|mark| mark.label)
    }

    /// The label of packets to an address.
    pub(crate) fn packet_labels(&self) -> impl Fn(IpAddr) -> Option<u32> + Sync + use<> {
        let mark = self.packets.clone();
        move |address| mark.as_ref()?.label_to(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits that are not random.
    const MARK: u32 = 0x3_fefc;

    #[test]
    fn packets_have_the_label_except_to_excluded_networks() {
        let far: IpAddr = "2001:db8::1".parse().unwrap();
        let near: IpAddr = "fc00::1".parse().unwrap();
        let by = |packets: Option<PacketMark>| {
            let access = Access {
                // It is for the server, and may not be for packets.
                scitag: Some(66),
                packets,
                ..Access::default()
            };
            let label_of = access.packet_labels();
            let marked = [far, near].map(|address| label_of(address).map(|label| label & MARK));
            (access.connection_label().map(FlowLabel::number), marked)
        };
        assert_eq!(by(None), (None, [None, None]));
        let tagged = PacketMark::of_tag(Some(132));
        assert_eq!(by(tagged), (Some(132), [Some(0x1_0010), Some(0x1_0010)]));
        let elsewhere = PacketMark {
            label: FlowLabel::of(132).unwrap(),
            excluded: Arc::new([AddressRange::parse("fc00::/7").unwrap()]),
        };
        assert_eq!(by(Some(elsewhere)), (Some(132), [Some(0x1_0010), None]));
        assert_eq!(PacketMark::of_tag(None), None);
        assert_eq!(PacketMark::of_tag(Some(64)), None, "no label");
    }
}
