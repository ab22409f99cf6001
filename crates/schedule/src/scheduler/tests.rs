//! Random queues, limits and arrivals; and the promises about shares and waiting.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;
use crate::{BanNotice, Hold, Reason, StorageFull};

#[derive(Clone, Debug, Default)]
struct Rules {
    inbound: HashMap<String, u32>,
    outbound: HashMap<String, u32>,
    links: HashMap<(String, String), u32>,
    vos: HashMap<String, u32>,
    shares: HashMap<String, f64>,
    banned: Option<String>,
    held: Option<Hold>,
    paused: Option<String>,
    hosts: HashMap<String, u32>,
}

impl Policy for Rules {
    fn inbound_max(&self, storage: &str) -> u32 {
        self.inbound.get(storage).copied().unwrap_or(1000)
    }

    fn outbound_max(&self, storage: &str) -> u32 {
        self.outbound.get(storage).copied().unwrap_or(1000)
    }

    fn link(&self, source: &str, destination: &str) -> LinkPolicy {
        let link = (source.to_owned(), destination.to_owned());
        LinkPolicy {
            max: 1000,
            target: self.links.get(&link).copied(),
            is_paused: self.paused.as_deref() == Some(source),
            hold: self.held.clone().filter(|hold| hold.storage == destination),
        }
    }

    fn host_inbound_max(&self, storage: &str) -> Option<u32> {
        self.hosts.get(crate::storage::host(storage)).copied()
    }

    fn vo_max(&self, vo: &str) -> Option<u32> {
        self.vos.get(vo).copied()
    }

    fn vo_share(&self, _: &str, _: &str, vo: &str) -> f64 {
        self.shares.get(vo).copied().unwrap_or(1.0)
    }

    fn activity_share(&self, _: &str, activity: &str) -> f64 {
        self.shares.get(activity).copied().unwrap_or(1.0)
    }

    fn ban(&self, storage: &str, _: &str) -> Option<BanNotice> {
        let is_banned = self.banned.as_deref() == Some(storage);
        is_banned.then(|| BanNotice {
            storage: storage.to_owned(),
            by: "operator".to_owned(),
            since_ms: 0,
            message: "maintenance".to_owned(),
        })
    }
}

fn queue<'a>(source: &'a str, destination: &'a str, vo: &'a str, priority: u8, waiting: u64) -> Queue<'a> {
    Queue {
        source,
        destination,
        vo,
        activity: "default",
        user: "jane",
        priority,
        waiting,
        active: 0,
        oldest_ms: Some(0),
        average_bytes: None,
    }
}

fn decide(scheduler: &mut Scheduler, now_ms: i64, queues: &[Queue<'_>], rules: &Rules, places: u32) -> Decision {
    scheduler.explain(&Inputs {
        now_ms,
        queues,
        policy: rules,
        places,
        share_unit: ShareUnit::SlotTime,
    })
}

/// Copies that run in a simulation: which queue, and when they end.
struct Simulation<'a> {
    now_ms: i64,
    queues: Vec<Queue<'a>>,
    durations_ms: Vec<i64>,
    ends: Vec<(i64, usize)>,
    /// Starts of each queue.
    starts: Vec<u64>,
    /// Slot time of each queue, of copies that started.
    slot_ms: Vec<i64>,
    scheduler: Scheduler,
}

impl<'a> Simulation<'a> {
    fn of(queues: Vec<Queue<'a>>, durations_ms: Vec<i64>) -> Self {
        let count = queues.len();
        Self {
            now_ms: 0,
            queues,
            durations_ms,
            ends: Vec::new(),
            starts: vec![0; count],
            slot_ms: vec![0; count],
            scheduler: Scheduler::default(),
        }
    }

