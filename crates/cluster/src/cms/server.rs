//! What a leaf asks of the server that it belongs to, and tells it.

use std::future::Future;

use types::LogicalPath;
use xroot_wire::cms::{LoginFault, Presence};

use super::address::ManagerAddress;
use super::report::Vitals;

/// A path that the server exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The path.
    pub path: LogicalPath,
    /// Whether clients may write below it.
    pub is_writable: bool,
}

/// The server of a leaf.
pub trait Server: Send + Sync + 'static {
    /// Whether the server has this file or directory. It must answer within milliseconds: a
    /// manager sends its client on after [the first answer](super::limits::ANSWER_TIME).
    fn has(&self, path: &LogicalPath) -> impl Future<Output = Option<Presence>> + Send;

    /// Its load and space now.
    fn vitals(&self) -> impl Future<Output = Vitals> + Send;

    /// Something happened with a manager.
    fn note(&self, manager: &ManagerAddress, event: &Event);
}

/// What happens with a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has accepted the login, and sends clients once the server is not suspended.
    LoggedIn {
        /// The manager's name in its cluster.
        system_id: String,
    },
    /// It sent us to another manager.
    Sent {
        /// The other one.
        to: ManagerAddress,
    },
    /// The session ended, or did not begin. Another attempt follows.
    Lost(Fault),
    /// It asked for a change on behalf of a client. Such requests carry no credential, so they are
    /// refused; noted once in each session.
    ChangeRefused {
        /// The client, in the manager's words.
        client: String,
    },
}

/// Why there is no session with a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No connection.
    Unreachable(String),
    /// It closed the connection.
    Closed,
    /// It did not answer the login, was silent for too long, or did not take what we sent.
    TimedOut,
    /// It refused, in its words.
    Refused(String),
    /// It wants an authentication, which is not supported.
    AuthenticationRequired,
    /// It sent something that is not the protocol.
    Malformed(&'static str),
    /// Others sent us on and on.
    TooManyHops,
    /// Our own login cannot be expressed.
    Unfit(LoginFault),
}
