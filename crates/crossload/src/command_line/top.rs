//! Options of `top`.

use std::time::Duration;

use clap::Args;

use super::client::{Common, time};

/// Examples of its help.
pub(super) const EXAMPLES: &str = "\
Examples:
  # What an endpoint, redirector or queue does now, by the address of its pages
  crossload top http://localhost:8450

  # Once, for a script
  crossload top http://localhost:8450 --json

  # As an operator, who may end copies, cancel jobs and drain workers
  crossload top https://queue.example:8450 --token-file operator.token

Keys: Tab next view, / filter, s sort, Space pause, ? all keys, q quit. Up and
Down select a row; c ends its copy or cancels its job, d drains its worker or
uses it again. Both ask first, and are for operators ([web] operators).

Exit code: 0, also if the server refused an order; else the errno of the failure.";

/// Options of `top`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TopOptions {
    /// The pages of a server ([web] listen or queue_listen)
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Show only what has this text in a name, as the filter of the page
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) filter: String,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub(crate) interval: Duration,
    /// Print everything once and exit; the default when the output is not a terminal
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
