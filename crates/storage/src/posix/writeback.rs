//! Sends written data to the disk early, so that the final sync is short.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Asks the kernel to start writing all dirty pages of the file; does not wait.
#[allow(unsafe_code, reason = "rustix offers no sync_file_range")]
pub(super) fn start(file: &File) {
    // SAFETY: the descriptor is open while `file` is borrowed, and the call takes no pointers.
    // Offset and length 0 mean the whole file. It is a hint, so the result is ignored.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE);
    }
}
