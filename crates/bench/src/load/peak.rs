//! The most memory that servers on this machine take while they are watched.

use std::time::Duration;

use super::third_party::Pair;
use crate::machine::resident_bytes;

/// How often is looked. The kernel keeps a peak of its own, but since the process began.
const PERIOD: Duration = Duration::from_millis(200);

/// The peaks of both sides of a pair.
#[derive(Clone, Debug)]
pub(crate) struct Peaks {
    sides: Vec<Side>,
}

#[derive(Clone, Debug)]
struct Side {
    name: &'static str,
    processes: Vec<u32>,
    bytes: Option<u64>,
}

impl Peaks {
    /// Of the processes that are known. Where both sides are the same ones, there is one peak.
    pub(crate) fn of(pair: &Pair) -> Self {
        let side = |name, processes: &[u32]| Side {
            name,
            processes: processes.to_vec(),
            bytes: None,
        };
        let (source, destination) = (&pair.source.processes, &pair.destination.processes);
        let mut sides = match source == destination {
            true => vec![side("both servers", source)],
            false => vec![side("source", source), side("destination", destination)],
        };
        sides.retain(|side| !side.processes.is_empty());
        Self { sides }
    }

    /// Looks until it is dropped, and at once.
    pub(crate) async fn watch(&mut self) {
        loop {
            for side in &mut self.sides {
                let now: Option<Vec<u64>> = side.processes.iter().map(|process| resident_bytes(*process)).collect();
                // One that is gone leaves no figure that means anything.
                side.bytes = side.bytes.max(now.map(|now| now.iter().sum()));
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// The peaks in bytes, with the side's name.
    pub(crate) fn by_side(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.sides.iter().filter_map(|side| Some((side.name, side.bytes?)))
    }
}

#[cfg(test)]
mod tests {
    use remote::{Access, Resource};
    use types::{Location, Side};

    use super::*;
    use crate::ground::Target;

    fn target(processes: &[u32]) -> Target {
        Target {
            name: "se".to_owned(),
            place: Resource {
                location: Location::parse("https://se.example.org/").unwrap(),
                access: Access::default(),
                side: Side::Source,
            },
            file: None,
            processes: processes.to_vec(),
        }
    }

    async fn watched(source: &[u32], destination: &[u32]) -> Vec<&'static str> {
        let mut peaks = Peaks::of(&Pair {
            source: target(source),
            destination: target(destination),
        });
        assert!(tokio::time::timeout(PERIOD, peaks.watch()).await.is_err());
        assert!(peaks.by_side().all(|(_, bytes)| bytes > 1 << 16));
        peaks.by_side().map(|(name, _)| name).collect()
    }

    #[tokio::test]
    async fn each_side_has_its_peak_as_far_as_its_processes_are_known() {
        let own = std::process::id();
        assert_eq!(watched(&[own], &[own]).await, ["both servers"]);
        assert_eq!(watched(&[own], &[]).await, ["source"]);
        assert_eq!(watched(&[u32::MAX], &[own]).await, ["destination"]);
        assert!(watched(&[], &[]).await.is_empty());
    }
}
