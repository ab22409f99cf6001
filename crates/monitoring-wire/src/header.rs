//! What all packets begin with.

/// The longest packet, in bytes: it fits into one frame of Ethernet with IPv6, so that no part of a
/// datagram can be lost by itself.
pub const PACKET_BYTES_MAX: usize = 1452;
/// Bytes before the content.
pub(crate) const HEADER_BYTES: usize = 8;

/// What a server counts its packets of one kind by.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// When the server started, in seconds since 1970: which of its runs this is.
    pub started_s: u32,
    sequence: u8,
}

impl Stream {
    /// A stream that has sent nothing yet.
    #[must_use]
    pub fn new(started_s: u32) -> Self {
        Self { started_s, sequence: 0 }
    }

    /// The number of the next packet, which goes from 255 to 0.
    pub(crate) fn next(&mut self) -> u8 {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        sequence
    }

    /// A packet with the header of this stream and a content of at most
    /// [`PACKET_BYTES_MAX`] less 8 bytes; what is longer is cut.
    pub(crate) fn packet(&mut self, code: u8, content: &[u8]) -> Vec<u8> {
        let content = &content[..content.len().min(PACKET_BYTES_MAX - HEADER_BYTES)];
        let length = u16::try_from(HEADER_BYTES + content.len()).unwrap_or(u16::MAX);
        let mut packet = Vec::with_capacity(usize::from(length));
        packet.extend([code, self.next()]);
        packet.extend(length.to_be_bytes());
        packet.extend(self.started_s.to_be_bytes());
        packet.extend(content);
        packet
    }
}
