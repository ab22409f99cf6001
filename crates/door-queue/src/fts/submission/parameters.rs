//! `params`: what holds for the whole job.
//!
//! Names, defaults and meanings are those of FTS 3.14 (`JobBuilder_utils.py`, and the client's
//! `Job`). Parameters that are not known are ignored, because clients send some that only they
//! understand (`account`, `credential`, `gridftp`).

use catalog::{ChecksumMode, JobOptions, Overwrite};
use serde_json::{Map, Value};

use super::value::{flag, integer, queue_time_s};
use crate::fts::FtsError;
use crate::limits::{HOPS_MAX, JOB_METADATA_BYTES_MAX, NAME_BYTES_MAX, QUEUE_TIME_S_MAX};

/// The least and the highest priority, and the default.
const PRIORITIES: std::ops::RangeInclusive<i64> = 1..=5;
const PRIORITY_DEFAULT: i64 = 3;

/// The parameters of a job.
pub(crate) struct Parameters(Map<String, Value>);

/// Where the identifier of a job comes from.
pub(super) enum IdGenerator {
    /// A new one.
    Standard,
    /// The same for the same name and VO.
    Deterministic(String),
}

impl Parameters {
    /// The members of `params`; `null` is the same as absent.
    ///
    /// # Errors
    /// 400 if they are no object.
    pub(crate) fn new(value: Option<Value>) -> Result<Self, FtsError> {
        match value {
            None => Ok(Self(Map::new())),
            Some(Value::Object(members)) => Ok(Self(members)),
            Some(_) => Err(FtsError::bad("Malformed request: params is not an object")),
        }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(flag)
    }

    fn integer(&self, name: &str, default: i64) -> Result<i64, FtsError> {
        self.get(name).map_or(Ok(default), |value| integer(name, value))
    }

    /// A number above 0; FTS's clients send -1 or 0 for none.
    fn positive<N: TryFrom<i64>>(&self, name: &str) -> Result<Option<N>, FtsError> {
        match self.integer(name, 0)? {
            ..=0 => Ok(None),
            number => {
                let fits = N::try_from(number).map(Some);
                fits.map_err(|_| FtsError::invalid(format!("{name} is too large")))
            }
        }
    }

