//! What the service says about itself and the client.

use std::collections::BTreeSet;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use http_server::control::Client;
use identity::name_uuid::{base_id, vo_id};
use serde_json::{Map, Value, json};

use super::query::Query;
use crate::fts::FtsError;
use crate::fts::answers::{date_time, method};
use crate::fts::submission::storage_without_port;
use crate::limits::DECISIONS_MAX;
use crate::respond::{Answered, good};
use crate::settings::Shared;

/// The version of FTS's API that this one has.
const API: [u8; 3] = [3, 14, 0];
const BYTES_PER_MIB: f64 = 1_048_576.0;

/// `GET /`: every client asks for it first, so it takes no credential.
pub(super) async fn root() -> Response {
    let [major, minor, patch] = API;
    good(&json!({
        "delegation": {"major": 1, "minor": 0, "patch": 0},
        "api": {"major": major, "minor": minor, "patch": patch},
        "core": {"major": major.to_string(), "minor": minor.to_string(), "patch": patch.to_string()},
        "schema": {"major": "10", "minor": "0", "patch": "1"},
        "_links": {
            "curies": [{"name": "fts", "href": "https://gitlab.cern.ch/fts/fts3"}],
            "fts:whoami": {"href": "/whoami", "title": "Check user certificate"},
            "fts:joblist": {
                "href": "/jobs{?vo_name,user_dn,dlg_id,state_in}", "title": "List of active jobs", "templated": true,
            },
            "fts:job": {
                "href": "/jobs/{id}", "title": "Job information", "templated": true,
                "hints": {"allow": ["GET", "DELETE"]},
            },
            "fts:configaudit": {"href": "/config/audit", "title": "Configuration"},
            "fts:jobsubmit": {"href": "/jobs", "hints": {"allow": ["POST"]}},
            "fts:optimizer": {"href": "/optimizer/", "title": "Optimizer"},
        },
    }))
}

/// `GET /whoami`.
pub(super) async fn whoami(State(settings): Shared, client: Client) -> Answered {
    let caller = settings.caller(&client)?;
    let owner = &caller.owner;
    Ok(good(&json!({
        "user_dn": owner.user,
        "dn": [owner.user],
        "base_id": base_id(),
        "voms_cred": caller.attributes,
        "vos": caller.vos,
        "vos_id": caller.vos.iter().map(|vo| vo_id(vo)).collect::<Vec<_>>(),
        "roles": caller.roles,
        "level": {
            "transfer": caller.levels.transfer.word(),
            "deleg": caller.levels.transfer.word(),
            "config": caller.levels.config.word(),
            "datamanagement": "",
            "admin": "",
        },
        "delegation_id": owner.delegation_id,
        "method": method(owner.login).unwrap_or("certificate"),
        "is_root": false,
    })))
}

/// `GET /status/hosts`.
pub(super) async fn hosts(State(settings): Shared, client: Client) -> Answered {
    settings.caller(&client)?;
    let workers = settings.queue.workers().await?;
    let shown = workers.into_iter().map(|worker| {
        // The process that leads asks tape systems, for all: FTS's member stays for its clients.
        let counts = json!({"active": worker.active, "staging": 0});
        (worker.name, counts)
    });
    Ok(good(&Value::Object(shown.collect::<Map<_, _>>())))
}

/// `GET /optimizer`: it is on.
pub(super) async fn optimizer() -> Response {
    good(&json!(true))
}

/// `GET /optimizer/current`: the limits of links.
pub(super) async fn limits(State(settings): Shared, client: Client) -> Answered {
    settings.caller(&client)?;
    let links = settings.queue.links().await?;
    let shown = links.iter().map(|link| {
        json!({
            "source_se": storage_without_port(&link.source),
            "dest_se": storage_without_port(&link.destination),
            "active": link.limit.unwrap_or_default(),
            "ema": link.goodput_bytes_s / BYTES_PER_MIB,
            "datetime": Value::Null,
        })
    });
    Ok(good(&shown.collect()))
}

/// `GET /optimizer/evolution`: the latest decisions.
pub(super) async fn evolution(State(settings): Shared, client: Client) -> Answered {
    settings.caller(&client)?;
    let decisions = settings.queue.decisions(DECISIONS_MAX).await?;
    let shown = decisions.iter().map(|decision| {
        json!({
            "source_se": storage_without_port(&decision.source),
            "dest_se": storage_without_port(&decision.destination),
            "active": decision.limit,
            "diff": decision.difference,
            "throughput": decision.goodput_bytes_s / BYTES_PER_MIB,
            "success": decision.success_percent,
            "rationale": decision.rationale,
            "datetime": date_time(Some(decision.at_ms)),
        })
    });
    Ok(good(&shown.collect()))
}

/// `GET /autocomplete/{source,destination,storage,vo}?term=`: names of what has work, for pages.
pub(super) async fn complete(State(settings): Shared, client: Client, Path(kind): Path<String>, uri: Uri) -> Answered {
    settings.caller(&client)?;
    let links = settings.queue.links().await?;
    let sources = || links.iter().map(|link| storage_without_port(&link.source));
    let destinations = || links.iter().map(|link| storage_without_port(&link.destination));
    let names: BTreeSet<&str> = match kind.as_str() {
        "source" => sources().collect(),
        "destination" => destinations().collect(),
        "storage" => sources().chain(destinations()).collect(),
        "vo" => links.iter().map(|link| link.vo.as_str()).collect(),
        _ => return Err(FtsError::new(404, "No such list").into()),
    };
    let query = Query::of(&uri);
    let term = query.get("term").unwrap_or_default();
    Ok(good(&names.into_iter().filter(|name| name.starts_with(term)).collect()))
}
