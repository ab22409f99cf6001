//! Admission of the files of a large job. Bans that were made while it was being stored have found
//! none of its files, so they hold or cancel them here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schedule::storage::{authority, host};
use schedule::{FileEvent, FileState};
use types::Result;

use super::cancel::cancel;
use super::settings::SettingKind;
use crate::settings::{Ban, BanEffect, STORAGE_BANNED};
use crate::store::{Row, Transaction, Value};
use crate::work::{Change, FileRow, Work};

/// Locked files of a submission wait no longer, unless a ban holds or cancels them.
pub(super) async fn admit(work: &mut Work<'_>, files: &[FileRow]) -> Result<()> {
    let queues: BTreeSet<i64> = files.iter().map(|file| file.queue).collect();
    let banned = banned(work.transaction, &queues, work.now_ms).await?;
    let (mut held, mut canceled, mut free) = (Vec::new(), Vec::new(), Vec::new());
    for file in files {
        let is_in_use = file.state != FileState::NotUsed;
        match banned.get(&file.queue).filter(|_| is_in_use) {
            Some(BanEffect::Cancel) => canceled.push(file.clone()),
            Some(BanEffect::Wait | BanEffect::WaitAs) if file.state.after(FileEvent::HeldByBan).is_ok() => {
                held.push(file)
            }
            _ => free.push(file),
        }
    }
    let mut sets: Vec<Vec<Value>> = Vec::with_capacity(free.len());
    for file in free {
        work.count_at(file.queue, file.priority, file.state, file.due_ms, -1);
        work.count_at(file.queue, file.priority, file.state, None, 1);
        sets.push(vec![file.id.into()]);
    }
    let sql = "UPDATE file SET due_ms = NULL WHERE id = $1";
    work.transaction.execute_each(sql, &sets).await?;
    for file in held {
        work.step(file, FileEvent::HeldByBan, Change::default())?;
    }
    // None of them runs.
    cancel(work, &canceled, STORAGE_BANNED).await?;
    // Also where no state changes: others may claim the files now.
    work.transaction.order_events().await
}

/// What bans do to the files of these queues now. Of several bans the hardest counts.
async fn banned(
    transaction: &mut dyn Transaction,
    queues: &BTreeSet<i64>,
    now_ms: i64,
) -> Result<BTreeMap<i64, BanEffect>> {
    let sql = "SELECT value FROM setting WHERE kind = $1";
    let mut rows = transaction.query(sql, &[SettingKind::Ban.name().into()]).await?;
    let bans: Vec<Ban> = rows.iter_mut().map(Row::json).collect::<Result<_>>()?;
    let mut found = BTreeMap::new();
    if bans.is_empty() {
        return Ok(found);
    }
    let mut by_storage: HashMap<&str, Vec<&Ban>> = HashMap::new();
    for ban in &bans {
        by_storage.entry(authority(&ban.storage)).or_default().push(ban);
    }
    let sql = "SELECT s.text, d.text, v.text FROM queue q JOIN word s ON s.id = q.source \
        JOIN word d ON d.id = q.destination JOIN word v ON v.id = q.vo WHERE q.id = $1";
    let sets: Vec<Vec<Value>> = queues.iter().map(|queue| vec![(*queue).into()]).collect();
    for (mut rows, queue) in transaction.query_each(sql, &sets).await?.into_iter().zip(queues) {
        let Some(row) = rows.first_mut() else { continue };
        let (source, destination, vo) = (row.text()?, row.text()?, row.text()?);
        let names = [&source, &destination].map(|storage| [authority(storage), host(storage)]);
        let of_storages = names.iter().flatten().filter_map(|name| by_storage.get(name)).flatten();
        let effects = of_storages
            .filter(|ban| ban.is_for(&vo))
            .map(|ban| ban.effect_at(now_ms));
        let hardest = effects.reduce(|one, other| if one == BanEffect::Cancel { one } else { other });
        found.extend(hardest.map(|effect| (*queue, effect)));
    }
    Ok(found)
}
