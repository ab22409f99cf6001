//! Requests of the XRootD protocol, by their operation. Reads of open files are counted here too,
//! so one look-up finds all series of an operation.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::durations::{Histograms, durations};
use crate::limits::OPERATIONS_NAMED_MAX;

/// The name of all operations beyond the limit.
const OTHER: &str = "other";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OperationLabels {
    operation: Cow<'static, str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    operation: Cow<'static, str>,
    outcome: &'static str,
}

/// The series of one operation.
struct Operation {
    succeeded: OnceLock<Counter>,
    failed: OnceLock<Counter>,
    duration: Histogram,
}

/// How many requests of an operation were answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationCount {
    /// The operation.
    pub name: Cow<'static, str>,
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
}

/// All operations.
pub(crate) struct Operations {
    named: RwLock<HashMap<Cow<'static, str>, Arc<Operation>>>,
    requests: Family<OutcomeLabels, Counter>,
    durations: Histograms<OperationLabels>,
}

impl Default for Operations {
    fn default() -> Self {
        Self {
            named: RwLock::default(),
            requests: Family::default(),
            durations: durations(),
        }
    }
}

impl Operations {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Requests of the XRootD protocol answered, by operation and outcome";
        registry.register("xroot_requests", help, self.requests.clone());
        let help = "Time from the head of a request of the XRootD protocol to the end of its answer, by operation";
        let durations = self.durations.clone();
        registry.register_with_unit("xroot_request_duration", help, Unit::Seconds, durations);
    }

    /// Counts a request that was answered.
    pub(crate) fn count(&self, name: Cow<'static, str>, duration: Duration, succeeded: bool) {
        let known = self.named.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(operation) = known.get(&name) {
            return self.add(operation, name, duration, succeeded);
        }
        let is_full = known.len() >= OPERATIONS_NAMED_MAX;
        drop(known);
        let name = if is_full { Cow::Borrowed(OTHER) } else { name };
        let operation = self.named(name.clone());
        self.add(&operation, name, duration, succeeded);
    }

    /// All operations that were counted until now, in no order.
    pub(crate) fn counts(&self) -> Vec<OperationCount> {
        let known = self.named.read().unwrap_or_else(PoisonError::into_inner);
        let count = |counter: &OnceLock<Counter>| counter.get().map_or(0, Counter::get);
        let each = known.iter().map(|(name, operation)| OperationCount {
            name: name.clone(),
            succeeded: count(&operation.succeeded),
            failed: count(&operation.failed),
        });
        each.collect()
    }

    fn named(&self, name: Cow<'static, str>) -> Arc<Operation> {
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        let make = || Operation {
            succeeded: OnceLock::new(),
            failed: OnceLock::new(),
            duration: self.durations.get_or_create_owned(&OperationLabels {
                operation: name.clone(),
            }),
        };
        named.entry(name.clone()).or_insert_with(|| Arc::new(make())).clone()
    }

    fn add(&self, operation: &Operation, name: Cow<'static, str>, duration: Duration, succeeded: bool) {
        let (counter, outcome) = match succeeded {
            true => (&operation.succeeded, "ok"),
            false => (&operation.failed, "error"),
        };
        let counter = counter.get_or_init(|| {
            let operation = name;
            self.requests.get_or_create_owned(&OutcomeLabels { operation, outcome })
        });
        counter.inc();
        operation.duration.observe(duration.as_secs_f64());
    }
}
