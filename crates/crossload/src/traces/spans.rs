//! What doors and copies report, as spans of traces: attributes by OpenTelemetry's semantic
//! conventions where one exists, no query of a URL, no name of a user, and no sentence of an error,
//! which could have one.

use std::time::SystemTime;

use endpoint::ids::fresh_span;
use endpoint::{ErrorFacts, Protocol, RequestRecord, TransferRecord};
use telemetry::{Span, SpanKind};
use types::{Location, SpanContext};

use super::steps::{ErrorNames, after, before, with_parts};

/// Methods that can be names of spans: the others are what a client likes (semantic conventions for
/// HTTP spans, `http.request.method`).
const KNOWN_METHODS: [&str; 17] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "COPY",
    "LOCK",
    "MKCOL",
    "MOVE",
    "PROPFIND",
    "PROPPATCH",
    "REPORT",
    "UNLOCK",
];

/// The span of a request that has ended at `ended`. `context` is that of the record. XRootD
/// requests belong to a trace only if the client named one.
pub(crate) fn of_request(record: &RequestRecord, context: SpanContext, ended: SystemTime) -> Option<Span> {
    let span = match record.protocol {
        Protocol::Http => http_span(record, context, ended),
        Protocol::Xroot => xroot_span(record, context, ended)?,
    };
    let mut span = span
        .text("client.address", &record.peer.ip().to_canonical().to_string())
        .number("client.port", record.peer.port().into())
        .text("url.path", &record.path)
        .text("user_agent.original", record.user_agent.as_deref().unwrap_or_default())
        .text("crossload.request.id", &record.request_id)
        .text(
            "crossload.transfer.id",
            record.transfer_id.as_deref().unwrap_or_default(),
        )
        .text("crossload.credential", record.credential)
        .text("crossload.vo", record.vo.as_deref().unwrap_or_default())
        .text("crossload.upstream", record.upstream.as_deref().unwrap_or_default())
        .text("crossload.sent_to", record.sent_to.as_deref().unwrap_or_default())
        .number("crossload.bytes_in", record.bytes_in)
        .number("crossload.bytes_out", record.bytes_out);
    if let Some(error) = &record.error {
        // A mistake of the client is no failure of the server (semantic conventions for HTTP).
        let is_clients = record.status.is_some_and(http_wire::is_clients_fault);
        span = match record.protocol == Protocol::Http && is_clients {
            true => names(error).on(span),
            false => names(error).failing(span),
        };
    }
    Some(span)
}

fn http_span(record: &RequestRecord, context: SpanContext, ended: SystemTime) -> Span {
    let known = KNOWN_METHODS.into_iter().find(|known| *known == record.method);
    let began = before(ended, record.total_us);
    let name = known.unwrap_or("HTTP");
    let mut span = Span::new(context, record.parent_span, name, SpanKind::Server, began, ended)
        .text("http.request.method", known.unwrap_or("_OTHER"))
        .text("url.scheme", if record.security == "clear" { "http" } else { "https" });
    if known.is_none() {
        span = span.text("http.request.method_original", &record.method);
    }
    if let Some(status) = record.status {
        span = span.number("http.response.status_code", status.into());
    }
    with_moments(span, record, began)
}

fn xroot_span(record: &RequestRecord, context: SpanContext, ended: SystemTime) -> Option<Span> {
    let parent = match (record.open_us, record.parent_span) {
        (Some(open_us), _) => {
            // The use of a file, below the request that opened it.
            let own = SpanContext {
                span: fresh_span(),
                ..context
            };
            let began = before(ended, open_us);
            let span = Span::new(own, Some(context.span), "use of a file", SpanKind::Server, began, ended);
            return Some(span.text("network.protocol.name", "xroot"));
        }
        (None, Some(parent)) => parent,
        // A request about an open file has no span of its own.
        (None, None) => return None,
    };
    let began = before(ended, record.total_us);
    let method = record.method.clone().into_owned();
    let span = Span::new(context, Some(parent), method, SpanKind::Server, began, ended);
    Some(with_moments(span.text("network.protocol.name", "xroot"), record, began))
}

fn with_moments(span: Span, record: &RequestRecord, began: SystemTime) -> Span {
    let moments = [
        ("head_read", record.head_us),
        ("authorized", record.authorized_us),
        ("first_byte", record.first_byte_us),
        ("committed", record.committed_us),
    ];
    let known = moments.into_iter().filter_map(|(name, us)| Some((name, us?)));
    known.fold(span, |span, (name, us)| span.event(name, after(began, us)))
}

fn names(error: &ErrorFacts) -> ErrorNames<'_> {
    ErrorNames {
        code: error.code,
        side: error.side,
        phase: error.phase,
    }
}

