//! Where the campaign takes place: two servers behind a relay each, and what they must hold.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use conformance::{Lab, adler32, base64_of, bytes, parts, visible};
use serde_json::Value;
use testkit::{Crossload, Direction, Fault as Break, Relay, Result, Tmpfs, available};

use super::fault::{Fault, Victim};
use super::operation::{Operation, Way};
use super::{Ledger, Outcome};
use crate::dice::Dice;

/// Quick enough that what hangs is soon given up.
const LIMITS: &str = "attempts = 2\nstall_timeout = \"3s\"\nfirst_byte_timeout = \"3s\"\nconnect_timeout = \"3s\"\n\
                      marker_period = \"500ms\"\n";
/// Longest time of a client; one that still waits then is killed.
const CLIENT_TIME: Duration = Duration::from_secs(15);
/// How soon a server must have cleaned up.
const SOON: Duration = Duration::from_secs(30);
const STOP_TIME: Duration = Duration::from_millis(150);
const POLL: Duration = Duration::from_micros(200);
/// Names that are written again and again.
const NAMES: usize = 12;
/// What the small disk holds.
const SMALL_BYTES: usize = 8 << 20;
/// Behind heads and requests, whose bits nothing protects in clear text.
const PAYLOAD_BEGINS: usize = 64 * 1024;

