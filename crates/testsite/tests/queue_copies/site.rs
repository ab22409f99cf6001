//! Doors of both protocols over stores in memory, and copies between them as the queue makes them.

use std::sync::Arc;

use catalog::{
    ChecksumMode, Claimed, FileOptions, FileRecord, JobOptions, JobRecord, Login, Overwrite, Owner, ThirdPartyRole,
    Times,
};
use endpoint::{Exports, SharedExports};
use net::address::AddressPolicy;
use policy::AnonymousAccess;
use queue::{AccessLookup, Copier, CopyResult, CopySource, EndAccess, HopLookup, RemoteCopier, Roles};
use remote::{Access, Resource};
use schedule::{FileId, FileState, JobId, JobKind, JobState};
use storage::Memory;
use testsite::{Log, client, export, macaroon, site, soon};
use tokio::net::TcpListener;
use transfer::{Budget, Progress};
use types::{Location, Secret, Side};
use xroot_wire::TlsPolicy;

/// A server with a directory `/data` that is open to all.
pub(crate) struct Server {
    pub(crate) base: String,
    pub(crate) log: Arc<Log>,
}

fn listener() -> (TcpListener, std::net::SocketAddr) {
    let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn site_with(bytes: u64) -> (transfer::Site, Arc<Log>) {
    let log = Arc::new(Log::default());
    let exports = Exports::new(vec![export("/data", AnonymousAccess::Write, Memory::new(bytes))]);
    let client = client(AddressPolicy::ANY);
    (site(SharedExports::new(exports), client, log.clone()), log)
}

impl Server {
    /// A door of HTTP, whose store has room for `bytes`.
    pub(crate) fn http(bytes: u64) -> Self {
        let (site, log) = site_with(bytes);
        Self::http_over(site, log)
    }

    /// A door of the XRootD protocol.
    pub(crate) fn root() -> Self {
        let (site, log) = site_with(1 << 30);
        Self::root_over(site, log)
    }

    /// Doors of HTTP and of the XRootD protocol to one store.
    pub(crate) fn both() -> [Self; 2] {
        let (site, log) = site_with(1 << 30);
        [Self::http_over(site.clone(), log.clone()), Self::root_over(site, log)]
    }

    fn http_over(site: transfer::Site, log: Arc<Log>) -> Self {
        let door = door_http::Door::new(door_http::Settings {
            site,
            hand_over: None,
            delegations: None,
            pass_token_to: Vec::new(),
            node: None,
            space_report: None,
            macaroons: None,
            limits: door_http::Limits::default(),
            authorities: Vec::new(),
        });
        let (listener, address) = listener();
        tokio::spawn(async move {
            while let Ok((tcp, peer)) = listener.accept().await {
                let door = door.clone();
                tokio::spawn(async move {
                    let wait = std::time::Duration::from_secs(60);
                    let opening = net::listen::opening(&tcp, wait).await?;
                    door.serve_connection(tcp, opening, peer).await
                });
            }
        });
        Self {
            base: format!("http://{address}/data"),
            log,
        }
    }

    fn root_over(site: transfer::Site, log: Arc<Log>) -> Self {
        let door = door_xroot::Door::new(door_xroot::Settings {
            site,
            hand_over: None,
            tls_policy: TlsPolicy::default(),
            authentication: Vec::new(),
            limits: door_xroot::Limits::default(),
            third_party: door_xroot::ThirdPartySettings::default(),
            delegations: None,
            host: None,
        });
        let (listener, address) = listener();
        tokio::spawn(async move {
            while let Ok((tcp, peer)) = listener.accept().await {
                let door = door.clone();
                tokio::spawn(async move { door.serve_connection(tcp, peer).await });
            }
        });
        Self {
            base: format!("root://{address}//data"),
            log,
        }
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.base)
    }

    /// Stores a file.
    pub(crate) async fn put(&self, name: &str, content: &[u8]) {
        let options = remote::PutOptions {
            size_bytes: Some(content.len() as u64),
            overwrite: true,
            ..remote::PutOptions::default()
        };
        let client = client(AddressPolicy::ANY);
        let mut outlet = client.put(&place(&self.url(name)), &options).await.unwrap();
        for piece in content.chunks(64 * 1024) {
            let mut room = outlet.outgoing().await.unwrap();
            let mut rest = piece;
            for mut slot in room.slots(piece.len()) {
                let step = slot.len().min(rest.len());
                slot[..step].copy_from_slice(&rest[..step]);
                rest = &rest[step..];
            }
            outlet.send(room, piece.len()).await.unwrap();
        }
        outlet.finish().await.unwrap();
    }

    /// The content of a file; `None` if there is none.
    pub(crate) async fn get(&self, name: &str) -> Option<Vec<u8>> {
        let client = client(AddressPolicy::ANY);
        let asked = client
            .get(&place(&self.url(name)), &remote::GetOptions::default())
            .await;
        let mut download = asked.ok()?;
        let mut whole = Vec::new();
        while let Some(batch) = download.next().await.unwrap() {
            whole.extend(batch.slices().flatten());
        }
        Some(whole)
    }
}

