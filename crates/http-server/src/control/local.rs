//! Doors on a loopback address: for which names a request may be.

use std::net::IpAddr;

use types::{Error, ErrorCode, Phase, Result, Side};

/// Refuses a request whose `Host` is no name of this machine. Otherwise a page elsewhere could have
/// its own name point to this machine, and read what a door on a loopback address answers (DNS
/// rebinding). Browsers always name a host.
///
/// # Errors
/// `misdirected`.
pub fn demand_local(host: Option<&str>) -> Result<()> {
    match host.is_none_or(is_local) {
        true => Ok(()),
        false => {
            let error = Error::new(ErrorCode::Misdirected, Side::Client, Phase::Open);
            Err(error.with_detail("this port is for this machine only: use localhost or 127.0.0.1"))
        }
    }
}

fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    name == "localhost" || name.ends_with(".localhost") || name.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_known() {
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "a.localhost:1",
            "127.0.0.1:8080",
            "127.0.0.2",
            "[::1]:8080",
            "[::ffff:127.0.0.1]",
            "localhost.:1",
        ] {
            demand_local(Some(host)).unwrap();
        }
        demand_local(None).unwrap();
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "192.0.2.1",
            "0.0.0.0:8080",
            "",
            "[::1",
        ] {
            assert_eq!(
                demand_local(Some(host)).unwrap_err().code(),
                ErrorCode::Misdirected,
                "{host}"
            );
        }
    }
}
