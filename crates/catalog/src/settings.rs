//! What operators decide while the queue runs: limits, shares and bans.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which part of a third-party copy a storage can play (`tpc_support`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ThirdPartyRole {
    /// It fetches and sends.
    #[default]
    Full,
    /// It fetches.
    Pull,
    /// It sends.
    Push,
    /// Neither.
    None,
}

/// An S3 storage, for which operators store keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudStorage {
    /// Its name, `S3:HOST` in upper case.
    pub name: String,
    /// The region that requests are signed for.
    pub region: Option<String>,
    /// Whether the bucket stands in the path of its URLs.
    pub is_alternate: bool,
}

/// Limits and abilities of a storage. The name `*` stands for all that have no own.
///
/// A storage is named with its port (`davs://host:443`), or without for all ports of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageSettings {
    /// Copies into it at once.
    pub inbound_max_active: Option<u32>,
    /// Copies out of it at once.
    pub outbound_max_active: Option<u32>,
    /// MiB/s into it.
    pub inbound_max_throughput: Option<f64>,
    /// MiB/s out of it.
    pub outbound_max_throughput: Option<f64>,
    /// Its part in third-party copies.
    #[serde(rename = "tpc_support")]
    pub third_party: Option<ThirdPartyRole>,
    /// Its site.
    pub site: Option<String>,
    /// Data of operators about it.
    #[serde(rename = "se_metadata")]
    pub metadata: Option<String>,
    /// Do not release files from tape after the copy.
    pub skip_eviction: Option<bool>,
    /// Whether `OnlyOnDisk` may overwrite there; unset: if its tape system says that the file is on
    /// disk only.
    pub overwrite_disk_enabled: Option<bool>,
    /// Only IPv6 or only IPv4. Kept for FTS's API only.
    pub ipv6: Option<bool>,
    /// Kept for FTS's API only.
    pub udt: Option<bool>,
    /// Kept for FTS's API only.
    pub debug_level: Option<u32>,
    /// Staging requests at once, by virtual organisation.
    pub staging: BTreeMap<String, u32>,
}

/// Limits of a link. `*` stands for any storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkSettings {
    /// The name by which operators know it.
    #[serde(rename = "symbolicname")]
    pub name: String,
    /// The source's storage.
    pub source: String,
    /// The destination's storage.
    pub destination: String,
    /// Copies at once: at least.
    pub min_active: Option<u32>,
    /// Copies at once: at most.
    pub max_active: Option<u32>,
    /// FTS's mode of the optimizer: 0 fixes the number at `max_active`.
    pub optimizer_mode: Option<u8>,
    /// Streams of each copy.
    #[serde(rename = "nostreams")]
    pub streams: Option<u16>,
    /// Kept for FTS's API only.
    pub tcp_buffer_size: Option<u32>,
    /// Whether copies get no delegated proxy.
    pub no_delegation: bool,
    /// Whether operators have paused it.
    pub is_paused: bool,
    /// Shares of virtual organisations, relative to each other.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, f64>,
}

/// What holds for a virtual organisation. The name `*` stands for all that have no own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VoSettings {
    /// Attempts after the first.
    pub retry: Option<u16>,
    /// Hours that a file may wait.
    pub max_time_queue: Option<u32>,
    /// Seconds per MiB that a copy may take.
    pub sec_per_mb: Option<f64>,
    /// Seconds that a copy may take.
    pub global_timeout: Option<u32>,
    /// No copies through the queue's machine.
    pub no_streaming: Option<bool>,
    /// Whether messages name the user.
    pub show_user_dn: Option<bool>,
    /// Shares of its activities.
    pub activity_shares: BTreeMap<String, f64>,
    /// Whether the shares of its activities are used.
    pub activity_shares_active: Option<bool>,
    /// Its share of a link beside others, where the link has no own.
    pub share: Option<f64>,
    /// Its copies at once, on all links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_active: Option<u32>,
}

/// What a ban does to files that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BanEffect {
    /// They are canceled, and new ones refused.
    Cancel,
    /// They wait, and new ones are refused.
    Wait,
    /// They wait, and new ones are taken and wait too.
    WaitAs,
}

/// What operators may grant to a user beside the operators of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Seeing, cancelling and changing the jobs of all users.
    Transfer,
    /// Seeing and changing settings, bans and workers.
    Config,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 2] = [Self::Transfer, Self::Config];

    /// Its name, as in FTS.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Config => "config",
        }
    }
}

/// A right that operators have given to a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRight {
    /// The name of a certificate, or `subject@issuer` of a token.
    pub user: String,
    /// What the user may do.
    pub operation: Operation,
    /// Who has given it; empty: not known.
    #[serde(default)]
    pub by: String,
}

/// Why files of a banned storage are canceled.
pub const STORAGE_BANNED: &str = "Storage banned";

/// A storage that is not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ban {
    /// The storage, with or without port.
    pub storage: String,
    /// Only for this virtual organisation; empty: for all.
    pub vo: String,
    /// What it does.
    pub effect: BanEffect,
    /// Why.
    pub message: String,
    /// Who banned it.
    pub by: String,
    /// Since when.
    pub since_ms: i64,
    /// When one that lets files wait becomes one that cancels, in milliseconds since 1970; `None`:
    /// they wait until the ban ends.
    pub cancels_ms: Option<i64>,
}

impl Ban {
    /// Whether it concerns the jobs of this virtual organisation.
    #[must_use]
    pub fn is_for(&self, vo: &str) -> bool {
        matches!(self.vo.as_str(), "" | "*") || self.vo == vo
    }

    /// What it does at this time.
    #[must_use]
    pub fn effect_at(&self, now_ms: i64) -> BanEffect {
        match self.cancels_ms {
            Some(at_ms) if at_ms <= now_ms => BanEffect::Cancel,
            _ => self.effect,
        }
    }
}
