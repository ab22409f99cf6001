//! Where traces go: by the options and environment of a client, or at a place that is given.

use http_wire::ForwardedHeaders;
use percent_encoding::percent_decode_str;
use remote::{Access, Resource};
use telemetry::TraceSource;
use types::{Location, Side, is_loopback_host};

use crate::failure::Failure;

/// The path of traces at a collector whose URL has none.
const TRACES_PATH: &str = "v1/traces";

/// A collector, and whose spans it gets.
pub(crate) struct Collector {
    pub(super) place: Resource,
    pub(super) source: TraceSource,
}

/// The spans of this process, for a service of this name.
fn source(service: &str) -> TraceSource {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    TraceSource {
        service: service.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: format!("{host}:{}", std::process::id()),
        host,
    }
}

impl Collector {
    /// The collector of a client: at `option`, or else where the environment says (OpenTelemetry's
    /// variables). Without either, none.
    ///
    /// # Errors
    /// A URL or headers that cannot be used.
    pub(crate) fn of_client(
        option: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, Failure> {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is = |name: &str, word: &str| value(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
        let is_off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
        let own = value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let shared =
            value("OTEL_EXPORTER_OTLP_ENDPOINT").map(|url| format!("{}/{TRACES_PATH}", url.trim_end_matches('/')));
        let url = match (option, own.or(shared)) {
            (Some(option), _) => option.to_owned(),
            (None, Some(url)) if !is_off => url,
            _ => return Ok(None),
        };
        let mut headers = ForwardedHeaders::default();
        let listed = value("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| value("OTEL_EXPORTER_OTLP_HEADERS"));
        for pair in listed
            .iter()
            .flat_map(|list| list.split(','))
            .filter(|pair| !pair.trim().is_empty())
        {
            let (name, text) = pair
                .split_once('=')
                .ok_or_else(|| unusable("a header without a value"))?;
            let text = percent_decode_str(text.trim()).decode_utf8_lossy();
            let pushed = headers.push(name.trim(), &text);
            pushed.map_err(|_| unusable("a malformed header"))?;
        }
        let has_headers = !headers.is_empty();
        let service = value("OTEL_SERVICE_NAME").unwrap_or_else(|| "crossload-client".to_owned());
        let collector = Self::at(&url, headers, &service)?;
        let place = &collector.place.location;
        if has_headers && !place.is_encrypted() && !is_loopback_host(place.host()) {
            return Err(Failure::invalid(
                "OTEL_EXPORTER_OTLP_HEADERS may hold a credential; give the collector an https URL",
            ));
        }
        Ok(Some(collector))
    }

    /// The collector at a URL, for spans of a service of this name; requests have `forwarded`.
    ///
    /// # Errors
    /// A URL that cannot be used.
    pub(crate) fn at(url: &str, forwarded: ForwardedHeaders, service: &str) -> Result<Self, Failure> {
        let bad = || {
            Failure::invalid(format!(
                "\"{url}\" is no URL of a trace collector; give one such as https://otel.example:4318"
            ))
        };
        let location = Location::parse(url).map_err(|_| bad())?;
        if !location.is_http() {
            return Err(bad());
        }
        let has_path = !location.path().trim_matches('/').is_empty();
        let location = match has_path {
            true => location,
            false => TRACES_PATH.split('/').fold(location, |place, name| place.child(name)),
        };
        let access = Access {
            forwarded,
            ..Access::default()
        };
        // The collector is none of a copy's sides.
        let side = Side::Active;
        Ok(Self {
            place: Resource { location, access, side },
            source: source(service),
        })
    }

    /// The server, for messages.
    pub(crate) fn authority(&self) -> String {
        self.place.location.authority()
    }
}

fn unusable(what: &str) -> Failure {
    Failure::invalid(format!(
        "OTEL_EXPORTER_OTLP_HEADERS has {what}; write name=value, with commas between them"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(option: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<Collector>, Failure> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Collector::of_client(option, |name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    fn url(option: Option<&str>, variables: &[(&str, &str)]) -> Option<String> {
        let found = of(option, variables).unwrap_or_else(|failure| panic!("{}", failure.words));
        found.map(|collector| collector.place.location.to_string())
    }

    #[test]
    fn the_option_or_the_environment_says_where_traces_go() {
        const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        const OWN: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let expected = |text: &str| Some(text.to_owned());
        assert_eq!(url(None, &[]), None);
        assert_eq!(url(Some("http://a:1"), &[]), expected("http://a:1/v1/traces"));
        assert_eq!(
            url(Some("http://a:1/x"), &[(OWN, "http://b:1/y")]),
            expected("http://a:1/x")
        );
        assert_eq!(url(None, &[(ALL, "http://b:1/p/")]), expected("http://b:1/p/v1/traces"));
        assert_eq!(
            url(None, &[(ALL, "http://b:1"), (OWN, "http://c:1/t")]),
            expected("http://c:1/t")
        );
        for off in [("OTEL_SDK_DISABLED", "True"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert_eq!(url(None, &[(ALL, "http://b:1"), off]), None);
            assert_eq!(
                url(Some("http://a:1/x"), &[off]),
                expected("http://a:1/x"),
                "the option was given now"
            );
        }
        assert!(of(Some("root://a"), &[]).is_err());
    }

    #[test]
    fn headers_of_the_environment_are_decoded_and_service_names_taken() {
        let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://b");
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, x-scope=a,");
        let found = of(None, &[at, headers, ("OTEL_SERVICE_NAME", "mine")])
            .ok()
            .flatten()
            .expect("a collector");
        let sent: Vec<(&str, &str)> = found
            .place
            .access
            .forwarded
            .iter()
            .map(|(name, value)| (name, value.expose()))
            .collect();
        assert_eq!(sent, [("authorization", "Bearer x"), ("x-scope", "a")]);
        assert_eq!(
            (found.source.service.as_str(), found.authority().as_str()),
            ("mine", "b")
        );
        for (place, is_taken) in [
            ("http://localhost:1", true),
            ("http://127.0.0.2", true),
            ("http://b", false),
        ] {
            assert_eq!(of(Some(place), &[headers]).is_ok(), is_taken, "{place}");
        }
        let bad = ("OTEL_EXPORTER_OTLP_HEADERS", "secret");
        let words = of(None, &[at, bad]).err().expect("a failure").words;
        assert!(!words.contains("secret"), "{words}");
    }
}