/// One of the two servers.
struct Party {
    server: Crossload,
    relay: Relay,
    /// What must be there, by the path below `/`.
    holds: BTreeMap<String, Vec<u8>>,
    /// Uploads that came to nothing; the newest last.
    refused: Vec<Refused>,
    directories: Vec<(&'static str, PathBuf)>,
}

/// An upload that came to nothing.
struct Refused {
    path: String,
    words: String,
    size: usize,
    adler32: u32,
}

/// Both, and what is around them.
pub(crate) struct Ground {
    source: Party,
    destination: Party,
    small: PathBuf,
    is_small_disk: bool,
    /// Unmounted before the lab removes its directory.
    _disk: Option<Tmpfs>,
    lab: Lab,
}

/// A client on its way.
struct Client {
    child: Child,
    output: PathBuf,
    heads: PathBuf,
}

impl Client {
    fn start(lab: &Lab, mut command: Command, input: Option<&Path>, output: PathBuf, heads: PathBuf) -> Self {
        let said = lab.fresh("said");
        let input = input.map_or_else(Stdio::null, |path| fs::File::open(path).expect("its input").into());
        let said = fs::File::create(&said).expect("its output");
        command
            .stdin(input)
            .stdout(said.try_clone().expect("once more"))
            .stderr(said);
        Self {
            child: command.spawn().expect("it starts"),
            output,
            heads,
        }
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Waits for its end; whether it ended with success. One that does not end is killed.
    fn succeeded(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.is_running() && Instant::now() < end {
            thread::sleep(POLL);
        }
        self.kill();
        self.child.wait().is_ok_and(|status| status.success())
    }
}

impl Party {
    fn start(lab: &Lab, name: &str, small: Option<(&Path, bool)>) -> Result<Self> {
        let mut options = lab.options(name);
        LIMITS.clone_into(&mut options.limits);
        let mut directories = vec![("data", options.exports[0].directory.clone())];
        if let Some((directory, is_disk)) = small {
            let quota = if is_disk { 0 } else { SMALL_BYTES };
            options.more = format!(
                "[[export]]\npath = \"/small\"\ndirectory = {directory:?}\nanonymous = \"write\"\nreserve_bytes = 0\n\
                 quota_bytes = {quota}\n"
            );
            directories.push(("small", directory.to_owned()));
        }
        let server = lab.crossload(options)?;
        let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port())))?;
        Ok(Self {
            server,
            relay,
            holds: BTreeMap::new(),
            refused: Vec::new(),
            directories,
        })
    }

    fn url(&self, scheme: &str, path: &str) -> String {
        let port = self.relay.port();
        let slash = if scheme.starts_with("root") { "/" } else { "" };
        format!("{scheme}://localhost:{port}{slash}/{path}")
    }

    fn on_disk(&self, path: &str) -> PathBuf {
        let (export, name) = path.split_once('/').expect("an export and a name");
        let directory = self.directories.iter().find(|(found, _)| *found == export);
        directory.expect("an export").1.join(name)
    }

    fn stored(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.on_disk(path)).ok()
    }

    /// Whose upload that is among those that were thought to have failed.
    fn whose(&self, path: &str, content: &[u8]) -> Option<String> {
        let (size, adler32) = (content.len(), adler32(content));
        let matches = |one: &Refused| one.path == path && one.size == size && one.adler32 == adler32;
        let at = self.refused.iter().rposition(matches)?;
        let words = &self.refused[at].words;
        Some(format!("came late, {} failures ago: {words}", self.refused.len() - at))
    }

    fn has_parts(&self) -> bool {
        self.directories
            .iter()
            .any(|(_, directory)| !parts(directory).is_empty())
    }

    /// Waits until the server has ended what its clients have left, after which nothing may come
    /// under a name any more.
    fn demand_no_requests(&self, words: &str, ledger: &mut Ledger) {
        let end = Instant::now() + SOON;
        while self.relay.abandoned_connections() > 0 {
            if Instant::now() > end {
                return ledger.violation(format!("{words}: the server goes on with what its client has left"));
            }
            thread::sleep(POLL);
        }
    }

    /// Demands that nothing unfinished is left.
    fn demand_no_parts(&self, words: &str, ledger: &mut Ledger) {
        let end = Instant::now() + SOON;
        while self.has_parts() {
            if Instant::now() > end {
                let left: Vec<_> = self
                    .directories
                    .iter()
                    .flat_map(|(_, directory)| parts(directory))
                    .collect();
                return ledger.violation(format!("{words}: parts are left: {left:?}"));
            }
            thread::sleep(POLL);
        }
    }

    fn begin_again(&mut self, words: &str, ledger: &mut Ledger) {
        if let Err(fault) = self.server.start_again() {
            ledger.violation(format!("{words}: it does not start again: {fault}"));
        }
        self.demand_no_parts(words, ledger);
    }

    /// Looks at every file.
    fn audit(&self, name: &str, ledger: &mut Ledger) {
        for (path, content) in &self.holds {
            if self.stored(path).as_ref() != Some(content) {
                ledger.violation(format!("{name}: {path} is not what was stored"));
            }
        }
        for (export, directory) in &self.directories {
            for file in visible(directory) {
                let path = format!("{export}/{file}");
                if !self.holds.contains_key(&path) {
                    ledger.violation(format!("{name}: {path} was never stored"));
                }
            }
        }
    }
}

impl Ground {
    pub(crate) fn new() -> Result<Self> {
        let lab = Lab::new("campaign")?;
        let small = lab.fresh("small");
        let disk = available(
            "a small disk, for the campaign",
            Tmpfs::mount(&small, SMALL_BYTES as u64),
        );
        let export = small.join("files");
        fs::create_dir_all(&export)?;
        Ok(Self {
            source: Party::start(&lab, "source", None)?,
            destination: Party::start(&lab, "destination", Some((&export, disk.is_some())))?,
            small,
            is_small_disk: disk.is_some(),
            lab,
            _disk: disk,
        })
    }

    fn party(&mut self, victim: Victim) -> &mut Party {
        match victim {
            Victim::Source => &mut self.source,
            Victim::Destination => &mut self.destination,
        }
    }

    /// Stops both servers and starts them again.
    pub(crate) fn begin_again(&mut self, ledger: &mut Ledger) {
        for party in [&mut self.source, &mut self.destination] {
            party.begin_again("at the end", ledger);
        }
    }

    pub(crate) fn audit(&self, ledger: &mut Ledger) {
        self.source.audit("source", ledger);
        self.destination.audit("destination", ledger);
    }

