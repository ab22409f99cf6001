//! A job as clients of our own API submit it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::num::NonZeroU32;
use utoipa::ToSchema;

use crate::bounded::{AtMost, Json};
use crate::fts::FtsError;
use crate::fts::submission::{FileBody, Parameters, Submission, Submitter, Texts, assemble};
use crate::limits::{FILE_METADATA_BYTES_MAX, JOB_FILES_MAX, JOB_METADATA_BYTES_MAX, REPLICAS_MAX};
use crate::v1::words::OverwriteWhen;

/// A job to submit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object with the member files")]
pub(in crate::v1) struct NewJob {
    /// The files.
    #[schema(value_type = Vec<NewFile>, min_items = 1, max_items = 100_000)]
    files: AtMost<NewFile, JOB_FILES_MAX>,
    /// How the files belong together: `normal`, `hops` or `session`. A normal job of one file with
    /// several sources becomes one of `replicas`.
    #[serde(default)]
    kind: Option<NewKind>,
    /// What may be overwritten; default: nothing.
    #[serde(default)]
    overwrite: Option<OverwriteWhen>,
    /// Which checksums must agree with the given one. Default: the destination's if there is one.
    #[serde(default)]
    verify: Option<Verify>,
    /// From 1 to 5; higher goes first. Default: 3.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 5)]
    priority: Option<u8>,
    /// Attempts after the first that failed for a passing reason; default: the queue's.
    #[serde(default)]
    #[schema(maximum = 65535)]
    retries: Option<u16>,
    /// Seconds between attempts; default: the queue's.
    #[serde(default)]
    retry_delay_s: Option<u32>,
    /// Seconds that a copy may take; default: by its size.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1)]
    timeout_s: Option<NonZeroU32>,
    /// Seconds that a file may wait before it is given up; default: no limit.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 31_622_400)]
    queue_timeout_s: Option<NonZeroU32>,
    /// The client's data about the job, at most 2048 bytes of JSON.
    #[serde(default)]
    #[schema(value_type = Value)]
    metadata: Option<Json<JOB_METADATA_BYTES_MAX>>,
    /// Seconds that tape may take to bring a file online: the sources are on tape.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1)]
    bring_online_s: Option<NonZeroU32>,
    /// Seconds that the destination may take to write a file to tape: wait for it.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1)]
    archive_timeout_s: Option<NonZeroU32>,
    /// The space token of the destinations.
    #[serde(default)]
    #[schema(max_length = 255)]
    spacetoken: Option<String>,
    /// Copy only: no look at either side before and after.
    #[serde(default)]
    strict: Option<bool>,
    /// Report what the destination has, if it exists.
    #[serde(default)]
    report: Option<bool>,
}

/// How the files of a new job belong together.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum NewKind {
    /// Independent files, or one with several sources.
    Normal,
    /// A chain: each file is a hop.
    Hops,
    /// Files of one pair of storages, one after the other over kept connections.
    Session,
}

/// Which checksums must agree.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Verify {
    /// None.
    None,
    /// The source's with the given one.
    Source,
    /// The destination's with the given one.
    Destination,
    /// Both sides' with the given one, or with each other.
    Both,
}

/// A file to copy.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a JSON object with the members sources and destination"
)]
struct NewFile {
    /// URLs of the sources: the first that can be copied is enough.
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 64)]
    sources: AtMost<String, REPLICAS_MAX>,
    /// URL of the destination.
    destination: String,
    /// The size.
    #[serde(default)]
    #[schema(maximum = 9_223_372_036_854_775_807_i64)]
    size_bytes: Option<u64>,
    /// The checksum, as `algorithm:value`.
    #[serde(default)]
    #[schema(max_length = 100, example = "adler32:1a2b3c4d")]
    checksum: Option<String>,
    /// What it is for: a name of the shares.
    #[serde(default)]
    #[schema(max_length = 255)]
    activity: Option<String>,
    /// The client's data about the file, at most 4096 bytes of JSON.
    #[serde(default)]
    #[schema(value_type = Value)]
    metadata: Option<Json<FILE_METADATA_BYTES_MAX>>,
    /// A token that may read the sources.
    #[serde(default)]
    #[schema(max_length = 16384)]
    source_token: Option<String>,
    /// A token that may write the destination.
    #[serde(default)]
    #[schema(max_length = 16384)]
    destination_token: Option<String>,
}

