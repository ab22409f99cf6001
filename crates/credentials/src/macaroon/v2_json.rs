//! Serialisation version 2 of libmacaroons, JSON: `{"v":2,"l":…,"i":…,"c":[{"i":…}],"s64":…}`. Each
//! field may stand as text (`i`) or as base64 (`i64`).

use serde_json::{Map, Value};
use types::Error;

use super::{Macaroon, Parts, RawCaveat, decode_base64};
use crate::invalid_token;

pub(super) fn decode(bytes: &[u8]) -> Result<Macaroon, Error> {
    let unreadable = || invalid_token("the macaroon's JSON cannot be read");
    let value: Value = serde_json::from_slice(bytes).map_err(|_| unreadable())?;
    let object = value.as_object().ok_or_else(unreadable)?;
    // pymacaroons leaves the version out.
    if object.get("v").is_some_and(|version| version.as_u64() != Some(2)) {
        return Err(invalid_token("the macaroon's JSON is not of version 2"));
    }
    let mut parts = Parts {
        location: field(object, "l")?.unwrap_or_default(),
        identifier: field(object, "i")?,
        signature: field(object, "s")?,
        ..Parts::default()
    };
    match object.get("c") {
        None | Some(Value::Null) => {}
        Some(Value::Array(caveats)) => {
            for caveat in caveats {
                parts.add_caveat(decode_caveat(caveat)?)?;
            }
        }
        Some(_) => return Err(unreadable()),
    }
    parts.finish()
}

fn decode_caveat(value: &Value) -> Result<RawCaveat, Error> {
    let object = value
        .as_object()
        .ok_or_else(|| invalid_token("a caveat of the macaroon is no JSON object"))?;
    Ok(RawCaveat {
        identifier: field(object, "i")?.ok_or_else(|| invalid_token("a caveat of the macaroon has no identifier"))?,
        verification: field(object, "v")?,
        location: field(object, "l")?,
    })
}

/// The field under its plain name or with `64` behind it; both at once would be ambiguous.
fn field(object: &Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>, Error> {
    let unreadable = || invalid_token(format!("the macaroon's JSON field \"{name}\" cannot be read"));
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(unreadable);
    match (object.get(name), object.get(&format!("{name}64"))) {
        (None, None) => Ok(None),
        (Some(plain), None) => Ok(Some(text(plain)?.into_bytes())),
        (None, Some(encoded)) => decode_base64(&text(encoded)?).map(Some).ok_or_else(unreadable),
        (Some(_), Some(_)) => Err(unreadable()),
    }
}
