//! The key that seals the credentials in the database: all processes of a database have the same,
//! and it comes back with the database from a backup.

use std::path::Path;

use catalog::Catalog;
use queue::Vault;

use super::state::State;
use crate::failure::Failure;
use crate::server::secret;

/// What is wrong with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyFault {
    /// There is no key, but a database.
    Missing,
    /// The database's credentials were sealed with another one.
    Other,
}

impl KeyFault {
    /// What is wrong.
    pub(crate) fn says(self, file: &Path, database: &str) -> String {
        let file = file.display();
        match self {
            Self::Missing => {
                format!("key {file}: it is missing, and the credentials in {database} were sealed with it")
            }
            Self::Other => format!("key {file}: the credentials in {database} were sealed with another key"),
        }
    }

    /// What helps.
    pub(crate) const fn change(self) -> &'static str {
        "put the key there with which this database was used: its copy beside the backup, or the key_file of its \
         other processes. If it is lost, start once with --new-key: the credentials in the database are then deleted"
    }
}

/// Compares the key in a file with the mark in the database.
///
/// # Errors
/// The file cannot be read, or holds no key.
pub(crate) fn fault(file: &Path, mark: Option<&str>) -> Result<Option<KeyFault>, Failure> {
    let Some(mark) = mark else { return Ok(None) };
    if !file.exists() {
        return Ok(Some(KeyFault::Missing));
    }
    let vault = Vault::new(secret::load_sealing_key(file, false)?);
    Ok((vault.key_mark()? != mark).then_some(KeyFault::Other))
}

/// The vault of a database. The first process makes the key, and leaves its mark; with `is_new` the
/// key is taken in the place of another.
///
/// # Errors
/// The key is missing or another; those of the database.
pub(super) async fn open_vault(state: &State, catalog: &Catalog, is_new: bool) -> Result<Vault, Failure> {
    let file = &state.key_file;
    let refused = |fault: KeyFault| {
        let says = fault.says(file, &state.database_words());
        Failure::invalid(format!("{says}; {}", fault.change()))
    };
    let found = fault(file, catalog.key_mark().await?.as_deref())?;
    if let Some(fault) = found.filter(|_| !is_new) {
        return Err(refused(fault));
    }
    let vault = Vault::new(secret::load_sealing_key(file, true)?);
    let mark = vault.key_mark()?;
    if found.is_some() {
        catalog.change_key_mark(&mark).await?;
    }
    // Of several processes that start at the same time, one leaves its mark.
    match catalog.keep_key_mark(&mark).await? == mark {
        true => Ok(vault),
        false => Err(refused(KeyFault::Other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_must_be_that_of_the_database() {
        let directory = tempfile::tempdir().unwrap();
        let (file, other) = (directory.path().join("key"), directory.path().join("other"));
        assert_eq!(fault(&file, None).unwrap(), None, "it will be made");
        assert_eq!(fault(&file, Some("mark")).unwrap(), Some(KeyFault::Missing));
        let mark = |file: &Path| {
            Vault::new(secret::load_sealing_key(file, true).unwrap())
                .key_mark()
                .unwrap()
        };
        let (first, second) = (mark(&file), mark(&other));
        assert_eq!(fault(&file, Some(&first)).unwrap(), None);
        assert_eq!(fault(&file, Some(&second)).unwrap(), Some(KeyFault::Other));
    }
}
