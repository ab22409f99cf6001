//! Tries the bus as a node or a redirector uses it: login, subjects, and who is there.
//!
//! It does not disturb running servers. Messages in the name of a node have no content, and no
//! server listens to the others, except for the greeting: nodes announce themselves once more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::client::PublishError;
use async_nats::{Client, ConnectError, ConnectErrorKind, Event, Message, ServerError, StatusCode, Subscriber};
use futures_util::StreamExt as _;
use futures_util::stream::{SelectAll, select_all};
use tokio::sync::Notify;
use tokio::time::timeout;
use types::LogicalPath;

use super::announcement::Announcement;
use super::bus::{Access, AccessFault, options, servers, short};
use super::limits::{ANNOUNCED_NODES_MAX, GREETING_SPREAD_MS, TRIAL_HEARD_MS, TRIAL_TIME_MS};
use super::subjects::{BusName, FromNode, Subjects};

/// An export that no node has.
const NO_EXPORT: &str = "/crossload-trial";

/// Where a server of the bus is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPlace {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl ServerPlace {
    /// Reads the address of a server: `nats://host:port`, `tls://host:port`. `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let servers = servers(&[text.to_owned()]).ok()?;
        let server = servers.first()?;
        Some(Self {
            host: server.host().to_owned(),
            port: server.port(),
        })
    }
}

/// Why the bus cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The settings.
    Access(AccessFault),
    /// The host has no address.
    Unresolved(String),
    /// No connection, or not to such a server.
    Unreachable(String),
    /// TLS fails.
    Tls(String),
    /// The server does not let us in.
    Login(String),
}

/// What the server of the bus refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// To publish; otherwise to subscribe.
    pub is_publishing: bool,
    /// The subject.
    pub subject: String,
}

/// What a trial has shown.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// The server's version.
    pub version: String,
    /// Subjects that are needed and refused.
    pub refused: Vec<Refusal>,
    /// A node may announce others than itself, too: any client with its rights could.
    pub speaks_for_others: bool,
    /// The nodes that announced themselves, by their names; only a redirector hears them.
    pub announced: BTreeMap<String, Announcement>,
    /// Names of nodes under which two processes announced themselves.
    pub doubled: BTreeSet<String>,
}

/// What was heard of nodes.
#[derive(Debug, Default)]
struct Heard {
    announced: BTreeMap<String, Announcement>,
    doubled: BTreeSet<String>,
}

/// Tries the bus as the node of this name with these exports.
///
/// # Errors
/// [`Unusable`].
pub async fn as_node(
    access: &Access,
    subjects: &Subjects,
    name: &BusName,
    exports: &[LogicalPath],
) -> Result<Trial, Unusable> {
    let unused = unused_name();
    let mut heard = vec![subjects.to(name.as_str()), subjects.hello()];
    heard.extend(exports.iter().map(|export| subjects.who(export.as_str())));
    let other = subjects.state_of(&unused);
    let sent = vec![
        other.clone(),
        subjects.state_of(name.as_str()),
        subjects.changes_of(name.as_str()),
        subjects.answers_of(name.as_str(), &unused),
    ];
    let mut session = Session::open(access, name.as_str(), heard).await?;
    // No client listens to the last one, and the server says so there.
    session.send(sent, &subjects.to(name.as_str())).await?;
    session
        .settle(|message| message.status == Some(StatusCode::NO_RESPONDERS))
        .await;
    let mut trial = session.end(Heard::default()).await;
    let refused = trial.refused.len();
    trial.refused.retain(|refusal| refusal.subject != other);
    trial.speaks_for_others = trial.refused.len() == refused;
    Ok(trial)
}

