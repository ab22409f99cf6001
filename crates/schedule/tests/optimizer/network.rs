//! A network of storages and links in simulated time: deterministic, in steps of 200 ms.
//!
//! Payload flows as a fluid. In each step, running copies share every storage and link in
//! proportion to what each could move alone (window divided by round-trip time, at most the
//! server's rate), as TCP flows through one bottleneck do. Beyond its knee, a storage moves less
//! the more copies it has.

use schedule::optimizer::{End, FailureClass, Link, LinkSample, Outcome};

/// Length of a step.
pub(crate) const STEP_MS: i64 = 200;
/// Time until a connection to an endpoint that is down fails.
const REFUSED_MS: i64 = 1_000;

/// A storage.
#[derive(Clone)]
pub(crate) struct Storage {
    pub(crate) name: String,
    /// Bytes/s in each direction.
    pub(crate) capacity: f64,
    /// Copies from which it gets slower.
    pub(crate) knee: f64,
    /// Part of the capacity lost at twice the knee.
    pub(crate) decline: f64,
    /// Copies from which it refuses further ones.
    pub(crate) refuses_above: Option<usize>,
    /// Time during which it cannot be reached.
    pub(crate) down_ms: std::ops::Range<i64>,
    /// Time during which capacity and knee are halved.
    pub(crate) halved_ms: std::ops::Range<i64>,
}

impl Storage {
    pub(crate) fn new(name: &str, capacity: f64, knee: f64) -> Self {
        Self {
            name: format!("davs://{name}:443"),
            capacity,
            knee,
            decline: 0.5,
            refuses_above: None,
            down_ms: 0..0,
            halved_ms: 0..0,
        }
    }
}

/// A link with its queue.
#[derive(Clone)]
pub(crate) struct Path {
    pub(crate) source: usize,
    pub(crate) destination: usize,
    pub(crate) rtt_ms: f64,
    /// Bytes/s.
    pub(crate) capacity: f64,
    /// Bytes/s of one copy at most, whatever the round-trip time.
    pub(crate) copy_rate: f64,
    /// Time per file at the servers, beside six round trips.
    pub(crate) server_ms: f64,
    /// Sizes of files, drawn with equal probability.
    pub(crate) sizes: Vec<f64>,
    /// Every so many files, one is missing at the source.
    pub(crate) missing_every: Option<u64>,
    /// When it has waiting files.
    pub(crate) busy_ms: std::ops::Range<i64>,
}

/// TCP window of a copy, in bytes.
const WINDOW: f64 = 4.0 * 1024.0 * 1024.0;
const ROUND_TRIPS: f64 = 6.0;

impl Path {
    pub(crate) fn new(source: usize, destination: usize, rtt_ms: f64) -> Self {
        Self {
            source,
            destination,
            rtt_ms,
            capacity: 1e12,
            copy_rate: 40e6,
            server_ms: 300.0,
            sizes: vec![200e6, 400e6, 800e6],
            missing_every: None,
            busy_ms: 0..i64::MAX,
        }
    }

    fn rate_alone(&self) -> f64 {
        self.copy_rate.min(WINDOW / (self.rtt_ms / 1e3))
    }
}

#[derive(Clone)]
struct Copy {
    path: usize,
    start_ms: i64,
    setup_until_ms: i64,
    size: f64,
    left: f64,
    fate: Option<(FailureClass, Option<End>)>,
}

/// The end of a copy.
pub(crate) struct Ended {
    pub(crate) path: usize,
    pub(crate) start_ms: i64,
    pub(crate) outcome: Outcome,
}

/// The network and its running copies.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) storages: Vec<Storage>,
    pub(crate) paths: Vec<Path>,
    copies: Vec<Copy>,
    random: u64,
    started: u64,
    /// Bytes moved per path, since the start.
    pub(crate) moved: Vec<f64>,
    pub(crate) attempts: u64,
    /// Attempts that failed because an endpoint was down or overloaded.
    pub(crate) wasted: u64,
}

impl Network {
    pub(crate) fn new(storages: Vec<Storage>, paths: Vec<Path>) -> Self {
        let moved = vec![0.0; paths.len()];
        Self {
            storages,
            paths,
            copies: Vec::new(),
            random: 0x2545_f491_4f6c_dd1d,
            started: 0,
            moved,
            attempts: 0,
            wasted: 0,
        }
    }

    pub(crate) fn link(&self, path: usize) -> Link {
        Link {
            source: self.storages[self.paths[path].source].name.clone(),
            destination: self.storages[self.paths[path].destination].name.clone(),
        }
    }

    pub(crate) fn waiting(&self, path: usize, now_ms: i64) -> u32 {
        u32::from(self.paths[path].busy_ms.contains(&now_ms)) * 10_000
    }

    pub(crate) fn active(&self, path: usize) -> usize {
        self.copies.iter().filter(|copy| copy.path == path).count()
    }

    /// The state of all paths, given what had moved at the last sample.
    pub(crate) fn samples(&self, now_ms: i64, before: &[f64]) -> Vec<LinkSample> {
        (0..self.paths.len())
            .map(|path| LinkSample {
                link: self.link(path),
                bytes_moved: (self.moved[path] - before[path]) as u64,
                active: self.active(path) as u32,
                waiting: self.waiting(path, now_ms),
            })
            .collect()
    }

