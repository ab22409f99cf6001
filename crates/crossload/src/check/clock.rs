//! This machine's clock, compared with those of the servers that it works with: tokens and certificates are
//! valid only for a time.

use std::time::Duration;

use http_wire::{HeadLimits, Method, RequestBuilder};
use net::address::AddressPolicy;
use net::dial::dial;
use net::http::Connection;
use net::tls::ClientTls;
use net::{Role, Stream, Waits};
use types::{Error, Location, Side};

use super::finding::Finding;

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// From this difference on tokens are refused as not valid yet (WLCG token profile: 60 s of skew).
const SKEW_ERROR_S: i64 = 60;
/// From this difference on somebody should look.
const SKEW_WARNING_S: i64 = 5;

/// Compares with one server. `None` when it cannot be asked, which is another check's business.
pub(crate) async fn check(place: &Location, tls: &ClientTls) -> Option<Finding> {
    let before = crate::token::now_s();
    let date = tokio::time::timeout(PATIENCE, date_of(place, tls)).await.ok()?.ok()??;
    Some(judge(place.host(), before, date, crate::token::now_s()))
}

/// What a server says the time is.
async fn date_of(place: &Location, tls: &ClientTls) -> Result<Option<i64>, Error> {
    let side = Side::Source;
    let tcp = dial(place.host(), place.port(), AddressPolicy::ANY, PATIENCE, side).await?;
    let waits = Waits {
        handshake: PATIENCE,
        stall: PATIENCE,
    };
    let stream = match place.is_encrypted() {
        true => Stream::connect_tls(tcp, tls, place.host(), side, waits).await?,
        false => Stream::clear(tcp, Role::Peer(side), waits),
    };
    let mut connection = Connection::new(stream);
    let request = RequestBuilder::new(&Method::Head, place).accept_anything().close();
    connection.stream.queue(&request.finish());
    connection.stream.flush().await?;
    Ok(connection.response(&HeadLimits::default(), PATIENCE).await?.date())
}

/// What a server's time means, which came between two moments here.
pub(crate) fn judge(host: &str, before_s: i64, date_s: i64, after_s: i64) -> Finding {
    let skew = match date_s {
        date if date < before_s => before_s - date,
        date if date > after_s => after_s - date,
        _ => 0,
    };
    // Servers tell whole seconds.
    let away = skew.abs() - 1;
    let direction = if skew > 0 { "ahead of" } else { "behind" };
    let says = format!(
        "this machine's clock is {} seconds {direction} that of {host}",
        skew.abs()
    );
    match away {
        away if away >= SKEW_ERROR_S => Finding::error("clock_wrong", says)
            .change("let chrony or systemd-timesyncd set the clock: tokens are refused meanwhile"),
        away if away >= SKEW_WARNING_S => Finding::warning("clock_differs", says)
            .change("look whether chrony or systemd-timesyncd runs, here and there"),
        _ => Finding::ok("clock", format!("it agrees with that of {host}")),
    }
}
