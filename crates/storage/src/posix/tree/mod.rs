//! What is done to a directory with everything in it.

mod hidden;
mod remove;
mod walk;

pub(super) use remove::{remove, unlink_tree};
