//! OPTIONS: what is offered at a path.

use types::Result;

use crate::exchange::FileExchange;
use crate::methods::methods;

/// Answers OPTIONS. It needs no rights: the answer tells nothing about any file.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>) -> Result<()> {
    let has_locks = exchange.has_locks();
    exchange
        .http
        .whole(200, &[], |head| head.allow(methods(has_locks)).dav(has_locks))
        .await
}