/// The spans of a third-party copy that has ended at `ended`: the whole, and its phases.
pub(crate) fn of_copy(record: &TransferRecord, context: SpanContext, ended: SystemTime) -> Vec<Span> {
    let start = &record.start;
    let began = before(ended, record.total_us);
    let mut span = Span::new(context, start.parent_span, start.mode, SpanKind::Client, began, ended)
        .text("url.full", &start.remote)
        .text("url.path", &start.path)
        .text("crossload.transfer.id", &start.transfer_id)
        .text("crossload.request.id", &start.request_id)
        .text("crossload.outcome", record.outcome.name())
        .text("crossload.verified", record.verified.as_deref().unwrap_or_default())
        .number("crossload.bytes", record.bytes)
        .number("crossload.streams", record.streams.into())
        .number("crossload.resumed", record.resumed.into());
    if let Ok(remote) = Location::parse(&start.remote) {
        span = span
            .text("server.address", remote.host())
            .number("server.port", remote.port().into());
    }
    if let Some(error) = &record.error {
        span = names(error).failing(span);
    }
    with_parts(span, &record.phases_us, &record.steps, record.total_us, began)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::time::{Duration, UNIX_EPOCH};

    use telemetry::{TraceSource, export_request};
    use types::{Error, ErrorCode, Phase, Side};

    use super::super::steps::phases;
    use super::*;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn context() -> SpanContext {
        SpanContext::parse(TRACE).expect("a trace context")
    }

    fn shown(spans: &[Span]) -> Vec<serde_json::Value> {
        let source = TraceSource {
            service: String::new(),
            version: String::new(),
            instance: String::new(),
            host: String::new(),
        };
        let document: serde_json::Value = serde_json::from_str(&export_request(&source, spans)).expect("JSON");
        document["resourceSpans"][0]["scopeSpans"][0]["spans"]
            .as_array()
            .expect("spans")
            .clone()
    }

    fn record(protocol: Protocol, method: &'static str) -> RequestRecord {
        RequestRecord {
            method: Cow::Borrowed(method),
            path: "/data/f".to_owned(),
            subject: Some("Jane Doe".to_owned()),
            parent_span: Some(7),
            total_us: 5_000,
            authorized_us: Some(1_000),
            ..RequestRecord::new(protocol, "192.0.2.1:5000".parse().expect("an address"), "clear")
        }
    }

    fn only(record: &RequestRecord) -> serde_json::Value {
        let span = of_request(record, context(), UNIX_EPOCH + Duration::from_secs(1));
        shown(&[span.expect("a span")]).remove(0)
    }

    #[test]
    fn a_request_is_a_span_of_the_server_below_that_of_its_client() {
        let span = only(&record(Protocol::Http, "GET"));
        assert_eq!((&span["name"], &span["kind"]), (&"GET".into(), &2.into()));
        assert_eq!(span["parentSpanId"], "0000000000000007");
        assert_eq!(span["spanId"], "b7ad6b7169203331");
        assert_eq!(
            (&span["startTimeUnixNano"], &span["endTimeUnixNano"]),
            (&"995000000".into(), &"1000000000".into())
        );
        assert_eq!(span["events"][0]["timeUnixNano"], "996000000");
        assert!(!span.to_string().contains("Jane"), "{span}");
        let other = only(&record(Protocol::Http, "X7"));
        assert_eq!(other["name"], "HTTP", "a client cannot make names of spans");
    }

    #[test]
    fn a_mistake_of_the_client_is_no_failure_of_the_server() {
        let failed = |status, code| {
            let error = Error::new(code, Side::Client, Phase::Open).with_detail("of Jane Doe");
            let failed = RequestRecord {
                status: Some(status),
                error: Some((&error).into()),
                ..record(Protocol::Http, "GET")
            };
            let span = only(&failed);
            assert!(
                span.to_string().contains("error.type") && !span.to_string().contains("Jane"),
                "{span}"
            );
            span["status"]["code"].as_u64()
        };
        assert_eq!(failed(404, ErrorCode::NotFound), None);
        assert_eq!(failed(500, ErrorCode::Internal), Some(2));
        assert_eq!(failed(202, ErrorCode::ChecksumMismatch), Some(2));
    }

    #[test]
    fn the_use_of_a_file_is_below_the_request_that_opened_it() {
        let open = only(&record(Protocol::Xroot, "open"));
        assert_eq!(
            (&open["name"], &open["parentSpanId"]),
            (&"open".into(), &"0000000000000007".into())
        );
        let close = RequestRecord {
            parent_span: None,
            open_us: Some(900_000),
            ..record(Protocol::Xroot, "close")
        };
        let used = only(&close);
        assert_eq!(used["parentSpanId"], open["spanId"]);
        assert_ne!(used["spanId"], open["spanId"]);
        assert_eq!(used["startTimeUnixNano"], "100000000");
        let sync = RequestRecord {
            parent_span: None,
            ..record(Protocol::Xroot, "sync")
        };
        assert!(of_request(&sync, context(), UNIX_EPOCH).is_none());
    }

    #[test]
    fn phases_follow_each_other_within_their_copy() {
        let began = UNIX_EPOCH + Duration::from_secs(1);
        let whole = Span::new(context(), None, "pull", SpanKind::Client, began, after(began, 900));
        let steps = shown(&phases(
            &whole,
            &[("open", 0), ("transfer", 300), ("commit", 700)],
            900,
            began,
        ));
        let told: Vec<_> = steps
            .iter()
            .map(|step| [&step["name"], &step["startTimeUnixNano"], &step["endTimeUnixNano"]])
            .map(|texts| texts.map(|text| text.as_str().expect("a text").trim_start_matches("1000").to_owned()))
            .collect();
        assert_eq!(told[0], ["open", "000000", "300000"]);
        assert_eq!(told[1], ["transfer", "300000", "700000"]);
        assert_eq!(told[2], ["commit", "700000", "900000"]);
        assert!(steps.iter().all(|step| step["parentSpanId"] == "b7ad6b7169203331"));
    }
}
