//! The transfer queue: takes jobs into its catalog, decides which files are copied next, runs the
//! copies, and says why a file waits.
#![forbid(unsafe_code)]

mod capability;
mod clock;
mod copy;
pub mod events;
mod hop;
pub mod limits;
pub mod messages;
pub mod owners;
mod proxies;
mod s3_keys;
mod service;
mod share;
pub mod tape;
mod tokens;
mod urls;
mod vault;
pub mod webhooks;

pub use capability::{
    Capabilities, Capability, Cell, Course, Credential, KeptCapabilities, Known, LinkSide, Operation, Part, Peer,
};
pub use copy::{AccessLookup, CopySource, EndAccess, HopLookup, RemoteCopier, attempt_span, submission_span};
pub use hop::HopSite;
pub use proxies::{Proxies, proxy_name};
pub use s3_keys::{FoundKey, KeyHolder, S3Key, S3Keys};
pub use service::{
    ActivityWhy, CleanUp, Copier, CopyBounds, CopyLimits, CopyResult, CopyTime, CountedProblem, ExpiryLookup, Failure,
    FailureKind, Faults, FileCounts, HoldView, HopRemoval, Judged, LastHour, LeastRate, LinkEnds, LinkHour, LinkKey,
    LinkView, LinkWhy, Roles, Service, Settings, TokenGaps, Totals, VoWhy, Why, Work,
};
pub use tokens::{RenewalLog, SealedToken, Tokens, is_token_usable, token_gap};
pub use urls::{hidden_query, hide_queries, whole_url};
pub use vault::Vault;
