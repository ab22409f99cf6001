//! What the name service knows: the addresses of a name, and the name of an address. Both may take
//! long, so both are asked on the blocking pool, few at a time, and waited for only so long.

use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{DIAL_ADDRESSES_MAX, NAME_LOOKUPS_MAX};
use tokio::sync::Semaphore;

use crate::dial::bare;

/// One permit per look-up of the same server or command, held until the look-up ends, even if its
/// caller has gone.
struct LookUps(Arc<Semaphore>);

impl Default for LookUps {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(NAME_LOOKUPS_MAX)))
    }
}

/// Asks the name service; `None` when it does not answer in time.
async fn look_up<T: Send + 'static>(
    patience: Duration,
    ask: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Option<T> {
    let asked = async {
        let places = execution::shared::<LookUps>().0.clone();
        let permit = places.acquire_owned().await.ok()?;
        let answer = execution::blocking(move || {
            let answer = ask();
            drop(permit);
            answer
        });
        answer.await.ok()?.ok()
    };
    tokio::time::timeout(patience, asked).await.ok()?
}

/// The addresses of a host; none when it is unknown, or the answer is late. IPv4 addresses come in
/// their own form. A host that is an address, in brackets or not, is that one.
pub async fn addresses_of(host: &str, patience: Duration) -> Vec<IpAddr> {
    if let Ok(address) = bare(host).parse::<IpAddr>() {
        return vec![address.to_canonical()];
    }
    let host = host.to_owned();
    let addresses = look_up(patience, move || {
        let found = (host.as_str(), 0).to_socket_addrs()?;
        Ok(found.map(|found| found.ip().to_canonical()).collect::<Vec<_>>())
    });
    let mut addresses = addresses.await.unwrap_or_default();
    addresses.truncate(DIAL_ADDRESSES_MAX);
    addresses
}

/// The name of an address; `None` when it has none, or it is not told in time.
pub async fn name_of(address: IpAddr, patience: Duration) -> Option<String> {
    name_as_seen(address.to_canonical(), patience).await
}

/// The same for an address in the form in which a socket tells it: of IPv4 addresses in the form of
/// IPv6, some name services know nothing (`/etc/hosts` does not).
pub async fn name_as_seen(address: IpAddr, patience: Duration) -> Option<String> {
    let name = look_up(patience, move || Ok(dns_lookup::lookup_addr(&address)?)).await?;
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
