//! Connects to the server as clients do: at every address, with both protocols, and from another
//! server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use remote::{Access, Client, CopyOrder, Direction, Resource};
use types::{Error, ErrorCode, Location, Phase, Side};

use super::finding::{Finding, Position};

/// Time limit for a door's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for another server's attempt.
const FROM_TIMEOUT: Duration = Duration::from_secs(90);

/// The addresses and names to connect to.
pub(crate) struct Doors<'a> {
    /// Verifies the server's certificate against its name, as clients do.
    pub(crate) client: &'a Client,
    /// Does not verify, for a server without a name.
    pub(crate) unverified: &'a Client,
    pub(crate) listen: &'a [SocketAddr],
    pub(crate) name: Option<&'a Location>,
    pub(crate) has_certificate: bool,
    pub(crate) speaks_root: bool,
    pub(crate) listen_position: Position,
    pub(crate) name_position: Position,
}

/// The answer of one address.
pub(crate) struct Answer {
    /// The address, or the URL.
    pub(crate) place: String,
    pub(crate) is_name: bool,
    pub(crate) result: Result<(), Error>,
}

impl Doors<'_> {
    /// Connects to all of them.
    pub(crate) async fn check(&self) -> Vec<Finding> {
        let mut answers = Vec::new();
        for address in self.listen.iter().filter(|address| address.port() != 0) {
            let (scheme, root) = match self.has_certificate {
                true => ("https", "root"),
                false => ("http", "root"),
            };
            let mut schemes = vec![scheme];
            schemes.extend(self.speaks_root.then_some(root));
            for scheme in schemes {
                answers.push(self.dial(*address, scheme).await);
            }
        }
        if let Some(name) = self.name {
            answers.push(self.dial_name(name).await);
        }
        self.judge(&answers)
    }

    async fn dial(&self, address: SocketAddr, scheme: &str) -> Answer {
        let dialled = reachable(address);
        let host = self
            .name
            .map_or_else(|| bracketed(dialled.ip()), |name| name.host().to_owned());
        let client = match self.name {
            Some(_) => self.client.pinned(&host, dialled.ip()),
            None => self.unverified.clone(),
        };
        let result = match Location::parse(&format!("{scheme}://{host}:{}/", dialled.port())) {
            Ok(place) => speak(&client, &place).await,
            Err(error) => Err(error),
        };
        Answer {
            place: format!("{scheme}://{address}"),
            is_name: false,
            result,
        }
    }

    async fn dial_name(&self, name: &Location) -> Answer {
        Answer {
            place: name.to_string(),
            is_name: true,
            result: speak(self.client, name).await,
        }
    }

    /// Judges the answers.
    pub(crate) fn judge(&self, answers: &[Answer]) -> Vec<Finding> {
        let is_silent = |answer: &Answer| answer.result.as_ref().is_err_and(is_closed);
        if !answers.is_empty() && answers.iter().all(is_silent) {
            let says = "no answer at the server's addresses: it is not running, and its ports were not checked";
            return vec![Finding::note("not_running", says).at(self.listen_position.clone())];
        }
        let judged = answers.iter().map(|answer| {
            let Err(error) = &answer.result else {
                return Finding::ok("port", format!("{} answers", answer.place));
            };
            let position = match answer.is_name {
                true => self.name_position.clone(),
                false => self.listen_position.clone(),
            };
            describe(&answer.place, error).at(position)
        });
        judged.collect()
    }
}

/// The finding for a failure.
fn describe(place: &str, error: &Error) -> Finding {
    let words = error.detail().map_or_else(String::new, |detail| format!(" ({detail})"));
    let says = |what: &str| format!("{place}: {what}{words}");
    match error.code() {
        code if is_closed(error) => {
            let meaning = code.meaning().to_ascii_lowercase();
            Finding::error("port_closed", says(&meaning))
                .change("open the port in the firewall, or correct server.listen or server.name")
        }
        ErrorCode::PeerTlsFailed => Finding::error(
            "tls_failed",
            says("the TLS connection fails with the authorities trusted here"),
        )
        .change("see the findings about the certificate; reload a server that still has the old one"),
        _ => Finding::error(
            "door_silent",
            says("another program answers, which does not speak this protocol"),
        )
        .change("find the program that listens there (`ss -ltnp` shows it)"),
    }
}

