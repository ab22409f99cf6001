//! Options of `history`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use history::{Instrument, RunId};

/// What to do with the history.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum HistoryAction {
    /// List the runs that are kept, newest first
    List(HistoryListOptions),
    /// Print what a run has found, and how its endpoints stand
    Show(HistoryShowOptions),
    /// Print what differs between two runs
    ///
    /// Without runs: the newest one and the one before it with the same title. Exit code: 0 nothing
    /// is worse, 1 something fails that did not.
    Compare(HistoryCompareOptions),
    /// Print runs as JSON, one per line
    Export(HistoryExportOptions),
    /// Keep runs that are in files
    ///
    /// Runs of smoke, mesh and stress as JSON, and reports that bench --json wrote; a file may have
    /// several. What is kept already changes nothing.
    Import(HistoryImportOptions),
    /// Print what has become worse or better, since when and by how much
    ///
    /// Compares the last runs of each title with those before: figures of bench, failures of
    /// endpoints and links, times of copies. Exit code: 0 nothing is worse, 1 something is.
    Check(HistoryCheckOptions),
    /// Remove runs, such as those of a machine with a wrong clock
    Remove(HistoryRemoveOptions),
}

impl HistoryAction {
    /// The command's name in error messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::List(_) => "history list",
            Self::Show(_) => "history show",
            Self::Compare(_) => "history compare",
            Self::Export(_) => "history export",
            Self::Import(_) => "history import",
            Self::Check(_) => "history check",
            Self::Remove(_) => "history remove",
        }
    }
}

/// Where the history is.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryFile {
    /// File of the history
    ///
    /// Default: crossload/history.sqlite in XDG_STATE_HOME or ~/.local/state.
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which runs to look at.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct HistoryFilter {
    /// Only runs of this instrument: smoke, mesh, stress or bench
    #[arg(long, value_name = "NAME", value_parser = Instrument::from_name)]
    pub(crate) instrument: Option<Instrument>,
    /// Only runs with this title
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}

/// Options of `history list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryListOptions {
    #[command(flatten)]
    pub(crate) filter: HistoryFilter,
    /// Print at most so many
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = 50)]
    pub(crate) count: u64,
    #[command(flatten)]
    pub(crate) file: HistoryFile,
}

/// Options of `history show`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryShowOptions {
    /// Number of the run [default: the newest]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<RunId>,
    #[command(flatten)]
    pub(crate) filter: HistoryFilter,
    #[command(flatten)]
    pub(crate) file: HistoryFile,
}

/// Options of `history compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryCompareOptions {
    /// Number of the earlier run
    #[arg(value_name = "EARLIER", requires = "later")]
    pub(crate) earlier: Option<RunId>,
    /// Number of the later run
    #[arg(value_name = "LATER")]
    pub(crate) later: Option<RunId>,
    #[command(flatten)]
    pub(crate) filter: HistoryFilter,
    #[command(flatten)]
    pub(crate) file: HistoryFile,
}

/// Options of `history export`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryExportOptions {
    /// Numbers of the runs [default: the newest]
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<RunId>,
    /// The newest runs, so many, instead of the numbers; oldest first
    #[arg(short = 'n', long = "count", value_name = "N", conflicts_with = "runs")]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) filter: HistoryFilter,
    /// File of the history
    ///
    /// Default: crossload/history.sqlite in XDG_STATE_HOME or ~/.local/state.
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
}

/// Options of `history import`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryImportOptions {
    /// Files to read
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) file: HistoryFile,
}

/// Options of `history check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryCheckOptions {
    #[command(flatten)]
    pub(crate) filter: HistoryFilter,
    /// Print nothing unless something is worse
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) file: HistoryFile,
}

/// Options of `history remove`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryRemoveOptions {
    /// Numbers of the runs
    #[arg(required_unless_present = "future", value_name = "RUN")]
    pub(crate) runs: Vec<RunId>,
    /// All runs that begin more than a day in the future
    #[arg(long, conflicts_with = "runs")]
    pub(crate) future: bool,
    #[command(flatten)]
    pub(crate) file: HistoryFile,
}
