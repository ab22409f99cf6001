//! Remembers who uploaded which file recently: a client that may only create files may rename its
//! own uploads to their final names, as clients do that upload under a temporary name.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::OWN_UPLOADS_MAX;
use credentials::Credential;
use types::{LogicalPath, Result};

/// The latest uploads of clients that may not delete them. Clones share them. The oldest beyond
/// [`OWN_UPLOADS_MAX`] are forgotten, and all of them with the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnUploads(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    by_path: HashMap<LogicalPath, Upload>,
    order: VecDeque<LogicalPath>,
}

#[derive(Debug)]
struct Upload {
    holder: String,
    inode: u64,
}

impl OwnUploads {
    /// Records an upload of a holder, see [`holder_of`].
    pub(crate) fn note(&self, path: &LogicalPath, holder: String, inode: u64) {
        let upload = Upload { holder, inode };
        let mut known = self.known();
        if known.by_path.insert(path.clone(), upload).is_none() {
            known.order.push_back(path.clone());
        }
        while known.order.len() > OWN_UPLOADS_MAX {
            if let Some(oldest) = known.order.pop_front() {
                known.by_path.remove(&oldest);
            }
        }
    }

    pub(crate) fn is_own(&self, credential: &Result<Arc<Credential>>, path: &LogicalPath, inode: u64) -> bool {
        let known = self.known();
        let upload = known.by_path.get(path);
        upload.is_some_and(|upload| upload.inode == inode && holder_of(credential).as_ref() == Some(&upload.holder))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The identity of a holder: two tokens for the same subject are one. Anonymous clients own
/// nothing.
pub(crate) fn holder_of(credential: &Result<Arc<Credential>>) -> Option<String> {
    let identity = credential.as_ref().ok()?.identity();
    let name = match (identity.subject, identity.token_id) {
        (Some(subject), _) => format!("subject {subject}"),
        (None, Some(id)) => format!("token {id}"),
        (None, None) => return None,
    };
    Some(format!("{} {name}", identity.issuer.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_uploads_are_forgotten() {
        let uploads = OwnUploads::default();
        let path = |number: usize| LogicalPath::parse(&format!("/f{number}")).unwrap();
        for number in 0..=OWN_UPLOADS_MAX {
            for inode in 0..2 {
                let holder = "ann".to_owned();
                uploads.note(&path(number), holder, inode);
            }
        }
        let known = uploads.known();
        assert_eq!(
            (known.by_path.len(), known.order.len()),
            (OWN_UPLOADS_MAX, OWN_UPLOADS_MAX)
        );
        assert!(!known.by_path.contains_key(&path(0)));
        assert_eq!(known.by_path[&path(1)].inode, 1);
    }
}
