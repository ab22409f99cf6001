//! Compares this machine's clock with other servers: tokens and certificates depend on the time.

use std::time::Duration;

use http_wire::{HeadLimits, Method, RequestBuilder};
use net::address::AddressPolicy;
use net::dial::dial;
use net::http::Connection;
use net::tls::ClientTls;
use net::{Role, Stream, Waits};
use types::{Error, Location, Side};

use super::finding::Finding;

/// Time limit for a server's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Difference from which tokens are refused as not yet valid (WLCG token profile: 60 s of skew).
const SKEW_ERROR_S: i64 = 60;
/// Difference that is worth a warning.
const SKEW_WARNING_S: i64 = 5;

/// Compares with one server. `None` if it does not answer, which another check reports.
pub(crate) async fn check(place: &Location, tls: &ClientTls) -> Option<Finding> {
    let before = crate::token::now_s();
    let date = tokio::time::timeout(ANSWER_TIMEOUT, date_of(place, tls))
        .await
        .ok()?
        .ok()??;
    Some(judge(place.host(), before, date, crate::token::now_s()))
}

/// The time of a server.
async fn date_of(place: &Location, tls: &ClientTls) -> Result<Option<i64>, Error> {
    let side = Side::Active;
    let tcp = dial(place.host(), place.port(), AddressPolicy::ANY, ANSWER_TIMEOUT, side).await?;
    let waits = Waits {
        handshake: ANSWER_TIMEOUT,
        stall: ANSWER_TIMEOUT,
    };
    let stream = match place.is_encrypted() {
        true => Stream::connect_tls(tcp, tls, place.host(), side, waits).await?,
        false => Stream::clear(tcp, Role::Peer(side), waits),
    };
    let mut connection = Connection::new(stream);
    let request = RequestBuilder::new(&Method::Head, place).accept_anything().close();
    connection.stream.queue(&request.finish());
    connection.stream.flush().await?;
    Ok(connection
        .response(&HeadLimits::default(), ANSWER_TIMEOUT)
        .await?
        .date())
}

/// Judges a server's time that arrived between `before_s` and `after_s` of this machine.
pub(crate) fn judge(host: &str, before_s: i64, date_s: i64, after_s: i64) -> Finding {
    let skew = match date_s {
        date if date < before_s => before_s - date,
        date if date > after_s => after_s - date,
        _ => 0,
    };
    // Servers report whole seconds.
    let away = skew.abs() - 1;
    let direction = if skew > 0 { "ahead of" } else { "behind" };
    let says = format!(
        "this machine's clock is {} seconds {direction} that of {host}",
        skew.abs()
    );
    match away {
        away if away >= SKEW_ERROR_S => {
            Finding::error("clock_wrong", says).change("run chrony or systemd-timesyncd; until then tokens are refused")
        }
        away if away >= SKEW_WARNING_S => Finding::warning("clock_differs", says)
            .change("check that chrony or systemd-timesyncd runs on both machines"),
        _ => Finding::ok("clock", format!("agrees with {host}")),
    }
}
