//! What operators have changed, as the door notes it.

use catalog::{Catalog, SettingKind};
use door_queue::limits::AUDIT_ENTRIES_MAX;
use door_queue::queue::AuditEntry;
use serde_json::Value;
use types::Result;

/// The beginning of the names of entries, among other things that the queue keeps.
const PREFIX: &str = "audit ";

/// The latest entries, the newest first.
pub(super) async fn latest(catalog: &Catalog, limit: usize) -> Result<Vec<AuditEntry>> {
    let entries = catalog.settings::<Value>(SettingKind::Internal).await?.into_iter();
    let entries = entries.filter(|entry| entry.name.starts_with(PREFIX));
    let entries = entries.filter_map(|entry| serde_json::from_value(entry.value).ok());
    let entries: Vec<AuditEntry> = entries.collect();
    Ok(entries.into_iter().rev().take(limit).collect())
}

/// Notes a change. The oldest beyond [`AUDIT_ENTRIES_MAX`] is forgotten.
pub(super) async fn note(catalog: &Catalog, entry: AuditEntry) -> Result<()> {
    let kind = SettingKind::Internal;
    // Names sort by time.
    let name = format!("{PREFIX}{:020}", entry.at_ms);
    catalog
        .put_setting(kind, &name, &entry, &entry.user, entry.at_ms)
        .await?;
    let entries = catalog.settings::<Value>(kind).await?.into_iter();
    let names: Vec<String> = entries
        .map(|entry| entry.name)
        .filter(|name| name.starts_with(PREFIX))
        .collect();
    for oldest in names.iter().take(names.len().saturating_sub(AUDIT_ENTRIES_MAX)) {
        catalog.delete_setting(kind, oldest, &entry.user, entry.at_ms).await?;
    }
    Ok(())
}
