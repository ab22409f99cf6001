//! Bans of storages and users.

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use catalog::BanEffect;
use http_server::control::Client;
use schedule::JobId;
use serde::{Deserialize, Serialize};
use types::{Error, ErrorCode, Phase, Side};
use utoipa::{IntoParams, ToSchema};

use super::answer::{Answered, ErrorAnswer, Json, bad, missing};
use super::links::storage;
use super::request::{self, List};
use crate::limits::{BANS_MAX, NAME_BYTES_MAX, OPERATION_BYTES_MAX};
use crate::queue::UserBan;
use crate::respond::nothing;
use crate::rest::{ban_entry, banned_vo, entry};
use crate::rights::{ANONYMOUS, Caller};
use crate::settings::{Settings, Shared, now_ms};

/// What a ban does to files that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Effect {
    /// They wait until the ban ends.
    Wait,
    /// They are canceled.
    Cancel,
}

/// A ban of a storage or a user.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ban {
    /// The storage; `null`: the ban is of a user.
    storage: Option<String>,
    /// The user: the name of a certificate, or `subject@issuer` of a token; `null`: the ban is of a
    /// storage.
    user: Option<String>,
    /// Only for this virtual organisation; `null`: for all.
    vo: Option<String>,
    /// What happens to files that wait.
    effect: Option<Effect>,
    /// Whether the ban is of the tokens of all issuers with this user as subject, too: one that was
    /// made by FTS's API.
    at_any_issuer: bool,
    /// Whether new jobs are taken, and wait.
    allow_submit: bool,
    /// Why.
    reason: String,
    /// Who banned it.
    by: String,
    /// Since when, in milliseconds since 1970.
    since_ms: i64,
    /// When a ban that lets files wait cancels them and refuses new jobs, in milliseconds since
    /// 1970; `null`: never.
    cancels_ms: Option<i64>,
}

impl From<catalog::Ban> for Ban {
    fn from(ban: catalog::Ban) -> Self {
        Self {
            storage: Some(ban.storage),
            user: None,
            vo: Some(ban.vo).filter(|vo| !vo.is_empty()),
            effect: Some(match ban.effect {
                BanEffect::Cancel => Effect::Cancel,
                BanEffect::Wait | BanEffect::WaitAs => Effect::Wait,
            }),
            at_any_issuer: false,
            allow_submit: ban.effect == BanEffect::WaitAs,
            reason: ban.message,
            by: ban.by,
            since_ms: ban.since_ms,
            cancels_ms: ban.cancels_ms,
        }
    }
}

impl From<UserBan> for Ban {
    fn from(ban: UserBan) -> Self {
        Self {
            storage: None,
            user: Some(ban.user),
            vo: None,
            effect: None,
            at_any_issuer: ban.at_any_issuer,
            allow_submit: false,
            reason: ban.message,
            by: ban.by,
            since_ms: ban.since_ms,
            cancels_ms: None,
        }
    }
}

/// List bans
#[utoipa::path(
    get, path = "/bans", tag = "limits", operation_id = "list_bans",
    responses((status = 200, body = List<Ban>), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn list(State(settings): Shared, client: Client) -> Answered<Json<List<Ban>>> {
    settings.caller(&client)?;
    let storages = settings.queue.bans().await?;
    let users = settings.queue.user_bans().await?;
    let storages = storages.iter().cloned().map(Ban::from);
    Ok(Json(List::whole(
        storages.chain(users.iter().cloned().map(Ban::from)).collect(),
    )))
}

/// A storage or a user to ban.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object with the member storage or user")]
pub(super) struct NewBan {
    /// The storage.
    #[serde(default)]
    #[schema(example = "https://host:443")]
    storage: Option<String>,
    /// Only for this virtual organisation.
    #[serde(default)]
    #[schema(max_length = 255)]
    vo: Option<String>,
    /// What happens to files that wait. Default, as in FTS's API: they are canceled; with
    /// `allow_submit` they wait.
    #[serde(default)]
    effect: Option<Effect>,
    /// With the effect `wait`: new jobs are taken, and wait too. Default: they are refused.
    #[serde(default)]
    allow_submit: Option<bool>,
    /// The user, whose jobs are canceled and whose new jobs are refused: the name of a certificate,
    /// or `subject@issuer` of a token.
    #[serde(default)]
    #[schema(max_length = 255)]
    user: Option<String>,
    /// Why; shown to those who wait.
    #[serde(default)]
    #[schema(max_length = 255)]
    reason: Option<String>,
}

/// A ban that was made.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MadeBan {
    /// The ban.
    ban: Ban,
    /// The jobs that it concerns.
    #[schema(value_type = Vec<String>)]
    jobs: Vec<JobId>,
}