    fn draw(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Starts a copy.
    pub(crate) fn start(&mut self, path: usize, now_ms: i64) {
        let random = self.draw();
        let sizes = &self.paths[path].sizes;
        let size = sizes[((random * sizes.len() as f64) as usize).min(sizes.len() - 1)];
        self.started += 1;
        self.attempts += 1;
        let ends = &self.paths[path];
        let setup_ms = ROUND_TRIPS * ends.rtt_ms + ends.server_ms;
        let mut fate = None;
        let mut until_ms = now_ms + setup_ms as i64;
        for (end, index) in [(End::Source, ends.source), (End::Destination, ends.destination)] {
            let storage = &self.storages[index];
            let load = self.load(index);
            if storage.down_ms.contains(&now_ms) {
                fate = Some((FailureClass::EndpointDown, Some(end)));
                until_ms = now_ms + REFUSED_MS;
            } else if storage.refuses_above.is_some_and(|max| load >= max) {
                fate = Some((FailureClass::Overload, Some(end)));
            }
        }
        if ends
            .missing_every
            .is_some_and(|every| self.started.is_multiple_of(every))
        {
            fate = fate.or(Some((FailureClass::File, Some(End::Source))));
        }
        self.copies.push(Copy {
            path,
            start_ms: now_ms,
            setup_until_ms: until_ms,
            size,
            left: size,
            fate,
        });
    }

    /// Copies at a storage.
    fn load(&self, storage: usize) -> usize {
        let is_there = |path: &Path| path.source == storage || path.destination == storage;
        self.copies
            .iter()
            .filter(|copy| is_there(&self.paths[copy.path]))
            .count()
    }

    fn capacity(&mut self, storage: usize, now_ms: i64) -> f64 {
        let noise = 0.97 + 0.06 * self.draw();
        let load = self.load(storage) as f64;
        let storage = &self.storages[storage];
        let part = if storage.halved_ms.contains(&now_ms) { 0.5 } else { 1.0 };
        let knee = storage.knee * part;
        let beyond = ((load - knee) / knee).max(0.0);
        storage.capacity * part * noise * (1.0 - storage.decline * beyond).max(0.3)
    }

    /// Rates of one copy on each path: the level rises for all until a storage or link is full.
    fn rates(&mut self, now_ms: i64) -> Vec<f64> {
        let mut flowing = vec![0.0; self.paths.len()];
        for copy in &self.copies {
            if copy.setup_until_ms <= now_ms {
                flowing[copy.path] += 1.0;
            }
        }
        let mut limits: Vec<(Vec<usize>, f64)> = Vec::new();
        for storage in 0..self.storages.len() {
            let capacity = self.capacity(storage, now_ms);
            for is_out in [false, true] {
                let at = |path: &Path| if is_out { path.source } else { path.destination };
                let members = (0..self.paths.len())
                    .filter(|path| at(&self.paths[*path]) == storage)
                    .collect();
                limits.push((members, capacity));
            }
        }
        for (index, path) in self.paths.iter().enumerate() {
            limits.push((vec![index], path.capacity));
        }
        let alone: Vec<f64> = self.paths.iter().map(Path::rate_alone).collect();
        let demand = |path: usize| flowing[path] * alone[path];
        let mut level: Vec<Option<f64>> = vec![None; self.paths.len()];
        while level.iter().any(Option::is_none) {
            let lowest = limits
                .iter()
                .map(|(members, capacity)| {
                    let fixed: f64 = members
                        .iter()
                        .map(|path| level[*path].map_or(0.0, |level| level * demand(*path)))
                        .sum();
                    let open: f64 = members
                        .iter()
                        .filter(|path| level[**path].is_none())
                        .map(|path| demand(*path))
                        .sum();
                    let is_open = members.iter().any(|path| level[*path].is_none());
                    let reach = if open > 0.0 {
                        (capacity - fixed).max(0.0) / open
                    } else {
                        1.0
                    };
                    (if is_open { reach.min(1.0) } else { 2.0 }, members)
                })
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .expect("there are limits");
            for path in lowest.1 {
                level[*path] = level[*path].or(Some(lowest.0));
            }
        }
        let rate = |(level, alone): (Option<f64>, &f64)| level.unwrap_or(1.0) * alone;
        level.into_iter().zip(&alone).map(rate).collect()
    }

    /// Moves one step on; returns the copies that ended.
    pub(crate) fn step(&mut self, now_ms: i64) -> Vec<Ended> {
        let rates = self.rates(now_ms);
        let mut ended = Vec::new();
        let mut kept = Vec::with_capacity(self.copies.len());
        for mut copy in std::mem::take(&mut self.copies) {
            let rate = rates[copy.path];
            let outcome = self.advance(&mut copy, rate, now_ms);
            match outcome {
                None => kept.push(copy),
                Some(outcome) => ended.push(Ended {
                    path: copy.path,
                    start_ms: copy.start_ms,
                    outcome,
                }),
            }
        }
        self.copies = kept;
        ended
    }

    fn advance(&mut self, copy: &mut Copy, rate: f64, now_ms: i64) -> Option<Outcome> {
        let path = &self.paths[copy.path];
        for (end, index) in [(End::Source, path.source), (End::Destination, path.destination)] {
            if copy.fate.is_none() && self.storages[index].down_ms.contains(&now_ms) {
                copy.fate = Some((FailureClass::EndpointDown, Some(end)));
                copy.setup_until_ms = now_ms;
            }
        }
        if copy.setup_until_ms > now_ms {
            return None;
        }
        if let Some((class, end)) = copy.fate {
            self.wasted += u64::from(class != FailureClass::File);
            let retry_after_ms = (class == FailureClass::Overload).then_some(15_000);
            return Some(Outcome::Failed {
                class,
                end,
                retry_after_ms,
            });
        }
        let bytes = (rate * STEP_MS as f64 / 1e3).min(copy.left);
        copy.left -= bytes;
        self.moved[copy.path] += bytes;
        (copy.left < 1.0).then_some(Outcome::Copied {
            size_bytes: copy.size as u64,
        })
    }
}