    /// One decision, then the next copies end.
    fn step(&mut self, rules: &Rules, places: u32) -> Decision {
        let decision = decide(&mut self.scheduler, self.now_ms, &self.queues, rules, places);
        for grant in &decision.grants {
            let queue = grant.queue;
            self.queues[queue].waiting -= u64::from(grant.count);
            self.queues[queue].active += u64::from(grant.count);
            self.starts[queue] += u64::from(grant.count);
            self.slot_ms[queue] += i64::from(grant.count) * self.durations_ms[queue];
            for copy in 0..grant.count {
                self.ends
                    .push((self.now_ms + self.durations_ms[queue] + i64::from(copy), queue));
            }
        }
        if let Some(next) = self.ends.iter().map(|(end, _)| *end).min() {
            self.now_ms = next;
            for (_, queue) in self.ends.extract_if(.., |(end, _)| *end == next) {
                self.queues[queue].active -= 1;
            }
        }
        decision
    }

    /// Keeps all queues full.
    fn refill(&mut self) {
        for queue in self.queues.iter_mut().filter(|queue| queue.waiting < 100) {
            queue.waiting = 100;
            queue.oldest_ms = Some(self.now_ms);
        }
    }
}

#[test]
fn an_urgent_link_does_not_starve_behind_busy_ones() {
    let sources: Vec<String> = (0..10).map(|number| format!("x{number}")).collect();
    let mut queues: Vec<_> = sources.iter().map(|source| queue(source, "d", "cms", 3, 100)).collect();
    queues.push(queue("a", "d", "cms", 5, 100));
    let rules = Rules {
        inbound: HashMap::from([("d".to_owned(), 20)]),
        ..Rules::default()
    };
    let durations = vec![10_000; queues.len()];
    let mut simulation = Simulation::of(queues, durations);
    for _ in 0..2_000 {
        simulation.step(&rules, 100);
        simulation.refill();
    }
    let all: u64 = simulation.starts.iter().sum();
    let urgent = simulation.starts[10] as f64 / all as f64;
    // Weight 16 beside ten times 4.
    assert!((urgent - 16.0 / 56.0).abs() < 0.05, "{urgent}");
}

#[test]
fn a_link_between_two_busy_storages_gets_its_turn() {
    // `a` to `d` needs both at the same time; each is kept busy by others, out of step.
    let queues = vec![
        queue("a", "d", "cms", 1, 100),
        queue("a", "e", "cms", 5, 100),
        queue("x", "d", "cms", 5, 100),
    ];
    let rules = Rules {
        inbound: HashMap::from([("d".to_owned(), 1)]),
        outbound: HashMap::from([("a".to_owned(), 1)]),
        ..Rules::default()
    };
    let mut simulation = Simulation::of(queues, vec![5_000, 7_000, 11_000]);
    let mut last = 0;
    for step in 0..3_000 {
        let before = simulation.starts[0];
        simulation.step(&rules, 100);
        if simulation.starts[0] > before {
            last = step;
        }
        assert!(step - last < 250, "waits since step {last}");
        simulation.refill();
    }
}

#[test]
fn shares_hold_by_the_time_of_slots() {
    for (unit, durations) in [("equal", vec![9_000; 3]), ("unequal", vec![3_000, 60_000, 20_000])] {
        let queues = ["cms", "atlas", "lhcb"].map(|vo| queue("a", "d", vo, 3, 100)).to_vec();
        let rules = Rules {
            shares: HashMap::from([
                ("cms".to_owned(), 70.0),
                ("atlas".to_owned(), 20.0),
                ("lhcb".to_owned(), 10.0),
            ]),
            links: HashMap::from([(("a".to_owned(), "d".to_owned()), 10)]),
            ..Rules::default()
        };
        let mut simulation = Simulation::of(queues, durations);
        for _ in 0..20_000 {
            simulation.step(&rules, 100);
            simulation.refill();
        }
        let all: i64 = simulation.slot_ms.iter().sum();
        for (index, share) in [0.7, 0.2, 0.1].into_iter().enumerate() {
            let got = simulation.slot_ms[index] as f64 / all as f64;
            assert!(
                (got - share).abs() < 0.05 * share + 0.005,
                "{unit}: {got} instead of {share}"
            );
        }
    }
}

