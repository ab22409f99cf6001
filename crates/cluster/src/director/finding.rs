//! Where a name is: asked once for all who want to know it now, and remembered.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FutureExt, Shared};
use tokio::time::{Instant, timeout_at};
use types::LogicalPath;

use super::survey::{Survey, ask};
use super::{Director, Located};
use crate::explanation::{Asked, Basis, Undirected};
use crate::limits::{ANSWER_GRACE_MS, ANSWER_TIME_MS, AWAY_TIME_MS, QUESTIONS_MAX, RETURN_TIME_MS, SETTLE_TIME_MS};
use crate::locations::Known;
use crate::locator::Says;
use crate::node::{Node, NodeId, Presence};

type Question = Shared<Pin<Box<dyn Future<Output = Arc<Survey>> + Send>>>;

/// A name that is being asked for.
pub(super) struct Asking {
    question: Question,
    /// A node has told of a change meanwhile: the answers may be older.
    pub(super) is_changed: bool,
}

impl Director {
    /// Where a name is: what is known, or what the nodes say when they are asked.
    ///
    /// # Errors
    /// [`Undirected::NotFound`], [`Undirected::Directory`], [`Undirected::Unsure`],
    /// [`Undirected::NotExported`], [`Undirected::Overloaded`].
    pub async fn locate(&self, path: &LogicalPath, refresh: bool) -> Result<Located, Undirected> {
        let deadline = Instant::now() + Duration::from_millis(SETTLE_TIME_MS);
        loop {
            let changed = self.presence_changed.notified();
            let found = self.locate_now(path, refresh).await;
            let Err(Undirected::Unsure { silent }) = &found else {
                return found;
            };
            let is_refusal = |asked: &Asked| matches!(asked.says, Some(Says::Refused(_)));
            if silent.iter().all(is_refusal) {
                return found;
            }
            // A node that has just died is known as lost in a moment, and is not asked any more.
            let is_settled = silent.iter().any(|asked| self.is_lost(asked.node));
            if is_settled && Instant::now() < deadline {
                continue;
            }
            if timeout_at(deadline, changed).await.is_err() {
                return found;
            }
        }
    }

    fn is_lost(&self, node: NodeId) -> bool {
        let state = self.state();
        let lost = |node: &crate::node::Node| matches!(node.presence(), Presence::Absent { .. });
        state.nodes.get(node).is_some_and(lost)
    }

    pub(super) async fn locate_now(&self, path: &LogicalPath, refresh: bool) -> Result<Located, Undirected> {
        if !refresh && let Some(known) = self.known(path) {
            self.state().counts.known += 1;
            return known;
        }
        self.state().counts.asked += 1;
        let survey = self.survey(path).await?;
        let holders = survey.holders();
        let basis = Basis::Asked(survey.asked.clone());
        if !holders.is_empty() {
            return Ok(Located {
                holders,
                is_complete: survey.is_complete,
                sticky: None,
                basis,
            });
        }
        if survey.is_directory() {
            return Err(Undirected::Directory(basis));
        }
        let mut silent = survey.silent();
        silent.extend(self.without_answer(path, |node, _| *node.presence() == Presence::Unknown));
        Err(match silent.is_empty() {
            true => Undirected::NotFound(basis),
            false => Undirected::Unsure { silent },
        })
    }

    /// The same with all nodes that have the name: none is left out because it answers later than
    /// others.
    ///
    /// # Errors
    /// Those of [`Director::locate`].
    pub async fn locate_all(&self, path: &LogicalPath, refresh: bool) -> Result<Located, Undirected> {
        let located = self.locate(path, refresh).await?;
        if located.is_complete {
            return Ok(located);
        }
        let candidates = self.candidates(path);
        let survey = ask(Arc::clone(&self.locator), path.clone(), candidates, ANSWER_TIME_MS).await;
        let holders = survey.holders();
        Ok(match holders.is_empty() {
            true => located,
            false => Located {
                holders,
                is_complete: survey.is_complete,
                sticky: None,
                basis: Basis::Asked(survey.asked),
            },
        })
    }

