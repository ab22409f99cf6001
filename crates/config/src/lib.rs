//! The configuration of a server: the keys of its file, and what follows from each.
//!
//! Each key is declared once, by [`section!`]: its type, default and description, when a change
//! takes effect, and the purpose of the files that it names. The parser with its suggestions
//! ([`parse`]), the manual ([`manual`]), reloads ([`Changes`]), and the lists of files to watch,
//! guard and check ([`Sections::files`]) are derived from that.
#![forbid(unsafe_code)]

mod bounded;
mod bus;
mod changes;
mod cluster;
mod cms;
mod configuration;
mod credential;
mod export_cache;
mod flows;
mod forwarding;
mod hop;
mod keys;
mod logged;
pub mod manual;
mod messages;
mod monitoring;
mod other_side;
mod parse;
mod purpose;
mod queue;
mod redirector;
mod remote_hosts;
mod remotes;
mod rules;
mod s3_export;
pub mod section;
pub mod shown;
mod sources;
mod storage_report;
mod storage_role;
mod suggest;
#[cfg(test)]
mod tests;
mod tokens;
mod traces;
mod upstream;
mod users;
pub mod values;
mod web;
mod x509;

pub use bounded::{CONFIGURATION_BYTES_MAX, read_bytes, read_text};
pub use bus::Bus;
pub use changes::Changes;
pub use cluster::Cluster;
pub use cms::Cms;
pub use configuration::Configuration;
pub use export_cache::ExportCache;
pub use flows::{Experiment, FlowRule, SciTags};
pub use forwarding::{forward_http, forward_root};
pub use hop::QueueHop;
pub use keys::{Export, Limits, Log, Macaroons, PolicyFiles, Rule, Server, ThirdPartyCopy, Trust, Xroot};
pub use logged::{LogFilter, LoggedRequests};
pub use messages::Messages;
pub use monitoring::Monitoring;
pub use other_side::{Delegation, HandOver};
pub use parse::{Faults, Mistake, parse};
pub use queue::Queue;
pub use redirector::{ClusterNode, NodePlaces, Redirector, Site};
pub use remotes::{ClientConfiguration, Remote};
pub use rules::{AllowedRights, DeniedRights, RuleSubjects};
pub use section::{KeyPath, NamedFile, Purpose, Sections};
pub use sources::{Sources, directory_of, files as configuration_files};
pub use storage_report::StorageReport;
pub use storage_role::{CopyRole, QueueStorage};
pub use tokens::{Counts, Issuer, Tokens};
pub use traces::Traces;
pub use users::{Quota, Switch, UserGroups, Users};
pub use values::{
    AuthenticationMethod, Bytes, ClearText, ClientCertificates, LogFormat, Niceness, ShareCount, UpstreamIdentity,
    Verification, XrootTls, parse_duration, parse_size,
};
pub use web::{RETURN_PATH, Web};
pub use x509::X509;
