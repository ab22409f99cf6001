//! Sending written data on to the disk early, so that the sync at the end is short.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Asks the kernel to begin writing all dirty pages of the file, and does not wait for them.
#[allow(unsafe_code, reason = "rustix offers no sync_file_range")]
pub(super) fn start(file: &File) {
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and the call takes no
    // pointers. Offset and length 0 mean the whole file. It is a hint: its result is not needed.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE);
    }
}