#[test]
fn shares_of_activities_hold_by_bytes() {
    let mut queues = vec![
        queue("a", "d", "cms", 3, 1_000_000),
        queue("a", "d", "cms", 3, 1_000_000),
    ];
    queues[0].activity = "production";
    queues[0].average_bytes = Some(10_000_000_000);
    queues[1].activity = "analysis";
    queues[1].average_bytes = Some(100_000_000);
    let rules = Rules {
        shares: HashMap::from([("production".to_owned(), 3.0), ("analysis".to_owned(), 1.0)]),
        links: HashMap::from([(("a".to_owned(), "d".to_owned()), 100)]),
        ..Rules::default()
    };
    let (mut scheduler, mut bytes) = (Scheduler::default(), [0.0; 2]);
    for step in 0..500 {
        let decision = scheduler.decide(&Inputs {
            now_ms: step * 1000,
            queues: &queues,
            policy: &rules,
            places: 50,
            share_unit: ShareUnit::Bytes,
        });
        for grant in decision {
            bytes[grant.queue] += f64::from(grant.count) * queues[grant.queue].average_bytes.unwrap() as f64;
        }
    }
    let got = bytes[0] / (bytes[0] + bytes[1]);
    assert!((got - 0.75).abs() < 0.0375, "{got}");
}

/// Also where a full storage has several slots to give at once, which are promised to users first.
#[test]
fn shares_by_bytes_hold_at_a_contended_storage() {
    let mut queues = vec![
        queue("a", "d", "cms", 3, 1_000_000),
        queue("a", "d", "atlas", 3, 1_000_000),
    ];
    queues[0].average_bytes = Some(1_000_000_000);
    queues[1].average_bytes = Some(4_000_000_000);
    let rules = Rules {
        inbound: HashMap::from([("d".to_owned(), 4)]),
        links: HashMap::from([(("a".to_owned(), "d".to_owned()), 3)]),
        ..Rules::default()
    };
    let (mut scheduler, mut starts) = (Scheduler::default(), [0_u32; 2]);
    for step in 0..500 {
        let decision = scheduler.decide(&Inputs {
            now_ms: step * 1000,
            queues: &queues,
            policy: &rules,
            places: 50,
            share_unit: ShareUnit::Bytes,
        });
        for grant in decision {
            starts[grant.queue] += grant.count;
        }
    }
    assert_eq!(starts[0] + starts[1], 1500);
    assert!((285..=315).contains(&starts[1]), "{starts:?} instead of 1200 and 300");
}

#[test]
fn priority_goes_first_within_an_activity_and_age_raises_it() {
    let queues = [queue("a", "d", "cms", 1, 10), queue("a", "d", "cms", 5, 10)];
    let rules = Rules::default();
    let mut scheduler = Scheduler::default();
    let mut first_low = None;
    for minute in 0..60 {
        let decision = decide(&mut scheduler, minute * 60_000, &queues, &rules, 1);
        if decision.grants[0].queue == 0 {
            first_low.get_or_insert(minute);
        }
    }
    let bound = 4 * crate::limits::AGING_MS / 60_000 + 1;
    let first_low = first_low.expect("the low priority has a turn");
    assert!((30..=bound).contains(&first_low), "{first_low}");
}

#[test]
fn each_reason_is_named() {
    let reason = |rules: Rules, places: u32| {
        let mut busy = queue("a", "d", "cms", 3, 5);
        busy.active = 2;
        let decision = decide(&mut Scheduler::default(), 0, &[busy], &rules, places);
        decision.shortfalls[0].reasons.clone()
    };
    let two = |name: &str| HashMap::from([(name.to_owned(), 2)]);
    let open = Rules::default;
    let (limit, active, is_by) = (2, 2, true);
    let full = |storage: &str| StorageFull {
        storage: storage.to_owned(),
        active,
        limit,
    };
    let inbound = Rules {
        inbound: two("d"),
        ..open()
    };
    assert_eq!(reason(inbound, 9), [Reason::DestinationFull(full("d"))]);
    let outbound = Rules {
        outbound: two("a"),
        vos: two("cms"),
        ..open()
    };
    let vo = "cms".to_owned();
    let expected = [Reason::SourceFull(full("a")), Reason::VoFull { vo, active, limit }];
    assert_eq!(reason(outbound, 9), expected, "all are named");
    let link = Rules {
        links: HashMap::from([(("a".to_owned(), "d".to_owned()), 2)]),
        ..open()
    };
    let by_optimizer = is_by;
    let expected = Reason::LinkFull {
        active,
        limit,
        by_optimizer,
    };
    assert_eq!(reason(link, 9), [expected]);
    assert_eq!(reason(open(), 0), [Reason::WorkerFull]);
}

