//! The pure part of the transfer queue: the states of jobs and files, and what runs next.
//!
//! This crate reads no file, no clock and no database. Time comes in as milliseconds since 1970,
//! and every decision can be repeated from its arguments.
#![forbid(unsafe_code)]

mod id;
mod job;
mod life;
pub mod limits;
pub mod optimizer;
mod reason;
pub mod scheduler;
pub mod selection;
mod state;
pub mod storage;
pub mod why;

pub use id::{FileId, JobId};
pub use job::{Consequence, JobTally, Unused};
pub use life::{Entry, FileEvent, Impossible};
pub use reason::{BanNotice, CredentialEnd, CredentialKind, Hold, Reason, StorageFull};
pub use state::{FileState, JobKind, JobState};
