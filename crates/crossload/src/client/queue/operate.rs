//! `crossload queue ban`, `drain` and `shares`: what operators decide.

use std::collections::BTreeSet;

use remote::ServiceMethod;
use serde_json::{Map, Value, json};
use types::{ErrorCode, Result, Secret};

use super::jobs::{text, utc};
use super::links::is_same_storage;
use super::pages;
use super::service::{Queue, encoded, mistake};
use super::times::{now_ms, until};
use crate::client::session::ClientContext;
use crate::command_line::{BanStatus, QueueBanOptions, QueueDrainOptions, QueueSharesOptions};
use crate::failure::{Advice, Failure};
use crate::output;
use crate::table::Table;

/// Bans a storage or user, ends a ban, or lists bans.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn ban(session: &ClientContext, options: &QueueBanOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    let storage = options.place.as_ref().or(options.storage.as_ref());
    let (path, query, body) = match (storage, &options.user) {
        (Some(storage), _) => (
            "/ban/se",
            format!("storage={}", encoded(storage)),
            json!({
                "storage": storage,
                "status": match options.status {
                    BanStatus::Cancel => "CANCEL",
                    BanStatus::Wait => "WAIT",
                },
                "timeout": options.timeout.unwrap_or_default(),
                "allow_submit": options.allow_submit,
            }),
        ),
        (None, Some(user)) if queue.is_ours().await? => return ban_user(&queue, options, user).await,
        (None, Some(user)) => (
            "/ban/dn",
            format!("user_dn={}", encoded(user)),
            json!({"user_dn": user}),
        ),
        (None, None) => return bans(&queue, options.common.json).await,
    };
    let mut body = body;
    if options.unban {
        return match storage {
            Some(storage) => unban(&queue, options, storage).await,
            None => unban_user(&queue, options, &format!("{path}?{query}")).await,
        };
    }
    for (name, value) in [("message", &options.message), ("vo_name", &options.vo)] {
        if let Some(value) = value {
            body[name] = value.as_str().into();
        }
    }
    let jobs = queue.post(path, &body).await?;
    print_jobs(&jobs, options.common.json);
    Ok(0)
}

/// Ends a ban of a storage under the name that it was made with.
async fn unban(queue: &Queue<'_>, options: &QueueBanOptions, storage: &str) -> Result<u8, Failure> {
    let before = bans_of(&queue.get("/ban/se").await?, storage);
    for name in before.iter().map(|(name, _)| name).collect::<BTreeSet<_>>() {
        let vo = options.vo.iter().map(|vo| format!("&vo_name={}", encoded(vo)));
        let path = format!("/ban/se?storage={}{}", encoded(name), vo.collect::<String>());
        let answer = queue.ask(ServiceMethod::Delete, &path).await?;
        queue.read(&path, &answer)?;
    }
    let left = bans_of(&queue.get("/ban/se").await?, storage);
    if left.len() >= before.len() {
        return Err(not_banned(storage, &left));
    }
    if !options.common.json {
        output::line(&format!("{}: {}", output::name(storage), left_bans(&left)));
    }
    Ok(0)
}

/// Ends a ban of a user by FTS's API.
async fn unban_user(queue: &Queue<'_>, options: &QueueBanOptions, path: &str) -> Result<u8, Failure> {
    let user = options.user.as_deref().unwrap_or_default();
    let bans = queue.get("/ban/dn").await?;
    if !bans
        .as_array()
        .into_iter()
        .flatten()
        .any(|ban| text(&ban["dn"]) == user)
    {
        return Err(not_banned(user, &[]));
    }
    let answer = queue.ask(ServiceMethod::Delete, path).await?;
    queue.read(path, &answer)?;
    if !options.common.json {
        output::line(&format!("{}: ban ended", output::name(user)));
    }
    Ok(0)
}

/// The bans of a storage, each with its name of the storage and its virtual organisation.
fn bans_of(bans: &Value, storage: &str) -> Vec<(String, String)> {
    let bans = bans.as_array().into_iter().flatten();
    let own = bans.filter(|ban| is_same_storage(&text(&ban["se"]), storage));
    own.map(|ban| (text(&ban["se"]), text(&ban["vo"]))).collect()
}

/// The failure to end a ban that does not exist.
fn not_banned(name: &str, left: &[(String, String)]) -> Failure {
    let code = ErrorCode::NotFound;
    let words = match left.is_empty() {
        true => format!("{} is not banned", output::name(name)),
        false => format!("{}: {}", output::name(name), left_bans(left)),
    };
    Failure {
        words,
        advice: Some(Advice::Own("\"crossload queue ban\" lists the bans.".to_owned())),
        code: Some(code),
        exit_code: code.exit_code(),
    }
}

