//! The counts of requests over HTTP as packets of XRootD's stream `http`.

use monitoring_wire::{HttpCounts, Server, Stream, http_packets, server_packet};
use telemetry::{Hub, Wishes};

/// Makes the packets when it is time for them.
pub(super) struct HttpStream {
    server: Server,
    hub: Hub,
    wishes: Wishes,
    stream: Stream,
    sent: Vec<HttpCounts>,
    /// When the last ones were made, and when the server was named last, in seconds since 1970.
    flushed_s: u64,
    identified_s: Option<u64>,
}

impl HttpStream {
    pub(super) fn new(server: Server, hub: Hub, wishes: Wishes, now_s: u64) -> Self {
        Self {
            server,
            hub,
            wishes,
            stream: Stream::new(seconds(now_s)),
            sent: Vec::new(),
            flushed_s: now_s,
            identified_s: None,
        }
    }

    /// What is to be sent now: who the server is, and the counts if they have changed. They are
    /// totals, and are sent again with the name, for receivers that lost or missed them.
    pub(super) fn due(&mut self, now_s: u64) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let since = |last: u64| now_s.saturating_sub(last);
        if self
            .identified_s
            .is_none_or(|last| since(last) >= self.wishes.identity_s)
        {
            self.identified_s = Some(now_s);
            self.sent.clear();
            packets.push(server_packet(&mut self.stream, &self.server));
        }
        if since(self.flushed_s) >= self.wishes.flush_s {
            let counts = self.hub.http_counts();
            if counts != self.sent {
                let (begin_s, end_s) = (seconds(self.flushed_s), seconds(now_s));
                packets.extend(http_packets(&mut self.stream, &self.server, begin_s, end_s, &counts));
                self.sent = counts;
            }
            self.flushed_s = now_s;
        }
        packets
    }
}

/// Seconds as packets hold them, until 2106.
fn seconds(since_1970_s: u64) -> u32 {
    u32::try_from(since_1970_s).unwrap_or(u32::MAX)
}
