//! Events and the queues of those who hear of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use credentials::AddressRange;
use monitoring_wire::{FlowLabel, HttpCounts};

use crate::client::{Client, Spoken};
use crate::copied::Copied;
use crate::file_use::{FileUse, Heard, Opening, Used};
use crate::flow::{Connection, Flow, FlowFacts, Flowing, FurtherFlows, Marked, SharedMarking};
use crate::http_tally::{HttpEnding, HttpTally};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client opened a file.
    Opened(Arc<FileUse>),
    /// A file was closed.
    Closed(Arc<FileUse>),
    /// The connection of a client ended.
    Left(SocketAddr),
    /// A third-party copy ended.
    Copied(Arc<Copied>),
    /// A connection began to carry payload of a marked flow.
    FlowBegan(Arc<Flow>),
    /// It carries none any more.
    FlowEnded(Arc<Flow>),
}

impl Event {
    /// What it is about; `None`: any of them.
    fn subject(&self) -> Option<Hears> {
        match self {
            Self::Opened(_) | Self::Closed(_) | Self::Copied(_) => Some(Hears::Files),
            Self::FlowBegan(_) | Self::FlowEnded(_) => Some(Hears::Flows),
            Self::Left(_) => None,
        }
    }
}

/// Which events a sink hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hears {
    /// Those about files, clients and copies.
    Files,
    /// Those about marked flows.
    Flows,
}

/// A sink for events.
#[derive(Clone, Copy, Debug)]
pub struct Sink {
    /// Its name in metrics.
    pub name: &'static str,
    /// How many events wait for it at most.
    pub events_max: usize,
    /// Which events it gets.
    pub hears: Hears,
}

struct Outlet {
    sink: Sink,
    queue: SyncSender<Event>,
    dropped: Arc<AtomicU64>,
}

/// Where doors tell events. Clones are the same hub.
#[derive(Clone, Default)]
pub struct Hub(Option<Arc<Inner>>);

struct Inner {
    outlets: Vec<Outlet>,
    marking: SharedMarking,
    http: HttpTally,
    files: AtomicU64,
    flows: AtomicU64,
}

impl Inner {
    fn hears(&self, subject: Hears) -> bool {
        self.outlets.iter().any(|outlet| outlet.sink.hears == subject)
    }
}

/// The events of one sink.
#[derive(Debug)]
pub struct Queue {
    events: Receiver<Event>,
    dropped: Arc<AtomicU64>,
}

impl Hub {
    /// A hub with these sinks, and their queues in the same order. `marking` decides which flows
    /// are marked.
    #[must_use]
    pub fn new(sinks: &[Sink], marking: SharedMarking) -> (Self, Vec<Queue>) {
        let (mut outlets, mut queues) = (Vec::new(), Vec::new());
        for sink in sinks {
            let (queue, events) = sync_channel(sink.events_max);
            let dropped = Arc::new(AtomicU64::new(0));
            outlets.push(Outlet {
                sink: *sink,
                queue,
                dropped: dropped.clone(),
            });
            queues.push(Queue { events, dropped });
        }
        let inner = Inner {
            outlets,
            marking,
            http: HttpTally::default(),
            files: AtomicU64::new(0),
            flows: AtomicU64::new(0),
        };
        (Self(Some(Arc::new(inner))), queues)
    }

    /// Whether anything is heard.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// A client opens a file. `client` is asked only where it is watched.
    #[must_use]
    pub fn open(&self, client: impl FnOnce() -> Client, opening: &Opening<'_>) -> Used {
        let Some(inner) = &self.0 else { return Used::default() };
        let client = client();
        let facts = FlowFacts {
            tag: opening.tag,
            organisation: &client.organisation,
            path: opening.path,
        };
        let label = inner.marking.get().label(&facts);
        let is_flow = opening.carries && inner.hears(Hears::Flows);
        let (flow, further) = match (label.filter(|_| is_flow), client.local) {
            (Some(label), Some(local)) => {
                let own = connection_of(&client, local, opening);
                let further = || FurtherFlows::new(Marked::new(label, self.clone()), own);
                let has_further = client.spoken == Spoken::Xroot;
                (self.begin_flow(label, own), has_further.then(further))
            }
            _ => (Flowing::default(), None),
        };
        let file = inner.hears(Hears::Files).then(|| {
            let number = inner.files.fetch_add(1, Ordering::Relaxed);
            let file = Arc::new(FileUse::new(number, client, opening, label));
            self.tell(&Event::Opened(file.clone()));
            let hub = self.clone();
            Heard { file, hub }
        });
        Used::new(file, flow, further)
    }

