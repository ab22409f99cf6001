//! Files here: the [`Store`] trait that doors and the engine hold, and the back ends, which are blocking
//! [`Storage`] behind a [`BlockingStore`].
//!
//! A store keeps the promises of a stored file: a file under its final name is whole, an old file
//! stays untouched until the new one takes its place in one step, clean-up belongs to the upload
//! that wrote, checksums are kept with the file, and space is asked before the first byte.
#![deny(unsafe_code)]

mod adler32;
mod api;
mod blocking_store;
mod fault;
mod faulty;
mod hash;
pub mod limits;
mod links;
pub mod local;
mod memory;
mod owner;
mod posix;
mod store;

pub use adler32::Adler32;
pub use api::{
    CommitFacts, Entry, FileReader, Kind, Listing, Overwrite, Patience, Replacing, Space, Stat, Storage, TreeFailure,
    Upload, UploadOptions, VoUsage,
};
pub use blocking_store::BlockingStore;
pub use faulty::{Effect, Fault, Faulty, Gate, Operation};
pub use hash::{Hasher, RangeSums, compute, read_some};
pub use links::{LinkJudge, LinkUse, leads_where_it_is_refused};
pub use memory::Memory;
pub use owner::{LocalUser, Owner};
pub use posix::{Cleaned, DeadLinks, HIDDEN_DIRECTORY, Posix, PosixOptions, SecretFiles, VoQuota, can_act_as};
pub use store::{Answer, ChangeProperties, DirectoryReader, FindOwner, Held, Store};
