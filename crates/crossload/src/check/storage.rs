//! Checks the file systems of the exports: the operations that storing files needs, and free space.
//! Probe files are made in a separate directory in the export, and removed again.

use std::fs::{self, DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, XattrFlags};
use rustix::io::Errno;
use types::binary_size;

use super::finding::{Finding, Position};

/// An extended attribute like those that keep checksums.
const ATTRIBUTE: &str = "user.crossload.check";
/// Free space below this percentage of the file system is low.
const FREE_PERCENT_MIN: u64 = 5;

/// An operation to try in a directory.
type Probe = fn(&ProbeDirectory) -> std::io::Result<()>;

/// The export to check.
pub(crate) struct Subject<'a> {
    pub(crate) path: String,
    pub(crate) directory: &'a Path,
    pub(crate) writable: bool,
    pub(crate) quota_bytes: u64,
    pub(crate) reserve_bytes: u64,
    /// Free bytes in the file system, and its size; `None` if unknown.
    pub(crate) free_space: Option<(u64, u64)>,
    pub(crate) directory_position: Position,
    pub(crate) quota_position: Position,
    pub(crate) reserve_position: Position,
}

impl Subject<'_> {
    /// Checks it.
    pub(crate) fn check(&self) -> Vec<Finding> {
        let shown = self.directory.display();
        match fs::metadata(self.directory) {
            Ok(facts) if facts.is_dir() => {}
            Ok(_) => {
                return vec![
                    self.fault("export_no_directory", format!("{shown} is not a directory"))
                        .change("name a directory"),
                ];
            }
            Err(cause) => {
                let says = format!("the directory {shown} of the export {} is unusable: {cause}", self.path);
                return vec![
                    self.fault("export_missing", says)
                        .change("make the directory, or correct the path"),
                ];
            }
        }
        if let Err(cause) = fs::read_dir(self.directory) {
            let says = format!("{shown} cannot be listed: {cause}");
            return vec![
                self.fault("export_unreadable", says)
                    .change("let the server's user read it"),
            ];
        }
        let mut findings = Vec::new();
        findings.extend(self.walk());
        if self.writable {
            findings.extend(self.writing());
        }
        findings.extend(self.space());
        findings
    }

    fn fault(&self, code: &'static str, says: String) -> Finding {
        Finding::error(code, says).at(self.directory_position.clone())
    }

    /// Whether the kernel keeps path resolution inside the export.
    fn walk(&self) -> Option<Finding> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(self.directory, flags, Mode::empty()).ok()?;
        let walked = rustix::fs::openat2(&top, ".", flags, Mode::empty(), ResolveFlags::BENEATH);
        matches!(walked, Err(Errno::NOSYS | Errno::PERM)).then(|| {
            let says = "the kernel (or the sandbox) does not support openat2: paths are resolved step by step, \
                        which is slower";
            Finding::note("openat2_missing", says).at(self.directory_position.clone())
        })
    }

    fn writing(&self) -> Vec<Finding> {
        let place = match ProbeDirectory::make(self.directory) {
            Ok(place) => place,
            Err(cause) => {
                let says = format!("cannot write to {}: {cause}", self.directory.display());
                let change = "let the server's user write there, or set read_only = true";
                return vec![self.fault("export_not_writable", says).change(change)];
            }
        };
        let steps: [(&'static str, &str, Probe); 3] = [
            (
                "storage_write",
                "files cannot be written and made durable (fsync)",
                ProbeDirectory::write,
            ),
            (
                "storage_rename",
                "files cannot be renamed over others",
                ProbeDirectory::rename,
            ),
            (
                "storage_exclusive",
                "files cannot be renamed without replacing others (renameat2)",
                ProbeDirectory::exclusive,
            ),
        ];
        let mut findings = Vec::new();
        for (code, says, step) in steps {
            if let Err(cause) = step(&place) {
                let says = format!("{says} in {}: {cause}", self.directory.display());
                findings.push(self.fault(code, says).change("use another file system for this export"));
            }
        }
        match place.attribute() {
            Ok(()) => {}
            Err(cause) => {
                let says = format!(
                    "{} has no extended attributes ({cause}): checksums are computed for each request",
                    self.directory.display()
                );
                let finding = Finding::warning("storage_attributes", says).at(self.directory_position.clone());
                findings.push(finding.change("mount the file system with user_xattr, or use another one"));
            }
        }
        if place.is_on_another_device(self.directory) {
            let says = format!(
                "the hidden directory of {} is on another file system: uploads cannot be committed",
                self.directory.display()
            );
            findings.push(
                self.fault("storage_two_devices", says)
                    .change("unmount what is mounted on it"),
            );
        }
        if findings.is_empty() {
            let says = format!(
                "{} supports write, fsync, rename and extended attributes",
                self.directory.display()
            );
            findings.push(Finding::ok("storage", says));
        }
        findings
    }

    fn space(&self) -> Vec<Finding> {
        let Some((free, all)) = self.free_space else {
            return Vec::new();
        };
        let mut findings = Vec::new();
        let shown = self.directory.display();
        if self.writable && free <= self.reserve_bytes {
            let says = format!(
                "{shown} has {} free, no more than the reserve: all uploads are refused",
                binary_size(free)
            );
            let finding = Finding::error("space_exhausted", says).at(self.reserve_position.clone());
            findings.push(finding.change("free space, or lower reserve_bytes"));
        } else if self.writable && all > 0 && free < all / 100 * FREE_PERCENT_MIN {
            let says = format!("{shown} has only {} of {} free", binary_size(free), binary_size(all));
            let finding = Finding::warning("space_low", says).at(self.directory_position.clone());
            findings.push(finding.change("free space, or move the export to a larger file system"));
        } else {
            findings.push(Finding::ok(
                "space",
                format!("{shown} has {} of {} free", binary_size(free), binary_size(all)),
            ));
        }
        if all > 0 && self.quota_bytes > all {
            let says = format!(
                "the quota of {} is larger than the file system with {}",
                binary_size(self.quota_bytes),
                binary_size(all)
            );
            let finding = Finding::warning("quota_too_large", says).at(self.quota_position.clone());
            findings.push(finding.change("set quota_bytes below the size of the file system, or to 0"));
        }
        findings
    }
}

