//! The named remotes that a command uses: their places, credentials and authorities.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use config::Remote;
use tokio::sync::OnceCell;
use types::{Error, ErrorCode, Location, Phase, Result, Side};

use super::account::FoundAccount;
use super::credentials::Credentials;
use super::live_token::LiveToken;
use crate::command_line::{Access, TransferOptions};
use crate::failure::UNUSABLE_REMOTES;
use crate::remotes::{Remotes, split, url_of};

/// The remotes of a command.
#[derive(Debug, Default)]
pub(crate) struct NamedRemotes {
    /// Read when the first name occurs: other commands do not need a valid file.
    known: OnceLock<Remotes>,
    used: Mutex<Vec<Arc<UsedRemote>>>,
}

/// A remote in use.
#[derive(Debug)]
pub(crate) struct UsedRemote {
    pub(crate) name: String,
    /// Its place; `None` if it is on this machine.
    base: Option<Location>,
    /// What its servers receive; `None`: as those without a name.
    pub(crate) credentials: Option<Credentials>,
    /// The issuer of its tokens, if they count.
    pub(super) issuer: Option<String>,
    /// The token of the issuer, once it is there.
    pub(super) token: OnceCell<LiveToken>,
}

/// A remote as an argument names it.
pub(super) struct Named {
    /// The URL or local path.
    pub(super) url: String,
    /// Authorities that are trusted from now on, if the remote is new to the command.
    pub(super) authorities: Vec<PathBuf>,
    pub(super) remote: Arc<UsedRemote>,
    /// Whether the remote is new to the command.
    pub(super) is_new: bool,
}

impl NamedRemotes {
    /// The remote that an argument names; `None`: it is a URL or a local path. `access` has the
    /// options of the command, whose credentials win.
    ///
    /// # Errors
    /// `bad_url`: no remote has this name, and no local file either; or the file of the remotes is
    /// invalid. A credential of the remote is unusable.
    pub(super) fn find(&self, text: &str, access: &Access) -> Result<Option<Named>> {
        let Some((name, path)) = split(text) else {
            return Ok(None);
        };
        let known = self.known()?;
        let Some(remote) = known.find(name) else {
            // Any file of this name, a dangling link too.
            if std::fs::symlink_metadata(text).is_ok() {
                return Ok(None);
            }
            let words = format!("{}; a local file is ./{text}", known.unknown(name));
            return Err(invalid(words));
        };
        let (used, is_new) = self.take(remote, access)?;
        Ok(Some(Named {
            url: url_of(remote, path),
            authorities: if is_new { remote.cacert.clone() } else { Vec::new() },
            remote: used,
            is_new,
        }))
    }

    /// The URL of a place in a remote; `None` if no remote has the name, or there is no name.
    ///
    /// # Errors
    /// The file of the remotes is invalid.
    pub(super) fn url(&self, text: &str) -> Result<Option<String>> {
        let Some((name, path)) = split(text) else {
            return Ok(None);
        };
        Ok(self.known()?.find(name).map(|remote| url_of(remote, path)))
    }

    /// Notes that a remote is used; whether it is new.
    fn take(&self, remote: &Remote, access: &Access) -> Result<(Arc<UsedRemote>, bool)> {
        let find = |all: &[Arc<UsedRemote>]| all.iter().find(|used| used.name == remote.name).cloned();
        if let Some(used) = find(&self.all()) {
            return Ok((used, false));
        }
        let has_own = remote.has_credential() && !access.names_credential();
        let credentials = has_own.then(|| Credentials::of_remote(remote)).transpose()?;
        let place = Location::parse(&url_of(remote, ""))?;
        let used = Arc::new(UsedRemote {
            name: remote.name.clone(),
            base: place.is_remote().then_some(place),
            credentials,
            issuer: remote.issuer.clone().filter(|_| has_own),
            token: OnceCell::new(),
        });
        let mut all = self.all();
        if let Some(other) = find(&all) {
            return Ok((other, false));
        }
        all.push(Arc::clone(&used));
        Ok((used, true))
    }

