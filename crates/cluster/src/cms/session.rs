//! One session with a manager: it answers the manager's messages as they come, and announces what
//! changes here.
//!
//! Futures of this task ([`Session::lookups`]) wait for disks, a bounded number at a time, so that
//! a slow disk delays neither a pong nor the next question. Changed names are looked at one after
//! the other: the manager's last news of a name is what was seen last.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until, timeout};
use types::LogicalPath;
use xroot_wire::cms::{
    Decoded, Duty, ExportedPath, Frame, Load, Login, LoginFault, LoginMode, Message, Presence, Session as Exchange,
    StatusFlags, decode, path_lines,
};

use super::address::ManagerAddress;
use super::leaf::{Settings, Standing};
use super::limits::{ANSWER_TIME, BUFFER_BYTES, LOGIN_TIME, QUESTIONS_MAX, REPORT_INTERVAL, SEND_TIME, SILENCE};
use super::link::{Link, LinkState};
use super::report::Vitals;
use super::server::{Event, Fault, Server};

/// How a session ended. `lasted` is the time since the manager accepted it, if it did.
pub(super) enum Ended {
    /// The leaf stops.
    Stopped,
    /// The manager sent us to others.
    Sent {
        others: Vec<ManagerAddress>,
        lasted: Option<Duration>,
    },
    /// Anything else.
    Lost {
        fault: Fault,
        /// Whether an attempt soon after is useless.
        is_lasting: bool,
        lasted: Option<Duration>,
    },
}

impl Ended {
    pub(super) fn failed(fault: Fault) -> Self {
        let is_lasting = matches!(fault, Fault::AuthenticationRequired | Fault::Unfit(_));
        Self::Lost {
            fault,
            is_lasting,
            lasted: None,
        }
    }

    pub(super) fn lasted(&self) -> Option<Duration> {
        match self {
            Self::Stopped => None,
            Self::Sent { lasted, .. } | Self::Lost { lasted, .. } => *lasted,
        }
    }

    fn after(self, time: Option<Duration>) -> Self {
        match self {
            Self::Stopped => Self::Stopped,
            Self::Sent { others, .. } => Self::Sent { others, lasted: time },
            Self::Lost { fault, is_lasting, .. } => Self::Lost {
                fault,
                is_lasting,
                lasted: time,
            },
        }
    }
}

impl From<Fault> for Ended {
    fn from(fault: Fault) -> Self {
        Self::failed(fault)
    }
}

/// What was seen on disk; `None` if that took too long.
enum Seen {
    /// For a question of the manager.
    Asked {
        stream: u32,
        path: Vec<u8>,
        presence: Option<Option<Presence>>,
    },
    /// After a change here.
    Changed {
        path: LogicalPath,
        presence: Option<Option<Presence>>,
    },
    /// Load and space, asked for in this way.
    Vitals(Option<Vitals>, Report),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Report {
    /// The manager wants the load.
    Load,
    /// The manager wants the space.
    Space,
    /// Unasked, if it is new.
    Regular,
}

type Lookup = Pin<Box<dyn Future<Output = Seen> + Send>>;

struct Session<'a, S> {
    link: &'a Link<S>,
    target: &'a ManagerAddress,
    stream: TcpStream,
    exchange: Exchange,
    lookups: FuturesUnordered<Lookup>,
    /// Whether a changed name is being looked at.
    is_telling: bool,
    began: Option<Instant>,
    reported: Option<Load>,
    has_refused_change: bool,
}

/// Logs in and answers until the session ends.
pub(super) async fn run<S: Server>(
    stream: TcpStream,
    link: &Link<S>,
    target: &ManagerAddress,
    names: broadcast::Receiver<LogicalPath>,
    vitals: &Vitals,
) -> Ended {
    let mut session = Session {
        link,
        target,
        stream,
        exchange: Exchange::LoggingIn,
        lookups: FuturesUnordered::new(),
        is_telling: false,
        began: None,
        reported: None,
        has_refused_change: false,
    };
    let Err(ended) = session.converse(names, vitals).await;
    if matches!(ended, Ended::Stopped) {
        session.part().await;
    }
    ended.after(session.began.map(|began| began.elapsed()))
}

/// The session goes on, or it has ended.
type Step<T = ()> = Result<T, Ended>;

