//! `crossload queue limits`: how many copies storages and links take, by the settings of FTS's API.

use serde_json::{Map, Value, json};
use types::Result;

use super::jobs::text;
use super::links::is_same_storage;
use super::service::Queue;
use crate::client::session::ClientContext;
use crate::command_line::{Limit, QueueLimitsOptions, Rate, ThirdParty};
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Shows the limits, or changes those of a storage or link.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn run(session: &ClientContext, options: &QueueLimitsOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    let mut storage_changes = changes([
        ("inbound_max_active", options.inbound),
        ("outbound_max_active", options.outbound),
    ]);
    let rates = [
        ("inbound_max_throughput", options.inbound_rate),
        ("outbound_max_throughput", options.outbound_rate),
    ];
    let rates = rates.into_iter().filter_map(|(name, wish)| Some((name, wish?)));
    storage_changes.extend(rates.map(|(name, Rate(rate))| (name.to_owned(), rate.map(mib).into())));
    let role = options
        .third_party
        .map(|role| ("tpc_support".to_owned(), role_word(role).into()));
    storage_changes.extend(role);
    let link_changes = changes([("max_active", options.maximum), ("min_active", options.minimum)]);
    match (&options.storage, &options.destination) {
        (Some(storage), None) if !storage_changes.is_empty() => {
            let body = json!({storage.as_str(): {"se_info": storage_changes}});
            queue.post("/config/se", &body).await?;
        }
        (Some(source), Some(destination)) if !link_changes.is_empty() => {
            let known = queue.get("/config/links").await?;
            let body = changed_link(&known, source, destination, link_changes);
            queue.post("/config/links", &body).await?;
        }
        _ => {}
    }
    show(&queue, options).await
}

/// FTS's word for a role; `None` removes it.
fn role_word(role: ThirdParty) -> Option<&'static str> {
    match role {
        ThirdParty::Full => Some("FULL"),
        ThirdParty::Pull => Some("PULL"),
        ThirdParty::Push => Some("PUSH"),
        ThirdParty::None => Some("NONE"),
        ThirdParty::Default => None,
    }
}

/// FTS's settings are in MiB/s.
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

fn changes<const COUNT: usize>(wishes: [(&str, Option<Limit>); COUNT]) -> Map<String, Value> {
    let given = wishes.into_iter().filter_map(|(name, wish)| Some((name, wish?)));
    given
        .map(|(name, Limit(limit))| (name.to_owned(), limit.into()))
        .collect()
}

/// The settings of a link with these changes. An FTS wants them whole, and their name.
fn changed_link(known: &Value, source: &str, destination: &str, changes: Map<String, Value>) -> Value {
    let is = |value: &Value, name: &str| is_same_storage(&text(value), name);
    let is_it = |link: &&Value| is(&link["source"], source) && is(&link["destination"], destination);
    let mut link = match known.as_array().into_iter().flatten().find(is_it) {
        Some(Value::Object(members)) => members.clone(),
        _ => Map::new(),
    };
    link.retain(|_, value| !value.is_null());
    link.insert("source".to_owned(), source.into());
    link.insert("destination".to_owned(), destination.into());
    link.entry("symbolicname")
        .or_insert_with(|| format!("{source}-{destination}").into());
    link.extend(changes);
    Value::Object(link)
}

/// Shows the limits of all, or of the storage or link that the options name.
async fn show(queue: &Queue<'_>, options: &QueueLimitsOptions) -> Result<u8, Failure> {
    let storages = queue.get("/config/se").await?;
    let mut links = queue.get("/config/links").await?;
    let (named, destination) = (options.storage.as_deref(), options.destination.as_deref());
    let mut storages = storages.as_object().cloned().unwrap_or_default();
    storages.retain(|name, _| destination.is_none() && named.is_none_or(|named| is_same_storage(name, named)));
    let is = |value: &Value, wanted: Option<&str>| wanted.is_none_or(|wanted| is_same_storage(&text(value), wanted));
    if let Some(links) = links.as_array_mut() {
        links.retain(|link| is(&link["source"], named) && is(&link["destination"], destination));
    }
    if options.common.json {
        output::json(&json!({"storages": storages, "links": links}));
        return Ok(0);
    }
    let mut table = Table::new(["STORAGE", "IN", "OUT", "IN MiB/s", "OUT MiB/s", "THIRD-PARTY"]);
    storages
        .iter()
        .filter_map(|(name, settings)| storage_row(name, settings))
        .for_each(|row| table.add(row));
    table.print_if_any();
    let has_storages = !table.is_empty();
    let mut table = Table::new(["SOURCE", "DESTINATION", "MIN", "MAX", "STATE"]);
    links
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(link_row)
        .for_each(|row| table.add(row));
    table.print_if_any();
    if table.is_empty() && !has_storages {
        output::complain("operators have set no limits here: those of the queue's configuration apply");
    }
    Ok(0)
}

