//! The queue's database: jobs, files, settings, credentials and events.
#![forbid(unsafe_code)]

mod job;
mod settings;

pub use job::{
    ChecksumMode, CopyMode, FileOptions, FileRecord, JobOptions, JobRecord, Login, NewFile, NewJob, Overwrite, Owner,
    Problem, Selection, Times,
};
pub use settings::{Ban, BanEffect, LinkSettings, StorageSettings, ThirdPartyRole, VoSettings};
