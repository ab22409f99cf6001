//! What decisions need beside the queues: the settings of operators, and the links that are held.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use catalog::{
    Ban, Catalog, FileRecord, LinkSettings, Named, NewJob, Problem, SettingKind, StorageSettings, ThirdPartyRole,
    VoSettings,
};
use schedule::optimizer::{End, Link};
use schedule::scheduler::ShareUnit;
use schedule::storage::{authority, host};
use transfer::RateLimit;
use types::Result;

use super::rates::Rates;
use super::{CopyBounds, CopyLimits, Roles, Settings, link};

/// The name of settings for all that have no own.
const ALL: &str = "*";
/// The activity of files that have none; as FTS.
pub(super) const DEFAULT_ACTIVITY: &str = "default";
/// Operators set throughput in MiB/s.
const BYTES_PER_MIB: f64 = 1_048_576.0;

const HOUR_MS: i64 = 3_600_000;

/// Why a link waits.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) until_ms: i64,
    /// Without what is about the file that failed.
    pub(super) problem: Problem,
    /// The whole reason, for operators.
    pub(super) detail: String,
}

/// The settings in memory, and what happened lately. Names of storages are without scheme.
#[derive(Debug)]
pub(super) struct Outlook {
    storages: BTreeMap<String, StorageSettings>,
    /// By source, then by destination.
    links: HashMap<String, HashMap<String, LinkSettings>>,
    vos: BTreeMap<String, VoSettings>,
    bans: HashMap<String, Vec<Ban>>,
    pub(super) share_unit: ShareUnit,
    storage_copies: u32,
    link_copies: u32,
    link_copies_minimum: u32,
    holds: HashMap<Link, Hold>,
    rate_limits: Rates,
    /// Processes among which limits in bytes per second are divided.
    workers: u32,
    bounds: CopyBounds,
    /// Of the configuration.
    roles: HashMap<String, ThirdPartyRole>,
}

fn named_roles(settings: &Settings) -> HashMap<String, ThirdPartyRole> {
    let named = settings.roles.iter();
    named.map(|(name, role)| (authority(name).to_owned(), *role)).collect()
}

impl Outlook {
    pub(super) async fn read(catalog: &Catalog, settings: &Settings) -> Result<Self> {
        let mut this = Self::new(settings);
        for Named { name, value } in catalog.settings(SettingKind::Storage).await? {
            this.add_storage(&name, value);
        }
        for Named { name, value } in catalog.settings(SettingKind::Vo).await? {
            this.add_vo(name, value);
        }
        for Named { value, .. } in catalog.settings(SettingKind::Link).await? {
            this.add_link(value);
        }
        for Named { value, .. } in catalog.settings(SettingKind::Ban).await? {
            this.add_ban(value);
        }
        Ok(this)
    }

