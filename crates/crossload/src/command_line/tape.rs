//! Options of `stage`, `evict` and `archived`.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

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
    /// gfal-bringonline's: waits this long, if at all.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "wait", hide = true)]
    polling_timeout: Option<Duration>,
    /// gfal-bringonline's, of SRM.
    #[arg(long, value_name = "TIME", hide = true)]
    desired_request_time: Option<String>,
    /// gfal-bringonline's: data for the tape system.
    #[arg(long, value_name = "JSON", value_parser = metadata, hide = true)]
    pub(crate) staging_metadata: Option<Value>,
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
    /// Asks for files, and waits for them, not longer than `limit`.
    New {
        pin_s: Option<u32>,
        is_awaited: bool,
        limit: Option<Duration>,
    },
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
            (None, None) => {
                let limit = self.polling_timeout.filter(|limit| !limit.is_zero());
                let pin = self.pin.filter(|pin| !pin.is_zero());
                StageRequest::New {
                    pin_s: pin.map(|pin| u32::try_from(pin.as_secs()).unwrap_or(u32::MAX)),
                    is_awaited: self.wait || limit.is_some(),
                    limit,
                }
            }
        }
    }
}

/// An object for the tape system; nothing if it is empty.
fn metadata(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        _ if text.is_empty() => Ok(Value::Null),
        Ok(object @ Value::Object(_)) => Ok(object),
        _ => Err("no JSON object".to_owned()),
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
    /// gfal-archivepoll's: there is no waiting here.
    #[arg(long, value_name = "TIME", value_parser = no_wait, hide = true)]
    polling_timeout: Option<u32>,
    #[command(flatten)]
    pub(crate) common: Common,
}

fn no_wait(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Ok(0),
        _ => Err("run the command again later instead: archived does not wait".to_owned()),
    }
}
