//! Where the campaign takes place: a server with exports in front of others, and the rounds.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use conformance::{Lab, bytes, parts, until, visible};
use testkit::{Crossload, Relay, Result, S3Bucket, Tmpfs, VersityGateway, Xrootd, XrootdAccess};

use super::Ledgers;
use super::fault::Fault;
use super::place::{Behind, Clock, Place, Version};
use super::task::{Outcome, Seen, Task, What};
use crate::dice::Dice;

/// How soon a server must have finished or forgotten what was cut off.
const SOON: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);
/// Quick enough that what hangs is soon given up.
const LIMITS: &str = "attempts = 2\nstall_timeout = \"3s\"\nfirst_byte_timeout = \"3s\"\nconnect_timeout = \"3s\"\n";
/// Files that are there from the beginning and hardly change, and those that are written.
const OLD_NAMES: [&str; 4] = ["old-0", "old-1", "old-2", "old-3"];
const NAMES: [&str; 4] = ["new-0", "new-1", "New-0", "new-3"];
/// Lengths around those of blocks, windows and requests.
const SIZES: [usize; 9] = [0, 1, 1000, 65_537, 300_000, MIB - 1, MIB, MIB + 1, 2_300_000];
const MIB: usize = 1 << 20;
const PART_BYTES: usize = 5 << 20;
/// XRootD holds unfinished files for ten minutes otherwise, and lets their readers wait.
const HOLD: &str = "ofs.persist auto hold 1\n";
/// What the disk of the cache holds: less than the files.
const DISK_BYTES: u64 = 8 << 20;

/// All servers, and what their files may be.
pub(super) struct Ground {
    front: Crossload,
    ours: Crossload,
    _xrootd: Xrootd,
    /// In front of each server behind.
    relays: [Relay; 4],
    objects: VersityGateway,
    places: Vec<Place>,
    clock: Clock,
    round: u64,
    /// Where the server notes uploads in parts.
    uploads: PathBuf,
    /// Unmounted before the lab removes its directory.
    _disk: Option<Tmpfs>,
    _lab: Lab,
}

impl Ground {
    pub(super) fn new() -> Result<Self> {
        let lab = Lab::new("stores")?;
        let xrootd = lab.xrootd_with("behind", XrootdAccess::Open, HOLD)?;
        let ours = lab.crossload(lab.options("behind-ours"))?;
        let objects = VersityGateway::start(&lab.fresh("objects"), lab.host())?;
        let bucket = objects.bucket();
        let relay = |port: u16| Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let relays = [
            relay(ours.port())?,
            relay(ours.port())?,
            relay(xrootd.root_port())?,
            relay(bucket.port())?,
        ];
        let cache = lab.fresh("cache");
        let disk = Tmpfs::mount(&cache, DISK_BYTES).ok();
        std::fs::create_dir_all(&cache)?;
        let mut places = Vec::new();
        let mut options = lab.options("front");
        let keys = keys(bucket, &lab)?;
        LIMITS.clone_into(&mut options.limits);
        options.exports.clear();
        for (behind, relay) in Behind::ALL.into_iter().zip(&relays) {
            let data = match behind {
                Behind::Root => xrootd.data().to_owned(),
                Behind::S3 => objects.data().join(bucket.name()),
                _ => ours.data().to_owned(),
            };
            for is_cached in [false, true] {
                let place = Place::new(behind, is_cached, &data, bucket);
                options.more.push_str(&export(&place, relay.port(), &cache, &keys));
                places.push(place);
            }
        }
        let uploads = options.directory.join("state/crossload/uploads");
        let front = lab.crossload(options)?;
        let mut ground = Self {
            front,
            uploads,
            ours,
            _xrootd: xrootd,
            relays,
            objects,
            places,
            clock: Clock::new(),
            round: 0,
            _disk: disk,
            _lab: lab,
        };
        ground.plant()?;
        Ok(ground)
    }

    /// Makes the directories and the old files.
    fn plant(&mut self) -> Result<()> {
        for place in &mut self.places {
            std::fs::create_dir_all(&place.directory)?;
            open_to_all(&place.directory)?;
            for (number, name) in OLD_NAMES.into_iter().enumerate() {
                let content = bytes(SIZES[8 - number * 2], number as u64);
                place.change(name, &content, self.clock.next());
                place.settle(name, Some(Arc::new(content)), Vec::new(), 0);
            }
            for name in NAMES {
                place.settle(name, None, Vec::new(), 0);
            }
        }
        Ok(())
    }

