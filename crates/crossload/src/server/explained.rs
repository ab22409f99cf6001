//! Explanations by a configuration: what `crossload explain` prints and the pages show.

use std::sync::Arc;

use config::{Configuration, Export};
use credentials::Credential;
use door_web::{ExplainAnswer, ExplainQuestion, Words};
use endpoint::{UpstreamClient, UpstreamIdentity as _, clock, explain_upstream};
use policy::{Decision, Explanation, Operation, Policy, Request};
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use super::UpstreamKey;
use super::rules;
use crate::failure::{Failure, Reader};

/// Whether an operation is allowed, and why.
///
/// # Errors
/// Those of files of an upstream server.
pub(crate) fn explained(
    configuration: &Configuration,
    policy: &Policy,
    credential: &Result<Arc<Credential>, Error>,
    request: &Request,
) -> Result<Explanation, Failure> {
    let decision = policy::explain(policy, credential.as_deref(), request);
    let explanation = Explanation::new(request, &decision);
    with_upstream(explanation, configuration, credential, &decision, &request.path)
}

/// The path as rules and tokens have it.
///
/// # Errors
/// As [`explained`].
pub(crate) fn respelled(configuration: &Configuration, path: LogicalPath) -> Result<LogicalPath, Failure> {
    let Some((export, inner)) = export_of(configuration, &path) else {
        return Ok(path);
    };
    let Some(key) = UpstreamKey::of(export, configuration) else {
        return Ok(path);
    };
    let plain = key.shown(None)?.plain_path(&inner);
    Ok(plain.map_or(path, |plain| plain.under(&export.path)))
}

/// The export of a path, and the path in it.
fn export_of<'a>(configuration: &'a Configuration, path: &LogicalPath) -> Option<(&'a Export, LogicalPath)> {
    let exports = configuration.exports.iter();
    let holding = exports.filter_map(|export| Some((export, path.below(&export.path)?)));
    holding.max_by_key(|(export, _)| export.path.as_str().len())
}

/// What it means that another server has the file, if one has.
fn with_upstream(
    explanation: Explanation,
    configuration: &Configuration,
    credential: &Result<Arc<Credential>, Error>,
    decision: &Decision,
    path: &LogicalPath,
) -> Result<Explanation, Failure> {
    let Some((export, inner)) = export_of(configuration, path) else {
        return Ok(explanation);
    };
    let Some(key) = UpstreamKey::of(export, configuration) else {
        return Ok(explanation);
    };
    let client = UpstreamClient {
        credential: credential.as_deref().ok(),
        key: None,
        user: decision.user.clone(),
        vo: decision.vo.clone(),
    };
    Ok(explain_upstream(explanation, &key.shown(None)?, &client, &inner))
}

/// Answers a question of the pages.
///
/// # Errors
/// `internal`: files that the configuration names cannot be read now.
pub(super) async fn answer(configuration: Arc<Configuration>, question: ExplainQuestion) -> Result<Vec<ExplainAnswer>> {
    execution::blocking_try(Side::Active, Phase::Authorize, move || {
        answers(&configuration, question).map_err(|failure| {
            let error = Error::new(ErrorCode::Internal, Side::Active, Phase::Authorize);
            error.with_detail(failure.message(Reader::Administrator))
        })
    })
    .await
}

fn answers(configuration: &Configuration, question: ExplainQuestion) -> Result<Vec<ExplainAnswer>, Failure> {
    let policy = rules::policy(configuration)?;
    let path = respelled(configuration, question.path)?;
    let credential = Ok(Arc::new(question.credential));
    let one = |operation: Operation| {
        let request = Request {
            operation,
            path: path.clone(),
            client_address: question.address.to_canonical(),
            now_s: clock::now_s(),
            size_bytes: None,
        };
        let explanation = explained(configuration, &policy, &credential, &request)?;
        Ok(ExplainAnswer {
            value: serde_json::to_value(&explanation).unwrap_or_default(),
            lines: explanation.to_string().lines().map(Words::from).collect(),
        })
    };
    question.operations.into_iter().map(one).collect()
}
