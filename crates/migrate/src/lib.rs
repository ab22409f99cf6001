//! Translates the configuration of another program into ours: `crossload migrate`.
//!
//! A module for each program reads its files through [`Files`] and fills a [`Migration`]:
//! documents of ours, in which each key names the line that it comes from, and a remark for each
//! line that was read. What cannot be translated is a remark with advice, and never a wider right.
//!
//! To add a program: a variant of [`System`], its module, and a line in [`System::migrate`].
#![forbid(unsafe_code)]

mod dcache;
mod document;
mod environment;
mod files;
mod fts;
mod gfal;
mod ini;
pub mod limits;
mod lookup;
mod migration;
mod properties;
mod remark;
mod rights;
mod source;
mod storm;
mod system;
mod xrootd;
mod yaml;

pub use document::{Document, DocumentKind, Entry, Section};
pub use files::{Disk, Files, InMemory, Unreadable};
pub use migration::{Migration, TextFile};
pub use remark::{Outcome, Remark};
pub use source::Source;
pub use system::{Order, System};
