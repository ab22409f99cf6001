//! Lists of our own API, which come in pages.

use serde_json::Value;
use types::Result;

use super::service::{Queue, encoded};
use crate::limits::{QUEUE_ITEMS_BYTES_MAX, QUEUE_PAGE_ITEMS, QUEUE_PAGES_MAX};

/// Hands over a list page by page; one document that is no list is the only item. `path` may have
/// a query. `take` says whether it wants more.
///
/// # Errors
/// The queue's refusal; `peer_misbehaved` for a list without an end; those of `take`.
pub(super) async fn each(
    queue: &Queue<'_>,
    path: &str,
    mut take: impl FnMut(Vec<Value>, usize) -> Result<bool>,
) -> Result<()> {
    let mut after = String::new();
    for _ in 0..QUEUE_PAGES_MAX {
        let page = match after.is_empty() {
            true => path.to_owned(),
            false => {
                let mark = if path.contains('?') { '&' } else { '?' };
                format!("{path}{mark}limit={QUEUE_PAGE_ITEMS}&after={}", encoded(&after))
            }
        };
        let (mut page, bytes) = queue.get_measured(&page).await?;
        let wants_more = match page.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => take(items, bytes)?,
            _ => return take(vec![page], bytes).map(drop),
        };
        match page["next"].as_str().filter(|_| wants_more) {
            Some(next) => after = next.to_owned(),
            None => return Ok(()),
        }
    }
    Err(queue.misbehaved(path, "its list has no end"))
}

/// All items of a list.
///
/// # Errors
/// As [`each`]; `peer_misbehaved` for more than [`QUEUE_ITEMS_BYTES_MAX`].
pub(super) async fn all(queue: &Queue<'_>, path: &str) -> Result<Vec<Value>> {
    let (mut items, mut total) = (Vec::new(), 0);
    let add = |page: Vec<Value>, bytes: usize| {
        total += bytes;
        items.extend(page);
        match total > QUEUE_ITEMS_BYTES_MAX {
            true => Err(queue.misbehaved(path, &format!("its list is longer than {QUEUE_ITEMS_BYTES_MAX} bytes"))),
            false => Ok(true),
        }
    };
    each(queue, path, add).await?;
    Ok(items)
}
