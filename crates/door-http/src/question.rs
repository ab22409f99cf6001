//! `GET /.well-known/crossload-explain?op=write&path=/data/f`: may the client do that, and why?
//! Nothing is done, and the store is not asked.
//!
//! The answer is about the client's own credential: it names no rule about others, and no export
//! except that of the path.

use http_wire::{ContentType, RequestHead};
use policy::Operation;
use serde_json::json;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::exchange::FileExchange;

/// Answers with a list, one object for each operation that the word stands for.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let malformed = |why: &str| Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open).with_detail(why);
    let exports = exchange.exports.clone();
    let path = |name: &str| {
        let path = head.target.query_value(name).map(|text| LogicalPath::parse(&text));
        let path = path.map(|path| path.map(|path| exports.respelled(&path).unwrap_or(path)));
        path.transpose()
    };
    let Some(asked) = path("path")? else {
        return Err(malformed("the query names no path"));
    };
    let word = head.target.query_value("op").unwrap_or_default();
    let size_bytes = match head.target.query_value("size") {
        None => None,
        Some(digits) => Some(digits.parse().map_err(|_| malformed("size is not a number of bytes"))?),
    };
    let operations =
        Operation::from_word(&word, path("to")?).ok_or_else(|| malformed("the query names no operation"))?;
    let explanations: Vec<_> = operations
        .into_iter()
        .map(|operation| exchange.explain_to_requester(operation, &asked, size_bytes))
        .collect();
    let body = json!(explanations).to_string();
    exchange
        .http
        .whole(200, body.as_bytes(), |head| {
            head.content_type(ContentType::Json).no_store()
        })
        .await
}
