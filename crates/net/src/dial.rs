//! Connecting to others: resolve, check each address, and try them in parallel with head starts
//! (RFC 8305), so that a broken address family costs a quarter of a second and not a minute.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::limits::DIAL_ATTEMPT_DELAY;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use types::{Error, ErrorCode, Phase, Side};

use crate::address::AddressPolicy;
use crate::flow_label;
use crate::resolve::Resolver;

/// The flow label of packets to an address, in the lowest 20 bits; `None`: the system chooses one.
pub type LabelOf<'a> = &'a (dyn Fn(IpAddr) -> Option<u32> + Sync);

/// A connection, and when the name of its host was resolved.
#[derive(Debug)]
pub struct Dialled {
    /// The connection.
    pub stream: TcpStream,
    /// When the addresses of the host were known.
    pub resolved: Instant,
}

/// Connects to `host` (a name or an address, IPv6 with or without brackets).
///
/// # Errors
/// `peer_unresolved`, `peer_address_refused` when the policy allows none of the addresses,
/// `peer_unreachable` with the last system error, `peer_connect_timeout`.
pub async fn dial(
    host: &str,
    port: u16,
    policy: AddressPolicy,
    timeout: Duration,
    side: Side,
) -> Result<TcpStream, Error> {
    let dialled = dial_timed(host, port, policy, timeout, side, &|_| None).await?;
    Ok(dialled.stream)
}

/// As [`dial`], with the time of the look-up. Packets over IPv6 have this label.
///
/// # Errors
/// As [`dial`].
pub async fn dial_timed(
    host: &str,
    port: u16,
    policy: AddressPolicy,
    timeout: Duration,
    side: Side,
    label_of: LabelOf<'_>,
) -> Result<Dialled, Error> {
    let attempt = async {
        let allowed = allowed(host, port, policy, side).await?;
        let resolved = Instant::now();
        let stream = race(interleave(allowed), side, label_of).await?;
        let stream = refuse_ourselves(stream, policy, side)?;
        Ok::<_, Error>(Dialled { stream, resolved })
    };
    within(timeout, attempt, host, port, side).await
}

/// Whether name and policy allow a connection to `host`.
///
/// # Errors
/// `peer_unresolved`, `peer_address_refused`, `peer_connect_timeout`.
pub async fn check(host: &str, port: u16, policy: AddressPolicy, timeout: Duration, side: Side) -> Result<(), Error> {
    let asked = async { allowed(host, port, policy, side).await.map(drop) };
    within(timeout, asked, host, port, side).await
}

async fn within<T>(
    timeout: Duration,
    attempt: impl Future<Output = Result<T, Error>>,
    host: &str,
    port: u16,
    side: Side,
) -> Result<T, Error> {
    let late = || Error::new(ErrorCode::PeerConnectTimeout, side, Phase::Connect);
    let result = tokio::time::timeout(timeout, attempt).await;
    result
        .unwrap_or_else(|_| Err(late()))
        .map_err(|error| error.with_subject(format!("{host}:{port}")))
}

/// The addresses of a host that may be connected to: at least one.
async fn allowed(host: &str, port: u16, policy: AddressPolicy, side: Side) -> Result<Vec<SocketAddr>, Error> {
    let addresses = resolve(host, port, side).await?;
    let allowed: Vec<_> = addresses
        .iter()
        .copied()
        .filter(|address| policy.allows(address.ip()))
        .collect();
    if !allowed.is_empty() {
        return Ok(allowed);
    }
    let error = Error::new(ErrorCode::PeerAddressRefused, side, Phase::Connect);
    // The subject names the host; of a name it is worth saying what it stands for.
    Err(match addresses.first() {
        Some(address) if bare(host).parse::<IpAddr>().is_err() => {
            error.with_detail(format!("{host} is {}", address.ip()))
        }
        _ => error,
    })
}

