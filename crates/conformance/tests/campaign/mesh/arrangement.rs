//! Which endpoint has which fault, and the run of a mesh with them.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use conformance::{Run, last_json};
use testkit::{Direction, Fault, Relay};

use super::servers::{Make, Server, Servers};
use super::verdict::Found;
use crate::dice::Dice;

/// More than a relay passes on at once, so that a file comes in pieces.
const SIZE: &str = "300KB";
/// Far more than any copy needs, on a busy machine too: the slow link is found by comparison.
const COPY_TIMEOUT: &str = "2m";
/// The rate of the slow link: a file takes 17 s, several times as long as any other on a machine
/// that is busy with other work.
const SLOW_BYTES_S: u32 = 18_000;
const SHORT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\nConnection: close\r\n\r\nshort";
const FORBIDDEN: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
const CALENDAR: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nDTSTART:20200101T000000Z\r\n\
    DTEND:21000101T000000Z\r\nSUMMARY:new disks\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

/// A fault of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plant {
    /// As a source it sends less than it announces.
    Truncates,
    /// As a destination it has no room.
    Full,
    /// Its certificate has expired.
    Expired,
    /// It reports no checksums, although the file of endpoints does not say so.
    NoChecksums,
    /// It forbids deletion.
    Keeps,
    /// Its calendar has a downtime.
    Rests,
}

impl Plant {
    /// Those that few endpoints can have come first.
    const ALL: [Self; 6] = [
        Self::Full,
        Self::Expired,
        Self::Truncates,
        Self::NoChecksums,
        Self::Keeps,
        Self::Rests,
    ];

    fn fits(self, server: &Server) -> bool {
        match self {
            Self::Full => server.full.is_some(),
            Self::Expired => matches!(server.make, Make::Ours | Make::Nginx),
            Self::Truncates | Self::NoChecksums | Self::Keeps | Self::Rests => true,
        }
    }
}

/// An arrangement of faults.
pub(super) struct Arrangement<'a> {
    servers: &'a Servers,
    /// The fault of each endpoint.
    pub(super) plants: Vec<Option<Plant>>,
    /// The ends of the slow link.
    pub(super) slow_source: usize,
    pub(super) slow_destination: usize,
    directory: String,
    made: Vec<PathBuf>,
}

impl<'a> Arrangement<'a> {
    pub(super) fn new(servers: &'a Servers, dice: &mut Dice, seed: u64) -> Self {
        let mut plants: Vec<Option<Plant>> = vec![None; servers.all.len()];
        // Both ends of the slow link copy by themselves.
        let slow_source = pick(dice, |at| servers.all[at].is_active(), servers.all.len());
        let slow_destination = pick(
            dice,
            |at| servers.all[at].is_active() && at != slow_source,
            servers.all.len(),
        );
        for plant in Plant::ALL {
            let is_free = |at: usize| {
                plants[at].is_none() && at != slow_source && at != slow_destination && plant.fits(&servers.all[at])
            };
            let at = pick(dice, is_free, servers.all.len());
            plants[at] = Some(plant);
        }
        let directory = format!("seed-{seed}");
        Self {
            made: servers
                .all
                .iter()
                .map(|server| server.make_directory(&directory))
                .collect(),
            servers,
            plants,
            slow_source,
            slow_destination,
            directory,
        }
    }

    pub(super) fn name(&self, at: usize) -> &str {
        &self.servers.all[at].name
    }

    /// Who has which fault.
    pub(super) fn words(&self) -> String {
        let plants = self.plants.iter().enumerate();
        let mut words: Vec<String> = plants
            .filter_map(|(at, plant)| Some(format!("{} {:?}", self.name(at), (*plant)?)))
            .collect();
        let (from, to) = (self.name(self.slow_source), self.name(self.slow_destination));
        words.push(format!("{from} to {to} slow"));
        words.join(", ")
    }

    /// Runs the mesh.
    pub(super) fn run(&self) -> Found {
        let mut standing = Standing::default();
        let mut file = format!(
            "[mesh]\ntitle = \"{}\"\nsize = \"{SIZE}\"\nparallel = 12\nparallel_each = 3\n\
             copy_timeout = \"{COPY_TIMEOUT}\"\nmodes = [\"pull\", \"push\", \"rendezvous\"]\n",
            self.directory
        );
        for at in 0..self.servers.all.len() {
            file.push_str(&self.endpoint(at, &mut standing));
        }
        self.slow_down(&mut standing);
        let lab = &self.servers.lab;
        let (file, history) = (lab.file(file.as_bytes()), lab.fresh("history.sqlite"));
        let [file, history] = [&file, &history].map(|path| path.to_str().expect("plain"));
        let run: Run = lab
            .run_client("mesh", &[file, "--json", "--history", history])
            .failed_with(1);
        let shown = lab.client(["history", "show", "--json", "--history", history]);
        Found {
            results: last_json(&run),
            shown: last_json(&conformance::run(&shown.expect("the client is built")).succeeded()),
        }
    }