#[test]
fn what_stands_still_is_named() {
    let reason = |rules: Rules| {
        let waiting = queue("a", "d", "cms", 3, 5);
        let decision = decide(&mut Scheduler::default(), 0, &[waiting], &rules, 9);
        decision.shortfalls[0].reasons.clone()
    };
    let hold = Hold {
        storage: "d".to_owned(),
        until_ms: 1,
        message: "507 no space left".to_owned(),
    };
    let rules = Rules {
        paused: Some("a".to_owned()),
        banned: Some("a".to_owned()),
        held: Some(hold.clone()),
        ..Rules::default()
    };
    let found = reason(rules);
    assert!(matches!(found[0], Reason::Banned(_)));
    assert_eq!(found[1..], [Reason::LinkPaused, Reason::LinkHeld(hold)]);
}

#[test]
fn a_host_has_one_limit_for_all_its_ports() {
    let queues = [
        queue("https://a:443", "https://d:443", "cms", 3, 50),
        queue("https://a:443", "root://d:1094", "cms", 3, 50),
        queue("https://a:443", "https://e:443", "cms", 3, 50),
    ];
    let rules = Rules {
        inbound: HashMap::from([("https://d:443".to_owned(), 2)]),
        hosts: HashMap::from([("d".to_owned(), 5)]),
        ..Rules::default()
    };
    let decision = decide(&mut Scheduler::default(), 0, &queues, &rules, 40);
    let counts: Vec<u64> = (0..3).map(|queue| decision.granted(queue)).collect();
    assert_eq!(counts, [2, 3, 35]);
    let full = StorageFull {
        storage: "d".to_owned(),
        active: 5,
        limit: 5,
    };
    assert_eq!(decision.shortfalls[1].reasons[0], Reason::DestinationFull(full));
}

/// What a user may have many of.
#[derive(Clone, Copy, Debug)]
enum Many {
    /// Storages that get files: the places of the worker are short.
    Destinations,
    /// Storages that give files into one that is short.
    Sources,
    /// Storages that get files from one that is short.
    Receivers,
}

/// The queues of a user with so many links, and last that of one with a single link.
fn contest<'a>(names: &'a [String], many: Many, vo: &'static str) -> Vec<Queue<'a>> {
    let all = names.iter().map(|name| match many {
        Many::Destinations => queue("s", name, "atlas", 3, 1_000),
        Many::Sources => queue(name, "d", "atlas", 3, 1_000),
        Many::Receivers => queue("s", name, "atlas", 3, 1_000),
    });
    let one = match many {
        Many::Destinations => queue("t", "e", vo, 3, 1_000),
        Many::Sources => queue("t", "d", vo, 3, 1_000),
        Many::Receivers => queue("s", "e", vo, 3, 1_000),
    };
    let john = Queue { user: "john", ..one };
    all.chain([john]).collect()
}

#[test]
fn users_share_what_is_short_also_by_the_time_of_slots() {
    let names: Vec<String> = (0..50).map(|number| format!("x{number}")).collect();
    for many in [Many::Sources, Many::Receivers] {
        let queues = contest(&names, many, "atlas");
        let rules = Rules {
            inbound: HashMap::from([("d".to_owned(), 8)]),
            outbound: HashMap::from([("s".to_owned(), 8)]),
            ..Rules::default()
        };
        // John's files take a quarter of the time. With much less, Jane's links would be overdue.
        let durations = (0..queues.len())
            .map(|queue| if queue < 50 { 20_000 } else { 5_000 })
            .collect();
        let mut simulation = Simulation::of(queues, durations);
        for _ in 0..1_000 {
            simulation.step(&rules, 100);
            simulation.refill();
        }
        let all: i64 = simulation.slot_ms.iter().sum();
        let of_john = simulation.slot_ms[50] as f64 / all as f64;
        assert!((of_john - 0.5).abs() < 0.05, "{many:?}: {of_john}");
    }
}

