//! Bringing files online: there is no tape here, so that every file is, and there is nothing to wait for.

use endpoint::ids::fresh_id;
use types::{Error, ErrorCode, Phase, Side};
use xroot_wire::PrepareOptions;
use xroot_wire::request::Prepare;

use crate::exchange::Exchange;
use crate::failure::Result;
use crate::stat::look;

/// Staging succeeds for files that are there, which are online. The answer is the name of the order, as clients print
/// it. An order is done when it is answered, so none can be cancelled. A hint that a file will be used, or not, is
/// taken note of.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, request: &Prepare<'_>) -> Result<()> {
    if request.options.intersects(PrepareOptions::CANCEL) {
        let error = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open);
        return Err(error
            .with_detail("all files are online; there is nothing to cancel")
            .into());
    }
    if !request.options.intersects(PrepareOptions::STAGE) {
        exchange.ok(&[]);
        return Ok(());
    }
    for argument in request.paths.iter() {
        let named = exchange.path(&argument).await?;
        look(exchange, &named.path).await?;
    }
    exchange.ok_text(&fresh_id());
    Ok(())
}
