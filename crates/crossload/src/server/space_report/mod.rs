//! How much space there is, for accounting: from the figures that clients get too.

mod document;
mod organisations;

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::{Configuration, StorageReport};
use door_http::{DocumentFuture, SpaceReport};
use endpoint::{Export, Requester, SharedExports, SharedSpace, clock};
use policy::{Drain, Rule};
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Result, Side};

use super::exported::takes_files;
use super::node::{NodeState, doors, names};
use super::subsystem::{Change, Current, Ground, Renewal, Subsystem};
use crate::failure::Failure;
use document::{Endpoint, PartOf, Report, Share};
use organisations::Organisations;

/// When a collector may ask again for a report that cannot be made now.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// What the report is built on.
pub(crate) struct ReportGround {
    pub(crate) ground: Ground,
    pub(crate) exports: SharedExports,
    pub(crate) node: NodeState,
}

/// The report. Clones are the same.
#[derive(Clone)]
pub(crate) struct SpaceReports(Arc<Inner>);

struct Inner {
    exports: SharedExports,
    node: NodeState,
    settings: Current<Arc<Settings>>,
    addresses: Vec<std::net::SocketAddr>,
}

/// What the configuration says about it.
#[derive(Debug)]
struct Settings {
    wanted: StorageReport,
    readers: Vec<Rule>,
    name: String,
    endpoints: Vec<Endpoint>,
    exports: Vec<Known>,
    /// Those whom the configuration names beside its rules.
    vos: Organisations,
}

/// An export with files of its own, or of nodes.
#[derive(Debug)]
struct Known {
    path: LogicalPath,
    directory: Option<PathBuf>,
    takes_files: bool,
}

impl Subsystem for SpaceReports {
    type Ground = ReportGround;

    fn build(ground: &ReportGround, configuration: &Configuration) -> Result<Self, Failure> {
        let addresses = ground.ground.addresses.clone();
        Ok(Self(Arc::new(Inner {
            exports: ground.exports.clone(),
            node: ground.node.clone(),
            settings: Current::new(Arc::new(Settings::of(configuration, &addresses))),
            addresses,
        })))
    }

    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        let fresh = Settings::of(change.fresh, &self.0.addresses);
        Ok(Box::new(move || self.0.settings.set(Arc::new(fresh))))
    }
}

impl SpaceReports {
    /// For the HTTP door.
    pub(crate) fn for_door(&self) -> Arc<dyn SpaceReport> {
        Arc::new(self.clone())
    }

    /// What is reported, and to whom.
    #[cfg(test)]
    pub(crate) fn wanted(&self) -> String {
        format!("{:?}", self.0.settings.get())
    }
}

impl SpaceReport for SpaceReports {
    fn is_at(&self, path: &LogicalPath) -> bool {
        self.0.settings.get().wanted.path.as_ref() == Some(path)
    }

    fn may_read(&self, requester: Requester<'_>) -> bool {
        let is_here = requester.address.to_canonical().is_loopback() && requester.credential.is_ok();
        is_here || names(&self.0.settings.get().readers, requester)
    }

    fn document(&self) -> DocumentFuture<'_> {
        Box::pin(async {
            let settings = self.0.settings.get();
            let report = Report {
                name: &settings.name,
                quality: &settings.wanted.quality,
                endpoints: settings.endpoints.clone(),
                shares: self.0.shares(&settings).await?,
                is_draining: *self.0.node.steps().borrow() != Drain::Active,
                now_s: clock::now_s(),
            };
            Ok(report.text())
        })
    }
}

impl Inner {
    /// Each export, then each quota within it.
    ///
    /// # Errors
    /// One of them cannot say how much space it has: it must not look as if it had none.
    async fn shares(&self, settings: &Settings) -> Result<Vec<Share>> {
        let mut shares: Vec<Share> = Vec::new();
        let exports = self.exports.current();
        let vos = settings.vos.clone().with_rules(exports.policy().rules());
        for export in exports.list() {
            let path = &export.rules.path;
            let Some(known) = settings.exports.iter().find(|known| known.path == *path) else {
                continue;
            };
            let room = room(export).await.map_err(|error| {
                let error = error.with_subject(path);
                error.with_retry_after(Some(RETRY_AFTER))
            })?;
            let space = room.space;
            shares.push(Share {
                name: name_of(path),
                path: path.to_string(),
                vos: vos.at(path),
                used_bytes: space.used_bytes,
                free_bytes: space.free_bytes,
                is_writable: known.takes_files,
                part_of: match (space.device, space.quota_bytes) {
                    (None, _) => PartOf::Nothing,
                    (Some(device), None) => PartOf::FileSystem(device),
                    (Some(device), Some(_)) => PartOf::QuotaOn {
                        device,
                        free_bytes: known.free_bytes(device).await,
                    },
                },
                message: missing(&room),
            });
            for quota in export.store.usage() {
                let name = format!("{}:{}", quota.vo, quota.path);
                if shares.iter().any(|share| share.name == name) {
                    continue;
                }
                let left = quota.limit_bytes.saturating_sub(quota.used_bytes);
                shares.push(Share {
                    name,
                    path: quota.path.to_string(),
                    vos: vec![format!("/{}", quota.vo)],
                    used_bytes: quota.used_bytes,
                    free_bytes: left.min(space.free_bytes),
                    is_writable: known.takes_files,
                    part_of: PartOf::Share,
                    message: None,
                });
            }
        }
        Ok(shares)
    }
}