fn place(url: &str) -> Resource {
    Resource {
        location: Location::parse(url).unwrap(),
        access: Access::default(),
        side: Side::Source,
    }
}

/// No credentials.
struct NoAccess;

impl CopySource for NoAccess {
    fn access<'a>(&'a self, _claimed: &'a Claimed) -> AccessLookup<'a> {
        Box::pin(std::future::ready(Ok(EndAccess::default())))
    }
}

/// The operators' token for a hop.
pub(crate) fn hop_token() -> String {
    macaroon("activity:DOWNLOAD,UPLOAD,MANAGE,LIST,DELETE")
}

/// Only hops are shown something.
struct ForHops;

impl CopySource for ForHops {
    fn access<'a>(&'a self, _claimed: &'a Claimed) -> AccessLookup<'a> {
        Box::pin(std::future::ready(Ok(EndAccess::default())))
    }

    fn hop_access<'a>(&'a self, _claimed: &'a Claimed, _url: &'a str) -> HopLookup<'a> {
        Box::pin(std::future::ready(Ok(Access {
            bearer: Some(Secret::new(hop_token())),
            keeps_bearer: true,
            ..Access::default()
        })))
    }
}

/// The copier of a queue with a token for its hops.
pub(crate) fn copier_for_hops() -> RemoteCopier {
    RemoteCopier::new(client(AddressPolicy::ANY), Budget::new(), Arc::new(ForHops))
}

/// The copier of a queue.
pub(crate) fn copier() -> RemoteCopier {
    RemoteCopier::new(client(AddressPolicy::ANY), Budget::new(), Arc::new(NoAccess))
}

/// Storages that operators allow everything.
pub(crate) fn roles() -> Roles {
    Roles {
        source: ThirdPartyRole::Full,
        destination: ThirdPartyRole::Full,
        ..Roles::default()
    }
}

/// Copies a file as a worker does.
pub(crate) async fn copy(claimed: &Claimed, roles: Roles) -> CopyResult {
    soon(copier().copy(claimed, roles, &Progress::new())).await
}

/// A claimed file, with checksums of both sides to compare.
pub(crate) fn claimed(source: &str, destination: &str, overwrite: Overwrite) -> Claimed {
    let id = JobId([7; 16]);
    let options = JobOptions {
        overwrite,
        checksum_mode: ChecksumMode::Both,
        ..JobOptions::default()
    };
    Claimed {
        file: FileRecord {
            id: FileId(17),
            job: id,
            index: 0,
            state: FileState::Active,
            initial_state: FileState::Submitted,
            source: source.to_owned(),
            destination: destination.to_owned(),
            source_storage: String::new(),
            destination_storage: String::new(),
            vo: "vo".to_owned(),
            activity: "default".to_owned(),
            user: String::new(),
            priority: 3,
            given_size_bytes: None,
            size_bytes: None,
            moved_bytes: 0,
            attempts: 0,
            problem: None,
            times: Times::default(),
            worker: None,
            way: None,
            destination_report: None,
            is_interrupted: false,
            lost_part_looks: 0,
            hop: None,
            options: FileOptions::default(),
        },
        job: Arc::new(JobRecord {
            id,
            kind: JobKind::Normal,
            state: JobState::Active,
            owner: Owner {
                user: "/CN=ann".to_owned(),
                delegation_id: String::new(),
                vo: "vo".to_owned(),
                login: Login::Anonymous,
            },
            submitted_ms: 0,
            finished_ms: None,
            priority: 3,
            expires_ms: None,
            is_canceled: false,
            reason: None,
            source_storage: None,
            destination_storage: None,
            options,
            metadata: None,
            files: 1,
        }),
    }
}

/// The same claim with other options of its job.
pub(crate) fn with(claimed: Claimed, change: impl FnOnce(&mut JobOptions)) -> Claimed {
    let mut job = (*claimed.job).clone();
    change(&mut job.options);
    Claimed {
        job: Arc::new(job),
        ..claimed
    }
}
