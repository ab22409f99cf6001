//! `crossload queue links`, `pause` and `resume`.

use serde_json::{Value, json};
use types::Result;

use super::jobs::text;
use super::pages;
use super::service::{Queue, encoded};
use super::times::{now_ms, until};
use crate::client::session::ClientContext;
use crate::command_line::{QueueLinkOptions, QueueLinksOptions};
use crate::dates::instant;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

const BYTES_PER_MIB: f64 = 1_048_576.0;
/// Members of an explained link that have lines of their own, or are in the table.
const SHOWN: [&str; 17] = [
    "source",
    "destination",
    "vo",
    "active",
    "waiting",
    "delayed",
    "banned",
    "limit",
    "goodput_bytes_s",
    "is_paused",
    "held",
    "rationale",
    "vos",
    "limit_max",
    "capabilities",
    "bans",
    "limit_first",
];

/// Prints what a link does, and why it stands still.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn explain(queue: &Queue<'_>, source: &str, destination: &str, as_json: bool) -> Result<u8, Failure> {
    let path = format!(
        "/v1/links/why?source={}&destination={}",
        encoded(source),
        encoded(destination)
    );
    for link in pages::all(queue, &path).await? {
        match as_json {
            true => output::json(&link),
            false => explained(&link, now_ms()).iter().for_each(|line| output::line(line)),
        }
    }
    Ok(0)
}

/// Lists links, or explains one.
///
/// # Errors
/// The queue's refusal; `peer_unsupported` for an explanation by an FTS.
pub(super) async fn list(session: &ClientContext, options: &QueueLinksOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    let as_json = options.common.json;
    if let (true, Some(source), Some(destination)) = (options.why, &options.source, &options.destination) {
        queue.demand_ours("links --why").await?;
        return explain(&queue, source, destination, as_json).await;
    }
    let is_wanted = |link: &Value, names: [&str; 2]| {
        let is = |name: &str, wanted: &Option<String>| {
            wanted
                .as_ref()
                .is_none_or(|wanted| is_same_storage(&text(&link[name]), wanted))
        };
        is(names[0], &options.source) && is(names[1], &options.destination)
    };
    if queue.is_ours().await? {
        let mut links = pages::all(&queue, "/v1/links").await?;
        links.retain(|link| is_wanted(link, ["source", "destination"]));
        show(&links, as_json);
        if !as_json {
            let limits = queue.get("/v1/limits").await?;
            paused(&limits["links"], &links)
                .iter()
                .for_each(|line| output::line(line));
        }
    } else {
        let told = queue.get("/optimizer/current").await?;
        let links = told.as_array().into_iter().flatten();
        let links: Vec<&Value> = links.filter(|link| is_wanted(link, ["source_se", "dest_se"])).collect();
        show_of_fts(&links, as_json);
    }
    Ok(0)
}

fn show(links: &[Value], as_json: bool) {
    if as_json {
        links.iter().for_each(output::json);
        return;
    }
    let mut table = Table::new([
        "SOURCE",
        "DESTINATION",
        "VO",
        "ACTIVE",
        "LIMIT",
        "WAITING",
        "DELAYED",
        "BANNED",
        "MiB/s",
        "STATE",
    ]);
    let now_ms = now_ms();
    for link in links {
        let [source, destination, vo, active, limit, waiting, delayed, banned] = [
            "source",
            "destination",
            "vo",
            "active",
            "limit",
            "waiting",
            "delayed",
            "banned",
        ]
        .map(|name| text(&link[name]));
        let limit = if limit.is_empty() { "-".to_owned() } else { limit };
        let state = state(link, now_ms);
        let rate = rate(&link["goodput_bytes_s"]);
        table.add([
            source,
            destination,
            vo,
            active,
            limit,
            waiting,
            delayed,
            banned,
            rate,
            state,
        ]);
    }
    if table.is_empty() {
        output::complain("no links with files that have not ended");
    }
    table.print_if_any();
}

/// The pauses that no listed link shows: of links without files, and of many links at once.
fn paused(settings: &Value, listed: &[Value]) -> Vec<String> {
    let is_shown = |own: &Value| {
        let is = |link: &Value, name: &str| is_same_storage(&text(&link[name]), &text(&own[name]));
        listed.iter().any(|link| is(link, "source") && is(link, "destination"))
    };
    let settings = settings.as_array().into_iter().flatten();
    let hidden = settings.filter(|own| own["is_paused"] == true && !is_shown(own));
    let line = |own: &Value| {
        let [source, destination] = ["source", "destination"].map(|name| text(&own[name]));
        format!("paused by operators: {source} -> {destination}")
    };
    hidden.map(line).collect()
}

