//! MKCOL: one new directory below one that exists (RFC 4918 §9.3).

use http_wire::RequestHead;
use policy::Operation;
use types::{Error, ErrorCode, Result};

use crate::exchange::FileExchange;
use crate::state::PathChange;
use endpoint::{Change, refusal};

/// Answers MKCOL.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let export_path = exchange.export_path(ErrorCode::DirectoryExists)?;
    exchange.authorize_here(Operation::MakeDirectory)?;
    let path = exchange.http.path.clone();
    if !exchange.http.incoming.is_done() {
        // RFC 4918 §9.3.1: a body would describe the contents, in a format that does not exist.
        return Err(refusal(ErrorCode::UnsupportedMediaType, &path).with_detail("MKCOL without a body"));
    }
    if export_path.path.is_root() {
        return Err(refusal(ErrorCode::DirectoryExists, &path));
    }
    let changing = exchange
        .begin_changes(head, &[PathChange::new(&export_path, &path, Change::Store)])
        .await?;
    let made = export_path
        .store
        .during(&changing)
        .make_directory(&export_path.path, false)
        .await;
    made.map_err(|error| as_webdav_has_it(error).with_subject(&path))?;
    drop(changing);
    exchange.http.whole(201, &[], |head| head).await
}

/// RFC 4918 §9.3.1: 405 for a name that is taken, also by a file, and 409 for a missing parent;
/// davix reads "exists" and "no such directory" from these.
fn as_webdav_has_it(error: Error) -> Error {
    let code = match error.code() {
        ErrorCode::Exists => {
            let error = Error::new(ErrorCode::MethodNotAllowed, error.side(), error.phase());
            return error.with_detail("a file of this name exists");
        }
        ErrorCode::NotFound => ErrorCode::ParentMissing,
        _ => return error,
    };
    Error::new(code, error.side(), error.phase())
}
