//! The doors as clients find them: dialled at every address, in both protocols, and from elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use remote::{Access, Client, CopyOrder, Direction, Resource};
use types::{Error, ErrorCode, Location, Phase, Side};

use super::finding::{Finding, Spot};

/// How long a door may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long another server may take to try.
const PATIENCE_FROM: Duration = Duration::from_secs(90);

/// What is dialled.
pub(crate) struct Doors<'a> {
    /// Verifies the server's certificate against its name, as clients do.
    pub(crate) client: &'a Client,
    /// Does not, for addresses when the server has no name.
    pub(crate) believing: &'a Client,
    pub(crate) listen: &'a [SocketAddr],
    pub(crate) name: Option<&'a Location>,
    pub(crate) has_certificate: bool,
    pub(crate) speaks_root: bool,
    pub(crate) listen_spot: Spot,
    pub(crate) name_spot: Spot,
}

/// How one address answered.
pub(crate) struct Answer {
    /// The address, or the URL.
    pub(crate) place: String,
    pub(crate) is_name: bool,
    pub(crate) result: Result<(), Error>,
}

impl Doors<'_> {
    /// Dials everything.
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
            None => self.believing.clone(),
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

    /// What is to be said of the answers.
    pub(crate) fn judge(&self, answers: &[Answer]) -> Vec<Finding> {
        let is_silent = |answer: &Answer| answer.result.as_ref().is_err_and(is_closed);
        if !answers.is_empty() && answers.iter().all(is_silent) {
            let says = "nobody answers at the server's addresses: it does not run, and its ports were not examined";
            return vec![Finding::note("not_running", says).at(self.listen_spot.clone())];
        }
        let judged = answers.iter().map(|answer| {
            let Err(error) = &answer.result else {
                return Finding::ok("port", format!("{} answers", answer.place));
            };
            let spot = match answer.is_name {
                true => self.name_spot.clone(),
                false => self.listen_spot.clone(),
            };
            describe(&answer.place, error).at(spot)
        });
        judged.collect()
    }
}

/// A failure to be served.
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
            says("no client can make a secure connection with these authorities"),
        )
        .change("see what is said of the certificate; a server that runs since before must be reloaded"),
        _ => Finding::error(
            "door_silent",
            says("something answers that is no server of this protocol"),
        )
        .change("look which program listens there (ss -ltnp)"),
    }
}

fn is_closed(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::PeerUnreachable | ErrorCode::PeerConnectTimeout | ErrorCode::PeerUnresolved
    )
}

/// A request in the protocol of the place, to which any answer will do.
async fn speak(client: &Client, place: &Location) -> Result<(), Error> {
    let resource = Resource {
        location: place.clone(),
        access: Access::default(),
        side: Side::Active,
    };
    let late = || Error::new(ErrorCode::PeerConnectTimeout, Side::Active, Phase::Connect);
    match tokio::time::timeout(PATIENCE, client.ping(&resource))
        .await
        .unwrap_or_else(|_| Err(late()))
    {
        // Whoever refuses speaks.
        Err(error) if error.peer_status().is_some() || error.peer_words().is_some() => Ok(()),
        Err(error) if error.code() == ErrorCode::PeerDenied => Ok(()),
        other => other,
    }
}

/// The address to be dialled for one that is listened on.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
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

/// Has another server fetch a file from this one that does not exist: how that fails tells whether it can
/// connect. Nothing comes into being there.
pub(crate) async fn from_elsewhere(
    client: &Client,
    access: &Access,
    other: &Location,
    name: &Location,
    spot: Spot,
) -> Finding {
    let probe = format!("crossload-check-{}", std::process::id());
    let active = Resource {
        location: other.child(&probe),
        access: access.clone(),
        side: Side::Destination,
    };
    let order = CopyOrder::new(name.child(&probe), Direction::Pull, Access::default());
    let copied = tokio::time::timeout(PATIENCE_FROM, async {
        let mut copying = client.copy(&active, &order).await?;
        while copying.next().await?.is_some() {}
        Ok::<(), Error>(())
    });
    let result = copied.await;
    let host = other.host();
    let unknown = |why: String| {
        let says = format!("{host} could not be made to connect to this server, so nothing is known: {why}");
        Finding::warning("from_unknown", says).change("name a directory with --from where you may write")
    };
    match result {
        Err(_) => unknown(format!("no answer within {} s", PATIENCE_FROM.as_secs())),
        Ok(Ok(())) => Finding::ok("from", format!("{host} reaches {name}")),
        Ok(Err(error)) if error.side() == Side::Source => judge_from(host, name, &error).at(spot),
        Ok(Err(error)) => unknown(error.public()),
    }
}

/// What the failure of another server to fetch from this one tells.
pub(crate) fn judge_from(host: &str, name: &Location, error: &Error) -> Finding {
    match error.code() {
        ErrorCode::PeerNotFound | ErrorCode::PeerDenied | ErrorCode::PeerForbidden => {
            Finding::ok("from", format!("{host} reaches {name}"))
        }
        _ => {
            let says = format!("{host} does not reach {name}: {}", error.public());
            Finding::error("closed_from_elsewhere", says)
                .change("open the port in the firewalls in between, or correct server.name")
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
