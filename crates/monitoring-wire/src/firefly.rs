//! Fireflies of SciTags: which experiment and activity a flow of packets belongs to, for networks.
//!
//! A firefly is one UDP datagram: the head of a syslog line (RFC 5424) with seven words, a blank,
//! and JSON by the firefly schema, version 1 (SciTags technical specification).

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

/// The port of collectors, and of ends that listen.
pub const FIREFLY_PORT: u16 = 10514;

/// Bits of the activity in a label.
const ACTIVITY_BITS: u16 = 6;
/// Bits of the experiment in the label of an IPv6 packet.
const PACKET_EXPERIMENT_BITS: u32 = 9;

/// What a flow belongs to: `experiment << 6 | activity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowLabel(u16);

impl FlowLabel {
    /// The label of a number between 65 and 65535. Smaller ones have no experiment: they mark
    /// nothing, as at XRootD.
    #[must_use]
    pub fn of(number: u16) -> Option<Self> {
        (number > 1 << ACTIVITY_BITS).then_some(Self(number))
    }

    /// The label of an experiment (1 to 1023) and an activity (0 to 63).
    #[must_use]
    pub fn from_parts(experiment: u16, activity: u16) -> Option<Self> {
        let is_known = (1..1 << (16 - ACTIVITY_BITS)).contains(&experiment) && activity < 1 << ACTIVITY_BITS;
        if !is_known {
            return None;
        }
        Self::of(experiment << ACTIVITY_BITS | activity)
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The experiment.
    #[must_use]
    pub fn experiment(self) -> u16 {
        self.0 >> ACTIVITY_BITS
    }

    /// The activity.
    #[must_use]
    pub fn activity(self) -> u16 {
        self.0 & ((1 << ACTIVITY_BITS) - 1)
    }

    /// The flow label of IPv6 packets, by the specification of packet marking of SciTags: two
    /// random bits, nine of the experiment from the lowest to the highest, a random one, six of the
    /// activity, and two random ones. The random bits are the lowest five of `random_bits`; they
    /// let routers spread flows. `None`: the experiment needs more bits.
    #[must_use]
    pub fn in_packets(self, random_bits: u8) -> Option<u32> {
        let experiment = self.experiment();
        if experiment >> PACKET_EXPERIMENT_BITS != 0 {
            return None;
        }
        let reversed = u32::from(experiment.reverse_bits()) >> (u16::BITS - PACKET_EXPERIMENT_BITS);
        let bits = u32::from(random_bits);
        let spread = (bits >> 3 & 0b11) << 18 | (bits >> 2 & 1) << 8 | bits & 0b11;
        Some(spread | reversed << 9 | u32::from(self.activity()) << 2)
    }
}

/// What a firefly says about its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// It begins.
    Start,
    /// It goes on.
    Ongoing,
    /// It has ended just now.
    End,
}

/// A flow and what is known of it. Times are RFC 3339 in UTC.
#[derive(Clone, Copy, Debug)]
pub struct Firefly<'a> {
    /// What the flow belongs to.
    pub label: FlowLabel,
    /// The end that sends the payload.
    pub source: SocketAddr,
    /// The end that receives it.
    pub destination: SocketAddr,
    /// How it goes.
    pub state: FlowState,
    /// When it began.
    pub began: &'a str,
    /// Now.
    pub now: &'a str,
    /// Payload from the source to the destination until now, in bytes.
    pub bytes: u64,
    /// The name of the protocol that carries it.
    pub application: &'static str,
    /// The name of this machine.
    pub host: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Document<'a> {
    version: u8,
    flow_lifecycle: Lifecycle<'a>,
    usage: Usage,
    context: Context,
    flow_id: FlowId,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Lifecycle<'a> {
    state: &'static str,
    current_time: &'a str,
    start_time: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<&'a str>,
}

