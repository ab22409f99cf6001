//! The packets of the monitoring for a broker: kept on disk until it has confirmed them.
//!
//! The thread of the monitoring writes each packet to the spool and goes on. A task sends what is
//! there, in batches, and waits until the broker has confirmed each message: a packet arrives at
//! least once, also after the broker was away or this process was killed. What it confirms of a
//! batch counts at once.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use broker::limits::{PAUSE_MAX, PAUSE_MIN};
use broker::{Broker, BrokerLogin, Message, Session};
use config::Configuration;
use door_admin::Check;
use monitoring_wire::shoveled;
use net::tls::{ClientIdentity, ClientTls};
use serde_json::json;
use telemetry::{Spool, Spooled};
use tokio::sync::Notify;
use types::{Error, ErrorCode, Phase, Side};

use super::assemble::PRODUCT;
use super::broker_login;
use super::log::Log;
use crate::failure::Failure;
use crate::limits::SPOOL_SYNC_INTERVAL;

/// A broker, and the packets that wait for it.
pub(super) struct BrokerSink {
    broker: Broker,
    destination: String,
    login: Option<BrokerLogin>,
    identity: Option<ClientIdentity>,
    /// The port where clients reach this server: the one of its name in messages.
    port: u16,
    limit_bytes: u64,
    spool: Mutex<Spool>,
    /// What the spool says, for those who must not wait for its disk.
    waiting_bytes: AtomicU64,
    lost: AtomicU64,
    stored: Notify,
    sent: AtomicU64,
    is_up: AtomicBool,
    faults: Mutex<Faults>,
    log: Log,
}

/// Why nothing can be sent or kept now.
#[derive(Debug, Default)]
struct Faults {
    broker: Option<String>,
    spool: Option<String>,
}

/// What metrics say of it.
#[derive(Clone, Debug)]
pub(super) struct BrokerFigures {
    pub(super) destination: String,
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) waiting_bytes: u64,
    pub(super) limit_bytes: u64,
    pub(super) is_up: bool,
}

impl fmt::Debug for BrokerSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BrokerSink({})", self.broker.url())
    }
}

impl BrokerSink {
    /// Opens the spool and reads the credentials; `None` without a broker.
    ///
    /// # Errors
    /// A directory or file that cannot be used.
    pub(super) fn open(configuration: &Configuration, port: u16, log: &Log) -> Result<Option<Arc<Self>>, Failure> {
        let wanted = &configuration.monitoring;
        let (Some(url), Some(directory)) = (&wanted.broker, &wanted.spool) else {
            return Ok(None);
        };
        let limit_bytes = wanted.spool_bytes.0;
        let spool = Spool::open(directory, limit_bytes).map_err(|cause| {
            let what = format!("[monitoring] spool: cannot use {}", directory.display());
            Failure::system(what, &cause)
        })?;
        let broker = Broker::parse(url);
        let broker = broker.ok_or_else(|| Failure::invalid(format!("[monitoring] broker: \"{url}\" is no broker")))?;
        let login = login(configuration)?;
        broker_login::log_clear_text(log, &broker, login.as_ref());
        Ok(Some(Arc::new(Self {
            broker,
            destination: wanted.broker_destination.clone(),
            login,
            identity: identity(configuration)?,
            port,
            limit_bytes,
            waiting_bytes: AtomicU64::new(spool.waiting_bytes()),
            lost: AtomicU64::new(spool.lost()),
            spool: Mutex::new(spool),
            stored: Notify::new(),
            sent: AtomicU64::new(0),
            is_up: AtomicBool::new(false),
            faults: Mutex::default(),
            log: log.clone(),
        })))
    }

    /// What is counted.
    pub(super) fn figures(&self) -> BrokerFigures {
        BrokerFigures {
            destination: self.broker.url().to_owned(),
            sent: self.sent.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            waiting_bytes: self.waiting_bytes(),
            limit_bytes: self.limit_bytes,
            is_up: self.is_up.load(Ordering::Relaxed),
        }
    }

