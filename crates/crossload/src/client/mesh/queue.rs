//! Copies of a mesh that a transfer queue makes.

use std::pin::Pin;

use history::Failure;
use probe::mesh::{CopyEnd, OrderedCopy, Through};

use super::super::queue::{JobFailure, PHASE, SingleCopies};

/// The queue that makes the copies.
pub(super) struct ByQueue<'a>(pub(super) SingleCopies<'a>);

impl Through for ByQueue<'_> {
    fn copy<'a>(&'a self, copy: OrderedCopy<'a>) -> Pin<Box<dyn Future<Output = CopyEnd> + Send + 'a>> {
        Box::pin(async {
            let end = self.0.copy(copy.source, copy.destination).await;
            CopyEnd {
                failure: end.failure.map(told),
                job_url: end.url,
            }
        })
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.0.cancel_all())
    }
}

fn told(failure: JobFailure) -> Failure {
    Failure {
        side: failure.side,
        phase: PHASE,
        code: failure.code,
        says: failure.reason,
        server_status: None,
        server_words: None,
        reproduce: Vec::new(),
    }
}
