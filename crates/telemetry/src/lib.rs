//! What happens on the data path, for those who watch it: files that clients use, clients that
//! leave, third-party copies that end.
//!
//! Doors tell events to a [`Hub`], which puts them into the queue of each sink. A sink that is slow
//! or stands still never delays a door: what its queue does not take is dropped and counted. A
//! server without sinks pays nothing.
#![forbid(unsafe_code)]

mod client;
mod copied;
mod file_use;
mod fireflies;
mod flow;
mod http_tally;
mod hub;
mod moment;
mod otlp;
mod reporter;
mod span;
mod spool;

pub use client::{Client, Spoken};
pub use copied::Copied;
pub use file_use::{Counts, FileUse, Opening, Used};
pub use fireflies::{Fireflies, FireflyLine};
pub use flow::{Connection, Ends, Flow, FlowFacts, Flowing, Marked, Marking, MarkingRule, SharedMarking};
pub use http_tally::HttpEnding;
pub use hub::{Event, Gone, Hears, Hub, Queue, Sink};
pub use monitoring_wire::{FIREFLY_PORT, FlowLabel};
pub use otlp::{ExportAnswer, TraceSource, export_request};
pub use reporter::{Datagram, Reporter, Wishes};
pub use span::{Sampler, Span, SpanEvent, SpanKind, SpanStatus, Value};
pub use spool::{SPOOL_READ_TRIES, Spool, Spooled};