#[test]
fn who_comes_to_a_full_storage_gets_each_slot_that_becomes_free_up_to_his_share() {
    let names: Vec<String> = (0..8).map(|number| format!("x{number}")).collect();
    let mut queues = contest(&names, Many::Sources, "atlas");
    queues[..8].iter_mut().for_each(|queue| queue.active = 1);
    let rules = Rules {
        inbound: HashMap::from([("d".to_owned(), 8)]),
        ..Rules::default()
    };
    let mut scheduler = Scheduler::default();
    for ended in 0..4 {
        queues[ended].active = 0;
        let decision = decide(&mut scheduler, ended as i64 * 1_000, &queues, &rules, 100);
        assert_eq!(decision.granted(8), 1, "{ended}");
        queues[8].active += 1;
    }
}

#[test]
fn shares_of_organisations_hold_at_a_storage_whatever_their_links() {
    let names: Vec<String> = (0..30).map(|number| format!("x{number}")).collect();
    let queues = contest(&names, Many::Sources, "cms");
    let rules = Rules {
        shares: HashMap::from([("cms".to_owned(), 3.0)]),
        inbound: HashMap::from([("d".to_owned(), 8)]),
        ..Rules::default()
    };
    let mut simulation = Simulation::of(queues, vec![5_000; 31]);
    for _ in 0..3_000 {
        simulation.step(&rules, 100);
        simulation.refill();
    }
    let all: i64 = simulation.slot_ms.iter().sum();
    let got = simulation.slot_ms[30] as f64 / all as f64;
    assert!((got - 0.75).abs() < 0.05, "{got}");
}

const STORAGES: [&str; 4] = ["a", "b", "c", "d"];
const VOS: [&str; 2] = ["cms", "atlas"];

/// Limits of few slots, so that most of them bind.
fn any_rules() -> impl Strategy<Value = Rules> {
    let storages = || prop::collection::vec(1_u32..5, STORAGES.len());
    (storages(), storages(), prop::collection::vec(1_u32..4, 16), 1_u32..6).prop_map(
        |(inbound, outbound, links, vo)| {
            let named = |limits: Vec<u32>| STORAGES.map(str::to_owned).into_iter().zip(limits).collect();
            let pairs = STORAGES
                .iter()
                .flat_map(|source| STORAGES.map(|destination| (source.to_string(), destination.to_owned())));
            Rules {
                inbound: named(inbound),
                outbound: named(outbound),
                links: pairs.zip(links).collect(),
                vos: HashMap::from([("cms".to_owned(), vo)]),
                ..Rules::default()
            }
        },
    )
}

fn any_queues() -> impl Strategy<Value = Vec<Queue<'static>>> {
    let one = (0..STORAGES.len(), 0..STORAGES.len(), 0..VOS.len(), 0..2_usize, 1_u8..=5);
    prop::collection::btree_set(one, 1..20).prop_map(|set| {
        let queues = set
            .into_iter()
            .map(|(source, destination, vo, activity, priority)| Queue {
                activity: ["production", "analysis"][activity],
                ..queue(STORAGES[source], STORAGES[destination], VOS[vo], priority, 100)
            });
        queues.collect()
    })
}

/// Copies by what a limit counts.
fn active_by<'a, K: Ord>(queues: &[Queue<'a>], key: impl Fn(&Queue<'a>) -> K) -> BTreeMap<K, u64> {
    let mut active = BTreeMap::new();
    for queue in queues {
        *active.entry(key(queue)).or_default() += queue.active;
    }
    active
}

