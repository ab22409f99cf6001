//! The summary of a server as a whole (`xrd.report`), as XML.

use std::fmt::Write as _;
use std::time::Duration;

use markup::Escaped;

use crate::maps::Server;

/// The longest summary, in bytes. It is one datagram, and XRootD's `mpxstats` reads 8 KiB of it.
pub const SUMMARY_BYTES_MAX: usize = 8 * 1024 - 1;
/// The unit of space.
const KIB: u64 = 1024;

/// A server as a whole since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// When the server started, in seconds since 1970.
    pub started_s: u64,
    /// When the figures were gathered, in seconds since 1970.
    pub now_s: u64,
    /// How long that took.
    pub gathering: Duration,
    /// Its connections.
    pub links: Links,
    /// Processor time of its process: its own, and that of the system for it.
    pub processor: Option<[Duration; 2]>,
    /// Requests of the XRootD protocol.
    pub requests: Requests,
    /// Its exports.
    pub paths: Vec<PathSpace>,
}

/// Connections of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Those that are open.
    pub open: u64,
    /// All that were accepted.
    pub accepted: u64,
    /// Payload from clients.
    pub received_bytes: u64,
    /// Payload to clients.
    pub sent_bytes: u64,
}

/// Requests of the XRootD protocol by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Opened files.
    pub opens: u64,
    /// Reads, those with page checksums too.
    pub reads: u64,
    /// Vector reads.
    pub vector_reads: u64,
    /// Vector writes.
    pub vector_writes: u64,
    /// Writes, those with page checksums too.
    pub writes: u64,
    /// Files written through to the disk.
    pub syncs: u64,
    /// All others, without logins.
    pub others: u64,
    /// Requests of all kinds that were answered with an error.
    pub failed: u64,
    /// Logins.
    pub logins: u64,
    /// Steps of authentication that were answered with an error.
    pub failed_authentications: u64,
}

/// How much space an export has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSpace {
    /// Its path.
    pub path: String,
    /// The size of its file system, or its quota, in bytes.
    pub total_bytes: u64,
    /// What new files can take, in bytes.
    pub free_bytes: u64,
}

impl Summary {
    /// The packet. It has XRootD's names, in XRootD's order, and no figure that the server does not
    /// have. Exports beyond [`SUMMARY_BYTES_MAX`] are left out.
    #[must_use]
    pub fn packet(&self, server: &Server) -> Vec<u8> {
        let mut text = self.head(server);
        let tail = self.tail();
        let room = SUMMARY_BYTES_MAX.saturating_sub(text.len() + tail.len());
        text.push_str(&self.space(room));
        text.push_str(&tail);
        text.into_bytes()
    }

    fn head(&self, server: &Server) -> String {
        let (links, requests) = (&self.links, &self.requests);
        let (host, port, instance) = (Escaped(&server.host), server.port, Escaped(&server.instance));
        let mut text = format!(
            "<statistics tod=\"{}\" ver=\"{}\" src=\"{host}:{port}\" tos=\"{}\" pgm=\"{}\" ins=\"{instance}\" pid=\"{}\" \
             site=\"{}\"><stats id=\"info\"><host>{host}</host><port>{port}</port><name>{instance}</name></stats>",
            self.now_s,
            Escaped(&server.version),
            self.started_s,
            Escaped(&server.program),
            server.pid,
            Escaped(&server.site)
        );
        // Writing into a text cannot fail.
        let _ = write!(
            text,
            "<stats id=\"link\"><num>{}</num><tot>{}</tot><in>{}</in><out>{}</out></stats>",
            links.open, links.accepted, links.received_bytes, links.sent_bytes
        );
        if let Some([user, system]) = self.processor {
            let part = |time: Duration| format!("<s>{}</s><u>{}</u>", time.as_secs(), time.subsec_micros());
            let (user, system) = (part(user), part(system));
            let _ = write!(text, "<stats id=\"proc\"><usr>{user}</usr><sys>{system}</sys></stats>");
        }
        let _ = write!(
            text,
            "<stats id=\"xrootd\"><ops><open>{}</open><rd>{}</rd><rv>{}</rv><wv>{}</wv><wr>{}</wr><sync>{}</sync>\
             <misc>{}</misc></ops><err>{}</err><lgn><num>{}</num><af>{}</af></lgn></stats>",
            requests.opens,
            requests.reads,
            requests.vector_reads,
            requests.vector_writes,
            requests.writes,
            requests.syncs,
            requests.others,
            requests.failed,
            requests.logins,
            requests.failed_authentications
        );
        text
    }

