//! The local user behind a name: looked up in the system's databases, cached, and refreshed in the
//! background.
//!
//! A database may be on the network, slow, or down. Requests wait for a limited time only, few
//! look-ups run at once, and cached users stay in use during a refresh.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{
    LOCAL_USER_LOOKUP_WAIT, LOCAL_USER_LOOKUPS_MAX, LOCAL_USER_REFRESH, LOCAL_USER_RETRY, LOCAL_USERS_MAX,
};
use nix::unistd::{Gid, User, getgrouplist};
use storage::{LocalUser, can_act_as};
use tokio::sync::Semaphore;
use types::{Error, ErrorCode, Phase, Result, Side};

/// How local users are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSettings {
    /// The lowest user ID that the server acts as.
    pub minimum_uid: u32,
    /// The user when a decision names none; `None`: the server's own account.
    pub default_user: Option<String>,
    /// Whether a user's supplementary groups count, or only the primary one.
    pub all_groups: bool,
}

/// A database's record of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UserRecord {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// Where users are looked up. May block.
trait Directory: Send + Sync {
    /// The user with this name, if there is one.
    fn look_up(&self, name: &str, all_groups: bool) -> std::io::Result<Option<UserRecord>>;

    /// Whether the server can act as this user.
    fn can_act_as(&self, user: &LocalUser) -> bool;
}

/// The local users of a server. Clones share the cache.
#[derive(Clone)]
pub struct Users(Arc<Shared>);

struct Shared {
    settings: UserSettings,
    directory: Box<dyn Directory>,
    known: Mutex<HashMap<String, Known>>,
    lookup_slots: Arc<Semaphore>,
    /// How long a request waits.
    wait: Duration,
}

#[derive(Clone)]
struct Known {
    /// The user, or why there is none.
    user: Result<Arc<LocalUser>>,
    /// When to refresh it.
    again: Instant,
}

impl std::fmt::Debug for Users {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Users({:?})", self.0.settings)
    }
}

impl Users {
    /// The users of this machine.
    #[must_use]
    pub fn new(settings: UserSettings) -> Self {
        Self::of(settings, Box::new(System), LOCAL_USER_LOOKUP_WAIT)
    }

