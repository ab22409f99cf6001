//! Asking the nodes that may have a name: over the bus, or directly those that are not on it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use futures_util::stream::{self, StreamExt as _};
use tokio::sync::watch;
use types::LogicalPath;

use super::peer::May;
use super::source::NatsSource;
use crate::locator::{Answer, Answers, Locator, Says};
use crate::nats::limits::SINGLY_ASKED_MAX;
use crate::nats::message::{Coming, Request};
use crate::node::NodeId;

/// What nodes say while the bus is away.
const AWAY: &str = "the message bus is away";

/// Who is asked, and who need not be.
#[derive(Debug, Default)]
struct Plan {
    excluded: Vec<NodeId>,
    asked: Vec<NodeId>,
    /// Subjects of several nodes.
    together: Vec<String>,
    /// Nodes that are asked by themselves.
    singly: Vec<NodeId>,
}

/// A question on its way.
struct Going<'a> {
    source: &'a NatsSource,
    path: &'a LogicalPath,
    nodes: &'a [NodeId],
    plan: Plan,
    id: u64,
    /// Of the nodes that are asked over the bus, and of those that are not on it.
    answers: Answers<'a>,
    works: watch::Receiver<bool>,
    has_sent: bool,
    /// Once the bus is away, the answers of all nodes that are asked directly.
    others: Option<Answers<'a>>,
}

impl Locator for NatsSource {
    fn ask<'a>(&'a self, path: &'a LogicalPath, nodes: &'a [NodeId]) -> Answers<'a> {
        if !self.works() {
            return self.ask_directly(path, nodes);
        }
        let plan = self.plan(path, nodes);
        let asked = self.questions.begin(&plan.asked);
        let id = asked.id;
        let over_bus = stream::unfold(asked, |mut asked| async {
            asked.next().await.map(|answer| (answer, asked))
        });
        let going = Going {
            id,
            answers: Box::pin(stream::select(over_bus, self.ask_those_beside(path, nodes))),
            source: self,
            path,
            nodes,
            plan,
            works: self.works.subscribe(),
            has_sent: false,
            others: None,
        };
        Box::pin(stream::unfold(going, |mut going| async {
            going.next().await.map(|answer| (answer, going))
        }))
    }

    fn placed(&self, path: &LogicalPath, node: NodeId) {
        if self.is_on_bus(node) {
            self.placements().note(path, node);
            if let Some(name) = self.bus_name(node) {
                self.announce_coming(Coming::File {
                    node: name.clone(),
                    path: path.clone(),
                });
            }
        }
    }

    fn made(&self, directory: &LogicalPath) {
        self.placements().made(directory);
        self.announce_coming(Coming::Directory(directory.clone()));
    }
}

impl NatsSource {
    /// The nodes that are not on the bus.
    fn ask_those_beside<'a>(&'a self, path: &'a LogicalPath, nodes: &'a [NodeId]) -> Answers<'a> {
        let runs = nodes.chunk_by(|one, next| self.is_on_bus(*one) == self.is_on_bus(*next));
        let beside = runs.filter(|run| run.iter().any(|node| !self.is_on_bus(*node)));
        Box::pin(stream::select_all(beside.map(|run| self.ask_directly(path, run))))
    }

    /// Over the nodes' own protocols, or not at all.
    fn ask_directly<'a>(&'a self, path: &'a LogicalPath, nodes: &'a [NodeId]) -> Answers<'a> {
        match &self.direct {
            Some(direct) => direct.ask(path, nodes),
            None => Box::pin(stream::iter(nodes).map(|node| Answer {
                node: *node,
                says: Says::Failed(AWAY.to_owned()),
            })),
        }
    }

    fn plan(&self, path: &LogicalPath, nodes: &[NodeId]) -> Plan {
        let (expected, is_new) = {
            let placements = self.placements();
            let is_new = placements.is_new_directory(path) || placements.is_flooded(self.now_ms());
            (placements.find(path), is_new)
        };
        let (mut plan, mut unknown) = (Plan::default(), Vec::new());
        for node in nodes.iter().filter(|node| self.is_on_bus(**node)) {
            match self.may_have(*node, path) {
                May::No if !expected.is_at(*node) && !is_new => plan.excluded.push(*node),
                May::Unknown => unknown.push(*node),
                May::No | May::Maybe => plan.singly.push(*node),
            }
        }
        plan.asked = [&plan.singly[..], &unknown].concat();
        // Nearly all would be woken anyway, and one message is cheaper than a thousand.
        if unknown.len() > SINGLY_ASKED_MAX && unknown.len() > plan.excluded.len() {
            self.group(path, unknown, &mut plan);
        } else {
            plan.singly.extend(unknown);
        }
        self.counts.asked.fetch_add(plan.asked.len() as u64, Ordering::Relaxed);
        self.counts
            .excluded
            .fetch_add(plan.excluded.len() as u64, Ordering::Relaxed);
        plan
    }

    /// Nodes are asked together with the others of the same export.
    fn group(&self, path: &LogicalPath, nodes: Vec<NodeId>, plan: &mut Plan) {
        let mut subjects = BTreeMap::<String, Vec<NodeId>>::new();
        for node in nodes {
            let export = self.peer(node).and_then(|peer| peer.export_of(path).cloned());
            match export {
                Some(export) => {
                    let subject = self.settings.subjects.who(export.as_str());
                    subjects.entry(subject).or_default().push(node);
                }
                None => plan.singly.push(node),
            }
        }
        for (subject, nodes) in subjects {
            match nodes.len() > SINGLY_ASKED_MAX {
                true => plan.together.push(subject),
                false => plan.singly.extend(nodes),
            }
        }
    }

    async fn send_question(&self, path: &LogicalPath, id: u64, plan: &Plan) {
        let question = Request::Who {
            id,
            redirector: self.me.clone(),
            path: path.clone(),
        };
        let bytes = question.encode();
        let subjects = &self.settings.subjects;
        for subject in &plan.together {
            self.bus.send(subject.clone(), bytes.clone()).await;
        }
        for node in &plan.singly {
            let Some(name) = self.name(*node) else { continue };
            if let Some(mut peer) = self.peer(*node) {
                peer.counts.questions += 1;
            }
            // The server answers in its place if it is not connected.
            let reply = subjects.answers_of(name, self.me.as_str());
            self.bus.ask(subjects.to(name), reply, bytes.clone()).await;
        }
    }
}

impl Going<'_> {
    async fn next(&mut self) -> Option<Answer> {
        if !self.has_sent {
            self.has_sent = true;
            self.source.send_question(self.path, self.id, &self.plan).await;
        }
        if let Some(node) = self.plan.excluded.pop() {
            return Some(Answer {
                node,
                says: Says::Excluded,
            });
        }
        if self.others.is_none() {
            tokio::select! {
                answer = self.answers.next() => return answer,
                _ = self.works.wait_for(|works| !works) => {}
            }
            // The director hears each node once: those that have answered are not asked in vain.
            self.others = Some(self.source.ask_directly(self.path, self.nodes));
        }
        self.others.as_mut()?.next().await
    }
}