    /// The space of exports, in at most `room` bytes.
    fn space(&self, room: usize) -> String {
        let (mut entries, mut count) = (String::new(), 0);
        for path in &self.paths {
            let entry = format!(
                "<stats id=\"{count}\"><lp>\"{}\"</lp><tot>{}</tot><free>{}</free></stats>",
                Escaped(&path.path),
                path.total_bytes / KIB,
                path.free_bytes / KIB
            );
            // The frame around them is shorter than 100 bytes.
            if entries.len() + entry.len() + 100 > room {
                break;
            }
            entries.push_str(&entry);
            count += 1;
        }
        format!("<stats id=\"oss\" v=\"2\"><paths>{count}{entries}</paths></stats>")
    }

    fn tail(&self) -> String {
        format!(
            "<stats id=\"sgen\"><as>0</as><et>{}</et><toe>{}</toe></stats></statistics>",
            self.gathering.as_millis(),
            self.now_s
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        let text = str::to_owned;
        Server {
            id: 7,
            pid: 12,
            user: text("u"),
            host: text("se.example"),
            site: text("T9 \"A&B\""),
            port: 1094,
            instance: text("anon"),
            program: text("crossload"),
            version: text("1.2.3"),
        }
    }

    fn summary(paths: Vec<PathSpace>) -> Summary {
        Summary {
            started_s: 100,
            now_s: 160,
            gathering: Duration::from_millis(3),
            links: Links {
                open: 1,
                accepted: 2,
                received_bytes: 3,
                sent_bytes: 4,
            },
            processor: Some([Duration::from_millis(2500), Duration::from_millis(70)]),
            requests: Requests::default(),
            paths,
        }
    }

    fn path(path: &str) -> PathSpace {
        PathSpace {
            path: path.to_owned(),
            total_bytes: 4096,
            free_bytes: 2047,
        }
    }

    fn text(summary: &Summary) -> String {
        String::from_utf8(summary.packet(&server())).unwrap()
    }

    #[test]
    fn figures_have_the_places_of_xrootd() {
        let text = text(&summary(vec![path("/data")]));
        for part in [
            "<statistics tod=\"160\" ver=\"1.2.3\" src=\"se.example:1094\" tos=\"100\" pgm=\"crossload\" ins=\"anon\" \
             pid=\"12\" site=\"T9 &quot;A&amp;B&quot;\">",
            "<stats id=\"info\"><host>se.example</host><port>1094</port><name>anon</name></stats>",
            "<stats id=\"link\"><num>1</num><tot>2</tot><in>3</in><out>4</out></stats>",
            "<stats id=\"proc\"><usr><s>2</s><u>500000</u></usr><sys><s>0</s><u>70000</u></sys></stats>",
            "<paths>1<stats id=\"0\"><lp>\"/data\"</lp><tot>4</tot><free>1</free></stats></paths></stats>",
            "<stats id=\"sgen\"><as>0</as><et>3</et><toe>160</toe></stats></statistics>",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.starts_with("<statistics ") && text.ends_with("</statistics>"));
    }

    #[test]
    fn what_is_not_known_is_not_there() {
        let unknown = Summary {
            processor: None,
            ..summary(Vec::new())
        };
        let text = text(&unknown);
        assert!(!text.contains("proc") && text.contains("<paths>0</paths>"), "{text}");
    }

    #[test]
    fn it_fits_into_a_datagram_with_any_number_of_exports() {
        let many = (0..2000).map(|number| path(&format!("/<{number}>"))).collect();
        let text = text(&summary(many));
        assert!(text.len() < 8192, "{}", text.len());
        let shown = text.matches("<lp>").count();
        assert!(shown > 50 && text.contains(&format!("<paths>{shown}<stats")), "{shown}");
        assert!(text.contains("\"/&lt;0&gt;\""), "{text}");
    }
}
