//! The five scenarios, each of 40 minutes.

use super::network::{Path, Storage};

/// Storages, links, and what they can carry.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) storages: Vec<Storage>,
    pub(crate) paths: Vec<Path>,
    /// Copies per link at most.
    pub(crate) max: u32,
    pub(crate) length_ms: i64,
    /// Bytes/s that all links together can move.
    pub(crate) capacity: f64,
    /// The links that compete for one storage.
    pub(crate) fair: Vec<usize>,
}

const LENGTH_MS: i64 = 2_400_000;

/// `count` sources with storage 0 as their destination.
fn star(count: usize, capacity: f64, knee: f64) -> Vec<Storage> {
    let mut storages = vec![Storage::new("hub.example", capacity, knee)];
    for index in 1..=count {
        storages.push(Storage::new(&format!("site{index}.example"), 5e9, 400.0));
    }
    storages
}

/// Five links into one storage of 10 Gbit/s that slows down beyond 90 copies.
pub(crate) fn shared_storage() -> Scenario {
    Scenario {
        name: "shared storage",
        storages: star(5, 1.25e9, 90.0),
        paths: (1..=5).map(|source| Path::new(source, 0, 30.0)).collect(),
        max: 100,
        length_ms: LENGTH_MS,
        capacity: 1.25e9,
        fair: vec![0, 1, 2, 3, 4],
    }
}

/// Four links into one storage, from 5 to 300 ms away.
pub(crate) fn round_trips() -> Scenario {
    let times_ms = [5.0, 40.0, 150.0, 300.0];
    let paths = times_ms.iter().enumerate();
    Scenario {
        name: "round trips",
        storages: star(4, 1.25e9, 120.0),
        paths: paths.map(|(index, rtt)| Path::new(index + 1, 0, *rtt)).collect(),
        max: 100,
        length_ms: LENGTH_MS,
        capacity: 1.25e9,
        fair: vec![0, 1, 2, 3],
    }
}

/// Files of 4 MB on one link and of 2 GB on the other, to different storages.
pub(crate) fn small_and_large() -> Scenario {
    let mut small = Path::new(1, 0, 60.0);
    small.sizes = vec![2e6, 4e6, 6e6];
    small.missing_every = Some(50);
    let mut large = Path::new(2, 0, 60.0);
    large.sizes = vec![1e9, 2e9, 3e9];
    large.capacity = 0.6e9;
    // A small file takes six round trips, 0.3 s and 0.1 s for 4 MB: 1 s in steps of 200 ms.
    let small_rate = 100.0 * 4e6;
    Scenario {
        name: "small and large files",
        storages: star(2, 2.5e9, 300.0),
        paths: vec![small, large],
        max: 100,
        length_ms: LENGTH_MS,
        capacity: 0.6e9 + small_rate,
        fair: Vec::new(),
    }
}

/// Three links into one storage; one source is down for ten minutes.
pub(crate) fn endpoint_fails() -> Scenario {
    let mut storages = star(3, 1.25e9, 90.0);
    storages[1].down_ms = 600_000..1_200_000;
    Scenario {
        name: "an endpoint fails",
        storages,
        paths: (1..=3).map(|source| Path::new(source, 0, 30.0)).collect(),
        max: 100,
        length_ms: LENGTH_MS,
        capacity: 1.25e9,
        fair: vec![1, 2],
    }
}

/// Three links into one storage; one source moves 50 MB/s and slows down beyond ten copies.
pub(crate) fn slow_endpoint() -> Scenario {
    let mut storages = star(3, 1.25e9, 120.0);
    storages[1] = Storage::new("slow.example", 50e6, 10.0);
    let mut paths: Vec<Path> = (1..=3).map(|source| Path::new(source, 0, 30.0)).collect();
    paths[0].copy_rate = 8e6;
    Scenario {
        name: "a slow endpoint",
        storages,
        paths,
        max: 100,
        length_ms: LENGTH_MS,
        capacity: 1.25e9,
        fair: vec![1, 2],
    }
}
