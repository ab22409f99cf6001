//! The session of a server that publishes: what each frame of a client changes, and what it is
//! answered.

use crate::frame::{Beats, Command, Frame, Version};
use crate::limits::SUBSCRIPTIONS_MAX;

/// Reasons of a server to end a session that no frame of the client gave.
pub mod refusals {
    /// The client is too far behind.
    pub const SLOW: &str = "the subscriber reads too slowly: messages were lost";
    /// Too many clients are connected.
    pub const CROWDED: &str = "there are too many subscribers";
    /// A password or token came without TLS.
    pub const NEEDS_TLS: &str = "without TLS, a login counts for clients on the same machine only";
    /// No login within the time for it.
    pub const LATE: &str = "no CONNECT in time";
    /// No heart-beat within the time that both agreed on.
    pub const SILENT: &str = "no heart-beat in time";
    /// The server stops.
    pub const STOPPING: &str = "the server stops";
    /// The credential of the login has expired.
    pub const EXPIRED: &str = "the credential of this session has expired: log in again with a new one";
}

/// Headers by which clients ask brokers for a durable subscription: ActiveMQ, Artemis, RabbitMQ.
const DURABLE: [&str; 4] = [
    "activemq.subscriptionName",
    "durable-subscription-name",
    "durable-subscriber-name",
    "durable",
];

/// A subscription of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The client's name for it. Clients of 1.0 may give none: then the destination.
    pub id: String,
    /// What it subscribes to.
    pub destination: String,
    /// Whether the client acknowledges each message. Nothing waits for that.
    pub acknowledges: bool,
}

/// Where a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// The client has not logged in.
    Waiting,
    /// It has.
    Open {
        /// The version of both.
        version: Version,
        /// Heart-beats that we send and get.
        beats: Beats,
        /// What it gets.
        subscriptions: Vec<Subscription>,
    },
    /// Nothing more is read.
    Ended,
}

/// What a server knows and a session does not.
pub trait Rules {
    /// Whether these may log in.
    fn admits(&self, login: Option<&str>, passcode: Option<&str>) -> bool;
    /// Whether there is such a destination.
    fn has(&self, destination: &str) -> bool;
    /// The heart-beats that the server offers.
    fn beats(&self) -> Beats;
}

impl Session {
    /// The version for frames.
    #[must_use]
    pub fn version(&self) -> Version {
        match self {
            Self::Open { version, .. } => *version,
            Self::Waiting | Self::Ended => Version::V12,
        }
    }

    /// The heart-beats that we send and get.
    #[must_use]
    pub fn beats(&self) -> Beats {
        match self {
            Self::Open { beats, .. } => *beats,
            Self::Waiting | Self::Ended => Beats::default(),
        }
    }

    /// Its subscriptions to a destination.
    pub fn subscribed<'a>(&'a self, destination: &'a str) -> impl Iterator<Item = &'a Subscription> {
        let all: &[Subscription] = match self {
            Self::Open { subscriptions, .. } => subscriptions,
            Self::Waiting | Self::Ended => &[],
        };
        all.iter()
            .filter(move |subscription| subscription.destination == destination)
    }

    /// One frame of the client: gives the answers, in order. After an `ERROR` the session has
    /// ended.
    #[must_use]
    pub fn take(&mut self, frame: &Frame, rules: &impl Rules) -> Vec<Frame> {
        let answer = match self {
            Self::Waiting => return vec![self.open(frame, rules)],
            Self::Open { subscriptions, .. } => serve(frame, subscriptions, rules),
            Self::Ended => return Vec::new(),
        };
        if let Err(words) = answer {
            return vec![self.refuse(words, frame.header("receipt"))];
        }
        if frame.command == Command::Disconnect {
            *self = Self::Ended;
        }
        let receipt = frame.header("receipt");
        receipt
            .map(|receipt| Frame::new(Command::Receipt).with("receipt-id", receipt))
            .into_iter()
            .collect()
    }

