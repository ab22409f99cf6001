//! DELETE: a file, or an empty directory. A directory that holds something stays, since a mistake
//! in a path must not cost a data set.

use http_wire::RequestHead;
use policy::Operation;
use types::{ErrorCode, Result};

use crate::access::check_conditions;
use crate::exchange::Exchange;
use transfer::Found;

/// Answers DELETE.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, head: &RequestHead) -> Result<()> {
    let spot = exchange.spot(ErrorCode::Forbidden)?;
    let path = exchange.path.clone();
    let found = exchange.look(&spot, &path).await;
    let operation = if found.is_directory() {
        Operation::RemoveDirectory
    } else {
        Operation::Delete
    };
    exchange.authorize_here(operation)?;
    // A link that leads nowhere can be removed as well, so trouble is left to the store.
    if let Found::Something(stat) = &found {
        check_conditions(head, Some(stat), &path)?;
    }
    spot.store
        .remove(&spot.path)
        .await
        .map_err(|error| error.with_subject(&path))?;
    exchange.bare(204, |head| head).await
}
