//! What every HTTP door needs below its own requests, written once.
//!
//! A door states in one table of [`Claim`]s which methods and paths it answers.
#![forbid(unsafe_code)]

mod claim;

pub use claim::{Captured, Claim, find};
