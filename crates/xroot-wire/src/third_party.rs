//! What the CGI of an open says of a third-party copy (`tpc.*`).

use crate::path::{Cgi, CgiBuilder};

/// Where a third-party copy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage<'a> {
    /// The client looks at the source: an ordinary open.
    Placement,
    /// The copy itself.
    Copy,
    /// Another word.
    Other(&'a str),
}

impl<'a> Stage<'a> {
    fn parse(text: &'a str) -> Self {
        match text {
            "placement" => Self::Placement,
            "copy" => Self::Copy,
            other => Self::Other(other),
        }
    }

    fn text(self) -> &'a str {
        match self {
            Self::Placement => "placement",
            Self::Copy => "copy",
            Self::Other(other) => other,
        }
    }
}

/// The keys of a third-party copy. What is a number on the wire but not always a sound one is left
/// as text, with an accessor.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ThirdParty<'a> {
    /// `tpc.stage`.
    pub stage: Option<Stage<'a>>,
    /// `tpc.key`: the rendezvous key. Its bearer may read the file, so it never appears in logs.
    pub key: Option<&'a str>,
    /// `tpc.src`: host and port of the source as the client sees it.
    pub source: Option<&'a str>,
    /// `tpc.dst`: host of the destination, without a port.
    pub destination: Option<&'a str>,
    /// `tpc.org`: `user.process@host` of the client as the destination sees it.
    pub origin: Option<&'a str>,
    /// `tpc.lfn`: path at the source.
    pub source_path: Option<&'a str>,
    /// `tpc.ttl`: how long the key is valid.
    pub time_to_live: Option<&'a str>,
    /// `tpc.str`: how many further streams.
    pub streams: Option<&'a str>,
    /// `tpc.spr`: protocol of the source.
    pub source_protocol: Option<&'a str>,
    /// `tpc.tpr`: protocol of the destination.
    pub destination_protocol: Option<&'a str>,
    /// `tpc.dlg`: host and port of the source where a delegated credential is used.
    pub delegation_source: Option<&'a str>,
    /// `tpc.dlgon`: whether a delegated credential is to be used.
    pub delegation: Option<&'a str>,
    /// `tpc.scgi`: CGI for the source; see [`unpack_source_cgi`](crate::unpack_source_cgi).
    pub source_cgi: Option<&'a str>,
    /// `tpc.cks`: checksum to verify.
    pub checksum: Option<&'a str>,
}

impl<'a> ThirdParty<'a> {
    /// Reads the keys; `None` when there are none.
    pub(crate) fn read(cgi: Cgi<'a>) -> Option<Self> {
        let mut copy = Self::default();
        let mut found = false;
        for (key, value) in cgi.pairs() {
            let Some(name) = key.strip_prefix("tpc.") else { continue };
            let place = match name {
                "stage" => {
                    copy.stage = copy.stage.or(Some(Stage::parse(value)));
                    found = true;
                    continue;
                }
                "key" => &mut copy.key,
                "src" => &mut copy.source,
                "dst" => &mut copy.destination,
                "org" => &mut copy.origin,
                "lfn" => &mut copy.source_path,
                "ttl" => &mut copy.time_to_live,
                "str" => &mut copy.streams,
                "spr" => &mut copy.source_protocol,
                "tpr" => &mut copy.destination_protocol,
                "dlg" => &mut copy.delegation_source,
                "dlgon" => &mut copy.delegation,
                "scgi" => &mut copy.source_cgi,
                "cks" => &mut copy.checksum,
                _ => continue,
            };
            // The first of a kind counts, even if another is appended.
            *place = place.or(Some(value));
            found = true;
        }
        found.then_some(copy)
    }

    /// Whether a delegated credential is to be used.
    #[must_use]
    pub fn delegates(&self) -> bool {
        self.delegation == Some("1")
    }

    /// How long the key is valid, in seconds; `None` for what is no positive number, which means
    /// the server's own time.
    #[must_use]
    pub fn time_to_live_s(&self) -> Option<u64> {
        self.time_to_live?.parse().ok().filter(|seconds| *seconds > 0)
    }

    /// How many streams beside the first; `None` when nothing is said.
    ///
    /// # Errors
    /// When it is no number: servers refuse that.
    pub fn stream_count(&self) -> Result<Option<u32>, crate::Refusal> {
        let parsed = self.streams.map(str::parse).transpose();
        parsed.map_err(|_| crate::refusal::malformed("tpc.str is no number"))
    }

    /// Whether the source is to be read over TLS.
    #[must_use]
    pub fn source_wants_tls(&self) -> bool {
        matches!(self.source_protocol, Some("roots" | "xroots"))
    }

    /// Appends the keys in the order of their names, as the reference client does.
    pub(crate) fn write(&self, builder: CgiBuilder) -> CgiBuilder {
        builder
            .optional("tpc.cks", self.checksum)
            .optional("tpc.dlg", self.delegation_source)
            .optional("tpc.dlgon", self.delegation)
            .optional("tpc.dst", self.destination)
            .optional("tpc.key", self.key)
            .optional("tpc.lfn", self.source_path)
            .optional("tpc.org", self.origin)
            .optional("tpc.scgi", self.source_cgi)
            .optional("tpc.spr", self.source_protocol)
            .optional("tpc.src", self.source)
            .optional("tpc.stage", self.stage.map(Stage::text))
            .optional("tpc.str", self.streams)
            .optional("tpc.tpr", self.destination_protocol)
            .optional("tpc.ttl", self.time_to_live)
    }
}

impl std::fmt::Debug for ThirdParty<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ThirdParty")
            .field("stage", &self.stage)
            .field("key", &self.key.map(|_| "…"))
            .field("source", &self.source)
            .field("destination", &self.destination)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}
