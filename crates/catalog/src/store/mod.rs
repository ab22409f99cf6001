//! What both databases have in common: transactions over SQL in one dialect.
//!
//! Statements are written for PostgreSQL, in the part that SQLite shares: `$1` for parameters,
//! `ON CONFLICT`, `RETURNING`, partial indexes. What differs is a mark that each driver replaces:
//!
//! | mark | SQLite | PostgreSQL |
//! |---|---|---|
//! | `{lock}` | nothing: there is one writer | `FOR UPDATE` |
//! | `{lock_free}` | nothing | `FOR UPDATE SKIP LOCKED` |
//! | `{identity}` | `INTEGER PRIMARY KEY AUTOINCREMENT` | `BIGINT GENERATED … PRIMARY KEY` |
//! | `{blob}` | `BLOB` | `BYTEA` |
//! | `{by_hash}` | nothing: entries of an index have any length | `USING HASH` |
//! | `{queue_ids_go_on}` | nothing: it notices | new rows of `queue` come after those that were copied |

pub(crate) mod postgres;
mod readers;
pub(crate) mod sqlite;
mod value;
mod writer;

use std::future::Future;
use std::pin::Pin;

use types::{Error, ErrorCode, Phase, Result, Side};

pub(crate) use value::{Row, Value};

/// A step of an operation.
pub(crate) type Step<'t, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 't>>;

/// An open transaction.
pub(crate) trait Transaction: Send {
    /// Runs a statement; returns the number of changed rows.
    fn execute<'t>(&'t mut self, sql: &'t str, parameters: &'t [Value]) -> Step<'t, u64>;

    /// Runs a statement that returns rows.
    fn query<'t>(&'t mut self, sql: &'t str, parameters: &'t [Value]) -> Step<'t, Vec<Row>>;

    /// Runs a statement once for each set of parameters, over one round trip if the database is
    /// remote.
    fn execute_each<'t>(&'t mut self, sql: &'t str, sets: &'t [Vec<Value>]) -> Step<'t, Vec<u64>>;

    /// As [`Transaction::execute_each`], for statements that return rows.
    fn query_each<'t>(&'t mut self, sql: &'t str, sets: &'t [Vec<Value>]) -> Step<'t, Vec<Vec<Row>>>;

    /// Runs a script without parameters.
    fn script<'t>(&'t mut self, sql: &'t str) -> Step<'t, ()>;

    /// From here to the end of the transaction no other one adds events, so that their numbers grow
    /// in the order in which they become visible. Wakes those who wait for changes, after the end.
    fn order_events(&mut self) -> Step<'_, ()>;
}

/// An operation: may run several times, until its transaction is committed.
pub(crate) trait Operation<T>:
    for<'t> Fn(&'t mut dyn Transaction) -> Step<'t, T> + Send + Sync + 'static
{
}

impl<T, F: for<'t> Fn(&'t mut dyn Transaction) -> Step<'t, T> + Send + Sync + 'static> Operation<T> for F {}

/// An error of this crate.
pub(crate) fn failure(code: ErrorCode) -> Error {
    Error::new(code, Side::Queue, Phase::Queued)
}

/// The use of the database has ended.
pub(crate) fn stopped() -> Error {
    failure(ErrorCode::CatalogUnavailable).with_detail("the database was closed")
}

/// What the database holds is not what we have put there.
pub(crate) fn damaged(what: &str) -> Error {
    failure(ErrorCode::CatalogDamaged).with_private(what)
}
