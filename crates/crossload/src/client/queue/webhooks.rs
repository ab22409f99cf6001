//! `crossload queue webhooks`: receivers of events, by our own API.

use std::path::Path;

use remote::ServiceMethod;
use serde_json::{Value, json};
use types::{ErrorCode, Secret};

use super::jobs::text;
use super::pages;
use super::service::{Queue, is_plain, mistake};
use super::times::{now_ms, until};
use crate::client::credentials::token_in;
use crate::client::session::ClientContext;
use crate::command_line::{QueueWebhooksOptions, WebhookAction, WebhookAddOptions, WebhookNameOptions};
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

const PATH: &str = "/v1/webhooks";

/// Lists, adds, removes or enables webhooks.
///
/// # Errors
/// The queue's refusal; `peer_unsupported` for an FTS.
pub(super) async fn run(session: &ClientContext, options: &QueueWebhooksOptions) -> Result<u8, Failure> {
    let common = match &options.action {
        WebhookAction::List(options) => &options.common,
        WebhookAction::Add(options) => &options.common,
        WebhookAction::Remove(options) | WebhookAction::Enable(options) => &options.common,
    };
    let queue = Queue::new(session, &common.endpoint)?;
    queue.demand_ours("webhooks").await?;
    match &options.action {
        WebhookAction::List(options) => list(&queue, options.common.json).await,
        WebhookAction::Add(options) => add(&queue, options).await,
        WebhookAction::Remove(options) => each(&queue, options, ServiceMethod::Delete, "", "removed").await,
        WebhookAction::Enable(options) => each(&queue, options, ServiceMethod::Post, "/enable", "enabled").await,
    }
}

async fn list(queue: &Queue<'_>, as_json: bool) -> Result<u8, Failure> {
    let hooks = pages::all(queue, PATH).await?;
    if as_json {
        hooks.iter().for_each(output::json);
        return Ok(0);
    }
    let mut table = Table::new(["WEBHOOK", "STATUS", "PENDING", "KINDS", "VO", "URL", "ERROR"]);
    for hook in &hooks {
        table.add(row(hook, now_ms()));
    }
    match table.is_empty() {
        true => output::complain("no webhooks"),
        false => table.print(),
    }
    Ok(0)
}

fn row(hook: &Value, now_ms: i64) -> [String; 7] {
    let [id, status, pending, vo, url, error] =
        ["id", "status", "pending", "vo", "url", "error"].map(|name| text(&hook[name]));
    let kinds: Vec<String> = hook["kinds"].as_array().into_iter().flatten().map(text).collect();
    let since = [&hook["disabled_ms"], &hook["failing_since_ms"]]
        .into_iter()
        .find_map(Value::as_i64);
    let status = match since {
        Some(since_ms) => format!("{status} since {}", until(since_ms, now_ms)),
        None => status,
    };
    let kinds = if kinds.is_empty() {
        "all".to_owned()
    } else {
        kinds.join(",")
    };
    [id, status, pending, kinds, vo, url, error]
}

async fn add(queue: &Queue<'_>, options: &WebhookAddOptions) -> Result<u8, Failure> {
    let mut wish = json!({"url": options.url, "kinds": options.kinds, "vo": options.vo});
    if let Some(file) = &options.secret_file {
        wish["secret"] = secret_in(file)?.expose().into();
    }
    let body = Secret::new(wish.to_string());
    let answer = queue.send(ServiceMethod::Post, PATH, &body).await?;
    let made = queue.read(PATH, &answer)?;
    match options.common.json {
        true => output::json(&made),
        false => {
            output::line(&text(&made["id"]));
            // One that the user brought is not printed.
            if options.secret_file.is_none() {
                output::line(&format!("secret {}", text(&made["secret"])));
            }
        }
    }
    Ok(0)
}

/// A secret is one word in a file, as a token is.
fn secret_in(file: &Path) -> Result<Secret, Failure> {
    Ok(token_in(file)?)
}

/// Does the same with each of the named webhooks.
async fn each(
    queue: &Queue<'_>,
    options: &WebhookNameOptions,
    method: ServiceMethod,
    action: &str,
    done: &str,
) -> Result<u8, Failure> {
    for name in &options.names {
        if !is_plain(name) {
            let words = "a webhook is named as \"crossload queue webhooks list\" prints it";
            return Err(mistake(ErrorCode::BadRequest, words).with_subject(name).into());
        }
        let path = format!("{PATH}/{name}{action}");
        let answer = queue.ask(method, &path).await?;
        queue.read(&path, &answer)?;
        match options.common.json {
            true => output::json(&json!({"id": name, "done": done})),
            false => output::line(&format!("{name}: {done}")),
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_that_fails_says_since_when_and_why() {
        let hook = json!({"id": "5b1f", "url": "https://m/x", "kinds": ["state", "optimizer"], "vo": null,
            "status": "failing", "pending": 7, "failing_since_ms": 0, "disabled_ms": null, "error": "status 500"});
        assert_eq!(
            row(&hook, 180_000),
            [
                "5b1f",
                "failing since 3 min ago",
                "7",
                "state,optimizer",
                "",
                "https://m/x",
                "status 500"
            ]
        );
        let new = json!({"id": "a", "url": "https://m", "kinds": [], "vo": "atlas", "status": "active", "pending": 0});
        assert_eq!(row(&new, 0), ["a", "active", "0", "all", "atlas", "https://m", ""]);
    }
}
