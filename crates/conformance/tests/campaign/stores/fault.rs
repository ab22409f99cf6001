//! What goes wrong, and where.

use testkit::{Direction, Fault as Break};

use super::place::Behind;
use crate::dice::Dice;
use crate::ledger::Named;

/// What goes wrong in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// Connections to the server behind are reset at some byte of what it sends.
    CutDown,
    /// The same of what it is sent.
    CutUp,
    /// Connections to it are refused.
    Refuse,
    /// A bit of what it sends turns over.
    FlipDown,
    /// The same of what it is sent.
    FlipUp,
    /// It does what it is asked, and dies before it answers.
    Die,
    /// It is overloaded, as S3 says it.
    SlowDown,
    /// It is overloaded for one request only.
    SlowDownOnce,
    /// The signature has expired, or the token.
    Expired,
    /// It fails.
    Broken,
    /// It says at the end of an upload in parts that it has failed, after it has begun with 200.
    LateError,
    /// It is replaced behind the back of the server in front.
    Changed,
    /// The server in front is killed.
    Kill,
    /// The server behind is killed.
    KillBehind,
}

/// Answers of S3, and of a server of HTTP.
const SLOW_DOWN: &str = "HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: 64\r\n\
                         Connection: close\r\n\r\n\
                         <Error><Code>SlowDown</Code><Message>Reduce</Message></Error>   ";
const EXPIRED: &str = "HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nContent-Length: 81\r\n\
                       Connection: close\r\n\r\n\
                       <Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>   ";
const LATE_ERROR: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: 70\r\n\
                          Connection: close\r\n\r\n\
                          <Error><Code>InternalError</Code><Message>Try again</Message></Error> ";
const BROKEN: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

impl Fault {
    pub(super) const ALL: [Self; 15] = [
        Self::None,
        Self::CutDown,
        Self::CutUp,
        Self::Refuse,
        Self::FlipDown,
        Self::FlipUp,
        Self::Die,
        Self::SlowDown,
        Self::SlowDownOnce,
        Self::Expired,
        Self::Broken,
        Self::LateError,
        Self::Changed,
        Self::Kill,
        Self::KillBehind,
    ];

    /// Draws one that is possible with such a server behind.
    pub(super) fn draw(dice: &mut Dice, behind: Behind) -> Self {
        loop {
            // Half of the rounds go well; kills take time.
            let fault = match dice.below(40) {
                0..20 => Self::None,
                20 => dice.pick(&[Self::Kill, Self::KillBehind]),
                _ => dice.pick(&Self::ALL[1..13]),
            };
            if fault.concerns(behind) {
                return fault;
            }
        }
    }

    fn concerns(self, behind: Behind) -> bool {
        match self {
            // Nothing protects a payload in clear text but page checksums.
            Self::FlipDown | Self::FlipUp => behind == Behind::Https,
            // It is asked again for a hundred seconds.
            Self::SlowDown => behind == Behind::Http,
            Self::LateError => behind == Behind::S3,
            Self::SlowDownOnce | Self::Expired | Self::Broken => behind.is_clear_http(),
            Self::Die => behind.is_clear_http(),
            Self::KillBehind => behind.is_ours(),
            _ => true,
        }
    }

    /// What the relay in front of the server does, and how often.
    pub(super) fn on_the_way(self, dice: &mut Dice, behind: Behind) -> Option<(Break, usize)> {
        let at = dice.pick(&[0, 100, 1000, 70_000, 300_000, 1_000_000, 2_000_000]) + dice.below(1000) as u64;
        let times = dice.pick(&[1, 1, 3, usize::MAX]);
        // A storage that fails is asked again for a while.
        let times = if behind == Behind::S3 && self == Self::Broken {
            1
        } else {
            times
        };
        let method = dice.pick(&["GET ", "GET ", "PUT ", "HEAD ", "PROPFIND ", "DELETE ", "POST "]);
        Some(match self {
            Self::CutDown => (Break::CutAfter(Direction::ToClient, at), times),
            Self::CutUp => (Break::CutAfter(Direction::ToTarget, at), times),
            Self::FlipDown => (Break::FlipBitAfter(Direction::ToClient, at), 1),
            Self::FlipUp => (Break::FlipBitAfter(Direction::ToTarget, at), 1),
            Self::Refuse => (Break::Refuse, times),
            Self::Die => (Break::DieAt(method), 1),
            Self::SlowDown => (Break::AnswerAt(method, SLOW_DOWN), usize::MAX),
            Self::SlowDownOnce => (Break::AnswerAt(method, SLOW_DOWN), 1),
            Self::Expired => (Break::AnswerAt(method, EXPIRED), times),
            Self::Broken => (Break::AnswerAt(method, BROKEN), times),
            Self::LateError => (Break::AnswerAt("POST ", LATE_ERROR), times),
            Self::None | Self::Changed | Self::Kill | Self::KillBehind => return None,
        })
    }
}

impl Named for Fault {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::CutDown => "answers cut",
            Self::CutUp => "requests cut",
            Self::Refuse => "refused",
            Self::FlipDown => "bit flipped, answers",
            Self::FlipUp => "bit flipped, requests",
            Self::Die => "dies before it answers",
            Self::SlowDown => "SlowDown",
            Self::SlowDownOnce => "SlowDown once",
            Self::Expired => "signature expired",
            Self::Broken => "500",
            Self::LateError => "error in 200",
            Self::Changed => "changed behind",
            Self::Kill => "killed",
            Self::KillBehind => "behind killed",
        }
    }
}
