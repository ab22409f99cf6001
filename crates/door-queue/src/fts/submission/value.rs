//! Parameters as clients write them: numbers as texts, flags as numbers or texts, `null` for the
//! default.

use serde_json::Value;

use crate::fts::FtsError;

/// A number; a text of digits is one too.
///
/// # Errors
/// 400 for anything else.
pub(super) fn integer(name: &str, value: &Value) -> Result<i64, FtsError> {
    let number = match value {
        Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(flag) => Some(i64::from(*flag)),
        _ => None,
    };
    number.ok_or_else(|| FtsError::invalid(format!("{name} is not a number")))
}

/// A number without a fraction, within what a double holds exactly.
fn whole(number: f64) -> Option<i64> {
    let is_exact = number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
    is_exact.then_some(number as i64)
}

/// A flag.
pub(super) fn flag(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => matches!(
            text.trim().to_ascii_lowercase().as_str(),
            "true" | "t" | "yes" | "y" | "1" | "on"
        ),
        _ => false,
    }
}

/// A time for which a file may wait, in seconds: hours as a number, or with a unit (`90s`, `30m`,
/// `12h`, `2d`). 0 is no limit.
///
/// # Errors
/// 400 for anything else, and for a negative time.
pub(super) fn queue_time_s(value: &Value) -> Result<i64, FtsError> {
    let bad = || FtsError::invalid("max_time_in_queue is a number of hours, or a time like 90s, 30m, 12h or 2d");
    let (number, unit_s) = match value {
        Value::String(text) => {
            let text = text.trim();
            let digits = text.trim_end_matches(|unit: char| !unit.is_ascii_digit());
            let unit_s = match text[digits.len()..].trim() {
                "" | "h" | "H" => 3600,
                "m" | "M" => 60,
                "s" | "S" => 1,
                "d" | "D" => 24 * 3600,
                _ => return Err(bad()),
            };
            (digits.parse::<i64>().map_err(|_| bad())?, unit_s)
        }
        Value::Number(_) => (integer("max_time_in_queue", value)?, 3600),
        _ => return Err(bad()),
    };
    if number < 0 {
        return Err(bad());
    }
    Ok(number.saturating_mul(unit_s))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_flags_are_read_in_every_form() {
        for value in [json!(3), json!(3.0), json!("3"), json!(" 3 ")] {
            assert_eq!(integer("retry", &value), Ok(3));
        }
        for value in [json!(3.5), json!("x"), json!([]), json!(1e300)] {
            assert!(integer("retry", &value).is_err(), "{value}");
        }
        for value in [json!(true), json!("True"), json!("y"), json!(1)] {
            assert!(flag(&value), "{value}");
        }
        for value in [json!(false), json!("false"), json!(0), json!([]), json!("")] {
            assert!(!flag(&value), "{value}");
        }
    }

    #[test]
    fn the_time_in_the_queue_is_in_hours_unless_it_has_a_unit() {
        for (value, seconds) in [
            (json!(168), 168 * 3600),
            (json!("12"), 12 * 3600),
            (json!("12h"), 12 * 3600),
            (json!("30m"), 1800),
            (json!("90 s"), 90),
            (json!("2d"), 2 * 86_400),
            (json!(0), 0),
        ] {
            assert_eq!(queue_time_s(&value), Ok(seconds), "{value}");
        }
        for value in [
            json!("1w"),
            json!("h"),
            json!(-1),
            json!("-1h"),
            json!([]),
            json!("99999999999999999999"),
        ] {
            assert!(queue_time_s(&value).is_err(), "{value}");
        }
    }
}
