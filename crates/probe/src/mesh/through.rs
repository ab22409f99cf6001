//! Copies that another service makes on our order: a transfer queue.

use std::pin::Pin;

use history::Failure;
use remote::Resource;

/// A service that makes the copies of a mesh.
pub trait Through: Send + Sync {
    /// Has a file copied and waits for the end.
    fn copy<'a>(&'a self, copy: OrderedCopy<'a>) -> Pin<Box<dyn Future<Output = CopyEnd> + Send + 'a>>;

    /// Ends copies that are not waited for any more.
    fn stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// A copy to be made.
#[derive(Clone, Copy, Debug)]
pub struct OrderedCopy<'a> {
    /// The file, with what opens it.
    pub source: &'a Resource,
    /// Where it goes, with what opens it.
    pub destination: &'a Resource,
}

/// How a copy ended.
#[derive(Clone, Debug)]
pub struct CopyEnd {
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// The page of the job that made it.
    pub job_url: Option<String>,
}