    /// Its lines in the file of endpoints, and the relays before it.
    fn endpoint(&self, at: usize, standing: &mut Standing) -> String {
        let (server, plant) = (&self.servers.all[at], self.plants[at]);
        let http = Relay::start(local(server.http_port)).expect("a relay");
        match plant {
            Some(Plant::Truncates) => http.set_fault(Fault::AnswerAt("GET", SHORT), usize::MAX),
            Some(Plant::Keeps) => http.set_fault(Fault::AnswerAt("DELETE", FORBIDDEN), usize::MAX),
            Some(Plant::NoChecksums) => http.set_fault(Fault::Hide("Want-"), usize::MAX),
            Some(Plant::Full | Plant::Expired | Plant::Rests) | None => {}
        }
        let own_root = server.root_port.filter(|port| *port != server.http_port);
        let root = own_root.map(|port| Relay::start(local(port)).expect("a relay"));
        let root_port = server.root_port.map(|_| root.as_ref().map_or(http.port(), Relay::port));
        standing.root.push(root);
        let directory = match (plant, server.full) {
            (Some(Plant::Full), Some(full)) => full.to_owned(),
            _ => format!("/data/{}", self.directory),
        };
        let mut urls = vec![format!("http://localhost:{}{directory}", http.port())];
        urls.extend(root_port.map(|port| format!("root://localhost:{port}/{directory}")));
        standing.http.push(http);
        let mut more = String::new();
        match plant {
            Some(Plant::Expired) => urls = self.expired(server),
            Some(Plant::Rests) => {
                let calendar = self.servers.lab.file(CALENDAR.as_bytes());
                more.push_str(&format!("calendar = {calendar:?}\n"));
            }
            // What it has not stored it cannot send.
            Some(Plant::Full) => more.push_str("roles = [\"destination\", \"active\", \"passive\"]\n"),
            _ => {}
        }
        if server.make == Make::Nginx {
            more.push_str("roles = [\"source\", \"destination\", \"passive\"]\n");
            if plant != Some(Plant::NoChecksums) {
                more.push_str("checksums = false\n");
            }
        }
        format!("[[endpoint]]\nname = \"{}\"\nurls = {urls:?}\n{more}", server.name)
    }

    /// The URLs of a server of the same make whose certificate has expired.
    fn expired(&self, server: &Server) -> Vec<String> {
        let expired = &self.servers.expired;
        match server.make {
            Make::Nginx => vec![expired.nginx_url.clone()],
            Make::Ours | Make::Xrootd(_) => ["https", "roots"]
                .map(|scheme| format!("{scheme}://localhost:{}//data", expired.ours_port))
                .to_vec(),
        }
    }

    /// Connections of one end of the slow link to the other take a slow way.
    fn slow_down(&self, standing: &mut Standing) {
        let (from, to) = (self.slow_source, self.slow_destination);
        let [source, destination] = [from, to].map(|at| &self.servers.all[at]);
        let mut delay = |relay: &Relay, process: u32, port: u16, direction: Direction| {
            let slow = Relay::start(local(port)).expect("a relay");
            slow.set_fault(Fault::Limit(direction, SLOW_BYTES_S), usize::MAX);
            relay.set_detour(process, slow.address());
            standing.slow.push(slow);
        };
        delay(
            &standing.http[from],
            destination.process,
            source.http_port,
            Direction::ToClient,
        );
        if let (Some(relay), Some(port)) = (&standing.root[from], source.root_port) {
            delay(relay, destination.process, port, Direction::ToClient);
        }
        delay(
            &standing.http[to],
            source.process,
            destination.http_port,
            Direction::ToTarget,
        );
    }
}

impl Drop for Arrangement<'_> {
    /// What may not be deleted through a relay, and what the mesh did not make.
    fn drop(&mut self) {
        for directory in &self.made {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// The relays of a run, by endpoint.
#[derive(Default)]
struct Standing {
    http: Vec<Relay>,
    /// Those of servers with a port of their own for the XRootD protocol.
    root: Vec<Option<Relay>>,
    slow: Vec<Relay>,
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// One of the first `count` numbers that fit.
fn pick(dice: &mut Dice, fits: impl Fn(usize) -> bool, count: usize) -> usize {
    let fitting: Vec<usize> = (0..count).filter(|at| fits(*at)).collect();
    dice.pick(&fitting)
}
