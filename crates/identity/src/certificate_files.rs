//! The files that certificates are judged by: the trust directory, the VOMS directory, and the maps
//! to local users.
//!
//! They are looked after by other programs (`fetch-crl` renews revocation lists every few hours),
//! so they are looked at again and again. A file that is broken, or a directory that is gone for a
//! while, changes as little as possible: what it said before still holds.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use credentials::x509::{
    CertificateRules, GridMap, ListTimes, Revocation, TrustFault, TrustStore, VomsDirectory, VomsMap,
};
use types::limits::{TRUST_FILE_BYTES_MAX, TRUST_FILES_MAX};

/// Where the files are, and what else belongs to the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Authorities, their revocation lists, and the names that they may sign, as grid sites keep
    /// them.
    pub trust_directory: Option<PathBuf>,
    /// Whether the operating system's authorities are believed too.
    pub system_authorities: bool,
    /// What is demanded of revocation lists.
    pub revocation: Revocation,
    /// Which servers speak for which VO: a directory for each VO.
    pub voms_directory: Option<PathBuf>,
    /// Local users for names of certificates.
    pub grid_map_file: Option<PathBuf>,
    /// Local users for attributes of VOMS.
    pub voms_map_file: Option<PathBuf>,
    /// The names of this host.
    pub host_names: Vec<String>,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateReport {
    /// Authorities that are believed.
    pub authorities: usize,
    /// Authorities whose revocation list is at hand.
    pub revocation_lists: usize,
    /// When the oldest of these lists was made, in seconds since 1970.
    pub oldest_list_s: Option<i64>,
    /// When the first of these lists is outdated, in seconds since 1970.
    pub next_update_s: Option<i64>,
    /// VOs whose servers are known.
    pub vos: usize,
    /// Entries of both maps.
    pub mappings: usize,
    /// Files that are broken, with their directories, and what that means.
    pub faults: Vec<TrustFault>,
}

impl CertificateReport {
    /// Notes that `path` is broken.
    fn fault(&mut self, path: &Path, why: impl std::fmt::Display) {
        self.faults.push(TrustFault {
            file: path.display().to_string(),
            why: why.to_string(),
        });
    }

    fn take(&mut self, directory: &Path, faults: Vec<TrustFault>) {
        for fault in faults {
            self.fault(&directory.join(&fault.file), fault.why);
        }
    }
}

impl CertificateFiles {
    /// Reads all files. Never fails as a whole: `previous` stands in for what cannot be read now.
    /// Blocks.
    #[must_use]
    pub fn read(&self, previous: Option<&CertificateRules>) -> (CertificateRules, CertificateReport) {
        let mut report = CertificateReport::default();
        let trust = self.trust(previous, &mut report);
        let voms = self.voms(previous, &mut report);
        let grid_map = match &self.grid_map_file {
            Some(file) => map(file, GridMap::parse, previous.map(|rules| &rules.grid_map), &mut report),
            None => GridMap::default(),
        };
        let voms_map = match &self.voms_map_file {
            Some(file) => map(file, VomsMap::parse, previous.map(|rules| &rules.voms_map), &mut report),
            None => VomsMap::default(),
        };
        report.authorities = trust.len();
        let lists: Vec<ListTimes> = trust.revocation_lists().collect();
        report.revocation_lists = lists.len();
        report.oldest_list_s = lists.iter().map(|list| list.made_s).min();
        report.next_update_s = lists.iter().filter_map(|list| list.next_update_s).min();
        report.vos = voms.vos().count();
        report.mappings = grid_map.len() + voms_map.len();
        let rules = CertificateRules {
            trust,
            voms,
            grid_map,
            voms_map,
            revocation: self.revocation,
            host_names: self.host_names.clone(),
        };
        (rules, report)
    }

    fn trust(&self, previous: Option<&CertificateRules>, report: &mut CertificateReport) -> Arc<TrustStore> {
        let known = previous.map(|rules| &rules.trust);
        let mut store = TrustStore::default();
        if let Some(directory) = &self.trust_directory {
            match files(directory, report) {
                Ok(files) => {
                    let (read, faults) = TrustStore::build_after(files, known.map(Arc::as_ref));
                    store = read;
                    report.take(directory, faults);
                }
                Err(cause) => {
                    report.fault(directory, format!("{cause}; {}", stands_in(known.is_some())));
                    if let Some(known) = known {
                        return Arc::clone(known);
                    }
                }
            }
        }
        if self.system_authorities {
            let system = net::tls::system_authorities();
            store.add_authorities(system.iter().map(AsRef::as_ref));
        }
        Arc::new(store)
    }

