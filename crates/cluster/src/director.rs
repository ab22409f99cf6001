//! The director: asks where a file is, remembers it, and sends each client to a node.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{FutureExt, Shared};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use types::LogicalPath;

use crate::choice::{self, Readers};
use crate::expected::{Coming, Expected};
use crate::explanation::{Asked, Basis, Directed, Reason, Undirected};
use crate::limits::{
    ANSWER_GRACE_MS, ANSWER_TIME_MS, AWAY_TIME_MS, FAILED_TIME_MS, QUESTIONS_MAX, RESERVATION_TIME_MS, SETTLE_TIME_MS,
};
use crate::locations::{Known, Locations};
use crate::locator::{Locator, Says};
use crate::near::{Near, Nearness};
use crate::node::{Change, Drain, Node, NodeConfig, NodeId, Nodes, Presence, Status};
use crate::placement::{self, NewFile, ReservationId, Reservations, RoomFor, Unplaced};
use siphasher::sip::SipHasher13;
use survey::{Survey, ask};

/// What the choice of a node depends on, of a client.
#[derive(Debug, Clone, Copy, Default)]
pub struct Client<'a> {
    /// Where it comes from.
    pub address: Option<IpAddr>,
    /// What is near to it.
    pub near: Near<'a>,
    /// Nodes that it has tried in vain, by their names in URLs.
    pub tried: &'a [NodeId],
    /// What is known is not believed: the nodes are asked.
    pub refresh: bool,
    /// It only wants to know where it would be sent: no room is kept for it, and no load counted.
    pub only_asks: bool,
    /// A file that it stores must not replace another.
    pub is_new: bool,
}

/// Where a name is.
#[derive(Debug, Clone)]
pub struct Located {
    /// The nodes that have it.
    pub holders: Vec<NodeId>,
    /// There are no others.
    pub is_complete: bool,
    /// Where readers were sent a moment ago.
    sticky: Option<NodeId>,
    /// How it is known.
    pub basis: Basis,
}

type Question = Shared<Pin<Box<dyn Future<Output = Arc<Survey>> + Send>>>;

/// A name that is being asked for.
struct Asking {
    question: Question,
    /// A node has told of a change meanwhile: the answers may be older.
    is_changed: bool,
}

#[derive(Debug)]
struct State {
    nodes: Nodes,
    locations: Locations,
    reservations: Reservations,
    expected: Expected,
    /// Names that renames are about to give.
    claims: HashSet<LogicalPath>,
    random: fastrand::Rng,
    counts: Counts,
}

/// How names were looked up, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answered from memory.
    pub known: u64,
    /// Asked of the nodes.
    pub asked: u64,
    /// Names in memory now.
    pub locations: usize,
    /// Reservations of room now.
    pub reservations: usize,
}

impl State {
    /// A directory is there now, and those above it.
    fn made(&mut self, directory: &LogicalPath) {
        for path in std::iter::successors(Some(directory.clone()), LogicalPath::parent) {
            self.locations.forget_absence(&path);
        }
    }

    fn note_sent(&mut self, node: NodeId, client: Client<'_>, now_ms: u64) {
        if !client.only_asks {
            self.nodes.sent(node, now_ms);
        }
    }

    /// A second copy under the same name would make two files of one: the holder gets the new
    /// content, even while it is drained of new files. If there are several copies already, a
    /// change of one would make them differ, and readers get the one or the other.
    fn overwrite(
        &mut self,
        holders: &[NodeId],
        basis: Basis,
        client: Client<'_>,
        now_ms: u64,
    ) -> Result<Directed, Undirected> {
        let holders = holders.to_vec();
        let [node] = holders[..] else {
            return Err(Undirected::Several { holders });
        };
        let takes = self.nodes.get(node).is_some_and(Node::takes_reads);
        if !takes || client.tried.contains(&node) {
            return Err(Undirected::NoHolder { holders });
        }
        self.note_sent(node, client, now_ms);
        Ok(Directed {
            node,
            reason: Reason::Holder,
            nearness: Nearness::Far,
            holders,
            basis,
        })
    }

    /// The node to which another client was sent with this name, if this one cannot go there: a
    /// second file of the name elsewhere would be the other's as well.
    fn is_stored_by_another(&self, path: &LogicalPath, client: Client<'_>, now_ms: u64) -> Option<NodeId> {
        let coming = self.expected.find(path, now_ms)?;
        let is_there = self.nodes.get(coming.node).is_some_and(Node::is_present);
        let is_other = coming.client != client.address && client.tried.contains(&coming.node);
        (is_there && is_other).then_some(coming.node)
    }

