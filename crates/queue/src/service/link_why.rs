//! Why a link moves as it does: its limits, who uses it, and what keeps its queues.

use std::collections::BTreeMap;
use std::time::Duration;

use schedule::optimizer::Link;
use schedule::optimizer::limits::INITIAL_COPIES;
use schedule::scheduler::{Decision, Inputs, Policy as _};
use schedule::why::with_words;
use schedule::{BanNotice, Hold, Reason};
use serde::Serialize;
use types::Result;

use super::counters::Counters;
use super::look::decided;
use super::rules::Rules;
use super::why::of_drain;
use super::{Service, link};
use crate::clock::now_ms;
use crate::limits::COUNTERS_AGE;

/// Why a link moves as it does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkWhy {
    /// The source's storage.
    pub source: String,
    /// The destination's storage.
    pub destination: String,
    /// Its files.
    #[serde(flatten)]
    pub files: FileCounts,
    /// Copies that may run at once: the optimizer's number, within the limit of operators; `None`:
    /// there is none yet.
    pub limit: Option<u32>,
    /// Copies with which the link begins, as long as it has no limit.
    pub limit_first: u32,
    /// Copies that may run at once by the limit of operators.
    pub limit_max: u32,
    /// Bytes per second, all copies of this process together.
    pub goodput_bytes_s: f64,
    /// Why the optimizer has chosen its number.
    pub rationale: Option<String>,
    /// Whether operators have paused it.
    pub is_paused: bool,
    /// Why it waits for a time.
    pub held: Option<Hold>,
    /// Bans of its storages.
    pub bans: Vec<BanNotice>,
    /// Its virtual organisations with files.
    pub vos: Vec<VoWhy>,
}

/// A virtual organisation on a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VoWhy {
    /// Its name.
    pub vo: String,
    /// Its files.
    #[serde(flatten)]
    pub files: FileCounts,
    /// Its share, relative to the others.
    pub share: f64,
    /// Its share of the slots, in percent of those with files.
    pub share_percent: f64,
    /// Its activities.
    pub activities: Vec<ActivityWhy>,
    /// What keeps its files; empty: nothing.
    #[serde(serialize_with = "with_words")]
    pub reasons: Vec<Reason>,
}

/// An activity of a virtual organisation on a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ActivityWhy {
    /// Its name.
    pub activity: String,
    /// Its files.
    #[serde(flatten)]
    pub files: FileCounts,
    /// Its share, relative to the others.
    pub share: f64,
}

/// How many files are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileCounts {
    /// Copies that run, at all workers.
    pub active: u64,
    /// Files that wait for their turn.
    pub waiting: u64,
    /// Files that wait for a retry, or for a storage.
    pub delayed: u64,
    /// Files that a ban holds.
    pub banned: u64,
}

impl FileCounts {
    pub(super) fn add(&mut self, count: &catalog::QueueCount) {
        self.active += count.active;
        self.waiting += count.waiting;
        self.delayed += count.delayed;
        self.banned += count.held;
    }
}

/// What a link's queues add up to.
#[derive(Default)]
struct Sums<'a> {
    all: FileCounts,
    vos: BTreeMap<&'a str, (FileCounts, BTreeMap<&'a str, FileCounts>)>,
}

impl<'a> Sums<'a> {
    fn of(counters: &'a Counters, link: &Link) -> Self {
        let mut sums = Self::default();
        for (_, count) in counters.with_links().filter(|(of, _)| *of == link) {
            let (of_vo, activities) = sums.vos.entry(&count.key.vo).or_default();
            sums.all.add(count);
            of_vo.add(count);
            activities.entry(&count.key.activity).or_default().add(count);
        }
        sums
    }
}