    /// One operation with one fault, and what is stored afterwards.
    pub(crate) fn play(
        &mut self,
        dice: &mut Dice,
        operation: &Operation,
        fault: Fault,
        ledger: &mut Ledger,
    ) -> Outcome {
        let words = operation.words(fault);
        let content = bytes(operation.size, operation.seed);
        let path = self.prepare(dice, operation, fault, &content);
        let closed = self.closed(&path);
        let mut client = self.start(operation, &path, &content);
        let moment = dice.below(operation.size.max(1)) as u64;
        self.strike(dice, fault, operation, moment, &mut client);
        let mut acknowledged = client.succeeded(CLIENT_TIME) && Self::is_told(operation, &client);
        if acknowledged && operation.way == Way::Xrdcp && matches!(fault, Fault::Kill(_)) {
            acknowledged = self.closed(&path) > closed;
        }
        if operation.way == Way::Download {
            acknowledged = self.finish_download(operation, acknowledged, &mut client, &content, &words, ledger);
        }
        self.restore(&words, ledger);
        if operation.way == Way::Download {
            return if acknowledged {
                Outcome::Acknowledged
            } else {
                Outcome::Refused
            };
        }
        self.judge(&path, &content, acknowledged, &words, ledger)
    }

    /// Puts what is to be copied, and what is to be replaced, in their places; returns the
    /// destination's path.
    fn prepare(&mut self, dice: &mut Dice, operation: &Operation, fault: Fault, content: &[u8]) -> String {
        let export = if fault == Fault::Full { "small" } else { "data" };
        let path = format!("{export}/file-{}", dice.below(NAMES));
        let party = &mut self.destination;
        if fault == Fault::Full {
            // One file is on the small disk at a time.
            for old in party
                .holds
                .keys()
                .filter(|path| path.starts_with("small/"))
                .cloned()
                .collect::<Vec<_>>()
            {
                let _ = fs::remove_file(party.on_disk(&old));
                party.holds.remove(&old);
            }
        }
        if !operation.replaces {
            let _ = fs::remove_file(party.on_disk(&path));
            party.holds.remove(&path);
        } else if !party.holds.contains_key(&path) {
            let old = bytes(10_000, operation.seed ^ 1);
            fs::write(party.on_disk(&path), &old).expect("what is replaced");
            party.holds.insert(path.clone(), old);
        }
        if operation.way.has_source() {
            fs::write(self.source.on_disk("data/source"), content).expect("what is copied");
            self.source.holds.insert("data/source".to_owned(), content.to_vec());
        }
        path
    }

    fn start(&self, operation: &Operation, path: &str, content: &[u8]) -> Client {
        let (lab, scheme) = (&self.lab, operation.scheme());
        let to = self.destination.url(scheme, path);
        let from = self.source.url(scheme, "data/source");
        let (output, heads) = (lab.fresh("output"), lab.fresh("heads"));
        let file = lab.file(content);
        let file = file.to_str().expect("plain");
        let digest = format!("Digest: adler32={:08x}", adler32(content));
        let sha = format!("Repr-Digest: sha-256=:{}:", base64_of(&conformance::sha256_of(content)));
        let shown = [output.to_str().expect("plain"), heads.to_str().expect("plain")];
        let curl = |arguments: &[&str]| {
            let all = [&["-D", shown[1], "-o", shown[0]], arguments].concat();
            lab.curl_command(&all).expect("curl")
        };
        let client = |arguments: &[&str]| lab.client(arguments).expect("our client");
        let xrdcp = |arguments: &[&str]| {
            let mut command = lab.command("xrdcp").expect("xrdcp");
            command.args(["-f", "-s"]).args(arguments);
            command
                .env("XRD_CONNECTIONWINDOW", "2")
                .env("XRD_STREAMERRORWINDOW", "2")
                .env("XRD_REQUESTTIMEOUT", "10");
            command
        };
        let command = match operation.way {
            Way::Curl if operation.root => curl(&["-H", &sha, "-T", file, &to]),
            Way::Curl => curl(&["-H", &digest, "-T", file, &to]),
            Way::CurlChunked => curl(&["-T", "-", &to]),
            Way::Xrdcp => xrdcp(&[file, &to]),
            Way::Upload => client(&["copy", "-f", file, &to]),
            Way::Pull => curl(&["-X", "COPY", "-H", &format!("Source: {from}"), &to]),
            Way::Push => curl(&["-X", "COPY", "-H", &format!("Destination: {to}"), &from]),
            Way::RootCopy => xrdcp(&["--tpc", "only", &from, &to]),
            Way::Stream => client(&["copy", "-f", "--mode", "stream", &from, &to]),
            Way::Download => client(&["copy", "-f", &from, shown[0]]),
        };
        let input = (operation.way == Way::CurlChunked).then_some(Path::new(file));
        Client::start(lab, command, input, output.clone(), heads.clone())
    }

