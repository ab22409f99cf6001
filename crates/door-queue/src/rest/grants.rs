//! Rights of single users, which operators give while the queue runs, by FTS's calls.

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use catalog::{Audit, Operation, UserRight};
use http_server::control::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::configure::checked;
use super::operate::entry;
use super::query::{Query, read};
use crate::fts::FtsError;
use crate::limits::GRANTS_MAX;
use crate::respond::{Answered, good, nothing};
use crate::rights::ANONYMOUS;
use crate::settings::Shared;

/// What FTS gives in its database only. Here it is an operator of the configuration.
const ADMIN: &str = "admin";

fn shown(grant: &UserRight) -> Value {
    json!({"dn": grant.user, "operation": grant.operation.name(), "admin_dn": grant.by})
}

/// The name that a grant is stored under.
fn key(user: &str, operation: Operation) -> String {
    format!("{} {user}", operation.name())
}

/// Checks the name of a user who gets a right: there are no rights for all, nor for those without a
/// credential, and no credential has a name with control characters.
fn checked_user(user: &str) -> Result<(), FtsError> {
    checked(user)?;
    if user == "*" || user == ANONYMOUS || user.trim() != user || user.contains(char::is_control) {
        return Err(FtsError::invalid("dn is the name of one user with a credential"));
    }
    Ok(())
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
    checked_user(&user)?;
    let operation = operation(&name)?;
    caller.may_grant(operation)?;
    let grant = UserRight {
        user,
        operation,
        by: caller.name.clone(),
    };
    let (key, new) = (key(&grant.user, operation), grant.clone());
    let entry = entry(&caller, "authorize", format!("{name} granted to \"{}\"", grant.user));
    let changed = settings.queue.change_grants(Box::new(move |grants| {
        if grants.contains_key(&key) {
            return Ok(Vec::new());
        }
        if grants.len() >= GRANTS_MAX {
            return Err(FtsError::bad(format!("there are {GRANTS_MAX} grants already")));
        }
        grants.insert(key.clone(), new.clone());
        Ok(vec![entry.clone()])
    }));
    changed.await??;
    // As FTS answers.
    Ok(good(&json!({"dn": grant.user, "operation": grant.operation.name()})))
}

/// `DELETE /config/authorize?dn=[&operation=]`: 404 if there is no such grant.
pub(super) async fn remove(State(settings): Shared, client: Client, uri: Uri) -> Answered {
    let caller = settings.caller(&client)?;
    caller.may_configure(None)?;
    let query = Query::of(&uri);
    let user = query.text("dn").ok_or_else(|| FtsError::bad("Missing DN parameter"))?;
    let operations = match query.get("operation") {
        Some(name) => vec![operation(name)?],
        None => Operation::ALL.to_vec(),
    };
    let entries = operations.into_iter().map(|operation| {
        let detail = format!("{} revoked for \"{user}\"", operation.name());
        (key(&user, operation), entry(&caller, "revoke", detail))
    });
    let entries: Vec<(String, Audit)> = entries.collect();
    let changed = settings.queue.change_grants(Box::new(move |grants| {
        let known = entries.iter().filter(|(key, _)| grants.remove(key).is_some());
        let known: Vec<Audit> = known.map(|(_, entry)| entry.clone()).collect();
        match known.is_empty() {
            true => Err(FtsError::new(404, "There is no such grant")),
            false => Ok(known),
        }
    }));
    changed.await??;
    Ok(nothing())
}
