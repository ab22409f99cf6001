//! Bringing files online: there is no tape here, so that every file is, and there is nothing to wait for.

use xroot_wire::PrepareOptions;
use xroot_wire::request::Prepare;

use crate::connection::not_offered;
use crate::exchange::Exchange;
use crate::failure::Result;

/// Refuses to stage and to cancel; a hint that a file will be used, or not, is taken note of.
pub(crate) fn answer(exchange: &mut Exchange<'_>, request: &Prepare<'_>) -> Result<()> {
    if request
        .options
        .intersects(PrepareOptions::STAGE | PrepareOptions::CANCEL)
    {
        return Err(not_offered());
    }
    exchange.ok(&[]);
    Ok(())
}
