//! What all commands of the client work with: the connection to servers, credentials, local files.

use std::path::Path;
use std::sync::Arc;

use credentials::discovery::trust_directory;
use endpoint::{ClientId, Store};
use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Access, Client, ClientOptions, Resource};
use storage::Stat;
use transfer::Budget;
use types::limits::{CONNECT_TIMEOUT, FIRST_BYTE_TIMEOUT, STALL_TIMEOUT};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Side};

use super::credentials::Credentials;
use super::place::Place;
use crate::command_line::Common;
use crate::output;
use storage::local::{self, LocalEntry, LocalFiles, Unfit};

/// The exit codes of whoever may not do something (EPERM, EACCES).
const DENIED: [u8; 2] = [1, 13];

/// What is known of a file or directory, wherever it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Info {
    pub(crate) name: String,
    pub(crate) is_directory: bool,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) modified_s: Option<i64>,
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) etag: Option<String>,
    /// Why it is neither a file nor a directory to work with.
    pub(crate) unfit: Option<Unfit>,
}

impl From<remote::Entry> for Info {
    fn from(entry: remote::Entry) -> Self {
        Self {
            name: entry.name().to_owned(),
            is_directory: entry.is_directory,
            size_bytes: entry.size_bytes,
            modified_s: entry.modified_s,
            checksums: entry.checksums,
            etag: entry.etag,
            unfit: entry.is_special.then_some(Unfit::Special),
        }
    }
}

impl Info {
    fn of_local(name: &str, stat: &Stat) -> Self {
        let modified = stat.modified.duration_since(std::time::UNIX_EPOCH);
        Self {
            name: name.to_owned(),
            is_directory: stat.is_directory(),
            size_bytes: Some(stat.size_bytes),
            modified_s: modified.ok().map(|since| since.as_secs() as i64),
            ..Self::default()
        }
    }
}

impl From<LocalEntry> for Info {
    fn from(found: LocalEntry) -> Self {
        match found.what {
            Ok(stat) => Self::of_local(&found.name, &stat),
            Err(unfit) => Self {
                name: found.name,
                unfit: Some(unfit),
                ..Self::default()
            },
        }
    }
}

/// Runs what asks the file system.
async fn blocking<T: Send + 'static>(ask: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = execution::blocking(ask).await;
    done.unwrap_or_else(|_| Err(Error::new(ErrorCode::Internal, Side::Client, Phase::Open)))
}

/// The client's tools for one command.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) files: Store,
    /// What all copies of the command share.
    pub(crate) budget: Budget,
    pub(crate) common: Common,
    tls: ClientTls,
    credentials: Credentials,
}

/// The client of every command: it may go wherever its user sends it.
pub(crate) fn new_client(tls: ClientTls) -> Client {
    Client::new(client_options(tls))
}

