//! Options of `completions` and `man`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

pub(super) const COMPLETIONS: &str = "\
Examples:
  # In this bash
  source <(crossload completions bash)

Shells find them by themselves in these files:
  bash  ~/.local/share/bash-completion/completions/crossload
  zsh   _crossload, in a directory of fpath
  fish  ~/.config/fish/completions/crossload.fish";

/// Options of `completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsOptions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: CompletedShell,
}

/// A shell with completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

/// Options of `man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManualOptions {
    /// Directory for the pages; it is made if it is missing
    #[arg(value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}
