//! Options of `cache`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use types::LogicalPath;

use super::server::logical_path;

/// What to do with a cache.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheAction {
    /// List the files in a cache
    Ls(CacheOptions),
    /// Print how much of files is cached
    Stat(CachedFilesOptions),
    /// Remove files from a cache
    ///
    /// The server fetches them again when clients want them. Clients that are reading them get the
    /// rest.
    Evict(CachedFilesOptions),
    /// Compare the checksums of everything in a cache
    Verify(CacheVerifyOptions),
}

impl CacheAction {
    /// The command's name in error messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ls(_) => "cache ls",
            Self::Stat(_) => "cache stat",
            Self::Evict(_) => "cache evict",
            Self::Verify(_) => "cache verify",
        }
    }
}

/// Options of `cache ls`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CacheOptions {
    /// The `cache_directory` of the export
    pub(crate) directory: PathBuf,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `cache stat` and `cache evict`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CachedFilesOptions {
    #[command(flatten)]
    pub(crate) cache: CacheOptions,
    /// Paths within the export, such as /set/file
    #[arg(required = true, value_name = "/PATH", value_parser = logical_path)]
    pub(crate) paths: Vec<LogicalPath>,
}

/// Options of `cache verify`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CacheVerifyOptions {
    #[command(flatten)]
    pub(crate) cache: CacheOptions,
    /// Remove what is damaged, so that it is fetched again
    #[arg(long)]
    pub(crate) repair: bool,
}
