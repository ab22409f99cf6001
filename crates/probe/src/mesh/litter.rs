//! What a run has made, and must be gone at its end.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use remote::Resource;

/// The files that a run has made, by their URLs.
#[derive(Default)]
pub(super) struct Litter(Mutex<BTreeMap<String, Left>>);

/// A file that may be there.
#[derive(Clone)]
pub(super) struct Left {
    pub(super) file: Resource,
    /// The position of the endpoint.
    pub(super) endpoint: usize,
    /// It is known to be there.
    pub(super) is_there: bool,
}

impl Litter {
    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file is about to be made.
    pub(super) fn will_make(&self, endpoint: usize, file: &Resource) {
        let left = Left {
            file: file.clone(),
            endpoint,
            is_there: false,
        };
        self.files().insert(file.location.to_wire(), left);
    }

    /// It was made.
    pub(super) fn has_made(&self, file: &Resource) {
        if let Some(left) = self.files().get_mut(&file.location.to_wire()) {
            left.is_there = true;
        }
    }

    /// It is gone.
    pub(super) fn has_removed(&self, file: &Resource) {
        self.files().remove(&file.location.to_wire());
    }

    /// Everything that may be there.
    pub(super) fn take(&self) -> Vec<Left> {
        std::mem::take(&mut *self.files()).into_values().collect()
    }
}
