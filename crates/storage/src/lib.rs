//! Files on this machine: the [`Store`] trait that doors and engine use, with its handles of open
//! files, and the back ends, which implement the blocking [`Storage`] and run behind a
//! [`BlockingStore`].
//!
//! A store guarantees: a file under its final name is complete; a new file replaces the old one in
//! one step, which stays untouched until then; each upload cleans up after itself; checksums are
//! stored with the file; and space is checked before the first byte.
#![deny(unsafe_code)]

mod adler32;
mod api;
mod aside;
mod blocking_handle;
mod blocking_store;
mod fault;
mod faulty;
mod handle;
mod hash;
pub mod limits;
mod links;
pub mod local;
mod memory;
mod name_in;
mod owner;
mod posix;
mod residency;
mod store;

pub use adler32::Adler32;
pub use api::{
    CommitFacts, Entry, FileReader, Kind, Listing, OldFile, Overwrite, Patience, Replacing, Space, Stat, Storage,
    TreeFailure, Upload, UploadOptions, VoUsage,
};
pub use aside::{Beside, COPIED, REPLACED, name_aside};
pub use blocking_handle::{BlockingReader, BlockingWriter, SystemFile};
pub use blocking_store::BlockingStore;
pub use faulty::{Effect, Fault, Faulty, Latch, Operation};
pub use handle::{HoldMemory, ReadHandle, RoomPart, WriteHandle, WriteOrder, place};
pub use hash::{HashSlice, Hasher, RangeSums};
pub use links::{LinkChecker, LinkUse, refused_behind_link};
pub use memory::Memory;
pub use owner::{ClientCredential, ClientName, ClientToken, LocalUser, Owner};
pub use posix::{Cleaned, DeadLinks, HIDDEN_DIRECTORY, Posix, PosixOptions, SecretFiles, VoQuota, can_act_as};
pub use store::{Answer, ChangeProperties, Check, DirectoryReader, FindOwner, Held, Store};
