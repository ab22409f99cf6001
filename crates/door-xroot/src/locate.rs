//! Where a file is: here, unless it is on other servers.

use std::net::{IpAddr, SocketAddr};

use types::ErrorCode;
use xroot_wire::request::Locate;
use xroot_wire::response::{LocateWriter, Location};

use crate::elsewhere;
use crate::exchange::Exchange;
use crate::failure::Result;
use crate::stat;

/// Answers with this server's own address.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, request: &Locate<'_>) -> Result<()> {
    let argument = request.path.locate_path()?;
    let named = exchange.name(argument.path, argument.cgi).await;
    if elsewhere::locate(exchange, &named, request).await? {
        return Ok(());
    }
    if request.asks_for_any_server() {
        stat::may_look(exchange, &named.path)?;
    } else {
        exchange.export_path(&named.path, ErrorCode::NotFound)?;
        stat::lookup(exchange, &named.path).await?;
    }
    let mut writer = LocateWriter::new();
    writer.add(&Location {
        is_manager: false,
        is_pending: false,
        is_writable: true,
        address: address(exchange),
    });
    exchange.ok_text(&writer.build());
    Ok(())
}

/// Host and port of this server, as the client reached it.
pub(crate) fn address(exchange: &Exchange<'_>) -> String {
    let local = exchange.connection.frames.stream.local_address();
    let local = local.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], xroot_wire::limits::DEFAULT_PORT)));
    match (&exchange.connection.door.settings.host, local.ip().to_canonical()) {
        (Some(host), _) => format!("{host}:{}", local.port()),
        (None, IpAddr::V4(address)) => format!("{address}:{}", local.port()),
        (None, IpAddr::V6(address)) => format!("[{address}]:{}", local.port()),
    }
}
