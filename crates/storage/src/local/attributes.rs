//! Extended attributes that users keep with files of this machine. Names are without the system's
//! prefix for those of users.

use std::io;

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lremovexattr, lsetxattr};
use rustix::io::Errno;
use types::{ErrorCode, LogicalPath, Phase, Result, Side};

use super::fault;

const PREFIX: &str = "user.";
/// Longest list of names, and longest value, as Linux has them (`xattr(7)`).
const BYTES_MAX: usize = 64 * 1024;

fn failed(errno: Errno, path: &LogicalPath) -> types::Error {
    if errno == Errno::NODATA {
        return types::Error::new(ErrorCode::AttributeNotFound, Side::Client, Phase::Open).with_subject(path);
    }
    fault(&io::Error::from(errno), Phase::Open, path)
}

/// The names of a file's attributes.
///
/// # Errors
/// `not_found`, and other errors of the system.
pub fn attribute_names(path: &LogicalPath) -> Result<Vec<String>> {
    let mut names = vec![0; BYTES_MAX];
    let length = llistxattr(path.as_str(), &mut names[..]).map_err(|errno| failed(errno, path))?;
    let names = names[..length].split(|byte| *byte == 0);
    let names = names.filter_map(|name| std::str::from_utf8(name).ok()?.strip_prefix(PREFIX));
    Ok(names.map(str::to_owned).collect())
}

/// The value of an attribute.
///
/// # Errors
/// `attribute_not_found`, `not_found`, and other errors of the system.
pub fn attribute(path: &LogicalPath, name: &str) -> Result<Vec<u8>> {
    let mut value = vec![0; BYTES_MAX];
    let read = lgetxattr(path.as_str(), format!("{PREFIX}{name}"), &mut value[..]);
    value.truncate(read.map_err(|errno| failed(errno, path))?);
    Ok(value)
}

/// Sets an attribute.
///
/// # Errors
/// `not_found`, and other errors of the system.
pub fn set_attribute(path: &LogicalPath, name: &str, value: &[u8]) -> Result<()> {
    let set = lsetxattr(path.as_str(), format!("{PREFIX}{name}"), value, XattrFlags::empty());
    set.map_err(|errno| failed(errno, path))
}

/// Removes an attribute.
///
/// # Errors
/// `attribute_not_found`, `not_found`, and other errors of the system.
pub fn remove_attribute(path: &LogicalPath, name: &str) -> Result<()> {
    let removed = lremovexattr(path.as_str(), format!("{PREFIX}{name}"));
    removed.map_err(|errno| failed(errno, path))
}