/// Which bans of a storage there are still: one is for all, or for a virtual organisation.
fn left_bans(left: &[(String, String)]) -> String {
    let vos: Vec<&str> = left.iter().map(|(_, vo)| vo.as_str()).collect();
    match vos.iter().find(|vo| **vo != "*") {
        _ if vos.is_empty() => "ban ended".to_owned(),
        Some(vo) => format!(
            "still banned for {}; \"--vo {vo}\" ends a ban for one organisation",
            vos.join(", ")
        ),
        None => "still banned for all; without --vo that ban ends".to_owned(),
    }
}

/// Bans a user at our queue, or ends the ban. FTS's API cannot name the issuer of a token.
async fn ban_user(queue: &Queue<'_>, options: &QueueBanOptions, user: &str) -> Result<u8, Failure> {
    let path = "/v1/bans";
    if options.unban {
        let path = format!("{path}?user={}", encoded(user));
        let answer = queue.ask(ServiceMethod::Delete, &path).await?;
        queue.read(&path, &answer)?;
        if !options.common.json {
            output::line(&format!("{}: ban ended", output::name(user)));
        }
        return Ok(0);
    }
    let body = Secret::new(json!({"user": user, "reason": options.message}).to_string());
    let answer = queue.send(ServiceMethod::Put, path, &body).await?;
    let made = queue.read(path, &answer)?;
    print_jobs(&made["jobs"], options.common.json);
    Ok(0)
}

/// The jobs that a ban concerns.
fn print_jobs(jobs: &Value, as_json: bool) {
    match as_json {
        true => output::json(&json!({"jobs": jobs})),
        false => {
            let count = jobs.as_array().map_or(0, Vec::len);
            let jobs = if count == 1 { "job" } else { "jobs" };
            output::line(&format!("banned; it concerns {count} {jobs}"));
        }
    }
}

async fn bans(queue: &Queue<'_>, as_json: bool) -> Result<u8, Failure> {
    let (storages, users) = (queue.get("/ban/se").await?, queue.get("/ban/dn").await?);
    if as_json {
        output::json(&json!({"storages": storages, "users": users}));
        return Ok(0);
    }
    let mut table = Table::new(["STORAGE", "VO", "EFFECT", "SINCE", "BY", "REASON"]);
    for ban in storages.as_array().into_iter().flatten() {
        let [storage, vo, status, by, why] = ["se", "vo", "status", "admin_dn", "message"].map(|name| text(&ban[name]));
        table.add([storage, vo, effect(&status), utc(&ban["addition_time"]), by, why]);
    }
    table.print_if_any();
    let mut table = Table::new(["USER", "SINCE", "BY", "REASON"]);
    for ban in users.as_array().into_iter().flatten() {
        let [user, by, why] = ["dn", "admin_dn", "message"].map(|name| text(&ban[name]));
        table.add([user, utc(&ban["addition_time"]), by, why]);
    }
    table.print_if_any();
    if [&storages, &users]
        .iter()
        .all(|bans| bans.as_array().is_none_or(Vec::is_empty))
    {
        output::complain("no bans");
    }
    Ok(0)
}

/// What a ban does, from FTS's word for it.
fn effect(status: &str) -> String {
    match status {
        "CANCEL" => "files canceled",
        "WAIT" => "files wait, no new jobs",
        "WAIT_AS" => "files wait",
        other => other,
    }
    .to_owned()
}

/// Lets a worker take no new work, or lists workers.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn drain(session: &ClientContext, options: &QueueDrainOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    if let Some(worker) = &options.worker {
        let wish = json!({"hostname": worker, "drain": !options.off});
        queue.post("/config/drain", &wish).await?;
    }
    let workers = match queue.is_ours().await? {
        true => pages::all(&queue, "/v1/workers").await?,
        false => workers_of_fts(&queue.get("/status/hosts").await?),
    };
    if options.common.json {
        workers.iter().for_each(output::json);
        return Ok(0);
    }
    let mut table = Table::new(["WORKER", "ACTIVE", "STAGING", "SEEN", "STATE"]);
    for worker in &workers {
        let seen = worker["seen_ms"]
            .as_i64()
            .map_or_else(String::new, |seen_ms| until(seen_ms, now_ms()));
        let is = |name: &str| worker[name] == true;
        let state = match (is("is_lost"), is("is_draining")) {
            (true, _) => "not heard of",
            (false, true) => "draining",
            // An FTS does not say.
            (false, false) if worker["is_lost"].is_null() => "",
            (false, false) => "works",
        };
        table.add([
            text(&worker["name"]),
            text(&worker["active"]),
            text(&worker["staging"]),
            seen,
            state.to_owned(),
        ]);
    }
    table.print_if_any();
    Ok(0)
}

