//! A line of a log: what it says, and which identifiers it names.

use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use types::{binary_size, is_traceparent};

use super::super::show::rough_time;
use super::bundle::clean;
use super::{plain, same_as};
use crate::log_search::ID_FIELDS;
use crate::output;

/// A line of a log, by time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    /// RFC 3339 in UTC, with milliseconds: so their order is that of times.
    time: String,
    /// The server or file that has it.
    pub(super) source: String,
    /// The line.
    text: String,
}

impl Line {
    /// A line of a source; `None` if it is no line of our logs about a transfer.
    pub(super) fn read(source: String, text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        // Our own questions, which have the identifier in their path.
        if value["event"].as_str()? == "admin_request" {
            return None;
        }
        Some(Self {
            time: value["time"].as_str()?.to_owned(),
            source,
            text: text.to_owned(),
        })
    }

    fn fields(&self) -> Map<String, Value> {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Identifiers under which others may know more. A line may be of any program: what is no
    /// identifier there is not asked about.
    pub(super) fn ids(&self) -> Vec<String> {
        let fields = self.fields();
        let named = ID_FIELDS.iter().filter_map(|name| fields.get(*name));
        let traces = fields
            .values()
            .filter(|value| value.as_str().is_some_and(is_traceparent));
        let texts = named.chain(traces).filter_map(Value::as_str);
        texts.filter_map(plain).flat_map(|id| same_as(&id)).collect()
    }

    /// Seconds after another line.
    pub(super) fn seconds_since(&self, before: &Self) -> Option<f64> {
        let moment = |line: &Self| OffsetDateTime::parse(&line.time, &Rfc3339).ok();
        Some((moment(self)? - moment(before)?).as_seconds_f64())
    }

    /// The line for programs: its fields, and where it is from.
    pub(super) fn as_json(&self) -> Value {
        json!({"source": self.source, "line": self.fields()})
    }

    /// The line for people: time, seconds since the one before, its source, and what happened.
    pub(super) fn in_words(&self, source_width: usize, since_s: Option<f64>) -> String {
        let since = since_s.map_or_else(|| " ".repeat(9), |seconds| format!("{seconds:+9.3}"));
        let words = words(&self.fields());
        format!(
            "{} {since} s  {:source_width$}  {}",
            self.time,
            self.source,
            output::name(&clean(&words))
        )
    }
}

/// What happened.
fn words(fields: &Map<String, Value>) -> String {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let number = |name: &str| fields.get(name).and_then(Value::as_u64);
    let mut words = text("event").unwrap_or_default().replace('_', " ");
    for name in [
        "method",
        "mode",
        "action",
        "path",
        "remote",
        "source",
        "destination",
        "status",
        "outcome",
        "result",
        "way",
    ] {
        let value = fields.get(name).filter(|value| !value.is_null());
        if let Some(value) = value {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            words.push_str(&format!(" {shown}"));
        }
    }
    let moved = ["bytes", "bytes_in", "bytes_out"]
        .iter()
        .filter_map(|name| number(name))
        .max();
    if let Some(bytes) = moved.filter(|bytes| *bytes > 0) {
        words.push_str(&format!(", {}", binary_size(bytes)));
    }
    let took_us = number("total_us").or_else(|| number("duration_ms").map(|ms| ms.saturating_mul(1000)));
    if let Some(us) = took_us {
        words.push_str(&format!(", {}", took(us)));
    }
    if let Some(error) = fields.get("error").filter(|error| error.is_object()) {
        let part = |name: &str| error[name].as_str().unwrap_or_default();
        let (message, place) = (part("message"), format!("{} {}: ", part("side"), part("phase")));
        // Messages of ours say it themselves.
        let place = if message.contains(&place) { "" } else { &place };
        words.push_str(&format!("; {place}{message} ({})", part("code")));
    }
    // The subject of an operator's action is the transfer or job.
    let person = text("who").or_else(|| text("subject")).or_else(|| text("vo"));
    if let Some(person) = person {
        words.push_str(&format!("; {person}"));
    }
    words
}

fn took(us: u64) -> String {
    match us {
        0..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        1_000_000..60_000_000 => format!("{:.1} s", us as f64 / 1e6),
        _ => rough_time(std::time::Duration::from_micros(us)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line::read("se1:9090".to_owned(), text).expect("a line of a log")
    }

    #[test]
    fn an_error_names_its_place_once() {
        let said = |message: &str| {
            let error = json!({"code": "not_found", "side": "source", "phase": "open", "message": message});
            words(json!({"event": "copy", "error": error}).as_object().expect("an object"))
        };
        let queue = "SOURCE [2] No such file or directory: source open: not found, root://a//f";
        assert_eq!(said(queue), format!("copy; {queue} (not_found)"));
        assert_eq!(said("source open: gone"), "copy; source open: gone (not_found)");
        assert_eq!(said("gone"), "copy; source open: gone (not_found)");
    }

    #[test]
    fn an_operators_action_says_who_did_what() {
        let action = line(
            r#"{"time":"2026-11-30T06:00:01.500Z","event":"operator_action","action":"cancel_copy","result":"done",
            "subject":"65f2a1c09b3d","transfer_id":"65f2a1c09b3d","who":"issuer:https://iam subject:olga","error":null}"#,
        );
        let shown = action.in_words(0, None);
        let expected = "operator action cancel_copy done; issuer:https://iam subject:olga";
        assert!(shown.ends_with(expected), "{shown}");
        assert_eq!(action.ids(), ["65f2a1c09b3d"]);
    }

    #[test]
    fn a_line_for_people_gives_no_access() {
        let request = line(r#"{"time":"2026-11-30T06:00:01.500Z","event":"request","path":"/f?authz=abc"}"#);
        let shown = request.in_words(0, None);
        assert!(shown.ends_with("request /f?[removed]"), "{shown}");
    }

    #[test]
    fn only_identifiers_are_followed() {
        let hostile = r#"{"time":"t","event":"transfer","transfer_id":"../../metrics","job":"short","request_id":
            "anonymous","redirect_id":"65f2a1c09b3d","traceparent":"00-x-y-01"}"#;
        assert_eq!(line(hostile).ids(), ["65f2a1c09b3d"]);
    }

    #[test]
    fn a_line_says_what_happened_and_who_may_know_more() {
        let request = line(
            r#"{"time":"2026-11-30T06:00:01.500Z","event":"request","method":"PUT","path":"/d/f","status":507,
            "bytes_in":1048576,"total_us":2500000,"request_id":"65f2a1c09b3d","transfer_id":null,
            "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "error":{"code":"no_space","side":"server","phase":"commit",
            "message":"server commit: No space left on device"}}"#,
        );
        let shown = request.in_words(10, None);
        let expected = "request PUT /d/f 507, 1.0 MiB, 2.5 s; server commit: No space left on device (no_space)";
        assert!(
            shown.starts_with("2026-11-30T06:00:01.500Z ") && shown.ends_with(expected),
            "{shown}"
        );
        let ids = request.ids();
        let job = "0af76519-16cd-43dd-8448-eb211c80319c";
        assert_eq!(ids, ["65f2a1c09b3d", job, "0af7651916cd43dd8448eb211c80319c"]);
        let later = line(r#"{"time":"2026-11-30T06:00:02.750Z","event":"copy","job":"x"}"#);
        assert_eq!(later.seconds_since(&request), Some(1.25));
        assert!(later > request);
        let question = r#"{"time":"2026-11-30T06:00:02.750Z","event":"admin_request","path":"/trace/65f2a1c09b3d"}"#;
        for bad in ["", "text", "[]", r#"{"event":"request"}"#, question] {
            assert_eq!(Line::read(String::new(), bad), None, "{bad}");
        }
    }
}
