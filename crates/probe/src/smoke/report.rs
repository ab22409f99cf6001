//! What came of the probes.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};
use types::{Error, Location, PeerStatus, Phase, Side};

use crate::kind::Kind;

/// Which protocol a probe speaks, and whether over TLS: the scheme of its URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP in clear text.
    Http,
    /// HTTP over TLS.
    Https,
    /// The XRootD protocol.
    Root,
    /// The XRootD protocol over TLS.
    Roots,
    /// S3 in clear text.
    S3,
    /// S3 over TLS.
    S3s,
}

impl Protocol {
    /// The protocol of a place.
    #[must_use]
    pub fn of(place: &Location) -> Self {
        match (place.is_xrootd(), place.is_encrypted()) {
            (_, false) if place.is_s3() => Self::S3,
            (_, true) if place.is_s3() => Self::S3s,
            (false, false) => Self::Http,
            (false, true) => Self::Https,
            (true, false) => Self::Root,
            (true, true) => Self::Roots,
        }
    }

    /// The word in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Root => "root",
            Self::Roots => "roots",
            Self::S3 => "s3",
            Self::S3s => "s3s",
        }
    }
}

/// The side at fault, where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The endpoint that is probed.
    Endpoint,
    /// The other server of a third-party copy.
    ThirdParty,
    /// This machine: its network, its name service, its credentials.
    Here,
}

impl Blame {
    /// The words in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::ThirdParty => "third party",
            Self::Here => "here",
        }
    }

    /// Of an error, when `third_party` is the side that the third party has in the transfer.
    pub(super) fn of(error: &Error, third_party: Option<Side>) -> Self {
        match error.side() {
            Side::Client => Self::Here,
            side if Some(side) == third_party => Self::ThirdParty,
            _ => Self::Endpoint,
        }
    }
}

/// Why a probe failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Whose fault it is.
    pub blame: Blame,
    /// The side that the error names.
    pub side: Side,
    /// When it happened.
    pub phase: Phase,
    /// What was wrong, in one sentence.
    pub says: String,
    /// The same without what only the user of this machine may know.
    pub says_to_all: String,
    /// The stable code of the error, when there is one.
    pub code: Option<&'static str>,
    /// The status that the server answered with: of HTTP, or a number of the XRootD protocol.
    pub server_status: Option<u32>,
    /// The server's own words.
    pub server_words: Option<String>,
    /// Lines for a shell that do the same; secrets are in files or variables.
    pub reproduce: Vec<String>,
}

impl Failure {
    pub(super) fn of(error: &Error, third_party: Option<Side>, reproduce: Vec<String>) -> Self {
        let mut says = error.code().meaning().to_owned();
        if let Some(detail) = error.detail() {
            says.push_str(&format!(" ({detail})"));
        }
        let says_to_all = says.clone();
        if let Some(private) = error.private() {
            // On a person's own machine nothing has to be hidden from that person.
            says.push_str(&format!(" [{private}]"));
        }
        Self {
            blame: Blame::of(error, third_party),
            side: error.side(),
            phase: error.phase(),
            says,
            says_to_all,
            code: Some(error.code().name()),
            server_status: error.peer_status().map(PeerStatus::number),
            server_words: error.peer_words().map(str::to_owned),
            reproduce,
        }
    }
}

/// How a probe ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// As it should.
    Passed,
    /// Not as it should.
    Failed(Box<Failure>),
    /// It was not tried, for this reason.
    Skipped(String),
}

/// One probe and what came of it.
#[derive(Clone, Debug)]
pub struct Probe {
    /// What was tried, in a few words.
    pub name: String,
    /// How.
    pub protocol: Protocol,
    /// With what.
    pub kind: Kind,
    /// At which of the host's addresses; `None` when it did not matter.
    pub address: Option<IpAddr>,
    /// The file or directory that it was about.
    pub place: Location,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

impl Probe {
    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut value = json!({
            "probe": self.name,
            "protocol": self.protocol.name(),
            "credential": self.kind.name(),
            "address": self.address.map(|address| address.to_string()),
            "url": self.place.to_string(),
            "ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
        });
        match &self.outcome {
            Outcome::Passed => value["outcome"] = "passed".into(),
            Outcome::Skipped(why) => {
                value["outcome"] = "skipped".into();
                value["why"] = why.as_str().into();
            }
            Outcome::Failed(failure) => {
                value["outcome"] = "failed".into();
                value["failure"] = json!({
                    "at": failure.blame.name(),
                    "says": failure.says,
                    "code": failure.code,
                    "server_status": failure.server_status,
                    "server_words": failure.server_words,
                    "reproduce": failure.reproduce,
                });
            }
        }
        value
    }
}

