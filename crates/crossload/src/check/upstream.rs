//! Checks the servers behind exports with `remote`: whether each answers, accepts our credential,
//! has the directory, and what it tells of files.

use std::time::Duration;

use config::{Configuration, Export, UpstreamIdentity};
use net::tls::ClientTls;
use remote::{Client, Resource};
use storage_remote::Upstream;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Side};

use super::finding::{Finding, Position};
use super::lines::Lines;
use crate::server::UpstreamKey;

/// Time limit of one question.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Checks all of them.
pub(super) async fn check(configuration: &Configuration, lines: &Lines, trust: &ClientTls) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, export) in configuration.exports.iter().enumerate() {
        let Some(key) = UpstreamKey::of(export, configuration) else {
            continue;
        };
        let at = lines.of_item("export", index, "remote");
        findings.push(match key.upstream(trust) {
            Ok((upstream, _)) => One { export, upstream, at }.check().await,
            Err(failure) => {
                let change = "make the credential of this [[export]] readable for the server's user only";
                Finding::error("upstream_unusable", failure.words).at(at).change(change)
            }
        });
    }
    findings
}

struct One<'a> {
    export: &'a Export,
    upstream: Upstream,
    at: Position,
}

async fn limited<T>(asking: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| Error::new(ErrorCode::PeerConnectTimeout, Side::Upstream, Phase::Connect);
    tokio::time::timeout(ANSWER_TIME, asking).await.map_err(late)?
}

impl One<'_> {
    async fn check(self) -> Finding {
        let (url, client) = (self.upstream.root().to_string(), self.upstream.client());
        let root = self.upstream.resource(&LogicalPath::root());
        let is_clients = self.export.remote_identity == UpstreamIdentity::Client;
        let found = match is_clients {
            true => limited(client.ping(&root)).await.map(|()| None),
            false => limited(client.stat(&root)).await.map(Some),
        };
        match found {
            Err(error) => self.failed(&url, &error),
            Ok(None) => {
                let says = format!("the upstream server {url} answers; each client shows it its own token");
                Finding::ok("upstream", says)
            }
            Ok(Some(entry)) if !entry.is_directory && !self.upstream.root().path().ends_with('/') => {
                let says = format!("{url} is no directory");
                let finding = Finding::error("upstream_no_directory", says).at(self.at);
                finding.change("name a directory in remote")
            }
            Ok(Some(_)) => {
                let told = what_it_tells(client, &root).await;
                Finding::ok("upstream", format!("the upstream server {url} can be used: {told}"))
            }
        }
    }

    fn failed(self, url: &str, error: &Error) -> Finding {
        let (code, says, change) = match error.code() {
            ErrorCode::PeerNotFound => (
                "upstream_no_directory",
                format!("the upstream server has no {url}"),
                "correct remote, or make the directory there",
            ),
            ErrorCode::PeerDenied | ErrorCode::PeerForbidden => (
                "upstream_denied",
                format!("the upstream server {url} refuses this server: {}", error.public()),
                "give this server rights there, or set remote_token_file or remote_certificate",
            ),
            ErrorCode::PeerTlsFailed => (
                "upstream_tls_failed",
                format!("no TLS with the upstream server {url}: {}", error.public()),
                "name the authority of its certificate in [trust], and write the host of its certificate into remote",
            ),
            _ => (
                "upstream_unreachable",
                format!("the upstream server {url} does not answer: {}", error.public()),
                "start it, correct remote, or open its port in the firewall",
            ),
        };
        Finding::error(code, says).at(self.at).change(change)
    }
}

/// What the server tells of the first file in the directory.
async fn what_it_tells(client: &Client, root: &Resource) -> String {
    let first = async {
        let mut listing = client.list(root).await?;
        while let Some(batch) = listing.next().await? {
            if let Some(file) = batch.into_iter().find(|entry| !entry.is_directory) {
                return Ok(Some(file.name().to_owned()));
            }
        }
        Ok(None)
    };
    let name = match limited(first).await {
        Ok(Some(name)) => name,
        Ok(None) => return "there is no file in it to try".to_owned(),
        Err(error) => return format!("it lists no directories ({})", error.code().name()),
    };
    let file = Resource {
        location: root.location.child(&name),
        ..root.clone()
    };
    match limited(client.head(&file, &ChecksumAlgorithm::ALL)).await {
        Ok(facts) => {
            let kinds: Vec<&str> = facts
                .checksums
                .iter()
                .map(Checksum::algorithm)
                .map(ChecksumAlgorithm::name)
                .collect();
            let sums = match kinds.as_slice() {
                [] => "no checksums, so that uploads are compared by size only".to_owned(),
                kinds => format!("checksums ({})", kinds.join(", ")),
            };
            let ranges = if facts.accepts_ranges == Some(false) {
                "no ranges"
            } else {
                "ranges"
            };
            format!("it has {ranges} and {sums}")
        }
        Err(error) => format!("it does not describe {name} ({})", error.code().name()),
    }
}