    fn text(&self, name: &str) -> Result<String, FtsError> {
        match self.get(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) if text.len() <= NAME_BYTES_MAX => Ok(text.clone()),
            Some(_) => Err(FtsError::invalid(format!(
                "{name} is no text of at most {NAME_BYTES_MAX} bytes"
            ))),
        }
    }

    /// From 1 to 5.
    ///
    /// # Errors
    /// 400 for what is no number.
    pub(super) fn priority(&self) -> Result<u8, FtsError> {
        self.integer("priority", PRIORITY_DEFAULT).map(clamped_priority)
    }

    /// When files that still wait are given up, for a job that comes at `now_ms`.
    ///
    /// # Errors
    /// 400 for what is no time, or more than a year.
    pub(super) fn expires_ms(&self, now_ms: i64) -> Result<Option<i64>, FtsError> {
        let seconds = self.get("max_time_in_queue").map_or(Ok(0), queue_time_s)?;
        match seconds {
            0 => Ok(None),
            ..=QUEUE_TIME_S_MAX => Ok(Some(now_ms.saturating_add(seconds * 1000))),
            _ => Err(FtsError::invalid(format!(
                "max_time_in_queue is more than {} hours",
                QUEUE_TIME_S_MAX / 3600
            ))),
        }
    }

    /// # Errors
    /// 400 for a generator that does not exist, or one that lacks its name.
    pub(super) fn id_generator(&self) -> Result<IdGenerator, FtsError> {
        match self.text("id_generator")?.as_str() {
            "" | "standard" => Ok(IdGenerator::Standard),
            "deterministic" => match self.get("sid") {
                Some(Value::Number(sid)) => Ok(IdGenerator::Deterministic(sid.to_string())),
                _ => match self.text("sid")? {
                    sid if sid.is_empty() => Err(FtsError::bad(
                        "Need sid parameter to generate the job id with the deterministic algorithm",
                    )),
                    sid => Ok(IdGenerator::Deterministic(sid)),
                },
            },
            _ => Err(FtsError::invalid("id_generator is none of standard, deterministic")),
        }
    }

    /// The client's data about the job: an object in any case, as FTS makes it.
    ///
    /// # Errors
    /// 400 over the limit.
    pub(super) fn metadata(&mut self) -> Result<Option<Map<String, Value>>, FtsError> {
        let metadata = self.0.remove("job_metadata").unwrap_or_default();
        labelled("Job", metadata, JOB_METADATA_BYTES_MAX).map(|found| match found {
            Some(Value::Object(members)) => Some(members),
            _ => None,
        })
    }

    /// The options, with `has_checksum` if a file has one.
    ///
    /// # Errors
    /// 400 for values that cannot be used, and for flags that contradict each other.
    pub(super) fn options(&self, has_checksum: bool) -> Result<JobOptions, FtsError> {
        let retry = self.integer("retry", 0)?;
        let ipv4_only = self.flag("ipv4");
        Ok(JobOptions {
            bring_online_s: self.positive("bring_online")?,
            pin_lifetime_s: self.positive("copy_pin_lifetime")?,
            archive_timeout_s: self.positive("archive_timeout")?,
            checksum_mode: self.checksum_mode(has_checksum)?,
            overwrite: self.overwrite()?,
            reports_destination: self.flag("dst_file_report"),
            source_space_token: self.text("source_spacetoken")?,
            destination_space_token: self.text("destination_spacetoken")?,
            // 0 is the default of the server, and less is none.
            retries: match retry {
                0 => None,
                retry => Some(u16::try_from(retry.max(0)).unwrap_or(u16::MAX)),
            },
            retry_delay_s: self.positive("retry_delay")?,
            s3_alternate: self.flag("s3alternate"),
            streams: self.positive("nostreams")?,
            timeout_s: self.positive("timeout")?,
            tcp_buffer_bytes: self.positive("buffer_size")?,
            is_strict_copy: self.flag("strict_copy"),
            keeps_failed: self.flag("disable_cleanup"),
            ipv4_only,
            ipv6_only: self.flag("ipv6") && !ipv4_only,
            unmanaged_tokens: self.flag("unmanaged_tokens"),
            target_qos: Some(self.text("target_qos")?).filter(|qos| !qos.is_empty()),
            hops: self.hops()?,
            proxy: None,
            traceparent: None,
        })
    }

    /// Only the first letter of a text counts.
    fn checksum_mode(&self, has_checksum: bool) -> Result<ChecksumMode, FtsError> {
        let unasked = match has_checksum {
            true => ChecksumMode::Target,
            false => ChecksumMode::None,
        };
        match self.get("verify_checksum") {
            None => Ok(unasked),
            Some(Value::String(text)) => match text.trim().to_ascii_lowercase().chars().next() {
                Some('s') => Ok(ChecksumMode::Source),
                Some('t') => Ok(ChecksumMode::Target),
                Some('b') => Ok(ChecksumMode::Both),
                Some('n') => Ok(ChecksumMode::None),
                None => Ok(unasked),
                Some(_) => Err(FtsError::invalid(
                    "verify_checksum is none of source, target, both, none",
                )),
            },
            Some(value) if flag(value) => Ok(ChecksumMode::Both),
            Some(_) => Ok(unasked),
        }
    }

    fn overwrite(&self) -> Result<Overwrite, FtsError> {
        let hops = self.flag("overwrite_hop");
        if hops && !self.flag("multihop") {
            return Err(FtsError::bad("'overwrite-hop' requires multihop job submission"));
        }
        let flags = (
            self.flag("overwrite"),
            self.flag("overwrite_on_retry"),
            hops,
            self.flag("overwrite_when_only_on_disk"),
        );
        match flags {
            (false, false, false, false) => Ok(Overwrite::Never),
            (true, false, false, false) => Ok(Overwrite::Always),
            (false, true, false, false) => Ok(Overwrite::OnRetry),
            (false, false, true, false) => Ok(Overwrite::Hops),
            (false, false, false, true) => Ok(Overwrite::OnlyOnDisk),
            (false, false, true, true) => Ok(Overwrite::HopsAndOnlyOnDisk),
            _ => Err(FtsError::bad("Incompatible overwrite flags used at the same time")),
        }
    }

    /// Hosts on the way: a parameter of our own.
    fn hops(&self) -> Result<Vec<String>, FtsError> {
        let Some(value) = self.get("hops") else {
            return Ok(Vec::new());
        };
        let texts = value.as_array().filter(|list| list.len() <= HOPS_MAX);
        let is_name = |text: &&str| !text.is_empty() && text.len() <= NAME_BYTES_MAX;
        let hops: Option<Vec<String>> = texts.and_then(|list| {
            list.iter()
                .map(|hop| hop.as_str().filter(is_name).map(str::to_ascii_lowercase))
                .collect()
        });
        hops.ok_or_else(|| FtsError::invalid(format!("hops is no list of at most {HOPS_MAX} storages")))
    }
}

/// A priority within its bounds, from 1 to 5.
#[must_use]
pub fn clamped_priority(priority: i64) -> u8 {
    let clamped = priority.clamp(*PRIORITIES.start(), *PRIORITIES.end());
    u8::try_from(clamped).unwrap_or_default()
}

/// Data of a client: an object as it is, anything else below `label`; `null` is none.
///
/// # Errors
/// 400 if it takes more than `bytes_max` as JSON. `what` names it.
pub(super) fn labelled(what: &str, value: Value, bytes_max: usize) -> Result<Option<Value>, FtsError> {
    let value = match value {
        Value::Null => return Ok(None),
        Value::Object(members) => Value::Object(members),
        other => Value::Object(Map::from_iter([("label".to_owned(), other)])),
    };
    match value.to_string().len() {
        bytes if bytes > bytes_max => Err(FtsError::invalid(format!(
            "{what} metadata has {bytes} bytes, more than {bytes_max}"
        ))),
        _ => Ok(Some(value)),
    }
}
