//! Queries of many kinds.

use credentials::capability::CapabilityUse;
use identity::ShownBy;
use policy::Operation;
use types::{ChecksumAlgorithm, Error, ErrorCode, Phase, Side};
use xroot_wire::limits::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, BOUND_STREAMS_MAX, READV_ITEM_BYTES_MAX, READV_ITEMS_MAX,
};
use xroot_wire::request::{Query, QueryKind};
use xroot_wire::response::{SpaceUsage, config_answer, fixed_attributes, statistics};

use crate::elsewhere::{self, Asked};
use crate::exchange::Exchange;
use crate::failure::{Result, not_offered};
use crate::settings::{AuthenticationMethod, Settings};
use crate::third_party::fetched::delegated_proxy;
use crate::third_party::{DELEGATION_KEY, DELEGATION_OFFER_KEY, SCHEMES_KEY, destination, is_about_copies};
use crate::{checksum, list, locate, stat};

/// The name of the only space.
const SPACE_NAME: &str = "public";

/// Answers a query. Returns whether it has been answered already; if not, the answer comes late.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, query: &Query<'_>) -> Result<bool> {
    match query.kind {
        QueryKind::Checksum => return checksum::answer(exchange, query).await,
        QueryKind::CancelChecksum => checksum::cancel(exchange, query).await?,
        QueryKind::Config => config(exchange, query),
        QueryKind::OpaqueHandle if query.cancels_third_party() => destination::cancel(exchange, query.handle)?,
        QueryKind::OpaquePath if query.asks_for_unlisted() => list::unlisted(exchange, query).await?,
        QueryKind::Space => space(exchange, query).await?,
        QueryKind::ExtendedAttributes => fixed(exchange, query).await?,
        QueryKind::Statistics => tell_statistics(exchange),
        QueryKind::PrepareStatus
        | QueryKind::Visa
        | QueryKind::FileInformation
        | QueryKind::FileSystemInformation
        | QueryKind::Opaque
        | QueryKind::OpaquePath
        | QueryKind::OpaqueHandle => return Err(not_offered()),
        QueryKind::Unknown(_) => {
            let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open);
            return Err(error.with_detail("there is no question of this number").into());
        }
    }
    Ok(true)
}

fn config(exchange: &mut Exchange<'_>, query: &Query<'_>) {
    let settings = &exchange.connection.door.settings;
    // Third-party copies are the business of the server that makes them.
    if let Some(server) = settings.site.forward_to.root.clone()
        && query.config_keys().iter().any(is_about_copies)
    {
        return exchange.redirect(&server);
    }
    let answer = config_answer(query.config_keys().iter(), |key| match key {
        // A client that reads "gsi" registers no rendezvous key, so there must be a proxy.
        DELEGATION_KEY => delegated_proxy(exchange, ShownBy::Gsi).map(|_| gsi_wire::gsi::NAME.to_owned()),
        "role" if elsewhere::is_redirector(&exchange.exports) => Some("manager".to_owned()),
        key => config_value(settings, key),
    });
    exchange.ok(answer.as_bytes());
}

/// Whether logins by gsi are asked for a proxy.
fn asks_for_proxies(settings: &Settings) -> bool {
    settings.delegations.is_some() && settings.authentication.contains(&AuthenticationMethod::Gsi)
}

/// The value of a key; `None` for something that is not offered.
fn config_value(settings: &Settings, key: &str) -> Option<String> {
    Some(match key {
        "bind_max" => BOUND_STREAMS_MAX.to_string(),
        "chksum" => checksums(&settings.site.keep),
        "cms" => "none|".to_owned(),
        "fattr" => format!("{ATTRIBUTE_NAME_BYTES_MAX} {ATTRIBUTE_VALUE_BYTES_MAX}"),
        "pio_max" => BOUND_STREAMS_MAX.to_string(),
        "readv_ior_max" => READV_ITEM_BYTES_MAX.to_string(),
        "readv_iov_max" => READV_ITEMS_MAX.to_string(),
        "role" => "server".to_owned(),
        "tpc" => "1".to_owned(),
        DELEGATION_OFFER_KEY if asks_for_proxies(settings) => gsi_wire::gsi::NAME.to_owned(),
        SCHEMES_KEY => settings.site.client.schemes().join(","),
        "sitename" => settings.host.clone()?,
        "version" => settings.site.server_name.clone(),
        _ => return None,
    })
}

/// The algorithms with their numbers, the usual one first.
fn checksums(keep: &[ChecksumAlgorithm]) -> String {
    let others = ChecksumAlgorithm::ALL
        .iter()
        .filter(|algorithm| !keep.contains(algorithm));
    let all = keep.iter().chain(others).enumerate();
    let words: Vec<String> = all
        .map(|(number, algorithm)| format!("{number}:{}", algorithm.name()))
        .collect();
    words.join(",")
}

async fn space(exchange: &mut Exchange<'_>, query: &Query<'_>) -> Result<()> {
    let named = exchange.path(&query.argument).await?;
    exchange.authorize(Operation::Stat, &named.path, None)?;
    let export_path = exchange.export_path(&named.path, ErrorCode::NotFound)?;
    let (space, largest_free_bytes) = match export_path.store.elsewhere() {
        Some(elsewhere) => {
            let room = elsewhere.space(&named.path).await?;
            (room.space, room.largest_free_bytes)
        }
        None => {
            let space = export_path.store.space_at(&export_path.path).await?;
            (space, space.free_bytes)
        }
    };
    let usage = SpaceUsage {
        name: SPACE_NAME.to_owned(),
        total_bytes: space.total_bytes,
        free_bytes: space.free_bytes,
        largest_free_bytes,
        used_bytes: space.used_bytes,
        quota_bytes: space.quota_bytes,
    };
    exchange.ok_text(&usage.to_text());
    Ok(())
}

async fn fixed(exchange: &mut Exchange<'_>, query: &Query<'_>) -> Result<()> {
    let named = exchange.path_for(&query.argument, CapabilityUse::Look).await?;
    if let Some(elsewhere) = elsewhere::of(exchange, &named.path) {
        exchange.authorize(Operation::Stat, &named.path, None)?;
        if let Asked::Redirected = elsewhere::own_question(exchange, &elsewhere, &named).await? {
            return Ok(());
        }
    }
    let stat = stat::lookup(exchange, &named.path).await?;
    let text = fixed_attributes(SPACE_NAME, &stat::stat_text(&stat));
    exchange.ok_text(&text);
    Ok(())
}

fn tell_statistics(exchange: &mut Exchange<'_>) {
    let address = locate::address(exchange);
    let connections = exchange.connection.door.gate.open_connections();
    let settings = &exchange.connection.door.settings;
    let text = statistics(
        &settings.site.server_name,
        &address,
        endpoint::clock::now_s(),
        connections,
    );
    exchange.ok_text(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_checksum_comes_first() {
        assert_eq!(
            checksums(&[ChecksumAlgorithm::Md5]),
            "0:md5,1:crc32c,2:adler32,3:sha-256"
        );
    }
}
