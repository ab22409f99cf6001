//! `/.well-known/crossload-node`: this server as a node of a cluster.
//!
//! `GET` answers with what the node tells its redirectors: load, room, and what it is used for.
//! With `?changes=1` the answer does not end: a line of JSON each second with the same
//! (`{"status": {…}}`), and one as soon as names have changed
//! (`{"changed": {"files": ["/data/f"], "directories": [], "gone": []}}`, by what is there now).
//! `{"forget": "…"}` says that names were left out, or that a whole tree has other names, so that
//! the redirector must forget all that it knows about this node.
//!
//! The report about space, which is at a path of the configuration, is answered here too.
//!
//! `POST` with `{"drain": "no_writes"}` orders what the node is used for.

use std::sync::Arc;

use endpoint::Exports;
use http_wire::{ContentType, RequestHead};
use policy::Drain;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{MissedTickBehavior, interval};
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::exchange::FileExchange;
use crate::limits::{NODE_LINE_NAMES_MAX, NODE_LISTENERS_MAX, NODE_ORDER_BYTES_MAX, NODE_STATUS_PERIOD};
use crate::node::Node;
use crate::space_report::SpaceReport;

/// What a redirector tells everybody.
const REDIRECTOR: &str = "{\"role\":\"redirector\"}";

/// Answers a GET or HEAD.
pub(crate) async fn tell(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let node = node(exchange)?;
    exchange.http.note_credential();
    if !node.may_look(exchange.requester()) {
        // Another redirector that has this one in its list must not take it for a server.
        if node.is_redirector() {
            return whole(exchange, REDIRECTOR).await;
        }
        return Err(refused(exchange, "cluster.redirectors"));
    }
    if head.target.query_value("changes").is_some() && head.method == http_wire::Method::Get {
        return follow(exchange, node.as_ref()).await;
    }
    answer(exchange, node.as_ref()).await
}

/// Answers a POST.
pub(crate) async fn order(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let node = node(exchange)?;
    exchange.http.note_credential();
    if !node.may_order(exchange.requester()) {
        return Err(refused(exchange, "cluster.operators"));
    }
    // A page in the browser of an operator can send other types without being asked.
    if head.media_type().as_deref() != Some(ContentType::Json.value()) {
        let error = Error::new(ErrorCode::UnsupportedMediaType, Side::Client, Phase::Open);
        return Err(error.with_detail(ContentType::Json.value()));
    }
    let body = exchange.http.small_body(NODE_ORDER_BYTES_MAX).await?;
    let asked: Option<Value> = serde_json::from_slice(&body).ok();
    let drain = asked.as_ref().and_then(|asked| asked.get("drain")?.as_str());
    let Some(drain) = drain.and_then(Drain::from_name) else {
        let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open);
        return Err(error.with_detail("drain is active, no_writes or no_reads"));
    };
    let orderer = exchange.http.record.subject.clone();
    let orderer = orderer.unwrap_or_else(|| exchange.http.peer.ip().to_canonical().to_string());
    node.order(drain, &orderer).await?;
    answer(exchange, node.as_ref()).await
}

/// Answers a GET or HEAD of the report about space.
pub(crate) async fn space(exchange: &mut FileExchange<'_, '_>, report: &dyn SpaceReport) -> Result<()> {
    exchange.http.note_credential();
    if !report.may_read(exchange.requester()) {
        return Err(refused(exchange, "storage_report.readers"));
    }
    whole(exchange, &report.document().await?).await
}

fn node(exchange: &FileExchange<'_, '_>) -> Result<Arc<dyn Node>> {
    let node = exchange.door.settings.node.clone();
    node.ok_or_else(|| Error::new(ErrorCode::NotFound, Side::Client, Phase::Open).with_subject(&exchange.http.path))
}

/// `key`: the list of those who may.
fn refused(exchange: &FileExchange<'_, '_>, key: &str) -> Error {
    match &exchange.http.credential {
        Err(error) => error.clone(),
        Ok(credential) => {
            let code = match credential.as_ref() {
                credentials::Credential::Anonymous => ErrorCode::Unauthenticated,
                _ => ErrorCode::Forbidden,
            };
            let error = Error::new(code, Side::Client, Phase::Authorize).with_subject(&exchange.http.path);
            error.with_detail(format!("{key} does not name this client"))
        }
    }
}

async fn answer(exchange: &mut FileExchange<'_, '_>, node: &dyn Node) -> Result<()> {
    whole(exchange, &node.announcement()).await
}

async fn whole(exchange: &mut FileExchange<'_, '_>, told: &str) -> Result<()> {
    exchange
        .http
        .whole(200, told.as_bytes(), |head| {
            head.content_type(ContentType::Json).no_store()
        })
        .await
}

