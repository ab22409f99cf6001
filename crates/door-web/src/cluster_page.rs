//! The page *Cluster*: the nodes of a redirector, and where it sends the client of a file.

use std::net::IpAddr;

use askama::Template;
use serde::Serialize;
use serde_json::Value;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side, binary_size};
use url::form_urlencoded;

use crate::cluster_facts::{ClusterNode, NodeLoad, WhyAnswer, WhyPurpose, WhyQuestion};
use crate::figures::{passed, rate};
use crate::limits::{NODES_SHOWN_MAX, PATH_CHARACTERS_MAX};
use crate::queue_words::{Shown, shown};
use crate::shell::Shell;
use crate::words::Words;

#[derive(Template)]
#[template(path = "cluster.html")]
pub(crate) struct ClusterPage<'a> {
    shell: Shell,
    counts: Counts,
    nodes: Vec<NodeRow<'a>>,
    more_nodes: usize,
    form: &'a WhyForm,
    answer: Option<&'a WhyAnswer>,
    /// Why there is no answer.
    fault: Option<Words>,
}

/// The page for programs.
#[derive(Serialize)]
pub(crate) struct ClusterDocument<'a> {
    pub(crate) nodes: &'a [ClusterNode],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<&'a Value>,
}

struct Counts {
    present: usize,
    all: usize,
    drained: usize,
    free: String,
}

struct NodeRow<'a> {
    node: &'a ClusterNode,
    state: Shown,
    since: String,
    used_for: Shown,
    busy: String,
    transfers: String,
    arriving: String,
    leaving: String,
    room: String,
}

/// The form of the page, as it was filled in.
#[derive(Default)]
pub(crate) struct WhyForm {
    pub(crate) path: Words,
    pub(crate) purpose: Words,
    pub(crate) size: Words,
    pub(crate) protocol: Words,
    pub(crate) refresh: Words,
}

impl WhyForm {
    /// Reads the query of the page.
    pub(crate) fn read(query: Option<&str>) -> Self {
        let mut form = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let text: String = value.trim().chars().take(PATH_CHARACTERS_MAX).collect();
            let field = match name.as_ref() {
                "path" => &mut form.path,
                "op" => &mut form.purpose,
                "size" => &mut form.size,
                "protocol" => &mut form.protocol,
                "refresh" => &mut form.refresh,
                _ => continue,
            };
            *field = text.into();
        }
        form
    }

    /// The question; `None`: none was asked.
    ///
    /// # Errors
    /// A path, an operation, a size, a protocol or a wish to ask the nodes again that is none.
    pub(crate) fn question(&self, address: IpAddr) -> Result<Option<WhyQuestion>> {
        if self.path.is_empty() {
            return Ok(None);
        }
        let wrong = |what: &str| {
            let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open);
            error.with_detail(what)
        };
        Ok(Some(WhyQuestion {
            path: LogicalPath::parse(self.path.raw())?,
            purpose: match self.purpose.raw() {
                "" | "read" => WhyPurpose::Read,
                "update" => WhyPurpose::Update,
                "write" => WhyPurpose::Write,
                _ => return Err(wrong("op is read, update or write")),
            },
            size_bytes: match self.size.raw() {
                "" => None,
                text => Some(text.parse().map_err(|_| wrong("size is no number of bytes"))?),
            },
            is_xrootd: match self.protocol.raw() {
                "" | "http" => false,
                "root" => true,
                _ => return Err(wrong("protocol is http or root")),
            },
            refreshes: match self.refresh.raw() {
                "" => false,
                "1" => true,
                _ => return Err(wrong("refresh is 1, or is left out")),
            },
            address,
        }))
    }
}