    /// How often the destination has answered the close of a file with success. Of Debian's xrdcp,
    /// 1 in 70 ends with 0 when its server is killed while it writes, and nothing was acknowledged.
    fn closed(&self, path: &str) -> usize {
        let is_close = |line: &Value| {
            line["method"] == "close" && line["status"] == 0 && line["path"] == format!("/{path}").as_str()
        };
        let lines = conformance::requests(self.destination.server.log());
        lines.iter().filter(|line| is_close(line)).count()
    }

    /// Whether the answer says that all went well.
    fn is_told(operation: &Operation, client: &Client) -> bool {
        let heads = fs::read_to_string(&client.heads).unwrap_or_default();
        let status = heads
            .lines()
            .filter_map(|line| line.strip_prefix("HTTP/1.1 "))
            .next_back()
            .unwrap_or_default();
        let said = fs::read(&client.output).unwrap_or_default();
        match operation.way {
            Way::Curl | Way::CurlChunked => status.starts_with("20"),
            Way::Pull | Way::Push => String::from_utf8_lossy(&said)
                .lines()
                .next_back()
                .is_some_and(|line| line.starts_with("success")),
            _ => true,
        }
    }

    /// Waits until so many bytes have passed, and lets it go wrong.
    fn strike(&mut self, dice: &mut Dice, fault: Fault, operation: &Operation, moment: u64, client: &mut Client) {
        let (victim, direction) = watched(operation);
        match fault {
            Fault::None => return,
            Fault::Cut(at) => {
                return self
                    .party(at)
                    .relay
                    .set_fault(Break::CutAfter(payload_direction(at), moment), 1 + dice.below(3));
            }
            Fault::Flip(at) => {
                let behind = PAYLOAD_BEGINS + dice.below(operation.size - 2 * PAYLOAD_BEGINS);
                return self
                    .party(at)
                    .relay
                    .set_fault(Break::FlipBitAfter(payload_direction(at), behind as u64), 1);
            }
            _ => {}
        }
        let begun = self.party(victim).relay.passed_bytes(direction);
        while client.is_running() && self.party(victim).relay.passed_bytes(direction) - begun < moment {
            thread::sleep(POLL);
        }
        match fault {
            Fault::Kill(at) => self.party(at).server.process().kill_hard(),
            Fault::Stop(at) => {
                let process = self.party(at).server.process();
                let _ = process.pause();
                thread::sleep(STOP_TIME);
                let _ = process.resume();
            }
            Fault::KillClient => client.kill(),
            Fault::Full if self.is_small_disk => {
                let _ = fs::write(self.small.join("ballast"), vec![1; SMALL_BYTES]);
            }
            _ => {}
        }
    }

    /// All is well again, and nothing unfinished is left.
    fn restore(&mut self, words: &str, ledger: &mut Ledger) {
        let _ = fs::remove_file(self.small.join("ballast"));
        for party in [&mut self.source, &mut self.destination] {
            party.relay.heal();
            if !party.server.process().is_running() {
                party.begin_again(words, ledger);
            }
        }
        for party in [&self.source, &self.destination] {
            party.demand_no_requests(words, ledger);
            party.demand_no_parts(words, ledger);
        }
    }

