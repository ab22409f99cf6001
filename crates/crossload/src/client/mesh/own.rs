//! Which mesh it is: on this machine, for this user, with this file of endpoints. Only one run of
//! it at a time, so that a run knows which files killed ones left.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use probe::mesh::Mark;
use storage::Hasher;
use types::ChecksumAlgorithm;

use crate::failure::Failure;
use crate::output;
use crate::remotes::state_directory;

/// The identity of a mesh while this process runs it.
pub(super) struct OwnMesh {
    id: u64,
    /// Held until the process ends; `None`: there is no place for it.
    lock: Option<File>,
}

impl OwnMesh {
    /// Takes the lock of the mesh of a file of endpoints.
    ///
    /// # Errors
    /// Another process runs it.
    pub(super) fn take(file: &Path) -> Result<Self, Failure> {
        let id = id_of(file);
        let lock = match lock(id) {
            Ok(lock) => Some(lock),
            Err(TryLockError::WouldBlock) => {
                let words = format!("another process runs the mesh of {}", file.display());
                return Err(Failure::invalid(words));
            }
            Err(TryLockError::Error(cause)) => {
                output::complain(&format!(
                    "files that an interrupted run left are not removed: no lock in the state directory: {cause}"
                ));
                None
            }
        };
        Ok(Self { id, lock })
    }

    /// The mark of a run that begins now.
    pub(super) fn mark(&self) -> Mark {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Mark {
            mesh: self.id,
            started_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Whether no other run of this mesh can be under way.
    pub(super) fn is_alone(&self) -> bool {
        self.lock.is_some()
    }
}

/// A number that is the same for each run of the same file by the same user on the same machine.
fn id_of(file: &Path) -> u64 {
    let machine = ["/etc/machine-id", "/proc/sys/kernel/hostname"]
        .iter()
        .find_map(|file| {
            std::fs::read_to_string(file)
                .ok()
                .filter(|text| !text.trim().is_empty())
        })
        .unwrap_or_default();
    let user = rustix::process::geteuid().as_raw();
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let mut hasher = Hasher::new(&[ChecksumAlgorithm::Sha256]);
    hasher.update(format!("{}\n{user}\n{}", machine.trim(), file.display()).as_bytes());
    let sums = hasher.finish();
    let bytes = sums.first().and_then(|sum| sum.value().first_chunk::<8>().copied());
    u64::from_be_bytes(bytes.unwrap_or_default())
}

fn lock(id: u64) -> Result<File, TryLockError> {
    let missing = || std::io::Error::new(std::io::ErrorKind::NotFound, "neither XDG_STATE_HOME nor HOME is set");
    let directory = state_directory().ok_or_else(missing).map_err(TryLockError::Error)?;
    let directory = directory.join("mesh");
    std::fs::create_dir_all(&directory).map_err(TryLockError::Error)?;
    let opened = File::create(directory.join(format!("{id:016x}.lock")));
    let file = opened.map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_file_is_the_same_mesh() {
        let (one, other) = (Path::new("/one/mesh.toml"), Path::new("/other/mesh.toml"));
        assert_eq!(id_of(one), id_of(one));
        assert_ne!(id_of(one), id_of(other));
    }
}
