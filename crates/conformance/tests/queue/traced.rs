//! Traces: what a collector of OpenTelemetry gets of a job, from its client to both storages.

use std::time::Duration;

use conformance::{Lab, Reply, Run, Scripted, bytes, run, until};
use serde_json::Value;
use testkit::{Crossload, Queue, Result, available};

use crate::site::options;

const LIMIT: Duration = Duration::from_secs(60);

/// A collector, a queue that serves everyone, and two endpoints that let everyone in.
struct Traced {
    lab: Lab,
    from: Crossload,
    to: Crossload,
    queue: Queue,
}

/// A span as the collector got it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    service: String,
    name: String,
    trace: String,
    id: String,
    parent: Option<String>,
}

impl Traced {
    /// Only traces that arrive as sampled are exported.
    fn start(collector: &str) -> Result<Self> {
        let lab = Lab::new("traced")?;
        let section = |service: &str| {
            format!("[traces]\nendpoint = \"{collector}\"\nsampled_percent = 0\nservice = \"{service}\"\n")
        };
        let endpoint = |name: &str| {
            let mut options = lab.options(name);
            options.more = section(name);
            Crossload::start(options)
        };
        let (from, to) = (endpoint("from")?, endpoint("to")?);
        let mut wanted = options(&lab, "anonymous = true\n");
        wanted.certificate = None;
        wanted.more = section("queue");
        let queue = Queue::start(wanted)?;
        Ok(Self { lab, from, to, queue })
    }

    fn client(&self, arguments: &[&str]) -> Run {
        let mut client = self.lab.client(arguments).expect("our client");
        client.arg("--cacert").arg(self.lab.authority().ca_file());
        run(&client)
    }
}

/// All spans so far.
fn spans(collector: &Scripted) -> Vec<Told> {
    let mut all = Vec::new();
    for seen in collector.seen() {
        let body: Value = serde_json::from_slice(&seen.body).expect("JSON");
        let of_source = &body["resourceSpans"][0];
        let attributes = of_source["resource"]["attributes"].as_array().expect("a resource");
        let service = attributes.iter().find(|attribute| attribute["key"] == "service.name");
        let service = service.expect("a service")["value"]["stringValue"]
            .as_str()
            .expect("a name");
        for span in of_source["scopeSpans"][0]["spans"].as_array().expect("spans") {
            let text = |name: &str| span[name].as_str().map(str::to_owned);
            all.push(Told {
                service: service.to_owned(),
                name: text("name").expect("a name"),
                trace: text("traceId").expect("a trace"),
                id: text("spanId").expect("an identifier"),
                parent: text("parentSpanId"),
            });
        }
    }
    all
}

fn find<'a>(spans: &'a [Told], service: &str, name: &str) -> Option<&'a Told> {
    spans.iter().find(|span| span.service == service && span.name == name)
}

#[test]
fn a_job_is_one_trace_from_its_client_to_both_endpoints() {
    let test = "a_job_is_one_trace_from_its_client_to_both_endpoints";
    let collector = Scripted::start(|seen| Reply::whole(seen, "200 OK", &[], b"{}"));
    let url = collector.other_origin("");
    let Some(site) = available(test, Traced::start(&url)) else {
        return;
    };
    std::fs::write(site.from.data().join("f"), bytes(300_000, 950)).expect("a file");
    let (source, target) = (site.from.url("/data/f"), site.to.url("/data/f"));
    let queue = site.queue.url();
    site.client(&[
        "queue",
        "submit",
        "-b",
        "-s",
        &queue,
        "--traces-to",
        &url,
        &source,
        &target,
    ])
    .succeeded();
    let chain = [
        ("crossload-client", "submit"),
        ("queue", "POST"),
        ("queue", "copy"),
        ("to", "COPY"),
        ("to", "pull"),
        ("from", "GET"),
    ];
    let mut told = Vec::new();
    until("all parts tell of the job", LIMIT, || {
        told = spans(&collector);
        chain.iter().all(|(service, name)| find(&told, service, name).is_some())
    });
    let mut above: Option<&Told> = None;
    for (service, name) in chain {
        let span = find(&told, service, name).expect("just seen");
        assert_eq!(
            span.parent,
            above.map(|span| span.id.clone()),
            "{service} {name}: {told:#?}"
        );
        above = Some(span);
    }
    let trace = &told[0].trace;
    assert!(told.iter().all(|span| span.trace == *trace), "{told:#?}");
    let pull = find(&told, "to", "pull").expect("just seen");
    for phase in ["open", "connect", "tls", "transfer", "first byte", "commit"] {
        let is_step = |span: &&Told| span.name == phase && span.parent.as_ref() == Some(&pull.id);
        assert!(told.iter().any(|span| is_step(&span)), "{phase}: {told:#?}");
    }
    assert!(collector.seen().iter().all(|seen| seen.path == "/v1/traces"));
}

#[test]
fn no_collector_keeps_a_copy_from_its_end() {
    let test = "no_collector_keeps_a_copy_from_its_end";
    let stalls = Scripted::start(|_| Reply::SayAndStall(Vec::new()));
    let Some(site) = available(test, Traced::start(&stalls.other_origin(""))) else {
        return;
    };
    std::fs::write(site.from.data().join("f"), bytes(300_000, 951)).expect("a file");
    let source = site.from.url("/data/f");
    let garbage = Scripted::start(|_| Reply::SayAndClose(b"\0\xff no HTTP".to_vec()));
    let pages = Scripted::start(|seen| Reply::whole(seen, "200 OK", &[], b"<html>"));
    let refuses = Scripted::start(|seen| Reply::whole(seen, "400 Bad Request", &[], b"no"));
    let collectors = [
        ("http://127.0.0.1:1".to_owned(), true),
        (stalls.other_origin(""), true),
        (garbage.other_origin(""), true),
        (pages.other_origin(""), false),
        (refuses.other_origin(""), true),
    ];
    for (index, (url, is_told)) in collectors.into_iter().enumerate() {
        let target = site.to.url(&format!("/data/{index}"));
        let copied = site
            .client(&["copy", "--traces-to", &url, &source, &target])
            .succeeded();
        let says = copied.said().contains("traces are not exported");
        assert_eq!(says, is_told, "{url}: {}", copied.said());
    }
    let at_pages = spans(&pages);
    let copy = find(&at_pages, "crossload-client", "copy").expect("a copy");
    assert_eq!(copy.parent, None);
    assert_eq!(refuses.seen().len(), 1, "a refusal is final");
}
