//! Checks what traces need: the file with headers for the collector, and the collector's name.

use std::time::Duration;

use config::Configuration;
use net::names::addresses_of;
use types::Location;

use super::finding::Finding;
use super::lines::Lines;
use crate::server::traces::load_headers;

/// Time limit of the name service.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the file with headers can be used.
pub(super) fn check(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let file = configuration.traces.headers_file.as_ref()?;
    let failure = load_headers(file).err()?;
    let finding = Finding::error("traces_headers_unusable", failure.words);
    let finding = finding.at(lines.of("traces", "headers_file"));
    Some(finding.change("write a line `Name: value` for each header into the file, and run chmod 600"))
}

/// Whether the name of the collector has an address.
pub(super) async fn check_collector(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let endpoint = configuration.traces.endpoint.as_deref()?;
    let host = Location::parse(endpoint).ok()?.host().to_owned();
    if !addresses_of(&host, QUERY_TIMEOUT).await.is_empty() {
        return None;
    }
    let says = format!("the name of the trace collector {host} has no address: spans are dropped");
    let finding = Finding::warning("traces_collector_unknown", says).at(lines.of("traces", "endpoint"));
    Some(finding.change("correct the name, or its entry in the name service"))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn parsed(text: &str, directory: &Path) -> (Configuration, Lines) {
        let configuration = Configuration::parse(text, directory, "c.toml").unwrap();
        (configuration, Lines::new(Path::new("c.toml"), text.to_owned()))
    }

    #[test]
    fn a_file_with_headers_that_stops_the_server_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("headers");
        let text = "[traces]\nendpoint = \"https://otel.example:4318\"\nheaders_file = \"headers\"\n";
        let found = || {
            let (configuration, lines) = parsed(text, directory.path());
            check(&configuration, &lines)
        };
        let put = |content: &str, mode: u32| {
            write(&file, content).unwrap();
            set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        };
        let missing = found().expect("it is missing");
        assert_eq!(missing.code, "traces_headers_unusable");
        assert!(
            missing.says.starts_with("headers for the trace collector "),
            "{missing}"
        );
        assert_eq!(missing.position.unwrap().line, Some(3));
        put("Authorization: Bearer hush\n", 0o644);
        let open = found().expect("others may read it");
        assert!(open.says.contains("chmod 600"), "{open}");
        put("Authorization hush\n", 0o600);
        let malformed = found().expect("the line is no header");
        assert!(
            malformed.says.contains("Name: value") && !malformed.says.contains("hush"),
            "{malformed}"
        );
        put("Authorization: Bearer hush\n\nX-Scope-OrgID: storage\n", 0o600);
        assert!(found().is_none());
        let (without, lines) = parsed("", directory.path());
        assert!(check(&without, &lines).is_none());
    }

    #[tokio::test]
    async fn a_collector_without_an_address_is_found() {
        for (host, code) in [
            ("otel.invalid:4318", Some("traces_collector_unknown")),
            ("127.0.0.1:4318", None),
            ("[::1]:4318", None),
        ] {
            let text = format!("[traces]\nendpoint = \"https://{host}\"\n");
            let (configuration, lines) = parsed(&text, Path::new("/"));
            let found = check_collector(&configuration, &lines).await;
            assert_eq!(found.map(|finding| finding.code), code, "{host}");
        }
    }
}