    /// Whether packets are kept and sent. A server works without those who watch it.
    pub(super) fn check(&self) -> Check {
        let waiting_bytes = self.waiting_bytes();
        let faults = self.faults();
        let says = match (&faults.spool, &faults.broker) {
            (Some(cause), _) => format!("The spool fails, so that packets may be lost: {cause}."),
            (None, Some(cause)) => {
                format!("Nothing can be sent to it; {waiting_bytes} bytes wait on disk: {cause}")
            }
            (None, None) => format!("It confirms what is sent; {waiting_bytes} bytes wait on disk."),
        };
        Check {
            name: format!("monitoring {}", self.broker.url()),
            ok: faults.spool.is_none() && faults.broker.is_none(),
            needed: false,
            says,
        }
    }

    /// Whether packets wait for a broker that takes them.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_up.load(Ordering::Relaxed) && self.waiting_bytes() > 0
    }

    fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Uses the spool. It may wait for the disk.
    fn with_spool<T>(&self, act: impl FnOnce(&mut Spool) -> T) -> T {
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut spool);
        self.waiting_bytes.store(spool.waiting_bytes(), Ordering::Relaxed);
        self.lost.store(spool.lost(), Ordering::Relaxed);
        let damage = spool.take_damage();
        drop(spool);
        if let Some(damage) = damage {
            self.log_spool(&damage);
        }
        result
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes how an operation on the spool went; a fault is logged when it is new.
    fn spool_went(&self, result: std::io::Result<()>) {
        let cause = result.err().map(|cause| cause.to_string());
        let known = std::mem::replace(&mut self.faults().spool, cause.clone());
        if let (Some(cause), None) = (cause, known) {
            self.log_spool(&cause);
        }
    }

    fn log_spool(&self, cause: &str) {
        let fields = json!({"destination": self.broker.url(), "cause": format!("the spool: {cause}")});
        self.log.write("monitoring_failed", &fields);
    }

    /// Sends what waits and what comes, for ever. `tls` is whom we trust.
    pub(super) async fn run(self: Arc<Self>, tls: ClientTls) {
        let tls = tls.showing(self.identity.as_ref());
        let mut pause = PAUSE_MIN;
        loop {
            let mut has_sent = false;
            let Err(error) = self.session(&tls, &mut has_sent).await;
            if has_sent {
                pause = PAUSE_MIN;
            }
            self.failed(&error, pause);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// One session with the broker, until it fails.
    async fn session(self: &Arc<Self>, tls: &ClientTls, has_sent: &mut bool) -> Result<Infallible, Error> {
        let mut session = Session::open(&self.broker, self.login.as_ref(), tls).await?;
        let here = session.local_address();
        let here = here.ok_or_else(|| trouble("the connection has no local address"))?;
        let sender = SocketAddr::new(here.ip(), self.port);
        let mut is_unreadable = false;
        loop {
            is_unreadable = loop {
                let oldest = self.oldest().await?;
                if is_unreadable && oldest.is_ok() {
                    self.spool_went(Ok(()));
                }
                match oldest {
                    Ok(Some(spooled)) => self.deliver(&mut session, sender, spooled, has_sent).await?,
                    Ok(None) => break false,
                    // This is no fault of the broker.
                    Err(cause) => {
                        self.spool_went(Err(cause));
                        break true;
                    }
                }
            };
            // One that takes logins and confirms nothing does not come so far.
            self.works();
            tokio::select! {
                () = self.stored.notified(), if !is_unreadable => {}
                () = tokio::time::sleep(PAUSE_MIN), if is_unreadable => {}
                ended = session.idle() => {
                    ended?;
                    session.flush().await?;
                }
            }
        }
    }

    /// Sends packets, and takes note of each that the broker confirms: if it leaves in between,
    /// only the others are sent again.
    async fn deliver(
        self: &Arc<Self>,
        session: &mut Session,
        sender: SocketAddr,
        spooled: Spooled,
        has_sent: &mut bool,
    ) -> Result<(), Error> {
        let packets = spooled.packets.iter();
        let bodies: Vec<String> = packets.map(|packet| shoveled(packet, sender, PRODUCT)).collect();
        let messages = bodies.iter().map(|body| Message {
            destination: &self.destination,
            body,
            is_persistent: true,
            headers: &[],
        });
        let messages: Vec<_> = messages.collect();
        let (spooled, mut count) = (Arc::new(spooled), 0);
        while count < messages.len() {
            let mut sent = session.send(&messages[count..]).await;
            while !sent.is_empty() {
                let more = session.confirmed(&mut sent).await?;
                count += more;
                *has_sent = true;
                self.confirmed(spooled.clone(), count, more).await?;
                self.works();
            }
        }
        Ok(())
    }

    async fn oldest(self: &Arc<Self>) -> Result<std::io::Result<Option<Spooled>>, Error> {
        let this = self.clone();
        execution::blocking_try(
            Side::Active,
            Phase::Transfer,
            move || Ok(this.with_spool(Spool::oldest)),
        )
        .await
    }

    /// The broker has confirmed the first `count` packets, and `more` of them only now.
    async fn confirmed(self: &Arc<Self>, spooled: Arc<Spooled>, count: usize, more: usize) -> Result<(), Error> {
        let this = self.clone();
        execution::blocking_try(Side::Active, Phase::Transfer, move || {
            this.sent.fetch_add(more as u64, Ordering::Relaxed);
            if let Err(cause) = this.with_spool(|spool| spool.confirm(&spooled, count)) {
                this.spool_went(Err(cause));
            }
            Ok(())
        })
        .await
    }

    /// The broker takes what is sent.
    fn works(&self) {
        if !self.is_up.swap(true, Ordering::Relaxed) {
            self.faults().broker = None;
            self.log
                .write("broker_connected", &json!({"broker": self.broker.url()}));
        }
    }

    fn failed(&self, error: &Error, pause: Duration) {
        self.is_up.store(false, Ordering::Relaxed);
        let words = error.public();
        let fields = json!({"broker": self.broker.url(), "error": words, "next_attempt_s": pause.as_secs()});
        self.log.write("broker_failed", &fields);
        self.faults().broker = Some(words);
    }
}

/// What the thread of the monitoring writes to.
pub(super) struct SpoolWriter {
    sink: Arc<BrokerSink>,
    synced: Instant,
}

impl SpoolWriter {
    pub(super) fn new(sink: Arc<BrokerSink>) -> Self {
        Self {
            sink,
            synced: Instant::now(),
        }
    }

    /// Keeps packets until they are sent.
    pub(super) fn store<'a>(&self, packets: impl Iterator<Item = &'a [u8]>) {
        let mut is_empty = true;
        for packet in packets {
            let appended = self.sink.with_spool(|spool| spool.append(packet));
            self.sink.spool_went(appended);
            is_empty = false;
        }
        if !is_empty {
            self.sink.stored.notify_one();
        }
    }

    /// Makes what was kept outlive the machine, not too often.
    pub(super) fn sync(&mut self) {
        if self.synced.elapsed() >= SPOOL_SYNC_INTERVAL {
            self.synced = Instant::now();
            if let Err(cause) = self.sink.with_spool(Spool::sync) {
                self.sink.spool_went(Err(cause));
            }
        }
    }
}

fn trouble(words: &str) -> Error {
    Error::new(ErrorCode::StorageFailed, Side::Active, Phase::Transfer).with_detail(words)
}

fn login(configuration: &Configuration) -> Result<Option<BrokerLogin>, Failure> {
    broker_login::login(configuration.monitoring.broker_password_file.as_deref())
}

fn identity(configuration: &Configuration) -> Result<Option<ClientIdentity>, Failure> {
    let wanted = &configuration.monitoring;
    broker_login::identity(wanted.broker_certificate.as_deref(), wanted.broker_key.as_deref())
}

/// What is wrong with the files of credentials, by their keys.
pub(crate) fn file_faults(configuration: &Configuration) -> Vec<(&'static str, Failure)> {
    let faults = [
        ("broker_password_file", login(configuration).err()),
        ("broker_certificate", identity(configuration).err()),
    ];
    let found = faults.into_iter().filter_map(|(key, fault)| Some((key, fault?)));
    found.collect()
}