    /// Ends the session for a reason.
    #[must_use]
    pub fn refuse(&mut self, words: &str, receipt: Option<&str>) -> Frame {
        *self = Self::Ended;
        let error = Frame::new(Command::Error)
            .with("message", words)
            .with("content-type", "text/plain");
        let error = match receipt {
            Some(receipt) => error.with("receipt-id", receipt),
            None => error,
        };
        error.with_body(words)
    }

    fn open(&mut self, frame: &Frame, rules: &impl Rules) -> Frame {
        if !matches!(frame.command, Command::Connect | Command::Stomp) {
            return self.refuse("a session begins with CONNECT", frame.header("receipt"));
        }
        let Some(version) = Version::newest(frame.header("accept-version")) else {
            let error = self.refuse("supported versions are 1.0, 1.1 and 1.2", None);
            return error.with("version", "1.0,1.1,1.2");
        };
        if !rules.admits(frame.header("login"), frame.header("passcode")) {
            return self.refuse("login or passcode is wrong", None);
        }
        let offered = match version {
            Version::V10 => Beats::default(),
            Version::V11 | Version::V12 => rules.beats(),
        };
        let beats = offered.agreed(Beats::parse(frame.header("heart-beat")));
        *self = Self::Open {
            version,
            beats,
            subscriptions: Vec::new(),
        };
        let connected = Frame::new(Command::Connected).with("version", version.word());
        connected.with("heart-beat", offered.word()).with("server", "crossload")
    }
}

fn serve(frame: &Frame, subscriptions: &mut Vec<Subscription>, rules: &impl Rules) -> Result<(), &'static str> {
    match frame.command {
        Command::Subscribe => subscribe(frame, subscriptions, rules),
        Command::Unsubscribe => {
            let id = frame.header("id").or(frame.header("destination"));
            let id = id.ok_or("UNSUBSCRIBE needs an id")?;
            subscriptions.retain(|subscription| subscription.id != id);
            Ok(())
        }
        Command::Ack | Command::Nack | Command::Disconnect => Ok(()),
        Command::Send => Err("messages come from the queue only"),
        Command::Begin | Command::Commit | Command::Abort => Err("there are no transactions"),
        Command::Connect | Command::Stomp => Err("the session is open already"),
        Command::Connected | Command::Message | Command::Receipt | Command::Error => Err("this is a frame of servers"),
    }
}