/// What keeps a link from copying.
fn state(link: &Value, now_ms: i64) -> String {
    if link["is_paused"] == true {
        return "paused".to_owned();
    }
    match &link["held"] {
        Value::Null => String::new(),
        held => {
            let again = held["until_ms"]
                .as_i64()
                .map_or_else(String::new, |until_ms| format!("; retried {}", until(until_ms, now_ms)));
            // The list and the explanation of a link differ in the name. Operators get details.
            let why = [&held["detail"], &held["reason"], &held["message"]]
                .into_iter()
                .map(text)
                .find(|why| !why.is_empty());
            format!("held: {}{again}", why.unwrap_or_default())
        }
    }
}

fn rate(bytes_s: &Value) -> String {
    let bytes_s = bytes_s.as_f64().filter(|rate| *rate > 0.0);
    bytes_s.map_or_else(String::new, |rate| format!("{:.1}", rate / BYTES_PER_MIB))
}

fn show_of_fts(links: &[&Value], as_json: bool) {
    if as_json {
        links.iter().for_each(|link| output::json(link));
        return;
    }
    let mut table = Table::new(["SOURCE", "DESTINATION", "LIMIT", "MiB/s"]);
    for link in links {
        let rate = link["ema"]
            .as_f64()
            .map_or_else(String::new, |rate| format!("{rate:.1}"));
        table.add([
            text(&link["source_se"]),
            text(&link["dest_se"]),
            text(&link["active"]),
            rate,
        ]);
    }
    table.print_if_any();
}

/// An explained link for people.
fn explained(link: &Value, now_ms: i64) -> Vec<String> {
    let mut lines = vec![format!("{} -> {}", text(&link["source"]), text(&link["destination"]))];
    lines.extend(counts(link).map(|counts| format!("  {counts}")));
    let state = state(link, now_ms);
    if !state.is_empty() {
        lines.push(format!("  {state}"));
    }
    let bans = link["bans"].as_array().into_iter().flatten();
    lines.extend(bans.map(|ban| format!("  {}", banned(ban))));
    if let Some(most) = link["limit_max"].as_u64() {
        lines.push(format!("  the optimizer may go up to {most}"));
    }
    if !link["rationale"].is_null() {
        lines.push(format!("  limit: {}", text(&link["rationale"])));
    }
    for side in ["source", "destination"] {
        let shown = link["capabilities"][side].as_array().into_iter().flatten();
        lines.extend(shown.map(|fact| format!("  {side} {}", capability(fact))));
    }
    for vo in link["vos"].as_array().into_iter().flatten() {
        let share = vo["share_percent"]
            .as_f64()
            .map_or_else(String::new, |share| format!(", {share:.0} % of the slots"));
        lines.push(format!(
            "  {}: {}{share}",
            text(&vo["vo"]),
            counts(vo).unwrap_or_default()
        ));
        let reasons = vo["reasons"].as_array().into_iter().flatten();
        lines.extend(reasons.map(|reason| match reason["words"].as_str() {
            Some(words) => format!("    {}", output::name(words)),
            None => format!("    {}", text(reason)),
        }));
    }
    // What later versions of the queue add is shown as it came.
    let others = link.as_object().into_iter().flatten();
    let others = others.filter(|(name, value)| !SHOWN.contains(&name.as_str()) && !is_nothing(value));
    lines.extend(others.map(|(name, value)| format!("  {}: {}", output::name(name), text(value))));
    lines
}

/// A ban of one of its storages, with its time in UTC.
fn banned(ban: &Value) -> String {
    let since = ban["since_ms"]
        .as_i64()
        .map_or_else(String::new, |since_ms| format!(" since {}", instant(since_ms)));
    let why = match text(&ban["message"]) {
        message if message.is_empty() => message,
        message => format!(": {message}"),
    };
    format!(
        "{} is banned by {}{since}{why}",
        text(&ban["storage"]),
        text(&ban["by"])
    )
}

/// What a storage has shown, or what operators say of it.
fn capability(fact: &Value) -> String {
    let [operation, protocol, part] = ["operation", "protocol", "part"].map(|name| text(&fact[name]));
    let can = if fact["can"] == true { "can" } else { "cannot" };
    let credential = match fact["credential"].as_str() {
        None => String::new(),
        Some("none") => " with no credential".to_owned(),
        Some("x509") => " with a certificate".to_owned(),
        Some(kind) => format!(" with a {}", output::name(kind)),
    };
    let peer = fact["peer"].as_str().map_or_else(String::new, |peer| {
        format!(", the other side by {}", output::name(peer))
    });
    let age = fact["age_ms"].as_i64().map(|age_ms| until(0, age_ms.max(1)));
    let evidence = match (fact["evidence"].as_str(), age) {
        (Some("configured"), _) => "configured".to_owned(),
        (Some("told"), Some(age)) => format!("it said so {age}"),
        (Some("attempt"), Some(age)) => format!("seen in a copy {age}"),
        (_, Some(age)) => format!("{} {age}", text(&fact["evidence"])),
        (_, None) => text(&fact["evidence"]),
    };
    format!("{can} {operation} as the {part} side by {protocol}{credential}{peer} ({evidence})")
}

