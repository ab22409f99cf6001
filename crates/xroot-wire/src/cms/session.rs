//! The session of a data server with its manager: what each message of the manager asks of it.
//!
//! The server sends its login first. After the manager's login it sends its status; until then the
//! manager sends no clients. Source: `XrdCmsProtocol.cc` (Pander, Dispatch), `XrdCmsRouting.cc`.

use super::header::Frame;
use super::login::Login;
use super::message::{Alternates, Forwarded, Message, Refusal, Reply};

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// The login was sent.
    LoggingIn,
    /// The manager has accepted.
    Open,
    /// Nothing more may be sent.
    Ended,
}

/// A message that a manager may not send; why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// What a message asks of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty<'a> {
    /// Send the status: the manager is ready, and says who it is.
    Begin(Login<'a>),
    /// Send this.
    Answer(Message<'static>),
    /// Send [`Message::Load`].
    ReportLoad,
    /// Send [`Message::Available`].
    ReportSpace,
    /// Send [`Message::Status`].
    ReportStatus,
    /// Look for a file. If it is there, send [`Message::Have`] with this mark; if not, send
    /// nothing.
    Look {
        /// Mark of the answer.
        stream: u32,
        /// The file.
        path: &'a [u8],
    },
    /// A manager passes on a change. It names the client itself, without a credential, so a server
    /// that decides by credentials refuses; no answer is expected.
    Refuse(Forwarded<'a>),
    /// Nothing.
    Ignore,
    /// Close, and go to one of these managers.
    GoTo(Alternates<'a>),
    /// Close, and come again later.
    Leave,
    /// Close; the manager has refused.
    Refused(Refusal<'a>),
    /// Close; the manager wants an authentication, which we do not have.
    AuthenticationRequired,
}

impl Session {
    /// What one message of the manager means, and the next state.
    ///
    /// # Errors
    /// A message that cannot be read, or may not be sent now. An open session goes on: the next
    /// message begins where the length says.
    pub fn take<'a>(&mut self, frame: &Frame<'a>) -> Result<Duty<'a>, Malformed> {
        let duty = match *self {
            Self::LoggingIn => answer_to_login(frame),
            Self::Open => duty(frame),
            Self::Ended => Err(Malformed("a message after the end")),
        };
        *self = match (*self, &duty) {
            (_, Ok(Duty::GoTo(_) | Duty::Leave | Duty::Refused(_) | Duty::AuthenticationRequired))
            | (Self::LoggingIn | Self::Ended, Err(_)) => Self::Ended,
            (Self::Open, Err(_)) | (_, Ok(_)) => Self::Open,
        };
        duty
    }
}

fn answer_to_login<'a>(frame: &Frame<'a>) -> Result<Duty<'a>, Malformed> {
    let reply = Reply::parse(frame).ok_or(Malformed("an unknown answer to the login"))?;
    Ok(match reply {
        Reply::Login(manager) => Duty::Begin(manager),
        Reply::Try(others) => Duty::GoTo(others),
        Reply::Refused(refusal) => Duty::Refused(refusal),
        Reply::Authenticate => Duty::AuthenticationRequired,
    })
}

fn duty<'a>(frame: &Frame<'a>) -> Result<Duty<'a>, Malformed> {
    let message = Message::parse(frame).ok_or(Malformed("a message with unreadable data"))?;
    Ok(match message {
        Message::Ping => Duty::Answer(Message::Pong),
        Message::Usage => Duty::ReportLoad,
        Message::Space => Duty::ReportSpace,
        Message::Update => Duty::ReportStatus,
        Message::Statistics { stream } => Duty::Answer(Message::Statistics { stream }),
        Message::State { no_answer: true, .. } => Duty::Ignore,
        Message::State { stream, path, .. } => Duty::Look { stream, path },
        Message::Try(others) => Duty::GoTo(others),
        Message::Disconnect => Duty::Leave,
        Message::Forwarded(change) => Duty::Refuse(change),
        // What a server sends, or a later version knows: passed over, as XRootD does.
        Message::Pong
        | Message::Load(_)
        | Message::Available(_)
        | Message::Have { .. }
        | Message::Gone(_)
        | Message::Status { .. }
        | Message::Other(_) => Duty::Ignore,
    })
}
