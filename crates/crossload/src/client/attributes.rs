//! `xattr`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use remote::{Attribute, AttributeCall};
use serde_json::{Value, json};
use storage::local;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use super::place::{Place, without_query};
use super::session::ClientContext;
use crate::command_line::AttributeAction;
use crate::failure::Failure;
use crate::output;

/// Lists, prints, sets or removes attributes of one file.
pub(crate) async fn run(session: &ClientContext, action: &AttributeAction) -> std::result::Result<u8, Failure> {
    let (text, call) = match action {
        AttributeAction::Ls { place, .. } => (place, AttributeCall::List),
        AttributeAction::Get { place, name, .. } => (place, AttributeCall::Get(name)),
        AttributeAction::Set { place, name, value, .. } => (place, AttributeCall::Set(name, value.as_bytes())),
        AttributeAction::Rm { place, name, .. } => (place, AttributeCall::Remove(name)),
    };
    let is_json = action.common().json;
    let found = async { attributes(session, &session.place(text).await?, call).await }.await;
    if let (true, Some((name, done))) = (is_json, change(call)) {
        let outcome = if found.is_ok() { done } else { "FAILED" };
        output::json(&json!({"name": without_query(text), "attribute": name, "outcome": outcome}));
    }
    for attribute in found? {
        print(&attribute, call, is_json);
    }
    Ok(0)
}

/// The attribute that is changed, and the outcome if it was.
fn change<'a>(call: AttributeCall<'a>) -> Option<(&'a str, &'static str)> {
    match call {
        AttributeCall::Set(name, _) => Some((name, "SET")),
        AttributeCall::Remove(name) => Some((name, "REMOVED")),
        AttributeCall::List | AttributeCall::Get(_) => None,
    }
}

async fn attributes(session: &ClientContext, place: &Place, call: AttributeCall<'_>) -> Result<Vec<Attribute>> {
    let side = place.side();
    match place {
        Place::Remote(location) => session.client.attributes(&session.resource(location, side), call).await,
        Place::Local(path) => of_local(path, call).map_err(|error| error.at_side(side)),
        Place::Stdio => {
            let error = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open);
            Err(error.with_detail("standard input has no attributes"))
        }
    }
}

/// The system answers from memory, mostly, and there is nothing else to do meanwhile.
fn of_local(path: &LogicalPath, call: AttributeCall<'_>) -> Result<Vec<Attribute>> {
    let attribute = |name: &str, value| Attribute {
        name: name.to_owned(),
        value,
    };
    Ok(match call {
        AttributeCall::List => {
            let names = local::attribute_names(path)?;
            names.iter().map(|name| attribute(name, Vec::new())).collect()
        }
        AttributeCall::Get(name) => vec![attribute(name, local::attribute(path, name)?)],
        AttributeCall::Set(name, value) => {
            local::set_attribute(path, name, value)?;
            Vec::new()
        }
        AttributeCall::Remove(name) => {
            local::remove_attribute(path, name)?;
            Vec::new()
        }
    })
}

fn print(attribute: &Attribute, call: AttributeCall<'_>, is_json: bool) {
    let Attribute { name, value } = attribute;
    match (call, is_json) {
        (AttributeCall::List, false) => output::line(&output::name(name)),
        (AttributeCall::List, true) => output::json(&json!({"name": name})),
        (_, false) => {
            output::write_out(value);
            output::write_out(b"\n");
        }
        (_, true) => {
            let text = std::str::from_utf8(value).ok().map_or(Value::Null, Value::from);
            output::json(&json!({"name": name, "value": text, "value_base64": BASE64.encode(value)}));
        }
    }
}