    /// A download that did not succeed is made once more, and goes on where it stopped.
    fn finish_download(
        &mut self,
        operation: &Operation,
        acknowledged: bool,
        client: &mut Client,
        content: &[u8],
        words: &str,
        ledger: &mut Ledger,
    ) -> bool {
        let there = fs::read(&client.output).ok();
        if there.as_deref().is_some_and(|found| found != content) || (acknowledged && there.is_none()) {
            ledger.violation(format!("{words}: what was downloaded is not what is stored"));
        }
        if !acknowledged {
            self.source.relay.heal();
            if !self.source.server.process().is_running() {
                self.source.begin_again(words, ledger);
            }
            let from = self.source.url(operation.scheme(), "data/source");
            let target = client.output.to_str().expect("plain");
            let command = self.lab.client(["copy", "-f", &from, target]).expect("our client");
            let mut again = Client::start(&self.lab, command, None, client.output.clone(), client.heads.clone());
            if !again.succeeded(CLIENT_TIME) || fs::read(&client.output).ok().as_deref() != Some(content) {
                ledger.violation(format!("{words}: the download does not go on"));
            }
        }
        let _ = fs::remove_file(&client.output);
        acknowledged
    }

    /// What is under the name: the new content, or what was there before.
    fn judge(&mut self, path: &str, content: &[u8], acknowledged: bool, words: &str, ledger: &mut Ledger) -> Outcome {
        let party = &mut self.destination;
        let (found, before) = (party.stored(path), party.holds.get(path).cloned());
        if found.as_deref() == Some(content) {
            party.holds.insert(path.to_owned(), content.to_vec());
            self.ask_checksum(path, content, words, ledger);
            return if acknowledged {
                Outcome::Acknowledged
            } else {
                Outcome::Unheard
            };
        }
        let size = found.as_ref().map(Vec::len);
        let is_before = found == before;
        let whose = found.as_ref().and_then(|found| party.whose(path, found));
        party.refused.push(Refused {
            path: path.to_owned(),
            words: words.to_owned(),
            size: content.len(),
            adler32: adler32(content),
        });
        match found {
            Some(found) => drop(party.holds.insert(path.to_owned(), found)),
            None => drop(party.holds.remove(path)),
        }
        if !is_before {
            let whose = whose.unwrap_or_else(|| "no client has stored".to_owned());
            ledger.violation(format!("{words}: /{path} holds {size:?} bytes that {whose}"));
            return Outcome::Broken;
        }
        if acknowledged {
            ledger.violation(format!("{words}: /{path} was acknowledged and is not there"));
            return Outcome::Lost;
        }
        Outcome::Refused
    }

    /// The server says the right checksum of what is stored.
    fn ask_checksum(&self, path: &str, content: &[u8], words: &str, ledger: &mut Ledger) {
        let url = self.destination.server.clear_url(&format!("/{path}"));
        let answer = self.lab.request("HEAD", &url, &["Want-Digest: adler32"]);
        let wanted = format!("adler32={:08x}", adler32(content));
        if answer.header("digest") != Some(wanted.as_str()) {
            ledger.violation(format!(
                "{words}: the checksum is told as {:?}, not {wanted}",
                answer.header("digest")
            ));
        }
    }
}

/// Where the payload goes in the connection to this side of a copy.
fn payload_direction(side: Victim) -> Direction {
    if side == Victim::Source {
        Direction::ToClient
    } else {
        Direction::ToTarget
    }
}

/// The relay whose bytes tell how far an operation is.
fn watched(operation: &Operation) -> (Victim, Direction) {
    match operation.way {
        Way::Pull | Way::RootCopy | Way::Stream | Way::Download => (Victim::Source, Direction::ToClient),
        _ => (Victim::Destination, Direction::ToTarget),
    }
}
