//! The side of a node: it announces itself, answers which names it has, and tells which change.

mod facts;
mod member;
mod names;
mod talk;
mod walk;
mod walk_all;

pub use facts::{Event, Kind, Listing, Named, NodeFacts, NodeSettings};
pub use member::{Member, MemberView};