fn workers_of_fts(hosts: &Value) -> Vec<Value> {
    let named = |(name, counts): (&String, &Value)| {
        let mut worker = counts.as_object().cloned().unwrap_or_default();
        worker.insert("name".to_owned(), name.as_str().into());
        Value::Object(worker)
    };
    hosts.as_object().into_iter().flatten().map(named).collect()
}

/// Shows the shares of activities, or changes those of a virtual organisation.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn shares(session: &ClientContext, options: &QueueSharesOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    if let [source, destination] = options.link.as_slice() {
        return link_shares(&queue, options, source, destination).await;
    }
    let path = "/config/activity_shares";
    if let Some(vo) = &options.vo {
        if options.remove {
            let path = format!("{path}/{}", encoded(vo));
            let answer = queue.ask(ServiceMethod::Delete, &path).await?;
            queue.read(&path, &answer)?;
        } else if !options.shares.is_empty() {
            let weights = options.shares.iter();
            let weights: Map<String, Value> = weights.map(|share| (share.name.clone(), share.weight.into())).collect();
            queue.post(path, &json!({"vo": vo, "share": weights})).await?;
        }
    }
    let told = queue.get(path).await?;
    let all = told.as_object().cloned().unwrap_or_default();
    let wanted = all
        .iter()
        .filter(|(name, _)| options.vo.as_ref().is_none_or(|vo| vo == *name));
    let mut table = Table::new(["VO", "ACTIVITY", "WEIGHT", "STATE"]);
    for (vo, own) in wanted {
        if options.common.json {
            output::json(&json!({"vo": vo, "shares": own["share"], "is_active": own["active"]}));
            continue;
        }
        let state = if own["active"] == false { "not used" } else { "" };
        for (activity, weight) in own["share"].as_object().into_iter().flatten() {
            let activity = output::name(activity).into_owned();
            table.add([output::name(vo).into_owned(), activity, text(weight), state.to_owned()]);
        }
    }
    if table.is_empty() && !options.common.json {
        output::complain("no shares of activities: all activities of a virtual organisation count alike");
    }
    if options.vo.is_none() && !options.common.json {
        output::complain("shares of virtual organisations on a link: crossload queue shares --link SOURCE DESTINATION");
    }
    table.print_if_any();
    Ok(0)
}

/// Shows the shares of virtual organisations on a link, or changes them.
async fn link_shares(
    queue: &Queue<'_>,
    options: &QueueSharesOptions,
    source: &str,
    destination: &str,
) -> Result<u8, Failure> {
    let path = "/config/shares";
    for share in &options.link_shares {
        let weight = share.weight;
        if weight.fract() != 0.0 || weight > f64::from(u32::MAX) {
            let words = "the share of a virtual organisation on a link is a whole number";
            return Err(mistake(ErrorCode::BadRequest, words).into());
        }
        if weight == 0.0 {
            let query = [("source", source), ("destination", destination), ("vo", &share.name)];
            let query = query
                .map(|(name, value)| format!("{name}={}", encoded(value)))
                .join("&");
            let path = format!("{path}?{query}");
            let answer = queue.ask(ServiceMethod::Delete, &path).await?;
            queue.read(&path, &answer)?;
            continue;
        }
        let body = json!({"source": source, "destination": destination, "vo": share.name, "share": weight as u32});
        queue.post(path, &body).await?;
    }
    let told = queue.get(path).await?;
    let is = |value: &Value, wanted: &str| is_same_storage(&text(value), wanted);
    let all = told.as_array().into_iter().flatten();
    let own = all.filter(|share| is(&share["source"], source) && is(&share["destination"], destination));
    let mut table = Table::new(["SOURCE", "DESTINATION", "VO", "WEIGHT"]);
    for share in own {
        match options.common.json {
            true => output::json(share),
            false => table.add(["source", "destination", "vo", "share"].map(|name| text(&share[name]))),
        }
    }
    table.print_if_any();
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bans_that_stay_are_named() {
        let bans = json!([{"se": "davs://b:443", "vo": "atlas"}, {"se": "davs://c:443", "vo": "*"}]);
        let left = |storage: &str| left_bans(&bans_of(&bans, storage));
        assert!(left("DAVS://C:443/").contains("for all"));
        let left_of_c = left("https://c:443");
        assert_eq!(left("https://d:443"), "ban ended");
        let refused = not_banned("https://d:443", &[]).message(crate::failure::Reader::User);
        assert_eq!(
            refused,
            "https://d:443 is not banned; next: \"crossload queue ban\" lists the bans."
        );
        let left = left("https://b:443");
        assert!(left.starts_with("still banned for atlas; \"--vo atlas\""), "{left}");
        assert!(left_of_c.contains("for all"), "{left_of_c}");
    }
}