    pub(super) fn known(&self, path: &LogicalPath) -> Option<Result<Located, Undirected>> {
        let state = &mut *self.state();
        match state.locations.find(path, &state.nodes, self.now_ms()) {
            Known::Nothing => None,
            // It may have come meanwhile.
            Known::Absent { .. } if state.expected.may_come(path) || state.heard.may_come(path) => None,
            Known::Absent { age_ms } => Some(Err(Undirected::NotFound(Basis::Known { age_ms }))),
            Known::Held {
                holders,
                is_complete,
                sticky,
                age_ms,
            } => Some(Ok(Located {
                holders,
                is_complete,
                sticky,
                basis: Basis::Known { age_ms },
            })),
        }
    }

    /// Nodes that may have a name and went away lately, so that "no node has it" is not certain: a
    /// node that starts again has what it had. One that stays away is no reason to refuse for ever.
    pub fn away(&self, path: &LogicalPath) -> Vec<Asked> {
        self.without_answer(path, |node, now_ms| match node.presence() {
            Presence::Absent { since_ms, .. } => now_ms.saturating_sub(*since_ms) < AWAY_TIME_MS,
            Presence::Unknown => true,
            Presence::Present { .. } => node.mute(now_ms).is_some(),
        })
    }

    /// Whether a node that may have a name has just gone, has not been looked at yet, or refuses
    /// changes because it has just started.
    pub fn may_return(&self, path: &LogicalPath) -> bool {
        let gone = self.without_answer(path, |node, now_ms| match node.presence() {
            Presence::Absent { since_ms, .. } => now_ms.saturating_sub(*since_ms) < RETURN_TIME_MS,
            Presence::Unknown => true,
            Presence::Present { .. } => node.is_starting(),
        });
        !gone.is_empty()
    }

    /// Whether a node that may have a name refuses changes because it has just started.
    pub(crate) fn has_starting(&self, path: &LogicalPath) -> bool {
        let state = self.state();
        let is_meant = |node: &Node| node.is_starting() && node.config.may_hold(path);
        state.nodes.iter().any(|(_, node)| is_meant(node))
    }

    /// Those of them that were known to have it.
    pub(super) fn away_with(&self, path: &LogicalPath) -> Vec<Asked> {
        let had = {
            let state = self.state();
            state.locations.with_absent(path, &state.nodes)
        };
        let mut away = self.away(path);
        away.retain(|asked| had.contains(&asked.node));
        away
    }

    fn without_answer(&self, path: &LogicalPath, is_meant: impl Fn(&Node, u64) -> bool) -> Vec<Asked> {
        let (state, now_ms) = (self.state(), self.now_ms());
        let meant = state
            .nodes
            .iter()
            .filter(|(_, node)| is_meant(node, now_ms) && node.config.may_hold(path));
        let silent = meant.map(|(id, node)| Asked {
            node: id,
            says: Some(match (node.presence(), node.refusal()) {
                (Presence::Absent { reason, .. }, _) => Says::Failed(format!("away: {reason}")),
                (Presence::Unknown, _) => Says::Failed("not looked at yet".to_owned()),
                (Presence::Present { .. }, Some(words)) => Says::Refused(words.to_owned()),
                (Presence::Present { .. }, None) => {
                    let words = node.mute(now_ms).unwrap_or_default();
                    Says::Failed(format!("it answers no questions: {words}"))
                }
            }),
            after_ms: 0.0,
        });
        silent.collect()
    }

    /// Asks all nodes that may have a name, once for all who want to know it now.
    pub(super) async fn survey(&self, path: &LogicalPath) -> Result<Arc<Survey>, Undirected> {
        let waiting = Waiting {
            director: self,
            path,
            question: self.question(path)?,
        };
        let survey = waiting.question.clone().await;
        let unknown = self.without_answer(path, |node, _| *node.presence() == Presence::Unknown);
        if self.learn(path, &waiting.question, &survey, unknown.is_empty()) {
            self.note_answers(&survey);
        }
        Ok(survey)
    }

