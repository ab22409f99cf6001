//! The order in which the replicas of a file are tried.
//!
//! Source: the selection strategies of FTS 3.14's submission (`selection_strategy`). The figures
//! are arguments. A figure that is not known counts as the best, so that a new link is tried.

use serde::{Deserialize, Serialize};

/// How replicas are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SelectionStrategy {
    /// As given.
    Orderly,
    /// The shortest queue first.
    #[default]
    #[serde(alias = "queue")]
    Auto,
    /// The highest rate of success first.
    Success,
    /// The highest throughput of the link first.
    Throughput,
    /// The highest throughput of a single file first.
    FileThroughput,
    /// The least data that waits first.
    PendingData,
    /// The least time until the waiting data has moved first.
    WaitingTime,
    /// The same, with failures counted as time.
    WaitingTimeWithError,
    /// The least time for waiting data and this file first.
    Duration,
}

/// What is known about the link of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplicaFigures {
    /// Files that wait.
    pub waiting: u64,
    /// Their bytes.
    pub pending_bytes: u64,
    /// Part of the last attempts that succeeded, from 0 to 1.
    pub success: Option<f64>,
    /// Throughput of all copies, in bytes/s.
    pub throughput: Option<f64>,
    /// Throughput of one copy, in bytes/s.
    pub file_throughput: Option<f64>,
}

/// The positions of replicas in the order in which they are tried. Equal ones stay as given.
#[must_use]
pub fn order_replicas(strategy: SelectionStrategy, size_bytes: Option<u64>, replicas: &[ReplicaFigures]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..replicas.len()).collect();
    let costs: Vec<f64> = replicas
        .iter()
        .map(|replica| cost(strategy, size_bytes, replica))
        .collect();
    order.sort_by(|one, other| costs[*one].total_cmp(&costs[*other]));
    order
}

/// The least is tried first.
fn cost(strategy: SelectionStrategy, size_bytes: Option<u64>, replica: &ReplicaFigures) -> f64 {
    let best = |figure: Option<f64>| figure.filter(|figure| !figure.is_nan()).unwrap_or(f64::INFINITY);
    let seconds = |bytes: u64, rate: Option<f64>| match best(rate).max(0.0) {
        0.0 if bytes == 0 => 0.0,
        rate => bytes as f64 / rate,
    };
    let waiting = seconds(replica.pending_bytes, replica.throughput);
    match strategy {
        SelectionStrategy::Orderly => 0.0,
        SelectionStrategy::Auto => replica.waiting as f64,
        SelectionStrategy::Success => -best(replica.success),
        SelectionStrategy::Throughput => -best(replica.throughput),
        SelectionStrategy::FileThroughput => -best(replica.file_throughput),
        SelectionStrategy::PendingData => replica.pending_bytes as f64,
        SelectionStrategy::WaitingTime => waiting,
        // A file needs as many attempts as the rate of success implies.
        SelectionStrategy::WaitingTimeWithError => match best(replica.success).clamp(0.0, 1.0) {
            0.0 => f64::INFINITY,
            success => waiting / success,
        },
        SelectionStrategy::Duration => waiting + seconds(size_bytes.unwrap_or(0), replica.file_throughput),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(
        waiting: u64,
        pending_bytes: u64,
        success: f64,
        throughput: f64,
        file_throughput: f64,
    ) -> ReplicaFigures {
        ReplicaFigures {
            waiting,
            pending_bytes,
            success: Some(success),
            throughput: Some(throughput),
            file_throughput: Some(file_throughput),
        }
    }

    #[test]
    fn each_strategy_has_its_order() {
        let replicas = [
            replica(3, 6_000, 0.5, 100.0, 10.0),
            replica(1, 9_000, 0.9, 90.0, 30.0),
            replica(2, 3_000, 0.1, 40.0, 20.0),
        ];
        let expected = [
            (SelectionStrategy::Orderly, [0, 1, 2]),
            (SelectionStrategy::Auto, [1, 2, 0]),
            (SelectionStrategy::Success, [1, 0, 2]),
            (SelectionStrategy::Throughput, [0, 1, 2]),
            (SelectionStrategy::FileThroughput, [1, 2, 0]),
            (SelectionStrategy::PendingData, [2, 0, 1]),
            (SelectionStrategy::WaitingTime, [0, 2, 1]),
            (SelectionStrategy::WaitingTimeWithError, [1, 0, 2]),
            (SelectionStrategy::Duration, [2, 1, 0]),
        ];
        for (strategy, order) in expected {
            assert_eq!(order_replicas(strategy, Some(1_000), &replicas), order, "{strategy:?}");
        }
    }

    #[test]
    fn an_unknown_link_is_tried_and_no_figure_upsets_the_order() {
        let known = replica(0, 10, 1.0, 10.0, 10.0);
        let odd = replica(0, 0, f64::NAN, 0.0, f64::NAN);
        for strategy in [
            SelectionStrategy::Success,
            SelectionStrategy::Throughput,
            SelectionStrategy::WaitingTime,
        ] {
            assert_eq!(
                order_replicas(strategy, None, &[known, ReplicaFigures::default()]),
                [1, 0],
                "{strategy:?}"
            );
            assert_eq!(order_replicas(strategy, None, &[known, odd]).len(), 2);
        }
    }
}
