//! Failures by what they have in common.
//!
//! A storage that is broken fails with each of its partners. Shown one by one, its failures would
//! hide all others; as a group they are one line, which names what they share.

use std::collections::{BTreeMap, BTreeSet};

use history::{Cell, Failure};
use types::{Phase, Side};

/// What the cells of a group share, besides the kind of their failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Common {
    /// One source, with several destinations.
    Source(String),
    /// One destination, with several sources.
    Destination(String),
    /// One endpoint, which nothing was copied to or from.
    Endpoint(String),
    /// One source and one destination.
    Link {
        /// The source.
        source: String,
        /// The destination.
        destination: String,
    },
}

impl Common {
    /// The endpoint that all cells of the group have, if it is one.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        match self {
            Self::Source(name) | Self::Destination(name) | Self::Endpoint(name) => Some(name),
            Self::Link { .. } => None,
        }
    }

    fn has(&self, cell: &Cell) -> bool {
        match self {
            Self::Source(name) => cell.link.source == *name,
            Self::Destination(name) => cell.link.destination == *name,
            Self::Endpoint(name) => cell.link.source == *name && cell.link.destination == *name,
            Self::Link { source, destination } => cell.link.source == *source && cell.link.destination == *destination,
        }
    }
}

/// Failures of one kind with something in common.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they share.
    pub common: Common,
    /// The side at fault.
    pub side: Side,
    /// When it happened.
    pub phase: Phase,
    /// The code of the failure.
    pub code: String,
    /// Places of the cells in the run, in their order; at least one.
    pub cells: Vec<usize>,
    /// The first of the failures.
    pub first: Failure,
}

impl Group {
    /// Side, phase and code, such as `destination transfer no_space`.
    #[must_use]
    pub fn kind(&self) -> String {
        format!("{} {} {}", self.side.name(), self.phase.name(), self.code)
    }

    /// Whether another run's group is the same problem.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.common == other.common && self.side == other.side && self.phase == other.phase && self.code == other.code
    }
}

/// A kind of failure: side, phase and code.
type Kind<'a> = (Side, Phase, &'a str);

/// All failures of these cells in groups, the largest first.
pub(crate) fn groups(cells: &[Cell]) -> Vec<Group> {
    let mut kinds: BTreeMap<(&str, usize, &str), (Kind<'_>, Vec<usize>)> = BTreeMap::new();
    for (at, cell) in cells.iter().enumerate() {
        if let Some(failure) = cell.outcome.failure() {
            let kind = (failure.side, failure.phase, failure.code.as_str());
            let order = (failure.side.name(), failure.phase as usize, failure.code.as_str());
            kinds.entry(order).or_insert_with(|| (kind, Vec::new())).1.push(at);
        }
    }
    let mut groups: Vec<Group> = kinds
        .into_values()
        .flat_map(|(kind, members)| split(cells, kind, members))
        .collect();
    groups.sort_by(|one, other| {
        let order = other.cells.len().cmp(&one.cells.len());
        order.then_with(|| one.common.cmp(&other.common))
    });
    groups
}

/// Splits failures of one kind: what most of them share becomes a group, as long as any is left.
fn split(cells: &[Cell], kind: Kind<'_>, mut left: Vec<usize>) -> Vec<Group> {
    let mut groups = Vec::new();
    while let Some(first) = left.first() {
        let common = most_common(cells, &left, kind.0).unwrap_or_else(|| alone(&cells[*first]));
        let (members, others): (Vec<usize>, Vec<usize>) = left.into_iter().partition(|at| common.has(&cells[*at]));
        left = others;
        let failures = members.iter().filter_map(|at| cells[*at].outcome.failure());
        let (Some(first), (side, phase, code)) = (failures.into_iter().next().cloned(), kind) else {
            break;
        };
        groups.push(Group {
            common,
            side,
            phase,
            code: code.to_owned(),
            cells: members,
            first,
        });
    }
    groups
}

fn alone(cell: &Cell) -> Common {
    let link = &cell.link;
    match link.source == link.destination {
        true => Common::Endpoint(link.source.clone()),
        false => Common::Link {
            source: link.source.clone(),
            destination: link.destination.clone(),
        },
    }
}

/// The endpoint that fails with most others; at equal counts on the side that the failures name.
fn most_common(cells: &[Cell], members: &[usize], blamed: Side) -> Option<Common> {
    let mut partners: BTreeMap<(bool, &str), BTreeSet<&str>> = BTreeMap::new();
    for at in members {
        let link = &cells[*at].link;
        if link.source != link.destination {
            partners
                .entry((true, &link.source))
                .or_default()
                .insert(&link.destination);
            partners
                .entry((false, &link.destination))
                .or_default()
                .insert(&link.source);
        }
    }
    let is_blamed = |is_source: bool| match blamed {
        Side::Source => is_source,
        Side::Destination => !is_source,
        _ => false,
    };
    let candidates = partners.iter().filter(|(_, partners)| partners.len() > 1);
    let ((is_source, name), _) =
        candidates.max_by_key(|((is_source, _), partners)| (partners.len(), is_blamed(*is_source)))?;
    Some(match is_source {
        true => Common::Source((*name).to_owned()),
        false => Common::Destination((*name).to_owned()),
    })
}
