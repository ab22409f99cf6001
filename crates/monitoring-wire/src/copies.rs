//! The stream of third-party copies (`g` with provider `P`), as JSON.

use serde::Serialize;

use crate::header::{PACKET_BYTES_MAX, Stream};
use crate::maps::Server;

/// The longest packet of copies, in bytes, unless a single copy is longer.
const COPIES_BYTES_MAX: usize = PACKET_BYTES_MAX;

/// A third-party copy that ended. The names of keys are XRootD's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopyRecord {
    /// `xroot` or `http`.
    #[serde(rename = "TPC")]
    pub protocol: &'static str,
    /// The client, as in the packet of its login.
    #[serde(rename = "Client")]
    pub client: String,
    /// How it went.
    #[serde(rename = "Xeq")]
    pub course: Course,
    /// The URL of the source.
    #[serde(rename = "Src")]
    pub source: String,
    /// The URL of the destination.
    #[serde(rename = "Dst")]
    pub destination: String,
    /// Bytes that arrived.
    #[serde(rename = "Size")]
    pub size_bytes: u64,
}

/// The course of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Course {
    /// Begin, in UTC with microseconds: `2026-11-27T08:53:12.123326Z`.
    #[serde(rename = "Beg")]
    pub begin: String,
    /// End.
    #[serde(rename = "End")]
    pub end: String,
    /// 0 for success.
    #[serde(rename = "RC")]
    pub result: u32,
    /// Streams that were used.
    #[serde(rename = "Strm")]
    pub streams: u32,
    /// `pull` or `push`.
    #[serde(rename = "Type")]
    pub mode: &'static str,
    /// 4 or 6.
    #[serde(rename = "IPv")]
    pub family: u8,
}

/// How the head of a packet of copies is written.
#[derive(Serialize)]
struct Span {
    #[serde(rename = "type")]
    provider: &'static str,
    tbeg: u32,
    tend: u32,
}

#[derive(Serialize)]
struct Source<'a> {
    site: &'a str,
    host: &'a str,
    port: u16,
    inst: &'a str,
    pgm: &'a str,
    ver: &'a str,
}

/// A packet of copies that ended between two moments, in seconds since 1970. It takes as many of
/// `records` as fit, and returns how many those are: at least one, if there is one.
#[must_use]
pub fn copy_packet(
    stream: &mut Stream,
    server: &Server,
    begin_s: u32,
    end_s: u32,
    records: &[CopyRecord],
) -> (Vec<u8>, usize) {
    let mut text = packet_head(stream, server, "P", begin_s, end_s);
    let mut taken = 0;
    for record in records {
        let line = json(record);
        if taken > 0 && text.len() + line.len() + 2 > COPIES_BYTES_MAX {
            break;
        }
        text.push('\n');
        text.push_str(&line);
        taken += 1;
    }
    text.push('\0');
    (text.into_bytes(), taken)
}

/// The first line of a packet of this provider.
pub(crate) fn packet_head(
    stream: &mut Stream,
    server: &Server,
    provider: &'static str,
    begin_s: u32,
    end_s: u32,
) -> String {
    let span = json(&Span {
        provider,
        tbeg: begin_s,
        tend: end_s,
    });
    // XRootD writes the number in three places.
    let (sequence, started_s, id) = (stream.next(), stream.started_s, server.id);
    format!(r#"{{"code":"g","pseq":{sequence:>3},"stod":{started_s},"sid":{id},"gs":{span}}}"#)
}

/// The packet that tells receivers of copies who the server is, sent when [`Server::packet`] is.
#[must_use]
pub fn server_packet(stream: &mut Stream, server: &Server) -> Vec<u8> {
    let source = json(&Source {
        site: &server.site,
        host: &server.host,
        port: server.port,
        inst: &server.instance,
        pgm: &server.program,
        ver: &server.version,
    });
    let (sequence, started_s, id) = (stream.next(), stream.started_s, server.id);
    let text = format!("{{\"code\":\"=\",\"pseq\":{sequence},\"stod\":{started_s},\"sid\":{id},\"src\":{source}}}\0");
    text.into_bytes()
}

/// What this writes has only text and numbers, which JSON can always hold.
pub(crate) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
