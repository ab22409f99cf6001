//! `crossload why`: where a redirector's nodes have a file, and where it sends clients.

use serde_json::Value;
use types::{Error, ErrorCode, Location, Side};

use super::explain::{encoded, read_page};
use super::session::ClientContext;
use crate::command_line::WhyOptions;
use crate::failure::Failure;
use crate::{output, where_sent};

/// The question, at a redirector.
const QUESTION: &str = "/.well-known/crossload-why";

/// Asks a redirector. The exit code is 0 if a client would be sent somewhere, and 1 otherwise.
///
/// # Errors
/// Failures to ask, or a server that is no redirector.
pub(super) async fn run(session: &ClientContext, options: &WhyOptions) -> Result<u8, Failure> {
    let server = Location::parse(&session.url(&options.redirector)?)?;
    if !server.is_http() {
        return Err(Failure::invalid("--redirector needs an http or https URL"));
    }
    let mut query = format!("?path={}", encoded(options.path.as_str()));
    if options.write {
        query.push_str("&op=write");
    }
    if let Some(size_bytes) = options.size {
        query.push_str(&format!("&size={size_bytes}"));
    }
    if options.root {
        query.push_str("&protocol=root");
    }
    if options.refresh {
        query.push_str("&refresh=1");
    }
    if !options.tried.is_empty() {
        query.push_str(&format!("&tried={}", encoded(&options.tried.join(","))));
    }
    let location = server.resolve(&format!("{QUESTION}{query}"))?;
    let body = read_page(&session.client, &session.resource(&location, Side::Active))
        .await
        .map_err(not_asked)?;
    let answer: Value = serde_json::from_slice(&body)
        .map_err(|_| Failure::invalid("this server does not answer as a redirector: it is not Crossload"))?;
    match options.common.json {
        true => output::json(&answer),
        false => output::line(&where_sent::in_lines(&answer).join("\n")),
    }
    Ok(u8::from(answer["chosen"]["node"].is_null()))
}

/// The failure to ask, with the next step if the server is no redirector.
fn not_asked(error: Error) -> Failure {
    match error.code() {
        ErrorCode::PeerUnsupported | ErrorCode::PeerNotFound => Failure::advised(
            &error,
            "This server is no redirector; give the URL of the redirector to --redirector.",
        ),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_no_redirector() {
        let said = |code| {
            let error = Error::new(code, Side::Active, types::Phase::Open);
            not_asked(error).message(crate::failure::Reader::User)
        };
        assert!(said(ErrorCode::PeerUnsupported).contains("URL of the redirector"));
        assert!(!said(ErrorCode::PeerDenied).contains("URL of the redirector"));
    }
}
