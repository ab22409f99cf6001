//! Options of `stage`, `evict` and `archived`.

use std::time::Duration;

use clap::Args;

use super::client::{Common, time};
use super::places::Places;

/// Options of `stage`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StageOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Ask that the files stay on disk for this long, such as 12h [default: as the storage likes]
    #[arg(long, alias = "pin-lifetime", value_name = "TIME", value_parser = time)]
    pin: Option<Duration>,
    /// Wait until all files are online
    #[arg(short, long)]
    wait: bool,
    /// Print how far this earlier request is
    #[arg(long, value_name = "REQUEST", conflicts_with_all = ["pin", "wait"])]
    status: Option<String>,
    /// Cancel this earlier request
    #[arg(long, value_name = "REQUEST", conflicts_with_all = ["pin", "wait", "status"])]
    cancel: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What `stage` does.
pub(crate) enum StageRequest {
    /// Asks for files.
    New { pin_s: Option<u32>, is_awaited: bool },
    /// Asks about an earlier request.
    Status(String),
    /// Cancels an earlier request.
    Cancel(String),
}

impl StageOptions {
    /// What to do.
    pub(crate) fn request(&self) -> StageRequest {
        match (&self.status, &self.cancel) {
            (Some(id), _) => StageRequest::Status(id.clone()),
            (None, Some(id)) => StageRequest::Cancel(id.clone()),
            (None, None) => StageRequest::New {
                pin_s: self.pin.map(|pin| u32::try_from(pin.as_secs()).unwrap_or(u32::MAX)),
                is_awaited: self.wait,
            },
        }
    }
}

/// Options of `evict`.
#[derive(Clone, Debug, Args)]
pub(crate) struct EvictOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    /// The request that brought the files online; needed over HTTP
    #[arg(long, value_name = "REQUEST")]
    pub(crate) request: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of `archived`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ArchivedOptions {
    #[command(flatten)]
    pub(crate) places: Places,
    #[command(flatten)]
    pub(crate) common: Common,
}