impl Known {
    /// What is free in its file system; `None` if its directory is no longer there.
    async fn free_bytes(&self, device: u64) -> Option<u64> {
        let directory = self.directory.clone()?;
        let look = move || {
            let facts = std::fs::metadata(&directory)
                .ok()
                .filter(|facts| facts.dev() == device)?;
            let space = rustix::fs::statvfs(&directory).ok()?;
            Some(space.f_bavail.saturating_mul(space.f_frsize)).filter(|_| facts.is_dir())
        };
        execution::blocking(look).await.ok().flatten()
    }
}

/// The room of an export.
///
/// # Errors
/// Those of its store; no node of the cluster answers.
async fn room(export: &Export) -> Result<SharedSpace> {
    let Some(nodes) = export.store.elsewhere() else {
        let space = export.store.space().await?;
        return Ok(SharedSpace {
            space,
            largest_free_bytes: space.free_bytes,
            nodes: 1,
            heard: 1,
            unheard: 0,
        });
    };
    let room = nodes.space(&export.rules.path).await?;
    match room.heard {
        0 => Err(Error::new(ErrorCode::NodesSilent, Side::Active, Phase::Open)),
        _ => Ok(room),
    }
}

/// What is not in the figures.
fn missing(room: &SharedSpace) -> Option<String> {
    let all = room.heard + room.unheard;
    let verb = if room.unheard == 1 { "does" } else { "do" };
    let words = format!(
        "{} of {all} nodes {verb} not answer: the space there is missing",
        room.unheard
    );
    (room.unheard > 0).then_some(words)
}

fn name_of(path: &LogicalPath) -> String {
    match path.is_root() {
        true => "all".to_owned(),
        false => path.as_str().trim_start_matches('/').to_owned(),
    }
}

impl Settings {
    fn of(configuration: &Configuration, addresses: &[std::net::SocketAddr]) -> Self {
        let report = &configuration.storage_report;
        let host = host(configuration);
        Self {
            readers: report.readers.iter().map(config::RuleSubjects::rule).collect(),
            name: report.name.clone().unwrap_or_else(|| host.clone()),
            endpoints: endpoints(configuration, addresses, &host),
            exports: known(configuration),
            vos: Organisations::of(configuration),
            wanted: report.clone(),
        }
    }
}

/// The exports whose files are here, and that of a redirector. Those of other servers are reported
/// there.
fn known(configuration: &Configuration) -> Vec<Known> {
    let own = configuration.exports.iter().filter(|export| export.directory.is_some());
    let mut known: Vec<Known> = own
        .map(|export| Known {
            path: export.path.clone(),
            directory: export.directory.clone(),
            takes_files: takes_files(&export.rules(), configuration),
        })
        .collect();
    if !configuration.nodes.is_empty() {
        known.push(Known {
            path: configuration.redirector.path.clone(),
            directory: None,
            takes_files: takes_files(&configuration.redirector.rules(), configuration),
        });
    }
    known
}

/// The URL under which clients know this server.
fn name(configuration: &Configuration) -> Option<Location> {
    let name = configuration.server.name.as_deref()?;
    Location::parse(name).ok()
}

/// How clients name this machine.
fn host(configuration: &Configuration) -> String {
    let named = name(configuration).map(|location| location.host().to_owned());
    named.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// The best way in for each protocol and port. For the protocol of `server.name` it is this URL:
/// what stands in front of the server may have another port, and speak TLS.
fn endpoints(configuration: &Configuration, addresses: &[std::net::SocketAddr], host: &str) -> Vec<Endpoint> {
    let doors = doors(configuration, addresses);
    let named = configuration.server.name.as_deref().zip(name(configuration));
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for (interface, schemes) in [("https", ["https", "http"]), ("xroot", ["roots", "root"])] {
        let is_named = |location: &Location| match interface {
            "https" => location.is_http(),
            _ => location.is_xrootd(),
        };
        if let Some((name, _)) = named.as_ref().filter(|(_, location)| is_named(location)) {
            let url = format!("{}/", name.trim_end_matches('/'));
            endpoints.push(Endpoint { url, interface });
        }
        for scheme in schemes {
            if endpoints.iter().any(|known| known.interface == interface) {
                break;
            }
            let found = doors.iter().filter(|door| door.scheme == scheme);
            endpoints.extend(found.map(|door| Endpoint {
                url: format!("{scheme}://{host}:{}/", door.port),
                interface,
            }));
        }
    }
    endpoints
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn urls_are_those_under_which_clients_know_the_server() {
        let urls = |name: &str| {
            let text = format!("[server]\nlisten = [\"127.0.0.1:8080\"]\n{name}");
            let configuration = Configuration::parse(&text, Path::new("/etc"), "c.toml").unwrap();
            let host = host(&configuration);
            let found = endpoints(&configuration, &configuration.server.listen, &host);
            found.into_iter().map(|one| one.url).collect::<Vec<_>>()
        };
        let named = urls("name = \"https://se.example.org\"\n");
        assert_eq!(named[0], "https://se.example.org/", "not the port behind a proxy");
        assert_eq!(named[1..], ["root://se.example.org:8080/"]);
        assert_eq!(
            urls("name = \"https://se.example.org:8443/\"\n")[0],
            "https://se.example.org:8443/"
        );
        let unnamed = urls("");
        assert!(
            unnamed[0].starts_with("http://") && unnamed[0].ends_with(":8080/"),
            "{unnamed:?}"
        );
    }
}