    /// Several clients at once at one export, and perhaps a fault. Returns what it was.
    pub(super) fn round(&mut self, dice: &mut Dice, ledgers: &mut Ledgers) -> String {
        self.round += 1;
        let number = dice.below(self.places.len());
        let fault = Fault::draw(dice, self.places[number].behind);
        let tasks = self.tasks(dice, number, fault);
        let change = (fault == Fault::Changed).then(|| (dice.pick(&OLD_NAMES), Arc::new(content(dice))));
        let versions: Vec<Vec<Version>> = tasks
            .iter()
            .map(|task| self.versions(number, task, &tasks, &change))
            .collect();
        let listed = self.listed(number, &tasks, &change);
        let relay = &self.relays[self.places[number].behind as usize];
        if let Some((broken, times)) = fault.on_the_way(dice, self.places[number].behind) {
            relay.set_fault(broken, times);
        }
        let delay = Duration::from_micros(dice.below(20_000) as u64);
        let port = self.front.port();
        let seen: Vec<Seen> = thread::scope(|scope| {
            let (listed, mut running) = (&listed, Vec::new());
            for (task, versions) in tasks.iter().zip(&versions) {
                running.push(scope.spawn(move || task.run(port, versions, listed)));
            }
            match (fault, &change) {
                (Fault::Kill, _) => kill(&mut self.front, delay),
                (Fault::KillBehind, _) => kill(&mut self.ours, delay),
                (_, Some((name, content))) => {
                    thread::sleep(delay / 10);
                    self.places[number].change(name, content, self.clock.next());
                }
                _ => {}
            }
            running
                .into_iter()
                .map(|task| task.join().expect("a client's thread"))
                .collect()
        });
        self.heal(number, fault);
        let mut words = format!("{} {fault:?}", self.places[number].name());
        for ((task, seen), versions) in tasks.iter().zip(seen).zip(&versions) {
            words.push_str(&format!(
                ", {:?} {}: {:?} {}",
                task.what, task.name, seen.outcome, seen.words
            ));
            self.judge(number, task, fault, versions.len() == 1, &seen, ledgers);
            self.settle(number, task, fault, &seen, ledgers);
        }
        if let Some((name, content)) = change {
            let old = self.places[number].versions(name);
            self.places[number].settle(name, Some(content), old, self.round);
        }
        words
    }

    /// What the clients of a round do; no two change the same file.
    fn tasks(&self, dice: &mut Dice, number: usize, fault: Fault) -> Vec<Task> {
        let place = &self.places[number];
        let mut tasks: Vec<Task> = Vec::new();
        for _ in 0..=dice.below(3) {
            let mut what = dice.pick(&What::ALL);
            if fault == Fault::Kill && what.is_root() {
                what = What::Read;
            }
            let name = match dice.below(3) {
                0 if !what.is_change() => dice.pick(&OLD_NAMES),
                _ => dice.pick(&NAMES),
            };
            let is_taken = tasks.iter().any(|task| task.what.is_change() && task.name == name);
            if what.is_change() && is_taken {
                what = What::Read;
            }
            // XRootD lets readers of a file that is not closed wait for a minute.
            let is_shared = tasks.iter().any(|task| task.name == name) && (is_taken || what.is_change());
            if place.behind == Behind::Root && (is_shared || place.is_pending(name)) {
                continue;
            }
            let path = if what == What::List {
                place.path("")
            } else {
                place.path(name)
            };
            tasks.push(Task {
                what,
                name: name.to_owned(),
                path,
                content: Arc::new(match what {
                    // Its half must not be all of it.
                    What::WriteHalf => bytes(300_000, dice.next()),
                    // More than is collected before the first part.
                    What::WriteChunked if place.behind == Behind::S3 => bytes(PART_BYTES + 1, dice.next()),
                    _ if what.is_change() => content(dice),
                    _ => Vec::new(),
                }),
                start: dice.pick(&[0, 0, 1, 50_000, MIB - 5]),
                length: dice.pick(&[1, 100, 100_000, MIB]),
            });
        }
        tasks
    }

    /// The versions that the file of `task` may have in this round.
    fn versions(
        &self,
        number: usize,
        task: &Task,
        tasks: &[Task],
        change: &Option<(&str, Arc<Vec<u8>>)>,
    ) -> Vec<Version> {
        self.versions_of(number, &task.name, tasks, change)
    }

    fn versions_of(
        &self,
        number: usize,
        name: &str,
        tasks: &[Task],
        change: &Option<(&str, Arc<Vec<u8>>)>,
    ) -> Vec<Version> {
        let mut versions = self.places[number].versions(name);
        for other in tasks
            .iter()
            .filter(|other| other.what.is_change() && other.name == name)
        {
            versions.push(written(other));
        }
        versions.extend(
            change
                .iter()
                .filter(|(changed, _)| *changed == name)
                .map(|(_, content)| Some(content.clone())),
        );
        versions
    }

