//! Options of the commands about directories and what is below them.

use clap::{ArgAction, Args, ValueEnum};

use super::client::Common;
use super::places::Places;

/// What entries are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortKey {
    /// Name
    Name,
    /// Size, the largest first
    Size,
    /// Time of the last change, the latest first
    Time,
    /// As the server lists them; a directory of any size is listed in little memory
    None,
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