/// Free bytes in the file system of a directory, and its size in bytes.
pub(crate) fn free_space(directory: &Path) -> Option<(u64, u64)> {
    let facts = rustix::fs::statvfs(directory).ok()?;
    Some((facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize))
}

/// Nested export directories serve and count the same files twice.
pub(crate) fn overlaps(directories: &[(PathBuf, Position)]) -> Vec<Finding> {
    let resolved: Vec<_> = directories
        .iter()
        .filter_map(|(directory, position)| Some((directory.canonicalize().ok()?, position)))
        .collect();
    let mut findings = Vec::new();
    for (index, (inner, position)) in resolved.iter().enumerate() {
        let holder = resolved.iter().enumerate().find(|(other, (outer, _))| {
            *other != index && inner.starts_with(outer) && (inner != outer || *other < index)
        });
        if let Some((_, (outer, _))) = holder {
            let says = format!(
                "{} is inside {}, which is exported too: the other export may allow what one forbids",
                inner.display(),
                outer.display()
            );
            let finding = Finding::warning("exports_overlap", says).at((*position).clone());
            findings.push(finding.change("export directories that are not inside each other"));
        }
    }
    findings
}

/// A directory for probe files that is removed when dropped.
struct ProbeDirectory(PathBuf);

impl ProbeDirectory {
    /// In the server's hidden directory if it exists: it is on the same file system, and not
    /// listed.
    fn make(export: &Path) -> std::io::Result<Self> {
        let hidden = export.join(storage::HIDDEN_DIRECTORY);
        let parent = if hidden.is_dir() { hidden } else { export.to_owned() };
        let place = parent.join(format!(".crossload-check-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&place)?;
        Ok(Self(place))
    }

    fn write(&self) -> std::io::Result<()> {
        let mut file = File::create(self.0.join("a"))?;
        file.write_all(&[0; 4096])?;
        file.sync_all()
    }

    fn rename(&self) -> std::io::Result<()> {
        File::create(self.0.join("b"))?;
        fs::rename(self.0.join("a"), self.0.join("b"))
    }

    fn exclusive(&self) -> std::io::Result<()> {
        File::create(self.0.join("c"))?;
        let here = File::open(&self.0)?;
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&here, "c", &here, "b", flags) {
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
            Ok(()) => Err(std::io::Error::other("an existing file was replaced nevertheless")),
        }
    }

    fn attribute(&self) -> std::io::Result<()> {
        let path = self.0.join("b");
        Ok(rustix::fs::setxattr(&path, ATTRIBUTE, b"1", XattrFlags::empty())?)
    }
}

impl ProbeDirectory {
    fn is_on_another_device(&self, export: &Path) -> bool {
        let device = |path: &Path| fs::metadata(path).map(|facts| facts.dev()).ok();
        device(&self.0) != device(export)
    }
}

impl Drop for ProbeDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
