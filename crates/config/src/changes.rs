//! The changes between two configurations, and what they require. Each key declares how it reloads.

use std::path::PathBuf;

use crate::section::{KeyPath, Purpose, Reload};
use crate::{NamedFile, Sections};

/// What changed with a reload.
pub struct Changes {
    /// Keys whose value changed.
    keys: Vec<KeyPath>,
    /// Named files whose content changed.
    files: Vec<NamedFile>,
}

impl Changes {
    /// Compares two configurations. `touched` lists the files whose content changed in the
    /// meantime.
    pub fn new<C: Sections>(old: &C, fresh: &C, touched: &[PathBuf]) -> Self {
        let named = fresh.files().into_iter();
        Self {
            keys: fresh.changed(old),
            files: named.filter(|file| touched.contains(&file.path)).collect(),
        }
    }

    /// The keys whose new value needs a restart.
    pub fn ignored(&self) -> impl Iterator<Item = &KeyPath> {
        self.keys
            .iter()
            .filter(|place| place.key.facts.reload == Reload::Restart)
    }

    /// Whether a key of this section, or a file that one names, has changed.
    pub fn concern(&self, section: &str) -> bool {
        self.places().any(|place| place.section == section)
    }

    /// The keys that have changed, and those that name files that have.
    pub fn places(&self) -> impl Iterator<Item = &KeyPath> {
        self.keys.iter().chain(self.files.iter().map(|file| &file.place))
    }

    /// Whether connections need a new door: a key that a door keeps has changed, or the secret in a
    /// file that such a key names.
    pub fn need_new_door(&self) -> bool {
        let of_door = |place: &KeyPath| place.key.facts.reload == Reload::NewDoor;
        let is_secret = |file: &&NamedFile| matches!(file.purpose, Purpose::Secret | Purpose::SealingKey);
        let secrets = self.files.iter().filter(is_secret);
        self.keys.iter().any(of_door) || secrets.map(|file| &file.place).any(of_door)
    }
}