/// Tries the bus as a redirector, and hears which nodes are there: until those of `wanted` have
/// announced themselves, or for 1.5 s.
///
/// # Errors
/// [`Unusable`].
pub async fn as_redirector(access: &Access, subjects: &Subjects, wanted: &[BusName]) -> Result<Trial, Unusable> {
    let me = unused_name();
    let heard = vec![subjects.all_news(), subjects.all_answers(&me)];
    let sent = vec![
        subjects.hello(),
        subjects.who(NO_EXPORT),
        subjects.to(&me),
        subjects.state_of(&me),
    ];
    let mut session = Session::open(access, &me, heard).await?;
    session.send(sent, &subjects.answers_of(&me, &me)).await?;
    let mut heard = Heard::default();
    let own = subjects.state_of(&me);
    session
        .settle(|message| {
            note(subjects, message, &mut heard);
            message.subject.as_str() == own
        })
        .await;
    let all = async {
        while wanted.iter().any(|name| !heard.announced.contains_key(name.as_str()))
            && let Some(message) = session.heard.next().await
        {
            note(subjects, &message, &mut heard);
        }
        // A second server under one of the names has had the same time.
        let rest = async {
            while let Some(message) = session.heard.next().await {
                note(subjects, &message, &mut heard);
            }
        };
        let _ = timeout(Duration::from_millis(2 * GREETING_SPREAD_MS), rest).await;
    };
    let _ = timeout(Duration::from_millis(TRIAL_HEARD_MS), all).await;
    heard.announced.retain(|_, said| !said.is_leaving);
    Ok(session.end(heard).await)
}

/// Notes an announcement; the subject says whose it is.
fn note(subjects: &Subjects, message: &Message, heard: &mut Heard) {
    let sent = subjects.sender(message.subject.as_str());
    let sent = sent.filter(|sent| sent.kind == FromNode::State && heard.announced.len() < ANNOUNCED_NODES_MAX);
    if let Some(sent) = sent
        && let Some(said) = Announcement::decode(&message.payload)
    {
        let instance = said.instance.clone();
        let before = heard.announced.insert(sent.node.to_owned(), said);
        if before.is_some_and(|before| !before.is_leaving && before.instance != instance) {
            heard.doubled.insert(sent.node.to_owned());
        }
    }
}

/// A name that no one has.
fn unused_name() -> String {
    BusName::of_redirector().as_str().to_owned()
}

/// What the server has refused so far.
#[derive(Debug, Default)]
struct Refused {
    words: Mutex<Vec<String>>,
    more: Notify,
    all: Notify,
}

impl Refused {
    fn note(&self, words: String) {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).push(words);
        self.more.notify_one();
    }

    fn has(&self, is_publishing: bool, subject: &str) -> bool {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.iter().any(|words| is_refusal(words, is_publishing, subject))
    }
}

/// Whether these words of the server refuse that (`Permissions Violation for Publish to "x"`,
/// `… for Subscription to "x"`).
fn is_refusal(words: &str, is_publishing: bool, subject: &str) -> bool {
    let verb = if is_publishing { "publish" } else { "subscription" };
    words.to_ascii_lowercase().contains(&format!("for {verb} to")) && words.contains(&format!("\"{subject}\""))
}

/// A connection for a trial.
struct Session {
    client: Client,
    heard: SelectAll<Subscriber>,
    refused: Arc<Refused>,
    subscribed: Vec<String>,
    sent: Vec<String>,
}

impl Session {
    async fn open(access: &Access, name: &str, subscribed: Vec<String>) -> Result<Self, Unusable> {
        let refused = Arc::new(Refused::default());
        let told = refused.clone();
        let options = options(access, name)
            .map_err(Unusable::Access)?
            .event_callback(move |event| {
                match event {
                    Event::ServerError(ServerError::Other(words)) => told.note(words),
                    Event::Draining => told.all.notify_one(),
                    _ => {}
                }
                std::future::ready(())
            });
        let servers = servers(&access.servers).map_err(Unusable::Access)?;
        let client = options.connect(servers).await.map_err(|error| why(&error))?;
        let mut heard = Vec::with_capacity(subscribed.len());
        for subject in &subscribed {
            let subscriber = client.subscribe(subject.clone()).await;
            heard.push(subscriber.map_err(|error| Unusable::Unreachable(short(&error.to_string())))?);
        }
        Ok(Self {
            client,
            heard: select_all(heard),
            refused,
            subscribed,
            sent: Vec::new(),
        })
    }

