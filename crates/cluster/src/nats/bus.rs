//! The connection to the bus: how to reach it, who we are there, and how it is doing.
//!
//! The client connects again by itself, for ever, with growing pauses. Files of certificates are
//! read again for each connection.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, ServerAddr, ServerError, Subscriber};
use futures_util::FutureExt as _;
use tokio::time::timeout;
use types::Secret;

use super::limits::{
    CONNECT_TIME_MS, PING_INTERVAL_MS, RECONNECT_PAUSE_MAX_MS, RECONNECT_PAUSE_MIN_MS, SEND_TIME_MS, SERVERS_MAX,
    WAITING_MAX,
};
use super::message::shortened;

/// Longest text of a fault that is kept, in bytes.
const FAULT_BYTES_MAX: usize = 300;
/// Messages that wait to be sent; further senders wait too.
const UNSENT_MAX: usize = 4_096;

/// Who we are on the bus.
#[derive(Clone, Debug, Default)]
pub enum Identity {
    /// The server asks for nothing, or the certificate says who we are.
    #[default]
    Anonymous,
    /// A user with a password. Without TLS it can be read on the way.
    User {
        /// The name.
        name: String,
        /// The password.
        password: Secret,
    },
    /// The seed of an nkey.
    Nkey(Secret),
    /// The text of a file of credentials: a JWT, and the seed of its key.
    Credentials(Secret),
}

/// The certificate that we show, in PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate with its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// How to reach the bus.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Its servers, as `nats://host:port` or `tls://host:port`; at most [`SERVERS_MAX`] are used.
    pub servers: Vec<String>,
    /// Who we are.
    pub identity: Identity,
    /// PEM files with the authorities that are believed; without any, those of the system.
    pub authorities: Vec<PathBuf>,
    /// The certificate that we show.
    pub certificate: Option<ClientCertificate>,
    /// Whether a connection without TLS is refused.
    pub requires_tls: bool,
}

/// Why the bus cannot be used at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessFault {
    /// No server is named.
    NoServer,
    /// It is not the address of a server.
    Server(String),
    /// Credentials or keys cannot be read, in words.
    Credentials(String),
}

/// What happens to the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// There is one.
    Connected,
    /// It was lost.
    Lost,
    /// An attempt to connect failed, for another reason than the one before.
    Unreachable(String),
    /// The server refuses us, or one of our subjects: its permissions are wrong.
    Refused(String),
    /// Messages came faster than they were read, and some were lost.
    Slow,
}

/// The connection, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusView {
    /// Whether there is a connection.
    pub is_connected: bool,
    /// Connections that were made.
    pub connections: u64,
    /// The last fault of the connection since it was made, or why there is none.
    pub fault: Option<String>,
    /// Times that the server refused something.
    pub refusals: u64,
    /// Times that messages were lost because they came too fast.
    pub slow: u64,
}

/// The connection. Clones are the same one.
#[derive(Clone)]
pub(super) struct Bus {
    client: Client,
    view: SharedView,
}

type SharedView = Arc<Mutex<BusView>>;

fn lock(view: &SharedView) -> MutexGuard<'_, BusView> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bus {
    /// Begins to connect. `note` hears what happens, and must not block. It must be called within a
    /// runtime.
    ///
    /// # Errors
    /// [`AccessFault`] if that can never succeed; an unreachable server is none.
    pub(super) fn connect(
        access: &Access,
        name: &str,
        note: impl Fn(BusEvent) + Send + Sync + 'static,
    ) -> Result<Self, AccessFault> {
        let servers = servers(&access.servers)?;
        let view = SharedView::default();
        let (seen, note) = (view.clone(), Arc::new(note));
        let options = options(access, name)?.event_callback(move |event| {
            if let Some(event) = record(&seen, event) {
                note(event);
            }
            std::future::ready(())
        });
        let options = options.retry_on_initial_connect();
        // With `retry_on_initial_connect`, a task connects, and there is nothing to wait for.
        let client = options.connect(servers).now_or_never();
        let unfit = |words: &str| AccessFault::Credentials(short(words));
        let client = client.ok_or_else(|| unfit("the client of the bus does not start"))?;
        let client = client.map_err(|error| unfit(&error.to_string()))?;
        Ok(Self { client, view })
    }

    /// Whether there is a connection. It may hang nevertheless.
    pub(super) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Sends a message if there is a connection, and waits for room no longer than
    /// [`SEND_TIME_MS`]. Answers whether it was handed over.
    pub(super) async fn send(&self, subject: String, bytes: Vec<u8>) -> bool {
        self.is_connected() && bounded(self.client.publish(subject, bytes.into())).await
    }

    /// The same; the server answers to `reply` if the subject has no subscriber.
    pub(super) async fn ask(&self, subject: String, reply: String, bytes: Vec<u8>) -> bool {
        self.is_connected() && bounded(self.client.publish_with_reply(subject, reply, bytes.into())).await
    }

    /// The messages of a subject from now on, over all connections; `None` if the client has ended.
    pub(super) async fn hear(&self, subject: String) -> Option<Subscriber> {
        self.client.subscribe(subject).await.ok()
    }

    /// Waits until everything has been sent, no longer than [`SEND_TIME_MS`].
    pub(super) async fn flush(&self) -> bool {
        self.is_connected() && bounded(self.client.flush()).await
    }

    /// How it is doing.
    pub(super) fn view(&self) -> BusView {
        let is_connected = self.is_connected();
        BusView {
            is_connected,
            ..lock(&self.view).clone()
        }
    }
}

async fn bounded<T, E>(sending: impl Future<Output = Result<T, E>>) -> bool {
    let sent = timeout(Duration::from_millis(SEND_TIME_MS), sending).await;
    matches!(sent, Ok(Ok(_)))
}

