//! DELETE: a file or a directory. A directory that is not empty is refused unless its export allows
//! removing it, since a mistake in a path must not cost a data set.

use http_wire::RequestHead;
use policy::Operation;
use types::{ErrorCode, Result};

use crate::access::check_conditions;
use crate::collections;
use crate::exchange::FileExchange;
use crate::state::PathChange;
use endpoint::{Change, Found};

/// Answers DELETE.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let export_path = exchange.export_path(ErrorCode::Forbidden)?;
    let path = exchange.http.path.clone();
    let found = exchange.lookup(&export_path, &path).await;
    let operation = if found.is_directory() {
        Operation::RemoveDirectory
    } else {
        Operation::Delete
    };
    exchange.authorize_here(operation)?;
    // Dangling links can be removed too, so other findings are left to the store.
    if let Found::Something(stat) = &found {
        check_conditions(head, Some(stat), &path)?;
    }
    let begun = exchange
        .begin_changes(head, &[PathChange::new(&export_path, &path, Change::Remove)])
        .await;
    if let Err(error) = &begun
        && error.code() == ErrorCode::Locked
        && found.is_directory()
    {
        // A client that may not remove the contents learns nothing about locks below.
        collections::admit_if_full(exchange, &export_path, &path).await?;
    }
    let changing = begun?;
    match export_path.store.during(&changing).remove(&export_path.path).await {
        Ok(()) => {
            changing.forget_locks();
            drop(changing);
            exchange.http.bare(204, |head| head).await
        }
        Err(error) if error.code() == ErrorCode::NotEmpty => {
            collections::remove(exchange, head, &export_path, changing, error.with_subject(&path)).await
        }
        Err(error) => Err(error.with_subject(&path)),
    }
}