impl<S: Server> Session<'_, S> {
    async fn converse(&mut self, mut names: broadcast::Receiver<LogicalPath>, vitals: &Vitals) -> Step<Infallible> {
        let mut standing = self.link.standing.clone();
        let mut known = *standing.borrow_and_update();
        let login = login(&self.link.settings, vitals, known).map_err(Fault::Unfit)?;
        self.send(&login).await?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        let mut deadline = Instant::now() + LOGIN_TIME;
        let mut reports = reports();
        loop {
            let used = self.answer_all(&buffer).await?;
            buffer.drain(..used);
            let (is_open, has_room) = (self.began.is_some(), self.lookups.len() < QUESTIONS_MAX);
            tokio::select! {
                received = self.stream.read_buf(&mut buffer), if has_room => {
                    if received.map_err(|_| Fault::Closed)? == 0 {
                        return Err(Fault::Closed.into());
                    }
                    deadline = Instant::now() + if self.began.is_some() { SILENCE } else { LOGIN_TIME };
                }
                Some(seen) = self.lookups.next() => self.tell(seen).await?,
                name = names.recv(), if is_open && has_room && !self.is_telling => self.look_at_change(name).await?,
                _ = reports.tick(), if is_open && has_room => self.look_at_vitals(Report::Regular),
                changed = standing.changed() => {
                    let now = *standing.borrow_and_update();
                    if changed.is_err() || now == Standing::Stopping {
                        return Err(Ended::Stopped);
                    }
                    if is_open && now != known {
                        self.send_status(now).await?;
                    }
                    known = now;
                }
                () = sleep_until(deadline) => return Err(Fault::TimedOut.into()),
            }
        }
    }

    /// Handles the messages in the buffer as long as there is room for questions; returns how many
    /// bytes they took.
    async fn answer_all(&mut self, buffer: &[u8]) -> Step<usize> {
        let mut used = 0;
        while self.lookups.len() < QUESTIONS_MAX {
            let Decoded::Frame(frame, length) = decode(&buffer[used..]) else {
                break;
            };
            used += length;
            self.answer(&frame).await?;
        }
        Ok(used)
    }

    async fn answer(&mut self, frame: &Frame<'_>) -> Step {
        let duty = match self.exchange.take(frame) {
            Ok(duty) => duty,
            // What an open session does not understand is passed over: its length is known.
            Err(_) if self.exchange == Exchange::Open => return Ok(()),
            Err(malformed) => return Err(Fault::Malformed(malformed.0).into()),
        };
        match duty {
            Duty::Begin(manager) => self.begin(&manager).await,
            Duty::Answer(message) => self.send_message(message).await,
            Duty::ReportLoad => {
                self.look_at_vitals(Report::Load);
                Ok(())
            }
            Duty::ReportSpace => {
                self.look_at_vitals(Report::Space);
                Ok(())
            }
            Duty::ReportStatus => {
                let standing = *self.link.standing.borrow();
                self.send_status(standing).await
            }
            Duty::Look { stream, path } => {
                self.look_for(stream, path);
                Ok(())
            }
            Duty::Refuse(change) => {
                if !std::mem::replace(&mut self.has_refused_change, true) {
                    let client = String::from_utf8_lossy(change.client).into_owned();
                    self.note(&Event::ChangeRefused { client });
                }
                Ok(())
            }
            Duty::Ignore => Ok(()),
            Duty::GoTo(others) => {
                let hosts = others.hosts().filter_map(|host| std::str::from_utf8(host).ok());
                let port = Some(self.target.port);
                let others = hosts.filter_map(|host| ManagerAddress::parse(host, port)).collect();
                Err(Ended::Sent { others, lasted: None })
            }
            Duty::Leave => Err(Fault::Closed.into()),
            Duty::Refused(refusal) => Err(Ended::Lost {
                fault: Fault::Refused(String::from_utf8_lossy(refusal.text).into_owned()),
                is_lasting: refusal.is_lasting,
                lasted: None,
            }),
            Duty::AuthenticationRequired => Err(Fault::AuthenticationRequired.into()),
        }
    }

    async fn begin(&mut self, manager: &Login<'_>) -> Step {
        self.began = Some(Instant::now());
        self.link.view.change(|view| {
            view.state = LinkState::Open;
            view.fault = None;
            view.sessions += 1;
        });
        let standing = *self.link.standing.borrow();
        self.send_status(standing).await?;
        let system_id = String::from_utf8_lossy(manager.system_id).into_owned();
        self.note(&Event::LoggedIn { system_id });
        Ok(())
    }

    fn look_for(&mut self, stream: u32, path: &[u8]) {
        self.link.view.change(|view| view.questions += 1);
        let text = std::str::from_utf8(path).ok();
        // A name that cannot exist here is absent.
        let Some(name) = text.and_then(|text| LogicalPath::parse(text).ok()) else {
            return;
        };
        let (server, path) = (self.link.server.clone(), path.to_vec());
        self.lookups.push(Box::pin(async move {
            let presence = timeout(ANSWER_TIME, server.has(&name)).await.ok();
            Seen::Asked { stream, path, presence }
        }));
    }

    fn look_at_vitals(&mut self, report: Report) {
        let server = self.link.server.clone();
        self.lookups.push(Box::pin(async move {
            let vitals = timeout(ANSWER_TIME, server.vitals()).await.ok();
            Seen::Vitals(vitals, report)
        }));
    }

    async fn look_at_change(&mut self, name: Result<LogicalPath, RecvError>) -> Step {
        let path = match name {
            Ok(path) => path,
            Err(RecvError::Lagged(_)) => {
                self.link.view.change(|view| view.resets += 1);
                let (flags, port) = (StatusFlags::RESET, 0);
                return self.send_message(Message::Status { flags, port }).await;
            }
            // The exports are gone: the server ends.
            Err(RecvError::Closed) => return Err(Ended::Stopped),
        };
        let exports = &self.link.settings.exports;
        if !exports.iter().any(|export| path.is_within(&export.path)) {
            return Ok(());
        }
        self.is_telling = true;
        let server: Arc<S> = self.link.server.clone();
        self.lookups.push(Box::pin(async move {
            let presence = timeout(ANSWER_TIME, server.has(&path)).await.ok();
            Seen::Changed { path, presence }
        }));
        Ok(())
    }

    /// Tells the manager what was seen.
    async fn tell(&mut self, seen: Seen) -> Step {
        match seen {
            Seen::Asked { stream, path, presence } => {
                self.link.view.change(|view| match presence {
                    Some(Some(_)) => view.found += 1,
                    Some(None) => {}
                    None => view.late += 1,
                });
                let Some(Some(presence)) = presence else {
                    return Ok(());
                };
                let path = &path[..];
                self.send_message(Message::Have { stream, presence, path }).await
            }
            Seen::Changed { path, presence } => {
                self.is_telling = false;
                let path = path.as_str().as_bytes();
                match presence {
                    Some(Some(presence)) => {
                        self.link.view.change(|view| view.told += 1);
                        let stream = 0;
                        self.send_message(Message::Have { stream, presence, path }).await
                    }
                    Some(None) => {
                        self.link.view.change(|view| view.removed += 1);
                        self.send_message(Message::Gone(path)).await
                    }
                    None => Ok(()),
                }
            }
            Seen::Vitals(None, _) => Ok(()),
            Seen::Vitals(Some(vitals), Report::Space) => self.send_message(Message::Available(vitals.space())).await,
            Seen::Vitals(Some(vitals), report) => {
                let load = vitals.load();
                if report == Report::Regular && self.reported == Some(load) {
                    return Ok(());
                }
                self.reported = Some(load);
                self.send_message(Message::Load(load)).await
            }
        }
    }

    async fn send_status(&mut self, standing: Standing) -> Step {
        let (flags, port) = match standing {
            Standing::Serving => {
                let port = self.link.settings.data_port;
                (StatusFlags::RESUME | StatusFlags::NO_STAGING, port.into())
            }
            Standing::Suspended | Standing::Stopping => (StatusFlags::SUSPEND, 0),
        };
        self.send_message(Message::Status { flags, port }).await
    }

    /// Sends a message; one that cannot be expressed, such as a path that is too long, is left out.
    async fn send_message(&mut self, message: Message<'_>) -> Step {
        let mut out = Vec::new();
        match message.encode(&mut out) {
            true => self.send(&out).await,
            false => Ok(()),
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> Step {
        match timeout(SEND_TIME, self.stream.write_all(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Fault::Closed.into()),
            Err(_) => Err(Fault::TimedOut.into()),
        }
    }

    /// Takes leave, so that the manager need not find out by itself.
    async fn part(&mut self) {
        if self.began.is_some() && self.send_status(Standing::Stopping).await.is_ok() {
            let _ = self.send_message(Message::Disconnect).await;
        }
    }

    fn note(&self, event: &Event) {
        self.link.server.note(&self.link.manager, event);
    }
}

fn reports() -> Interval {
    let mut reports = interval_at(Instant::now() + REPORT_INTERVAL, REPORT_INTERVAL);
    reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
    reports
}

/// The first message of a session.
fn login(settings: &Settings, vitals: &Vitals, standing: Standing) -> Result<Vec<u8>, LoginFault> {
    let exports: Vec<ExportedPath<'_>> = settings
        .exports
        .iter()
        .map(|export| ExportedPath {
            path: export.path.as_str().as_bytes(),
            is_writable: export.is_writable,
        })
        .collect();
    let paths = path_lines(&exports)?;
    let (port, host) = (settings.data_port, &settings.host);
    // A manager knows a server again by this. Its second part names the cluster, in the form that
    // XRootD's servers give it.
    let cluster = settings.managers.first();
    let cluster = cluster.map_or(String::new(), |manager| format!("{}{}", manager.port, manager.host));
    let system_id = format!("s-crossload.{port}@{host} {cluster}");
    let environment = format!("myHN={host}");
    let mode = match standing {
        Standing::Serving => LoginMode::NO_STAGING,
        Standing::Suspended | Standing::Stopping => LoginMode::NO_STAGING | LoginMode::SUSPENDED,
    };
    let minimum = Vitals {
        free_bytes: settings.minimum_free_bytes,
        ..Vitals::default()
    };
    let login = Login {
        hold_time: std::process::id(),
        total_mib: vitals.total_mib(),
        free_mib: vitals.free_mib(),
        minimum_free_mib: minimum.free_mib(),
        file_systems: 1,
        used_percent: vitals.used_percent().into(),
        data_port: port,
        system_id: system_id.as_bytes(),
        paths: &paths,
        environment: environment.as_bytes(),
        ..Login::of_server(mode)
    };
    let mut out = Vec::new();
    login.encode(&mut out)?;
    Ok(out)
}
