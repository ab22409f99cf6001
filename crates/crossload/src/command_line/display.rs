//! Options about how output looks.

use anstream::ColorChoice;
use clap::{Args, ValueEnum};

/// When output has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    /// On terminals
    Auto,
    /// Always, except in JSON
    Always,
    /// Never
    Never,
}

/// Options about how output looks.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "General options")]
pub(crate) struct DisplayOptions {
    /// Print names of directories and links, errors and results in colours [default: auto]
    ///
    /// auto: on terminals, as NO_COLOR, CLICOLOR and CLICOLOR_FORCE say.
    #[arg(long, value_name = "WHEN", value_enum)]
    color: Option<When>,
}

impl DisplayOptions {
    /// When output has colours.
    pub(crate) fn colour(&self) -> ColorChoice {
        match self.color {
            None | Some(When::Auto) => ColorChoice::Auto,
            Some(When::Always) => ColorChoice::Always,
            Some(When::Never) => ColorChoice::Never,
        }
    }
}