    /// The node to which another client was sent with this name, if it still takes it.
    fn expected_at(&self, path: &LogicalPath, client: Client<'_>, now_ms: u64) -> Option<NodeId> {
        let coming = self.expected.find(path, now_ms)?;
        let node = coming.node;
        let takes = self.nodes.get(node).is_some_and(Node::takes_writes);
        (takes && !client.tried.contains(&node) && !has_failed(&coming, client, now_ms)).then_some(node)
    }
}

/// Sends clients to nodes. What it knows can be asked for again; it keeps nothing on disk.
pub struct Director {
    state: Mutex<State>,
    locator: Arc<dyn Locator>,
    /// Names that are being asked for; several clients wait for the same answers.
    questions: Mutex<HashMap<LogicalPath, Asking>>,
    started: Instant,
    presence_changed: Notify,
}

impl Director {
    /// A director for these nodes, which remembers locations in so many bytes.
    pub fn new(nodes: impl IntoIterator<Item = NodeConfig>, locator: Arc<dyn Locator>, bytes_max: usize) -> Self {
        let state = State {
            nodes: Nodes::new(nodes),
            locations: Locations::new(bytes_max),
            reservations: Reservations::default(),
            expected: Expected::default(),
            claims: HashSet::new(),
            random: fastrand::Rng::new(),
            counts: Counts::default(),
        };
        Self {
            state: Mutex::new(state),
            locator,
            questions: Mutex::default(),
            started: Instant::now(),
            presence_changed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since one before the start, so that nothing happens at 0.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX) + 1
    }

    /// A node answers, and may have told how it is.
    pub fn told(&self, node: NodeId, status: Option<Status>) -> Option<Change> {
        let change = self.state().nodes.told(node, status, self.now_ms());
        if change.is_some() {
            self.presence_changed.notify_waiters();
        }
        change
    }

    /// A node does not answer.
    pub fn lost(&self, node: NodeId, reason: &str) -> Option<Change> {
        let change = self.state().nodes.lost(node, reason, self.now_ms());
        self.presence_changed.notify_waiters();
        change
    }

    /// An operator drains a node, or takes it back.
    pub fn order(&self, node: NodeId, drain: Drain) {
        self.state().nodes.order(node, drain);
    }

    /// A node tells which names change from now on, or does not any more.
    pub fn tells(&self, node: NodeId, tells_changes: bool) {
        self.state().nodes.tells(node, tells_changes);
    }

    /// A node has told where it is.
    pub fn at_site(&self, node: NodeId, site: Option<&str>) {
        self.state().nodes.at_site(node, site);
    }

    /// A node has a new file.
    pub fn created(&self, path: &LogicalPath, node: NodeId) {
        self.note_change(path);
        let state = &mut *self.state();
        if state.nodes.get(node).is_some_and(|node| node.config.may_hold(path)) {
            state.locations.gained(path, node, self.now_ms());
            path.parent().into_iter().for_each(|parent| state.made(&parent));
            let came = state.expected.take(path).and_then(|coming| coming.reservation);
            came.into_iter()
                .for_each(|reservation| state.reservations.release(reservation));
        }
    }

    /// Takes a name that a file or directory is to get by a rename, until the claim is dropped.
    /// `None` if another rename is about to give it, or a client was just sent to a node with a file
    /// of this name: both would end with the same name twice.
    pub(crate) fn claim<'a>(&'a self, path: &'a LogicalPath) -> Option<Claim<'a>> {
        let now_ms = self.now_ms();
        let state = &mut *self.state();
        let is_coming = state.expected.find(path, now_ms);
        let is_coming = is_coming.is_some_and(|coming| now_ms.saturating_sub(coming.since_ms) < RESERVATION_TIME_MS);
        let is_free = !is_coming && state.claims.insert(path.clone());
        is_free.then(|| Claim { director: self, path })
    }

    /// A file that was announced for a node will not come.
    pub fn given_up(&self, path: &LogicalPath) {
        let state = &mut *self.state();
        let reservation = state.expected.take(path).and_then(|coming| coming.reservation);
        reservation
            .into_iter()
            .for_each(|reservation| state.reservations.release(reservation));
    }

