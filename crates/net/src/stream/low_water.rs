//! How much has to be in a socket before the kernel wakes those who wait to read from it.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Sets `SO_RCVLOWAT` (socket(7)). Those who wait hear of it at once when there is so much already;
/// they hear of the end of the connection, and of a receive window that is full, however little
/// there is (tcp(7), `tcp_epollin_ready` in Linux).
#[allow(unsafe_code, reason = "neither rustix nor socket2 offers SO_RCVLOWAT")]
pub(super) fn set_low_water(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let value = libc::c_int::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel reads as many bytes as
    // the value has.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
