//! Bans, workers and the list of changes.

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use catalog::{Audit, Ban, BanEffect};
use http_server::control::Client;
use serde::Deserialize;
use serde_json::json;

use super::query::{Query, read};
use crate::fts::FtsError;
use crate::fts::answers::date_time;
use crate::limits::{AUDIT_ENTRIES_DEFAULT, AUDIT_ENTRIES_MAX, BANS_MAX, NAME_BYTES_MAX};
use crate::queue::UserBan;
use crate::respond::{Answered, Failed, good, nothing};
use crate::rights::{Caller, Level};
use crate::settings::{Shared, now_ms};
use crate::storage_name::storage_name;

/// The entry of what an operator changes.
pub(crate) fn entry(caller: &Caller, action: &str, detail: String) -> Audit {
    Audit {
        at_ms: now_ms(),
        actor: caller.name.clone(),
        action: action.to_owned(),
        detail,
    }
}

/// The ban of a storage, as FTS's clients send it.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with storage")]
pub(super) struct NewBan {
    storage: Option<String>,
    status: Option<String>,
    timeout: Option<i64>,
    message: Option<String>,
    vo_name: Option<String>,
    allow_submit: Option<bool>,
}

/// The virtual organisation that a ban is for: empty, for all, where its maker may ban for all.
pub(crate) fn banned_vo(caller: &Caller, asked: Option<String>) -> Result<String, Failed> {
    let vo = match (asked, caller.levels.config) {
        (Some(vo), _) if vo != "*" => vo,
        (None, Level::Vo | Level::Own) => caller.owner.vo.clone(),
        _ => String::new(),
    };
    caller.may_configure((!vo.is_empty()).then_some(vo.as_str()))?;
    Ok(vo)
}

/// The name of a storage, in lower case.
///
/// # Errors
/// 400 for what is none.
pub(super) fn named_storage(text: &str) -> Result<String, FtsError> {
    storage_name(text).ok_or_else(|| {
        let words = format!("{text} is no storage: it is named by scheme and host, such as davs://host");
        FtsError::invalid(words)
    })
}

/// The organisation of a ban, as FTS names all.
fn vo_word(ban: &Ban) -> &str {
    if ban.vo.is_empty() { "*" } else { &ban.vo }
}

/// The entry of a new ban, in FTS's words.
pub(crate) fn ban_entry(caller: &Caller, ban: &Ban) -> Audit {
    let effect = json!(ban.effect);
    let (storage, vo) = (&ban.storage, vo_word(ban));
    let effect = effect.as_str().unwrap_or_default();
    entry(
        caller,
        "ban-se",
        format!("Storage {storage} for {vo} banned ({effect})"),
    )
}

/// Checks a name or a reason.
///
/// # Errors
/// 400 for one that is too long.
fn short(text: &str) -> Result<(), FtsError> {
    match text.len() <= NAME_BYTES_MAX {
        true => Ok(()),
        false => {
            let words = format!("a name or reason has more than {NAME_BYTES_MAX} bytes");
            Err(FtsError::invalid(words))
        }
    }
}

/// `GET /ban/se`.
pub(super) async fn bans(State(settings): Shared, client: Client) -> Answered {
    settings.caller(&client)?;
    let bans = settings.queue.bans().await?;
    let shown = bans.iter().map(|ban| {
        json!({
            "se": ban.storage,
            "vo": vo_word(ban),
            "status": ban.effect,
            "message": ban.message,
            "addition_time": date_time(Some(ban.since_ms)),
            "admin_dn": ban.by,
        })
    });
    Ok(good(&shown.collect()))
}

/// `POST /ban/se`: the jobs that it concerns.
pub(super) async fn ban(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    let asked: NewBan = read(body).await?;
    let storage = asked.storage.filter(|storage| !storage.is_empty());
    let storage = named_storage(&storage.ok_or_else(|| FtsError::bad("Missing storage parameter"))?)?;
    if storage == "*" {
        let words = "a ban is of one storage: pause links, or drain workers, to stop all";
        return Err(FtsError::bad(words).into());
    }
    let texts = [&asked.vo_name, &asked.message];
    texts.into_iter().flatten().try_for_each(|text| short(text))?;
    let status = asked.status.as_deref().unwrap_or("CANCEL").to_ascii_uppercase();
    let effect = match (status.as_str(), asked.allow_submit.unwrap_or_default()) {
        ("CANCEL", false) => BanEffect::Cancel,
        ("CANCEL", true) => return Err(FtsError::bad("allow_submit and CANCEL can not be combined").into()),
        ("WAIT", false) => BanEffect::Wait,
        ("WAIT", true) | ("WAIT_AS", _) => BanEffect::WaitAs,
        _ => return Err(FtsError::bad("status can only be CANCEL or WAIT").into()),
    };
    let vo = banned_vo(&caller, asked.vo_name)?;
    if settings.queue.bans().await?.len() >= BANS_MAX {
        return Err(FtsError::bad(format!("there are {BANS_MAX} bans already")).into());
    }
    let since_ms = now_ms();
    let timeout_ms = asked
        .timeout
        .filter(|timeout_s| *timeout_s > 0 && effect != BanEffect::Cancel)
        .map(|timeout_s| timeout_s.saturating_mul(1000));
    let ban = Ban {
        storage,
        vo,
        effect,
        message: asked.message.unwrap_or_default(),
        by: caller.name.clone(),
        since_ms,
        cancels_ms: timeout_ms.map(|timeout_ms| since_ms.saturating_add(timeout_ms)),
    };
    let entry = ban_entry(&caller, &ban);
    let jobs = settings.queue.ban(ban, entry).await?;
    Ok(good(&json!(jobs)))
}