/// A storage that has a limit, or a part in third-party copies.
fn storage_row(name: &str, settings: &Value) -> Option<[String; 6]> {
    let info = &settings["se_info"];
    let [inbound, outbound, inbound_rate, outbound_rate, role] = [
        "inbound_max_active",
        "outbound_max_active",
        "inbound_max_throughput",
        "outbound_max_throughput",
        "tpc_support",
    ]
    .map(|name| &info[name]);
    let row = [
        output::name(name).into_owned(),
        text(inbound),
        text(outbound),
        rate(inbound_rate),
        rate(outbound_rate),
        text(role).to_ascii_lowercase(),
    ];
    row.iter().skip(1).any(|limit| !limit.is_empty()).then_some(row)
}

/// A rate in MiB/s with two digits behind the point at most. A rate that would round to 0 is as it
/// is, since 0 stops the storage.
fn rate(mib_s: &Value) -> String {
    let rounded = mib_s.as_f64().map(|rate| (rate, (rate * 100.0).round() / 100.0));
    match rounded {
        Some((rate, 0.0)) if rate > 0.0 => format!("{rate:.1e}"),
        Some((_, rounded)) => rounded.to_string(),
        None => text(mib_s),
    }
}

/// A link that has a limit, or is paused.
fn link_row(link: &Value) -> Option<[String; 5]> {
    let [source, destination, least, most] =
        ["source", "destination", "min_active", "max_active"].map(|name| text(&link[name]));
    let state = if link["is_paused"] == true { "paused" } else { "" };
    let has_some = [&least, &most].iter().any(|limit| !limit.is_empty()) || !state.is_empty();
    has_some.then(|| [source, destination, least, most, state.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_link_is_listed() {
        let link =
            |is_paused: bool| json!({"source": "*", "destination": "b", "max_active": null, "is_paused": is_paused});
        let row = link_row(&link(true)).unwrap();
        assert_eq!(row.each_ref().map(String::as_str), ["*", "b", "", "", "paused"]);
        assert_eq!(link_row(&link(false)), None);
    }

    #[test]
    fn a_storage_with_a_part_in_copies_is_listed() {
        let settings = json!({"se_info": {"inbound_max_active": null, "tpc_support": "PULL"}});
        let row = storage_row("davs://a", &settings).unwrap();
        assert_eq!(row.each_ref().map(String::as_str), ["davs://a", "", "", "", "", "pull"]);
        assert_eq!(storage_row("davs://a", &json!({"se_info": {"site": "A"}})), None);
        let rates = [json!(500.0), json!(0.123_456), json!(4.768_371_582_031_25e-6), json!(0)];
        assert_eq!(rates.each_ref().map(rate), ["500", "0.12", "4.8e-6", "0"]);
        assert_eq!(
            (role_word(ThirdParty::None), role_word(ThirdParty::Default)),
            (Some("NONE"), None)
        );
    }

    #[test]
    fn a_link_keeps_its_name_and_other_settings() {
        // As fts-rest-flask answers it.
        let known = json!([{"symbolicname": "all", "destination": "*", "max_active": 130, "tcp_buffer_size": null,
            "no_delegation": false, "min_active": 2, "source": "*", "optimizer_mode": 2, "nostreams": 0}]);
        let wish = || changes([("max_active", Some(Limit(Some(10)))), ("min_active", None)]);
        assert_eq!(
            changed_link(&known, "*", "*", wish()),
            json!({"symbolicname": "all", "destination": "*", "max_active": 10, "no_delegation": false, "min_active": 2,
                "source": "*", "optimizer_mode": 2, "nostreams": 0})
        );
        assert_eq!(
            changed_link(&known, "davs://a", "*", changes([("max_active", Some(Limit(None)))])),
            json!({"symbolicname": "davs://a-*", "source": "davs://a", "destination": "*", "max_active": null})
        );
    }
}
