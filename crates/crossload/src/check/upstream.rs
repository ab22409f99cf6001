//! Checks the servers behind exports with `remote` or `s3`: what is configured for them, whether
//! each answers, accepts our credential, has the directory, and what it tells of files.

use config::{Configuration, Export, UpstreamIdentity};
use net::tls::ClientTls;
use remote::{Client, Resource};
use storage_remote::{Credential, Found, Identity, Upstream};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, LogicalPath, Phase, Side, is_loopback_host};

use super::finding::{Finding, Position, Severity};
use super::lines::Lines;
use super::{hosts, ports};
use crate::limits::UPSTREAM_ANSWER_TIME;
use crate::server::{UpstreamKey, leads_back};
use crate::upstream_fault::UpstreamFault;

/// Logins of the XRootD protocol that clients with a token pass.
const LOGINS_OF_TOKENS: [&str; 3] = ["ztn", "unix", "host"];

/// Checks what is configured, without asking the servers.
pub(super) fn check_configured(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, export) in configuration.exports.iter().enumerate() {
        let Some(key) = UpstreamKey::of(export, configuration) else {
            continue;
        };
        let at = |key: &str| lines.of_item("export", index, key);
        findings.extend(unusable_file(&key, at));
        findings.extend(clear_text(&key, export, at));
        findings.extend(void_identity(export, configuration, at));
        if leads_back(export, configuration) {
            let says = format!(
                "{} is this server itself: a request for the export would never end",
                key.configured_url()
            );
            let finding = Finding::error("upstream_is_itself", says).at(at("remote"));
            findings.push(finding.change("name the server that has the files"));
        }
    }
    findings
}

/// A credential of this server that cannot be read.
fn unusable_file(key: &UpstreamKey, at: impl Fn(&str) -> Position) -> Option<Finding> {
    let found = key.unusable_file()?;
    let (finding, change) = match found.is_missing {
        true => (
            Finding::error("secret_missing", found.failure.words),
            "make the file, or correct the path",
        ),
        false => (
            Finding::error("upstream_unusable", found.failure.words),
            "let only the server's user read the file, and write the credential into it",
        ),
    };
    Some(finding.at(at(found.key)).change(change))
}

/// Payload that crosses a network without TLS. Tokens never do.
fn clear_text(key: &UpstreamKey, export: &Export, at: impl Fn(&str) -> Position) -> Option<Finding> {
    let url = key.configured_url();
    let place = Location::parse(&url).ok()?;
    if !place.is_http() || place.is_encrypted() || is_loopback_host(place.host()) {
        return None;
    }
    let (key, says) = match export.s3 {
        Some(_) => ("s3", "the signatures of the S3 key do not protect the payload, and"),
        None => ("remote", "this server is anonymous there, and"),
    };
    let says = format!("{url} is in clear text: {says} anyone on the way can read and change files");
    let finding = Finding::warning("upstream_clear_text", says).at(at(key));
    Some(finding.change("write https://, or use http:// on one machine only"))
}

/// Identities of clients that no client can have.
fn void_identity(export: &Export, configuration: &Configuration, at: impl Fn(&str) -> Position) -> Option<Finding> {
    let has_issuers = !configuration.issuers.is_empty() || configuration.tokens.scitokens_file.is_some();
    let (says, change) = match export.remote_identity {
        UpstreamIdentity::Client if !has_issuers => (
            "remote_identity = \"client\", but no token is accepted here: all clients are anonymous at the upstream server",
            "add the [[issuer]] of the clients' tokens, or choose another remote_identity",
        ),
        UpstreamIdentity::Delegated if !configuration.x509.can_verify() => (
            "remote_identity = \"delegated\", but no certificate is accepted here: no client can delegate a proxy",
            "set x509.trust_directory, or choose another remote_identity",
        ),
        _ => return None,
    };
    let finding = Finding::warning("upstream_identity_void", says).at(at("remote_identity"));
    Some(finding.change(change))
}

/// Asks all of them. Those whose credential cannot be read are not asked.
/// `unverified` finds out what a port speaks that does not speak the protocol of its URL.
pub(super) async fn check(
    configuration: &Configuration,
    lines: &Lines,
    trust: &ClientTls,
    unverified: &Client,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, export) in configuration.exports.iter().enumerate() {
        let Some(key) = UpstreamKey::of(export, configuration) else {
            continue;
        };
        if export.forwards() {
            let at = lines.of_item("export", index, "remote_hosts");
            findings.extend(hosts::check(export, &at).await);
            continue;
        }
        // `check_configured` says why it cannot be opened or asked.
        let asked = key.upstream(trust).ok().filter(|_| !leads_back(export, configuration));
        if let Some(upstream) = asked {
            let url = key.configured_url();
            let one = One {
                key,
                url,
                export,
                upstream,
                unverified,
                lines,
                index,
            };
            findings.push(one.check().await);
        }
    }
    findings
}

struct One<'a> {
    key: UpstreamKey,
    url: String,
    export: &'a Export,
    upstream: Upstream,
    unverified: &'a Client,
    lines: &'a Lines,
    index: usize,
}

async fn limited<T>(asking: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| Error::new(ErrorCode::PeerConnectTimeout, Side::Upstream, Phase::Connect);
    tokio::time::timeout(UPSTREAM_ANSWER_TIME, asking).await.map_err(late)?
}

