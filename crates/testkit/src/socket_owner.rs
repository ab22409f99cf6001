//! Which process a connection of this machine comes from, by `/proc`.

use std::fs;

use crate::procfs::tree;

/// Whether the process `id` or a descendant of it holds the TCP socket with this local port.
pub(crate) fn holds_port(id: u32, port: u16) -> bool {
    let Some(inode) = inode_of(port) else { return false };
    let wanted = format!("socket:[{inode}]");
    tree(id).into_iter().any(|process| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else {
            return false;
        };
        let mut targets = descriptors
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| target.as_os_str() == wanted.as_str())
    })
}

/// The inode of the connected socket with this local port. Sockets of both families may speak IPv4.
fn inode_of(port: u16) -> Option<String> {
    let ending = format!(":{port:04X}");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let tables = tables.iter().filter_map(|table| fs::read_to_string(table).ok());
    tables.into_iter().find_map(|table| {
        table.lines().skip(1).find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_it = fields.get(1)?.ends_with(&ending) && *fields.get(3)? == "01";
            is_it.then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
        })
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_of_this_process_is_its_own() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let port = client.local_addr().expect("its address").port();
        assert!(holds_port(std::process::id(), port));
        assert!(!holds_port(u32::MAX, port), "no process has this id");
    }
}
