//! Spans as OTLP has them, in its JSON encoding (OTLP 1.x, "OTLP/HTTP", and the JSON mapping of
//! protobuf): identifiers in hexadecimal, 64-bit numbers as text, enumerations as numbers.
//!
//! Collectors take JSON and protobuf at the same URL. JSON needs nothing that is not here already;
//! protobuf would bring `prost` and generated code into the program for a third of the bytes, of a
//! stream that is small beside any payload.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};

use crate::span::{Span, SpanKind, SpanStatus, Value};

/// The flag of a span's trace context that says that it is sampled.
const SAMPLED: u32 = 1;
/// `STATUS_CODE_ERROR`.
const ERROR: u32 = 2;
/// The name of the instrumentation.
const SCOPE: &str = "crossload";
/// Longest message of a collector that is kept, in characters.
const MESSAGE_CHARACTERS_MAX: usize = 200;

/// Whose spans they are (OpenTelemetry's resource).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSource {
    /// `service.name`.
    pub service: String,
    /// `service.version`.
    pub version: String,
    /// `service.instance.id`: one process.
    pub instance: String,
    /// `host.name`.
    pub host: String,
}

/// The body of a request that exports spans (`ExportTraceServiceRequest`).
#[must_use]
pub fn export_request(source: &TraceSource, spans: &[Span]) -> String {
    let attributes = [
        ("service.name", &source.service),
        ("service.version", &source.version),
        ("service.instance.id", &source.instance),
        ("host.name", &source.host),
    ];
    let attributes: Vec<Json> = attributes
        .into_iter()
        .map(|(name, value)| json!({"key": name, "value": {"stringValue": value}}))
        .collect();
    let spans: Vec<Json> = spans.iter().map(span).collect();
    let scope = json!({"name": SCOPE, "version": source.version});
    let document = json!({"resourceSpans": [{
        "resource": {"attributes": attributes},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]});
    document.to_string()
}

fn span(span: &Span) -> Json {
    let mut document = json!({
        "traceId": format!("{:032x}", span.context.trace),
        "spanId": format!("{:016x}", span.context.span),
        "flags": SAMPLED,
        "name": span.name,
        "kind": kind(span.kind),
        "startTimeUnixNano": nanoseconds(span.began),
        "endTimeUnixNano": nanoseconds(span.ended),
    });
    if let Some(parent) = span.parent {
        document["parentSpanId"] = format!("{parent:016x}").into();
    }
    if !span.attributes.is_empty() {
        let attributes = span.attributes.iter();
        document["attributes"] = attributes
            .map(|(name, value)| json!({"key": name, "value": any_value(value)}))
            .collect();
    }
    if !span.events.is_empty() {
        let events = span.events.iter();
        document["events"] = events
            .map(|event| json!({"name": event.name, "timeUnixNano": nanoseconds(event.at)}))
            .collect();
    }
    if let SpanStatus::Failed(reason) = &span.status {
        document["status"] = json!({"code": ERROR, "message": reason});
    }
    document
}

fn kind(kind: SpanKind) -> u32 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    }
}

fn any_value(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!({"stringValue": text}),
        // The type is signed.
        Value::Number(number) => json!({"intValue": (*number).min(i64::MAX as u64).to_string()}),
    }
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos()
        .to_string()
}

/// What a collector says in an answer with a success status (`ExportTraceServiceResponse`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportAnswer {
    /// Spans that it did not take. They must not be sent again.
    pub rejected: u64,
    /// Why, or a warning; empty for none.
    pub message: String,
}

impl ExportAnswer {
    /// Reads an answer. What is no answer in JSON rejects nothing: some collectors answer with an
    /// empty body, or with a text.
    #[must_use]
    pub fn read(body: &str) -> Self {
        let answer: Json = serde_json::from_str(body).unwrap_or_default();
        let partial = &answer["partialSuccess"];
        let rejected = &partial["rejectedSpans"];
        let number = rejected.as_str().and_then(|text| text.parse().ok());
        Self {
            rejected: number.or(rejected.as_u64()).unwrap_or(0),
            message: short(partial["errorMessage"].as_str().unwrap_or_default()),
        }
    }
}

/// A collector's message on one line of the log.
fn short(message: &str) -> String {
    let words = message.split_whitespace().flat_map(|word| [" ", word]).skip(1);
    let characters = words.flat_map(str::chars).filter(|character| !character.is_control());
    characters.take(MESSAGE_CHARACTERS_MAX).collect()
}
