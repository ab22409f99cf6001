//! Exported traces of a server: the collector that its configuration names, and what became of
//! spans.

use std::path::Path;
use std::sync::Arc;

use config::Configuration;
use door_admin::{Check, Part, PartFuture};
use http_wire::ForwardedHeaders;
use net::tls::ClientTls;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::json;
use telemetry::Sampler;

use super::admin_parts::encoded;
use super::log::Log;
use super::secret;
use super::trust_files::trust;
use crate::failure::Failure;
use crate::made_client::new_client;
use crate::traces::{Collector, Traces};

/// Starts what the configuration says. `usual_service` is the name of the service if it has none.
///
/// # Errors
/// The file with headers, or the authorities.
pub(super) fn start(configuration: &Configuration, usual_service: &str, log: &Log) -> Result<Traces, Failure> {
    let wanted = &configuration.traces;
    let Some(url) = &wanted.endpoint else {
        return Ok(Traces::default());
    };
    let headers = wanted.headers_file.as_deref().map(load_headers).transpose()?;
    let service = wanted.service.as_deref().unwrap_or(usual_service);
    let collector = Collector::at(url, headers.unwrap_or_default(), service)?;
    let (tls, _) = ClientTls::load(&trust(configuration))?;
    let (log, name) = (log.clone(), collector.authority());
    let report = move |fault: Option<&str>| match fault {
        Some(error) => log.write("traces_failed", &json!({"collector": name, "error": error})),
        None => log.write("traces_recovered", &json!({"collector": name})),
    };
    let sampler = Sampler::of_percent(wanted.sampled_percent);
    Ok(Traces::start(collector, new_client(tls), sampler, report))
}

/// Reads header lines from a file that others may not read.
///
/// # Errors
/// Others may access the file, it cannot be read, or a line is no header.
pub(crate) fn load_headers(file: &Path) -> Result<ForwardedHeaders, Failure> {
    let what = "headers for the trace collector";
    let mut headers = ForwardedHeaders::default();
    let text = secret::load_text(what, file)?;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let pushed = line
            .split_once(':')
            .map(|(name, value)| headers.push(name.trim(), value.trim()));
        // The line may hold a secret.
        if !matches!(pushed, Some(Ok(()))) {
            let words = format!("{what} {}: a line is no header; write Name: value", file.display());
            return Err(Failure::invalid(words));
        }
    }
    Ok(headers)
}

/// What metrics ask.
pub(crate) fn part(traces: &Traces) -> Arc<dyn Part> {
    Arc::new(TracesPart(traces.clone()))
}

struct TracesPart(Traces);

impl Part for TracesPart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async { self.0.counted().map(|counted| text(&counted)).unwrap_or_default() })
    }

    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        // A server is ready without its collector.
        Box::pin(async { Vec::new() })
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

fn text(counted: &[(&'static str, u64)]) -> String {
    let spans = Family::<ResultLabels, Counter>::default();
    for (result, count) in counted {
        spans.get_or_create(&ResultLabels { result }).inc_by(*count);
    }
    let mut registry = Registry::with_prefix("crossload_traces");
    registry.register("spans", "Spans by what became of them", spans);
    encoded(&registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_a_result() {
        let shown = text(&[("sent", 2), ("dropped", 0)]);
        for line in [
            "crossload_traces_spans_total{result=\"sent\"} 2",
            "crossload_traces_spans_total{result=\"dropped\"} 0",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
    }
}
