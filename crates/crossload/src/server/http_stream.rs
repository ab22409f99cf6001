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
        let is_due = now_s.saturating_sub(self.flushed_s) >= self.wishes.flush_s;
        self.packets(now_s, is_due)
    }

    /// What is to be sent when the server stops.
    pub(super) fn last(&mut self, now_s: u64) -> Vec<Vec<u8>> {
        self.packets(now_s, true)
    }

    fn packets(&mut self, now_s: u64, has_counts: bool) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let is_old = |last: u64| now_s.saturating_sub(last) >= self.wishes.identity_s;
        if self.identified_s.is_none_or(is_old) {
            self.identified_s = Some(now_s);
            self.sent.clear();
            packets.push(server_packet(&mut self.stream, &self.server));
        }
        if has_counts {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use telemetry::{HttpEnding, SharedMarking};

    use super::*;

    const BEGAN_S: u64 = 1_700_000_000;

    fn stream(hub: &Hub) -> HttpStream {
        let server = Server {
            id: 1,
            pid: 2,
            user: "crossload".to_owned(),
            site: "SITE".to_owned(),
            host: "se.example".to_owned(),
            port: 1094,
            instance: "anon".to_owned(),
            program: "crossload".to_owned(),
            version: "1".to_owned(),
        };
        let wishes = Wishes {
            personal_names: false,
            flush_s: 5,
            progress_s: 60,
            identity_s: 300,
        };
        HttpStream::new(server, hub.clone(), wishes, BEGAN_S)
    }

    /// How many of these packets have counts.
    fn counts(packets: &[Vec<u8>]) -> usize {
        let texts = packets
            .iter()
            .map(|packet| String::from_utf8_lossy(packet).into_owned());
        texts.filter(|text| text.contains("GET_200")).count()
    }

    #[test]
    fn what_was_counted_last_is_sent_when_the_server_stops() {
        let (hub, _) = Hub::new(&[], SharedMarking::default());
        let get = || hub.answered("GET", Some(200), HttpEnding::Success, Duration::from_millis(1));
        let mut stream = stream(&hub);
        get();
        assert_eq!(counts(&stream.due(BEGAN_S)), 0, "not yet");
        assert_eq!(counts(&stream.due(BEGAN_S + 5)), 1);
        assert_eq!(counts(&stream.last(BEGAN_S + 6)), 0, "nothing is new");
        get();
        assert_eq!(counts(&stream.due(BEGAN_S + 7)), 0, "not yet");
        assert_eq!(counts(&stream.last(BEGAN_S + 7)), 1);
    }
}
