//! The decisions of the service over random queues, limits and lengths of copies.

use std::collections::BTreeMap;
use std::time::Duration;

use catalog::{QueueCount, QueueKey, StorageSettings, ThirdPartyRole, VoSettings};
use proptest::prelude::*;
use schedule::limits::{AGING_MS, OVERTAKING_FACTOR};
use schedule::optimizer::End;
use schedule::scheduler::{Scheduler, ShareUnit};
use schedule::storage::host;

use super::super::counters::Counters;
use super::*;
use crate::{CopyBounds, Settings};

fn settings() -> Settings {
    Settings {
        worker: "w".to_owned(),
        copies: 100,
        storage_copies: 4,
        link_copies: 3,
        link_copies_minimum: 1,
        share_unit: ShareUnit::SlotTime,
        retries: 0,
        retry_delay: Duration::ZERO,
        bounds: CopyBounds::default(),
        history: Duration::ZERO,
        lease: Duration::ZERO,
        hops: Vec::new(),
        roles: Vec::new(),
    }
}

fn count(source: &str, destination: &str, vo: &str, priority: u8, waiting: u64) -> QueueCount {
    QueueCount {
        key: QueueKey {
            source: source.to_owned(),
            destination: destination.to_owned(),
            vo: vo.to_owned(),
            activity: "default".to_owned(),
            user: "jane".to_owned(),
        },
        priority,
        waiting,
        delayed: 0,
        held: 0,
        active: 0,
        oldest_ms: Some(0),
    }
}

/// A catalog that only counts, and copies that only take time.
struct Simulation {
    now_ms: i64,
    counts: Vec<QueueCount>,
    durations_ms: Vec<i64>,
    ends: Vec<(i64, usize)>,
    outlook: Outlook,
    scheduler: Scheduler,
}

impl Simulation {
    /// One decision, then the next copies end. Returns how many files of each queue started.
    fn step(&mut self, places: u32) -> Vec<u32> {
        let mut started = vec![0; self.counts.len()];
        let tuning = Tuning::default();
        let outlook = &self.outlook;
        let rules = Rules {
            outlook,
            tuning: &tuning,
        };
        let counters = Counters::of(self.counts.clone());
        let queues = counters.queues(|_| None);
        let decided = self.scheduler.decide(&rules.inputs(self.now_ms, &queues, places));
        for grant in counters.grants(&decided) {
            let is_its = |count: &QueueCount| count.key == grant.queue && count.priority == grant.priority;
            let queue = self.counts.iter().position(is_its).unwrap();
            self.counts[queue].waiting -= u64::from(grant.count);
            self.counts[queue].active += u64::from(grant.count);
            started[queue] += grant.count;
            let end_ms = self.now_ms + self.durations_ms[queue];
            self.ends
                .extend((0..grant.count).map(|copy| (end_ms + i64::from(copy), queue)));
        }
        if let Some(next) = self.ends.iter().map(|(end, _)| *end).min() {
            self.now_ms = next;
            for (_, queue) in self.ends.extract_if(.., |(end, _)| *end == next) {
                self.counts[queue].active -= 1;
            }
        }
        started
    }

    fn refill(&mut self) {
        for count in self.counts.iter_mut().filter(|count| count.waiting < 50) {
            count.waiting = 50;
            count.oldest_ms = Some(self.now_ms);
        }
    }

    fn active_by(&self, key: impl Fn(&QueueCount) -> String) -> BTreeMap<String, u64> {
        let mut active = BTreeMap::new();
        for count in &self.counts {
            *active.entry(key(count)).or_default() += count.active;
        }
        active
    }
}

/// Storages, each under two schemes, one host with two protocols.
const STORAGES: [&str; 8] = [
    "davs://a:443",
    "https://a:443",
    "davs://b:443",
    "https://b:443",
    "root://b:1094",
    "xroot://b:1094",
    "davs://d:443",
    "https://d:443",
];

/// The largest share beside one of 1.
const SHARE_MOST: u32 = 2;