impl Service {
    /// Why a link moves as it does.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn why_link(&self, source: &str, destination: &str) -> Result<LinkWhy> {
        let counters = self.0.counters(Duration::ZERO).await?;
        let link = link::between(source, destination);
        let sums = Sums::of(&counters, &link);
        let is_draining = self.0.is_draining();
        let reasons = self.0.explain(&counters, |inputs, decision| {
            let mut reasons = reasons(inputs, decision, &link);
            reasons.values_mut().for_each(|reasons| of_drain(reasons, is_draining));
            reasons
        });
        let (outlook, tuning) = (self.0.outlook(), self.0.tuning());
        let rules = Rules {
            outlook: &outlook,
            tuning: &tuning,
        };
        let policy = rules.link(&link.source, &link.destination);
        let (limit, rationale) = (policy.target.unwrap_or(policy.max), tuning.rationale(&link));
        let is_idle = sums.all.active == 0 && sums.all.waiting == 0;
        let bans = [&link.source, &link.destination].map(|storage| rules.ban(storage, ""));
        Ok(LinkWhy {
            source: link.source.clone(),
            destination: link.destination.clone(),
            files: sums.all,
            limit: decided(limit, policy.max, rationale.is_some(), is_idle),
            limit_first: INITIAL_COPIES.max(outlook.link_min(&link)).min(policy.max),
            limit_max: policy.max,
            goodput_bytes_s: tuning.goodput(&link),
            rationale,
            is_paused: policy.is_paused,
            held: policy.hold.filter(|hold| hold.until_ms > now_ms()),
            bans: bans.into_iter().flatten().collect(),
            vos: vos(&rules, &link, sums, reasons),
        })
    }
}

/// The source's storage, the destination's, and the virtual organisation.
pub type LinkKey = [String; 3];

impl Service {
    /// Why no more files of each link are copied now: the reasons of its first queue that lacks
    /// slots. Links that lack none are absent.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn link_reasons(&self) -> Result<BTreeMap<LinkKey, Vec<Reason>>> {
        let counters = self.0.counters(COUNTERS_AGE).await?;
        let is_draining = self.0.is_draining();
        Ok(self.0.explain(&counters, |inputs, decision| {
            let mut found: BTreeMap<LinkKey, Vec<Reason>> = BTreeMap::new();
            for short in &decision.shortfalls {
                let queue = &inputs.queues[short.queue];
                let key = [queue.source, queue.destination, queue.vo].map(str::to_owned);
                found.entry(key).or_insert_with(|| short.reasons.clone());
            }
            found.values_mut().for_each(|reasons| of_drain(reasons, is_draining));
            found
        }))
    }
}

impl LinkWhy {
    /// Whether it has no files, and nothing keeps it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.vos.is_empty() && !self.is_paused && self.held.is_none() && self.bans.is_empty()
    }
}

/// What keeps each virtual organisation on a link: the reasons of its first queue that lacks slots.
fn reasons(inputs: &Inputs<'_>, decision: &Decision, link: &Link) -> BTreeMap<String, Vec<Reason>> {
    let mut found = BTreeMap::new();
    for short in &decision.shortfalls {
        let queue = &inputs.queues[short.queue];
        if queue.source == link.source && queue.destination == link.destination {
            let reasons = || short.reasons.clone();
            found.entry(queue.vo.to_owned()).or_insert_with(reasons);
        }
    }
    found
}

fn vos(rules: &Rules<'_>, link: &Link, sums: Sums<'_>, mut reasons: BTreeMap<String, Vec<Reason>>) -> Vec<VoWhy> {
    let share = |vo: &str| rules.vo_share(&link.source, &link.destination, vo);
    let all: f64 = sums.vos.keys().map(|vo| share(vo)).sum();
    let why = |(vo, (files, activities)): (&str, (FileCounts, BTreeMap<&str, FileCounts>))| {
        let activities = activities.into_iter().map(|(activity, files)| ActivityWhy {
            activity: activity.to_owned(),
            files,
            share: rules.activity_share(vo, activity),
        });
        VoWhy {
            vo: vo.to_owned(),
            files,
            share: share(vo),
            share_percent: 100.0 * share(vo) / all,
            activities: activities.collect(),
            reasons: reasons.remove(vo).unwrap_or_default(),
        }
    };
    sums.vos.into_iter().map(why).collect()
}
