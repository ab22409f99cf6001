//! What collectors read: each request is decoded by OpenTelemetry's own types.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span as Decoded;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind as DecodedKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use telemetry::{ExportAnswer, Span, SpanKind, TraceSource, export_request};
use types::SpanContext;

const TRACE: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;

fn at(nanoseconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}

fn source() -> TraceSource {
    TraceSource {
        service: "crossload".to_owned(),
        version: "1.2.3".to_owned(),
        instance: "se.example:7".to_owned(),
        host: "se.example".to_owned(),
    }
}

fn span() -> Span {
    let context = SpanContext {
        trace: TRACE,
        span: 0x00f0_67aa_0ba9_02b7,
        is_sampled: true,
    };
    let (began, ended) = (at(1_795_286_507_000_000_001), at(1_795_286_509_000_000_000));
    Span::new(context, Some(1), "COPY", SpanKind::Server, began, ended)
}

fn decoded(spans: &[Span]) -> (Vec<KeyValue>, Vec<Decoded>) {
    let text = export_request(&source(), spans);
    let mut request: ExportTraceServiceRequest =
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
    assert_eq!(request.resource_spans.len(), 1);
    let mut of_source = request.resource_spans.remove(0);
    assert_eq!(of_source.scope_spans.len(), 1);
    let scope = of_source.scope_spans.remove(0);
    assert_eq!(scope.scope.expect("a scope").name, "crossload");
    (of_source.resource.expect("a resource").attributes, scope.spans)
}

fn value(attributes: &[KeyValue], name: &str) -> Value {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    let found = found.unwrap_or_else(|| panic!("{name} is missing in {attributes:?}"));
    found.value.clone().expect("a value").value.expect("a value")
}

fn text(words: &str) -> Value {
    Value::StringValue(words.to_owned())
}

#[test]
fn a_span_has_its_identifiers_times_and_attributes() {
    let span = span()
        .text("http.request.method", "COPY")
        .text("url.path", "/a \"b\"\n\u{202e}")
        .number("http.response.status_code", 202)
        .number("crossload.bytes", u64::MAX)
        .event("authorized", at(1_795_286_507_500_000_000))
        .failed("source transfer");
    let (resource, spans) = decoded(&[span]);
    assert_eq!(value(&resource, "service.name"), text("crossload"));
    assert_eq!(value(&resource, "service.version"), text("1.2.3"));
    assert_eq!(value(&resource, "service.instance.id"), text("se.example:7"));
    assert_eq!(value(&resource, "host.name"), text("se.example"));
    let [span] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!(span.trace_id, TRACE.to_be_bytes());
    assert_eq!(span.span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert_eq!(span.parent_span_id, 1_u64.to_be_bytes());
    assert_eq!((span.name.as_str(), span.kind), ("COPY", DecodedKind::Server as i32));
    assert_eq!(span.start_time_unix_nano, 1_795_286_507_000_000_001);
    assert_eq!(span.end_time_unix_nano, 1_795_286_509_000_000_000);
    assert_eq!(span.flags, 1);
    assert_eq!(value(&span.attributes, "http.request.method"), text("COPY"));
    assert_eq!(value(&span.attributes, "url.path"), text("/a \"b\"\n\u{202e}"));
    assert_eq!(
        value(&span.attributes, "http.response.status_code"),
        Value::IntValue(202)
    );
    assert_eq!(value(&span.attributes, "crossload.bytes"), Value::IntValue(i64::MAX));
    let [event] = span.events.as_slice() else {
        panic!("{span:?}")
    };
    assert_eq!(
        (event.name.as_str(), event.time_unix_nano),
        ("authorized", 1_795_286_507_500_000_000)
    );
    let status = span.status.clone().expect("a status");
    assert_eq!(
        (status.code, status.message.as_str()),
        (StatusCode::Error as i32, "source transfer")
    );
}

#[test]
fn a_step_is_below_its_span_and_a_first_span_has_no_parent() {
    let whole = span();
    let step = whole.step(9, "connect", at(5), at(4));
    let context = SpanContext {
        trace: TRACE,
        span: 3,
        is_sampled: true,
    };
    let first = Span::new(context, None, "copy", SpanKind::Client, at(0), at(1));
    let (_, spans) = decoded(&[whole, step, first]);
    let [whole, step, first] = spans.as_slice() else {
        panic!("{spans:?}")
    };
    assert_eq!(
        (&step.trace_id, &step.parent_span_id),
        (&whole.trace_id, &whole.span_id)
    );
    assert_eq!(
        (step.name.as_str(), step.kind),
        ("connect", DecodedKind::Internal as i32)
    );
    assert_eq!(step.span_id, 9_u64.to_be_bytes());
    assert_eq!(
        (step.start_time_unix_nano, step.end_time_unix_nano),
        (5, 5),
        "the clock was set back"
    );
    assert!(first.parent_span_id.is_empty() && first.status.is_none(), "{first:?}");
    assert_eq!(first.kind, DecodedKind::Client as i32);
}

#[test]
fn answers_of_collectors_are_read() {
    let rejected = |rejected: u64, message: &str| ExportAnswer {
        rejected,
        message: message.to_owned(),
    };
    let cases = [
        ("", rejected(0, "")),
        ("{}", rejected(0, "")),
        ("<html>", rejected(0, "")),
        ("[1]", rejected(0, "")),
        (r#"{"partialSuccess":{}}"#, rejected(0, "")),
        (
            r#"{"partialSuccess":{"rejectedSpans":"7","errorMessage":"too old"}}"#,
            rejected(7, "too old"),
        ),
        (r#"{"partialSuccess":{"rejectedSpans":7}}"#, rejected(7, "")),
        (
            "{\"partialSuccess\":{\"rejectedSpans\":7,\"errorMessage\":\"too\\n old\\u001b[1m\"}}",
            rejected(7, "too old[1m"),
        ),
        (
            r#"{"partialSuccess":{"rejectedSpans":-7,"errorMessage":1}}"#,
            rejected(0, ""),
        ),
    ];
    let long = format!("{{\"partialSuccess\":{{\"errorMessage\":\"{}\"}}}}", "x".repeat(1000));
    assert_eq!(ExportAnswer::read(&long).message.len(), 200);
    for (body, expected) in cases {
        assert_eq!(ExportAnswer::read(body), expected, "{body}");
    }
}
