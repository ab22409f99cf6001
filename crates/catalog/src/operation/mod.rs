//! What the catalog does, one file per subject. Each operation is one transaction.

mod cancel;
mod claim;
mod count;
mod end;
mod list;
mod read;
mod submit;
mod words;

pub use cancel::{CancelOutcome, Canceled, RunningFile};
pub use claim::{Claimed, Grant};
pub use count::{QueueCount, QueueKey};
pub use end::{Ended, Ending, Outcome};
pub use list::{FileFilter, JobFilter};
pub use read::Attempt;