    fn voms(&self, previous: Option<&CertificateRules>, report: &mut CertificateReport) -> Arc<VomsDirectory> {
        let Some(directory) = &self.voms_directory else {
            return Arc::default();
        };
        let known = previous.map(|rules| &rules.voms);
        let vos = match entries(directory) {
            Ok(vos) => vos,
            Err(cause) => {
                report.fault(directory, format!("{cause}; {}", stands_in(known.is_some())));
                return known.map(Arc::clone).unwrap_or_default();
            }
        };
        let mut found = Vec::new();
        for (vo, path) in vos {
            // A file beside the directories of the VOs is for no VO.
            if !path.is_dir() {
                continue;
            }
            let Ok(files) = files(&path, report) else {
                report.fault(&path, "the directory cannot be read; the VO has no servers");
                continue;
            };
            found.extend(files.into_iter().map(|(file, bytes)| (vo.clone(), file, bytes)));
        }
        let (voms, faults) = VomsDirectory::build(found);
        report.take(directory, faults);
        Arc::new(voms)
    }

    /// A number that changes when any of the files does, made from their times and sizes. Blocks.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let directories = [&self.trust_directory, &self.voms_directory];
        let single = [&self.grid_map_file, &self.voms_map_file];
        let within = directories
            .into_iter()
            .flatten()
            .map(|directory| directory_fingerprint(directory, 1));
        let files = single.into_iter().flatten().map(|file| file_fingerprint(file));
        within.chain(files).fold(0, |sum, one| sum.rotate_left(1) ^ one)
    }
}

/// A number that changes when a file of the directory or, so many levels deep, of one below does.
/// Blocks.
#[must_use]
pub fn directory_fingerprint(directory: &Path, depth: u32) -> u64 {
    let mut sum = file_fingerprint(directory);
    for (_, path) in entries(directory).unwrap_or_default() {
        let below = if depth > 0 && path.is_dir() {
            directory_fingerprint(&path, depth - 1)
        } else {
            file_fingerprint(&path)
        };
        // The order in which a directory shows its files means nothing.
        sum = sum.wrapping_add(below);
    }
    sum
}

fn file_fingerprint(file: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    if let Ok(metadata) = fs::metadata(file) {
        let times = (
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        );
        (metadata.ino(), metadata.size(), times).hash(&mut hasher);
    }
    hasher.finish()
}

fn stands_in(is_known: bool) -> &'static str {
    if is_known {
        "what was read before still holds"
    } else {
        "there is nothing from before that could stand in"
    }
}

/// Names and paths in a directory, as many as are looked at.
fn entries(directory: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let named = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, entry.path()));
    let entries = fs::read_dir(directory)?.take(TRUST_FILES_MAX);
    Ok(entries.filter_map(Result::ok).filter_map(named).collect())
}

/// Names and contents of the files in a directory. One that cannot be read is a fault, and has no
/// content.
fn files(directory: &Path, report: &mut CertificateReport) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for (name, path) in entries(directory)? {
        match contents(&path) {
            Ok(bytes) => found.extend(bytes.map(|bytes| (name, bytes))),
            Err(cause) => {
                report.fault(&path, cause);
                // An unreadable file must not pass for a missing one.
                found.push((name, Vec::new()));
            }
        }
    }
    Ok(found)
}

/// The bytes of a plain file; `None` for anything else.
fn contents(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Opening something else, such as a pipe, could wait for ever.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let limit = TRUST_FILE_BYTES_MAX as u64 + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > TRUST_FILE_BYTES_MAX {
        let why = format!("it is larger than {TRUST_FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(Some(bytes))
}

/// Reads a map. One that cannot be read at all is stood in for; a line that cannot be understood is
/// left out.
fn map<M: Default + Clone>(
    file: &Path,
    parse: fn(&str) -> (M, Vec<String>),
    previous: Option<&M>,
    report: &mut CertificateReport,
) -> M {
    let text = contents(file).and_then(|bytes| {
        let none = || io::Error::from(io::ErrorKind::NotFound);
        String::from_utf8(bytes.ok_or_else(none)?).map_err(|cause| io::Error::new(io::ErrorKind::InvalidData, cause))
    });
    match text {
        Ok(text) => {
            let (map, faults) = parse(&text);
            for why in faults {
                report.fault(file, why);
            }
            map
        }
        Err(cause) => {
            report.fault(file, format!("{cause}; {}", stands_in(previous.is_some())));
            previous.cloned().unwrap_or_default()
        }
    }
}
