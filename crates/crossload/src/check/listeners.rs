//! Checks the listening addresses: whether the host has them, whether they collide, and which
//! program answers there.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use config::Configuration;
use http_wire::{HeadLimits, Method, RequestBuilder};
use net::address::AddressPolicy;
use net::dial::dial;
use net::http::Connection;
use net::{Role, Stream, Waits};
use types::{Error, Location, Side};

use super::finding::{Finding, Position};
use super::lines::Lines;
use super::ports::Doors;

/// Time limit for a program's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The beginning of our servers' product name.
const OURS: &str = "crossload/";

/// Checks the addresses without binding them.
pub(crate) fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let positions = positions(configuration, lines);
    let mut findings = Vec::new();
    for (index, (address, position)) in positions.iter().enumerate() {
        if is_missing(address.ip()) {
            let says = format!(
                "this machine does not have the address {}: the server cannot listen on it",
                address.ip()
            );
            let finding = Finding::error("address_missing", says).at(position.clone());
            findings.push(finding.change("name an address that `ip addr` shows, or [::] for all of them"));
        }
        if let Some((other, _)) = positions[..index].iter().find(|(other, _)| collide(*other, *address)) {
            let says = format!("{address} collides with {other}, another listening address: the server does not start");
            let finding = Finding::error("address_twice", says).at(position.clone());
            findings.push(finding.change("use another port, or remove one of them"));
        }
    }
    findings
}

/// Dials the doors, unless another program uses one of their addresses: its answers would mislead.
pub(crate) async fn check_doors(configuration: &Configuration, lines: &Lines, doors: &Doors<'_>) -> Vec<Finding> {
    let held = held_by_others(configuration, lines).await;
    match held.is_empty() {
        true => doors.check().await,
        false => held,
    }
}

/// Finds addresses at which another program answers.
async fn held_by_others(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (address, position) in positions(configuration, lines) {
        if address.port() == 0 || is_missing(address.ip()) {
            continue;
        }
        let Some(holder) = holder(address, "/health").await else {
            continue;
        };
        if is_ours(&holder, configuration.server.admin_listen == Some(address)) {
            continue;
        }
        let name = holder.and_then(|(_, name)| name);
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        let says = format!("another program{name} uses {address}: this server cannot listen on it");
        let finding = Finding::error("port_held", says).at(position);
        findings.push(finding.change("stop that program (`ss -ltnp` shows which), or use another port"));
    }
    findings
}

fn positions(configuration: &Configuration, lines: &Lines) -> Vec<(SocketAddr, Position)> {
    let server = &configuration.server;
    let listen = server
        .listen
        .iter()
        .map(|address| (*address, lines.of("server", "listen")));
    let admin = server
        .admin_listen
        .map(|address| (address, lines.of("server", "admin_listen")));
    let web = &configuration.web;
    let pages = [("listen", web.listen), ("queue_listen", web.queue_listen)].into_iter();
    let pages = pages.filter_map(|(key, address)| Some((address?, lines.of("web", key))));
    listen.chain(admin).chain(pages).collect()
}

/// Whether the host lacks the address. Sends nothing and binds only a free port.
fn is_missing(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_err_and(|cause| cause.kind() == ErrorKind::AddrNotAvailable)
}

/// Whether two listeners cannot have both addresses. `[::]` includes IPv4.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |wide: IpAddr, narrow: IpAddr| match wide {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => true,
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => narrow.to_canonical().is_ipv4(),
        wide => wide.to_canonical() == narrow.to_canonical(),
    };
    let same_port = one.port() == other.port() && one.port() != 0;
    same_port && (covers(one.ip(), other.ip()) || covers(other.ip(), one.ip()))
}

/// A listening program: whether it answered the request with success, and its product name.
type Holder = Option<(bool, Option<String>)>;

/// Asks the program at an address in clear text; `None` if nothing listens there.
async fn holder(address: SocketAddr, path: &str) -> Option<Holder> {
    let reached = super::ports::reachable(address);
    let place = Location::parse(&format!("http://{reached}{path}")).ok()?;
    let tcp = dial(
        place.host(),
        place.port(),
        AddressPolicy::ANY,
        ANSWER_TIMEOUT,
        Side::Active,
    )
    .await
    .ok()?;
    let asked = async {
        let mut connection = Connection::new(Stream::clear(tcp, Role::Peer(Side::Active), waits()));
        let request = RequestBuilder::new(&Method::Head, &place).accept_anything().close();
        connection.stream.queue(&request.finish());
        connection.stream.flush().await?;
        let head = connection.response(&HeadLimits::default(), ANSWER_TIMEOUT).await?;
        Ok::<_, Error>((head.is_success(), head.server().map(str::to_owned)))
    };
    Some(
        tokio::time::timeout(ANSWER_TIMEOUT, asked)
            .await
            .ok()
            .and_then(Result::ok),
    )
}

/// Whether this is a server of ours. The admin door has no product name, but answers.
fn is_ours(holder: &Holder, is_admin: bool) -> bool {
    match holder {
        Some((_, Some(name))) => name.starts_with(OURS),
        Some((is_success, None)) => is_admin && *is_success,
        None => false,
    }
}

fn waits() -> Waits {
    Waits {
        handshake: ANSWER_TIMEOUT,
        stall: ANSWER_TIMEOUT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_collide_where_one_covers_the_other() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (one, other) in [
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("0.0.0.0:1", "192.0.2.1:1"),
            ("[::]:1", "192.0.2.1:1"),
            ("[::]:1", "[2001:db8::1]:1"),
            ("[::ffff:192.0.2.1]:1", "192.0.2.1:1"),
        ] {
            assert!(
                collide(parse(one), parse(other)) && collide(parse(other), parse(one)),
                "{one} {other}"
            );
        }
        for (one, other) in [
            ("127.0.0.1:1", "127.0.0.1:2"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("0.0.0.0:1", "[2001:db8::1]:1"),
            ("192.0.2.1:1", "192.0.2.2:1"),
        ] {
            assert!(!collide(parse(one), parse(other)), "{one} {other}");
        }
    }

    #[tokio::test]
    async fn a_program_that_says_nothing_holds_its_port_too() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let silent = std::thread::spawn(move || drop(listener.accept()));
        assert_eq!(holder(address, "/").await, Some(None));
        silent.join().unwrap();
        assert_eq!(holder(address, "/").await, None, "nothing listens any more");
    }
}
