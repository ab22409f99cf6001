//! `crossload queue whoami` and `delegate`, by the REST API of FTS3.

use remote::ServiceMethod;
use serde_json::{Value, json};
use types::ErrorCode;

use super::delegation::{self, utc_s};
use super::jobs::{text, utc};
use super::service::{Queue, mistake};
use super::times::{now_ms, until};
use crate::client::session::ClientContext;
use crate::command_line::{QueueDelegateOptions, QueueWhoamiOptions};
use crate::failure::Failure;
use crate::output;

/// Prints who the user is to the queue.
///
/// # Errors
/// The queue's refusal.
pub(super) async fn whoami(session: &ClientContext, options: &QueueWhoamiOptions) -> Result<u8, Failure> {
    let queue = Queue::new(session, &options.common.endpoint)?;
    let mut told = queue.get("/whoami").await?;
    let who = delegation::whoami(&queue).await?;
    if queue.is_ours().await? {
        told["operator_name"] = queue.get("/v1/whoami").await?["operator_name"].take();
    }
    told["proxy_until"] = proxy_until(&queue, &who.delegation_id).await?;
    match options.common.json {
        true => output::json(&told),
        false => lines(&told, now_ms()).iter().for_each(|line| output::line(line)),
    }
    Ok(0)
}

/// Delegates a proxy, or withdraws it, and prints which one the queue has then.
///
/// # Errors
/// The queue's refusal; `credential required` without a certificate.
pub(super) async fn delegate(session: &ClientContext, options: &QueueDelegateOptions) -> Result<u8, Failure> {
    super::say_ignored(&options.ignored.given());
    let queue = Queue::new(session, &options.common.endpoint)?;
    if !options.withdraw && session.access(None, None).identity.is_none() {
        let error = mistake(ErrorCode::Unauthenticated, "a proxy is made of a certificate");
        return Err(Failure::advised(&error, "Give --proxy, or --cert and --key."));
    }
    let who = delegation::whoami(&queue).await?;
    if options.withdraw {
        let path = format!("/delegation/{}", who.delegation_id);
        let answer = queue.ask(ServiceMethod::Delete, &path).await?;
        queue.read(&path, &answer)?;
    } else {
        delegation::delegate(&queue, &who).await?;
    }
    let until = proxy_until(&queue, &who.delegation_id).await?;
    match options.common.json {
        true => output::json(&json!({"delegation_id": who.delegation_id, "proxy_until": until})),
        false => output::line(&proxy_line(&until, now_ms())),
    }
    Ok(0)
}

/// When the proxy at the queue ends; `null` if there is none.
async fn proxy_until(queue: &Queue<'_>, id: &str) -> types::Result<Value> {
    let path = format!("/delegation/{id}");
    let answer = queue.ask(ServiceMethod::Get, &path).await?;
    match answer.is_success() {
        true => Ok(queue.read(&path, &answer)?["termination_time"].take()),
        // A user without a certificate has no delegation.
        false => Ok(Value::Null),
    }
}

fn proxy_line(until_utc: &Value, now_ms: i64) -> String {
    match until_utc.as_str().and_then(utc_s) {
        Some(ends_s) => format!("proxy     until {} ({})", utc(until_utc), until(ends_s * 1000, now_ms)),
        None => "proxy     none".to_owned(),
    }
}

fn lines(told: &Value, now_ms: i64) -> Vec<String> {
    let list = |name: &str| {
        let values = told[name].as_array().into_iter().flatten();
        values.map(text).collect::<Vec<_>>().join(", ")
    };
    // Who may change the settings of all, in FTS's words.
    let is_operator = told["level"]["config"] == "all";
    let mut lines = vec![format!("name      {}", text(&told["user_dn"]))];
    lines.push(format!("vo        {}", list("vos")));
    if !list("voms_cred").is_empty() {
        lines.push(format!("voms      {}", list("voms_cred")));
    }
    let by_name = match text(&told["operator_name"]) {
        name if is_operator || name.is_empty() => String::new(),
        name => format!(" (queue.operators would name you {name})"),
    };
    lines.push(format!("operator  {}{by_name}", if is_operator { "yes" } else { "no" }));
    lines.push(proxy_line(&told["proxy_until"], now_ms));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_reads_name_rights_and_the_end_of_the_proxy() {
        let told = json!({"user_dn": "/CN=Jane", "vos": ["atlas", "cms"], "voms_cred": ["/atlas/Role=production"],
            "level": {"config": "all"}, "proxy_until": "1970-01-01T02:00:00"});
        assert_eq!(
            lines(&told, 0),
            [
                "name      /CN=Jane",
                "vo        atlas, cms",
                "voms      /atlas/Role=production",
                "operator  yes",
                "proxy     until 1970-01-01T02:00:00Z (in 2 h 0 min)",
            ]
        );
        let mut told =
            json!({"user_dn": "x", "vos": ["v"], "voms_cred": [], "level": {"config": ""}, "proxy_until": null});
        assert_eq!(
            lines(&told, 0),
            ["name      x", "vo        v", "operator  no", "proxy     none"]
        );
        told["operator_name"] = "x@https://i/".into();
        assert_eq!(
            lines(&told, 0)[2],
            "operator  no (queue.operators would name you x@https://i/)"
        );
    }
}