/// `DELETE /ban/se?storage=`.
pub(super) async fn unban(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    let query = Query::of(&uri);
    let storage = query
        .text("storage")
        .ok_or_else(|| FtsError::bad("Missing storage parameter"))?;
    let storage = named_storage(&storage)?;
    let vo = banned_vo(&caller, query.text("vo_name"))?;
    let entry = entry(&caller, "unban-se", format!("Storage {storage} unbanned"));
    // As with FTS, the answer is the same without such a ban; nothing is noted then.
    settings.queue.unban(storage, vo, entry).await?;
    Ok(nothing())
}

/// `GET /ban/dn`.
pub(super) async fn user_bans(State(settings): Shared, client: Client) -> Answered {
    settings.caller(&client)?;
    let bans = settings.queue.user_bans().await?;
    let shown = bans.iter().map(|ban| {
        json!({
            "dn": ban.user,
            "message": ban.message,
            "addition_time": date_time(Some(ban.since_ms)),
            "admin_dn": ban.by,
        })
    });
    Ok(good(&shown.collect()))
}

/// The ban of a user.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with user_dn")]
pub(super) struct NewUserBan {
    user_dn: Option<String>,
    message: Option<String>,
}

/// `POST /ban/dn`: the jobs that it concerns.
pub(super) async fn ban_user(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let asked: NewUserBan = read(body).await?;
    let user = asked.user_dn.filter(|user| !user.is_empty());
    let user = user.ok_or_else(|| FtsError::bad("Missing dn parameter"))?;
    short(&user)?;
    asked.message.iter().try_for_each(|text| short(text))?;
    let ban = UserBan {
        user: user.clone(),
        at_any_issuer: true,
        message: asked.message.unwrap_or_default(),
        by: caller.name.clone(),
        since_ms: now_ms(),
    };
    if ban.includes(&caller.owner) {
        return Err(FtsError::new(409, "You can not ban yourself").into());
    }
    if settings.queue.user_bans().await?.len() >= BANS_MAX {
        return Err(FtsError::bad(format!("there are {BANS_MAX} bans already")).into());
    }
    let entry = entry(&caller, "ban-dn", format!("User {user} banned"));
    let jobs = settings.queue.ban_user(ban, entry).await?;
    Ok(good(&json!(jobs)))
}

/// `DELETE /ban/dn?user_dn=`.
pub(super) async fn unban_user(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let user = Query::of(&uri)
        .text("user_dn")
        .ok_or_else(|| FtsError::bad("Missing user_dn parameter"))?;
    let entry = entry(&caller, "unban-dn", format!("User {user} unbanned"));
    settings.queue.unban_user(user, entry).await?;
    Ok(nothing())
}

/// Which worker takes no new work.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with hostname and drain")]
pub(super) struct Drain {
    hostname: String,
    drain: bool,
}

/// `POST /config/drain`.
pub(super) async fn drain(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let Drain { hostname, drain } = read(body).await?;
    let entry = entry(&caller, "drain", format!("Worker {hostname}: drain {drain}"));
    if !settings.queue.drain(hostname.clone(), drain, entry).await? {
        return Err(FtsError::new(404, "Host not found").into());
    }
    Ok(good(&json!({"hostname": hostname, "drain": drain})))
}

/// `GET /config/audit[?dn=&limit=]`.
pub(super) async fn audit(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    settings.caller(&client)?.may_configure(None)?;
    let query = Query::of(&uri);
    let limit = match query.get("limit").map(str::parse) {
        None => AUDIT_ENTRIES_DEFAULT,
        Some(Ok(limit)) if (1..=AUDIT_ENTRIES_MAX).contains(&limit) => limit,
        Some(_) => return Err(FtsError::invalid(format!("limit is from 1 to {AUDIT_ENTRIES_MAX}")).into()),
    };
    let entries = settings.queue.audit(query.text("dn"), limit).await?;
    let shown = entries.iter().map(|entry| {
        json!({
            "datetime": date_time(Some(entry.at_ms)),
            "dn": entry.actor,
            "action": entry.action,
            "config": entry.detail,
        })
    });
    Ok(good(&shown.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_changes_tells_users_of_two_issuers_apart() {
        let caller = Caller::with_token("op", "https://i.example/");
        assert_eq!(entry(&caller, "ban-se", String::new()).actor, "op@https://i.example/");
    }
}