fn fits(queues: &[Queue<'_>], rules: &Rules) -> bool {
    let inbound = active_by(queues, |queue| queue.destination);
    let outbound = active_by(queues, |queue| queue.source);
    let links = active_by(queues, |queue| (queue.source, queue.destination));
    let vos = active_by(queues, |queue| queue.vo);
    inbound
        .iter()
        .all(|(name, active)| *active <= rules.inbound_max(name).into())
        && outbound
            .iter()
            .all(|(name, active)| *active <= rules.outbound_max(name).into())
        && links
            .iter()
            .all(|((from, to), active)| *active <= rules.link(from, to).target.unwrap().into())
        && vos
            .iter()
            .all(|(name, active)| *active <= rules.vo_max(name).unwrap_or(u32::MAX).into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_limit_is_exceeded_and_nothing_starves(
        rules in any_rules(), queues in any_queues(), places in 1_u32..12, seconds in prop::collection::vec(1_i64..60, 20),
    ) {
        let count = queues.len();
        let durations = (0..count).map(|queue| seconds[queue] * 1000).collect();
        let mut simulation = Simulation::of(queues, durations);
        let mut served_ms = vec![0; count];
        // After 40 minutes all have the highest priority. Then each of at most 19 others has
        // the turns that rule 2 allows, and one more, each with a copy of up to a minute; twice,
        // because two organisations share the slots, whatever the number of their queues.
        let turns = (crate::limits::OVERTAKING_FACTOR as i64 + 1) * 19 * 2;
        let bound_ms = 4 * crate::limits::AGING_MS + turns * 60_000;
        for _ in 0..1_500 {
            let now_ms = simulation.now_ms;
            let decision = simulation.step(&rules, places);
            let granted: u32 = decision.grants.iter().map(|grant| grant.count).sum();
            prop_assert!(granted <= places);
            for grant in &decision.grants {
                served_ms[grant.queue] = now_ms;
            }
            for (queue, served) in served_ms.iter().enumerate() {
                prop_assert!(now_ms - served <= bound_ms, "queue {} waits since {} at {}", queue, served, now_ms);
            }
            prop_assert!(fits(&simulation.queues, &rules));
            simulation.refill();
        }
    }

    #[test]
    fn links_give_a_user_no_more_turns(
        links in prop::sample::select(vec![1_usize, 3, 20, 150, 1_000]),
        many in prop::sample::select(vec![Many::Destinations, Many::Sources, Many::Receivers]),
        vo in prop::sample::select(vec!["atlas", "cms"]),
        slots in 1_u32..=4,
    ) {
        let names: Vec<String> = (0..links).map(|number| format!("x{number}")).collect();
        let queues = contest(&names, many, vo);
        let (short, places) = match many {
            Many::Destinations => (None, slots),
            Many::Sources | Many::Receivers => (Some(slots), 100),
        };
        let rules = Rules {
            inbound: short.map(|short| ("d".to_owned(), short)).into_iter().collect(),
            outbound: short.map(|short| ("s".to_owned(), short)).into_iter().collect(),
            ..Rules::default()
        };
        let mut simulation = Simulation::of(queues, vec![1_000; links + 1]);
        for _ in 0..20 {
            simulation.step(&rules, places);
            let of_john = simulation.starts[links];
            let of_jane: u64 = simulation.starts[..links].iter().sum();
            prop_assert!(of_john.abs_diff(of_jane) <= u64::from(slots), "{} beside {}", of_john, of_jane);
        }
    }

    #[test]
    fn no_slot_stays_free_without_a_reason(rules in any_rules(), queues in any_queues(), places in 1_u32..40) {
        let decision = decide(&mut Scheduler::default(), 0, &queues, &rules, places);
        let mut after = queues.clone();
        for grant in &decision.grants {
            after[grant.queue].active += u64::from(grant.count);
            after[grant.queue].waiting -= u64::from(grant.count);
        }
        prop_assert!(fits(&after, &rules));
        let granted: u32 = decision.grants.iter().map(|grant| grant.count).sum();
        for index in 0..after.len() {
            let mut more = after.clone();
            more[index].active += 1;
            prop_assert!(granted == places || after[index].waiting == 0 || !fits(&more, &rules));
        }
        let waiting = after.iter().filter(|queue| queue.waiting > 0).count();
        prop_assert_eq!(decision.shortfalls.len(), waiting, "each queue that waits has a reason");
        let again = decide(&mut Scheduler::default(), 0, &queues, &rules, places);
        prop_assert_eq!(decision, again);
    }
}
