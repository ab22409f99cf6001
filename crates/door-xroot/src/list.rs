//! Listings, sent in parts while the directory is read, and the counts of what they leave out.

use std::sync::Arc;

use endpoint::{ExportPath, Pages, PathTarget};
use policy::Operation;
use storage::Entry;
use types::limits::LISTING_PIECE_BYTES;
use types::{ChecksumAlgorithm, ErrorCode, LogicalPath, Unlisted};
use xroot_wire::request::{ListDirectory, Query};
use xroot_wire::response::{ListingWriter, respond, unlisted_answer};

use crate::checksum::algorithm_of;
use crate::elsewhere;
use crate::exchange::Exchange;
use crate::failure::Result;
use crate::session::Listed;
use crate::stat::{directory_above, stat_text};

/// A directory that the client may list.
enum Directory {
    Stored(ExportPath),
    /// Above all exports. No rules hold there.
    Above,
}

/// Answers a listing.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, request: &ListDirectory<'_>) -> Result<()> {
    let named = exchange.path(&request.path).await?;
    let algorithm = match request.wants_checksums() {
        true => Some(algorithm_of(exchange, &named.cgi)?),
        false => None,
    };
    if algorithm.is_some() && elsewhere::of(exchange, &named.path).is_some() {
        let error = endpoint::refusal(ErrorCode::NotImplemented, &named.path);
        return Err(error
            .with_detail("a redirector lists no checksums: ask for that of each file")
            .into());
    }
    let writer = ListingWriter::new(request.wants_stat());
    match exchange.place(&named.path) {
        PathTarget::Stored(export_path) => {
            let pages = open(exchange, &export_path, &named.path).await?;
            stored(
                exchange,
                &export_path,
                &named.path,
                pages,
                writer,
                request.wants_stat(),
                algorithm,
            )
            .await
        }
        PathTarget::Above(names) => {
            above(exchange, &names, writer, request.wants_stat());
            Ok(())
        }
        PathTarget::Nowhere => Err(exchange.nowhere(&named.path)),
    }
}

/// Opens a directory, if the client may list it. What stands under the name is looked at only where
/// that fails, to say why.
async fn open(exchange: &mut Exchange<'_>, export_path: &ExportPath, path: &LogicalPath) -> Result<Pages> {
    // A name that the client may not look at does not exist for it.
    let may_look = (exchange.exports).would_allow(exchange.requester(), Operation::Stat, path, None);
    exchange.authorize(Operation::List, path, None)?;
    if !may_look {
        return Err(endpoint::refusal(ErrorCode::NotFound, path).into());
    }
    match exchange.exports.list_to(exchange.requester(), export_path, path).await {
        Ok(pages) => Ok(pages),
        Err(error) => {
            directory(exchange, path).await?;
            Err(error.into())
        }
    }
}

/// Answers how many names the listing of a directory leaves out, since a listing itself cannot say
/// so.
pub(crate) async fn unlisted(exchange: &mut Exchange<'_>, query: &Query<'_>) -> Result<()> {
    let named = exchange.path(&query.argument).await?;
    let unlisted = match directory(exchange, &named.path).await? {
        Directory::Above => Unlisted::default(),
        Directory::Stored(export_path) => match just_listed(exchange, &named.path)? {
            Some(unlisted) => unlisted,
            None => count(exchange, &export_path, &named.path).await?,
        },
    };
    exchange.ok_text(&unlisted_answer(&unlisted));
    Ok(())
}

/// The directory, if the client may list it.
async fn directory(exchange: &mut Exchange<'_>, path: &LogicalPath) -> Result<Directory> {
    match exchange.place(path) {
        PathTarget::Stored(export_path) => {
            let found = exchange.lookup(&export_path, path).await;
            exchange.authorize(Operation::List, path, None)?;
            match found.into_stat(path)?.is_directory() {
                true => Ok(Directory::Stored(export_path)),
                false => Err(endpoint::refusal(ErrorCode::NotDirectory, path).into()),
            }
        }
        PathTarget::Above(_) => Ok(Directory::Above),
        PathTarget::Nowhere => Err(exchange.nowhere(path)),
    }
}

