//! The stream of answers over HTTP (`g` with provider `H`), as JSON.

use std::time::Duration;

use serde::Serialize;

use crate::copies::{json, packet_head};
use crate::header::{PACKET_BYTES_MAX, Stream};
use crate::maps::Server;

/// How many requests of a method had a status, since the server started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCounts {
    /// The method, or `Malformed` or `UNKNOWN`.
    pub method: &'static str,
    /// The status, or `UNKNOWN`.
    pub status: &'static str,
    /// All of them that have ended.
    pub count: u64,
    /// Those whose connection broke.
    pub network_errors: u64,
    /// Those that failed otherwise.
    pub server_errors: u64,
    /// How long all took.
    pub duration: Duration,
}

/// The figures in XRootD's names and order.
#[derive(Serialize)]
struct Figures {
    count: u64,
    errors_network: u64,
    errors_xrootd: u64,
    success: u64,
    duration_seconds: f64,
}

impl HttpCounts {
    fn key(&self) -> String {
        format!("HTTP_{}_{}", self.method, self.status)
    }

    fn figures(&self) -> Figures {
        let failed = self.network_errors.saturating_add(self.server_errors);
        Figures {
            count: self.count,
            errors_network: self.network_errors,
            errors_xrootd: self.server_errors,
            success: self.count.saturating_sub(failed),
            duration_seconds: self.duration.as_secs_f64(),
        }
    }
}

/// The packets of these counts at `end_s`; `begin_s` is when the last ones were made, both in
/// seconds since 1970. XRootD 6 sends one object with all counts, of up to 32 KiB. Here each packet
/// has an object with some of them, so that it fits into one frame: the counts are totals, which
/// receivers keep by their names.
#[must_use]
pub fn http_packets(
    stream: &mut Stream,
    server: &Server,
    begin_s: u32,
    end_s: u32,
    counts: &[HttpCounts],
) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut rest = counts;
    while !rest.is_empty() {
        let mut text = packet_head(stream, server, "H", begin_s, end_s);
        text.push('\n');
        let mut taken = 0;
        for one in rest {
            let entry = format!("\"{}\":{}", one.key(), json(&one.figures()));
            // What begins, separates and ends entries has four bytes at most.
            if taken > 0 && text.len() + entry.len() + 4 > PACKET_BYTES_MAX {
                break;
            }
            text.push(if taken == 0 { '{' } else { ',' });
            text.push_str(&entry);
            taken += 1;
        }
        rest = &rest[taken..];
        text.push_str("}\0");
        packets.push(text.into_bytes());
    }
    packets
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn server() -> Server {
        let text = str::to_owned;
        Server {
            id: 7,
            pid: 1,
            user: text("u"),
            host: text("h"),
            site: text("S"),
            port: 1094,
            instance: text("anon"),
            program: text("crossload"),
            version: text("1"),
        }
    }

    fn counts(method: &'static str, status: &'static str) -> HttpCounts {
        HttpCounts {
            method,
            status,
            count: 5,
            network_errors: 1,
            server_errors: 2,
            duration: Duration::from_millis(1500),
        }
    }

    #[test]
    fn counts_have_the_names_of_xrootd() {
        let mut stream = Stream::new(9);
        let packets = http_packets(&mut stream, &server(), 10, 15, &[counts("GET", "200")]);
        let text = String::from_utf8(packets[0].clone()).unwrap();
        let (head, body) = text.trim_end_matches('\0').split_once('\n').unwrap();
        assert_eq!(
            head,
            r#"{"code":"g","pseq":  0,"stod":9,"sid":7,"gs":{"type":"H","tbeg":10,"tend":15}}"#
        );
        let figures = r#"{"count":5,"errors_network":1,"errors_xrootd":2,"success":2,"duration_seconds":1.5}"#;
        assert_eq!(body, format!("{{\"HTTP_GET_200\":{figures}}}"));
    }

    #[test]
    fn many_counts_take_several_packets_and_each_is_there_once() {
        let mut stream = Stream::new(9);
        let all: Vec<HttpCounts> = ["GET", "PUT", "HEAD", "COPY"]
            .into_iter()
            .flat_map(|method| ["200", "201", "404", "500", "507"].map(|status| counts(method, status)))
            .collect();
        let packets = http_packets(&mut stream, &server(), 10, 15, &all);
        assert!(packets.len() > 1 && packets.iter().all(|packet| packet.len() <= PACKET_BYTES_MAX));
        let keys = packets.iter().flat_map(|packet| {
            let text = String::from_utf8(packet.clone()).unwrap();
            let body = text.trim_end_matches('\0').split_once('\n').unwrap().1.to_owned();
            let body: Map<String, serde_json::Value> = serde_json::from_str(&body).unwrap();
            body.into_iter().map(|(key, _)| key)
        });
        assert_eq!(keys.count(), all.len());
        assert!(http_packets(&mut stream, &server(), 10, 15, &[]).is_empty());
    }
}
