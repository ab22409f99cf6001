//! What the scheduler asks about storages, links and virtual organisations: the settings of
//! operators, and within them what the optimizer has found.

use schedule::scheduler::{Inputs, LinkPolicy, Policy, Queue};
use schedule::{BanNotice, Hold};

use super::link;
use super::outlook::Outlook;
use super::tuning::Tuning;

/// The answers of one moment.
pub(super) struct Rules<'a> {
    pub(super) outlook: &'a Outlook,
    pub(super) tuning: &'a Tuning,
}

impl Rules<'_> {
    /// What a decision is made from.
    pub(super) fn inputs<'a>(&'a self, now_ms: i64, queues: &'a [Queue<'a>], places: u32) -> Inputs<'a> {
        Inputs {
            now_ms,
            queues,
            policy: self,
            places,
            share_unit: self.outlook.share_unit,
        }
    }
}

impl Policy for Rules<'_> {
    fn inbound_max(&self, storage: &str) -> u32 {
        self.outlook.inbound(storage)
    }

    fn outbound_max(&self, storage: &str) -> u32 {
        self.outlook.outbound(storage)
    }

    fn host_inbound_max(&self, storage: &str) -> Option<u32> {
        self.outlook.host_inbound(storage)
    }

    fn host_outbound_max(&self, storage: &str) -> Option<u32> {
        self.outlook.host_outbound(storage)
    }

    fn link(&self, source: &str, destination: &str) -> LinkPolicy {
        let link = link::between(source, destination);
        let (max, target) = (self.outlook.link_max(&link), self.tuning.target(&link));
        let hold = self.outlook.held(&link).map(|hold| Hold {
            storage: match hold.problem.side.as_str() {
                "source" => link.source.clone(),
                _ => link.destination.clone(),
            },
            until_ms: hold.until_ms,
            message: hold.problem.reason.clone(),
        });
        LinkPolicy {
            max,
            target: (target < max).then_some(target),
            is_paused: self.outlook.is_paused(&link),
            hold,
        }
    }

    fn vo_max(&self, vo: &str) -> Option<u32> {
        self.outlook.vo_max(vo)
    }

    fn vo_share(&self, source: &str, destination: &str, vo: &str) -> f64 {
        self.outlook.vo_share(&link::between(source, destination), vo)
    }

    fn activity_share(&self, vo: &str, activity: &str) -> f64 {
        self.outlook.activity_share(vo, activity)
    }

    fn activity_group<'g>(&self, vo: &str, activity: &'g str) -> &'g str {
        self.outlook.activity_group(vo, activity)
    }

    fn ban(&self, storage: &str, vo: &str) -> Option<BanNotice> {
        self.outlook.ban(storage, vo).map(|ban| BanNotice {
            storage: ban.storage.clone(),
            by: ban.by.clone(),
            since_ms: ban.since_ms,
            message: ban.message.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