/// As the source sees it. Collectors take the end that received more for the destination.
#[derive(Serialize)]
struct Usage {
    received: u64,
    sent: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Context {
    experiment_id: u16,
    activity_id: u16,
    application: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct FlowId {
    afi: &'static str,
    src_ip: IpAddr,
    dst_ip: IpAddr,
    protocol: &'static str,
    src_port: u16,
    dst_port: u16,
}

impl Firefly<'_> {
    /// The datagram.
    #[must_use]
    pub fn to_line(&self) -> String {
        // An IPv4 client of an IPv6 socket is an IPv4 flow.
        let (source, destination) = (self.source.ip().to_canonical(), self.destination.ip().to_canonical());
        let (state, end_time) = match self.state {
            FlowState::Start => ("start", None),
            FlowState::Ongoing => ("ongoing", None),
            FlowState::End => ("end", Some(self.now)),
        };
        let document = Document {
            version: 1,
            flow_lifecycle: Lifecycle {
                state,
                current_time: self.now,
                start_time: self.began,
                end_time,
            },
            usage: Usage {
                received: 0,
                sent: self.bytes,
            },
            context: Context {
                experiment_id: self.label.experiment(),
                activity_id: self.label.activity(),
                application: self.application,
            },
            flow_id: FlowId {
                afi: if source.is_ipv4() { "ipv4" } else { "ipv6" },
                src_ip: source,
                dst_ip: destination,
                protocol: "tcp",
                src_port: self.source.port(),
                dst_port: self.destination.port(),
            },
        };
        // What this writes has only text and numbers, which JSON can always hold.
        let json = serde_json::to_string(&document).unwrap_or_default();
        format!(
            "<134>1 {} {} crossload - firefly-json - {json}",
            self.now,
            word(self.host)
        )
    }
}

/// Receivers split the head at its blanks.
fn word(host: &str) -> &str {
    match host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => "-",
        false => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firefly<'a>(state: FlowState, source: &str) -> Firefly<'a> {
        Firefly {
            label: FlowLabel::from_parts(2, 26).unwrap(),
            source: source.parse().unwrap(),
            destination: "[2001:db8::2]:40312".parse().unwrap(),
            state,
            began: "2026-11-27T08:53:12.123456Z",
            now: "2026-11-27T08:54:00.000001Z",
            bytes: 1_073_741_824,
            application: "http-get",
            host: "se1.example.org",
        }
    }

    #[test]
    fn labels_of_packets_have_the_experiment_backwards_and_random_bits_between() {
        let label = |experiment, activity| FlowLabel::from_parts(experiment, activity).unwrap();
        // As flowd's backend for packets computes them.
        for (experiment, activity, expected) in [
            (2, 26, 128 << 9 | 26 << 2),
            (3, 1, 384 << 9 | 1 << 2),
            (256, 63, 1 << 9 | 63 << 2),
            (511, 0, 511 << 9),
        ] {
            assert_eq!(label(experiment, activity).in_packets(0), Some(expected));
            let all = label(experiment, activity).in_packets(0xff);
            assert_eq!(all, Some(expected | 3 << 18 | 1 << 8 | 3));
        }
        assert_eq!(label(2, 26).in_packets(0b01010), Some(1 << 18 | 128 << 9 | 26 << 2 | 2));
        assert_eq!(label(512, 1).in_packets(0), None);
    }

    #[test]
    fn a_firefly_has_a_head_of_seven_words_and_what_the_schema_demands() {
        let line = firefly(FlowState::Start, "[2001:db8::1]:443").to_line();
        let (head, json) = line.split_at(line.find('{').unwrap());
        assert_eq!(head.split_whitespace().count(), 7);
        assert_eq!(
            head,
            "<134>1 2026-11-27T08:54:00.000001Z se1.example.org crossload - firefly-json - "
        );
        let document: serde_json::Value = serde_json::from_str(json).unwrap();
        let flow = serde_json::json!({"afi": "ipv6", "src-ip": "2001:db8::1", "dst-ip": "2001:db8::2",
            "protocol": "tcp", "src-port": 443, "dst-port": 40312});
        assert_eq!(document["flow-id"], flow);
        let context = serde_json::json!({"experiment-id": 2, "activity-id": 26, "application": "http-get"});
        assert_eq!(document["context"], context);
        assert_eq!(document["version"], 1);
        assert_eq!(
            document["usage"],
            serde_json::json!({"received": 0, "sent": 1_073_741_824_u64})
        );
        let lifecycle = &document["flow-lifecycle"];
        assert_eq!(
            (&lifecycle["state"], lifecycle.get("end-time")),
            (&"start".into(), None)
        );
        assert!(line.len() < 1024, "{} bytes", line.len());
    }

    #[test]
    fn only_an_end_has_an_end_time_and_ipv4_within_ipv6_is_written_as_ipv4() {
        let end = firefly(FlowState::End, "[::ffff:192.0.2.1]:443").to_line();
        assert!(
            end.contains(r#""state":"end""#) && end.contains(r#""end-time":"2026-11-27T08:54:00.000001Z""#),
            "{end}"
        );
        assert!(end.contains(r#""afi":"ipv4","src-ip":"192.0.2.1""#), "{end}");
        let ongoing = firefly(FlowState::Ongoing, "192.0.2.1:443").to_line();
        assert!(
            ongoing.contains(r#""state":"ongoing""#) && !ongoing.contains("end-time"),
            "{ongoing}"
        );
    }

    #[test]
    fn the_name_of_the_machine_does_not_break_the_head() {
        let odd = Firefly {
            host: "two words\n<134>1",
            ..firefly(FlowState::Start, "192.0.2.1:443")
        };
        let line = odd.to_line();
        assert!(
            line.starts_with("<134>1 2026-11-27T08:54:00.000001Z - crossload - firefly-json - {"),
            "{line}"
        );
    }

    #[test]
    fn labels_are_experiment_and_activity() {
        let label = FlowLabel::of(132).unwrap();
        assert_eq!((label.experiment(), label.activity(), label.number()), (2, 4, 132));
        assert_eq!([0, 1, 64].map(FlowLabel::of), [None; 3]);
        assert_eq!(FlowLabel::of(65).map(FlowLabel::experiment), Some(1));
        assert_eq!(FlowLabel::from_parts(1023, 63).map(FlowLabel::number), Some(65535));
        for (experiment, activity) in [(0, 1), (1024, 1), (2, 64)] {
            assert_eq!(FlowLabel::from_parts(experiment, activity), None);
        }
    }
}
