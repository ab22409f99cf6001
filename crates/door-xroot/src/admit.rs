//! What an open needs before a file is opened: rights, and the claim to write. It is the same for
//! plain opens and for both sides of third-party copies.

use endpoint::{Change, ExportPath, refusal};
use policy::Operation;
use storage::Stat;
use types::{Error, ErrorCode, LogicalPath, Side};
use xroot_wire::OpenOptions;
use xroot_wire::request::{Creation, Open};

use crate::exchange::{Exchange, Named};
use crate::failure::Result;
use crate::files::Content;
use crate::writers::WriteClaim;

/// Opens a file for a client that may read it.
pub(crate) async fn read(
    exchange: &mut Exchange<'_>,
    export_path: &ExportPath,
    path: &LogicalPath,
) -> Result<(Content, Stat)> {
    exchange.authorize(Operation::Read, path, None)?;
    exchange.settle(path).await?;
    let reader = export_path.store.open(&export_path.path).await;
    let reader = reader.map_err(|error| blame_asker(error).with_subject(path))?;
    let stat = reader.stat().clone();
    Ok((Content::Reading(reader), stat))
}

/// A name that is not a file is the client's fault, as a stat says too; another server that has the
/// files is named.
fn blame_asker(error: Error) -> Error {
    match error.code() {
        _ if error.side() == Side::Upstream => error,
        ErrorCode::NotFound | ErrorCode::ParentMissing | ErrorCode::IsDirectory | ErrorCode::NotDirectory => {
            error.at_side(Side::Client)
        }
        _ => error,
    }
}

/// Claims a file for writing; `alone`: no other writer may have claimed it.
pub(crate) fn claim_write(exchange: &Exchange<'_>, path: &LogicalPath, alone: bool) -> Result<WriteClaim> {
    let (writers, client) = (&exchange.connection.door.writers, exchange.connection.peer.ip());
    let busy = || refusal(ErrorCode::Busy, path).with_detail("another client is writing it");
    Ok(writers.claim(path, alone, client).ok_or_else(busy)?)
}

/// Whether an open must be the only writer. A client that forces it ignores others.
pub(crate) fn is_alone(request: &Open<'_>) -> bool {
    !request.options.contains(OpenOptions::FORCE)
}

/// What a client may do with the name of a file that it wants to store.
pub(crate) struct Admitted {
    pub(crate) max_bytes: Option<u64>,
    /// Whether an existing file may be replaced at the end.
    pub(crate) may_replace: bool,
    pub(crate) claim: WriteClaim,
}

/// Asks for the right to store a file, and claims it for writing.
pub(crate) async fn admit(
    exchange: &mut Exchange<'_>,
    export_path: &ExportPath,
    named: &Named<'_>,
    request: &Open<'_>,
) -> Result<Admitted> {
    let (path, creation) = (&named.path, request.creation());
    let size_bytes = named.cgi.expected_bytes();
    exchange.settle(path).await?;
    let found = exchange.lookup(export_path, path).await;
    let operation = match creation {
        Creation::MustNotExist => Operation::Create,
        Creation::MustExist => Operation::Overwrite,
        Creation::CreateOrTruncate => found.upload(),
    };
    let max_bytes = exchange.authorize(operation, path, size_bytes)?.max_upload_bytes;
    exchange.check_locks(export_path, path, Change::Store).await?;
    let claim = claim_write(exchange, path, is_alone(request))?;
    let exists = match creation {
        Creation::MustExist => found.into_present_file(path).map(|_| true)?,
        _ => found.into_file(path)?.is_some(),
    };
    if exists && creation == Creation::MustNotExist {
        return Err(refusal(ErrorCode::Exists, path).into());
    }
    // If nothing stood there, only the right to create was checked, which does not cover another
    // client's file.
    let may_replace = creation != Creation::MustNotExist && (exists || exchange.may_replace(path, size_bytes));
    Ok(Admitted {
        max_bytes,
        may_replace,
        claim,
    })
}
