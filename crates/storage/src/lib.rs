//! Files here: the [`Storage`] trait and its back ends.
//!
//! A store keeps the promises of a stored file: a file under its final name is whole, an old file
//! stays untouched until the new one takes its place in one step, clean-up belongs to the upload
//! that wrote, checksums are kept with the file, and space is asked before the first byte.
#![deny(unsafe_code)]

mod adler32;
mod api;
mod commit_gauge;
mod commit_pool;
mod fault;
mod faulty;
mod hash;
mod lane;
mod links;
mod memory;
mod owner;
mod posix;

pub use adler32::Adler32;
pub use api::{
    CommitFacts, Entry, FileReader, Kind, Listing, Overwrite, Patience, Replacing, Space, Stat, Storage, TreeFailure,
    Upload, UploadOptions, VoUsage,
};
pub use faulty::{Effect, Fault, Faulty, Gate, Operation};
pub use hash::{Hasher, RangeSums, compute, read_some};
pub use lane::Lane;
pub use links::{LinkJudge, LinkUse, leads_where_it_is_refused};
pub use memory::Memory;
pub use owner::{LocalUser, Owner};
pub use posix::{Cleaned, HIDDEN_DIRECTORY, Posix, PosixOptions, VoQuota, can_act_as};
