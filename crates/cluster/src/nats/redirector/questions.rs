//! Questions that wait for answers.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use crate::locator::{Answer, Says};
use crate::node::NodeId;

/// A question that has not been answered by all.
#[derive(Debug)]
struct Open {
    waiting: HashSet<NodeId>,
    answers: mpsc::Sender<Answer>,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<u64, Open>,
    last: u64,
}

/// All open questions. Their number is bounded by the director's.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions(Arc<Mutex<State>>);

/// A question and its answers. Dropping it ends the waiting.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: u64,
    answers: mpsc::Receiver<Answer>,
    questions: Questions,
}

impl Questions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new question to these nodes.
    pub(super) fn begin(&self, nodes: &[NodeId]) -> Asked {
        // Each answers once, so there is room for all.
        let (sender, answers) = mpsc::channel(nodes.len().max(1));
        let mut state = self.state();
        state.last += 1;
        let id = state.last;
        let open = Open {
            waiting: nodes.iter().copied().collect(),
            answers: sender,
        };
        if !nodes.is_empty() {
            state.open.insert(id, open);
        }
        Asked {
            id,
            answers,
            questions: self.clone(),
        }
    }

    /// A node has answered. Answers from others than those that were asked, and second ones, are
    /// not heard.
    pub(super) fn answered(&self, id: u64, node: NodeId, says: Says) {
        let mut state = self.state();
        let Some(open) = state.open.get_mut(&id) else { return };
        if open.waiting.remove(&node) {
            let _ = open.answers.try_send(Answer { node, says });
        }
        if open.waiting.is_empty() {
            state.open.remove(&id);
        }
    }

    /// A node does not answer any more.
    pub(super) fn failed(&self, node: NodeId, reason: &str) {
        let waiting: Vec<u64> = {
            let state = self.state();
            let is_waiting = |open: &Open| open.waiting.contains(&node);
            let open = state.open.iter().filter(|(_, open)| is_waiting(open));
            open.map(|(id, _)| *id).collect()
        };
        for id in waiting {
            self.answered(id, node, Says::Failed(reason.to_owned()));
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.state().open.len()
    }
}

impl Asked {
    /// The next answer; `None` when all have answered.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.questions.state().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_those_that_were_asked_are_heard_and_once() {
        let questions = Questions::default();
        let (one, two, stranger) = (NodeId(1), NodeId(2), NodeId(3));
        let mut asked = questions.begin(&[one, two]);
        questions.answered(asked.id, stranger, Says::File { size_bytes: None });
        questions.answered(asked.id, one, Says::Nothing);
        questions.answered(asked.id, one, Says::Directory);
        questions.answered(asked.id + 1, two, Says::Directory);
        questions.failed(two, "it went");
        let mut heard = Vec::new();
        while let Some(answer) = asked.next().await {
            heard.push(answer.says);
        }
        assert_eq!(heard, [Says::Nothing, Says::Failed("it went".to_owned())]);
        assert_eq!(questions.len(), 0);
    }

    #[tokio::test]
    async fn a_question_that_is_dropped_is_forgotten() {
        let questions = Questions::default();
        let asked = questions.begin(&[NodeId(1)]);
        assert_eq!(questions.len(), 1);
        drop(asked);
        assert_eq!(questions.len(), 0);
        assert_eq!(questions.begin(&[]).next().await, None);
    }
}
