//! Asks for a file's checksum in the session in which it is open, after its data.
//!
//! The key of a third-party copy opens one file and is no credential for anything else. Our
//! servers, and those that derive the right from the open file, answer the question in that session
//! only.

use crate::limits::{CHECKSUM_AT_END_WAIT, ROOT_CHECKSUM_ASKS_MAX};
use tokio::time::timeout;
use types::{Checksum, ChecksumAlgorithm, Result};
use xroot_wire::Request;
use xroot_wire::request::{Query, QueryKind};
use xroot_wire::response::parse_checksum;

use super::namespace::wire_name;
use super::route::{Route, pair};
use super::session::{Reply, ServerSession};

/// The first of the `wanted` checksums that the server knows; `None` without one, or not within
/// [`CHECKSUM_AT_END_WAIT`].
///
/// # Errors
/// The connection is lost, or the answer is still to come: it cannot be used again.
pub(super) async fn checksum_at_end(
    session: &mut ServerSession,
    route: &Route,
    wanted: &[ChecksumAlgorithm],
) -> Result<Option<Checksum>> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let asked = timeout(CHECKSUM_AT_END_WAIT, ask(session, route, wanted)).await;
    asked.unwrap_or_else(|_| Err(session.misbehaved("the checksum is still being computed")))
}

async fn ask(session: &mut ServerSession, route: &Route, wanted: &[ChecksumAlgorithm]) -> Result<Option<Checksum>> {
    for algorithm in wanted {
        let own = [pair("cks.type", wire_name(*algorithm))];
        let target = route.target(&own, session.is_encrypted())?;
        let question = Request::Query(Query::new(QueryKind::Checksum, target.expose().as_bytes()));
        let mut asks = 0;
        while asks < ROOT_CHECKSUM_ASKS_MAX {
            let id = session.send(&question).await?;
            match session.answer(id).await? {
                Reply::Done(body) => match parse_checksum(&body) {
                    Ok(Some(checksum)) if wanted.contains(&checksum.algorithm()) => return Ok(Some(checksum)),
                    Ok(Some(_)) => asks += 1,
                    _ => break,
                },
                Reply::Wait(pause) => tokio::time::sleep(pause).await,
                _ => break,
            }
        }
    }
    Ok(None)
}
