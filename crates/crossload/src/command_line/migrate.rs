//! Options of `migrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Examples of `migrate xrootd`.
const MIGRATE_XROOTD: &str = "\
Examples:
  # What would our configuration be, and what has no equivalent?
  crossload migrate xrootd /etc/xrootd/xrootd-clustered.cfg

  # For another host and instance, into files
  crossload migrate xrootd /etc/xrootd/xrootd-clustered.cfg \\
      --host d1.example.org --instance clustered --output migrated

Exit code: 0 everything was taken over or is not needed; 1 something is left to decide; 17 a file \
exists; else the errno of a file that cannot be read or written.";

/// Whose configuration is translated.
#[derive(Debug, Subcommand)]
pub(crate) enum MigrateAction {
    /// Translate the configuration of XRootD: xrootd and cmsd
    ///
    /// Reads what it includes, too: authdb, scitokens.cfg, directories of continue.
    #[command(after_help = MIGRATE_XROOTD)]
    Xrootd(MigrateXrootdOptions),
    /// Translate the configuration of dCache: doors of a layout, and gPlazma
    ///
    /// FILE is the directory /etc/dcache, or dcache.conf, layouts, and files that they name: a file
    /// is looked for among the arguments, then beside the configuration, then where its setting
    /// says.
    #[command(after_help = DCACHE_EXAMPLES)]
    Dcache(MigrateOptions),
    /// Translate the configuration of StoRM WebDAV: storage areas, application.yml, policies
    ///
    /// FILE is the directory /etc/storm/webdav, or files of areas (.properties), application.yml,
    /// maps of virtual organisations (.vomap), and files of environment variables.
    #[command(after_help = STORM_EXAMPLES)]
    Storm(MigrateOptions),
    /// Translate the configuration of FTS into that of the queue
    ///
    /// FILE is the directory /etc/fts3, or fts3config, fts3restconfig, the file about messages, and
    /// answers of the routes /config/se, links, shares, activity_shares, global, /ban/se and
    /// /ban/dn (.json), which become commands.
    #[command(after_help = FTS_EXAMPLES)]
    Fts(MigrateOptions),
    /// Translate the configuration of gfal into that of the client
    ///
    /// FILE is the directory /etc/gfal2.d, or files in it, and lists of storages with their
    /// protocols, as Rucio has them (.json): each becomes a named remote.
    #[command(after_help = GFAL_EXAMPLES)]
    Gfal(MigrateOptions),
}

/// Options of `migrate xrootd`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MigrateXrootdOptions {
    #[command(flatten)]
    pub(crate) common: MigrateOptions,
    /// Evaluate conditions for this instance, as -n of xrootd [default: that of xrootd-NAME.cfg,
    /// else anon]
    #[arg(long, value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// Evaluate conditions for this host [default: this machine]
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
}

/// Options of all kinds of `migrate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MigrateOptions {
    /// Configuration files
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Write the files into this directory, which is made if missing [default: standard output]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) output: Option<PathBuf>,
    /// Replace files in the directory of --output
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

impl MigrateAction {
    /// The command's name in error messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Xrootd(_) => "migrate xrootd",
            Self::Dcache(_) => "migrate dcache",
            Self::Storm(_) => "migrate storm",
            Self::Fts(_) => "migrate fts",
            Self::Gfal(_) => "migrate gfal",
        }
    }
}

const DCACHE_EXAMPLES: &str = "\
Examples:
  # On a host with doors
  crossload migrate dcache /etc/dcache --output migrated

  # From copies of its files
  crossload migrate dcache doors.conf gplazma.conf grid-vorolemap

Exit code: 0 everything was taken over or is not needed; 1 something is left to decide; 17 a file \
exists; else the errno of a file that cannot be read or written.";

const STORM_EXAMPLES: &str = "\
Examples:
  # With the variables of its unit
  crossload migrate storm /etc/storm/webdav \\
      /etc/systemd/system/storm-webdav.service.d/storm-webdav.conf \\
      --output migrated

Exit code: 0 everything was taken over or is not needed; 1 something is left to decide; 17 a file \
exists; else the errno of a file that cannot be read or written.";

const FTS_EXAMPLES: &str = "\
Examples:
  # With the limits of storages and links
  crossload migrate fts /etc/fts3 se.json links.json --output migrated

Exit code: 0 everything was taken over or is not needed; 1 something is left to decide; 17 a file \
exists; else the errno of a file that cannot be read or written.";

const GFAL_EXAMPLES: &str = "\
Examples:
  # A remote for each storage of the list
  crossload migrate gfal /etc/gfal2.d rses.json --output migrated

Exit code: 0 everything was taken over or is not needed; 1 something is left to decide; 17 a file \
exists; else the errno of a file that cannot be read or written.";
