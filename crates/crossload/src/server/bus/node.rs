//! What the membership on the bus asks of this server.

use cluster::locator::Says;
use cluster::nats::node::{Event, Kind, Listing, Named, NodeFacts};
use cluster::node::Status;
use endpoint::{Pages, SharedExports};
use futures_util::stream;
use serde_json::json;
use types::{ErrorCode, LogicalPath};

use super::log_bus;
use crate::server::log::Log;
use crate::server::node::NodeState;

/// This server, as redirectors see it over the bus.
pub(super) struct ThisNode {
    pub(super) exports: SharedExports,
    pub(super) node: NodeState,
    pub(super) log: Log,
}

/// Where a listing is.
enum Reading {
    Begin(SharedExports, LogicalPath),
    Pages(Box<Pages>),
    End,
}

impl NodeFacts for ThisNode {
    fn status(&self) -> Status {
        self.node.status()
    }

    async fn has(&self, path: &LogicalPath) -> Says {
        let exports = self.exports.current();
        let Some((export, inner)) = exports.export_of(path) else {
            return Says::Nothing;
        };
        match export.store.for_itself().stat(&inner).await {
            Ok(stat) if stat.is_directory() => Says::Directory,
            Ok(stat) => Says::File {
                size_bytes: Some(stat.size_bytes),
            },
            Err(error) if error.code() == ErrorCode::NotFound => Says::Nothing,
            Err(error) => Says::Failed(error.public()),
        }
    }

    fn list(&self, directory: &LogicalPath) -> Listing {
        let begin = Reading::Begin(self.exports.clone(), directory.clone());
        Box::pin(stream::unfold(begin, |reading| async {
            match page(reading).await {
                Ok(Some((entries, pages))) => Some((Ok(entries), Reading::Pages(Box::new(pages)))),
                Ok(None) => None,
                Err(words) => Some((Err(words), Reading::End)),
            }
        }))
    }

    fn note(&self, event: &Event) {
        match event {
            Event::Bus(event) => log_bus(&self.log, event),
            Event::NamesRead { names, bytes, took_ms } => {
                let fields = json!({"names": names, "bytes": bytes, "took_ms": took_ms});
                self.log.write("bus_names_read", &fields);
            }
            Event::NamesUnread { reason } => self.log.write("bus_names_unread", &json!({"error": reason})),
        }
    }
}

/// A page of a directory, and what reads on.
type Page = Option<(Vec<Named>, Pages)>;

async fn page(reading: Reading) -> Result<Page, String> {
    let mut pages = match reading {
        Reading::End => return Ok(None),
        Reading::Pages(pages) => *pages,
        Reading::Begin(exports, directory) => {
            let exports = exports.current();
            let Some((export, inner)) = exports.export_of(&directory) else {
                return Ok(None);
            };
            let listed = export.store.for_itself().list(&inner).await;
            listed.map_err(|error| error.public())?
        }
    };
    let entries = pages.next().await.map_err(|error| error.public())?;
    let named = entries.into_iter().map(|entry| Named {
        name: entry.name,
        kind: match entry.stat.is_directory() {
            true => Kind::Directory,
            false => Kind::File,
        },
        identity: Some(entry.stat.inode),
    });
    let named: Vec<Named> = named.collect();
    Ok((!named.is_empty()).then_some((named, pages)))
}
