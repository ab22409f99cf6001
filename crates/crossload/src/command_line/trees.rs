//! Options of the commands about directories and what is below them.

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use globset::Glob;

use super::client::{Common, time};
use super::habits::ListHabits;
use super::places::Places;
use super::server::size;

/// What entries are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortKey {
    /// Name
    Name,
    /// Size, the largest first
    Size,
    /// Time of the last change, the latest first
    Time,
    /// As the server lists them, at once
    None,
}

/// How `ls` names entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListedName {
    /// The last name
    #[default]
    Name,
    /// The whole path, as `xrdfs ls` does
    Path,
    /// The URL, as `xrdfs ls -u` does
    Url,
}

/// Options of `ls`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Print kind, size and time
    #[arg(short)]
    pub(crate) long: bool,
    /// Include names that begin with a dot
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Print the directory itself, not its entries
    #[arg(short, long)]
    pub(crate) directory: bool,
    /// List all directories below, too
    #[arg(short = 'R', long, conflicts_with = "directory")]
    pub(crate) recursive: bool,
    /// Print sizes such as 1.2G, in powers of 1024
    #[arg(short = 'H', visible_short_alias = 'h', long)]
    pub(crate) human_readable: bool,
    /// Sort the entries of a directory
    #[arg(long, value_name = "KEY", value_enum, default_value_t = SortKey::Name)]
    pub(crate) sort: SortKey,
    /// Reverse the order of --sort
    #[arg(short, long)]
    pub(crate) reverse: bool,
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ListedName::Name, hide = true)]
    pub(crate) names: ListedName,
    #[command(flatten)]
    pub(crate) habits: ListHabits,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub(crate) help: Option<bool>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `du`.
#[derive(Clone, Debug, Args)]
pub(crate) struct UsageOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Print only the sum of each argument
    #[arg(short, long)]
    pub(crate) summarize: bool,
    /// Print directories down to this depth; the argument itself is 0 [default: all]
    #[arg(short = 'd', long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    pub(crate) max_depth: usize,
    /// Print sizes such as 1.2G, in powers of 1024
    #[arg(short = 'H', visible_short_alias = 'h', long)]
    pub(crate) human_readable: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub(crate) help: Option<bool>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What `find` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FoundKind {
    /// Files
    #[value(alias = "f")]
    File,
    /// Directories
    #[value(alias = "d")]
    Directory,
    /// Links, pipes and other names that are not copied
    Other,
}

/// Options of `find`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FindOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Names that match this pattern, such as '*.root'; can be repeated, then any
    #[arg(long, value_name = "GLOB")]
    pub(crate) name: Vec<Glob>,
    /// Only this kind
    #[arg(long = "type", value_name = "KIND", value_enum)]
    pub(crate) kind: Option<FoundKind>,
    /// Files of at least this size, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) min_size: Option<u64>,
    /// Files of at most this size
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_size: Option<u64>,
    /// Changed at least this long ago, such as 2h or 30d
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) min_age: Option<Duration>,
    /// Changed at most this long ago
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_age: Option<Duration>,
    /// Down to this depth; the argument itself is 0 [default: no limit]
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    pub(crate) max_depth: usize,
    /// End each name with a NUL, for xargs -0
    #[arg(short = '0', long, conflicts_with = "json")]
    pub(crate) print0: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `tree`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TreeOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Down to this depth [default: no limit]
    #[arg(short = 'L', long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    pub(crate) max_depth: usize,
    /// Print sizes such as 1.2G, in powers of 1024
    #[arg(short = 'H', visible_short_alias = 'h', long)]
    pub(crate) human_readable: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub(crate) help: Option<bool>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `df`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SpaceOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Print sizes such as 1.2G, in powers of 1024
    #[arg(short = 'H', visible_short_alias = 'h', long)]
    pub(crate) human_readable: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub(crate) help: Option<bool>,
    #[command(flatten)]
    pub(crate) common: Common,
}
