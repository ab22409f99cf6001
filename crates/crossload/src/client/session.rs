//! The tools of all client commands: connections to servers, credentials, local files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use credentials::discovery::{FoundCertificate, trust_directory};
use endpoint::{ClientId, Store};
use http_wire::format_iso_date;
use net::tls::{ClientTls, Trust};
use remote::{Access, Account, ActivityNote, Client, ClientOptions, PacketMark, Resource, Trace};
use transfer::Budget;
use transfer::route::LearnedAbilities;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Side};

use super::account::FoundAccount;
use super::credentials::Credentials;
pub(crate) use super::info::Info;
use super::last_asked::LastAsked;
use super::live_token::LiveToken;
use super::named::{NamedRemotes, UsedRemote};
use super::place::Place;
use crate::command_line::{Common, TransferOptions};
use crate::failure::Failure;
use crate::made_client::client_options;
use crate::next_step::{LISTS_NOTHING, S3_KEY_ORDER};
use crate::remotes::state_directory;
use crate::traces::Traces;
use crate::{authorities, output};
use storage::local::{self, LocalEntries, LocalFiles, Unfit};

/// Entries of a local directory that are read at once.
const LOCAL_ENTRIES_AT_ONCE: usize = 1000;

/// Runs a file system call on a blocking thread.
async fn blocking<T: Send + 'static>(ask: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    execution::blocking_try(Side::Client, Phase::Open, ask).await
}

/// The client's tools for one command.
pub(crate) struct ClientContext {
    pub(crate) client: Client,
    pub(crate) files: Store,
    /// Limits shared by all copies of the command.
    pub(crate) budget: Budget,
    /// What the servers of the command have shown of their abilities.
    pub(crate) abilities: LearnedAbilities,
    pub(crate) common: Common,
    tls: ClientTls,
    /// What TLS trusts; named remotes add to it.
    trust: Mutex<Trust>,
    credentials: Credentials,
    /// The accounts at S3 storages without a name, by host.
    accounts: Mutex<BTreeMap<String, Option<FoundAccount>>>,
    /// Whether a server of HTTP is an S3 storage of the user, by its address.
    stores: Mutex<BTreeMap<String, bool>>,
    remotes: NamedRemotes,
    trace: Trace,
    /// Where spans of the command go.
    traces: Mutex<Traces>,
    /// The directory that names are relative to, in a shell.
    directory: Mutex<Option<Place>>,
    /// The place of the last request.
    asked: Mutex<Option<LastAsked>>,
}

/// The trace of requests: into the file of `--log-file`, else printed with `-vv`.
fn trace(common: &Common) -> Result<Trace> {
    let Some(path) = &common.log_file else {
        return Ok(match common.verbose {
            0 | 1 => Trace::default(),
            _ => Trace::new(output::complain),
        });
    };
    let mut options = std::fs::OpenOptions::new();
    let opened = options.append(true).create(true).mode(LOG_MODE).open(path);
    let file = opened.map_err(|cause| local::fault(&cause, Phase::Open, path.display()).at_side(Side::Client))?;
    Ok(Trace::new(move |line| {
        let now = format_iso_date(crate::token::now_s());
        // A full disk is no reason to fail. One write, so that lines of other processes do not mix.
        let _ = (&file).write_all(format!("{now} {}\n", output::name(line)).as_bytes());
    }))
}

/// Permissions of a new log file: names of files may be confidential.
const LOG_MODE: u32 = 0o600;

