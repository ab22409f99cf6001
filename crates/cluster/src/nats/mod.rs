//! A cluster over a message bus (NATS): nodes announce themselves, tell which names come and go,
//! and answer who has a name; redirectors listen.
//!
//! A question wakes only nodes that may have the name. Each node publishes a [`filter`] of its
//! names. Redirectors keep copies: they fetch pieces on request, and hear of changed names as they
//! happen. Changes are numbered, so that a gap is seen. A node whose copy is missing or in doubt is
//! asked about every name. "No node has it" is certain as soon as the nodes that may have it have
//! said no.
//!
//! The bus carries no file, and no state that is lost with it: while it is away, what is known goes
//! on being answered, and nodes are not taken for lost.
//!
//! [`subjects`] says how messages are addressed, and why no one can speak for a node.

pub mod announcement;
pub mod bus;
pub mod filter;
pub mod limits;
pub mod message;
pub mod node;
pub mod redirector;
pub mod subjects;
pub mod trial;

pub use bus::{Access, AccessFault, BusEvent, BusView, ClientCertificate, Identity};
pub use subjects::{BusName, Subjects};
