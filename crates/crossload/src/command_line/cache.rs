//! Options of `cache`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use types::LogicalPath;

use super::client::{Common, SelectOptions};
use super::places::Places;
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
    /// Bring files into the cache of a server
    ///
    /// The server fetches them, with your rights there. Over HTTP only a byte of each block comes
    /// here, and whether the cache has the file is asked before and after.
    Prefetch(Box<PrefetchOptions>),
}

impl CacheAction {
    /// The command's name in error messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ls(_) => "cache ls",
            Self::Stat(_) => "cache stat",
            Self::Evict(_) => "cache evict",
            Self::Verify(_) => "cache verify",
            Self::Prefetch(_) => "cache prefetch",
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

/// Options of `cache prefetch`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PrefetchOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Bring all files in directories, too
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Files of a directory that are brought at the same time, 1 to 64
    #[arg(
        long,
        visible_alias = "transfers",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=64),
        default_value_t = 4
    )]
    pub(crate) parallel: u32,
    #[command(flatten)]
    pub(crate) select: SelectOptions,
    #[command(flatten)]
    pub(crate) common: Common,
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