impl One<'_> {
    fn at(&self, key: &str) -> Position {
        self.lines.of_item("export", self.index, key)
    }

    async fn check(self) -> Finding {
        let url = &self.url;
        let found = match self.key.look(&self.upstream).await {
            Err(fault) => return self.explained(fault).await,
            Ok(found) => found,
        };
        match (found, self.export.remote_identity) {
            (Found::Server, identity) => self.check_login(identity).await,
            _ if self.export.s3.is_some() => self.try_out(url).await,
            (_, UpstreamIdentity::Minted) => self.check_macaroons().await,
            _ => {
                let root = self.upstream.resource(&LogicalPath::root());
                let told = what_it_tells(self.upstream.client(), &root).await;
                Finding::ok("upstream", format!("the upstream server {url} can be used: {told}"))
            }
        }
    }

    /// A server that ignores macaroons accepts those of every secret.
    async fn check_macaroons(&self) -> Finding {
        let (url, upstream) = (&self.url, &self.upstream);
        let anonymous = Identity::Service(Credential::default());
        let anonymous = Upstream::new(upstream.client().clone(), upstream.root().clone(), anonymous);
        if limited(anonymous.look()).await.is_err() {
            let says = format!("the upstream server {url} accepts the macaroons of this server");
            return Finding::ok("upstream", says);
        }
        let says = format!(
            "the upstream server {url} shows its directory without a credential, too: whether it accepts the macaroons \
             of this server is not known"
        );
        let finding = Finding::note("upstream_open", says).at(self.at("remote_identity"));
        finding.change("let it give anonymous clients no rights, and check again")
    }

    /// Whether clients can show their own credentials there.
    async fn check_login(&self, identity: UpstreamIdentity) -> Finding {
        let url = &self.url;
        let (shown, logins): (_, &[&str]) = match identity {
            UpstreamIdentity::Delegated => ("the proxy that it has delegated", &["gsi"]),
            _ => ("its own token", &LOGINS_OF_TOKENS),
        };
        if let Some(says) = self.unfit_login(identity, logins).await {
            let finding = Finding::warning("upstream_login_unfit", format!("the upstream server {url} {says}"));
            return finding.at(self.at("remote_identity")).change(match identity {
                UpstreamIdentity::Delegated => {
                    "let it offer gsi (sec.protocol gsi of XRootD, [x509] trust_directory of Crossload), or choose \
                     another remote_identity"
                }
                _ => {
                    "let it offer ztn (sec.protocol ztn of XRootD, [[issuer]] of Crossload), or choose another \
                      remote_identity"
                }
            });
        }
        let says = format!("the upstream server {url} answers; of each client it sees {shown}");
        Finding::ok("upstream", says)
    }

    /// Why none of these logins is possible. HTTP does not say what it takes.
    async fn unfit_login(&self, identity: UpstreamIdentity, logins: &[&str]) -> Option<String> {
        let root = self.upstream.resource(&LogicalPath::root());
        let offer = limited(self.upstream.client().login_offer(&root)).await.ok()?;
        let is_fit = offer.methods.iter().any(|method| logins.contains(&method.as_str()));
        match offer.methods.as_slice() {
            [] if offer.is_redirector || identity != UpstreamIdentity::Delegated => None,
            [] => Some("asks for no credential in the login: all clients are anonymous there".to_owned()),
            _ if is_fit => None,
            methods => Some(format!(
                "offers only these logins, and clients have no credential for them: {}",
                methods.join(", ")
            )),
        }
    }

    /// What an S3 storage offers; to try it, an object is stored and removed.
    async fn try_out(&self, url: &str) -> Finding {
        if self.export.is_read_only() {
            return Finding::ok("upstream", format!("the S3 storage {url} can be read"));
        }
        let offers = match limited(self.upstream.offers()).await {
            Ok(offers) => offers,
            Err(error) => return self.failed(self.key.fault(&error)),
        };
        if !offers.creates_only {
            let says = format!("the S3 storage {url} ignores If-None-Match, with which a new file replaces no other");
            let finding = Finding::warning("s3_replaces_silently", says).at(self.at("s3"));
            return finding.change(
                "update the storage; until then let no other program create files there: this server looks for a file \
                 before it creates one",
            );
        }
        if !offers.keeps_tags {
            let says = format!("the S3 storage {url} keeps no tags, in which checksums such as adler32 are stored");
            let finding = Finding::warning("s3_no_tags", says).at(self.at("s3"));
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

    /// A fault, with the value to write: the other place of a bucket, or the protocol that the port
    /// speaks.
    async fn explained(&self, mut fault: UpstreamFault) -> Finding {
        if fault.code == "s3_addressing_wrong" {
            let other = match self.export.s3_addressing.as_deref() {
                Some("host") => "path",
                _ => "host",
            };
            fault.change = format!("write s3_addressing = \"{other}\", and begin the {other} in s3 with the bucket");
        }
        if fault.code != "upstream_unexpected" {
            return self.failed(fault);
        }
        let spoken = ports::spoken_at(self.unverified, &self.url, self.export.s3.is_some()).await;
        self.failed(match spoken {
            Some(answering) => self.key.speaks(&answering),
            None => fault,
        })
    }

    fn failed(&self, fault: UpstreamFault) -> Finding {
        let severity = match fault.code {
            "upstream_no_directory" if !fault.breaks_export => Severity::Warning,
            _ => Severity::Error,
        };
        let finding = Finding::new(severity, fault.code, fault.says);
        finding.at(self.at(fault.key)).change(fault.change)
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
