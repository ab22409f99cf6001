//! Rights of single users, which operators give while the queue runs, by FTS's calls.

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use catalog::{Operation, UserRight};
use http_server::control::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::configure::checked;
use super::operate::note;
use super::query::{Query, read};
use crate::fts::FtsError;
use crate::limits::GRANTS_MAX;
use crate::respond::{Answered, good, nothing};
use crate::settings::Shared;

/// What FTS gives in its database only. Here it is an operator of the configuration.
const ADMIN: &str = "admin";

fn shown(grant: &UserRight) -> Value {
    json!({"dn": grant.user, "operation": grant.operation.name()})
}

/// The operation of this name.
fn operation(name: &str) -> Result<Operation, FtsError> {
    if name == ADMIN {
        return Err(FtsError::bad("'admin' is for the operators of the configuration"));
    }
    let found = Operation::ALL.into_iter().find(|operation| operation.name() == name);
    found.ok_or_else(|| FtsError::invalid("operation is transfer or config"))
}

/// `GET /config/authorize[?dn=&operation=]`.
pub(super) async fn list(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    settings.caller(&client)?.may_configure(None)?;
    let query = Query::of(&uri);
    let (user, operation) = (query.get("dn"), query.get("operation"));
    let grants = settings.queue.grants();
    let wanted = grants.iter().filter(|grant| {
        user.is_none_or(|user| user == grant.user) && operation.is_none_or(|name| name == grant.operation.name())
    });
    Ok(good(&wanted.map(shown).collect()))
}

/// A right to be given.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with dn and operation")]
pub(super) struct NewGrant {
    dn: Option<String>,
    operation: Option<String>,
}

/// `POST /config/authorize`.
pub(super) async fn put(State(settings): Shared, client: Client, body: Body) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let new: NewGrant = read(body).await?;
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (Some(user), Some(name)) = (given(new.dn), given(new.operation)) else {
        return Err(FtsError::bad("Missing dn and/or operation").into());
    };
    checked(&user)?;
    let operation = operation(&name)?;
    let grant = UserRight { user, operation };
    let known = settings.queue.grants();
    if !known.contains(&grant) {
        if known.len() >= GRANTS_MAX {
            return Err(FtsError::bad(format!("there are {GRANTS_MAX} grants already")).into());
        }
        settings.queue.put_grant(grant.clone(), true).await?;
        let detail = format!("{name} granted to \"{}\"", grant.user);
        note(&settings, &caller, "authorize", detail).await?;
    }
    Ok(good(&shown(&grant)))
}

/// `DELETE /config/authorize?dn=[&operation=]`.
pub(super) async fn remove(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let query = Query::of(&uri);
    let user = query.text("dn").ok_or_else(|| FtsError::bad("Missing DN parameter"))?;
    let operations = match query.get("operation") {
        Some(name) => vec![operation(name)?],
        None => Operation::ALL.to_vec(),
    };
    for operation in operations {
        let grant = UserRight {
            user: user.clone(),
            operation,
        };
        if settings.queue.put_grant(grant, false).await? {
            let detail = format!("{} revoked for \"{user}\"", operation.name());
            note(&settings, &caller, "revoke", detail).await?;
        }
    }
    Ok(nothing())
}
