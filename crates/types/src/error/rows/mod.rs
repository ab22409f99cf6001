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

/// All rows, in the order of [`ErrorCode`](super::ErrorCode).
pub(super) const FAMILIES: &[&[Row]] = &[
    requests::ROWS,
    tokens::ROWS,
    certificates::ROWS,
    names::ROWS,
    peers::ROWS,
    queue::ROWS,
    tape::ROWS,
    cluster::ROWS,
    service::ROWS,
];