/// Ban a storage or a user
///
/// For operators. A ban of the same storage and virtual organisation is replaced.
#[utoipa::path(
    put, path = "/bans", tag = "limits", operation_id = "set_ban", request_body = NewBan,
    responses((status = 200, body = MadeBan), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn put(State(settings): Shared, client: Client, body: Body) -> Answered<Json<MadeBan>> {
    let caller = settings.caller(&client)?;
    let asked: NewBan = request::body(body, OPERATION_BYTES_MAX).await?;
    let texts = [&asked.vo, &asked.user, &asked.reason];
    if texts.into_iter().flatten().any(|text| text.len() > NAME_BYTES_MAX) {
        return Err(bad(format!("a name or reason has more than {NAME_BYTES_MAX} bytes")));
    }
    let is_alone = asked.vo.is_none() && asked.effect.is_none() && asked.allow_submit.is_none();
    match (&asked.storage, &asked.user) {
        (Some(name), None) => {
            let name = storage(name)?;
            put_storage(&settings, &caller, name, asked).await
        }
        (None, Some(user)) if is_alone && is_user_name(user) => {
            let reason = asked.reason.unwrap_or_default();
            put_user(&settings, &caller, user.clone(), reason).await
        }
        (None, Some(_)) if is_alone => Err(bad(
            "user is the name of a certificate, such as /DC=org/CN=Jane, or subject@issuer of a token",
        )),
        _ => Err(bad("name a storage, or a user with nothing but a reason")),
    }
}

/// Whether a name can be that of one user: a subject without its issuer is not.
fn is_user_name(name: &str) -> bool {
    name.starts_with('/') || name.contains("@https://") || name == ANONYMOUS
}

async fn put_storage(settings: &Settings, caller: &Caller, name: String, asked: NewBan) -> Answered<Json<MadeBan>> {
    let allow_submit = asked.allow_submit.unwrap_or_default();
    let usual = if allow_submit { Effect::Wait } else { Effect::Cancel };
    let effect = match (asked.effect.unwrap_or(usual), allow_submit) {
        (Effect::Wait, false) => BanEffect::Wait,
        (Effect::Wait, true) => BanEffect::WaitAs,
        (Effect::Cancel, false) => BanEffect::Cancel,
        (Effect::Cancel, true) => return Err(bad("allow_submit and the effect cancel exclude each other")),
    };
    if name == "*" {
        return Err(bad(
            "a ban is of one storage: pause links, or drain workers, to stop all",
        ));
    }
    let vo = banned_vo(caller, asked.vo.filter(|vo| !vo.is_empty()))?;
    if settings.queue.bans().await?.len() >= BANS_MAX {
        return Err(bad(format!("there are {BANS_MAX} bans already")));
    }
    let ban = catalog::Ban {
        storage: name,
        vo,
        effect,
        message: asked.reason.unwrap_or_default(),
        by: caller.name.clone(),
        since_ms: now_ms(),
        cancels_ms: None,
    };
    let entry = ban_entry(caller, &ban);
    let jobs = settings.queue.ban(ban.clone(), entry).await?;
    Ok(Json(MadeBan { ban: ban.into(), jobs }))
}

async fn put_user(settings: &Settings, caller: &Caller, user: String, reason: String) -> Answered<Json<MadeBan>> {
    caller.may_configure(None)?;
    let ban = UserBan {
        user,
        at_any_issuer: false,
        message: reason,
        by: caller.name.clone(),
        since_ms: now_ms(),
    };
    if ban.includes(&caller.owner) {
        let error = Error::new(ErrorCode::Forbidden, Side::Client, Phase::Authorize);
        return Err(error.with_detail("you cannot ban yourself").into());
    }
    if settings.queue.user_bans().await?.len() >= BANS_MAX {
        return Err(bad(format!("there are {BANS_MAX} bans already")));
    }
    let entry = entry(caller, "ban-dn", format!("User {} banned", ban.user));
    let jobs = settings.queue.ban_user(ban.clone(), entry).await?;
    Ok(Json(MadeBan { ban: ban.into(), jobs }))
}

/// Which ban ends.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct BanQuery {
    /// The storage.
    storage: Option<String>,
    /// The virtual organisation that the ban of a storage is for.
    vo: Option<String>,
    /// The user.
    user: Option<String>,
}

/// End a ban
///
/// For operators.
#[utoipa::path(
    delete, path = "/bans", tag = "limits", operation_id = "end_ban", params(BanQuery),
    responses((status = 204, description = "It has ended."), (status = "default", body = ErrorAnswer)),
)]
pub(super) async fn remove(State(settings): Shared, client: Client, uri: Uri) -> Answered<Response> {
    let caller = settings.caller(&client)?;
    let query: BanQuery = request::query(&uri)?;
    let was_banned = match (query.storage, query.user) {
        (Some(name), None) => {
            let name = storage(&name)?;
            let vo = banned_vo(&caller, query.vo)?;
            let entry = entry(&caller, "unban-se", format!("Storage {name} unbanned"));
            settings.queue.unban(name, vo, entry).await?
        }
        (None, Some(user)) if query.vo.is_none() => {
            caller.may_configure(None)?;
            let entry = entry(&caller, "unban-dn", format!("User {user} unbanned"));
            settings.queue.unban_user(user, entry).await?
        }
        _ => return Err(bad("name a storage or a user")),
    };
    if !was_banned {
        return Err(missing("there is no such ban"));
    }
    Ok(nothing())
}