impl<'a> ClusterPage<'a> {
    /// The page at a moment, in milliseconds since 1970.
    pub(crate) fn new(
        shell: Shell,
        nodes: &'a [ClusterNode],
        form: &'a WhyForm,
        answer: &'a Result<Option<WhyAnswer>>,
        now_ms: i64,
    ) -> Self {
        let mut sorted: Vec<&ClusterNode> = nodes.iter().collect();
        sorted.sort_by_key(|node| (node.is_well, node.drain == "active", node.name.clone()));
        let rows: Vec<_> = sorted
            .iter()
            .take(NODES_SHOWN_MAX)
            .map(|node| NodeRow::new(node, now_ms))
            .collect();
        let free = nodes.iter().filter_map(|node| node.load).map(|load| load.free_bytes);
        Self {
            shell,
            counts: Counts {
                present: nodes.iter().filter(|node| node.is_present).count(),
                all: nodes.len(),
                drained: nodes.iter().filter(|node| node.drain != "active").count(),
                free: binary_size(free.fold(0, u64::saturating_add)),
            },
            more_nodes: sorted.len() - rows.len(),
            nodes: rows,
            form,
            answer: answer.as_ref().ok().and_then(Option::as_ref),
            fault: answer.as_ref().err().map(|error| error.public().into()),
        }
    }
}

impl<'a> NodeRow<'a> {
    fn new(node: &'a ClusterNode, now_ms: i64) -> Self {
        let state = match (node.is_present, node.is_well) {
            (true, true) => shown("good", "✓ well"),
            (true, false) => shown("soon", "! trouble"),
            (false, _) => shown("bad", "✕ away"),
        };
        let used_for = match node.drain {
            "no_writes" => shown("soon", "no new files"),
            "no_reads" => shown("soon", "no clients"),
            _ => shown("", "everything"),
        };
        let of_load = |words: fn(&NodeLoad) -> String| node.load.as_ref().map(words);
        Self {
            node,
            state,
            since: node.since_ms.map(|since| passed(since, now_ms)).unwrap_or_default(),
            used_for,
            busy: format!("{:.0} %", node.busy * 100.0),
            transfers: of_load(|load| load.transfers.to_string()).unwrap_or_default(),
            arriving: of_load(|load| rate(load.in_bytes_per_s)).unwrap_or_default(),
            leaving: of_load(|load| rate(load.out_bytes_per_s)).unwrap_or_default(),
            room: of_load(|load| format!("{} of {}", binary_size(load.free_bytes), binary_size(load.total_bytes)))
                .unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(query: &str) -> Result<Option<WhyQuestion>> {
        WhyForm::read(Some(query)).question("192.0.2.7".parse().unwrap())
    }

    #[test]
    fn a_form_says_what_a_client_wants() {
        assert_eq!(question("op=write&size=x").unwrap(), None);
        let asked = |query: &str| question(query).unwrap().unwrap();
        let plain = WhyQuestion {
            path: LogicalPath::parse("/f").unwrap(),
            purpose: WhyPurpose::Read,
            size_bytes: None,
            is_xrootd: false,
            refreshes: false,
            address: "192.0.2.7".parse().unwrap(),
        };
        assert_eq!(asked("path=/f"), plain);
        // As a browser sends the form.
        assert_eq!(asked("path=/f&op=read&size=&protocol=http"), plain);
        let whole = WhyQuestion {
            purpose: WhyPurpose::Write,
            size_bytes: Some(7),
            is_xrootd: true,
            refreshes: true,
            ..plain
        };
        assert_eq!(asked("path=/f&op=write&size=+7+&protocol=root&refresh=1"), whole);
        assert_eq!(asked("path=/f&op=update").purpose, WhyPurpose::Update);
    }

    #[test]
    fn a_form_refuses_what_it_does_not_understand() {
        for wrong in [
            "path=/../f",
            "path=/f&op=delete",
            "path=/f&op=READ",
            "path=/f&protocol=gopher",
            "path=/f&size=-1",
            "path=/f&size=1e30",
            "path=/f&size=18446744073709551616",
            "path=/f&refresh=0",
            "path=/f&refresh=no",
        ] {
            let error = question(wrong).unwrap_err();
            assert!(
                matches!(error.code(), ErrorCode::BadRequest | ErrorCode::PathRefused),
                "{wrong}: {error}"
            );
        }
    }
}
