//! What decisions need beside the queues: the settings of operators, and the links that are held.

use std::collections::{BTreeMap, HashMap};

use catalog::{Catalog, FileRecord, LinkSettings, Named, Problem, SettingKind, StorageSettings};
use types::Result;

use super::turns::{Limits, Link};
use super::{Roles, Settings};

/// Why a link waits.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) until_ms: i64,
    pub(super) problem: Problem,
}

/// The settings in memory, and what happened lately.
pub(super) struct Outlook {
    storages: BTreeMap<String, StorageSettings>,
    links: Vec<LinkSettings>,
    storage_copies: u32,
    link_copies: u32,
    link_copies_minimum: u32,
    holds: HashMap<Link, Hold>,
    /// The link that had the last turn.
    pub(super) last: Option<Link>,
}

impl Outlook {
    pub(super) async fn read(catalog: &Catalog, settings: &Settings) -> Result<Self> {
        Ok(Self {
            storages: named(catalog.settings(SettingKind::Storage).await?),
            links: values(catalog.settings(SettingKind::Link).await?),
            storage_copies: settings.storage_copies,
            link_copies: settings.link_copies,
            link_copies_minimum: settings.link_copies_minimum,
            holds: HashMap::new(),
            last: None,
        })
    }

    /// Takes the settings, and keeps the rest.
    pub(super) fn replace_settings(&mut self, fresh: Self) {
        self.storages = fresh.storages;
        self.links = fresh.links;
    }

    /// A link waits from now on.
    pub(super) fn hold(&mut self, link: Link, hold: Hold) {
        self.holds.insert(link, hold);
    }

    /// Forgets holds that have ended. Returns when the next one ends.
    pub(super) fn release(&mut self, now_ms: i64) -> Option<i64> {
        self.holds.retain(|_, hold| hold.until_ms > now_ms);
        self.holds.values().map(|hold| hold.until_ms).min()
    }

    /// Why a link waits.
    pub(super) fn held(&self, link: &Link) -> Option<&Hold> {
        self.holds.get(link)
    }

    /// What operators say of both ends of a file.
    pub(super) fn roles(&self, file: &FileRecord) -> Roles {
        let role = |storage: &str| {
            let set = self.storage(storage).find_map(|settings| settings.third_party);
            set.unwrap_or_default()
        };
        Roles {
            source: role(&file.source_storage),
            destination: role(&file.destination_storage),
        }
    }

    /// The settings of a storage: by its name, its name without port, or those of all.
    fn storage(&self, name: &str) -> impl Iterator<Item = &StorageSettings> {
        let without_port = name.rsplit_once(':').map_or(name, |(host, _)| host);
        let names = [name, without_port, "*"];
        names.into_iter().filter_map(|name| self.storages.get(name))
    }

    /// The settings of a link: the most exact that there are.
    pub(super) fn link_settings(&self, link: &Link) -> Option<&LinkSettings> {
        let fit = self.links.iter().filter_map(|settings| {
            let source = exactness(&settings.source, &link.source)?;
            let destination = exactness(&settings.destination, &link.destination)?;
            Some((source + destination, settings))
        });
        fit.max_by_key(|(exactness, _)| *exactness)
            .map(|(_, settings)| settings)
    }
}

fn named<T>(settings: Vec<Named<T>>) -> BTreeMap<String, T> {
    settings
        .into_iter()
        .map(|setting| (setting.name, setting.value))
        .collect()
}

fn values<T>(settings: Vec<Named<T>>) -> Vec<T> {
    settings.into_iter().map(|setting| setting.value).collect()
}

/// How exactly a setting names a storage; `None`: not at all.
fn exactness(named: &str, storage: &str) -> Option<u8> {
    let without_port = storage.rsplit_once(':').map_or(storage, |(host, _)| host);
    match named {
        "*" => Some(0),
        _ if named == without_port => Some(1),
        _ if named == storage => Some(2),
        _ => None,
    }
}

impl Limits for Outlook {
    fn outbound(&self, storage: &str) -> u32 {
        let set = self.storage(storage).find_map(|settings| settings.outbound_max_active);
        set.unwrap_or(self.storage_copies)
    }

    fn inbound(&self, storage: &str) -> u32 {
        let set = self.storage(storage).find_map(|settings| settings.inbound_max_active);
        set.unwrap_or(self.storage_copies)
    }

    fn link(&self, link: &Link) -> u32 {
        let settings = self.link_settings(link);
        if self.holds.contains_key(link) || settings.is_some_and(|settings| settings.is_paused) {
            return 0;
        }
        settings
            .and_then(|settings| settings.max_active)
            .unwrap_or(self.link_copies)
    }

    fn link_minimum(&self, link: &Link) -> u32 {
        let set = self.link_settings(link).and_then(|settings| settings.min_active);
        set.unwrap_or(self.link_copies_minimum)
    }
}
