//! The body of a request: read from the connection when the handler asks for it, and never ahead.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use endpoint::limits::BODY_PIECE_BYTES;
use endpoint::{Share, ShareKind};
use http_body::{Frame, SizeHint};
use tokio::sync::{Notify, mpsc};
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::exchange::Exchange;

/// What the handler reads.
struct RequestBody {
    wanted: Arc<Notify>,
    has_asked: bool,
    pieces: mpsc::Receiver<Result<Bytes>>,
    size: SizeHint,
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        if !std::mem::replace(&mut self.has_asked, true) {
            self.wanted.notify_one();
        }
        let piece = ready!(self.pieces.poll_recv(context));
        self.has_asked = false;
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

/// What feeds it, beside the handler.
pub(super) struct Feed {
    wanted: Arc<Notify>,
    /// Until the body has ended.
    pieces: Option<mpsc::Sender<Result<Bytes>>>,
    left_bytes: usize,
    limit_bytes: usize,
    /// The memory of the body, which the handler holds until it has answered, and its pieces.
    memory: Vec<Share>,
    counted_pieces: usize,
    fault: Option<Error>,
}

/// The body of this request, of at most `limit_bytes`, and what feeds it.
pub(super) fn body_of(exchange: &Exchange<'_>, limit_bytes: usize) -> (Feed, Body) {
    let wanted = Arc::new(Notify::new());
    let (give, pieces) = mpsc::channel(1);
    let is_empty = exchange.incoming.is_done();
    let feed = Feed {
        wanted: wanted.clone(),
        pieces: (!is_empty).then_some(give),
        left_bytes: limit_bytes,
        limit_bytes,
        memory: Vec::new(),
        counted_pieces: 0,
        fault: None,
    };
    if is_empty {
        return (feed, Body::empty());
    }
    let body = RequestBody {
        wanted,
        has_asked: false,
        pieces,
        size: exchange
            .incoming
            .remaining()
            .map_or_else(SizeHint::new, SizeHint::with_exact),
    };
    (feed, Body::new(body))
}

impl Feed {
    /// Reads pieces when the handler asks for them, until this is dropped because it has answered.
    pub(super) async fn serve(&mut self, exchange: &mut Exchange<'_>) -> Infallible {
        while self.pieces.is_some() {
            self.wanted.notified().await;
            // If the handler answers meanwhile, it is not known how much of the body has come.
            let may_keep = std::mem::replace(&mut exchange.may_keep, false);
            let piece = self.next(exchange).await;
            exchange.may_keep = may_keep;
            self.give(piece);
        }
        std::future::pending().await
    }

    /// Gives the next piece to the handler, or the end of the body.
    fn give(&mut self, piece: Result<Option<Bytes>>) {
        let Some(pieces) = self.pieces.take() else { return };
        // Only what was asked for is sent, so there is room, and a handler that has dropped the
        // body meanwhile does not want it.
        match piece {
            Ok(Some(piece)) => {
                let _ = pieces.try_send(Ok(piece));
                self.pieces = Some(pieces);
            }
            Ok(None) => {}
            Err(fault) => {
                self.fault = Some(fault.clone());
                let _ = pieces.try_send(Err(fault));
            }
        }
    }

    async fn next(&mut self, exchange: &mut Exchange<'_>) -> Result<Option<Bytes>> {
        let left_bytes = self.left_bytes as u64;
        let rest_bytes = exchange.incoming.remaining();
        if rest_bytes.is_some_and(|rest| rest > left_bytes) {
            return Err(self.too_large());
        }
        // A body of known length has all its memory before it comes: large ones that come at the
        // same time would else take it from each other, until none of them has enough.
        self.count_memory(exchange, rest_bytes.unwrap_or_default())?;
        exchange.invite_body().await?;
        let Some(batch) = exchange.incoming.next(exchange.connection).await? else {
            return Ok(None);
        };
        exchange.record.bytes_in += batch.len() as u64;
        self.left_bytes = self
            .left_bytes
            .checked_sub(batch.len())
            .ok_or_else(|| self.too_large())?;
        self.count_memory(exchange, 0)?;
        let mut piece = Vec::with_capacity(batch.len());
        batch.append_to(&mut piece);
        Ok(Some(piece.into()))
    }

    /// Takes as much memory for the client as it has sent by now, and so much more.
    fn count_memory(&mut self, exchange: &Exchange<'_>, rest_bytes: u64) -> Result<()> {
        let bytes = (self.limit_bytes - self.left_bytes) as u64 + rest_bytes;
        let pieces = bytes.div_ceil(BODY_PIECE_BYTES as u64) as usize;
        if pieces > self.counted_pieces {
            let more = pieces - self.counted_pieces;
            let (fair_share, client) = (&exchange.server.fair_share, exchange.client());
            self.memory
                .push(fair_share.take_many(ShareKind::Bodies, &client, more)?);
            self.counted_pieces = pieces;
        }
        Ok(())
    }

    fn too_large(&self) -> Error {
        let error = Error::new(ErrorCode::BodyTooLarge, Side::Client, Phase::Open);
        error.with_detail(format!("{} bytes", self.limit_bytes))
    }

    /// What was wrong with the body, if the handler has met it.
    pub(super) fn take_fault(self) -> Option<Error> {
        self.fault
    }
}
