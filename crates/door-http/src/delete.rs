//! DELETE: a file, or a directory. One that holds something stays unless its export says otherwise, since a mistake in a
//! path must not cost a data set.

use http_wire::RequestHead;
use policy::Operation;
use types::{ErrorCode, Result};

use crate::access::check_conditions;
use crate::collections;
use crate::exchange::Exchange;
use transfer::{Change, Found};

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
    exchange.check_changes(head, &[(&spot, &path, Change::Remove)]).await?;
    match spot.store.remove(&spot.path).await {
        Ok(()) => {
            exchange.exports.locks().forget(&path);
            exchange.bare(204, |head| head).await
        }
        Err(error) if error.code() == ErrorCode::NotEmpty => {
            collections::remove(exchange, head, &spot, error.with_subject(&path)).await
        }
        Err(error) => Err(error.with_subject(&path)),
    }
}
