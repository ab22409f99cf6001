//! What the pages for operators show of a redirector and its nodes.

use cluster::node::{Node, Presence, Status};
use door_web::Words;
use door_web::cluster_facts::{Cluster, ClusterFuture, ClusterNode, NodeLoad, WhyAnswer, WhyPurpose, WhyQuestion};
use endpoint::{OtherServers, Purpose, Spoken, Wanted, clock, refusal};
use types::{ErrorCode, Result};

use super::redirecting::Redirecting;
use super::redirector_part::says;
use super::subsystem::Current;
use crate::where_sent;

/// The redirector, for its page.
pub(super) struct ClusterPages(pub(super) Current<Option<Redirecting>>);

impl Cluster for ClusterPages {
    fn nodes(&self) -> Option<Vec<ClusterNode>> {
        let redirecting = self.0.get()?;
        let unix_ms = clock::now_s().saturating_mul(1000);
        let director = redirecting.redirector().director();
        Some(director.with_nodes(|nodes, now_ms| {
            let all = nodes.iter();
            all.map(|(_, node)| shown(node, now_ms, unix_ms)).collect()
        }))
    }

    fn why<'a>(&'a self, question: &'a WhyQuestion) -> ClusterFuture<'a, WhyAnswer> {
        Box::pin(self.answer(question))
    }
}

impl ClusterPages {
    async fn answer(&self, question: &WhyQuestion) -> Result<WhyAnswer> {
        let missing = |why: String| refusal(ErrorCode::NotFound, &question.path).with_detail(why);
        let redirecting = self.0.get();
        let redirecting = redirecting.ok_or_else(|| missing("this server is no redirector".to_owned()))?;
        let tree = redirecting.tree();
        if !question.path.is_within(tree) {
            return Err(missing(format!("the redirector has the tree {tree} only")));
        }
        let wanted = Wanted {
            path: &question.path,
            purpose: match question.purpose {
                WhyPurpose::Read => Purpose::Read,
                WhyPurpose::Update => Purpose::Update,
                WhyPurpose::Write => Purpose::Store {
                    size_bytes: question.size_bytes,
                    is_new: false,
                },
            },
            spoken: match question.is_xrootd {
                true => Spoken::Xrootd,
                false => Spoken::Http,
            },
            address: question.address,
            tried: &[],
            refresh: question.refreshes,
        };
        let value = redirecting.redirector().explain(&wanted, true).await?;
        let lines = where_sent::in_lines(&value).into_iter().map(Words::from).collect();
        Ok(WhyAnswer { value, lines })
    }
}

fn shown(node: &Node, now_ms: u64, unix_ms: i64) -> ClusterNode {
    let since = match node.presence() {
        Presence::Unknown => None,
        Presence::Present { since_ms } | Presence::Absent { since_ms, .. } => Some(*since_ms),
    };
    let age_ms = |since_ms: u64| i64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(i64::MAX);
    let load = |status: &Status| NodeLoad {
        transfers: status.transfers,
        in_bytes_per_s: status.in_bytes_s,
        out_bytes_per_s: status.out_bytes_s,
        free_bytes: status.free_bytes,
        total_bytes: status.total_bytes,
    };
    ClusterNode {
        name: node.config.name.as_str().into(),
        is_present: node.is_present(),
        is_well: node.is_present() && node.trouble(now_ms).is_none(),
        says: says(node, now_ms).into(),
        since_ms: since.map(|since| unix_ms.saturating_sub(age_ms(since))),
        drain: node.drain().name(),
        busy: node.busy(now_ms),
        load: node.status(now_ms).map(load),
        site: node.site().map(Words::from),
        sent: node.sent_total(),
    }
}
