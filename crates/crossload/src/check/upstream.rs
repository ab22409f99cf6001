//! Checks the servers behind exports with `remote`: whether each answers, accepts our credential,
//! has the directory, and what it tells of files.

use std::time::Duration;

use config::{Configuration, Export, UpstreamIdentity};
use net::tls::ClientTls;
use remote::{Client, Resource};
use storage_remote::Upstream;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Side};

use super::finding::{Finding, Position};
use super::hosts;
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
        let place = match (&export.s3, export.forwards()) {
            (Some(_), _) => "s3",
            (None, true) => "remote_hosts",
            (None, false) => "remote",
        };
        let at = lines.of_item("export", index, place);
        if export.forwards() {
            findings.extend(hosts::check(export, &at).await);
            continue;
        }
        findings.push(match key.upstream(trust) {
            Ok(upstream) => One { export, upstream, at }.check().await,
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
        let url = self
            .export
            .s3
            .clone()
            .unwrap_or_else(|| self.upstream.root().to_string());
        let client = self.upstream.client();
        let root = self.upstream.resource(&LogicalPath::root());
        let identity = self.export.remote_identity;
        let is_clients = identity != UpstreamIdentity::Service;
        let found = match is_clients {
            true => limited(client.ping(&root)).await.map(|()| None),
            false => limited(client.stat(&root)).await.map(Some),
        };
        match found {
            // A prefix is there with its first object.
            Err(error) if self.is_empty_prefix(&error) => self.try_out(&url).await,
            Err(error) => self.failed(&url, &error),
            Ok(None) => {
                let shown = match identity {
                    UpstreamIdentity::Delegated => "the proxy that it has delegated",
                    UpstreamIdentity::Minted => "a macaroon of this server",
                    UpstreamIdentity::Service | UpstreamIdentity::Client => "its own token",
                };
                let says = format!("the upstream server {url} answers; of each client it sees {shown}");
                Finding::ok("upstream", says)
            }
            Ok(Some(entry)) if !entry.is_directory && !self.upstream.root().path().ends_with('/') => {
                let says = format!("{url} is no directory");
                let finding = Finding::error("upstream_no_directory", says).at(self.at);
                finding.change("name a directory in remote")
            }
            Ok(Some(_)) if self.export.s3.is_some() => self.try_out(&url).await,
            Ok(Some(_)) => {
                let told = what_it_tells(client, &root).await;
                Finding::ok("upstream", format!("the upstream server {url} can be used: {told}"))
            }
        }
    }

    fn is_empty_prefix(&self, error: &Error) -> bool {
        let lacks_bucket = error
            .peer_words()
            .is_some_and(|words| words.starts_with("NoSuchBucket"));
        self.export.s3.is_some() && error.code() == ErrorCode::PeerNotFound && !lacks_bucket
    }

    /// What an S3 storage offers; to try it, an object is stored and removed.
    async fn try_out(self, url: &str) -> Finding {
        if self.export.is_read_only() {
            return Finding::ok("upstream", format!("the S3 storage {url} can be read"));
        }
        let offers = match limited(self.upstream.offers()).await {
            Ok(offers) => offers,
            Err(error) => return self.failed(url, &error),
        };
        if !offers.creates_only {
            let says = format!("the S3 storage {url} ignores If-None-Match, with which a new file replaces no other");
            let finding = Finding::warning("s3_replaces_silently", says).at(self.at);
            return finding.change(
                "update the storage; until then let no other program create files there: this server looks for a file \
                 before it creates one",
            );
        }
        if !offers.keeps_tags {
            let says = format!("the S3 storage {url} keeps no tags, in which checksums such as adler32 are stored");
            let finding = Finding::warning("s3_no_tags", says).at(self.at);
            return finding.change(
                "let the key get and put tags of objects (s3:GetObjectTagging, s3:PutObjectTagging); without them \
                 each checksum query reads the file",
            );
        }
        let kinds: Vec<&str> = offers.checksums.iter().map(|algorithm| algorithm.name()).collect();
        let says = format!(
            "the S3 storage {url} can be used: it honours If-None-Match, keeps checksums in tags, and reports {}",
            if kinds.is_empty() {
                "none".to_owned()
            } else {
                kinds.join(", ")
            }
        );
        Finding::ok("upstream", says)
    }

    fn failed(self, url: &str, error: &Error) -> Finding {
        let (code, says, change) = match error.code() {
            ErrorCode::PeerNotFound => (
                "upstream_no_directory",
                format!("the upstream server has no {url}"),
                match self.export.s3 {
                    Some(_) => "correct s3, or make the bucket",
                    None => "correct remote, or make the directory there",
                },
            ),
            ErrorCode::PeerDenied | ErrorCode::PeerForbidden => (
                "upstream_denied",
                format!("the upstream server {url} refuses this server: {}", error.public()),
                match self.export.s3 {
                    Some(_) => {
                        "correct s3_access_key_id and the file of s3_secret_key_file, or give the key rights there"
                    }
                    None => "give this server rights there, or set remote_token_file or remote_certificate",
                },
            ),
            // As a store has the refusal of the trial object.
            ErrorCode::Forbidden => (
                "upstream_read_only",
                format!(
                    "the S3 storage {url} can be read, but the key may not write: {}",
                    error.public()
                ),
                "give the key the rights to put and delete objects there, or set read_only = true",
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use net::tls::Trust;

    use super::*;

    #[test]
    fn a_key_that_may_not_write_is_no_storage_that_is_away() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("s3.key");
        std::fs::write(&file, "secret").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let text = "[[export]]\npath = \"/\"\ns3 = \"https://a/b\"\ns3_access_key_id = \"id\"\n\
                    s3_secret_key_file = \"s3.key\"\n";
        let configuration = Configuration::parse(text, directory.path(), "c.toml").unwrap();
        let export = &configuration.exports[0];
        let key = UpstreamKey::of(export, &configuration).unwrap();
        let trust = ClientTls::load(&Trust::default()).unwrap().0;
        let found = |code| {
            let at = Lines::new(Path::new("c.toml"), text.to_owned()).of_item("export", 0, "s3");
            let upstream = key.upstream(&trust).unwrap();
            let error = Error::new(code, Side::Upstream, Phase::Authorize);
            let finding = One { export, upstream, at }.failed("https://a/b", &error);
            format!("{finding:?}")
        };
        let told = found(ErrorCode::Forbidden);
        assert!(
            told.contains("upstream_read_only") && told.contains("read_only = true"),
            "{told}"
        );
        assert!(found(ErrorCode::PeerUnreachable).contains("upstream_unreachable"));
    }
}