    /// The mark of a copy's flows.
    #[must_use]
    pub fn mark(&self, facts: &FlowFacts<'_>) -> Marked {
        self.label(facts)
            .map(|label| Marked::new(label, self.clone()))
            .unwrap_or_default()
    }

    /// The networks to which packets have no label; `None`: no packet has one.
    pub(crate) fn networks_without_labels(&self) -> Option<Vec<AddressRange>> {
        let marking = self.0.as_ref()?.marking.get();
        marking.labels_packets.then(|| marking.excluded.clone())
    }

    fn label(&self, facts: &FlowFacts<'_>) -> Option<FlowLabel> {
        let inner = self.0.as_ref().filter(|inner| inner.hears(Hears::Flows))?;
        inner.marking.get().label(facts)
    }

    /// A connection begins to carry payload.
    pub(crate) fn begin_flow(&self, label: FlowLabel, connection: Connection) -> Flowing {
        let Some(inner) = self
            .0
            .as_ref()
            .filter(|inner| inner.marking.get().covers(connection.peer))
        else {
            return Flowing::default();
        };
        let number = inner.flows.fetch_add(1, Ordering::Relaxed);
        let flow = Arc::new(Flow::new(number, label, connection));
        self.tell(&Event::FlowBegan(flow.clone()));
        Flowing::new(flow, self.clone())
    }

    /// Tells the sinks that hear of such events. A queue that is full drops it.
    pub fn tell(&self, event: &Event) {
        let outlets = self.0.iter().flat_map(|inner| &inner.outlets);
        let subject = event.subject();
        for outlet in outlets.filter(|outlet| subject.is_none_or(|subject| outlet.sink.hears == subject)) {
            if outlet.queue.try_send(event.clone()).is_err() {
                outlet.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A request over HTTP has ended; `status` is `None` if none was sent.
    pub fn answered(&self, method: &str, status: Option<u32>, ending: HttpEnding, duration: Duration) {
        if let Some(inner) = &self.0 {
            inner.http.count(method, status, ending, duration);
        }
    }

    /// How requests over HTTP have ended until now.
    #[must_use]
    pub fn http_counts(&self) -> Vec<HttpCounts> {
        self.0.as_ref().map(|inner| inner.http.counts()).unwrap_or_default()
    }

    /// How many events each sink has not taken.
    #[must_use]
    pub fn dropped(&self) -> Vec<(&'static str, u64)> {
        let outlets = self.0.iter().flat_map(|inner| &inner.outlets);
        outlets
            .map(|outlet| (outlet.sink.name, outlet.dropped.load(Ordering::Relaxed)))
            .collect()
    }
}

fn connection_of(client: &Client, local: SocketAddr, opening: &Opening<'_>) -> Connection {
    let application = match (client.spoken, opening.is_written) {
        (Spoken::Xroot, _) => "xroot",
        (Spoken::Http, true) => "http-put",
        (Spoken::Http, false) => "http-get",
    };
    Connection {
        local,
        peer: client.peer,
        is_sent: !opening.is_written,
        application,
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Hub").field(&self.dropped()).finish()
    }
}

impl Queue {
    /// The next event; `None` when there is none for so long.
    ///
    /// # Errors
    /// The hub is gone: no event will come.
    pub fn next(&self, patience: Duration) -> Result<Option<Event>, Gone> {
        match self.events.recv_timeout(patience) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Gone),
        }
    }

    /// The next event, with those that come while the thread then pauses for `pause`; none when
    /// there is none for so long. Taking many at once spares their senders the work of waking this
    /// thread for each.
    ///
    /// # Errors
    /// The hub is gone: no event will come.
    pub fn gather(&self, patience: Duration, pause: Duration) -> Result<impl Iterator<Item = Event>, Gone> {
        let first = self.next(patience)?;
        let further = first.is_some().then(|| {
            std::thread::sleep(pause);
            self.events.try_iter()
        });
        Ok(first.into_iter().chain(further.into_iter().flatten()))
    }

    /// Events that it has not taken.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// No event will come any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;
