//! One manager: attempts to reach it, the sessions with it, and the pauses in between.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use endpoint::NameChanges;
use net::address::AddressPolicy;
use net::dial::dial;
use tokio::net::TcpStream;
use tokio::sync::watch;
use types::Side;

use super::address::ManagerAddress;
use super::leaf::{Settings, Standing};
use super::limits::{ANSWER_TIME, CONNECT_TIME, HOPS_MAX, REFUSED_PAUSE, STEADY_TIME};
use super::pauses::{Pauses, spread};
use super::server::{Event, Fault, Server};
use super::session::{self, Ended};

/// Where the session with a manager is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// An attempt is being made.
    #[default]
    Connecting,
    /// The manager knows us.
    Open,
    /// Until the next attempt.
    Pausing,
    /// No more attempts.
    Stopped,
}

/// The session with a manager, for monitoring. Counters begin with the process, or with changed
/// settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// The configured manager.
    pub manager: ManagerAddress,
    /// Where the session is.
    pub state: LinkState,
    /// Why the last session ended, or did not begin.
    pub fault: Option<Fault>,
    /// Sessions that began.
    pub sessions: u64,
    /// Files that the manager asked for.
    pub questions: u64,
    /// Those that are here.
    pub found: u64,
    /// Those that could not be looked up in time.
    pub late: u64,
    /// New files that were announced to the manager.
    pub told: u64,
    /// Removed files that were announced to it.
    pub removed: u64,
    /// How often the manager had to forget all our files, because too many changed at once.
    pub resets: u64,
}

/// A view that its session changes.
#[derive(Clone, Debug)]
pub(super) struct SharedView(Arc<Mutex<LinkView>>);

impl SharedView {
    pub(super) fn new(manager: ManagerAddress) -> Self {
        Self(Arc::new(Mutex::new(LinkView {
            manager,
            state: LinkState::default(),
            fault: None,
            sessions: 0,
            questions: 0,
            found: 0,
            late: 0,
            told: 0,
            removed: 0,
            resets: 0,
        })))
    }

    pub(super) fn get(&self) -> LinkView {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut LinkView)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// What the task of one manager has.
pub(super) struct Link<S> {
    pub(super) manager: ManagerAddress,
    pub(super) settings: Arc<Settings>,
    pub(super) server: Arc<S>,
    pub(super) names: NameChanges,
    pub(super) standing: watch::Receiver<Standing>,
    pub(super) view: SharedView,
}

/// Which manager is tried next.
struct Route {
    root: ManagerAddress,
    others: VecDeque<ManagerAddress>,
    hops: usize,
}

impl Route {
    fn new(root: ManagerAddress) -> Self {
        Self {
            root,
            others: VecDeque::new(),
            hops: 0,
        }
    }

    fn next(&mut self) -> ManagerAddress {
        self.others.pop_front().unwrap_or_else(|| self.root.clone())
    }

    /// Follows a manager's advice; `false` if there is none, or there was too much of it.
    fn follow(&mut self, others: Vec<ManagerAddress>) -> bool {
        self.hops += 1;
        let follows = self.hops <= HOPS_MAX && !others.is_empty();
        self.others = if follows { others.into() } else { VecDeque::new() };
        follows
    }

    /// A manager let us in, so the advice that led to it is used up.
    fn arrived(&mut self) {
        self.others.clear();
    }