impl ClientContext {
    /// Loads the authorities and finds the credentials.
    ///
    /// # Errors
    /// A named file that cannot be read, or an invalid token.
    pub(crate) fn open(common: &Common) -> std::result::Result<Self, Failure> {
        output::choose_colour(common.display.colour());
        let access = &common.access;
        let authorities = authorities::read(access)?;
        let variable = |name: &str| std::env::var(name).ok();
        let directory = access
            .capath
            .clone()
            .or_else(|| trust_directory(variable, Path::is_dir));
        let trust = Trust {
            authorities,
            files: Vec::new(),
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
            output::complain(&format!("credential sent to servers: {}", credentials.describe()));
        }
        let client = Client::new(client_options(tls.clone()));
        let client = match state_directory() {
            Some(directory) => client.with_s3_noted_in(&directory.join("uploads")),
            None => client.with_s3(),
        };
        Ok(Self {
            client,
            files: Store::new(Arc::new(LocalFiles)),
            budget: Budget::new(),
            abilities: LearnedAbilities::of_one_command(),
            common: common.clone(),
            tls,
            trust: Mutex::new(trust),
            credentials,
            accounts: Mutex::default(),
            stores: Mutex::default(),
            remotes: NamedRemotes::default(),
            trace: trace(common)?,
            traces: Mutex::default(),
            directory: Mutex::new(None),
            asked: Mutex::new(None),
        })
    }

    /// The place that an argument stands for: `NAME:PATH` in a named remote, or else a URL or local
    /// path. A symbolic link at the end of a local path is followed.
    ///
    /// # Errors
    /// As [`Place::parse`]; no remote has the name, or its credentials or authorities are unusable.
    pub(crate) async fn place(&self, text: &str) -> Result<Place> {
        match self.in_remote(text).await? {
            Some(url) => Place::parse(&url),
            None => match self.directory_for(text) {
                Some(directory) => directory.join(text),
                None => Place::parse(&self.with_its_scheme(text)),
            },
        }
    }

