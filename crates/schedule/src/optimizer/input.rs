//! What the optimizer is given, and what it decides.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::limits;

/// A source and a destination storage, each as `scheme://host:port`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Link {
    /// The storage that has the files.
    pub source: String,
    /// The storage that gets them.
    pub destination: String,
}

impl fmt::Display for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} to {}", self.source, self.destination)
    }
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Files come from there.
    Source,
    /// Files go there.
    Destination,
}

/// The limits that operators set for a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkBounds {
    /// Copies at once: at least, while files wait and the endpoints are up.
    pub min: u32,
    /// Copies at once: at most.
    pub max: u32,
    /// Its part of a shared storage relative to other links; 1.0 unless configured.
    pub weight: f64,
}

impl Default for LinkBounds {
    fn default() -> Self {
        Self {
            min: 1,
            max: limits::LINK_MAX_COPIES,
            weight: 1.0,
        }
    }
}

/// The limits that operators set for one direction of a storage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StorageBounds {
    /// Copies at once: at most.
    pub max: Option<u32>,
    /// Goodput at most, in bytes/s.
    pub max_goodput: Option<f64>,
}

/// A link since the last sample.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSample {
    /// The link.
    pub link: Link,
    /// Payload that its running copies moved since the last sample, in bytes, from their markers.
    pub bytes_moved: u64,
    /// Copies that run now.
    pub active: u32,
    /// Files that could start now if there were room.
    pub waiting: u32,
}

/// Why a copy failed, as the optimizer needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The endpoint cannot be reached, or does not answer.
    EndpointDown,
    /// The endpoint asks for less: HTTP 429, 503, or 507 for a lack of workers.
    Overload,
    /// The copy made no progress for too long.
    Stall,
    /// The storage is full. The service holds the link; concurrency has nothing to do with it.
    Full,
    /// Only this file: missing, wrong checksum, exists already.
    File,
    /// A credential was refused.
    Authorization,
    /// A setting is wrong: no common protocol, unknown authority.
    Configuration,
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The file arrived.
    Copied {
        /// Its size.
        size_bytes: u64,
    },
    /// It did not.
    Failed {
        /// The class of the error.
        class: FailureClass,
        /// Which end failed; `None`: unknown, or the network between them.
        end: Option<End>,
        /// The delay that the server asked for.
        retry_after_ms: Option<i64>,
    },
}

/// The figures that a decision was based on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// Goodput of the link, in bytes/s.
    pub goodput: f64,
    /// Copies that ran.
    pub active: u32,
    /// Files that waited.
    pub waiting: u32,
    /// Mean size of the files that ended last, in bytes; 0 before the first.
    pub mean_size: f64,
    /// Copies that the source sustains on all its links, where known.
    pub source_limit: Option<u32>,
    /// Copies that the destination sustains on all its links, where known.
    pub destination_limit: Option<u32>,
}

/// A change of a link's number of copies, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The link.
    pub link: Link,
    /// The number of copies until now.
    pub from: u32,
    /// The number of copies from now on.
    pub to: u32,
    /// Why, in words for operators.
    pub rationale: String,
    /// The figures behind it.
    pub inputs: Inputs,
}
