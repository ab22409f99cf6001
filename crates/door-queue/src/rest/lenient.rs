//! Values of settings as FTS takes them: its database keeps flags and numbers as text, its answers
//! show them as they are stored, and tools send back what they were shown.

use serde_json::{Map, Value};

/// Flags and numbers among the settings of a kind.
pub(super) struct Kinds {
    /// Settings that are on or off.
    pub(super) flags: &'static [&'static str],
    /// Settings that are numbers.
    pub(super) numbers: &'static [&'static str],
}

/// Of a storage.
pub(super) const STORAGE: Kinds = Kinds {
    flags: &["ipv6", "udt", "skip_eviction", "overwrite_disk_enabled"],
    numbers: &[
        "inbound_max_active",
        "outbound_max_active",
        "inbound_max_throughput",
        "outbound_max_throughput",
        "debug_level",
    ],
};

/// Of a link.
pub(super) const LINK: Kinds = Kinds {
    flags: &["no_delegation"],
    numbers: &[
        "min_active",
        "max_active",
        "optimizer_mode",
        "nostreams",
        "tcp_buffer_size",
    ],
};

/// Of a virtual organisation.
pub(super) const VO: Kinds = Kinds {
    flags: &["no_streaming", "show_user_dn"],
    numbers: &[
        "retry",
        "max_time_queue",
        "sec_per_mb",
        "global_timeout",
        "max_active",
        "share",
    ],
};

impl Kinds {
    /// Turns words into flags and numbers where they can only mean one. What is neither stays, and
    /// is refused with its value.
    pub(super) fn read(&self, settings: &mut Map<String, Value>) {
        for (name, value) in settings.iter_mut() {
            let read = match name.as_str() {
                name if self.flags.contains(&name) => flag(value),
                name if self.numbers.contains(&name) => number(value),
                _ => None,
            };
            if let Some(read) = read {
                *value = read;
            }
        }
    }
}

/// A flag that is a number or a word.
fn flag(value: &Value) -> Option<Value> {
    match value {
        Value::Number(number) => Some((number.as_f64() != Some(0.0)).into()),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true.into()),
            "false" | "no" | "off" | "0" => Some(false.into()),
            "" => Some(Value::Null),
            _ => None,
        },
        _ => None,
    }
}

/// A number that is a word, or a whole number with a point.
pub(super) fn number(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) if text.trim().is_empty() => Some(Value::Null),
        Value::String(text) => {
            let number = serde_json::from_str(text.trim()).ok().filter(Value::is_number)?;
            whole(&number).or(Some(number))
        }
        number => whole(number),
    }
}

/// `10.0` as `10`.
fn whole(number: &Value) -> Option<Value> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    let is_whole = float.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&float);
    is_whole.then(|| (float as u32).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fts_shows_can_be_sent_back() {
        let mut shown = json!({"ipv6": "1", "udt": 0, "skip_eviction": "off", "overwrite_disk_enabled": null,
            "inbound_max_active": "200", "outbound_max_active": 5.0, "inbound_max_throughput": "1.5", "site": "1",
            "debug_level": ""});
        STORAGE.read(shown.as_object_mut().unwrap());
        assert_eq!(
            shown,
            json!({"ipv6": true, "udt": false, "skip_eviction": false, "overwrite_disk_enabled": null,
                "inbound_max_active": 200, "outbound_max_active": 5, "inbound_max_throughput": 1.5, "site": "1",
                "debug_level": null})
        );
        let mut wrong = json!({"ipv6": "maybe", "inbound_max_active": "many", "udt": []});
        let before = wrong.clone();
        STORAGE.read(wrong.as_object_mut().unwrap());
        assert_eq!(wrong, before, "they are refused");
    }
}
