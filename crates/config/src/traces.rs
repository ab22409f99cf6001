//! Keys of the traces that a collector gets.

use std::path::PathBuf;

use types::{Location, is_loopback_host};

use crate::section;
use crate::section::{Purpose, RESTART};

/// Percentage of the traces that are exported unless the configuration says otherwise.
const SAMPLED_PERCENT: u32 = 1;

section! {
    /// Traces of requests and copies for a collector of OpenTelemetry, by OTLP over HTTP
    /// ([traces.md](traces.md)). Off without `endpoint`.
    "traces" false Traces {
        /// URL of the collector, such as `"https://otel.example:4318"`; without a path,
        /// `/v1/traces` is added.
        endpoint: Option<String> = Some(None) => RESTART;
        /// File with header lines for the collector, `Name: value`, such as a credential. Only the
        /// server's user may read it.
        headers_file: Option<PathBuf> = Some(None) => RESTART.file(Purpose::Private, "the headers for the trace collector");
        /// Percentage of the traces that are exported. A trace that the client marks as sampled is
        /// always exported.
        sampled_percent: u32 = Some(SAMPLED_PERCENT) => RESTART;
        /// Name of the service in traces. Default: `crossload`, of a queue `crossload-queue`.
        service: Option<String> = Some(None) => RESTART;
    }
}

impl Traces {
    /// Mistakes in this section.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.sampled_percent > 100 {
            faults.push("sampled_percent: a percentage is at most 100".to_owned());
        }
        let place = self.endpoint.as_deref().map(Location::parse);
        match place {
            Some(Ok(place)) if place.is_http() => {
                let is_readable = !place.is_encrypted() && !is_loopback_host(place.host());
                if is_readable && self.headers_file.is_some() {
                    faults.push("headers_file: it may hold a credential; give endpoint an https URL".to_owned());
                }
            }
            Some(_) => faults.push(
                "endpoint: it is no URL of a collector; write one such as \"https://otel.example:4318\"".to_owned(),
            ),
            None if self.headers_file.is_some() => {
                faults.push("headers_file: without endpoint it has no use; set endpoint, or remove it".to_owned());
            }
            None => {}
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Configuration;

    #[test]
    fn a_collector_has_an_http_url_and_gets_no_credential_in_clear_text() {
        let faults = |lines: &str| {
            let text = format!("[traces]\n{lines}\n");
            let read = Configuration::parse(&text, Path::new("/etc"), "c.toml");
            read.map_or_else(|faults| faults.to_string(), |_| String::new())
        };
        for good in [
            "endpoint = \"https://otel.example:4318\"\nheaders_file = \"h\"\nsampled_percent = 100",
            "endpoint = \"http://otel.example:4318/v1/traces\"",
            "endpoint = \"http://127.0.0.1:4318\"\nheaders_file = \"h\"",
        ] {
            assert_eq!(faults(good), "", "{good}");
        }
        let cases = [
            ("endpoint = \"otel.example:4317\"", "it is no URL of a collector"),
            ("endpoint = \"root://otel.example\"", "it is no URL of a collector"),
            (
                "endpoint = \"http://a\"\nheaders_file = \"h\"",
                "give endpoint an https URL",
            ),
            ("headers_file = \"h\"", "without endpoint"),
            ("sampled_percent = 101", "at most 100"),
        ];
        for (lines, words) in cases {
            let said = faults(lines);
            assert!(said.contains(words), "{lines}: {said}");
        }
    }
}
