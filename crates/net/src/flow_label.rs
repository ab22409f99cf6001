//! The flow label of IPv6 packets (RFC 6437). Linux takes it from the address to which a socket
//! connects; connections that are accepted have one that the system chooses.

use std::io;
use std::mem::size_of;
use std::net::{SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd as _};

use tokio::net::{TcpSocket, TcpStream};

/// The bits of a label.
const LABEL_BITS: u32 = 0xf_ffff;

/// Connects, with this label in the packets if they are those of IPv6. Where the system refuses the
/// label, it chooses one.
pub(crate) async fn connect(address: SocketAddr, label: Option<u32>) -> io::Result<TcpStream> {
    if let (SocketAddr::V6(six), Some(label)) = (address, label) {
        match connect_labelled(six, label).await {
            Err(cause) if is_about_label(&cause) => {}
            connected => return connected,
        }
    }
    TcpStream::connect(address).await
}

async fn connect_labelled(address: SocketAddrV6, label: u32) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v6()?;
    set_takes_label(&socket, true)?;
    // It stands there in the order of the network.
    let label = (label & LABEL_BITS).to_be();
    let labelled = SocketAddrV6::new(*address.ip(), address.port(), label, address.scope_id());
    let stream = socket.connect(labelled.into()).await?;
    // The packets keep it. Otherwise the name of the other end would have it, too.
    set_takes_label(&stream, false)?;
    Ok(stream)
}

/// Whether the system may refuse the label: old ones want it to be leased, and others do while some
/// program has one for itself (`IPV6_FL_S_EXCL`).
fn is_about_label(cause: &io::Error) -> bool {
    matches!(
        cause.raw_os_error(),
        Some(libc::EINVAL | libc::ENOENT | libc::ENOPROTOOPT | libc::EPERM)
    )
}

/// Sets `IPV6_FLOWINFO_SEND`: whether connecting takes a label from the address.
#[allow(unsafe_code, reason = "neither rustix nor socket2 offers IPV6_FLOWINFO_SEND")]
fn set_takes_label(socket: &impl AsFd, takes: bool) -> io::Result<()> {
    let value = libc::c_int::from(takes);
    // SAFETY: the descriptor is open while it is borrowed, and the kernel reads as many bytes as
    // the value has.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IPV6,
            libc::IPV6_FLOWINFO_SEND,
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// The bytes of `struct in6_flowlabel_req`: the label is at 16, the flags at 22.
    const REQUEST_BYTES: usize = 32;
    /// `IPV6_FL_F_REMOTE`: the label of the other end.
    const OF_OTHER_END: u16 = 8;

    /// The label with which a connection began at the other end.
    #[allow(unsafe_code, reason = "no library offers IPV6_FLOWLABEL_MGR")]
    fn label_of_other_end(accepted: &TcpStream) -> u32 {
        let mut request = [0_u8; REQUEST_BYTES];
        request[22..24].copy_from_slice(&OF_OTHER_END.to_ne_bytes());
        let mut length = REQUEST_BYTES as libc::socklen_t;
        // SAFETY: the descriptor is open, and the kernel reads and writes as many bytes as the
        // length says, which are those of the request.
        let result = unsafe {
            libc::getsockopt(
                accepted.as_raw_fd(),
                libc::IPPROTO_IPV6,
                libc::IPV6_FLOWLABEL_MGR,
                request.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        u32::from_be_bytes([request[16], request[17], request[18], request[19]])
    }

    #[tokio::test]
    async fn the_other_end_sees_the_label() {
        let bound = TcpListener::bind("[::1]:0").await;
        let bound = bound.map_err(|cause| testkit::Error::Missing(format!("IPv6: {cause}")));
        let Some(listener) = testkit::available("the_other_end_sees_the_label", bound) else {
            return;
        };
        let address = listener.local_addr().unwrap();
        for label in [0x1_0010, 0xf_ffff] {
            let stream = connect(address, Some(label)).await.unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            assert_eq!(label_of_other_end(&accepted), label);
            assert_eq!(stream.peer_addr().unwrap(), address, "without the label");
        }
        let _stream = connect(address, None).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        assert_ne!(label_of_other_end(&accepted), 0xf_ffff);
    }

    #[tokio::test]
    async fn packets_of_ipv4_have_none() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert!(connect(listener.local_addr().unwrap(), Some(1)).await.is_ok());
    }

    #[test]
    fn a_refused_label_is_no_broken_path() {
        let cause = io::Error::from_raw_os_error;
        assert!(is_about_label(&cause(libc::EINVAL)) && is_about_label(&cause(libc::ENOENT)));
        assert!(!is_about_label(&cause(libc::ECONNREFUSED)) && !is_about_label(&cause(libc::ENETUNREACH)));
    }
}
