//! The words of this API for states, kinds and ways, and how they are described.

use catalog::Overwrite;
use schedule::{FileState, JobKind, JobState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use super::answer::{ApiError, bad};

/// How the files of a job belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// Independent files.
    #[default]
    Normal,
    /// One file with several sources: the first that can be copied is enough.
    Replicas,
    /// A chain: each file is a hop.
    Hops,
    /// Files of one pair of storages, one after the other over kept connections.
    Session,
}

impl From<JobKind> for Kind {
    fn from(kind: JobKind) -> Self {
        match kind {
            JobKind::Normal => Self::Normal,
            JobKind::MultiSource => Self::Replicas,
            JobKind::Multihop => Self::Hops,
            JobKind::SessionReuse => Self::Session,
        }
    }
}

/// What may be overwritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OverwriteWhen {
    /// Nothing.
    #[default]
    Never,
    /// Each destination.
    Always,
    /// What an earlier attempt of the same file has left.
    OnRetry,
    /// The destinations of hops, except for the last.
    Hops,
}

impl From<OverwriteWhen> for Overwrite {
    fn from(when: OverwriteWhen) -> Self {
        match when {
            OverwriteWhen::Never => Self::Never,
            OverwriteWhen::Always => Self::Always,
            OverwriteWhen::OnRetry => Self::OnRetry,
            OverwriteWhen::Hops => Self::Hops,
        }
    }
}

/// The word of a value that is written as a text.
fn word(value: impl Serialize) -> Option<String> {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => Some(word),
        _ => None,
    }
}

fn one_of(values: impl IntoIterator<Item = impl Serialize>) -> Schema {
    let words: Vec<String> = values.into_iter().filter_map(word).collect();
    Schema::Object(
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(words))
            .build(),
    )
}

/// The states of jobs.
pub(super) fn job_state() -> Schema {
    one_of(JobState::ALL)
}

/// The states of files.
pub(super) fn file_state() -> Schema {
    one_of(FileState::ALL)
}

/// The states in a list with commas.
///
/// # Errors
/// 400 for what is no state of a job.
pub(super) fn job_states(list: Option<&str>) -> Result<Vec<JobState>, ApiError> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let state = |name: &str| {
        let name = name.trim().to_ascii_lowercase();
        let state = serde_json::from_value(Value::String(name.clone()));
        state.map_err(|_| bad(format!("there is no state {name}")))
    };
    list.split(',').map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_words_of_this_api() {
        assert_eq!(word(FileState::OnHold).as_deref(), Some("on_hold"));
        assert_eq!(word(JobState::FinishedDirty).as_deref(), Some("finished_dirty"));
        let states = job_states(Some("active, finished_dirty")).unwrap();
        assert_eq!(states, [JobState::Active, JobState::FinishedDirty]);
        assert!(job_states(Some("active,")).is_err());
        assert!(job_states(None).unwrap().is_empty());
    }
}
