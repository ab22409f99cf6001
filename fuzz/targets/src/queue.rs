//! Targets for what clients of the transfer queue send.

use catalog::{Login, Owner};
use door_queue::fts::submission::{self, Submitter, source_as_given};
use schedule::{FileState, JobKind};

/// Pieces of submissions.
pub(crate) const SUBMISSION_WORDS: &[&str] = &[
    "{\"files\":[",
    "{\"sources\":[\"https://a/1\"],\"destinations\":[\"root://b//1\"]}",
    "],\"params\":{",
    "\"multihop\":true",
    "\"reuse\":true",
    "\"overwrite_hop\":true",
    "\"max_time_in_queue\":\"2d\"",
    "\"id_generator\":\"deterministic\",\"sid\":\"x\"",
    "\"source_tokens\":[\"a.b.c\"]",
    "\"job_metadata\":{}",
    "?copy_mode=push",
    "&X-Amz-Signature=0",
    "null",
    "-1",
    "1e300",
    "}}",
];

/// A job that is taken has files, one that begins at least, and a source is shown as it was given
/// apart from its place of `copy_mode`; what is refused is the client's fault.
pub(crate) fn submission(data: &[u8]) {
    let owner = Owner {
        user: "/CN=Fuzz".to_owned(),
        delegation_id: "0".to_owned(),
        vo: "vo".to_owned(),
        login: Login::Certificate,
    };
    let from = Submitter {
        owner: &owner,
        now_ms: 1_795_000_000_000,
        random: [7; 16],
    };
    let submission = match submission::read(data, &from) {
        Ok(submission) => submission,
        Err(error) => {
            assert!(matches!(error.status, 400 | 405), "{error}");
            return;
        }
    };
    let job = submission.job;
    assert!((1..=5).contains(&job.priority));
    assert!(job.files.iter().any(|file| file.state != FileState::NotUsed));
    let is_chained = matches!(job.kind, JobKind::MultiSource | JobKind::Multihop);
    for (position, file) in job.files.iter().enumerate() {
        assert_eq!(file.state == FileState::NotUsed, is_chained && position > 0);
        let given = source_as_given(&file.source, file.options.copy_mode);
        assert_eq!(
            given.contains("copy_mode="),
            file.source.contains("copy_mode=") || file.options.copy_mode.is_some()
        );
        for storage in [&file.source_storage, &file.destination_storage] {
            assert!(
                storage.contains("://")
                    && storage
                        .rsplit(':')
                        .next()
                        .is_some_and(|port| port.parse::<u16>().is_ok())
            );
        }
        let tokens = [&file.options.source_token, &file.options.destination_token];
        for name in tokens.into_iter().flatten() {
            assert!(submission.tokens.iter().any(|token| token.name == *name));
        }
    }
}
