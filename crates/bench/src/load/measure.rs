//! One measurement: several workers that begin together, the time until the last has ended, and
//! what the server's processes used meanwhile.

use std::time::Instant;

use tokio::task::JoinSet;
use types::Result;

use crate::machine;
use crate::{Stop, ground::Target};

/// What one measurement came to.
#[derive(Debug)]
pub struct Sample<T> {
    /// What each worker returned, in no order.
    pub results: Vec<Result<T>>,
    /// From the beginning to the end of the last worker.
    pub seconds: f64,
    /// Processor seconds of the server, where its processes are known.
    pub server_cpu_s: Option<f64>,
}

impl<T> Sample<T> {
    /// The first error, if a worker failed.
    #[must_use]
    pub fn error(&self) -> Option<&types::Error> {
        self.results.iter().find_map(|result| result.as_ref().err())
    }

    /// What the workers that did not fail returned.
    pub fn done(&self) -> impl Iterator<Item = &T> {
        self.results.iter().filter_map(|result| result.as_ref().ok())
    }
}

/// Processor seconds that the processes of a target have used so far; `None` when none is known, or
/// one is gone.
#[must_use]
pub fn server_cpu(target: &Target) -> Option<f64> {
    let used: Option<Vec<f64>> = target.processes.iter().map(|one| machine::cpu_seconds(*one)).collect();
    used.filter(|used| !used.is_empty()).map(|used| used.iter().sum())
}

/// Runs all workers at once, each as a task of its own. `None` when the run is to end before they
/// have: they are dropped then, with their connections.
pub async fn together<T, W>(target: &Target, stop: &Stop, workers: Vec<W>) -> Option<Sample<T>>
where
    T: Send + 'static,
    W: Future<Output = Result<T>> + Send + 'static,
{
    let before = server_cpu(target);
    let began = Instant::now();
    let mut team: JoinSet<Result<T>> = workers.into_iter().collect();
    let mut results = Vec::with_capacity(team.len());
    let gather = async {
        while let Some(joined) = team.join_next().await {
            match joined {
                Ok(result) => results.push(result),
                // A worker that panicked is a fault of this program, which must be seen.
                Err(cause) => std::panic::resume_unwind(cause.into_panic()),
            }
        }
    };
    stop.or(gather).await?;
    let seconds = began.elapsed().as_secs_f64();
    let server_cpu_s = before.and_then(|before| Some(server_cpu(target)? - before));
    Some(Sample {
        results,
        seconds,
        server_cpu_s,
    })
}