    fn listed(
        &self,
        number: usize,
        tasks: &[Task],
        change: &Option<(&str, Arc<Vec<u8>>)>,
    ) -> Vec<(String, Vec<Version>)> {
        let names = self.places[number].names().into_iter();
        names
            .map(|name| {
                let versions = self.versions_of(number, &name, tasks, change);
                (name, versions)
            })
            .collect()
    }

    /// Ends the fault, and waits until the server behind has done all that it was asked.
    fn heal(&mut self, number: usize, fault: Fault) {
        let relay = &self.relays[self.places[number].behind as usize];
        relay.heal();
        assert!(
            fault == Fault::Kill || self.front.process().is_running(),
            "{}",
            self.front.log().stderr()
        );
        match fault {
            Fault::Kill => self.front.start_again().expect("it starts again"),
            Fault::KillBehind => self.ours.start_again().expect("it starts again"),
            _ => {}
        }
        until("the server behind is at rest", SOON, || {
            relay.abandoned_connections() == 0
        });
    }

    /// With `is_settled` the file has one version only.
    fn judge(&self, number: usize, task: &Task, fault: Fault, is_settled: bool, seen: &Seen, ledgers: &mut Ledgers) {
        ledgers.tasks.count(task.what, seen.outcome);
        ledgers.faults.count(fault, seen.outcome);
        let is_refused = matches!(seen.outcome, Outcome::Refused | Outcome::BrokenOff);
        let place = &self.places[number];
        let is_root = place.behind == Behind::Root;
        // A client that leaves is refused, and so may be readers of a file that changes.
        let has_no_reason = fault == Fault::None && task.what != What::WriteHalf && is_settled;
        let words = match &seen.fault {
            // XRootD tells that of the old file for a new one of the same second.
            Some(_) if is_root && task.what == What::Checksum => return,
            Some(words) => words.clone(),
            None if is_refused && has_no_reason => format!("refused without a reason: {}", seen.words),
            None => return,
        };
        let (what, place) = (task.what, place.name());
        ledgers.tasks.violation(format!(
            "round {}, {place}, {what:?} of {} with {fault:?}: {words}",
            self.round, task.name
        ));
    }

    /// Looks at what is stored after a change.
    fn settle(&mut self, number: usize, task: &Task, fault: Fault, seen: &Seen, ledgers: &mut Ledgers) {
        if !task.what.is_change() {
            return;
        }
        let place = &mut self.places[number];
        let before = place.versions(&task.name);
        let new = written(task);
        let is_done = seen.outcome == Outcome::Done && task.what != What::WriteHalf;
        let mut allowed = if is_done { Vec::new() } else { before.clone() };
        allowed.push(new.clone());
        // What could not be confirmed is removed, and the answer says so.
        if seen.words.contains("it was removed") {
            allowed.push(None);
        }
        let mut stored = place.stored(&task.name);
        let end = Instant::now() + SOON;
        while !allowed.contains(&stored) && !place.is_pending(&task.name) && Instant::now() < end {
            thread::sleep(POLL);
            stored = place.stored(&task.name);
        }
        if place.is_pending(&task.name) && !is_done {
            // It goes soon, and no client may read it.
            let unsure = [before, vec![new]].concat();
            place.settle(&task.name, None, unsure, self.round);
            return;
        }
        if !allowed.contains(&stored) {
            let sizes = |versions: &[Version]| {
                let sizes: Vec<Option<usize>> = versions
                    .iter()
                    .map(|version| version.as_ref().map(|c| c.len()))
                    .collect();
                format!("{sizes:?}")
            };
            ledgers.tasks.violation(format!(
                "round {}, {}: {} has {} after {:?} with {fault:?} ({:?} {}); allowed are {}",
                self.round,
                place.name(),
                task.name,
                sizes(std::slice::from_ref(&stored)),
                task.what,
                seen.outcome,
                seen.words,
                sizes(&allowed),
            ));
        }
        let unsure = if is_done { Vec::new() } else { vec![new] };
        place.settle(&task.name, stored, unsure, self.round);
    }

