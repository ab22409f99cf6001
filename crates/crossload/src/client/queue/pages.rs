//! Lists of our own API, which come in pages.

use serde_json::Value;
use types::Result;

use super::service::{Queue, encoded};
use crate::limits::{QUEUE_PAGE_ITEMS, QUEUE_PAGES_MAX};

/// All items of a list; one document that is no list is the only item. `path` may have a query.
///
/// # Errors
/// The queue's refusal; `peer_misbehaved` for a list without an end.
pub(super) async fn all(queue: &Queue<'_>, path: &str) -> Result<Vec<Value>> {
    let mut items = Vec::new();
    let mut after = String::new();
    for _ in 0..QUEUE_PAGES_MAX {
        let page = match after.is_empty() {
            true => path.to_owned(),
            false => {
                let mark = if path.contains('?') { '&' } else { '?' };
                format!("{path}{mark}limit={QUEUE_PAGE_ITEMS}&after={}", encoded(&after))
            }
        };
        let mut page = queue.get(&page).await?;
        match page.get_mut("items").map(Value::take) {
            Some(Value::Array(more)) => items.extend(more),
            _ => return Ok(vec![page]),
        }
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return Ok(items),
        }
    }
    Err(queue.misbehaved(path, "its list has no end"))
}
