//! A relay on the way to a server: how it is reached through it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use remote::Client;
use tokio::net::TcpStream;
use types::Location;

use crate::Ground;
use crate::ground::Target;
use crate::relay::Relay;
use crate::report::Failure;

const PHASE: &str = "setting up the delaying relay";
/// How long a server may take to accept a connection, when its address is looked for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long and how wide a line is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measures {
    pub(super) rtt: Duration,
    pub(super) window_bytes: Option<u64>,
}

/// A line to a server, for as long as this is kept.
#[derive(Debug)]
pub(super) struct Line {
    relay: Relay,
    host: String,
}

impl Line {
    /// A line for clients within this program.
    pub(super) async fn for_clients(target: &Target, measures: Measures) -> Result<Self, Failure> {
        let to = address_of(target).await?;
        Self::start(target, Ipv4Addr::LOCALHOST.into(), to, measures).map_err(|cause| failed(&cause))
    }

    /// A line for another server, which must find it where it finds `target`: on this machine.
    pub(super) async fn for_servers(target: &Target, measures: Measures) -> Result<Self, Failure> {
        let to = address_of(target).await?;
        Self::start(target, to.ip(), to, measures).map_err(|cause| match cause.kind() {
            io::ErrorKind::AddrNotAvailable => Failure::new(
                PHASE,
                format!(
                    "{} is another machine, where no relay can be put in front of it",
                    target.place.location.host()
                ),
                "run this on the machine of the server that the other one comes to",
            ),
            _ => failed(&cause),
        })
    }

    fn start(target: &Target, listen: IpAddr, to: SocketAddr, measures: Measures) -> io::Result<Self> {
        let listen = SocketAddr::new(listen, 0);
        Ok(Self {
            relay: Relay::start_with_window(listen, to, measures.rtt, measures.window_bytes)?,
            host: target.place.location.host().to_owned(),
        })
    }

    /// A file of the server as it is reached over the line. Its host keeps its name, for
    /// certificates.
    pub(super) fn leads_to(&self, location: &Location) -> Location {
        location.with_port(self.relay.address().port())
    }

    /// A client that goes to the server's host over the line, with connections of its own.
    pub(super) fn new_client(&self, ground: &Ground) -> Client {
        ground.new_client().pinned(&self.host, self.relay.address().ip())
    }
}

fn failed(cause: &io::Error) -> Failure {
    Failure::new(PHASE, cause.to_string(), "")
}

/// An address at which the server accepts connections.
async fn address_of(target: &Target) -> Result<SocketAddr, Failure> {
    let place = &target.place.location;
    let host = place.host().trim_matches(['[', ']']);
    let found = tokio::net::lookup_host((host, place.port())).await;
    let mut last = None;
    for address in found.map_err(|cause| failed(&cause))? {
        match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(_)) => return Ok(address),
            Ok(Err(cause)) => last = Some(cause.to_string()),
            Err(_) => last = Some("it does not answer".to_owned()),
        }
    }
    let words = last.unwrap_or_else(|| "its name has no address".to_owned());
    Err(Failure::new(PHASE, format!("{}: {words}", place.authority()), ""))
}