async fn resolve(host: &str, port: u16, side: Side) -> Result<Vec<SocketAddr>, Error> {
    let bare = bare(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    match execution::shared::<Resolver>().addresses(bare).await {
        Ok(mut addresses) => {
            addresses.iter_mut().for_each(|address| address.set_port(port));
            Ok(addresses)
        }
        Err(cause) => Err(Error::new(ErrorCode::PeerUnresolved, side, Phase::Connect).with_private(cause)),
    }
}

/// The host without the brackets of an IPv6 address.
pub(crate) fn bare(host: &str) -> &str {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(host)
}

/// Alternates the address families, the one that the resolver put first leading (RFC 8305 §4).
fn interleave(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let leads_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (leading, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == leads_v6);
    let mut mixed = Vec::with_capacity(leading.len() + other.len());
    let (mut leading, mut other) = (leading.into_iter(), other.into_iter());
    loop {
        match (leading.next(), other.next()) {
            (None, None) => return mixed,
            (first, second) => mixed.extend(first.into_iter().chain(second)),
        }
    }
}

/// Each address gets a head start over the next; the first connection wins and the rest are
/// dropped.
async fn race(addresses: Vec<SocketAddr>, side: Side, label_of: LabelOf<'_>) -> Result<TcpStream, Error> {
    let mut attempts = JoinSet::new();
    let mut waiting = addresses.into_iter();
    let mut last: Option<std::io::Error> = None;
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(flow_label::connect(address, label_of(address.ip())));
        } else if attempts.is_empty() {
            let error = Error::new(ErrorCode::PeerUnreachable, side, Phase::Connect);
            return Err(match last {
                Some(cause) => error.with_detail(plain_words(&cause)),
                None => error,
            });
        }
        let head_start = if waiting.len() > 0 {
            DIAL_ATTEMPT_DELAY
        } else {
            Duration::MAX
        };
        // The next address is started when the head start is over or an attempt has failed.
        let settled = tokio::time::timeout(head_start.min(Duration::from_secs(3600)), attempts.join_next()).await;
        match settled {
            Ok(Some(Ok(Ok(stream)))) => return tune(stream, side),
            Ok(Some(Ok(Err(cause)))) => last = Some(cause),
            Ok(Some(Err(_)) | None) | Err(_) => {}
        }
    }
}

/// Who reaches the address that the connection comes from has reached this machine: the system may
/// route more addresses to itself than its interfaces have, or not say which these are.
fn refuse_ourselves(stream: TcpStream, policy: AddressPolicy, side: Side) -> Result<TcpStream, Error> {
    let ends = stream
        .local_addr()
        .and_then(|local| Ok((local.ip(), stream.peer_addr()?.ip())));
    match ends {
        Ok((local, peer)) if !policy.local && local.to_canonical() == peer.to_canonical() => {
            Err(Error::new(ErrorCode::PeerAddressRefused, side, Phase::Connect))
        }
        _ => Ok(stream),
    }
}

/// The phrase that the system uses, without its number.
fn plain_words(cause: &std::io::Error) -> String {
    let text = cause.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn tune(stream: TcpStream, side: Side) -> Result<TcpStream, Error> {
    // Payload is written in large batches, so waiting to fill segments only delays heads.
    stream
        .set_nodelay(true)
        .map_err(|cause| Error::new(ErrorCode::PeerUnreachable, side, Phase::Connect).with_private(cause))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_families_alternate() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (a, b, c, d) = (parse("[::1]:1"), parse("[::2]:1"), parse("1.1.1.1:1"), parse("[::3]:1"));
        assert_eq!(interleave(vec![a, b, c, d]), vec![a, c, b, d]);
    }

    #[tokio::test]
    async fn a_refused_port_and_a_refused_address_are_told_apart() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let timeout = Duration::from_secs(5);
        assert!(
            dial("127.0.0.1", port, AddressPolicy::ANY, timeout, Side::Source)
                .await
                .is_ok()
        );
        let strict = AddressPolicy {
            local: false,
            private: true,
        };
        let refused = dial("localhost", port, strict, timeout, Side::Source)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), ErrorCode::PeerAddressRefused);
        assert!(refused.public().contains("(localhost is "), "{refused}");
        let plain = dial("127.0.0.1", port, strict, timeout, Side::Source)
            .await
            .unwrap_err();
        assert!(!plain.public().contains("(127.0.0.1"), "{plain}");
        drop(listener);
        let closed = dial("127.0.0.1", port, AddressPolicy::ANY, timeout, Side::Source)
            .await
            .unwrap_err();
        assert_eq!(closed.code(), ErrorCode::PeerUnreachable);
        assert!(closed.public().contains("refused"), "{closed}");
    }
}