fn client_options(tls: ClientTls) -> ClientOptions {
    ClientOptions {
        tls,
        addresses: AddressPolicy::ANY,
        connect: CONNECT_TIMEOUT,
        first_byte: FIRST_BYTE_TIMEOUT,
        stall: STALL_TIMEOUT,
        user_agent: concat!("crossload/", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}

impl Session {
    /// Loads trust and looks for a token.
    ///
    /// # Errors
    /// When a named file cannot be read, or what was found is no token.
    pub(crate) fn open(common: &Common) -> Result<Self> {
        let access = &common.access;
        let variable = |name: &str| std::env::var(name).ok();
        let directory = access
            .capath
            .clone()
            .or_else(|| trust_directory(variable, Path::is_dir));
        let trust = Trust {
            files: access.cacert.clone(),
            directories: directory.into_iter().collect(),
            system: true,
            insecure: access.insecure,
        };
        let (tls, _) = ClientTls::load(&trust)?;
        let credentials = Credentials::find(access)?;
        if let Some(words) = &credentials.passed_over {
            output::complain(words);
        }
        if common.verbose > 0 {
            output::complain(&format!("shown to servers: {}", credentials.describe()));
        }
        let client = new_client(tls.clone());
        Ok(Self {
            client,
            files: Store::new(Arc::new(LocalFiles)),
            budget: Budget::new(),
            common: common.clone(),
            tls,
            credentials,
        })
    }

    /// How further clients of this command reach servers.
    pub(crate) fn client_options(&self) -> ClientOptions {
        client_options(self.tls.clone())
    }

    /// What is shown to a server itself.
    pub(crate) fn access(&self, scitag: Option<u16>) -> Access {
        let info = &self.common.client_info;
        Access {
            bearer: self.credentials.token.as_ref().map(|found| found.token.clone()),
            identity: self.credentials.identity.clone(),
            user_name: ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok()),
            client_info: (!info.is_empty()).then(|| info.join(";")),
            scitag,
            ..Access::default()
        }
    }

    /// A server's file as a party of side `side`.
    pub(crate) fn resource(&self, location: &Location, side: Side) -> Resource {
        Resource {
            location: location.clone(),
            access: self.access(None),
            side,
        }
    }

    /// Tells whoever was refused, which the exit code says, what was shown: it is often not what was meant.
    pub(crate) fn explain_denial(&self, exit_code: u8) {
        if DENIED.contains(&exit_code) {
            self.tell_what_was_shown();
        }
    }

    /// Tells what was shown to servers, unless `-v` has told it already.
    pub(crate) fn tell_what_was_shown(&self) {
        if self.common.verbose == 0 {
            output::complain(&format!("shown to servers: {}", self.credentials.describe()));
        }
    }

    /// What a place is.
    ///
    /// # Errors
    /// `not_found` or `peer_not_found`, and other refusals.
    pub(crate) async fn stat(&self, place: &Place, side: Side) -> Result<Info> {
        match place {
            Place::Remote(location) => Ok(self.client.stat(&self.resource(location, side)).await?.into()),
            Place::Local(path) => {
                let path = path.clone();
                let found = blocking(move || local::look(&path)).await;
                found.map(Info::from).map_err(|error| error.at_side(side))
            }
            Place::Stdio => Ok(Info::default()),
        }
    }

    /// What a place is; `None` when there is nothing.
    ///
    /// # Errors
    /// Other refusals.
    pub(crate) async fn look(&self, place: &Place, side: Side) -> Result<Option<Info>> {
        match self.stat(place, side).await {
            Ok(info) => Ok(Some(info)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The entries of a directory, in the order of their names. Where its server says that it leaves some out, an entry
    /// that is [`Unfit::Unlisted`] has its words for a name.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub(crate) async fn list(&self, place: &Place, side: Side) -> Result<Vec<Info>> {
        let mut entries = Vec::new();
        match place {
            Place::Remote(location) => {
                let mut listing = self.client.list(&self.resource(location, side)).await?;
                while let Some(batch) = listing.next().await? {
                    entries.extend(batch.into_iter().map(Info::from));
                }
                entries.extend(listing.description().map(|words| Info {
                    name: words.to_owned(),
                    unfit: Some(Unfit::Unlisted),
                    ..Info::default()
                }));
            }
            Place::Local(path) => {
                let path = path.clone();
                let found = blocking(move || local::entries(&path)).await;
                entries.extend(found.map_err(|error| error.at_side(side))?.into_iter().map(Info::from));
            }
            Place::Stdio => {}
        }
        entries.sort_by(|first, second| first.name.cmp(&second.name));
        Ok(entries)
    }

    /// Makes a directory; with `parents` those above it too, and then an existing one is fine.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) async fn make_directory(&self, place: &Place, parents: bool) -> Result<()> {
        let mut missing = vec![place.clone()];
        while let Some(next) = missing.pop() {
            let made = match &next {
                Place::Remote(location) => {
                    self.client
                        .make_directory(&self.resource(location, Side::Destination))
                        .await
                }
                Place::Local(path) => self.files.make_directory(path, parents).await,
                Place::Stdio => Ok(()),
            };
            match made {
                Ok(()) => {}
                Err(error) if parents && is_taken(&error) => {
                    let found = self.stat(&next, Side::Destination).await?;
                    if !found.is_directory {
                        return Err(error.at_side(Side::Destination));
                    }
                }
                Err(error) if parents && is_parentless(&error) && missing.len() < depth(place) => {
                    let Some(parent) = next.parent() else { return Err(error) };
                    missing.extend([next, parent]);
                }
                Err(error) => return Err(error.at_side(Side::Destination)),
            }
        }
        Ok(())
    }

    /// The checksum of a file, asked of its server, or computed here.
    ///
    /// # Errors
    /// `checksum_unavailable` when the server tells none.
    pub(crate) async fn sum(&self, place: &Place, algorithm: ChecksumAlgorithm, side: Side) -> Result<Checksum> {
        match place {
            Place::Remote(location) => {
                let facts = self.client.head(&self.resource(location, side), &[algorithm]).await?;
                let found = facts.checksums.into_iter().find(|known| known.algorithm() == algorithm);
                let none = || Error::new(ErrorCode::ChecksumUnavailable, side, Phase::Checksum);
                found.ok_or_else(|| {
                    none()
                        .with_detail(format!("{algorithm} is not told"))
                        .with_subject(place)
                })
            }
            Place::Local(path) => self
                .files
                .checksum(path, algorithm, &ClientId::own())
                .await
                .map_err(|error| error.at_side(side)),
            Place::Stdio => Err(Error::new(ErrorCode::NotImplemented, side, Phase::Checksum)),
        }
    }
}

fn depth(place: &Place) -> usize {
    place.to_string().matches('/').count()
}

/// Whether there is nothing of that name.
pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::NotFound | ErrorCode::PeerNotFound | ErrorCode::ParentMissing
    )
}

fn is_parentless(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::ParentMissing | ErrorCode::PeerNotFound | ErrorCode::NotFound
    )
}

/// Whether something has that name already.
pub(crate) fn is_taken(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::Exists | ErrorCode::PeerExists | ErrorCode::DirectoryExists
    )
}