    fn of(settings: UserSettings, directory: Box<dyn Directory>, wait: Duration) -> Self {
        Self(Arc::new(Shared {
            settings,
            directory,
            known: Mutex::default(),
            lookup_slots: Arc::new(Semaphore::new(LOCAL_USER_LOOKUPS_MAX)),
            wait,
        }))
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &UserSettings {
        &self.0.settings
    }

    /// Whether this process may act as other users at all.
    #[must_use]
    pub fn can_switch() -> bool {
        // IDs that exist on every system.
        LocalUser::new("nobody", 65_534, 65_534, [1]).is_some_and(|user| can_act_as(&user))
    }

    /// The user that a decision names, or else the default; `None`: the server's own account.
    ///
    /// # Errors
    /// `user_unknown`; `user_refused` below the lowest ID, for the superuser, and if the kernel
    /// does not let the server act as it; `users_unavailable` when the database does not answer in
    /// time.
    pub async fn find(&self, name: Option<&str>) -> Result<Option<Arc<LocalUser>>> {
        let Some(name) = name.or(self.0.settings.default_user.as_deref()) else {
            return Ok(None);
        };
        match self.0.known(name) {
            Some(known) if Instant::now() < known.again => known.user.map(Some),
            Some(Known { user: Ok(user), .. }) => {
                self.refresh(name);
                Ok(Some(user))
            }
            _ => self.look_up(name).await.map(Some),
        }
    }

    /// Refreshes in the background, and not again soon.
    fn refresh(&self, name: &str) {
        self.0.put_off(name);
        let (users, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move { users.look_up(&name).await });
    }

    async fn look_up(&self, name: &str) -> Result<Arc<LocalUser>> {
        let waited = tokio::time::timeout(self.0.wait, self.look_up_in_slot(name)).await;
        waited.unwrap_or_else(|_| Err(refused(ErrorCode::UsersUnavailable, name)))
    }

    async fn look_up_in_slot(&self, name: &str) -> Result<Arc<LocalUser>> {
        let slot = self.0.lookup_slots.clone().acquire_owned().await;
        // Many requests may want the same user; after waiting, look in the cache again.
        if let Some(known) = self.0.known(name).filter(|known| Instant::now() < known.again)
            && known.user.is_ok()
        {
            return known.user;
        }
        let (shared, subject) = (self.0.clone(), name.to_owned());
        let asked = execution::blocking(move || {
            // Held until the database has answered, even if no request waits any longer.
            let _slot = slot;
            shared.ask(&subject)
        });
        let asked = asked.await;
        asked.unwrap_or_else(|failure| Err(refused(ErrorCode::Internal, name).with_private(failure)))
    }
}

impl Shared {
    fn known(&self, name: &str) -> Option<Known> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).cloned()
    }

    fn put_off(&self, name: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get_mut(name) {
            known.again = Instant::now() + LOCAL_USER_RETRY;
        }
    }

    /// Asks the database and caches the answer. A failure is not cached: the old answer stays.
    fn ask(&self, name: &str) -> Result<Arc<LocalUser>> {
        let found = match numbers_in(name) {
            Some((uid, gid)) => Some(UserRecord {
                uid,
                gid,
                groups: Vec::new(),
            }),
            None => self
                .directory
                .look_up(name, self.settings.all_groups)
                .map_err(|cause| refused(ErrorCode::UsersUnavailable, name).with_private(cause))?,
        };
        let user = self.check(name, found);
        self.remember(name, &user);
        user
    }

    fn check(&self, name: &str, found: Option<UserRecord>) -> Result<Arc<LocalUser>> {
        let found = found.ok_or_else(|| refused(ErrorCode::UserUnknown, name))?;
        let refusal = |why: &str| refused(ErrorCode::UserRefused, name).with_private(why);
        if found.uid < self.settings.minimum_uid {
            return Err(refusal("its user ID is below users.minimum_uid"));
        }
        let user = LocalUser::new(name, found.uid, found.gid, found.groups);
        let user = user.ok_or_else(|| refusal("it is the superuser, or in the superuser's group"))?;
        if !self.directory.can_act_as(&user) {
            return Err(refusal("the kernel does not let this process act as it"));
        }
        Ok(Arc::new(user))
    }

    fn remember(&self, name: &str, user: &Result<Arc<LocalUser>>) {
        let lasts = if user.is_ok() {
            LOCAL_USER_REFRESH
        } else {
            LOCAL_USER_RETRY
        };
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= LOCAL_USERS_MAX && !known.contains_key(name) {
            known.retain(|_, known| now < known.again);
        }
        if known.len() >= LOCAL_USERS_MAX {
            known.clear();
        }
        let known_now = Known {
            user: user.clone(),
            again: now + lasts,
        };
        known.insert(name.to_owned(), known_now);
    }
}

fn refused(code: ErrorCode, name: &str) -> Error {
    Error::new(code, Side::Active, Phase::Authorize).with_detail(name)
}

/// `UID:GID`, for users without a name on this machine. User names contain no colon.
fn numbers_in(name: &str) -> Option<(u32, u32)> {
    let (uid, gid) = name.split_once(':')?;
    Some((uid.parse().ok()?, gid.parse().ok()?))
}

/// The system's own databases.
struct System;

impl Directory for System {
    fn look_up(&self, name: &str, all_groups: bool) -> std::io::Result<Option<UserRecord>> {
        let Some(user) = User::from_name(name)? else {
            return Ok(None);
        };
        let groups = match all_groups {
            true => getgrouplist(&CString::new(name)?, user.gid)?,
            false => Vec::new(),
        };
        Ok(Some(UserRecord {
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
        }))
    }

