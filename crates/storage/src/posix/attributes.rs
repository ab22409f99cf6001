//! Attributes that clients give to files, kept as extended attributes under the names that XRootD
//! uses (`user.U.<name>`), so that either server shows what was set through the other.

use std::os::fd::BorrowedFd;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use types::{Error, ErrorCode, LogicalPath, Phase, Result};

use crate::api::Overwrite;
use crate::fault::{about, fault};

const PREFIX: &str = "user.U.";
/// The kernel's limit on the names of one file together (`XATTR_LIST_MAX`).
const NAMES_BYTES_MAX: usize = 65536;
/// The kernel's limit on one value (`XATTR_SIZE_MAX`).
const VALUE_BYTES_MAX: usize = 65536;

fn failed(errno: Errno, path: &LogicalPath) -> Error {
    let refused = |code| fault(code, Phase::Open).with_subject(path).with_private(errno);
    match errno {
        Errno::OPNOTSUPP => refused(ErrorCode::NotImplemented).with_detail("the file system keeps no attributes"),
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
