//! Documents of our own API.

mod file;
mod job;
mod link;
mod submission;
mod why;

pub(super) use file::{Attempt, File};
pub(super) use job::Job;
pub(super) use link::{Decision, Link};
pub(super) use submission::{NewJob, StoredJob};
pub(super) use why::Why;
