//! A data server of ours in an XRootD cluster: it logs in to the cluster's managers (`cmsd`), says
//! what it exports, answers which files it has, and reports load and space.
//!
//! [`Leaf`] runs one task for each manager. A manager gets its answers from the [`Server`] that the
//! leaf belongs to. Managers are independent: one that hangs or refuses does not delay the others,
//! and none of them is on the way of a client's data.

mod address;
mod leaf;
pub mod limits;
mod link;
mod pauses;
mod report;
mod server;
mod session;
#[cfg(test)]
mod tests;

pub use address::ManagerAddress;
pub use leaf::{Leaf, Settings};
pub use link::{LinkState, LinkView};
pub use report::Vitals;
pub use server::{Event, Exported, Fault, Server};
pub use xroot_wire::cms::Presence;
