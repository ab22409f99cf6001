//! Which of the nodes that have a file a reader is sent to.

use crate::limits::STICKY_BUSY_MAX;
use crate::near::{Near, Nearness};
use crate::node::{NodeId, Nodes};

/// A reader, and where the file is.
#[derive(Debug, Clone, Copy)]
pub struct Readers<'a> {
    /// Nodes that have the file.
    pub holders: &'a [NodeId],
    /// Where readers of it were sent a moment ago.
    pub sticky: Option<NodeId>,
    /// What is near to the reader.
    pub near: Near<'a>,
    /// Nodes that the reader has tried in vain.
    pub tried: &'a [NodeId],
}

/// Why a node was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// No other node that has it takes readers.
    Only,
    /// Others read the same file there at this moment.
    Sticky,
    /// Of two that were drawn it is the less busy one.
    LessBusy {
        /// How busy it is: 1 is as much as it can do.
        busy: f64,
        /// The other.
        other: NodeId,
        /// How busy the other is.
        other_busy: f64,
    },
}

/// A choice with its reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The node.
    pub node: NodeId,
    /// Why this one.
    pub why: Why,
    /// How near it is to the reader.
    pub nearness: Nearness,
}

/// Chooses a node for a reader: the nearest first, then the node of a moment ago,
/// then the less busy one of two that are drawn by their strength. That spreads readers as evenly
/// as asking all would, and does not send everybody to the one that was idle when it was last
/// heard of.
///
/// `None` if no holder takes readers, or the reader has tried them all.
pub fn reader(nodes: &Nodes, of: Readers<'_>, now_ms: u64, random: &mut fastrand::Rng) -> Option<Choice> {
    let takes = |id: &NodeId| nodes.get(*id).is_some_and(|node| node.takes_reads());
    let able = |id: &&NodeId| takes(id) && !of.tried.contains(id);
    let mut open: Vec<NodeId> = of.holders.iter().filter(able).copied().collect();
    of.near.retain(&mut open, |id| *id, nodes);
    let busy = |id: NodeId| nodes.get(id).map_or(f64::INFINITY, |node| node.busy(now_ms));
    let chosen = |node: NodeId, why: Why| Choice {
        node,
        why,
        nearness: of.near.of(node, nodes),
    };
    if let [only] = open[..] {
        return Some(chosen(only, Why::Only));
    }
    if let Some(sticky) = of.sticky.filter(|id| open.contains(id) && busy(*id) < STICKY_BUSY_MAX) {
        return Some(chosen(sticky, Why::Sticky));
    }
    let weight = |id: &NodeId| nodes.get(*id).map_or(0.0, |node| node.config.weight);
    let one = drawn(&open, weight, random)?;
    let rest: Vec<NodeId> = open.iter().copied().filter(|id| *id != one).collect();
    let other = drawn(&rest, weight, random)?;
    let (node, other) = if busy(one) <= busy(other) {
        (one, other)
    } else {
        (other, one)
    };
    let why = Why::LessBusy {
        busy: busy(node),
        other,
        other_busy: busy(other),
    };
    Some(chosen(node, why))
}

/// One of these, more often the greater its weight.
pub(crate) fn drawn<T: Copy>(of: &[T], weight: impl Fn(&T) -> f64, random: &mut fastrand::Rng) -> Option<T> {
    let sum: f64 = of.iter().map(&weight).sum();
    let mut left = random.f64() * sum;
    for one in of {
        left -= weight(one);
        if left < 0.0 {
            return Some(*one);
        }
    }
    of.last().copied()
}

#[cfg(test)]
mod tests;
