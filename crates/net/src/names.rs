//! What the name service knows: the addresses of a name, and the name of an address. Both may take
//! long, so both are asked on the blocking pool and waited for only so long.

use std::net::IpAddr;
use std::time::Duration;

use types::limits::DIAL_ADDRESSES_MAX;

use crate::dial::bare;

/// The addresses of a host; none when it is not known, or not told in time. IPv4 addresses are told as
/// such. A host that is an address, in brackets or not, is that one.
pub async fn addresses_of(host: &str, patience: Duration) -> Vec<IpAddr> {
    if let Ok(address) = bare(host).parse::<IpAddr>() {
        return vec![address.to_canonical()];
    }
    match tokio::time::timeout(patience, tokio::net::lookup_host((host, 0))).await {
        Ok(Ok(addresses)) => addresses
            .take(DIAL_ADDRESSES_MAX)
            .map(|address| address.ip().to_canonical())
            .collect(),
        _ => Vec::new(),
    }
}

/// The name of an address; `None` when it has none, or it is not told in time.
pub async fn name_of(address: IpAddr, patience: Duration) -> Option<String> {
    let address = address.to_canonical();
    let asked = tokio::task::spawn_blocking(move || dns_lookup::lookup_addr(&address));
    let name = tokio::time::timeout(patience, asked).await.ok()?.ok()?.ok()?;
    // An address without a name is given back as its own name.
    (!name.is_empty() && name.parse::<IpAddr>().is_err()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn this_machine_is_known_both_ways() {
        assert!(
            addresses_of("localhost", PATIENCE)
                .await
                .iter()
                .all(IpAddr::is_loopback)
        );
        let here: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(
            addresses_of("[::ffff:127.0.0.1]", PATIENCE).await,
            [here.to_canonical()]
        );
        assert!(name_of(here, PATIENCE).await.is_some());
        // Reserved for what does not exist (RFC 6761 §6.4).
        assert!(addresses_of("host.invalid", PATIENCE).await.is_empty());
    }
}