    /// A URL of HTTP as that of S3, if its server is an S3 storage of the user: of a named remote
    /// with an access key, or of a group `[S3:HOST]` of gfal's configuration. A signed URL is for
    /// HTTP.
    fn with_its_scheme<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return text.into();
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => "s3",
            "https" => "s3s",
            _ => return text.into(),
        };
        let is_ours = |place: &Location| {
            let mut known = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
            let server = format!("{scheme}://{}", place.authority());
            *known
                .entry(server)
                .or_insert_with(|| self.remotes.has_keys_for(place) || FoundAccount::is_named_by_gfal(place.host()))
        };
        match Location::parse(text) {
            Ok(place) if place.query().is_none() && is_ours(&place) => format!("{scheme}://{rest}").into(),
            _ => text.into(),
        }
    }

    /// As [`Self::place`], for `mv` and `rm`: a symbolic link at the end of the path is not
    /// followed.
    ///
    /// # Errors
    /// As [`Self::place`].
    pub(crate) async fn name(&self, text: &str) -> Result<Place> {
        match self.in_remote(text).await? {
            Some(url) => Place::parse_name(&url),
            None => match self.directory_for(text) {
                Some(directory) => directory.join(text),
                None => Place::parse_name(&self.with_its_scheme(text)),
            },
        }
    }

    /// The directory of the shell.
    pub(crate) fn directory(&self) -> Option<Place> {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes names relative to a directory from now on.
    pub(crate) fn set_directory(&self, directory: Place) {
        *self.directory.lock().unwrap_or_else(PoisonError::into_inner) = Some(directory);
    }

    /// The directory that an argument is relative to: none for URLs and standard input.
    fn directory_for(&self, text: &str) -> Option<Place> {
        self.directory().filter(|_| text != "-" && !text.contains("://"))
    }

    /// The URL that an argument stands for: `NAME:PATH` in a named remote, or the argument itself.
    ///
    /// # Errors
    /// The file of the remotes is invalid.
    pub(crate) fn url(&self, text: &str) -> Result<String> {
        Ok(self.remotes.url(text)?.unwrap_or_else(|| text.to_owned()))
    }

    /// Takes the credentials and authorities of the remote that an argument names, if it does.
    ///
    /// # Errors
    /// As [`Self::place`].
    pub(crate) async fn use_remote(&self, text: &str) -> Result<()> {
        if self.remotes.url(text)?.is_some() {
            self.in_remote(text).await?;
        }
        Ok(())
    }

    async fn in_remote(&self, text: &str) -> Result<Option<String>> {
        let Some(named) = self.remotes.find(text, &self.common.access)? else {
            return Ok(None);
        };
        if !named.authorities.is_empty() {
            let mut trust = self.trust.lock().unwrap_or_else(PoisonError::into_inner);
            trust.files.extend(named.authorities);
            self.tls.reload(&trust)?;
        }
        let remote = &named.remote;
        if let Some(issuer) = &remote.issuer {
            let open = || LiveToken::open(issuer, &self.client);
            remote.token.get_or_try_init(open).await?;
        }
        if named.is_new && self.common.verbose > 0 {
            tell(remote);
        }
        Ok(Some(named.url))
    }

    /// Takes what the named remotes among the arguments say about transfers, where the options do
    /// not.
    ///
    /// # Errors
    /// The file of the remotes is invalid.
    pub(crate) fn take_defaults<'a>(
        &self,
        places: impl IntoIterator<Item = &'a str>,
        options: &mut TransferOptions,
    ) -> Result<()> {
        self.remotes.apply(places, options)
    }

    /// Sets where spans of the command go.
    pub(crate) fn set_traces(&self, traces: Traces) {
        *self.traces.lock().unwrap_or_else(PoisonError::into_inner) = traces;
    }

    /// Where spans of the command go; nowhere unless it is set.
    pub(crate) fn traces(&self) -> Traces {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What TLS trusts.
    pub(crate) fn tls(&self) -> &ClientTls {
        &self.tls
    }

    /// Options for further clients of this command.
    pub(crate) fn client_options(&self) -> ClientOptions {
        client_options(self.tls.clone())
    }

    /// The access data for requests to a server: that of the named remote at this place, or the
    /// user's own.
    pub(crate) fn access(&self, location: Option<&Location>, scitag: Option<u16>) -> Access {
        let info = &self.common.client_info;
        let remote = location.and_then(|location| self.remotes.home(location));
        let credentials = remote.as_ref().and_then(|remote| remote.credentials.as_ref());
        let credentials = credentials.unwrap_or(&self.credentials);
        let live = remote.as_ref().and_then(|remote| remote.token.get());
        let found = credentials.token.as_ref().map(|found| found.token.clone());
        let account = location
            .filter(|location| location.is_s3())
            .and_then(|place| self.account(credentials, place));
        Access {
            account,
            bearer: live.map(LiveToken::current).or(found),
            identity: credentials.identity.clone(),
            forwarded: credentials.login(),
            user_name: ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok()),
            client_info: (!info.is_empty()).then(|| info.join(";")),
            scitag,
            packets: PacketMark::of_tag(scitag),
            trace: self.trace.clone(),
            ..Access::default()
        }
    }

    /// The file of the token that [`Self::access`] has for a server, if it is in one.
    pub(crate) fn token_file(&self, location: &Location) -> Option<PathBuf> {
        let remote = self.remotes.home(location);
        if remote.as_ref().is_some_and(|remote| remote.token.get().is_some()) {
            return None;
        }
        let credentials = remote.as_ref().and_then(|remote| remote.credentials.as_ref());
        let token = credentials.unwrap_or(&self.credentials).token.as_ref();
        token.and_then(|found| found.file.clone())
    }

    /// The files of the certificate that [`Self::access`] has for a server.
    pub(crate) fn certificate_files(&self, location: &Location) -> Option<FoundCertificate> {
        let remote = self.remotes.home(location);
        let credentials = remote.as_ref().and_then(|remote| remote.credentials.as_ref());
        credentials.unwrap_or(&self.credentials).identity_files.clone()
    }

    /// The account at an S3 storage: that of the named remote that the place was written with. For
    /// a URL, that of the environment, else that of a remote at this server.
    fn account(&self, credentials: &Credentials, place: &Location) -> Option<Arc<Account>> {
        if let Some(found) = &credentials.account {
            return Some(Arc::new(found.account.clone()));
        }
        let mut known = self.accounts();
        let found = known.entry(place.with_path("/").to_string()).or_insert_with(|| {
            let given = FoundAccount::find(place.host());
            // A profile that cannot be used is an error: another key might have other rights.
            let found = FoundAccount::or_of_host(given, || self.remotes.keys_for(place)).unwrap_or_else(|error| {
                output::complain(&error.public());
                None
            });
            if self.common.verbose > 0 {
                tell_account(place.host(), found.as_ref());
            }
            found
        });
        found.as_ref().map(|found| Arc::new(found.account.clone()))
    }

    fn accounts(&self) -> MutexGuard<'_, BTreeMap<String, Option<FoundAccount>>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file on a server, as the given side of a copy, or that of [`Place::side`].
    pub(crate) fn resource(&self, location: &Location, side: Side) -> Resource {
        self.labelled(location, side, None)
    }

    /// As [`ClientContext::resource`], with a flow label for the network (SciTags).
    pub(crate) fn labelled(&self, location: &Location, side: Side, scitag: Option<u16>) -> Resource {
        let activity = ActivityNote::kept();
        let asked = LastAsked {
            place: location.clone(),
            activity: activity.clone(),
        };
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
        Resource {
            location: location.clone(),
            access: Access {
                activity,
                ..self.access(Some(location), scitag)
            },
            side,
        }
    }

    /// The last request, if there was one.
    pub(crate) fn last_asked(&self) -> Option<LastAsked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether servers see a certificate of the user, and nothing else.
    pub(crate) fn shows_certificate_only(&self) -> bool {
        self.credentials.identity.is_some() && self.credentials.token.is_none()
    }

    /// After a refusal, prints which credential was sent. It is often not the intended one.
    pub(crate) fn explain_denial(&self, code: ErrorCode) {
        // No credential helps a name that is refused, or a file of this machine.
        if code.denies_access() && code != ErrorCode::PathRefused && self.last_asked().is_some() {
            self.tell_what_was_shown();
        }
    }

    /// Prints which credential was sent, unless `-v` has printed it already.
    pub(crate) fn tell_what_was_shown(&self) {
        if self.common.verbose > 0 {
            return;
        }
        let used = self.remotes.used();
        let own = used.iter().filter(|remote| remote.credentials.is_some());
        own.for_each(|remote| tell(remote));
        let accounts = self.accounts();
        accounts
            .iter()
            .for_each(|(host, found)| tell_account(host, found.as_ref()));
        let has_others = used.is_empty() && accounts.is_empty();
        if has_others || used.iter().any(|remote| remote.credentials.is_none()) {
            output::complain(&format!("credential sent to servers: {}", self.credentials.describe()));
        }
    }

    /// The properties of a file or directory.
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

    /// The properties of a file or directory; `None` if it does not exist.
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

    /// The entries of a directory, as they come.
    ///
    /// # Errors
    /// The server's or the system's refusal.
    pub(crate) async fn open_listing(&self, place: &Place, side: Side) -> Result<Listing> {
        Ok(match place {
            Place::Remote(location) => {
                let listed = self.client.list(&self.resource(location, side)).await;
                Listing::Remote(listed.map_err(|error| match error.code() {
                    ErrorCode::PeerUnsupported if location.is_http() => error.with_detail(LISTS_NOTHING),
                    _ => error,
                })?)
            }
            Place::Local(path) => {
                let path = path.clone();
                let opened = blocking(move || LocalEntries::open(&path)).await;
                Listing::Local(opened.map_err(|error| error.at_side(side))?, side)
            }
            Place::Stdio => Listing::End,
        })
    }

    /// Makes a directory; with `parents` also its missing parents, and an existing one is accepted.
    ///
    /// # Errors
    /// The server's or the system's refusal.
    pub(crate) async fn make_directory(&self, place: &Place, parents: bool, side: Side) -> Result<()> {
        let made = match place {
            Place::Remote(location) => {
                let directory = self.resource(location, side);
                match parents {
                    true => self.client.make_directories(&directory).await,
                    false => self.client.make_directory(&directory).await,
                }
            }
            Place::Local(path) => match self.files.make_directory(path, parents).await {
                Err(error) if parents && is_taken(&error) && self.stat(place, side).await?.is_directory => Ok(()),
                made => made,
            },
            Place::Stdio => Ok(()),
        };
        made.map_err(|error| error.at_side(side))
    }

    /// The checksum of a file, from its server or computed here.
    ///
    /// # Errors
    /// `checksum_unavailable` if the server returns none.
    pub(crate) async fn sum(&self, place: &Place, algorithm: ChecksumAlgorithm, side: Side) -> Result<Checksum> {
        match place {
            Place::Remote(location) => {
                let facts = self.client.head(&self.resource(location, side), &[algorithm]).await?;
                let found = facts.checksums.into_iter().find(|known| known.algorithm() == algorithm);
                found.ok_or_else(|| {
                    let none = Error::new(ErrorCode::ChecksumUnavailable, side, Phase::Checksum)
                        .with_detail(format!("the server returns no {algorithm}"))
                        .with_subject(place);
                    match &facts.checksum_refusal {
                        Some(refusal) => {
                            none.with_peer(refusal.peer_status(), refusal.peer_words().unwrap_or_default())
                        }
                        None => none,
                    }
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

/// Says with which account an S3 storage is asked.
fn tell_account(host: &str, found: Option<&FoundAccount>) {
    let none = || format!("none: no access key was found. {S3_KEY_ORDER}");
    let words = found.map_or_else(none, FoundAccount::describe);
    output::complain(&format!("credential sent to {host}: {words}"));
}

/// Says which credential the servers of a named remote receive.
fn tell(remote: &UsedRemote) {
    let words = match (remote.token.get(), &remote.credentials) {
        (Some(live), _) => format!("the token of the login at {}", live.issuer),
        (None, Some(credentials)) => credentials.describe(),
        (None, None) => return,
    };
    output::complain(&format!("credential sent to {}: {words}", remote.name));
}

/// A directory that is being listed.
pub(crate) enum Listing {
    Remote(remote::Listing),
    Local(LocalEntries, Side),
    End,
}

impl Listing {
    /// The next entries; `None` at the end. If the server reports that it left some out, an entry
    /// that is [`Unfit::Unlisted`] has the server's words as its name.
    ///
    /// # Errors
    /// The server's or the system's refusal.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Info>>> {
        match std::mem::replace(self, Self::End) {
            Self::Remote(mut listing) => {
                if let Some(batch) = listing.next().await? {
                    *self = Self::Remote(listing);
                    return Ok(Some(batch.into_iter().map(Info::from).collect()));
                }
                Ok(listing.description().map(|words| {
                    vec![Info {
                        name: words.to_owned(),
                        unfit: Some(Unfit::Unlisted),
                        ..Info::default()
                    }]
                }))
            }
            Self::Local(mut entries, side) => {
                let read = blocking(move || Ok((entries.next_batch(LOCAL_ENTRIES_AT_ONCE)?, entries))).await;
                let (batch, entries) = read.map_err(|error| error.at_side(side))?;
                if batch.is_empty() {
                    return Ok(None);
                }
                *self = Self::Local(entries, side);
                Ok(Some(batch.into_iter().map(Info::from).collect()))
            }
            Self::End => Ok(None),
        }
    }
}

/// Whether the name does not exist.
pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::NotFound | ErrorCode::PeerNotFound | ErrorCode::ParentMissing
    )
}

/// Whether the name exists already.
pub(crate) fn is_taken(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::Exists | ErrorCode::PeerExists | ErrorCode::DirectoryExists
    )
}
