//! The side of a redirector: it hears the nodes, keeps copies of their filters, and asks those that
//! may have a name.

mod asking;
mod ear;
mod peer;
mod placements;
mod questions;
mod source;
mod speakers;
mod watch;

pub use peer::PeerCounts;
pub use source::{Event, NatsNode, NatsSource, NodeView, RedirectorSettings, SourceFault, SourceView};
