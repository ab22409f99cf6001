//! The page *Cluster*: the nodes of a redirector, and where it sends the client of a file.

use std::net::IpAddr;

use askama::Template;
use serde::Serialize;
use serde_json::Value;
use types::{LogicalPath, Result, binary_size};
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
    pub(crate) purpose: WhyPurpose,
    pub(crate) size: Words,
    pub(crate) is_xrootd: bool,
    pub(crate) refreshes: bool,
}

impl WhyForm {
    /// Reads the query of the page. What is not understood has no effect.
    pub(crate) fn read(query: Option<&str>) -> Self {
        let mut form = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let text: String = value.trim().chars().take(PATH_CHARACTERS_MAX).collect();
            match name.as_ref() {
                "path" => form.path = text.into(),
                "op" => {
                    form.purpose = match text.as_str() {
                        "update" => WhyPurpose::Update,
                        "write" => WhyPurpose::Write,
                        _ => WhyPurpose::Read,
                    }
                }
                "size" => form.size = text.into(),
                "protocol" => form.is_xrootd = text == "root",
                "refresh" => form.refreshes = true,
                _ => {}
            }
        }
        form
    }

    /// The question; `None`: none was asked.
    ///
    /// # Errors
    /// The path is none.
    pub(crate) fn question(&self, address: IpAddr) -> Result<Option<WhyQuestion>> {
        if self.path.is_empty() {
            return Ok(None);
        }
        Ok(Some(WhyQuestion {
            path: LogicalPath::parse(self.path.raw())?,
            purpose: self.purpose,
            size_bytes: self.size.raw().parse().ok(),
            is_xrootd: self.is_xrootd,
            refreshes: self.refreshes,
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
