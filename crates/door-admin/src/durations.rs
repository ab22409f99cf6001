//! Histograms of how long requests take.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

/// Upper bounds of the request times, in seconds: a cached HEAD takes tens of microseconds, a large
/// PUT minutes.
const DURATION_BOUNDS_S: [f64; 14] = [
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0,
];

/// A histogram for each set of labels.
pub(crate) type Histograms<Labels> = Family<Labels, Histogram, fn() -> Histogram>;

/// Histograms of the durations of requests.
pub(crate) fn durations<Labels: Clone + std::hash::Hash + Eq>() -> Histograms<Labels> {
    Family::new_with_constructor(|| Histogram::new(DURATION_BOUNDS_S))
}
