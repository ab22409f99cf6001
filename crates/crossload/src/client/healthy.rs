//! `crossload healthy`: whether a server can do its work, by its admin address. For scripts, and
//! for containers without a shell.

use remote::{Access, Resource, ServiceCall, ServiceMethod};
use serde_json::Value;
use types::{Error, ErrorCode, Location, Phase, Secret, Side};

use super::session::ClientContext;
use crate::command_line::HealthyOptions;
use crate::failure::Failure;
use crate::limits::READY_ANSWER_BYTES_MAX;
use crate::output;

/// The page with the checks.
const PAGE: &str = "/ready";

/// Prints the server's checks. The exit code is 0 if it is ready, and 1 otherwise.
///
/// # Errors
/// No answer, or one that is not of an admin address.
pub(super) async fn run(session: &ClientContext, options: &HealthyOptions) -> Result<u8, Failure> {
    let server = Location::parse(&session.url(&options.admin)?)?;
    if !server.is_http() {
        return Err(Failure::invalid(
            "healthy needs the URL of an admin address, such as http://127.0.0.1:9090",
        ));
    }
    // An admin address reads no credential: it is sent none.
    let page = Resource {
        location: server.with_path(PAGE),
        access: Access::default(),
        side: Side::Active,
    };
    let empty = Secret::new("");
    let call = ServiceCall {
        method: ServiceMethod::Get,
        content_type: "application/json",
        body: &empty,
        login: None,
        webhook: None,
        answer_bytes_max: READY_ANSWER_BYTES_MAX,
    };
    let answer = session.client.call(&page, &call).await?;
    let told: Value = serde_json::from_str(answer.body.expose()).unwrap_or_default();
    let Some(is_ready) = told["ready"].as_bool() else {
        return Err(not_asked(&page.location, answer.status));
    };
    match options.common.json {
        true => output::json(&told),
        false => in_lines(&told).iter().for_each(|line| output::line(line)),
    }
    Ok(u8::from(!is_ready))
}

/// A line for each check.
fn in_lines(told: &Value) -> Vec<String> {
    let checks = told["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    checks
        .iter()
        .map(|check| {
            let mark = if check["ok"] == true { "ok      " } else { "not ok  " };
            let text = |key: &str| output::name(check[key].as_str().unwrap_or_default());
            format!("{mark} {}: {}", text("name"), text("says"))
        })
        .collect()
}

fn not_asked(page: &Location, status: u16) -> Failure {
    let error = Error::new(ErrorCode::PeerUnsupported, Side::Active, Phase::Open).with_subject(page);
    Failure::advised(
        &error.with_detail(format!("status {status} without the checks of a server")),
        "Give the address of server.admin_listen.",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_check_has_a_line() {
        let told = json!({"ready": false, "checks": [
            {"name": "certificate", "ok": true, "says": "It is valid."},
            {"name": "export /", "ok": false, "says": "It cannot be written."},
        ]});
        let lines = in_lines(&told);
        assert_eq!(
            lines,
            [
                "ok       certificate: It is valid.",
                "not ok   export /: It cannot be written."
            ]
        );
        assert!(in_lines(&json!({"ready": true})).is_empty());
    }

    #[test]
    fn a_door_for_clients_is_no_admin_address() {
        let location = Location::parse("http://localhost:1094/ready").unwrap();
        let said = not_asked(&location, 404).message(crate::failure::Reader::User);
        assert!(said.contains("admin_listen"), "{said}");
    }
}