    fn known(&self) -> Result<&Remotes> {
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let read = Remotes::load().map_err(|failure| invalid(format!("{UNUSABLE_REMOTES}: {}", failure.words)))?;
        Ok(self.known.get_or_init(|| read))
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<UsedRemote>>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The remotes that the command has used so far.
    pub(super) fn used(&self) -> Vec<Arc<UsedRemote>> {
        self.all().clone()
    }

    /// The used remote that a place belongs to: the deepest one above it, else one at this server,
    /// which is asked for directories above its own, too.
    pub(super) fn home(&self, location: &Location) -> Option<Arc<UsedRemote>> {
        let depth = |used: &Arc<UsedRemote>| {
            let base = used.base.as_ref()?;
            let is_server = base.host() == location.host() && base.port() == location.port();
            let below = base.names_to(location).is_some();
            is_server.then(|| {
                if below {
                    base.path().trim_end_matches('/').len() + 1
                } else {
                    0
                }
            })
        };
        let all = self.all();
        let found = all.iter().filter_map(|used| Some((depth(used)?, used)));
        found.max_by_key(|(depth, _)| *depth).map(|(_, used)| Arc::clone(used))
    }

    /// Whether a remote with an access key is at the server of a URL.
    pub(super) fn has_keys_for(&self, place: &Location) -> bool {
        self.with_keys(place).is_some()
    }

    /// The account of the remote at the server of a URL, where no name was given. The first one
    /// counts.
    pub(super) fn keys_for(&self, place: &Location) -> Option<FoundAccount> {
        FoundAccount::of_remote(self.with_keys(place)?).ok().flatten()
    }

    fn with_keys(&self, place: &Location) -> Option<&Remote> {
        let has_server = |remote: &&Remote| {
            let url = Location::parse(&url_of(remote, "")).ok();
            url.is_some_and(|url| {
                let is_encrypted = url.is_encrypted() == place.is_encrypted();
                is_encrypted && url.host().eq_ignore_ascii_case(place.host()) && url.port() == place.port()
            })
        };
        let mut remotes = self.known().ok()?.all();
        remotes.find(|remote| remote.access_key_id.is_some() && has_server(remote))
    }

    /// Takes what the remotes of a command say about transfers, where its options do not. Of
    /// several remotes the smallest number counts.
    ///
    /// # Errors
    /// As [`NamedRemotes::find`].
    pub(super) fn apply<'a>(
        &self,
        places: impl IntoIterator<Item = &'a str>,
        options: &mut TransferOptions,
    ) -> Result<()> {
        let smallest = |all: &[Option<u32>]| all.iter().flatten().min().copied();
        let (mut streams, mut transfers) = (None, None);
        for (name, _) in places.into_iter().filter_map(split) {
            if let Some(remote) = self.known()?.find(name) {
                streams = smallest(&[streams, remote.nbstreams]);
                transfers = smallest(&[transfers, remote.transfers]);
            }
        }
        // A limit of the rate is for one stream.
        let streams = streams.filter(|_| options.bwlimit.is_none());
        options.nbstreams = options.nbstreams.or(streams);
        options.transfers = options.transfers.or(transfers);
        Ok(())
    }
}

fn invalid(words: String) -> Error {
    Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open).with_detail(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(name: &str, url: &str) -> Arc<UsedRemote> {
        Arc::new(UsedRemote {
            name: name.to_owned(),
            base: Some(Location::parse(url).unwrap()),
            credentials: None,
            issuer: None,
            token: OnceCell::new(),
        })
    }

    #[test]
    fn a_place_belongs_to_the_deepest_remote_above_it() {
        let remotes = NamedRemotes {
            used: Mutex::new(vec![
                used("all", "https://a/data"),
                used("deep", "https://a/data/deep/"),
                used("other", "root://b//x"),
            ]),
            ..NamedRemotes::default()
        };
        let home = |url: &str| {
            remotes
                .home(&Location::parse(url).unwrap())
                .map(|used| used.name.clone())
        };
        assert_eq!(home("https://a/data/f").as_deref(), Some("all"));
        assert_eq!(home("https://a/data/deep/f").as_deref(), Some("deep"));
        assert_eq!(home("https://a/data/deeper").as_deref(), Some("all"));
        assert_eq!(home("root://b//").as_deref(), Some("other"));
        for elsewhere in ["https://a:8443/data/f", "https://c/data/f"] {
            assert_eq!(home(elsewhere), None, "{elsewhere}");
        }
    }
}
