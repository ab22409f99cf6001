//! The rows of the error table, one file per subject.

mod certificates;
mod cluster;
mod names;
mod peers;
mod queue;
mod requests;
mod service;
mod tape;
mod tokens;

use super::row::Row;

/// The rows about one subject.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The heading in documents.
    pub subject: &'static str,
    /// The rows.
    pub rows: &'static [Row],
}

/// All rows, in the order of [`ErrorCode`](super::ErrorCode).
pub const FAMILIES: &[Family] = &[
    Family {
        subject: "Requests",
        rows: requests::ROWS,
    },
    Family {
        subject: "Tokens, signatures and rights",
        rows: tokens::ROWS,
    },
    Family {
        subject: "Certificates",
        rows: certificates::ROWS,
    },
    Family {
        subject: "Files and storage",
        rows: names::ROWS,
    },
    Family {
        subject: "Other servers",
        rows: peers::ROWS,
    },
    Family {
        subject: "The queue",
        rows: queue::ROWS,
    },
    Family {
        subject: "Tape",
        rows: tape::ROWS,
    },
    Family {
        subject: "Clusters",
        rows: cluster::ROWS,
    },
    Family {
        subject: "Load and this server",
        rows: service::ROWS,
    },
];
