//! What a user of a queue's client can do after a refusal, where the sentence of the error table is
//! about files and URLs, and not about jobs.

use types::ErrorCode;

use crate::command_line::QueueAction;
use crate::failure::{Advice, Failure};

/// What the system and the error table say of something that does not exist.
const NO_FILE: &str = "No such file or directory";

/// The failure with the advice that fits this command.
pub(super) fn advised(failure: Failure, action: &QueueAction) -> Failure {
    let failure = match failure.code {
        Some(ErrorCode::NotFound | ErrorCode::PeerNotFound) => named(failure, action),
        _ => failure,
    };
    let advice = match (&failure.advice, failure.code) {
        (Some(Advice::Of(_)), Some(code)) => advice(code, action),
        _ => None,
    };
    match advice {
        Some(words) => Failure {
            advice: Some(Advice::Own(words.to_owned())),
            ..failure
        },
        None => failure,
    }
}

/// The failure about what this command names, instead of about a file.
fn named(failure: Failure, action: &QueueAction) -> Failure {
    use QueueAction as Do;
    let what = match action {
        Do::Why(options) if options.destination.is_some() => "link",
        Do::Why(options) if names_file(&options.what) => "file",
        Do::Log(options) if names_file(&options.job) => "file",
        Do::Status(_) | Do::Cancel(_) | Do::Log(_) | Do::Priority(_) | Do::Why(_) | Do::Watch(_) => "job",
        Do::Drain(_) => "worker",
        Do::Webhooks(_) => "webhook",
        Do::Links(_) | Do::Pause(_) | Do::Resume(_) => "link",
        Do::Ban(_) => "ban",
        _ => return failure,
    };
    Failure {
        words: failure
            .words
            .replace(&format!("{NO_FILE} at the peer"), NO_FILE)
            .replace(NO_FILE, &format!("There is no such {what}")),
        ..failure
    }
}

/// Whether this is a file, by its number alone or behind its job.
fn names_file(what: &str) -> bool {
    what.contains(':') || what.bytes().all(|byte| byte.is_ascii_digit())
}

/// The advice after this error, if there is a better one than that of the table.
fn advice(code: ErrorCode, action: &QueueAction) -> Option<&'static str> {
    use QueueAction as Do;
    Some(match (code, action) {
        (ErrorCode::NotFound | ErrorCode::PeerNotFound, Do::Why(options)) if options.destination.is_some() => {
            "\"crossload queue links\" lists the links that have files."
        }
        (
            ErrorCode::NotFound | ErrorCode::PeerNotFound,
            Do::Status(_) | Do::Cancel(_) | Do::Log(_) | Do::Priority(_) | Do::Why(_) | Do::Watch(_),
        ) => {
            "\"crossload queue list --since 1d\" prints your jobs, \"crossload queue status --files JOB\" their \
             files. You cannot see the jobs of others."
        }
        (ErrorCode::NotFound | ErrorCode::PeerNotFound, Do::Drain(_)) => "\"crossload queue drain\" lists the workers.",
        (ErrorCode::NotFound | ErrorCode::PeerNotFound, Do::Webhooks(_)) => {
            "\"crossload queue webhooks list\" lists the webhooks."
        }
        (ErrorCode::NotFound | ErrorCode::PeerNotFound, Do::Ban(_)) => "\"crossload queue ban\" lists the bans.",
        (ErrorCode::NotFound | ErrorCode::PeerNotFound, Do::Links(_)) => {
            "\"crossload queue links\" lists the links that have files."
        }
        (
            ErrorCode::Forbidden | ErrorCode::PeerForbidden,
            Do::Limits(_) | Do::Ban(_) | Do::Drain(_) | Do::Shares(_) | Do::Pause(_) | Do::Resume(_) | Do::Webhooks(_),
        ) => {
            "Only operators may do this: the administrator names them in queue.operators. \"crossload queue whoami\" \
             prints your name."
        }
        (ErrorCode::Forbidden | ErrorCode::PeerForbidden, Do::Submit(_)) => {
            "Ask the operators of the queue; \"crossload queue ban\" lists the bans, and \"crossload queue whoami\" \
             prints your name."
        }
        (ErrorCode::CertificateUnusable, Do::Submit(options)) if options.common.access.insecure => {
            "Trust the queue's authority (--cacert or --capath) instead of -k, or use a token."
        }
        (ErrorCode::BadUrl, Do::Submit(_)) => {
            "Write it as https://host/path, davs://host/path or root://host//path. \"crossload copy\" copies local \
             files."
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use types::{Error, Phase, Side};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        action: QueueAction,
    }

    fn said(code: ErrorCode, line: &[&str]) -> String {
        let line = ["queue"].iter().chain(line).chain(&["-s", "https://q:8446"]);
        let action = Line::try_parse_from(line).expect("a command").action;
        let failure = Failure::from(Error::new(code, Side::Queue, Phase::Open));
        advised(failure, &action).message(crate::failure::Reader::User)
    }

    #[test]
    fn the_next_step_is_about_jobs_and_operators() {
        let unknown = said(ErrorCode::PeerNotFound, &["status", "job"]);
        assert!(unknown.contains("next: \"crossload queue list"), "{unknown}");
        assert!(
            unknown.contains("There is no such job") && !unknown.contains(NO_FILE),
            "{unknown}"
        );
        let link = said(ErrorCode::NotFound, &["why", "https://a", "https://b"]);
        assert!(
            link.contains("There is no such link") && link.contains("next: \"crossload queue links\""),
            "{link}"
        );
        for line in [["why", "99999"], ["log", "job:9999"]] {
            let file = said(ErrorCode::NotFound, &line);
            assert!(file.contains("There is no such file;"), "{file}");
        }
        let ban = said(ErrorCode::NotFound, &["ban", "--unban", "--user", "x"]);
        assert!(ban.contains("next: \"crossload queue ban\" lists the bans"), "{ban}");
        let worker = said(ErrorCode::NotFound, &["drain", "w"]);
        assert!(worker.contains("next: \"crossload queue drain\""), "{worker}");
        for line in [["limits", "https://a", "--inbound=1"].as_slice(), &["pause", "a", "b"]] {
            let forbidden = said(ErrorCode::Forbidden, line);
            assert!(forbidden.contains("queue.operators"), "{forbidden}");
        }
        let insecure = said(ErrorCode::CertificateUnusable, &["submit", "-k", "a", "b"]);
        assert!(insecure.contains("--cacert"), "{insecure}");
        let other = said(ErrorCode::CertificateUnusable, &["submit", "a", "b"]);
        assert!(other.contains("new proxy"), "{other}");
    }
}
