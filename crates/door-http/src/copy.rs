//! COPY: within this server (RFC 4918 §9.8), or with another one as a third-party copy (WLCG
//! HTTP-TPC).

use endpoint::{Elsewhere, PathTarget};
use http_wire::{CopyPeer, CopyRequest, RequestHead};
use policy::Operation;
use types::{ErrorCode, Location, LogicalPath, Result};

use crate::authority::is_ours;
use crate::exchange::FileExchange;
use crate::local_copy::{LocalCopy, Other};
use crate::{delegation, elsewhere, forward, tpc};

/// Answers COPY.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let copy = CopyRequest::parse(head)?;
    if !copy.forwarded.is_empty() {
        exchange.http.admit_secrets()?;
    }
    if let PathTarget::Stored(export_path) = exchange.place(&exchange.http.path)
        && let Some(elsewhere) = export_path.store.elsewhere()
    {
        return at_its_server(exchange, head, &copy, elsewhere).await;
    }
    let answered = match local(exchange, head, &copy)? {
        Some(local) => local.run(exchange, head, &copy).await,
        None => match exchange.door.settings.site.forward_to.http.clone() {
            Some(server) => return forward::answer(exchange, head, &server).await,
            None => tpc::answer(exchange, head, copy.clone()).await,
        },
    };
    match answered {
        Err(error) if error.code() == ErrorCode::DelegationMissing => {
            delegation::ask_or_refuse(exchange, head, &copy, error).await
        }
        answered => answered,
    }
}

/// The server that has the file, or takes it, makes the copy.
async fn at_its_server(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    copy: &CopyRequest,
    elsewhere: &Elsewhere,
) -> Result<()> {
    if let CopyPeer::Source(_) = copy.peer {
        return elsewhere::store(exchange, head, elsewhere, None).await;
    }
    match elsewhere::read(exchange, head, elsewhere, Operation::Read).await? {
        true => Ok(()),
        false => Err(endpoint::refusal(ErrorCode::IsDirectory, &exchange.http.path)),
    }
}

/// Whether the other side of a copy is this server. Such a copy does not go through the network:
/// the server would have to authenticate to itself, and its address may be refused.
fn local(exchange: &FileExchange<'_, '_>, head: &RequestHead, copy: &CopyRequest) -> Result<Option<LocalCopy>> {
    let here = exchange.http.path.clone();
    let is_here =
        |place: &Location| copy.same_host || is_ours(exchange, head, &place.authority(), place.is_encrypted());
    let plain = |path| exchange.exports.respelled(&path).unwrap_or(path);
    let path_of = |place: &Location| {
        let path = match place.is_xrootd() {
            // XRootD URLs are not percent-encoded.
            true => LogicalPath::parse(place.path()),
            false => LogicalPath::parse_url_path(place.path()),
        };
        path.map(plain)
    };
    Ok(match &copy.peer {
        CopyPeer::Local(destination) => Some(LocalCopy {
            from: here,
            to: plain(destination.path.clone()),
            other: Other::Target,
        }),
        CopyPeer::Destination(place) if is_here(place) => Some(LocalCopy {
            from: here,
            to: path_of(place)?,
            other: Other::Target,
        }),
        CopyPeer::Source(place) if is_here(place) => Some(LocalCopy {
            from: path_of(place)?,
            to: here,
            other: Other::Origin,
        }),
        _ => None,
    })
}