    /// Sends messages without content. If no one hears the last one, the server says so at `reply`.
    async fn send(&mut self, subjects: Vec<String>, reply: &str) -> Result<(), Unusable> {
        let failed = |error: PublishError| Unusable::Unreachable(short(&error.to_string()));
        let client = &self.client;
        if let Some((last, others)) = subjects.split_last() {
            for subject in others {
                client
                    .publish(subject.clone(), Vec::new().into())
                    .await
                    .map_err(failed)?;
            }
            let sent = client.publish_with_reply(last.clone(), reply.to_owned(), Vec::new().into());
            sent.await.map_err(failed)?;
        }
        self.sent = subjects;
        Ok(())
    }

    /// Waits until the server has dealt with everything: what it refuses comes before its answer to
    /// the last message, which is a refusal or a message for which `is_end`. If another client
    /// listens, there may be no answer; the time is limited then.
    async fn settle(&mut self, mut is_end: impl FnMut(&Message) -> bool) {
        let last = self.sent.last().cloned().unwrap_or_default();
        let (heard, refused) = (&mut self.heard, &self.refused);
        let dealt_with = async {
            while !refused.has(true, &last) {
                tokio::select! {
                    message = heard.next() => match message {
                        Some(message) if is_end(&message) => return,
                        Some(_) => {}
                        None => return,
                    },
                    () = refused.more.notified() => {}
                }
            }
        };
        let _ = timeout(Duration::from_millis(TRIAL_TIME_MS), dealt_with).await;
    }

    fn refusals(&self) -> Vec<Refusal> {
        let of = |subjects: &[String], is_publishing: bool| -> Vec<Refusal> {
            let refused = subjects
                .iter()
                .filter(|subject| self.refused.has(is_publishing, subject));
            let refusal = |subject: &String| Refusal {
                is_publishing,
                subject: subject.clone(),
            };
            refused.map(refusal).collect()
        };
        [of(&self.subscribed, false), of(&self.sent, true)].concat()
    }

    /// What was refused: the library tells it apart from messages, and later than them. So it is
    /// asked for an event that comes behind.
    async fn end(self, heard: Heard) -> Trial {
        if self.client.drain().await.is_ok() {
            let _ = timeout(Duration::from_millis(TRIAL_TIME_MS), self.refused.all.notified()).await;
        }
        Trial {
            version: self.client.server_info().version,
            refused: self.refusals(),
            speaks_for_others: false,
            announced: heard.announced,
            doubled: heard.doubled,
        }
    }
}

/// What a failed attempt to connect means.
fn why(error: &ConnectError) -> Unusable {
    let source = std::error::Error::source(error);
    let words = source.map_or_else(|| error.to_string(), ToString::to_string);
    let words = short(words.trim_start_matches("nats: "));
    match error.kind() {
        ConnectErrorKind::Dns => Unusable::Unresolved(words),
        ConnectErrorKind::Tls => Unusable::Tls(words),
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => Unusable::Login(words),
        ConnectErrorKind::TimedOut => Unusable::Unreachable("no answer in time".to_owned()),
        // The library reports faults of TLS as those of the connection.
        ConnectErrorKind::Io if source.is_some_and(is_of_tls) => Unusable::Tls(words),
        _ => Unusable::Unreachable(words),
    }
}

fn is_of_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::InvalidData || io.get_ref().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_those_of_the_subject() {
        let words = "Permissions Violation for Publish to \"crossload.from.d1.state\"";
        assert!(is_refusal(words, true, "crossload.from.d1.state"));
        assert!(!is_refusal(words, false, "crossload.from.d1.state"));
        assert!(!is_refusal(words, true, "crossload.from.d1"));
        assert!(is_refusal(
            "Permissions Violation for Subscription to \"a.*\"",
            false,
            "a.*"
        ));
    }

    #[test]
    fn servers_have_a_usual_port() {
        let place = |text| ServerPlace::parse(text).map(|place| format!("{}:{}", place.host, place.port));
        assert_eq!(place("nats://b.example"), Some("b.example:4222".to_owned()));
        assert_eq!(place("tls://[::1]:99"), Some("::1:99".to_owned()));
        assert_eq!(place("nats://"), None);
    }
}