    /// A manager let us in and kept us.
    fn accepted(&mut self) {
        self.others.clear();
        self.hops = 0;
    }
}

/// What follows an attempt.
enum Next {
    Stop,
    AtOnce,
    UsualPause,
    LongPause,
}

/// Keeps up a session with a manager until the leaf stops.
pub(super) async fn keep<S: Server>(mut link: Link<S>) {
    let mut route = Route::new(link.manager.clone());
    let mut pauses = Pauses::default();
    while *link.standing.borrow() != Standing::Stopping {
        link.view.change(|view| view.state = LinkState::Connecting);
        let target = route.next();
        let ended = attempt(&link, &target).await;
        if let Some(lasted) = ended.lasted() {
            route.arrived();
            if lasted >= STEADY_TIME {
                route.accepted();
                pauses.reset();
            }
        }
        let pause = match link.next(ended, &mut route) {
            Next::Stop => break,
            Next::AtOnce => continue,
            Next::UsualPause => pauses.next(fastrand::f64()),
            Next::LongPause => spread(REFUSED_PAUSE, fastrand::f64()),
        };
        link.view.change(|view| view.state = LinkState::Pausing);
        if is_stopped_within(&mut link.standing, pause).await {
            break;
        }
    }
    link.view.change(|view| view.state = LinkState::Stopped);
}

impl<S: Server> Link<S> {
    fn next(&self, ended: Ended, route: &mut Route) -> Next {
        match ended {
            Ended::Stopped => Next::Stop,
            Ended::Sent { others, .. } => {
                let first = others.first().cloned();
                match (route.follow(others), first) {
                    (true, Some(to)) => {
                        self.server.note(&self.manager, &Event::Sent { to });
                        Next::AtOnce
                    }
                    _ => {
                        route.accepted();
                        self.lost(Fault::TooManyHops);
                        Next::UsualPause
                    }
                }
            }
            Ended::Lost { fault, is_lasting, .. } => {
                self.lost(fault);
                match (route.others.is_empty(), is_lasting) {
                    (false, _) => Next::AtOnce,
                    (true, true) => Next::LongPause,
                    (true, false) => Next::UsualPause,
                }
            }
        }
    }

    fn lost(&self, fault: Fault) {
        self.view.change(|view| view.fault = Some(fault.clone()));
        self.server.note(&self.manager, &Event::Lost(fault));
    }
}

async fn attempt<S: Server>(link: &Link<S>, target: &ManagerAddress) -> Ended {
    // Changes from now on are announced; the manager asks for what was there before.
    let names = link.names.subscribe();
    let vitals = tokio::time::timeout(ANSWER_TIME, link.server.vitals());
    let mut standing = link.standing.clone();
    let dialled = async {
        let vitals = vitals.await.unwrap_or_default();
        (connect(target).await, vitals)
    };
    let (connection, vitals) = tokio::select! {
        outcome = dialled => outcome,
        _ = standing.wait_for(|standing| *standing == Standing::Stopping) => return Ended::Stopped,
    };
    match connection {
        Ok(stream) => session::run(stream, link, target, names, &vitals).await,
        Err(words) => Ended::failed(Fault::Unreachable(words)),
    }
}

async fn connect(target: &ManagerAddress) -> Result<TcpStream, String> {
    // The configuration names managers, and they name each other: their addresses are not judged.
    let stream = dial(
        &target.host,
        target.port,
        AddressPolicy::ANY,
        CONNECT_TIME,
        Side::Source,
    )
    .await;
    let stream = stream.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Waits; returns early, and true, if the leaf stops.
async fn is_stopped_within(standing: &mut watch::Receiver<Standing>, pause: Duration) -> bool {
    let stopping = standing.wait_for(|standing| *standing == Standing::Stopping);
    tokio::time::timeout(pause, stopping).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(text: &str) -> ManagerAddress {
        ManagerAddress::parse(text, None).expect("an address")
    }

    #[test]
    fn advice_is_followed_and_the_configured_manager_is_not_forgotten() {
        let mut route = Route::new(manager("root:1"));
        assert_eq!(route.next(), manager("root:1"));
        assert!(route.follow(vec![manager("a:1"), manager("b:1")]));
        assert_eq!(route.next(), manager("a:1"));
        assert_eq!(route.next(), manager("b:1"));
        assert_eq!(route.next(), manager("root:1"));
        assert!(!route.follow(Vec::new()));
    }

    #[test]
    fn managers_that_send_each_other_are_left_alone_after_some_hops() {
        let mut route = Route::new(manager("root:1"));
        for _ in 0..HOPS_MAX {
            assert!(route.follow(vec![manager("a:1")]));
            route.next();
        }
        assert!(!route.follow(vec![manager("a:1")]));
        assert_eq!(route.next(), manager("root:1"));
        route.accepted();
        assert!(route.follow(vec![manager("a:1")]));
    }
}