fn subscribe(frame: &Frame, subscriptions: &mut Vec<Subscription>, rules: &impl Rules) -> Result<(), &'static str> {
    let destination = frame.header("destination").ok_or("SUBSCRIBE needs a destination")?;
    if !rules.has(destination) {
        return Err("there is no such destination");
    }
    // Without it, the client would get more than it asked for.
    if frame.header("selector").is_some() {
        return Err("selectors are not supported");
    }
    // Topics keep nothing for clients that are away, and a receipt would promise it.
    let asks = |name: &&str| frame.header(name).is_some_and(|value| value != "false");
    if DURABLE.iter().any(asks) {
        return Err("subscriptions are not durable");
    }
    let id = frame.header("id").unwrap_or(destination);
    if subscriptions.iter().any(|subscription| subscription.id == id) {
        return Err("this id has a subscription already");
    }
    if subscriptions.len() >= SUBSCRIPTIONS_MAX {
        return Err("too many subscriptions");
    }
    subscriptions.push(Subscription {
        id: id.to_owned(),
        destination: destination.to_owned(),
        acknowledges: frame.header("ack").is_some_and(|mode| mode != "auto"),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct One;

    impl Rules for One {
        fn admits(&self, login: Option<&str>, passcode: Option<&str>) -> bool {
            (login, passcode) == (Some("rucio"), Some("secret"))
        }

        fn has(&self, destination: &str) -> bool {
            destination.starts_with("/topic/")
        }

        fn beats(&self) -> Beats {
            let beat = Some(Duration::from_secs(10));
            Beats {
                sends: beat,
                wants: beat,
            }
        }
    }

    fn connect(versions: &str) -> Frame {
        let frame = Frame::new(Command::Connect).with("accept-version", versions);
        frame.with("login", "rucio").with("passcode", "secret")
    }

    fn open() -> Session {
        let mut session = Session::Waiting;
        let answers = session.take(&connect("1.1,1.2").with("heart-beat", "0,5000"), &One);
        assert_eq!(answers[0].header("version"), Some("1.2"));
        session
    }

    fn subscribe(id: &str) -> Frame {
        let frame = Frame::new(Command::Subscribe).with("id", id);
        frame.with("destination", "/topic/a").with("ack", "auto")
    }

    #[test]
    fn a_client_logs_in_subscribes_and_leaves() {
        let mut session = open();
        assert_eq!(session.beats().sends, Some(Duration::from_secs(10)));
        assert_eq!(session.beats().wants, None);
        let answers = session.take(&subscribe("7").with("receipt", "r1"), &One);
        assert_eq!(answers[0].header("receipt-id"), Some("r1"));
        assert_eq!(session.subscribed("/topic/a").next().unwrap().id, "7");
        assert!(session.take(&Frame::new(Command::Ack).with("id", "1"), &One).is_empty());
        assert!(
            session
                .take(&Frame::new(Command::Unsubscribe).with("id", "7"), &One)
                .is_empty()
        );
        assert_eq!(session.subscribed("/topic/a").count(), 0);
        let answers = session.take(&Frame::new(Command::Disconnect).with("receipt", "r2"), &One);
        assert_eq!(answers[0].command, Command::Receipt);
        assert_eq!(session, Session::Ended);
    }

    #[test]
    fn a_wrong_login_or_version_ends_the_session() {
        let wrong = Frame::new(Command::Connect)
            .with("login", "rucio")
            .with("passcode", "x");
        for frame in [wrong, connect("2.0"), subscribe("1")] {
            let mut session = Session::Waiting;
            assert_eq!(session.take(&frame, &One)[0].command, Command::Error);
            assert_eq!(session, Session::Ended);
            assert!(session.take(&connect("1.2"), &One).is_empty());
        }
    }

    #[test]
    fn a_client_of_1_0_has_no_beats_and_needs_no_id() {
        let mut session = Session::Waiting;
        let frame = Frame::new(Command::Connect)
            .with("login", "rucio")
            .with("passcode", "secret");
        let answers = session.take(&frame.with("heart-beat", "1,1"), &One);
        assert_eq!(answers[0].header("version"), Some("1.0"));
        assert_eq!(session.beats(), Beats::default());
        let frame = Frame::new(Command::Subscribe).with("destination", "/topic/a");
        assert!(session.take(&frame, &One).is_empty());
        assert_eq!(session.subscribed("/topic/a").next().unwrap().id, "/topic/a");
    }

    #[test]
    fn what_a_subscriber_may_not_do_ends_the_session() {
        let selects = subscribe("8").with("selector", "vo = 'atlas'");
        let durable = subscribe("8").with("activemq.subscriptionName", "8");
        let unknown = Frame::new(Command::Subscribe).with("destination", "/queue/a");
        let taken = subscribe("7");
        for frame in [
            Frame::new(Command::Send),
            Frame::new(Command::Begin),
            Frame::new(Command::Message),
            connect("1.2"),
            unknown,
            selects,
            durable,
            taken,
        ] {
            let mut session = open();
            assert!(session.take(&subscribe("7"), &One).is_empty());
            let answers = session.take(&frame.with("receipt", "r"), &One);
            assert_eq!(answers[0].command, Command::Error);
            assert_eq!(answers[0].header("receipt-id"), Some("r"));
        }
        let mut session = open();
        for count in 0..SUBSCRIPTIONS_MAX {
            assert!(session.take(&subscribe(&count.to_string()), &One).is_empty());
        }
        assert_eq!(session.take(&subscribe("more"), &One)[0].command, Command::Error);
    }
}
