//! One connection: a request after the other, until either side has enough.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::limits::LINGER_BYTES_MAX;
use credentials::Credential;
use endpoint::{FairShare, Share, ShareKind};
use http_wire::webdav::LastPropfind;
use http_wire::{Method, RequestHead};
use identity::LastShown;
use net::Stream;
use net::http::Connection;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::door::Shared;
use crate::exchange::{Exchange, Fate, credential_of};
use crate::{copy, delegation, delete, get, lock, mkcol, options, post, propfind, proppatch, put, rename};

/// What a connection brought last and will most likely bring again.
#[derive(Default)]
struct Last {
    shown: LastShown,
    propfind: LastPropfind,
    /// For whom the connection is counted, beside the address that it comes from.
    counted: Option<(Arc<Credential>, Option<Share>)>,
}

impl Last {
    /// Counts the connection for whom its latest request is from.
    fn identify(&mut self, fair_share: &FairShare, credential: Arc<Credential>) -> Result<Arc<Credential>> {
        let is_counted = |(counted, _): &(Arc<Credential>, _)| Arc::ptr_eq(counted, &credential);
        if !self.counted.as_ref().is_some_and(is_counted) {
            self.counted = None;
            let share = fair_share.identify(ShareKind::Connections, &credential)?;
            self.counted = Some((credential.clone(), share));
        }
        Ok(credential)
    }
}

/// Serves requests until the connection ends. The error is one that belongs to no request.
pub(crate) async fn converse(door: &Arc<Shared>, mut stream: Stream, peer: SocketAddr) -> Result<()> {
    let shown = stream.take_peer_certificates();
    let visitor = door.settings.site.authenticator.certificates(shown.as_deref());
    drop(shown);
    let mut last = Last::default();
    let mut connection = Connection::new(stream);
    while is_wanted(door, &mut connection).await {
        // On the heap, so that a connection without a request stays small.
        match Box::pin(one(door, &mut connection, peer, (&visitor, &mut last))).await {
            Fate::KeepOpen => {}
            Fate::Close => break,
            // What the client still sends would turn into a reset that overtakes our answer.
            Fate::Linger => {
                Box::pin(connection.stream.close_lingering(LINGER_BYTES_MAX)).await;
                return Ok(());
            }
            Fate::Tear => return Ok(()),
        }
    }
    // The client may be gone already; then there is nobody to say good-bye to.
    let _ = Box::pin(connection.stream.close()).await;
    Ok(())
}

/// Waits for the next request; false when none will come, or none is taken any more.
async fn is_wanted(door: &Shared, connection: &mut Connection) -> bool {
    if door.gate.is_draining() {
        return false;
    }
    if connection.has_leftover() {
        return true;
    }
    tokio::select! {
        () = door.gate.draining() => false,
        arrived = connection.stream.wait_for_input(door.settings.site.idle()) => arrived.is_ok(),
    }
}

/// One request and its answer.
async fn one(
    door: &Arc<Shared>,
    connection: &mut Connection,
    peer: SocketAddr,
    (visitor, last): (&Arc<Credential>, &mut Last),
) -> Fate {
    let began = Instant::now();
    let (head_limits, limits) = (&door.settings.limits.head, &door.settings.site.limits);
    let head = match connection.request(head_limits, limits.idle, limits.head_timeout).await {
        Ok(Some(head)) => Ok(head),
        Ok(None) => return Fate::Close,
        Err(error) => Err(error),
    };
    let uploads = matches!(&head, Ok(head) if head.method == Method::Put);
    // Beside many uploads all others go first.
    connection.stream.give_way(uploads && door.uploads.are_many()).await;
    let clear_from = (!connection.stream.is_encrypted()).then(|| peer.ip());
    let credential = match &head {
        Ok(head) => {
            let shown = credential_of(door, head, (visitor, clear_from), &mut last.shown).await;
            shown.and_then(|shown| last.identify(&door.settings.site.fair_share, shown))
        }
        Err(_) => Ok(visitor.clone()),
    };
    let link = (connection, &mut last.propfind);
    let (mut exchange, ready) = Exchange::begin(door, link, peer, began, head, (credential, visitor));
    let result = match ready {
        Ok(head) => match exchange.take_capability(&head) {
            Ok(()) => dispatch(&mut exchange, &head).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    exchange.finish(result).await
}

async fn dispatch(exchange: &mut Exchange<'_>, head: &RequestHead) -> Result<()> {
    // What takes much room, or comes seldom, has it elsewhere: the room for all of it would be moved for
    // each request.
    if let Some(asked) = delegation::asked(exchange, head) {
        return Box::pin(delegation::answer(exchange, head, asked)).await;
    }
    match head.method {
        Method::Get | Method::Head => get::answer(exchange, head).await,
        Method::Propfind => propfind::answer(exchange, head).await,
        Method::Proppatch => Box::pin(proppatch::answer(exchange, head)).await,
        Method::Put => Box::pin(put::answer(exchange, head)).await,
        Method::Delete => Box::pin(delete::answer(exchange, head)).await,
        Method::Mkcol => Box::pin(mkcol::answer(exchange, head)).await,
        Method::Move => Box::pin(rename::answer(exchange, head)).await,
        Method::Copy => Box::pin(copy::answer(exchange, head)).await,
        Method::Lock => Box::pin(lock::lock(exchange, head)).await,
        Method::Unlock => Box::pin(lock::unlock(exchange, head)).await,
        Method::Options => options::answer(exchange).await,
        Method::Post => Box::pin(post::answer(exchange, head)).await,
        Method::Other(_) => {
            let error = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open);
            Err(error.with_detail("OPTIONS lists the methods offered"))
        }
    }
}
