//! Bans: a submission that names a banned storage is refused, or its files wait.

use std::collections::HashMap;

use catalog::{Ban, BanEffect, NewJob};
use schedule::FileState;
use schedule::storage::{authority, host};

use crate::fts::FtsError;

/// Applies the bans to a job.
///
/// # Errors
/// 403 if a ban refuses new files for one of its storages.
pub fn hold(job: &mut NewJob, bans: &[Ban]) -> Result<(), FtsError> {
    if bans.is_empty() {
        return Ok(());
    }
    let mut known: HashMap<String, Option<&Ban>> = HashMap::new();
    for file in &mut job.files {
        for storage in [&file.source_storage, &file.destination_storage] {
            if !known.contains_key(storage.as_str()) {
                known.insert(storage.clone(), ban_of(storage, &job.owner.vo, bans));
            }
            let ban = known.get(storage.as_str()).copied().flatten();
            match ban.map(|ban| (ban.effect, ban)) {
                None => {}
                Some((BanEffect::WaitAs, _)) => {
                    file.state = match file.state {
                        FileState::Submitted => FileState::OnHold,
                        FileState::Staging => FileState::OnHoldStaging,
                        other => other,
                    };
                }
                Some((BanEffect::Cancel | BanEffect::Wait, ban)) => {
                    // As operators have named it: a ban of one port leaves the others.
                    let refused = format!("{} is banned", ban.storage);
                    let message = match ban.message.as_str() {
                        "" => refused,
                        why => format!("{refused}: {why}"),
                    };
                    return Err(FtsError::new(403, message));
                }
            }
        }
    }
    Ok(())
}

/// The ban that counts for new files of a storage: the hardest of them. Schemes do not matter.
fn ban_of<'a>(storage: &str, vo: &str, bans: &'a [Ban]) -> Option<&'a Ban> {
    let names = [authority(storage), host(storage)];
    let hardness = |ban: &&Ban| match ban.effect {
        BanEffect::Cancel => 2,
        BanEffect::Wait => 1,
        BanEffect::WaitAs => 0,
    };
    bans.iter()
        .filter(|ban| names.contains(&authority(&ban.storage)))
        .filter(|ban| ban.vo.is_empty() || ban.vo == "*" || ban.vo == vo)
        .max_by_key(hardness)
}