/// The numbers of files, in one line.
fn counts(of: &Value) -> Option<String> {
    let names = ["active", "limit", "waiting", "delayed", "banned"];
    let given = names.iter().filter(|name| !of[**name].is_null());
    let mut counts: Vec<String> = given.map(|name| format!("{name} {}", text(&of[*name]))).collect();
    if let (Value::Null, Some(first)) = (&of["limit"], of["limit_first"].as_u64()) {
        let copies = if first == 1 { "copy" } else { "copies" };
        counts.push(format!("no limit yet (it begins with {first} {copies})"));
    }
    (!counts.is_empty()).then(|| counts.join(", "))
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// Whether two names mean the same storage: `davs` is `https`, and `dav` is `http`.
pub(super) fn is_same_storage(one: &str, other: &str) -> bool {
    let plain = |name: &str| {
        let name = name.trim_end_matches('/').to_ascii_lowercase();
        schedule::storage::canonical(&name).into_owned()
    };
    plain(one) == plain(other)
}

/// Pauses a link, or lets it go on.
///
/// # Errors
/// The queue's refusal; `peer_unsupported` for an FTS.
pub(super) async fn pause(session: &ClientContext, options: &QueueLinkOptions, pauses: bool) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    let verb = if pauses { "pause" } else { "resume" };
    queue.demand_ours(verb).await?;
    let link = json!({"source": options.source, "destination": options.destination});
    queue.post(&format!("/v1/links/{verb}"), &link).await?;
    match options.common.json {
        true => output::json(&json!({
            "source": options.source, "destination": options.destination, "is_paused": pauses,
        })),
        false => output::line(&format!("{} -> {}: {verb}d", options.source, options.destination)),
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_without_files_are_listed() {
        let of = |source: &str, destination: &str, is_paused: bool| json!({"source": source, "destination": destination, "is_paused": is_paused});
        let settings = json!([
            of("*", "https://b:443", true),
            of("davs://a:443", "davs://b:443", true),
            of("c", "d", false)
        ]);
        let listed = [of("https://a:443", "https://b:443", true)];
        assert_eq!(paused(&settings, &listed), ["paused by operators: * -> https://b:443"]);
    }

    #[test]
    fn a_storage_has_several_names() {
        assert!(is_same_storage("davs://A:443", "https://a:443") && is_same_storage("dav://a:80/", "http://a:80"));
        assert!(!is_same_storage("davs://a:443", "root://a:443") && is_same_storage("*", "*"));
    }

    #[test]
    fn a_link_that_stands_still_says_why() {
        let held = json!({"held": {"until_ms": 61_000, "reason": "destination is full"}, "is_paused": false});
        assert_eq!(state(&held, 1000), "held: destination is full; retried in 1 min");
        assert_eq!(state(&json!({"is_paused": true, "held": null}), 0), "paused");
        assert_eq!(
            state(&json!({"held": {"until_ms": null, "message": "down"}}), 0),
            "held: down"
        );
        assert_eq!(state(&json!({}), 0), "");
        let undecided = json!({"active": 0, "limit": null, "limit_first": 2, "limit_max": 9, "rationale": null});
        let words = "active 0, no limit yet (it begins with 2 copies)";
        assert_eq!(counts(&undecided).as_deref(), Some(words));
        let stopped = json!({"active": 0, "limit": 0, "limit_first": 0, "limit_max": 0, "rationale": null});
        assert_eq!(counts(&stopped).as_deref(), Some("active 0, limit 0"));
        let link = json!({"source": "https://a:443", "destination": "https://b:443", "active": 2, "limit": 2, "waiting": 7,
            "rationale": "goodput grew", "limit_max": 9, "later": 3, "bans": [{"storage": "https://b:443", "by": "/CN=Op", "since_ms": 0, "message": "down"}], "capabilities": {"source": [
                {"can": false, "operation": "read", "part": "active", "protocol": "http", "credential": "token",
                    "evidence": "attempt", "age_ms": 60_000}],
                "destination": [
                {"can": true, "operation": "write", "part": "active", "protocol": "root", "credential": null,
                    "evidence": "configured", "age_ms": null},
                {"can": true, "operation": "write", "part": "active", "protocol": "root", "peer": "http",
                    "credential": "x509", "evidence": "told", "age_ms": 0}]}, "vos": [
                {"vo": "atlas", "active": 2, "share_percent": 66.7, "reasons": [{"code": "x", "words": "the link is full"}]}]});
        assert_eq!(
            explained(&link, 0),
            [
                "https://a:443 -> https://b:443",
                "  active 2, limit 2, waiting 7",
                "  https://b:443 is banned by /CN=Op since 1970-01-01T00:00:00Z: down",
                "  the optimizer may go up to 9",
                "  limit: goodput grew",
                "  source cannot read as the active side by http with a token (seen in a copy 1 min ago)",
                "  destination can write as the active side by root (configured)",
                "  destination can write as the active side by root with a certificate, the other side by http \
                 (it said so 1 s ago)",
                "  atlas: active 2, 67 % of the slots",
                "    the link is full",
                "  later: 3",
            ]
        );
    }
}
