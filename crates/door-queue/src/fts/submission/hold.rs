//! Bans: a submission that names a banned storage is refused, or its files wait.

use std::collections::HashMap;

use catalog::{Ban, BanEffect, NewJob};
use schedule::FileState;
use schedule::storage::{authority, host};

use super::url::storage_without_port;
use crate::fts::FtsError;

/// Applies the bans to a job.
///
/// # Errors
/// 403 if a ban refuses new files for one of its storages.
pub fn hold(job: &mut NewJob, bans: &[Ban]) -> Result<(), FtsError> {
    if bans.is_empty() {
        return Ok(());
    }
    let mut known: HashMap<String, Option<BanEffect>> = HashMap::new();
    for file in &mut job.files {
        for storage in [&file.source_storage, &file.destination_storage] {
            if !known.contains_key(storage.as_str()) {
                known.insert(storage.clone(), effect_on(storage, &job.owner.vo, bans));
            }
            match known.get(storage.as_str()).copied().flatten() {
                None => {}
                Some(BanEffect::WaitAs) => {
                    file.state = match file.state {
                        FileState::Submitted => FileState::OnHold,
                        FileState::Staging => FileState::OnHoldStaging,
                        other => other,
                    };
                }
                Some(BanEffect::Cancel | BanEffect::Wait) => {
                    let message = format!("{} is banned", storage_without_port(storage));
                    return Err(FtsError::new(403, message));
                }
            }
        }
    }
    Ok(())
}

/// What the bans do to new files of a storage: the hardest of them counts. Schemes do not matter.
fn effect_on(storage: &str, vo: &str, bans: &[Ban]) -> Option<BanEffect> {
    let names = [authority(storage), host(storage)];
    let hardness = |effect: &BanEffect| match effect {
        BanEffect::Cancel => 2,
        BanEffect::Wait => 1,
        BanEffect::WaitAs => 0,
    };
    bans.iter()
        .filter(|ban| names.contains(&authority(&ban.storage)))
        .filter(|ban| ban.vo.is_empty() || ban.vo == "*" || ban.vo == vo)
        .map(|ban| ban.effect)
        .max_by_key(hardness)
}
