//! XRootD: the configuration of `xrootd` and `cmsd`.

use crate::files::{Files, Unreadable};
use crate::migration::Migration;
use crate::source::Source;
use crate::system::Order;

/// Translates the files.
///
/// # Errors
/// A file that was asked for cannot be read.
pub(crate) fn migrate(order: &Order, files: &dyn Files) -> Result<Migration, Unreadable> {
    let mut migration = Migration::default();
    for file in &order.files {
        let (name, text) = (file.display().to_string(), files.text(file)?);
        let lines = text.lines().enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim().starts_with('#')) {
            let source = Source::new(&name, index + 1, line);
            migration.unknown(&source, "not read yet", "Translate it by hand");
        }
    }
    Ok(migration)
}
