//! Operations on a directory with everything in it.

mod copy;
mod hidden;
mod remove;
mod replace;
mod walk;

pub(super) use copy::copy;
pub(super) use remove::{remove, unlink_tree};
pub(super) use replace::move_over;
