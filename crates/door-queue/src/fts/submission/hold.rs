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
    let bans = BansByStorage::new(bans, &job.owner.vo);
    for file in &mut job.files {
        for storage in [&file.source_storage, &file.destination_storage] {
            match bans.of(storage).map(|ban| (ban.effect, ban)) {
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

/// The bans that count for a virtual organisation, the hardest of each storage. There may be many
/// bans, and a job may name many storages: so each is looked at once.
struct BansByStorage<'a>(HashMap<&'a str, &'a Ban>);

impl<'a> BansByStorage<'a> {
    fn new(bans: &'a [Ban], vo: &str) -> Self {
        let mut hardest: HashMap<&str, &Ban> = HashMap::new();
        for ban in bans.iter().filter(|ban| ban.is_for(vo)) {
            let kept = hardest.entry(authority(&ban.storage)).or_insert(ban);
            if hardness(ban) >= hardness(kept) {
                *kept = ban;
            }
        }
        Self(hardest)
    }

    /// The ban of a storage: the hardest of those of its host and of its port. Schemes do not
    /// matter.
    fn of(&self, storage: &str) -> Option<&'a Ban> {
        let names = [authority(storage), host(storage)];
        let found = names.into_iter().filter_map(|name| self.0.get(name).copied());
        found.max_by_key(|ban| hardness(ban))
    }
}

fn hardness(ban: &Ban) -> u8 {
    match ban.effect {
        BanEffect::Cancel => 2,
        BanEffect::Wait => 1,
        BanEffect::WaitAs => 0,
    }
}