pub(super) fn servers(texts: &[String]) -> Result<Vec<ServerAddr>, AccessFault> {
    let parsed = texts.iter().take(SERVERS_MAX).map(|text| {
        let server = text.parse::<ServerAddr>().ok();
        let named = server.filter(|server| !server.host().is_empty());
        named.ok_or_else(|| AccessFault::Server(text.clone()))
    });
    let servers: Vec<ServerAddr> = parsed.collect::<Result<_, _>>()?;
    match servers.is_empty() {
        true => Err(AccessFault::NoServer),
        false => Ok(servers),
    }
}

pub(super) fn options(access: &Access, name: &str) -> Result<ConnectOptions, AccessFault> {
    let mut options = ConnectOptions::new()
        .name(name)
        .max_reconnects(None)
        .reconnect_delay_callback(pause)
        .connection_timeout(Duration::from_millis(CONNECT_TIME_MS))
        .ping_interval(Duration::from_millis(PING_INTERVAL_MS))
        .subscription_capacity(WAITING_MAX)
        .client_capacity(UNSENT_MAX)
        .require_tls(access.requires_tls);
    for authority in &access.authorities {
        options = options.add_root_certificates(authority.clone());
    }
    if let Some(shown) = &access.certificate {
        options = options.add_client_certificate(shown.certificate.clone(), shown.key.clone());
    }
    match &access.identity {
        Identity::Anonymous => Ok(options),
        Identity::User { name, password } => Ok(options.user_and_password(name.clone(), password.expose().to_owned())),
        Identity::Nkey(seed) => Ok(options.nkey(seed.expose().trim().to_owned())),
        Identity::Credentials(text) => {
            let read = options.credentials(text.expose());
            read.map_err(|error| AccessFault::Credentials(short(&error.to_string())))
        }
    }
}

/// The pause before an attempt to connect. It is shifted by up to a half, so that the nodes of a
/// cluster do not return to a restarted server at the same moment.
fn pause(attempt: usize) -> Duration {
    if attempt <= 1 {
        return Duration::ZERO;
    }
    let doublings = u32::try_from(attempt - 2).unwrap_or(u32::MAX).min(16);
    let whole = (RECONNECT_PAUSE_MIN_MS << doublings).min(RECONNECT_PAUSE_MAX_MS);
    Duration::from_millis(whole).mul_f64(0.5 + fastrand::f64())
}

/// Notes an event; answers what there is to tell.
fn record(view: &SharedView, event: Event) -> Option<BusEvent> {
    let mut view = lock(view);
    match event {
        Event::Connected => {
            view.connections += 1;
            view.fault = None;
            Some(BusEvent::Connected)
        }
        Event::Disconnected => {
            view.fault = Some("the connection was lost".to_owned());
            Some(BusEvent::Lost)
        }
        Event::SlowConsumer(_) => {
            view.slow += 1;
            Some(BusEvent::Slow)
        }
        Event::ServerError(error) => {
            let words = match &error {
                ServerError::AuthorizationViolation => "authorization violation".to_owned(),
                other => short(&other.to_string()),
            };
            view.refusals += 1;
            view.fault = Some(words.clone());
            Some(BusEvent::Refused(words))
        }
        Event::ClientError(error) => {
            let words = failed(&error.to_string());
            let is_new = view.fault.as_ref() != Some(&words);
            view.fault = Some(words.clone());
            is_new.then_some(BusEvent::Unreachable(words))
        }
        Event::LameDuckMode | Event::Draining | Event::Closed => None,
    }
}

/// Why an attempt to connect failed. The library tells no more than the kind of the fault.
fn failed(text: &str) -> String {
    match text.trim_start_matches("nats: ") {
        "IO error" => "the connection fails".to_owned(),
        "TLS error" => "TLS fails".to_owned(),
        "DNS error" => "its host has no address".to_owned(),
        "timed out" => "no answer in time".to_owned(),
        other => short(other),
    }
}

pub(super) fn short(text: &str) -> String {
    shortened(text, FAULT_BYTES_MAX).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_their_limit() {
        assert_eq!(pause(1), Duration::ZERO);
        let bounds = |attempt: usize, whole: u64| {
            let pause = pause(attempt).as_millis() as u64;
            assert!((whole / 2..=whole * 3 / 2).contains(&pause), "{attempt}: {pause}");
        };
        bounds(2, RECONNECT_PAUSE_MIN_MS);
        bounds(3, 2 * RECONNECT_PAUSE_MIN_MS);
        bounds(1_000_000, RECONNECT_PAUSE_MAX_MS);
    }

    #[test]
    fn faults_of_the_connection_are_told_in_plain_words() {
        assert_eq!(failed("nats: IO error"), "the connection fails");
        assert_eq!(failed("nats: authorization violation"), "authorization violation");
    }

    #[test]
    fn the_same_fault_is_told_once() {
        let view = SharedView::default();
        let failed = || Event::ClientError(async_nats::ClientError::Other("refused".to_owned()));
        assert!(record(&view, failed()).is_some());
        assert_eq!(record(&view, failed()), None);
        assert_eq!(record(&view, Event::Connected), Some(BusEvent::Connected));
        assert!(record(&view, failed()).is_some());
    }

    #[test]
    fn a_bus_needs_an_address() {
        assert_eq!(servers(&[]).unwrap_err(), AccessFault::NoServer);
        assert!(matches!(servers(&["nats://".to_owned()]), Err(AccessFault::Server(_))));
        assert_eq!(servers(&["nats://[::1]:4222".to_owned()]).unwrap().len(), 1);
    }
}
