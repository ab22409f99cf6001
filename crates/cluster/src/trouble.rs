//! Why a node is not used as configured, in words.

use types::LogicalPath;

/// Why a node is not used as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It does not answer.
    Away(String),
    /// It refuses the redirector's questions.
    Refuses(String),
    /// It is there, and answers no questions.
    Mute(String),
    /// Its clock is so many seconds ahead of ours, or behind.
    Clock {
        /// Negative if it is behind.
        ahead_s: i64,
    },
    /// It does not export trees that the configuration gives to it.
    NotExported(Vec<LogicalPath>),
}

impl Trouble {
    /// Whether it keeps clients away: those with new files, or the others.
    pub fn keeps_from(&self, new_files: bool) -> bool {
        match self {
            Self::Clock { .. } => false,
            Self::NotExported(_) => new_files,
            Self::Away(_) | Self::Refuses(_) | Self::Mute(_) => true,
        }
    }

    /// The trouble without what the node said or did, for everyone.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Away(_) => "It does not answer.",
            Self::Refuses(_) => "It refuses the redirector's questions.",
            Self::Mute(_) => "It answers no questions about names.",
            Self::Clock { .. } => "Its clock differs from the redirector's.",
            Self::NotExported(_) => "It does not export all that it should.",
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ended = |words: &str| words.trim_end_matches('.').to_owned();
        match self {
            Self::Away(reason) => write!(formatter, "It does not answer: {}.", ended(reason)),
            Self::Refuses(words) => write!(
                formatter,
                "It refuses the redirector's questions ({}): set token_file of its [[node]] to a token with which the \
                 redirector may read there.",
                ended(words)
            ),
            Self::Mute(words) => write!(formatter, "It answers no questions about names: {}.", ended(words)),
            Self::Clock { ahead_s } => {
                let side = if *ahead_s < 0 { "behind" } else { "ahead of" };
                write!(
                    formatter,
                    "Its clock is {} s {side} the redirector's: set both by NTP, or tokens and capabilities do not hold.",
                    ahead_s.unsigned_abs()
                )
            }
            Self::NotExported(paths) => {
                let paths: Vec<&str> = paths.iter().map(LogicalPath::as_str).collect();
                write!(
                    formatter,
                    "It does not export {}, and gets no new files there: correct exports of its [[node]], or its own \
                     [[export]].",
                    paths.join(", ")
                )
            }
        }
    }
}
