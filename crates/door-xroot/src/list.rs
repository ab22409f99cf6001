//! What is in a directory, sent in parts while it is read.

use endpoint::{Place, Spot};
use policy::Operation;
use storage::Entry;
use types::limits::LISTING_PIECE_BYTES;
use types::{ChecksumAlgorithm, ErrorCode, LogicalPath};
use xroot_wire::request::ListDirectory;
use xroot_wire::response::{ListingWriter, respond};

use crate::checksum::algorithm_of;
use crate::exchange::Exchange;
use crate::failure::Result;
use crate::stat::{directory_above, stat_text};

/// Answers a listing.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, request: &ListDirectory<'_>) -> Result<()> {
    let named = exchange.path(&request.path).await?;
    let algorithm = match request.wants_checksums() {
        true => Some(algorithm_of(exchange, &named.cgi)?),
        false => None,
    };
    let writer = ListingWriter::new(request.wants_stat());
    match exchange.place(&named.path) {
        Place::Stored(spot) => {
            let found = exchange.look(&spot, &named.path).await;
            exchange.authorize(Operation::List, &named.path, None)?;
            let stat = found.into_stat(&named.path)?;
            if !stat.is_directory() {
                return Err(endpoint::refusal(ErrorCode::NotDirectory, &named.path).into());
            }
            stored(exchange, &spot, &named.path, (writer, request.wants_stat()), algorithm).await
        }
        Place::Above(names) => {
            // No rules hold there, and nothing is seen but the way to where they do.
            above(exchange, &names, writer, request.wants_stat());
            Ok(())
        }
        Place::Nowhere => Err(exchange.nowhere(&named.path)),
    }
}

/// The ways down to exports, which are all that is seen above them.
fn above(exchange: &mut Exchange<'_>, names: &[String], mut writer: ListingWriter, with_stat: bool) {
    for name in names {
        let stat = directory_above(&types::LogicalPath::root());
        writer.add(name, with_stat.then(|| stat_text(&stat)).as_ref(), None);
    }
    exchange.ok(&writer.finish());
}

async fn stored(
    exchange: &mut Exchange<'_>,
    spot: &Spot,
    path: &LogicalPath,
    (mut writer, with_stat): (ListingWriter, bool),
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<()> {
    let mut pages = exchange.exports.list_to(exchange.asker(), spot, path).await?;
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            break;
        }
        for entry in page {
            let text = with_stat.then(|| stat_text(&entry.stat));
            let checksum = match algorithm {
                Some(algorithm) if !entry.stat.is_directory() => Some(kept(spot, &entry, algorithm).await),
                _ => None,
            };
            writer.add(&entry.name, text.as_ref(), checksum.as_deref());
            if writer.gathered_bytes() >= LISTING_PIECE_BYTES {
                let (part, stream) = (writer.take_part(), exchange.stream);
                exchange.connection.queue(|out| respond::partial(out, stream, &part));
                exchange.connection.flush().await?;
            }
        }
    }
    if let Some(unlisted) = pages.unlisted() {
        // The protocol has no place to tell the client.
        exchange.connection.door.settings.events.names_unlisted(path, unlisted);
    }
    exchange.ok(&writer.finish());
    Ok(())
}

/// The kept checksum of an entry; none is computed for a listing.
async fn kept(spot: &Spot, entry: &Entry, algorithm: ChecksumAlgorithm) -> String {
    let path = spot.path.join(&entry.name);
    let known = match path {
        Ok(path) => spot.store.stored_checksums(&path).await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let kept = known.iter().find(|known| known.algorithm() == algorithm);
    kept.map_or_else(|| format!("{}:none", algorithm.name()), ToString::to_string)
}
