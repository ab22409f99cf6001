//! Maps the system's error numbers to the project's errors.

use std::io;

use rustix::io::Errno;
use types::{Error, ErrorCode, LogicalPath, Phase, Side};

/// An error of this storage with its code's own sentence.
pub(crate) fn fault(code: ErrorCode, phase: Phase) -> Error {
    Error::new(code, Side::Active, phase)
}

/// The error for a system error in `phase`. The number goes into the private detail.
pub(crate) fn from_errno(errno: Errno, phase: Phase) -> Error {
    fault(code_of(errno), phase).with_private(errno)
}

/// The refusal to change the mode of an export's root: the right to write there does not include
/// deciding who gets in.
pub(crate) fn root_keeps_mode(path: &LogicalPath) -> Error {
    fault(ErrorCode::Forbidden, Phase::Open)
        .with_detail("the mode of an export's root cannot be changed")
        .with_subject(path)
}

/// As [`from_errno`], with the path it is about.
pub(crate) fn about(errno: Errno, phase: Phase, path: &LogicalPath) -> Error {
    from_errno(errno, phase).with_subject(path)
}

/// The error for an `io::Error` in `phase`.
pub(crate) fn from_io(error: &io::Error, phase: Phase) -> Error {
    match Errno::from_io_error(error) {
        Some(errno) => from_errno(errno, phase),
        None => fault(ErrorCode::StorageFailed, phase).with_private(error),
    }
}

fn code_of(errno: Errno) -> ErrorCode {
    match errno {
        Errno::NOENT => ErrorCode::NotFound,
        Errno::EXIST => ErrorCode::Exists,
        Errno::NOTDIR => ErrorCode::NotDirectory,
        Errno::ISDIR => ErrorCode::IsDirectory,
        Errno::NOTEMPTY => ErrorCode::NotEmpty,
        Errno::NAMETOOLONG => ErrorCode::NameTooLong,
        Errno::ACCESS | Errno::PERM => ErrorCode::Forbidden,
        Errno::ROFS => ErrorCode::ReadOnly,
        Errno::NOSPC => ErrorCode::NoSpace,
        Errno::DQUOT => ErrorCode::QuotaExceeded,
        Errno::FBIG => ErrorCode::BodyTooLarge,
        Errno::BUSY | Errno::TXTBSY => ErrorCode::Busy,
        Errno::MFILE | Errno::NFILE => ErrorCode::Overloaded,
        Errno::LOOP => ErrorCode::PathRefused,
        _ => ErrorCode::StorageFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_full_quota_differ_and_the_number_stays_private() {
        let error = from_errno(Errno::NOSPC, Phase::Transfer);
        assert_eq!(error.code(), ErrorCode::NoSpace);
        assert!(error.private().is_some());
        assert_eq!(
            from_errno(Errno::DQUOT, Phase::Transfer).code(),
            ErrorCode::QuotaExceeded
        );
        let plain = io::Error::new(io::ErrorKind::UnexpectedEof, "short");
        assert_eq!(from_io(&plain, Phase::Open).code(), ErrorCode::StorageFailed);
    }
}
