//! Values of settings that FTS's routes take: as large as those of `/v1`, and none that means
//! nothing.

use serde_json::{Map, Value};

use super::configure::checked;
use crate::fts::FtsError;
use crate::limits::{NAME_BYTES_MAX, SHARES_MAX, STORAGE_METADATA_BYTES_MAX, STREAMS_MAX};

/// Settings of the optimizer: off, and three kinds.
const OPTIMIZER_MODE_MAX: f64 = 3.0;

/// Checks the values of settings.
///
/// # Errors
/// 400, naming the setting.
pub(super) fn check_values(settings: &Map<String, Value>) -> Result<(), FtsError> {
    settings.iter().try_for_each(|(name, value)| check(name, value))
}

fn check(name: &str, value: &Value) -> Result<(), FtsError> {
    match value {
        Value::Number(number) => check_number(name, number.as_f64().unwrap_or_default()),
        Value::String(text) => check_text(name, text),
        Value::Object(shares) if shares.len() > SHARES_MAX => {
            Err(FtsError::invalid(format!("{name} has more than {SHARES_MAX} members")))
        }
        Value::Object(shares) => shares.iter().try_for_each(|(member, value)| {
            checked(member)?;
            check_number(&format!("{name} of {member}"), value.as_f64().unwrap_or_default())
        }),
        _ => Ok(()),
    }
}

fn check_number(name: &str, number: f64) -> Result<(), FtsError> {
    let most = match name {
        "nostreams" => f64::from(STREAMS_MAX),
        "optimizer_mode" => OPTIMIZER_MODE_MAX,
        _ => f64::from(u32::MAX),
    };
    match (0.0..=most).contains(&number) {
        true => Ok(()),
        false => Err(FtsError::invalid(format!("{name} is from 0 to {most}, not {number}"))),
    }
}

fn check_text(name: &str, text: &str) -> Result<(), FtsError> {
    let most = match name {
        "se_metadata" => STORAGE_METADATA_BYTES_MAX,
        _ => NAME_BYTES_MAX,
    };
    match text.len() <= most {
        true => Ok(()),
        false => Err(FtsError::invalid(format!("{name} has more than {most} bytes"))),
    }
}