/// What this session's last listing of the directory left out, if the credential is the same.
/// Clients ask right after a listing, so the directory need not be read twice.
fn just_listed(exchange: &mut Exchange<'_>, path: &LogicalPath) -> Result<Option<Unlisted>> {
    let credential = exchange.credential.clone()?;
    let listed = exchange.session()?.listed.take();
    let fits = |listed: &Listed| listed.path == *path && Arc::ptr_eq(&listed.credential, &credential);
    Ok(listed.filter(fits).map(|listed| listed.unlisted))
}

async fn count(exchange: &Exchange<'_>, export_path: &ExportPath, path: &LogicalPath) -> Result<Unlisted> {
    let mut pages = exchange
        .exports
        .list_to(exchange.requester(), export_path, path)
        .await?;
    while !pages.next_names().await?.is_empty() {}
    Ok(pages.unlisted().cloned().unwrap_or_default())
}

/// Lists the names that lead to exports, which are all that is seen above them.
fn above(exchange: &mut Exchange<'_>, names: &[String], mut writer: ListingWriter, with_stat: bool) {
    for name in names {
        let stat = directory_above(&types::LogicalPath::root());
        writer.add(name, with_stat.then(|| stat_text(&stat)).as_ref(), None);
    }
    exchange.ok(&writer.finish());
}

async fn stored(
    exchange: &mut Exchange<'_>,
    export_path: &ExportPath,
    path: &LogicalPath,
    mut pages: Pages,
    mut writer: ListingWriter,
    with_stat: bool,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<()> {
    match with_stat {
        true => entries(exchange, export_path, &mut pages, &mut writer, algorithm).await?,
        false => names(exchange, &mut pages, &mut writer).await?,
    }
    if let Some(unlisted) = pages.unlisted() {
        exchange
            .connection
            .door
            .settings
            .site
            .events
            .names_unlisted(path, unlisted);
    }
    let listed = Listed {
        path: path.clone(),
        credential: exchange.credential.clone()?,
        unlisted: pages.unlisted().cloned().unwrap_or_default(),
    };
    exchange.session()?.listed = Some(listed);
    exchange.ok(&writer.finish());
    Ok(())
}

/// Writes what is in a directory, with stat texts.
async fn entries(
    exchange: &mut Exchange<'_>,
    export_path: &ExportPath,
    pages: &mut Pages,
    writer: &mut ListingWriter,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<()> {
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            return Ok(());
        }
        for entry in page {
            let checksum = match algorithm {
                Some(algorithm) if !entry.stat.is_directory() => Some(kept(export_path, &entry, algorithm).await),
                _ => None,
            };
            writer.add(&entry.name, Some(&stat_text(&entry.stat)), checksum.as_deref());
            send_gathered(exchange, writer).await?;
        }
    }
}

/// Writes the names in a directory. No entry is looked at for that.
async fn names(exchange: &mut Exchange<'_>, pages: &mut Pages, writer: &mut ListingWriter) -> Result<()> {
    loop {
        let page = pages.next_names().await?;
        if page.is_empty() {
            return Ok(());
        }
        for name in page {
            writer.add(&name, None, None);
            send_gathered(exchange, writer).await?;
        }
    }
}

/// Sends a part of a listing once enough of it is gathered.
async fn send_gathered(exchange: &mut Exchange<'_>, writer: &mut ListingWriter) -> Result<()> {
    if writer.gathered_bytes() >= LISTING_PIECE_BYTES {
        let (part, stream) = (writer.take_part(), exchange.stream);
        exchange.connection.queue(|out| respond::partial(out, stream, &part));
        exchange.connection.flush().await?;
    }
    Ok(())
}

/// The kept checksum of an entry; none is computed for a listing.
async fn kept(export_path: &ExportPath, entry: &Entry, algorithm: ChecksumAlgorithm) -> String {
    let path = export_path.path.join(&entry.name);
    let known = match path {
        Ok(path) => export_path.store.stored_checksums(&path).await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let kept = known.iter().find(|known| known.algorithm() == algorithm);
    kept.map_or_else(|| format!("{}:none", algorithm.name()), ToString::to_string)
}