fn is_closed(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::PeerUnreachable | ErrorCode::PeerConnectTimeout | ErrorCode::PeerUnresolved
    )
}

/// Sends a request in the protocol of the place. Any answer will do.
async fn speak(client: &Client, place: &Location) -> Result<(), Error> {
    let resource = Resource {
        location: place.clone(),
        access: Access::default(),
        side: Side::Active,
    };
    let late = || Error::new(ErrorCode::PeerConnectTimeout, Side::Active, Phase::Connect);
    match tokio::time::timeout(ANSWER_TIMEOUT, client.ping(&resource))
        .await
        .unwrap_or_else(|_| Err(late()))
    {
        // A refusal is an answer.
        Err(error) if error.peer_status().is_some() || error.peer_words().is_some() => Ok(()),
        Err(error) if error.code() == ErrorCode::PeerDenied => Ok(()),
        other => other,
    }
}

/// The URL with another scheme at which the same port answers. `is_http_only`: no other protocol is
/// looked for.
pub(super) async fn spoken_at(unverified: &Client, url: &str, is_http_only: bool) -> Option<String> {
    let written = Location::parse(url).ok()?;
    let (host, port) = (written.host(), written.port());
    let path = written.path().trim_start_matches('/');
    for (scheme, slashes) in [("https", "/"), ("http", "/"), ("root", "//")] {
        let other = format!("{scheme}://{host}:{port}{slashes}{path}");
        let place = Location::parse(&other).ok()?;
        let is_same = place.is_http() == written.is_http() && place.is_encrypted() == written.is_encrypted();
        if is_same || is_http_only && !place.is_http() {
            continue;
        }
        if speak(unverified, &place).await.is_ok() {
            return Some(other);
        }
    }
    None
}

/// The address to connect to for a listening address.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// Asks another server to fetch a nonexistent file from this one. The failure shows whether it can
/// connect. Nothing is stored there.
pub(crate) async fn from_elsewhere(
    client: &Client,
    access: &Access,
    other: &Location,
    name: &Location,
    position: Position,
) -> Finding {
    let probe = format!("crossload-check-{}", std::process::id());
    let active = Resource {
        location: other.child(&probe),
        access: access.clone(),
        side: Side::Destination,
    };
    let order = CopyOrder::new(name.child(&probe), Direction::Pull, Access::default());
    let copied = tokio::time::timeout(FROM_TIMEOUT, async {
        let mut copying = client.copy(&active, &order).await?;
        while copying.next().await?.is_some() {}
        Ok::<(), Error>(())
    });
    let result = copied.await;
    let host = other.host();
    let unknown = |why: String| {
        let says = format!("{host} did not try to connect to this server: {why}");
        Finding::warning("from_unknown", says).change("give --from a directory where you may write")
    };
    match result {
        Err(_) => unknown(format!("no answer within {} s", FROM_TIMEOUT.as_secs())),
        Ok(Ok(())) => Finding::ok("from", format!("{host} can connect to {name}")),
        Ok(Err(error)) if error.side() == Side::Source => judge_from(host, name, &error).at(position),
        Ok(Err(error)) => unknown(error.public()),
    }
}

/// Judges the failure of another server to fetch from this one.
pub(crate) fn judge_from(host: &str, name: &Location, error: &Error) -> Finding {
    match error.code() {
        ErrorCode::PeerNotFound | ErrorCode::PeerDenied | ErrorCode::PeerForbidden => {
            Finding::ok("from", format!("{host} can connect to {name}"))
        }
        _ => {
            let says = format!("{host} cannot connect to {name}: {}", error.public());
            Finding::error("closed_from_elsewhere", says)
                .change("open the port in the firewalls between them, or correct server.name")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_mean_all_are_dialled_on_loopback() {
        assert_eq!(reachable("0.0.0.0:1".parse().unwrap()).to_string(), "127.0.0.1:1");
        assert_eq!(reachable("[::]:1".parse().unwrap()).to_string(), "[::1]:1");
        assert_eq!(reachable("192.0.2.1:1".parse().unwrap()).to_string(), "192.0.2.1:1");
    }
}
