//! The programs whose configuration is read.

use std::path::PathBuf;

use crate::dcache;
use crate::files::{Files, Unreadable};
use crate::fts;
use crate::gfal;
use crate::migration::Migration;
use crate::storm;
use crate::xrootd;

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// XRootD: `xrootd` and `cmsd`.
    Xrootd,
    /// dCache: the layout of a host with doors, and gPlazma's files.
    Dcache,
    /// StoRM WebDAV: storage areas and `application.yml`.
    Storm,
    /// FTS: the server, its REST service and its settings.
    Fts,
    /// gfal: its files of settings, and Rucio's lists of storages.
    Gfal,
}

/// What to read, and for which server.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The files, in this order.
    pub files: Vec<PathBuf>,
    /// The instance of the program, where its files have conditions on it.
    pub instance: Option<String>,
    /// The host for which conditions in the files are evaluated.
    pub host: String,
}

impl System {
    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xrootd => "XRootD",
            Self::Dcache => "dCache",
            Self::Storm => "StoRM WebDAV",
            Self::Fts => "FTS",
            Self::Gfal => "gfal",
        }
    }

    /// Translates the files.
    ///
    /// # Errors
    /// A file that was asked for cannot be read. Included files that cannot be read are remarks.
    pub fn migrate(self, order: &Order, files: &dyn Files) -> Result<Migration, Unreadable> {
        match self {
            Self::Xrootd => xrootd::migrate(order, files),
            Self::Dcache => dcache::migrate(order, files),
            Self::Storm => storm::migrate(order, files),
            Self::Fts => fts::migrate(order, files),
            Self::Gfal => gfal::migrate(order, files),
        }
    }
}