/// How many probes ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Probes that went as they should.
    pub passed: usize,
    /// Probes that failed by a fault of the endpoint, or for an unknown reason.
    pub failed: usize,
    /// Probes that failed by a fault of the third party.
    pub failed_elsewhere: usize,
    /// Probes that were not tried.
    pub skipped: usize,
}

impl Tally {
    /// Counts.
    #[must_use]
    pub fn of(probes: &[Probe]) -> Self {
        let mut tally = Self::default();
        for probe in probes {
            match &probe.outcome {
                Outcome::Passed => tally.passed += 1,
                Outcome::Skipped(_) => tally.skipped += 1,
                Outcome::Failed(failure) if failure.blame == Blame::ThirdParty => tally.failed_elsewhere += 1,
                Outcome::Failed(_) => tally.failed += 1,
            }
        }
        tally
    }

    /// The exit code if no probe failed, but some were skipped.
    pub const SKIPPED: u8 = 2;

    /// The exit code, that of the WLCG's smoke test: 0 when all went well, 1 when any probe failed,
    /// 2 when none failed but some were skipped.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            _ if self.failed + self.failed_elsewhere > 0 => 1,
            _ if self.skipped > 0 => Self::SKIPPED,
            _ => 0,
        }
    }

    /// As a JSON object.
    #[must_use]
    pub fn to_json(self) -> Value {
        json!({
            "probes": self.passed + self.failed + self.failed_elsewhere + self.skipped,
            "passed": self.passed,
            "failed": self.failed + self.failed_elsewhere,
            "failed_at_third_party": self.failed_elsewhere,
            "skipped": self.skipped,
        })
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let failed = self.failed + self.failed_elsewhere;
        let all = self.passed + failed + self.skipped;
        write!(formatter, "{all} probes: {} passed, {failed} failed", self.passed)?;
        if self.failed_elsewhere > 0 {
            write!(formatter, " ({} of them at the third party)", self.failed_elsewhere)?;
        }
        write!(formatter, ", {} skipped", self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ErrorCode;

    fn probe(outcome: Outcome) -> Probe {
        Probe {
            name: "upload".to_owned(),
            protocol: Protocol::Https,
            kind: Kind::Token,
            address: None,
            place: Location::parse("https://a/f?authz=hidden").unwrap(),
            outcome,
            took: Duration::from_millis(7),
        }
    }

    #[test]
    fn the_exit_code_tells_failures_from_what_was_left_out() {
        let failed = |blame| {
            let error = Error::new(ErrorCode::PeerFailed, Side::Active, Phase::Open);
            let failure = Failure::of(&error, None, Vec::new());
            Outcome::Failed(Box::new(Failure { blame, ..failure }))
        };
        let skipped = || Outcome::Skipped("no token".to_owned());
        let code = |outcomes: Vec<Outcome>| {
            let probes: Vec<Probe> = outcomes.into_iter().map(probe).collect();
            Tally::of(&probes).exit_code()
        };
        assert_eq!(code(vec![Outcome::Passed]), 0);
        assert_eq!(code(vec![Outcome::Passed, skipped()]), 2);
        assert_eq!(code(vec![skipped(), failed(Blame::Endpoint)]), 1);
        assert_eq!(code(vec![Outcome::Passed, failed(Blame::ThirdParty)]), 1);
    }

    #[test]
    fn a_failure_names_side_code_and_the_servers_words_and_no_query() {
        let error = Error::new(ErrorCode::PeerForbidden, Side::Source, Phase::Open)
            .with_peer(Some(PeerStatus::Http(403)), "Go away");
        let failure = Failure::of(&error, Some(Side::Source), vec!["curl".to_owned()]);
        let value = probe(Outcome::Failed(Box::new(failure))).to_json();
        assert_eq!(value["failure"]["at"], "third party");
        assert_eq!(value["failure"]["server_status"], 403);
        assert_eq!(value["failure"]["code"], "peer_forbidden");
        assert!(value.to_string().contains("Go away") && !value.to_string().contains("hidden"));
    }
}
