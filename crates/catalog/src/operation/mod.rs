//! What the catalog does, one file per subject. Each operation is one transaction.

mod advance;
mod cancel;
mod claim;
mod count;
mod due;
mod end;
mod history;
mod hold;
mod list;
mod lost;
mod news;
mod once;
mod page;
mod read;
mod readers;
mod renewals;
mod secrets;
mod settings;
mod submit;
mod words;
mod workers;

pub use advance::{Advance, WaitingFile};
pub use cancel::{CancelOutcome, Canceled, RunningFile};
pub use claim::{Claimed, Grant};
pub use count::{QueueCount, QueueKey};
pub use due::{Due, ExpiredFile, Moved};
pub use end::{Ended, Ending, Outcome};
pub use list::{FileFilter, JobFilter};
pub use lost::{Lease, Lost, LostFile};
pub use news::{FileNews, News, NewsList, Subject};
pub use once::{JobSecrets, PastSubmission, SubmissionKey, Submitted};
pub use page::{JobSummary, Page};
pub use read::Attempt;
pub use secrets::{SealedSecret, SecretCount, SecretKind};
pub use settings::{Audit, Named, SettingKind};
pub use workers::{Event, WorkerRecord};
