//! A question to several nodes, and what they said.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};
use types::LogicalPath;

use crate::explanation::Asked;
use crate::limits::ANSWER_TIME_MS;
use crate::locator::{Locator, Says};
use crate::node::NodeId;

/// What the nodes said when they were asked.
#[derive(Debug, Clone)]
pub(super) struct Survey {
    pub(super) asked: Vec<Asked>,
    pub(super) is_complete: bool,
}

impl Survey {
    pub(super) fn holders(&self) -> Vec<NodeId> {
        let has = |asked: &&Asked| matches!(asked.says, Some(Says::File { .. }));
        self.asked.iter().filter(has).map(|asked| asked.node).collect()
    }

    pub(super) fn is_directory(&self) -> bool {
        self.asked.iter().any(|asked| asked.says == Some(Says::Directory))
    }

    pub(super) fn silent(&self) -> Vec<Asked> {
        let is_silent = |asked: &&Asked| asked.says.as_ref().is_none_or(Says::is_unclear);
        self.asked.iter().filter(is_silent).cloned().collect()
    }
}

/// Asks these nodes. It ends when all have answered, `grace_ms` after the first that has the file,
/// or at the deadline.
pub(super) async fn ask(locator: Arc<dyn Locator>, path: LogicalPath, nodes: Vec<NodeId>, grace_ms: u64) -> Survey {
    let began = Instant::now();
    let mut deadline = began + Duration::from_millis(ANSWER_TIME_MS);
    let after_ms = || began.elapsed().as_secs_f64() * 1000.0;
    // Those that were asked and have not answered: no other is heard, and none twice.
    let mut silent: BTreeSet<NodeId> = nodes.iter().copied().collect();
    let mut asked: Vec<Asked> = Vec::with_capacity(nodes.len());
    let mut answers = locator.ask(&path, &nodes);
    while !silent.is_empty()
        && let Ok(Some(answer)) = timeout_at(deadline, answers.next()).await
    {
        if !silent.remove(&answer.node) {
            continue;
        }
        if matches!(answer.says, Says::File { .. }) {
            deadline = deadline.min(Instant::now() + Duration::from_millis(grace_ms));
        }
        asked.push(Asked {
            node: answer.node,
            says: Some(answer.says),
            after_ms: after_ms(),
        });
    }
    drop(answers);
    let is_clear = |asked: &Asked| !asked.says.as_ref().is_none_or(Says::is_unclear);
    let is_complete = silent.is_empty() && asked.iter().all(is_clear);
    asked.extend(silent.into_iter().map(|node| Asked {
        node,
        says: None,
        after_ms: after_ms(),
    }));
    Survey { asked, is_complete }
}