    /// Without settings of operators.
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            storages: BTreeMap::new(),
            links: HashMap::new(),
            vos: BTreeMap::new(),
            bans: HashMap::new(),
            share_unit: settings.share_unit,
            storage_copies: settings.storage_copies,
            link_copies: settings.link_copies,
            link_copies_minimum: settings.link_copies_minimum,
            holds: HashMap::new(),
            rate_limits: Rates::default(),
            workers: 1,
            bounds: settings.bounds,
            roles: named_roles(settings),
        }
    }

    pub(super) fn add_storage(&mut self, name: &str, settings: StorageSettings) {
        self.storages.insert(authority(name).to_owned(), settings);
    }

    pub(super) fn add_vo(&mut self, name: String, settings: VoSettings) {
        self.vos.insert(name, settings);
    }

    pub(super) fn add_link(&mut self, link: LinkSettings) {
        let of_source = self.links.entry(authority(&link.source).to_owned()).or_default();
        of_source.insert(authority(&link.destination).to_owned(), link);
    }

    fn add_ban(&mut self, ban: Ban) {
        let of_storage = self.bans.entry(authority(&ban.storage).to_owned()).or_default();
        of_storage.push(ban);
    }

    /// Takes the settings, and keeps the rest.
    pub(super) fn replace_settings(&mut self, fresh: Self) {
        self.storages = fresh.storages;
        self.links = fresh.links;
        self.vos = fresh.vos;
        self.bans = fresh.bans;
        self.take_rates();
    }

    /// Divides limits in bytes per second among so many processes.
    pub(super) fn divide_rates(&mut self, workers: u32) {
        let workers = workers.max(1);
        if std::mem::replace(&mut self.workers, workers) != workers {
            self.take_rates();
        }
    }

    /// Gives copies that run the rates that hold now.
    fn take_rates(&mut self) {
        let mut limits = std::mem::take(&mut self.rate_limits);
        limits.take(|name, end| self.rate(name, end));
        self.rate_limits = limits;
    }

    /// A link waits from now on.
    pub(super) fn hold(&mut self, link: Link, hold: Hold) {
        self.holds.insert(link, hold);
    }

    /// Forgets holds that have ended.
    pub(super) fn release(&mut self, now_ms: i64) {
        self.holds.retain(|_, hold| hold.until_ms > now_ms);
    }

    /// Ends all holds: the clock was set back.
    pub(super) fn release_all(&mut self) {
        self.holds.clear();
    }

    /// Why a link waits.
    pub(super) fn held(&self, link: &Link) -> Option<&Hold> {
        self.holds.get(link)
    }

    /// The ban of a storage for a virtual organisation.
    pub(super) fn ban(&self, storage: &str, vo: &str) -> Option<&Ban> {
        let bans = [authority(storage), host(storage)]
            .into_iter()
            .filter_map(|name| self.bans.get(name));
        bans.flatten()
            .find(|ban| matches!(ban.vo.as_str(), "" | ALL) || ban.vo == vo)
    }

    /// What operators say of the copy of a file, apart from its rate limits.
    pub(super) fn roles(&self, file: &FileRecord) -> Roles {
        let role = |storage: &str| self.role(storage).unwrap_or_default();
        let link = link::of_file(file);
        Roles {
            source: role(&file.source_storage),
            destination: role(&file.destination_storage),
            refuses_disk_overwrite: {
                let mut settings = self.storage(&file.destination_storage);
                settings.find_map(|settings| settings.overwrite_disk_enabled) == Some(false)
            },
            limits: self.copy_limits(&file.vo),
            streams: self.link_streams(&link),
            never_delegates: self.link_settings(&link).any(|settings| settings.no_delegation),
            rates: Vec::new(),
            hop: None,
        }
    }

    /// What operators say of a storage: by the API, else in the configuration.
    pub(super) fn role(&self, storage: &str) -> Option<ThirdPartyRole> {
        let set = self.storage(storage).find_map(|settings| settings.third_party);
        let named = [authority(storage), host(storage), ALL].into_iter();
        set.or_else(|| named.filter_map(|name| self.roles.get(name)).next().copied())
    }

    fn copy_limits(&self, vo: &str) -> CopyLimits {
        let seconds = self.vo(vo).find_map(|settings| settings.global_timeout);
        let per_mib = self.vo(vo).find_map(|settings| settings.sec_per_mb);
        CopyLimits {
            // As with FTS, 0 is no limit of its own.
            time: seconds
                .filter(|seconds| *seconds > 0)
                .map(|seconds| Duration::from_secs(seconds.into())),
            time_per_mib: per_mib
                .filter(|seconds| *seconds > 0.0)
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            never_streams: self.vo(vo).find_map(|settings| settings.no_streaming) == Some(true),
            bounds: self.bounds,
        }
    }

    /// The settings of a storage: those of its port, its host, or all.
    fn storage(&self, name: &str) -> impl Iterator<Item = &StorageSettings> {
        let names = [authority(name), host(name), ALL];
        names.into_iter().filter_map(|name| self.storages.get(name))
    }

    /// Copies out of a storage. A limit for the whole host stands for one of its own.
    pub(super) fn outbound(&self, storage: &str) -> u32 {
        self.limit(storage, |settings| settings.outbound_max_active)
    }

    /// Copies into a storage. A limit for the whole host stands for one of its own.
    pub(super) fn inbound(&self, storage: &str) -> u32 {
        self.limit(storage, |settings| settings.inbound_max_active)
    }

    fn limit(&self, storage: &str, of: impl Fn(&StorageSettings) -> Option<u32>) -> u32 {
        let set = |name: &str| self.storages.get(name).and_then(&of);
        let of_host = || set(host(storage)).map(|_| u32::MAX);
        let own = set(authority(storage)).or_else(of_host).or_else(|| set(ALL));
        own.unwrap_or(self.storage_copies)
    }

    /// Copies out of a host, on all its ports.
    pub(super) fn host_outbound(&self, storage: &str) -> Option<u32> {
        self.storages.get(host(storage))?.outbound_max_active
    }

    /// Copies into a host, on all its ports.
    pub(super) fn host_inbound(&self, storage: &str) -> Option<u32> {
        self.storages.get(host(storage))?.inbound_max_active
    }

    /// Bytes per second into and out of a storage, at most.
    pub(super) fn goodput_max(&self, storage: &str, end: End) -> Option<f64> {
        let set = self.storage(storage).find_map(|settings| match end {
            End::Source => settings.outbound_max_throughput,
            End::Destination => settings.inbound_max_throughput,
        });
        set.filter(|mib| *mib > 0.0).map(|mib| self.own_part(mib))
    }

    /// Bytes per second under this name alone: of a port, or of a host with all its ports. The
    /// settings of all stand for ports without any of their own.
    fn rate(&self, name: &str, end: End) -> Option<u64> {
        let set = |name: &str| {
            let settings = self.storages.get(name)?;
            let mib = match end {
                End::Source => settings.outbound_max_throughput,
                End::Destination => settings.inbound_max_throughput,
            };
            mib.filter(|mib| *mib > 0.0)
        };
        let of_all = || {
            let is_port = host(name) != name && set(host(name)).is_none();
            is_port.then(|| set(ALL)).flatten()
        };
        set(name).or_else(of_all).map(|mib| self.own_part(mib).max(1.0) as u64)
    }

    /// The part of this process, in bytes per second.
    fn own_part(&self, mib: f64) -> f64 {
        mib * BYTES_PER_MIB / f64::from(self.workers)
    }

    /// The rate limits of a copy at both ends: for the port, and for all ports of the host
    /// together. Without a setting they hold nothing back, and do as soon as there is one.
    pub(super) fn rates(&mut self, source: &str, destination: &str) -> Vec<RateLimit> {
        let ends = [(source, End::Source), (destination, End::Destination)];
        let mut limits = Vec::with_capacity(2 * ends.len());
        for (storage, end) in ends {
            for name in [authority(storage), host(storage)] {
                let bytes_s = self.rate(name, end);
                limits.push(self.rate_limits.limit(name, end, bytes_s));
            }
        }
        limits
    }

    /// The settings that a link has, the most exact first. The source counts before the
    /// destination.
    fn link_settings(&self, link: &Link) -> impl Iterator<Item = &LinkSettings> {
        let names = |storage| [authority(storage), host(storage), ALL];
        let of_sources = names(link.source.as_str())
            .into_iter()
            .filter_map(|name| self.links.get(name));
        of_sources.flat_map(move |of_source| {
            let destinations = names(link.destination.as_str()).into_iter();
            destinations.filter_map(|name| of_source.get(name))
        })
    }

    /// Whether operators have paused a link, by its name or with others.
    pub(super) fn is_paused(&self, link: &Link) -> bool {
        self.link_settings(link).any(|settings| settings.is_paused)
    }

    /// Whether files of a link may start.
    pub(super) fn is_open(&self, link: &Link) -> bool {
        !self.holds.contains_key(link) && !self.is_paused(link)
    }

    /// Copies on a link at most, whether it is held or not: each number is that of the most exact
    /// settings that have one.
    pub(super) fn link_max(&self, link: &Link) -> u32 {
        let set = self.link_settings(link).find_map(|settings| settings.max_active);
        set.unwrap_or(self.link_copies)
    }

    /// Streams of each copy on a link. As with FTS, 0 says nothing.
    fn link_streams(&self, link: &Link) -> Option<u16> {
        let mut set = self.link_settings(link).filter_map(|settings| settings.streams);
        set.find(|count| *count > 0)
    }

    /// Whether the number of copies on a link is what operators say, and not the optimizer's: FTS's
    /// mode 0 with a limit.
    fn is_fixed(&self, link: &Link) -> bool {
        let mode = self.link_settings(link).find_map(|settings| settings.optimizer_mode);
        mode == Some(0) && self.link_settings(link).any(|settings| settings.max_active.is_some())
    }

    /// Copies on a link at least, while files wait.
    pub(super) fn link_min(&self, link: &Link) -> u32 {
        if self.is_fixed(link) {
            return self.link_max(link);
        }
        let set = self.link_settings(link).find_map(|settings| settings.min_active);
        set.unwrap_or(self.link_copies_minimum)
    }

    /// The settings of a virtual organisation: its own, then those of all.
    fn vo(&self, name: &str) -> impl Iterator<Item = &VoSettings> {
        [name, ALL].into_iter().filter_map(|name| self.vos.get(name))
    }

    /// What operators say of the jobs of a virtual organisation goes into a new job that says
    /// nothing of it. As with FTS, 0 says nothing.
    pub(super) fn fill_in(&self, job: &mut NewJob) {
        let vo = job.owner.vo.clone();
        let mut retries = self.vo(&vo).filter_map(|settings| settings.retry);
        job.options.retries = job.options.retries.or_else(|| retries.find(|count| *count > 0));
        let mut hours = self.vo(&vo).filter_map(|settings| settings.max_time_queue);
        let wait_ms = hours.find(|hours| *hours > 0).map(|hours| i64::from(hours) * HOUR_MS);
        let expires_ms = wait_ms.map(|wait_ms| job.submitted_ms.saturating_add(wait_ms));
        job.expires_ms = job.expires_ms.or(expires_ms);
    }

    /// Copies of a virtual organisation at once.
    pub(super) fn vo_max(&self, vo: &str) -> Option<u32> {
        self.vo(vo).find_map(|settings| settings.max_active)
    }

    /// The share of a virtual organisation on a link, relative to the others there.
    pub(super) fn vo_share(&self, link: &Link, vo: &str) -> f64 {
        let with_shares = self.link_settings(link).find(|settings| !settings.shares.is_empty());
        let of_link = with_shares.and_then(|settings| settings.shares.get(vo)).copied();
        of_link
            .or_else(|| self.vo(vo).find_map(|settings| settings.share))
            .unwrap_or(1.0)
    }

    /// The share of an activity in its virtual organisation. One that is not named has the share
    /// of `default`, or if that is not named, the smallest.
    pub(super) fn activity_share(&self, vo: &str, activity: &str) -> f64 {
        let Some(shares) = self.activity_shares(vo) else {
            return 1.0;
        };
        let set = shares.get(activity).or_else(|| shares.get(DEFAULT_ACTIVITY)).copied();
        set.unwrap_or_else(|| shares.values().copied().fold(f64::INFINITY, f64::min))
    }

    /// The activity whose share an activity has: those that are not named have one together, so
    /// that inventing names gives no user more.
    pub(super) fn activity_group<'a>(&self, vo: &str, activity: &'a str) -> &'a str {
        let is_named = self
            .activity_shares(vo)
            .is_some_and(|shares| shares.contains_key(activity));
        if is_named { activity } else { DEFAULT_ACTIVITY }
    }

    /// Activities with a share of their own.
    pub(super) fn named_activities(&self, vo: &str) -> BTreeSet<String> {
        let shares = self.activity_shares(vo).into_iter().flatten();
        shares.map(|(activity, _)| activity.clone()).collect()
    }

    /// The shares of activities that hold in a virtual organisation.
    fn activity_shares(&self, vo: &str) -> Option<&BTreeMap<String, f64>> {
        let mut with_shares = self.vo(vo).filter(|settings| !settings.activity_shares.is_empty());
        let settings = with_shares.next()?;
        let are_on = settings.activity_shares_active != Some(false);
        are_on.then_some(&settings.activity_shares)
    }
}
