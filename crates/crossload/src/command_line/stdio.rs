//! Options of `stdio`.

use clap::Args;

use super::client::Common;

/// Options of `stdio`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StdioOptions {
    #[command(flatten)]
    pub(crate) common: Common,
}