/// Tells status and changed names until the client leaves or the server stops.
async fn follow(exchange: &mut FileExchange<'_, '_>, node: &dyn Node) -> Result<()> {
    let places = exchange.door.node_listeners.clone();
    let Ok(_place) = places.try_acquire_owned() else {
        let error = Error::new(ErrorCode::Overloaded, Side::Client, Phase::Open);
        return Err(error.with_detail(format!("redirectors that listen: {NODE_LISTENERS_MAX}")));
    };
    // Before the first status, so that no change falls between them.
    let mut names = exchange.exports.name_changes().subscribe();
    let mut missing = exchange.exports.name_changes().subscribe_missing();
    let gate = exchange.http.server.gate.clone();
    let mut clock = interval(NODE_STATUS_PERIOD);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    exchange
        .http
        .begin_pieces(200, |head| head.content_type(ContentType::JsonLines).no_store());
    loop {
        let lines = tokio::select! {
            () = gate.draining() => break,
            () = exchange.http.connection.stream.peer_closed() => {
                return Err(Error::new(ErrorCode::ClientGone, Side::Client, Phase::Transfer));
            }
            _ = clock.tick() => format!("{{\"status\":{}}}\n", node.announcement()),
            changed = names.recv() => {
                let exports = exchange.door.settings.site.exports.current();
                match changed_lines(&exports, changed, &mut names).await {
                    Some(lines) => lines,
                    None => break,
                }
            }
            Ok(name) = missing.recv() => {
                let exports = exchange.door.settings.site.exports.current();
                match look(&exports, &name).await {
                    None => line_of(&[], &[], &[name.as_str()]),
                    // It has come meanwhile: that is a change.
                    Some(_) => continue,
                }
            }
        };
        for line in lines.split_inclusive('\n') {
            exchange.http.piece(line.as_bytes()).await?;
        }
    }
    exchange.http.end_pieces(None).await
}

/// The lines about a change, and those that came with it; `None` if there will be no more.
async fn changed_lines(
    exports: &Exports,
    first: Result<LogicalPath, RecvError>,
    names: &mut Receiver<LogicalPath>,
) -> Option<String> {
    let forget = |why: &str| format!("{}\n", json!({"forget": why}));
    let missed = |count: u64| forget(&format!("{count} names were missed"));
    let mut changed = match first {
        Ok(name) => vec![name],
        Err(RecvError::Lagged(count)) => return Some(missed(count)),
        Err(RecvError::Closed) => return None,
    };
    while changed.len() < NODE_LINE_NAMES_MAX {
        match names.try_recv() {
            Ok(name) => changed.push(name),
            // All has to be forgotten, so these names do not matter.
            Err(TryRecvError::Lagged(count)) => return Some(missed(count + changed.len() as u64)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        }
    }
    let (mut files, mut directories, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    let mut has_tree = false;
    for name in &changed {
        let list = match look(exports, name).await {
            Some(Seen::File) => &mut files,
            Some(Seen::Directory { is_filled }) => {
                has_tree |= is_filled;
                &mut directories
            }
            None => &mut gone,
        };
        list.push(name.as_str());
    }
    let mut lines = line_of(&files, &directories, &gone);
    if has_tree {
        lines.push_str(&forget("a directory was renamed"));
    }
    Some(lines)
}

/// The line about these names.
fn line_of(files: &[&str], directories: &[&str], gone: &[&str]) -> String {
    let changed = json!({"changed": {"files": files, "directories": directories, "gone": gone}});
    format!("{changed}\n")
}

/// What is under a name.
enum Seen {
    File,
    /// With content, it was renamed: a new one is empty.
    Directory {
        is_filled: bool,
    },
}

async fn look(exports: &Exports, name: &LogicalPath) -> Option<Seen> {
    let (export, inner) = exports.export_of(name)?;
    let store = export.store.for_itself();
    let stat = store.stat(&inner).await.ok()?;
    if !stat.is_directory() {
        return Some(Seen::File);
    }
    let is_filled = match store.list(&inner).await {
        Ok(mut pages) => pages.next_names().await.map_or(true, |names| !names.is_empty()),
        Err(_) => true,
    };
    Some(Seen::Directory { is_filled })
}

#[cfg(test)]
mod tests {
    use endpoint::NameChanges;
    use endpoint::limits::NAME_CHANGES_MAX;

    use super::*;

    fn path(number: usize) -> LogicalPath {
        LogicalPath::parse(&format!("/f{number}")).unwrap()
    }

    async fn line(first: Result<LogicalPath, RecvError>, names: &mut Receiver<LogicalPath>) -> Value {
        let line = changed_lines(&Exports::default(), first, names).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    #[tokio::test]
    async fn names_that_came_together_are_one_line() {
        let changes = NameChanges::default();
        let mut names = changes.subscribe();
        (0..NODE_LINE_NAMES_MAX + 1).for_each(|number| changes.report(path(number)));
        let first = names.recv().await;
        let told = line(first, &mut names).await;
        let gone = told["changed"]["gone"].as_array().unwrap();
        assert_eq!((gone.len(), &gone[1]), (NODE_LINE_NAMES_MAX, &json!("/f1")));
        let first = names.recv().await;
        let told = line(first, &mut names).await;
        assert_eq!(told["changed"]["gone"], json!([format!("/f{NODE_LINE_NAMES_MAX}")]));
    }

    #[tokio::test]
    async fn a_listener_that_is_too_slow_learns_that_it_missed_names() {
        let changes = NameChanges::default();
        let mut names = changes.subscribe();
        (0..NAME_CHANGES_MAX + 7).for_each(|number| changes.report(path(number)));
        let first = names.recv().await;
        assert_eq!(line(first, &mut names).await["forget"], "7 names were missed");
        // What is still kept follows.
        let first = names.recv().await;
        assert_eq!(line(first, &mut names).await["changed"]["gone"][0], "/f7");
    }
}
