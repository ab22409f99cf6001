//! The list of changes by operators, as earlier releases kept it: among the queue's own settings.

use catalog::{Audit, Catalog, NO_ACTOR, SettingKind};
use serde::Deserialize;
use serde_json::Value;
use types::Result;

/// The beginning of the names of entries.
const PREFIX: &str = "audit ";

/// An entry.
#[derive(Deserialize)]
struct Old {
    at_ms: i64,
    user: String,
    action: String,
    detail: String,
}

/// Moves these entries into the list of the catalog.
pub(super) async fn move_old(catalog: &Catalog) -> Result<()> {
    let kind = SettingKind::Internal;
    let stored = catalog.settings::<Value>(kind).await?.into_iter();
    // Their names sort by time.
    for setting in stored.filter(|setting| setting.name.starts_with(PREFIX)) {
        if !catalog.delete_setting(kind, &setting.name, NO_ACTOR, 0).await? {
            continue;
        }
        if let Ok(old) = serde_json::from_value::<Old>(setting.value) {
            let entry = Audit {
                at_ms: old.at_ms,
                actor: old.user,
                action: old.action,
                detail: old.detail,
            };
            catalog.note(vec![entry]).await?;
        }
    }
    Ok(())
}