impl NewFile {
    fn into_body(self) -> FileBody {
        let count = self.sources.0.len();
        let texts = |texts: Vec<Option<String>>| -> Option<Texts> { Some(AtMost(texts)) };
        FileBody {
            sources: texts(self.sources.0.into_iter().map(Some).collect()),
            destinations: texts(vec![Some(self.destination)]),
            // The same for all sources.
            source_tokens: self.source_token.and_then(|token| texts(vec![Some(token); count])),
            destination_tokens: self.destination_token.and_then(|token| texts(vec![Some(token)])),
            checksum: self.checksum,
            filesize: self.size_bytes.map(|size| Json(size.into())),
            activity: self.activity,
            metadata: self.metadata,
            ..FileBody::default()
        }
    }
}

impl NewJob {
    /// The job that the queue stores: the same as of FTS's API.
    ///
    /// # Errors
    /// 400 for what cannot be used.
    pub(in crate::v1) fn read(self, from: &Submitter<'_>) -> Result<Submission, FtsError> {
        let priority = self.priority.unwrap_or(3);
        if !(1..=5).contains(&priority) {
            return Err(FtsError::bad("priority is a number from 1 to 5"));
        }
        let parameters = self.parameters(priority)?;
        let files = self.files.0.into_iter().map(NewFile::into_body).collect();
        let mut submission = assemble(files, parameters, from)?;
        let options = &mut submission.job.options;
        // FTS has no number for these.
        options.retries = self.retries;
        options.retry_delay_s = self.retry_delay_s;
        Ok(submission)
    }

    /// As parameters of FTS's API.
    fn parameters(&self, priority: u8) -> Result<Parameters, FtsError> {
        let mut all = Map::new();
        let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
        put("priority", priority.into());
        match self.kind {
            None | Some(NewKind::Normal) => {}
            Some(NewKind::Hops) => put("multihop", true.into()),
            Some(NewKind::Session) => put("reuse", true.into()),
        }
        match self.overwrite {
            None | Some(OverwriteWhen::Never) => {}
            Some(OverwriteWhen::Always) => put("overwrite", true.into()),
            Some(OverwriteWhen::OnRetry) => put("overwrite_on_retry", true.into()),
            Some(OverwriteWhen::Hops) => put("overwrite_hop", true.into()),
        }
        let verify = self.verify.map(|verify| match verify {
            Verify::None => "none",
            Verify::Source => "source",
            Verify::Destination => "target",
            Verify::Both => "both",
        });
        put("verify_checksum", json!(verify));
        put("timeout", json!(self.timeout_s));
        put("bring_online", json!(self.bring_online_s));
        put("archive_timeout", json!(self.archive_timeout_s));
        put(
            "max_time_in_queue",
            json!(self.queue_timeout_s.map(|seconds| format!("{seconds}s"))),
        );
        put(
            "job_metadata",
            json!(self.metadata.as_ref().map(|metadata| &metadata.0)),
        );
        put("destination_spacetoken", json!(self.spacetoken));
        put("strict_copy", json!(self.strict));
        put("dst_file_report", json!(self.report));
        Parameters::new(Some(Value::Object(all)))
    }
}

/// A job that was stored.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::v1) struct StoredJob {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub(in crate::v1) job_id: String,
    /// The number of its files, each replica counted.
    pub(in crate::v1) files: u32,
    /// What may keep it from succeeding, in words, such as a credential that ends too soon; and
    /// what the queue has changed in it: retries and activities over their limits.
    pub(in crate::v1) warnings: Vec<String>,
}