    /// A node does not have a file any more.
    pub fn removed(&self, path: &LogicalPath, node: NodeId) {
        self.note_change(path);
        self.state().locations.lost(path, node);
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<LogicalPath, Asking>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_change(&self, path: &LogicalPath) {
        if let Some(asking) = self.questions().get_mut(path) {
            asking.is_changed = true;
        }
    }

    /// A node has renamed or removed a whole tree.
    pub fn forget(&self, node: NodeId) {
        self.state().nodes.forget(node, self.now_ms());
    }

    /// An upload for which room was kept has ended.
    pub fn release(&self, reservation: ReservationId) {
        self.state().reservations.release(reservation);
    }

    /// Calls `look` with all nodes, for reports.
    pub fn with_nodes<T>(&self, look: impl FnOnce(&Nodes, u64) -> T) -> T {
        look(&self.state().nodes, self.now_ms())
    }

    /// A directory was made, or has another name now: "no node has it" is not true any more.
    pub fn made(&self, directory: &LogicalPath) {
        self.note_change(directory);
        self.locator.made(directory);
        self.state().made(directory);
    }

    /// How names were looked up.
    pub fn counts(&self) -> Counts {
        let state = self.state();
        Counts {
            locations: state.locations.len(),
            reservations: state.reservations.len(),
            ..state.counts
        }
    }

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

    async fn locate_now(&self, path: &LogicalPath, refresh: bool) -> Result<Located, Undirected> {
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

    fn known(&self, path: &LogicalPath) -> Option<Result<Located, Undirected>> {
        let state = &mut *self.state();
        match state.locations.find(path, &state.nodes, self.now_ms()) {
            Known::Nothing => None,
            // It may have come meanwhile.
            Known::Absent { .. } if state.expected.may_come(path) => None,
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

    /// Those of them that were known to have it.
    fn away_with(&self, path: &LogicalPath) -> Vec<Asked> {
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
            says: Some(Says::Failed(match node.presence() {
                Presence::Absent { reason, .. } => format!("away: {reason}"),
                Presence::Unknown => "not looked at yet".to_owned(),
                Presence::Present { .. } => {
                    format!("it answers no questions: {}", node.mute(now_ms).unwrap_or_default())
                }
            })),
            after_ms: 0.0,
        });
        silent.collect()
    }

    /// Asks all nodes that may have a name, once for all who want to know it now.
    async fn survey(&self, path: &LogicalPath) -> Result<Arc<Survey>, Undirected> {
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
                Some(Says::Failed(words)) => state.nodes.unanswered(asked.node, words, now_ms),
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
        let state = self.state();
        let may = |node: &crate::node::Node| node.config.may_hold(path);
        match state.nodes.iter().any(|(_, node)| may(node)) {
            true => Undirected::Unsure { silent: Vec::new() },
            false => Undirected::NotExported,
        }
    }

    /// Sends a reader to a node that has the file.
    ///
    /// # Errors
    /// Those of [`Director::locate`], and [`Undirected::NoHolder`].
    pub async fn read(&self, path: &LogicalPath, client: Client<'_>) -> Result<Directed, Undirected> {
        let located = self.locate(path, client.refresh).await?;
        match self.choose(path, &located, client) {
            Some(directed) => Ok(directed),
            // What is known may be old, or not all: ask, once.
            None if !client.refresh && matches!(located.basis, Basis::Known { .. }) => {
                let located = self.locate(path, true).await?;
                let chosen = self.choose(path, &located, client);
                chosen.ok_or(Undirected::NoHolder {
                    holders: located.holders,
                })
            }
            None => Err(Undirected::NoHolder {
                holders: located.holders,
            }),
        }
    }

    fn choose(&self, path: &LogicalPath, located: &Located, client: Client<'_>) -> Option<Directed> {
        let (state, now_ms) = (&mut *self.state(), self.now_ms());
        let readers = Readers {
            holders: &located.holders,
            sticky: located.sticky,
            near: client.near,
            tried: client.tried,
        };
        let choice = choice::reader(&state.nodes, readers, now_ms, &mut state.random)?;
        if !client.only_asks {
            state.nodes.sent(choice.node, now_ms);
            state.locations.stick(path, choice.node, now_ms);
        }
        Some(Directed {
            node: choice.node,
            reason: Reason::Reader(choice.why),
            nearness: choice.nearness,
            holders: located.holders.clone(),
            basis: located.basis.clone(),
        })
    }

    /// Sends a writer to the node that has the file, or a new file to a node with room, which is
    /// kept until [`Director::release`] or for a named time.
    ///
    /// # Errors
    /// All of [`Undirected`] but `NotFound`.
    pub async fn write(
        &self,
        path: &LogicalPath,
        size_bytes: Option<u64>,
        client: Client<'_>,
    ) -> Result<(Directed, Option<ReservationId>), Undirected> {
        let basis = match self.locate_all(path, client.refresh).await {
            Ok(located) => return self.overwrite(&located, client).map(|directed| (directed, None)),
            Err(Undirected::NotFound(basis)) => basis,
            Err(other) => return Err(other),
        };
        let silent = match client.is_new {
            true => self.away(path),
            false => self.away_with(path),
        };
        if !silent.is_empty() {
            return Err(Undirected::Unsure { silent });
        }
        let (state, now_ms) = (&mut *self.state(), self.now_ms());
        // It may have come since the nodes were asked.
        if state.claims.contains(path) {
            return Err(Undirected::Claimed);
        }
        if let Known::Held { holders, .. } = state.locations.find(path, &state.nodes, now_ms) {
            return state
                .overwrite(&holders, basis, client, now_ms)
                .map(|directed| (directed, None));
        }
        if let Some(node) = state.is_stored_by_another(path, client, now_ms) {
            return Err(Undirected::NoHolder { holders: vec![node] });
        }
        if let Some(node) = state.expected_at(path, client, now_ms) {
            state.note_sent(node, client, now_ms);
            let directed = Directed {
                node,
                reason: Reason::Expected,
                nearness: Nearness::Far,
                holders: Vec::new(),
                basis,
            };
            return Ok((directed, None));
        }
        state.reservations.expire(now_ms);
        let failed = state.expected.find(path, now_ms);
        let failed = failed.filter(|coming| has_failed(coming, client, now_ms));
        let tried: Vec<NodeId> = failed
            .map(|coming| coming.node)
            .into_iter()
            .chain(client.tried.iter().copied())
            .collect();
        let file = NewFile {
            path,
            size_bytes,
            tried: &tried,
            near: client.near,
        };
        let mut random = draws_for(path);
        let placed = placement::writer(&state.nodes, &state.reservations, file, now_ms, &mut random)?;
        state.note_sent(placed.node, client, now_ms);
        let nearness = client.near.of(placed.node, &state.nodes);
        let reservation = (!client.only_asks).then(|| {
            let reserved = size_bytes.unwrap_or(crate::limits::UNKNOWN_SIZE_BYTES);
            let room = RoomFor {
                node: placed.node,
                bytes: reserved,
                room_bytes: placed.room_bytes,
                client: client.address.map(|address| address.to_canonical()),
            };
            let reservation = state.reservations.reserve(room, now_ms);
            state.expected.note(
                path,
                Coming {
                    node: placed.node,
                    reservation: Some(reservation),
                    client: client.address,
                    since_ms: now_ms,
                },
            );
            self.locator.placed(path, placed.node);
            reservation
        });
        let directed = Directed {
            node: placed.node,
            reason: Reason::Placed {
                fill: placed.fill,
                busy: placed.busy,
                candidates: placed.candidates,
            },
            nearness,
            holders: Vec::new(),
            basis,
        };
        Ok((directed, reservation))
    }

    /// Sends a client that changes a file to a node that has it.
    ///
    /// # Errors
    /// Those of [`Director::read`].
    pub async fn update(&self, path: &LogicalPath, client: Client<'_>) -> Result<Directed, Undirected> {
        let located = self.locate_all(path, client.refresh).await?;
        self.overwrite(&located, client)
    }

    fn overwrite(&self, located: &Located, client: Client<'_>) -> Result<Directed, Undirected> {
        let now_ms = self.now_ms();
        let basis = located.basis.clone();
        self.state().overwrite(&located.holders, basis, client, now_ms)
    }
}

/// Whether this client was sent there with the file, and comes back: it has failed there.
fn has_failed(coming: &Coming, client: Client<'_>, now_ms: u64) -> bool {
    coming.client.is_some()
        && coming.client == client.address
        && now_ms.saturating_sub(coming.since_ms) >= FAILED_TIME_MS
}

/// The draws for a new file: the same in all redirectors, so that two clients that store one name at
/// the same time through two of them are sent to one node, which lets one win.
fn draws_for(path: &LogicalPath) -> fastrand::Rng {
    fastrand::Rng::with_seed(SipHasher13::new().hash(path.as_str().as_bytes()))
}

/// A name that is about to be given by a rename.
pub(crate) struct Claim<'a> {
    director: &'a Director,
    path: &'a LogicalPath,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.director.state().claims.remove(self.path);
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

impl From<Unplaced> for Undirected {
    fn from(why: Unplaced) -> Self {
        match why {
            Unplaced::NotExported => Self::NotExported,
            Unplaced::Unavailable => Self::NoWriter,
            Unplaced::NoRoom {
                sum_bytes,
                largest_bytes,
            } => Self::NoRoom {
                sum_bytes,
                largest_bytes,
            },
        }
    }
}

mod survey;
#[cfg(test)]
mod tests;