    /// Reads and lists everything without a fault.
    pub(super) fn audit(&mut self, ledgers: &mut Ledgers) {
        let port = self.front.port();
        for number in 0..self.places.len() {
            let place = &self.places[number];
            until("unfinished files are dropped", SOON, || {
                !place.names().iter().any(|name| place.is_pending(name))
            });
            let listed = self.listed(number, &[], &None);
            let reads = listed
                .iter()
                .map(|(name, versions)| (What::Read, name.as_str(), versions.as_slice()));
            for (what, name, versions) in reads.chain([(What::List, "", &[][..])]) {
                let task = Task {
                    what,
                    name: name.to_owned(),
                    path: place.path(name),
                    content: Arc::default(),
                    start: 0,
                    length: MIB,
                };
                let seen = task.run(port, versions, &listed);
                self.judge(number, &task, Fault::None, versions.len() == 1, &seen, ledgers);
            }
        }
    }

    /// What the server has noted of the uploads in parts that it began.
    fn noted(&self) -> String {
        let files = std::fs::read_dir(&self.uploads).into_iter().flatten().flatten();
        files
            .filter_map(|file| std::fs::read_to_string(file.path()).ok())
            .collect()
    }

    /// Starts everything again; nothing but the files may be left.
    pub(super) fn end(&mut self, ledgers: &mut Ledgers) {
        self.audit(ledgers);
        self.front.start_again().expect("it starts again");
        self.ours.start_again().expect("it starts again");
        self.audit(ledgers);
        until("parts are swept", SOON, || parts(self.ours.data()).is_empty());
        // The server cannot note an upload whose beginning was not answered.
        let left = || self.objects.bucket().unfinished().unwrap_or_default();
        until("parts of objects are removed", SOON, || {
            let (left, noted) = (left(), self.noted());
            upload_ids(&left).all(|id| !noted.contains(id))
        });
        println!("uploads that are not noted: {}", upload_ids(&left()).count());
        // A request ends what was broken off between two names.
        let is_aside = |name: &String| name.contains(".copied-") || name.contains(".replaced-");
        let has_aside = |place: &Place| visible(&place.directory).iter().any(is_aside);
        let end = Instant::now() + SOON;
        while self.places.iter().any(has_aside) && Instant::now() < end {
            thread::sleep(Duration::from_secs(1));
            self.audit(ledgers);
        }
        for place in &self.places {
            let known = place.names();
            let left: Vec<String> = visible(&place.directory)
                .into_iter()
                // That of a server that was killed meanwhile is removed later.
                .filter(|name| !known.contains(name) && !name.starts_with(".crossload-trial-"))
                .collect();
            if !left.is_empty() {
                ledgers.tasks.violation(format!("left in {}: {left:?}", place.name()));
            }
        }
    }
}

/// The uploads in parts in an answer of S3.
fn upload_ids(answer: &str) -> impl Iterator<Item = &str> {
    let rest = answer.split("<UploadId>").skip(1);
    rest.filter_map(|rest| rest.split('<').next())
}

/// What is there after a change that succeeds.
fn written(task: &Task) -> Version {
    match task.what {
        What::Delete => None,
        _ => Some(task.content.clone()),
    }
}

fn content(dice: &mut Dice) -> Vec<u8> {
    let size = dice.pick(&SIZES);
    bytes(size, dice.next())
}

fn kill(server: &mut Crossload, delay: Duration) {
    thread::sleep(delay);
    server.process().kill_hard();
}

/// XRootD runs as another user.
fn open_to_all(directory: &std::path::Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::set_permissions(
        directory,
        std::fs::Permissions::from_mode(0o777),
    )?)
}

/// The lines of an export that has the keys of a bucket.
fn keys(bucket: &S3Bucket, lab: &Lab) -> Result<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let secret = lab.fresh("secret");
    std::fs::write(&secret, bucket.secret_key())?;
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600))?;
    let id = bucket.access_key();
    Ok(format!("s3_access_key_id = {id:?}\ns3_secret_key_file = {secret:?}\n"))
}

fn export(place: &Place, port: u16, cache: &PathBuf, keys: &str) -> String {
    let name = place.name();
    let url = match place.behind {
        Behind::Http => format!("http://localhost:{port}/data/{name}"),
        Behind::Https => format!("https://localhost:{port}/data/{name}"),
        Behind::Root => format!("root://localhost:{port}//data/{name}"),
        Behind::S3 => format!("http://localhost:{port}/bucket/{name}"),
    };
    let cached = match place.is_cached {
        true => format!("cache_directory = {cache:?}\ncache_size_bytes = \"1GiB\"\ncache_revalidate_after = \"0s\"\n"),
        false => String::new(),
    };
    let (key, keys) = match place.behind {
        Behind::S3 => ("s3", keys),
        _ => ("remote", ""),
    };
    format!("[[export]]\npath = \"/{name}\"\n{key} = \"{url}\"\n{keys}anonymous = \"write\"\n{cached}")
}