fn any_counts() -> impl Strategy<Value = Vec<QueueCount>> {
    let one = (0..STORAGES.len(), 0..STORAGES.len(), 0..2_usize, 1_u8..=5);
    prop::collection::btree_set(one, 1..20).prop_map(|set| {
        let counts = set.into_iter().map(|(source, destination, vo, priority)| {
            let vo = ["cms", "atlas"][vo];
            count(STORAGES[source], STORAGES[destination], vo, priority, 50)
        });
        counts.collect()
    })
}

fn any_outlook() -> impl Strategy<Value = Outlook> {
    let limits = prop::collection::vec((1_u32..5, 1_u32..5), 4);
    (limits, 1_u32..6, 1..=SHARE_MOST).prop_map(|(limits, vo, share)| {
        let mut outlook = Outlook::new(&settings());
        for (name, (inbound, outbound)) in ["a:443", "b", "b:1094", "*"].into_iter().zip(limits) {
            let set = StorageSettings {
                inbound_max_active: Some(inbound),
                outbound_max_active: Some(outbound),
                ..StorageSettings::default()
            };
            outlook.add_storage(name, set);
        }
        let cms = VoSettings {
            max_active: Some(vo),
            share: Some(share.into()),
            ..VoSettings::default()
        };
        outlook.add_vo("cms".to_owned(), cms);
        outlook
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_file_that_can_run_does_within_a_bound(
        outlook in any_outlook(), counts in any_counts(), places in 1_u32..12,
        seconds in prop::collection::vec(1_i64..60, 20),
    ) {
        let mut served_ms = vec![0; counts.len()];
        let mut simulation = Simulation {
            now_ms: 0,
            durations_ms: seconds[..counts.len()].iter().map(|seconds| seconds * 1000).collect(),
            counts,
            ends: Vec::new(),
            outlook,
            scheduler: Scheduler::default(),
        };
        // After 40 minutes all have the highest priority. Then each of at most 19 others has the
        // turns that may overtake it, and one more, each with a copy of up to a minute; as many
        // times as its share is smaller, of those of two organisations.
        let turns = (OVERTAKING_FACTOR as i64 + 1) * 19 * i64::from(1 + SHARE_MOST);
        let bound_ms = 4 * AGING_MS + turns * 60_000;
        for _ in 0..2_500 {
            let now_ms = simulation.now_ms;
            let started = simulation.step(places);
            prop_assert!(started.iter().sum::<u32>() <= places);
            for (queue, count) in started.iter().enumerate() {
                if *count > 0 {
                    served_ms[queue] = now_ms;
                }
                prop_assert!(now_ms - served_ms[queue] <= bound_ms, "{} waits at {}", queue, now_ms);
            }
            let outlook = &simulation.outlook;
            let into = simulation.active_by(|count| link::of_queue(&count.key).destination);
            prop_assert!(into.iter().all(|(name, active)| *active <= outlook.inbound(name).into()));
            let out = simulation.active_by(|count| link::of_queue(&count.key).source);
            prop_assert!(out.iter().all(|(name, active)| *active <= outlook.outbound(name).into()));
            let into_host = simulation.active_by(|count| host(&count.key.destination).to_owned());
            let most = |name: &str| outlook.host_inbound(name).unwrap_or(u32::MAX);
            prop_assert!(into_host.iter().all(|(name, active)| *active <= most(name).into()));
            simulation.refill();
        }
    }
}

#[test]
fn a_storage_is_one_under_all_schemes() {
    let mut outlook = Outlook::new(&settings());
    let four = StorageSettings {
        inbound_max_active: Some(4),
        ..StorageSettings::default()
    };
    outlook.add_storage("davs://d:443", four);
    let counts = vec![
        count("davs://a:443", "davs://d:443", "cms", 3, 50),
        count("davs://a:443", "https://d:443", "cms", 3, 50),
        count("root://b:1094", "https://d:443", "cms", 3, 50),
    ];
    let mut simulation = Simulation {
        now_ms: 0,
        durations_ms: vec![1000; counts.len()],
        counts,
        ends: Vec::new(),
        outlook,
        scheduler: Scheduler::default(),
    };
    let mut all = vec![0; 3];
    for _ in 0..30 {
        let started = simulation.step(100);
        all.iter_mut().zip(started).for_each(|(sum, count)| *sum += count);
        assert!(simulation.counts.iter().map(|count| count.active).sum::<u64>() <= 4);
        simulation.refill();
    }
    assert!(all.iter().all(|count| *count > 10), "{all:?}");
}

#[test]
fn activities_without_a_share_have_one_together() {
    let mut outlook = Outlook::new(&settings());
    assert_eq!(outlook.activity_group("cms", "production"), "default");
    let with_shares = VoSettings {
        activity_shares: BTreeMap::from([("production".to_owned(), 0.7), ("default".to_owned(), 0.3)]),
        ..VoSettings::default()
    };
    outlook.add_vo("cms".to_owned(), with_shares);
    let groups = ["production", "invented", "default"].map(|activity| outlook.activity_group("cms", activity));
    assert_eq!(groups, ["production", "default", "default"]);
}

#[test]
fn processes_divide_a_limit_in_bytes_per_second() {
    let mut outlook = Outlook::new(&settings());
    let eight = StorageSettings {
        inbound_max_throughput: Some(8.0),
        ..StorageSettings::default()
    };
    outlook.add_storage("davs://d:443", eight);
    let running = outlook.rates("davs://a:443", "davs://d:443");
    let of_copy = || {
        running
            .iter()
            .filter_map(transfer::RateLimit::bytes_s)
            .collect::<Vec<_>>()
    };
    assert_eq!(of_copy(), [8 << 20]);
    for (workers, mib) in [(2, 4), (4, 2), (0, 8)] {
        outlook.divide_rates(workers);
        assert_eq!(of_copy(), [mib << 20], "copies that run have it too");
        assert_eq!(
            outlook.goodput_max("https://d:443", End::Destination),
            Some((mib << 20) as f64)
        );
    }
}

#[test]
fn what_operators_set_counts_before_the_configuration_and_the_port_before_the_host() {
    let plain = settings();
    let named = |name: &str, role| (name.to_owned(), role);
    let settings = Settings {
        roles: vec![
            named("*", ThirdPartyRole::Push),
            named("davs://h", ThirdPartyRole::Pull),
            named("davs://h:443", ThirdPartyRole::None),
        ],
        ..settings()
    };
    let mut outlook = Outlook::new(&settings);
    assert_eq!(outlook.role("https://h:443"), Some(ThirdPartyRole::None));
    assert_eq!(outlook.role("root://h:1094"), Some(ThirdPartyRole::Pull));
    assert_eq!(outlook.role("https://g:443"), Some(ThirdPartyRole::Push));
    let set = StorageSettings {
        third_party: Some(ThirdPartyRole::Full),
        ..StorageSettings::default()
    };
    outlook.add_storage("https://h:443", set);
    assert_eq!(outlook.role("davs://h:443"), Some(ThirdPartyRole::Full));
    assert_eq!(Outlook::new(&plain).role("https://h:443"), None);
}

#[test]
fn settings_of_a_link_and_of_all_links_hold_together() {
    let mut outlook = Outlook::new(&settings());
    let mut set = |source: &str, destination: &str, max_active, is_paused| {
        outlook.add_link(catalog::LinkSettings {
            source: source.to_owned(),
            destination: destination.to_owned(),
            max_active,
            is_paused,
            ..catalog::LinkSettings::default()
        });
    };
    set("davs://a:443", "davs://b:443", Some(7), false);
    set("davs://c:443", "davs://b:443", None, false);
    set("*", "davs://b:443", Some(2), true);
    set("davs://a:443", "davs://d:443", Some(5), false);
    let of = |source: &str, destination: &str| {
        let link = link::between(source, destination);
        (outlook.link_max(&link), outlook.is_paused(&link))
    };
    assert_eq!(
        of("davs://a:443", "davs://b:443"),
        (7, true),
        "its own limit, and the pause of all"
    );
    assert_eq!(
        of("davs://c:443", "davs://b:443"),
        (2, true),
        "an empty row hides nothing"
    );
    assert_eq!(of("davs://a:443", "davs://d:443"), (5, false));
}