    fn can_act_as(&self, user: &LocalUser) -> bool {
        can_act_as(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    /// Made-up users for tests; a look-up blocks while the gate is closed.
    #[derive(Default)]
    struct MadeUp {
        asked: Arc<AtomicUsize>,
        gate: Mutex<Option<Receiver<()>>>,
    }

    impl Directory for MadeUp {
        fn look_up(&self, name: &str, all_groups: bool) -> std::io::Result<Option<UserRecord>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if let Some(gate) = &*self.gate.lock().unwrap() {
                let _ = gate.recv();
            }
            let found = |uid| UserRecord {
                uid,
                gid: uid,
                groups: if all_groups { vec![7] } else { Vec::new() },
            };
            match name {
                "atlas" => Ok(Some(found(1000))),
                "daemon" => Ok(Some(found(2))),
                "root" => Ok(Some(found(0))),
                "stranger" => Ok(Some(found(3000))),
                "broken" => Err(std::io::Error::other("no answer")),
                _ => Ok(None),
            }
        }

        fn can_act_as(&self, user: &LocalUser) -> bool {
            user.uid() != 3000
        }
    }

    fn settings() -> UserSettings {
        UserSettings {
            minimum_uid: 100,
            default_user: None,
            all_groups: true,
        }
    }

    #[tokio::test]
    async fn each_refused_name_has_its_own_error_code() {
        let users = Users::of(settings(), Box::<MadeUp>::default(), LOCAL_USER_LOOKUP_WAIT);
        let found = users.find(Some("atlas")).await.unwrap().unwrap();
        assert_eq!((found.uid(), found.groups()), (1000, &[7][..]));
        assert!(users.find(None).await.unwrap().is_none());
        for (name, code) in [
            ("nobody-such", ErrorCode::UserUnknown),
            ("daemon", ErrorCode::UserRefused),
            ("root", ErrorCode::UserRefused),
            ("stranger", ErrorCode::UserRefused),
            ("broken", ErrorCode::UsersUnavailable),
            ("7:1000", ErrorCode::UserRefused),
            ("1000:0", ErrorCode::UserRefused),
            ("1000:", ErrorCode::UserUnknown),
        ] {
            let error = users.find(Some(name)).await.unwrap_err();
            assert_eq!(error.code(), code, "{name}");
            assert!(error.public().contains(name), "{}", error.public());
        }
        let by_number = users.find(Some("2000:3001")).await.unwrap().unwrap();
        assert_eq!((by_number.uid(), by_number.gid()), (2000, 3001));
    }

    #[tokio::test]
    async fn an_unmapped_client_is_the_default_user() {
        let default = UserSettings {
            default_user: Some("atlas".to_owned()),
            all_groups: false,
            ..settings()
        };
        let users = Users::of(default, Box::<MadeUp>::default(), LOCAL_USER_LOOKUP_WAIT);
        let found = users.find(None).await.unwrap().unwrap();
        assert_eq!((found.uid(), found.groups()), (1000, &[][..]));
    }

    #[tokio::test]
    async fn a_hanging_database_does_not_block_requests_and_cached_users_stay() {
        let (open, gate) = channel();
        let made_up = MadeUp::default();
        let asked = made_up.asked.clone();
        *made_up.gate.lock().unwrap() = Some(gate);
        open.send(()).unwrap();
        let users = Users::of(settings(), Box::new(made_up), Duration::from_millis(100));
        users.find(Some("atlas")).await.unwrap();
        // Cached: the database is not asked.
        users.find(Some("atlas")).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        users.0.known.lock().unwrap().get_mut("atlas").unwrap().again = Instant::now();
        assert_eq!(users.find(Some("atlas")).await.unwrap().unwrap().uid(), 1000);
        let error = users.find(Some("other")).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::UsersUnavailable);
        drop(open);
    }

    #[tokio::test]
    async fn many_requests_cause_one_look_up() {
        let made_up = MadeUp::default();
        let asked = made_up.asked.clone();
        let users = Users::of(settings(), Box::new(made_up), LOCAL_USER_LOOKUP_WAIT);
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let users = users.clone();
            waiting.spawn(async move { users.find(Some("atlas")).await.unwrap() });
        }
        assert_eq!(waiting.join_all().await.len(), 200);
        assert!(asked.load(Ordering::Relaxed) <= LOCAL_USER_LOOKUPS_MAX);
    }
}
