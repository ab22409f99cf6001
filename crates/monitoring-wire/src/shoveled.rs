//! Packets in the messages that OSG's shoveler sends to a message bus.

use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

/// A shoveler's message.
#[derive(Serialize)]
struct Message<'a> {
    remote: String,
    version: &'a str,
    data: String,
}

/// The message of a packet, as JSON: what the shoveler (2.3.0) makes of a datagram that came from
/// `sender`, and its collector reads from the bus. Receivers tell servers apart by this address and
/// the start time in the packet. `version` is that of the program that sends the message.
#[must_use]
pub fn shoveled(packet: &[u8], sender: SocketAddr, version: &str) -> String {
    // An address of IPv6 has no brackets there: the port follows the last colon.
    let ip: IpAddr = sender.ip().to_canonical();
    let message = Message {
        remote: format!("{ip}:{}", sender.port()),
        version,
        data: STANDARD.encode(packet),
    };
    // It has only text, which JSON can always hold.
    serde_json::to_string(&message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_what_the_shoveler_writes() {
        let shown = |sender: &str| shoveled(b"=\0\xff\n", sender.parse().unwrap(), "1.2.1");
        assert_eq!(
            shown("192.0.2.7:1094"),
            r#"{"remote":"192.0.2.7:1094","version":"1.2.1","data":"PQD/Cg=="}"#
        );
        assert!(shown("[2001:db8::1]:443").contains(r#""remote":"2001:db8::1:443""#));
        assert!(shown("[::ffff:192.0.2.7]:1").contains(r#""remote":"192.0.2.7:1""#));
    }
}
