//! The session of a client that sends messages to a broker, and has each confirmed.

use crate::frame::{Beats, Command, Frame, Malformed, Version};

/// Where a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// The broker has not answered `CONNECT`.
    Connecting,
    /// Messages may be sent.
    Open {
        /// The version of both.
        version: Version,
        /// Heart-beats that we send and get.
        beats: Beats,
    },
    /// The broker has ended it.
    Ended,
}

/// What a frame of the broker means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Messages may be sent.
    Opened,
    /// The frame with this receipt was processed.
    Confirmed(String),
    /// The broker refuses, in its words.
    Refused(String),
}

/// The frame that opens a session with the virtual host `host`.
#[must_use]
pub fn connect(host: &str, beats: Beats) -> Frame {
    let frame = Frame::new(Command::Connect).with("accept-version", "1.0,1.1,1.2");
    frame.with("host", host).with("heart-beat", beats.word())
}

/// A message for a broker.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Where it goes.
    pub destination: &'a str,
    /// The name of the broker's confirmation.
    pub receipt: &'a str,
    /// Text.
    pub body: &'a str,
    /// Whether it survives a restart of the broker.
    pub is_persistent: bool,
}

/// The frame of a message, which the broker confirms.
#[must_use]
pub fn send(message: &Outgoing<'_>) -> Frame {
    let frame = Frame::new(Command::Send).with("destination", message.destination);
    let frame = match message.is_persistent {
        true => frame.with("persistent", "true"),
        false => frame,
    };
    frame
        .with("receipt", message.receipt)
        .with("content-type", "application/json")
        .with_body(message.body)
}

impl Session {
    /// The version for frames.
    #[must_use]
    pub fn version(&self) -> Version {
        match self {
            Self::Open { version, .. } => *version,
            Self::Connecting | Self::Ended => Version::V12,
        }
    }

    /// The heart-beats that we send and get.
    #[must_use]
    pub fn beats(&self) -> Beats {
        match self {
            Self::Open { beats, .. } => *beats,
            Self::Connecting | Self::Ended => Beats::default(),
        }
    }

    /// One frame of the broker, to which we offered `beats`.
    ///
    /// # Errors
    /// A frame that a broker may not send here.
    pub fn take(&mut self, frame: &Frame, beats: Beats) -> Result<Event, Malformed> {
        match (&self, frame.command) {
            (Self::Ended, _) => Err(Malformed("a frame after the end")),
            (_, Command::Error) => {
                *self = Self::Ended;
                let words = frame.header("message").map(str::to_owned);
                let words = words.unwrap_or_else(|| String::from_utf8_lossy(&frame.body).into_owned());
                Ok(Event::Refused(words))
            }
            (Self::Connecting, Command::Connected) => {
                let version = Version::newest(frame.header("version"));
                let version = version.ok_or(Malformed("the broker chose an unknown version"))?;
                let beats = beats.agreed(Beats::parse(frame.header("heart-beat")));
                *self = Self::Open { version, beats };
                Ok(Event::Opened)
            }
            (Self::Open { .. }, Command::Receipt) => {
                let receipt = frame.header("receipt-id");
                let receipt = receipt.ok_or(Malformed("a receipt without its id"))?;
                Ok(Event::Confirmed(receipt.to_owned()))
            }
            _ => Err(Malformed("a frame that a broker may not send here")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_confirmed_after_the_session_is_open() {
        let mut session = Session::Connecting;
        let offered = Beats::parse(Some("10000,10000"));
        let receipt = Frame::new(Command::Receipt).with("receipt-id", "5");
        assert!(session.take(&receipt, offered).is_err());
        let connected = Frame::new(Command::Connected).with("version", "1.1");
        let connected = connected.with("heart-beat", "0,30000");
        assert_eq!(session.take(&connected, offered), Ok(Event::Opened));
        assert_eq!(session.version(), Version::V11);
        assert_eq!(session.beats().word(), "30000,0");
        assert_eq!(session.take(&receipt, offered), Ok(Event::Confirmed("5".to_owned())));
        assert!(session.take(&connected, offered).is_err());
        let error = Frame::new(Command::Error).with("message", "no");
        assert_eq!(session.take(&error, offered), Ok(Event::Refused("no".to_owned())));
        assert!(session.take(&receipt, offered).is_err());
    }

    #[test]
    fn a_version_that_we_did_not_offer_is_refused() {
        let connected = Frame::new(Command::Connected).with("version", "1.3");
        assert!(Session::Connecting.take(&connected, Beats::default()).is_err());
    }
}
