//! `GET /.well-known/crossload-why?path=/data/f&op=read`: which nodes have a file, how that is
//! known, and where its client would be sent. Nothing is done: no room is kept, no load counted.
//!
//! A client learns that only for names whose properties it may read. The load of nodes, and what
//! they did instead of answering, is for those who may see the status of this server.

use endpoint::{PathTarget, Purpose, Spoken, Wanted, refusal};
use http_wire::{ContentType, RequestHead};
use policy::Operation;
use serde_json::Value;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::exchange::FileExchange;
use crate::limits::TRIED_MAX;

/// Answers with one JSON object.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let malformed = |why: &str| Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open).with_detail(why);
    let value = |name: &str| head.target.query_value(name);
    let Some(path) = value("path").map(|text| LogicalPath::parse(&text)).transpose()? else {
        return Err(malformed("the query names no path"));
    };
    let size_bytes = value("size").map(|digits| digits.parse().map_err(|_| malformed("size is not a number of bytes")));
    let purpose = match value("op").as_deref() {
        None | Some("read") => Purpose::Read,
        Some("update") => Purpose::Update,
        Some("write") => Purpose::Store {
            size_bytes: size_bytes.transpose()?,
            is_new: false,
        },
        Some(_) => return Err(malformed("op is read, write or update")),
    };
    let spoken = match value("protocol").as_deref() {
        None | Some("http") => Spoken::Http,
        Some("root") => Spoken::Xrootd,
        Some(_) => return Err(malformed("protocol is http or root")),
    };
    let tried = value("tried").unwrap_or_default();
    let tried: Vec<String> = tried
        .split(',')
        .filter(|name| !name.is_empty())
        .take(TRIED_MAX)
        .map(str::to_owned)
        .collect();
    exchange.authorize(Operation::Stat, &path, None)?;
    let PathTarget::Stored(export_path) = exchange.place(&path) else {
        return Err(refusal(ErrorCode::NotFound, &path));
    };
    let Some(elsewhere) = export_path.store.elsewhere() else {
        let why = "this server has its files itself: it is no redirector for that path";
        return Err(refusal(ErrorCode::NotImplemented, &path).with_detail(why));
    };
    let wanted = Wanted {
        path: &path,
        purpose,
        spoken,
        address: exchange.http.peer.ip(),
        tried: &tried,
        refresh: value("refresh").is_some(),
    };
    let node = exchange.door.settings.node.clone();
    let shows_servers = node.is_some_and(|node| node.may_look(exchange.requester()));
    let mut explained = elsewhere.explain(&wanted, shows_servers).await?;
    // As in the log.
    explained["request_id"] = Value::from(exchange.http.record.request_id.as_str());
    let body = explained.to_string();
    exchange
        .http
        .whole(200, body.as_bytes(), |head| {
            head.content_type(ContentType::Json).no_store()
        })
        .await
}
