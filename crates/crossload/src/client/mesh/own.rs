//! Which mesh it is: with this state directory and this file of endpoints, for this user on this
//! machine. Only one run of it at a time, so that a run knows which files killed ones left.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use probe::mesh::Mark;
use storage::Hasher;
use types::ChecksumAlgorithm;

use crate::failure::Failure;
use crate::output;
use crate::remotes::state_directory;

/// Random bytes in the name of a state directory.
const IDENTITY_BYTES: usize = 16;

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
        match locked(file) {
            Ok((id, lock)) => Ok(Self { id, lock: Some(lock) }),
            Err(TryLockError::WouldBlock) => {
                let words = format!("another process runs the mesh of {}", file.display());
                Err(Failure::invalid(words))
            }
            Err(TryLockError::Error(cause)) => {
                output::complain(&format!(
                    "files that an interrupted run left are not removed: no lock in the state directory: {cause}"
                ));
                // No other run takes files with this number for its own.
                let mut number = [0; 8];
                let _ = aws_lc_rs::rand::fill(&mut number);
                Ok(Self {
                    id: u64::from_be_bytes(number),
                    lock: None,
                })
            }
        }
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

/// The number of a mesh, and its lock. Both are of the state directory: runs with other ones have
/// other numbers, as in two containers on one machine, since their locks do not meet.
fn locked(file: &Path) -> Result<(u64, File), TryLockError> {
    let missing = || std::io::Error::new(ErrorKind::NotFound, "neither XDG_STATE_HOME nor HOME is set");
    let state = state_directory().ok_or_else(missing).map_err(TryLockError::Error)?;
    let directory = state.join("mesh");
    std::fs::create_dir_all(&directory).map_err(TryLockError::Error)?;
    let identity = identity_of(&directory).map_err(TryLockError::Error)?;
    let id = id_of(&identity, file);
    let opened = File::create(directory.join(format!("{id:016x}.lock")));
    let lock = opened.map_err(TryLockError::Error)?;
    lock.try_lock()?;
    Ok((id, lock))
}

/// The random name of a state directory, made at its first use.
fn identity_of(directory: &Path) -> std::io::Result<String> {
    let path = directory.join("identity");
    if let Some(known) = read_identity(&path)? {
        return Ok(known);
    }
    let mut random = [0; IDENTITY_BYTES];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| std::io::Error::other("no random numbers"))?;
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    for byte in random {
        write!(new, "{byte:02x}")?;
    }
    new.as_file().sync_all()?;
    // Another process may be first: then its name counts.
    match new.persist_noclobber(&path) {
        Ok(_) => {}
        Err(refused) if refused.error.kind() == ErrorKind::AlreadyExists => {}
        Err(refused) => return Err(refused.error),
    }
    read_identity(&path)?.ok_or_else(|| ErrorKind::NotFound.into())
}

fn read_identity(path: &Path) -> std::io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) if text.len() == IDENTITY_BYTES * 2 => Ok(Some(text)),
        Ok(_) => Err(std::io::Error::new(
            ErrorKind::InvalidData,
            format!("{} is damaged: remove it", path.display()),
        )),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// A number that is the same for each run of the same file by the same user on the same machine
/// with the same state directory.
fn id_of(identity: &str, file: &Path) -> u64 {
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
    hasher.update(format!("{identity}\n{}\n{user}\n{}", machine.trim(), file.display()).as_bytes());
    let sums = hasher.finish();
    let bytes = sums.first().and_then(|sum| sum.value().first_chunk::<8>().copied());
    u64::from_be_bytes(bytes.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_file_and_state_directory_are_the_same_mesh() {
        let (one, other) = (Path::new("/one/mesh.toml"), Path::new("/other/mesh.toml"));
        let states = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, second] = states.each_ref().map(|state| identity_of(state.path()).unwrap());
        assert_eq!(identity_of(states[0].path()).unwrap(), first);
        assert_eq!(id_of(&first, one), id_of(&first, one));
        assert_ne!(id_of(&first, one), id_of(&first, other));
        assert_ne!(id_of(&first, one), id_of(&second, one));
    }

    #[test]
    fn a_damaged_identity_is_replaced_by_no_other() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join("identity"), "half").unwrap();
        assert!(identity_of(state.path()).unwrap_err().to_string().contains("remove it"));
    }
}
