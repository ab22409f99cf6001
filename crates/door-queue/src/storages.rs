//! The settings of storages. A storage has one name, whatever its scheme: the latest one.

use std::collections::{BTreeMap, HashMap};

use catalog::StorageSettings;
use schedule::storage::authority;

/// All settings of storages while they are changed.
pub(crate) struct Storages<'s> {
    all: &'s mut BTreeMap<String, StorageSettings>,
    names: HashMap<String, String>,
}

impl<'s> Storages<'s> {
    pub(crate) fn new(all: &'s mut BTreeMap<String, StorageSettings>) -> Self {
        let names = all.keys().map(|name| (authority(name).to_owned(), name.clone()));
        Self {
            names: names.collect(),
            all,
        }
    }

    /// Takes the settings of a storage out, under whatever scheme they stand.
    pub(crate) fn take(&mut self, storage: &str) -> Option<StorageSettings> {
        let exact = self.all.remove(storage);
        let other = self.names.remove(authority(storage));
        let other = other.and_then(|name| self.all.remove(&name));
        exact.or(other)
    }

    /// Puts the settings of a storage in. It was taken before.
    pub(crate) fn put(&mut self, storage: &str, own: StorageSettings) {
        self.names.insert(authority(storage).to_owned(), storage.to_owned());
        self.all.insert(storage.to_owned(), own);
    }
}
