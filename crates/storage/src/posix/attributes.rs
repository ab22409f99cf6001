//! Attributes that clients set on files, stored as extended attributes under XRootD's names
//! (`user.U.<name>`), so that both servers show them. The dead properties of WebDAV clients are a
//! single attribute outside of that prefix, so that they change atomically and stay invisible to
//! XRootD clients.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{
    self, AtFlags, Mode, OFlags, XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, getxattr, getxattr_query,
    lgetxattr, lgetxattr_query,
};
use rustix::io::Errno;
use types::{Error, ErrorCode, LogicalPath, Phase, Result};

use crate::api::Overwrite;
use crate::fault::{about, fault};

const PREFIX: &str = "user.U.";
/// All dead properties of WebDAV.
const DEAD_PROPERTIES: &str = "user.crossload.dav";
/// The kernel's limit on all attribute names of a file (`XATTR_LIST_MAX`).
const NAMES_BYTES_MAX: usize = 65536;
/// The kernel's limit on one value (`XATTR_SIZE_MAX`).
const VALUE_BYTES_MAX: usize = 65536;

fn failed(errno: Errno, path: &LogicalPath) -> Error {
    let refused = |code| fault(code, Phase::Open).with_subject(path).with_private(errno);
    match errno {
        Errno::OPNOTSUPP => refused(ErrorCode::NotImplemented).with_detail("the file system stores no attributes"),
        Errno::RANGE => refused(ErrorCode::NameTooLong),
        Errno::TOOBIG => refused(ErrorCode::BodyTooLarge).with_detail(format!("{VALUE_BYTES_MAX} bytes")),
        errno => about(errno, Phase::Open, path),
    }
}

pub(super) fn names(file: BorrowedFd<'_>, path: &LogicalPath) -> Result<Vec<String>> {
    let mut buffer = vec![0; NAMES_BYTES_MAX];
    let length = flistxattr(file, &mut buffer[..]).map_err(|errno| failed(errno, path))?;
    let all = buffer[..length].split(|byte| *byte == 0);
    let own = all.filter_map(|name| std::str::from_utf8(name).ok()?.strip_prefix(PREFIX));
    Ok(own.map(str::to_owned).collect())
}

pub(super) fn value(file: BorrowedFd<'_>, path: &LogicalPath, name: &str) -> Result<Option<Vec<u8>>> {
    let mut buffer = vec![0; VALUE_BYTES_MAX];
    match fgetxattr(file, format!("{PREFIX}{name}"), &mut buffer[..]) {
        Ok(length) => {
            buffer.truncate(length);
            Ok(Some(buffer))
        }
        Err(Errno::NODATA) => Ok(None),
        Err(errno) => Err(failed(errno, path)),
    }
}

pub(super) fn set(
    file: BorrowedFd<'_>,
    path: &LogicalPath,
    name: &str,
    value: &[u8],
    overwrite: Overwrite,
) -> Result<()> {
    let flags = match overwrite {
        Overwrite::Allow => XattrFlags::empty(),
        Overwrite::Refuse => XattrFlags::CREATE,
    };
    fsetxattr(file, format!("{PREFIX}{name}"), value, flags).map_err(|errno| failed(errno, path))
}

pub(super) fn remove(file: BorrowedFd<'_>, path: &LogicalPath, name: &str) -> Result<bool> {
    match fremovexattr(file, format!("{PREFIX}{name}")) {
        Ok(()) => Ok(true),
        Err(Errno::NODATA) => Ok(false),
        Err(errno) => Err(failed(errno, path)),
    }
}

/// A file in the hidden directory that exists once anything in the export has had dead properties.
/// Without it a listing does not ask each file for them, which would take three times as long.
const DEAD_PROPERTIES_MARK: &str = ".crossload/properties";

/// Whether anything in the export with this root may have dead properties.
pub(super) fn has_dead_properties(root: BorrowedFd<'_>) -> bool {
    let there = fs::statat(root, DEAD_PROPERTIES_MARK, AtFlags::SYMLINK_NOFOLLOW);
    !matches!(there, Err(Errno::NOENT | Errno::NOTDIR))
}

/// Records that something in the export with this root may have dead properties.
pub(super) fn note_dead_properties(root: BorrowedFd<'_>, path: &LogicalPath) -> Result<()> {
    if has_dead_properties(root) {
        return Ok(());
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mark = fs::openat(root, DEAD_PROPERTIES_MARK, flags, Mode::RUSR | Mode::WUSR);
    mark.map(drop).map_err(|errno| failed(errno, path))
}

/// The dead properties of an open file, also when it is open as a path only.
pub(super) fn dead_properties(file: BorrowedFd<'_>, path: &LogicalPath) -> Result<Vec<u8>> {
    read_dead(&format!("/proc/self/fd/{}", file.as_raw_fd()), true).map_err(|errno| failed(errno, path))
}

/// The dead properties of a name in an open directory; none for a symbolic link, or if unreadable.
pub(super) fn dead_properties_in(directory: BorrowedFd<'_>, name: &str) -> Vec<u8> {
    read_dead(&format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()), false).unwrap_or_default()
}

fn read_dead(place: &str, follow: bool) -> Result<Vec<u8>, Errno> {
    // Most files have none, so try without a buffer first.
    let length = match follow {
        true => getxattr_query(place, DEAD_PROPERTIES),
        false => lgetxattr_query(place, DEAD_PROPERTIES),
    };
    match length {
        Ok(0) | Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Ok(_) => {}
        Err(errno) => return Err(errno),
    }
    // It may have grown meanwhile.
    let mut buffer = vec![0; VALUE_BYTES_MAX];
    let length = match follow {
        true => getxattr(place, DEAD_PROPERTIES, &mut buffer[..])?,
        false => lgetxattr(place, DEAD_PROPERTIES, &mut buffer[..])?,
    };
    buffer.truncate(length);
    Ok(buffer)
}

/// Replaces the dead properties; an empty value removes the attribute.
pub(super) fn set_dead_properties(file: BorrowedFd<'_>, path: &LogicalPath, value: &[u8]) -> Result<()> {
    let done = match value.is_empty() {
        true => match fremovexattr(file, DEAD_PROPERTIES) {
            Err(Errno::NODATA) => Ok(()),
            done => done,
        },
        false => fsetxattr(file, DEAD_PROPERTIES, value, XattrFlags::empty()),
    };
    done.map_err(|errno| match errno {
        // This file system limits attributes further.
        Errno::TOOBIG | Errno::RANGE => failed(Errno::NOSPC, path),
        errno => failed(errno, path),
    })
}

/// Copies client attributes and dead properties to a copy. What cannot be stored is left out.
pub(super) fn carry(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    let root = LogicalPath::root();
    for name in names(from, &root).unwrap_or_default() {
        if let Ok(Some(held)) = value(from, &root, &name) {
            let _ = set(to, &root, &name, &held, Overwrite::Allow);
        }
    }
    if let Ok(held) = dead_properties(from, &root)
        && !held.is_empty()
    {
        let _ = set_dead_properties(to, &root, &held);
    }
}
