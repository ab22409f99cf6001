//! Which copy is begun next: at most so many in all, and so many with one endpoint.

use std::collections::VecDeque;

use super::plan::Ends;

/// The copies that wait, and how many each endpoint has under way.
pub(super) struct Shares {
    waiting: VecDeque<(usize, Ends)>,
    under_way: Vec<u32>,
    each_max: u32,
}

impl Shares {
    /// The copies, in the order in which they are begun if nothing speaks against it.
    pub(super) fn new(endpoints: usize, each_max: u32, copies: impl Iterator<Item = (usize, Ends)>) -> Self {
        Self {
            waiting: copies.collect(),
            under_way: vec![0; endpoints],
            each_max,
        }
    }

    /// Adds a copy to those that wait.
    pub(super) fn add(&mut self, copy: usize, ends: Ends) {
        self.waiting.push_back((copy, ends));
    }

    /// How many copies wait.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// The next copy whose endpoints both have room, if there is one.
    pub(super) fn next(&mut self) -> Option<(usize, Ends)> {
        let has_room = |ends: &Ends| {
            let [from, to] = [ends.source.endpoint, ends.destination.endpoint];
            self.under_way[from] < self.each_max && self.under_way[to] < self.each_max
        };
        let position = self.waiting.iter().position(|(_, ends)| has_room(ends))?;
        let next = self.waiting.remove(position)?;
        for endpoint in [next.1.source.endpoint, next.1.destination.endpoint] {
            self.under_way[endpoint] += 1;
        }
        Some(next)
    }

    /// A copy has ended.
    pub(super) fn give_back(&mut self, ends: Ends) {
        for endpoint in [ends.source.endpoint, ends.destination.endpoint] {
            self.under_way[endpoint] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Seat;
    use super::*;

    fn ends(from: usize, to: usize) -> Ends {
        let seat = |endpoint| Seat {
            endpoint,
            place: 0,
            credential: 0,
        };
        Ends {
            source: seat(from),
            destination: seat(to),
        }
    }

    #[test]
    fn no_endpoint_has_more_than_its_share() {
        let copies = [(0, 1), (0, 2), (0, 3), (2, 3), (1, 2)];
        let copies = copies
            .iter()
            .enumerate()
            .map(|(index, (from, to))| (index, ends(*from, *to)));
        let mut shares = Shares::new(4, 2, copies);
        let begun: Vec<usize> = std::iter::from_fn(|| shares.next()).map(|(index, _)| index).collect();
        assert_eq!(begun, [0, 1, 3], "0 has two, and then 2");
        shares.give_back(ends(0, 1));
        assert_eq!(shares.next().map(|(index, _)| index), Some(2));
        assert!(shares.next().is_none(), "2 has two");
        shares.give_back(ends(0, 2));
        assert_eq!(shares.next().map(|(index, _)| index), Some(4));
        assert!(shares.next().is_none());
    }
}
