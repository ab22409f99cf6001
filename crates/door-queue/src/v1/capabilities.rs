//! What storages can do, as a mesh has seen it.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http_server::control::Client;
use queue::{Capability, Cell, Credential, Known, Operation, Part, Peer};
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{Answered, ErrorAnswer, bad};
use super::links::storage;
use super::request;
use crate::limits::{CAPABILITIES_AT_ONCE_MAX, OPERATION_BYTES_MAX};
use crate::queue::SeenCapability;
use crate::respond::nothing;
use crate::rest::entry;
use crate::settings::{Shared, now_ms};

/// What storages have shown in copies.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object with the member items")]
pub(super) struct Seen {
    /// At most 2000.
    #[schema(max_items = 2000)]
    items: Vec<SeenItem>,
}

/// What a storage has shown that it can do, or cannot.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object with the members of a capability")]
pub(super) struct SeenItem {
    /// The storage, with its port.
    #[schema(example = "https://host:443", pattern = r"^[A-Za-z][A-Za-z0-9+.-]*://.+:[0-9]+/?$")]
    storage: String,
    /// What it does with the file.
    operation: SeenOperation,
    /// Its part in the copy.
    part: SeenPart,
    /// The protocol of the storage on the other side.
    peer: SeenPeer,
    /// What it was shown.
    credential: SeenCredential,
    /// Whether it can.
    can: bool,
    /// When this was seen.
    at_ms: i64,
}

/// What a storage does with a file.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SeenOperation {
    /// It is the source.
    Read,
    /// It is the destination.
    Write,
}

/// The part of a storage in a copy.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SeenPart {
    /// It moves the data.
    Active,
    /// Another one does.
    Passive,
}

/// A family of protocols.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SeenPeer {
    /// HTTP.
    Http,
    /// The XRootD protocol.
    Root,
}

/// What a storage is shown.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SeenCredential {
    /// Nothing.
    None,
    /// A certificate, or a proxy of one.
    X509,
    /// A token.
    Token,
    /// A macaroon that it has issued.
    Macaroon,
}

impl SeenItem {
    fn cell(&self) -> Cell {
        Cell {
            operation: match self.operation {
                SeenOperation::Read => Operation::Read,
                SeenOperation::Write => Operation::Write,
            },
            part: match self.part {
                SeenPart::Active => Part::Active,
                SeenPart::Passive => Part::Passive,
            },
            peer: match self.peer {
                SeenPeer::Http => Peer::Http,
                SeenPeer::Root => Peer::Root,
            },
            credential: match self.credential {
                SeenCredential::None => Credential::None,
                SeenCredential::X509 => Credential::X509,
                SeenCredential::Token => Credential::Token,
                SeenCredential::Macaroon => Credential::Macaroon,
            },
        }
    }
}

/// Report what storages can do
///
/// What copies outside of the queue have shown, such as those of `crossload mesh`. The queue
/// remembers it like what its own copies show, and the latest counts. A time in the future is taken
/// for now. For operators.
#[utoipa::path(
    post, path = "/capabilities", tag = "links", operation_id = "report_capabilities", request_body = Seen,
    responses((status = 204, description = "They are known."), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn report(State(settings): Shared, client: Client, body: Body) -> Answered<Response> {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let seen: Seen = request::body(body, OPERATION_BYTES_MAX).await?;
    if seen.items.len() > CAPABILITIES_AT_ONCE_MAX {
        return Err(bad(format!("at most {CAPABILITIES_AT_ONCE_MAX} items in one request")));
    }
    let now_ms = now_ms();
    let mut shown = Vec::with_capacity(seen.items.len());
    for item in &seen.items {
        let storage = storage(&item.storage)?;
        if schedule::storage::host(&storage) == schedule::storage::authority(&storage) {
            return Err(bad(format!("{storage} has no port")));
        }
        let known = Known::seen(item.can, item.at_ms.min(now_ms));
        let capability = Capability {
            cell: item.cell(),
            known,
        };
        shown.push(SeenCapability { storage, capability });
    }
    let entry = entry(&caller, "capabilities", format!("{} reported", shown.len()));
    settings.queue.note_capabilities(shown, entry).await?;
    Ok(nothing())
}