    /// Remembers what the nodes have said, if this is the first of those who waited for it, and
    /// answers whether it is. A node that has told of a change meanwhile knows better; that can
    /// happen until the question is taken from the list, which is locked here.
    fn learn(&self, path: &LogicalPath, question: &Question, survey: &Survey, all_known: bool) -> bool {
        let mut questions = self.questions();
        let is_first = questions
            .get(path)
            .is_some_and(|asking| asking.question.ptr_eq(question));
        let asking = if is_first { questions.remove(path) } else { None };
        // A directory is no file, and not nothing.
        if asking.is_some_and(|asking| !asking.is_changed) && !survey.is_directory() {
            let (state, now_ms) = (&mut *self.state(), self.now_ms());
            let is_complete = survey.is_complete && all_known;
            let holders = survey.holders();
            state
                .locations
                .learned(path, &holders, is_complete, &state.nodes, now_ms);
        }
        is_first
    }

    /// Nodes that may have a name and answer questions.
    pub(crate) fn candidates(&self, path: &LogicalPath) -> Vec<NodeId> {
        self.state().nodes.candidates(path, self.now_ms()).collect()
    }

    /// Nodes that answer no questions, though they are there.
    pub(crate) fn mute(&self) -> Vec<NodeId> {
        let (state, now_ms) = (self.state(), self.now_ms());
        let mute = state.nodes.iter().filter(|(_, node)| node.mute(now_ms).is_some());
        mute.map(|(id, _)| id).collect()
    }

    /// A node that counted as mute answers again.
    pub(crate) fn answered(&self, node: NodeId) {
        self.state().nodes.answered(node);
    }

    /// A node that does not answer makes everybody wait who asks for a name that does not exist.
    fn note_answers(&self, survey: &Survey) {
        // The others need not answer when one has the file.
        let had_time = survey.holders().is_empty();
        let (state, now_ms) = (&mut *self.state(), self.now_ms());
        for asked in &survey.asked {
            match &asked.says {
                Some(Says::Failed(words) | Says::Refused(words)) => state.nodes.unanswered(asked.node, words, now_ms),
                Some(Says::Excluded) => {}
                Some(_) => state.nodes.answered(asked.node),
                None if had_time => state.nodes.unanswered(asked.node, "no answer in time", now_ms),
                None => {}
            }
        }
    }

    /// The question that is being asked, or a new one.
    fn question(&self, path: &LogicalPath) -> Result<Question, Undirected> {
        let mut questions = self.questions();
        if let Some(running) = questions.get(path) {
            return Ok(running.question.clone());
        }
        let candidates = self.candidates(path);
        if candidates.is_empty() {
            return Err(self.without_candidates(path));
        }
        if questions.len() >= QUESTIONS_MAX {
            return Err(Undirected::Overloaded);
        }
        let asking = ask(Arc::clone(&self.locator), path.clone(), candidates, ANSWER_GRACE_MS);
        let question: Question = asking.map(Arc::new).boxed().shared();
        let asking = Asking {
            question: question.clone(),
            is_changed: false,
        };
        questions.insert(path.clone(), asking);
        Ok(question)
    }

    fn without_candidates(&self, path: &LogicalPath) -> Undirected {
        let silent = self.without_answer(path, |_, _| true);
        match silent.is_empty() {
            true => Undirected::NotExported,
            false => Undirected::Unsure { silent },
        }
    }
}

/// A client that waits for an answer. If the last of them leaves, the question is given up.
struct Waiting<'a> {
    director: &'a Director,
    path: &'a LogicalPath,
    question: Question,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut questions = self.director.questions();
        let is_own = |asking: &Asking| asking.question.ptr_eq(&self.question);
        // One is in the list, one here.
        let is_last = self.question.strong_count().is_none_or(|count| count <= 2);
        if is_last && questions.get(self.path).is_some_and(is_own) {
            questions.remove(self.path);
        }
    }
}
