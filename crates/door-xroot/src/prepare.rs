//! Staging: there is no tape here, so every file is online.

use endpoint::ids::fresh_id;
use policy::Operation;
use types::{Error, ErrorCode, Phase, Side};
use xroot_wire::request::Prepare;
use xroot_wire::{PrepareExtraOptions, PrepareOptions};

use crate::elsewhere;
use crate::exchange::Exchange;
use crate::failure::Result;
use crate::stat::lookup;

/// Staging succeeds for existing files. The answer is the name of the order, which clients print.
/// To let go of a file succeeds for existing ones too, and changes nothing. An order is complete
/// when it is answered, so it cannot be cancelled. Hints about the use of a file are accepted and
/// ignored.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, request: &Prepare<'_>) -> Result<()> {
    if request.options.intersects(PrepareOptions::CANCEL) {
        let error = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open);
        return Err(error
            .with_detail("all files are online; there is nothing to cancel")
            .into());
    }
    let is_staging = request.options.intersects(PrepareOptions::STAGE);
    if !is_staging && !request.extra_options.intersects(PrepareExtraOptions::EVICT) {
        exchange.ok(&[]);
        return Ok(());
    }
    let mut all = Vec::new();
    for argument in request.paths.iter() {
        let named = exchange.path(&argument).await?;
        match elsewhere::of(exchange, &named.path) {
            Some(_) => exchange.authorize(Operation::Stat, &named.path, None).map(drop)?,
            None => lookup(exchange, &named.path).await.map(drop)?,
        }
        all.push(named);
    }
    if !is_staging {
        exchange.ok(&[]);
        return Ok(());
    }
    if elsewhere::answer_all(exchange, &all).await? {
        return Ok(());
    }
    exchange.ok_text(&fresh_id());
    Ok(())
}
