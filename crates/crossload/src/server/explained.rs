//! Explanations by a configuration: what `crossload explain` prints and the pages show.

use std::sync::Arc;

use config::{Configuration, Export};
use credentials::{Credential, Grant};
use door_web::{ExplainAnswer, ExplainQuestion, Words};
use endpoint::{UpstreamClient, UpstreamIdentity as _, clock, explain_upstream};
use policy::{Decision, Explanation, Operation, Policy, Request};
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use super::UpstreamKey;
use super::rules;
use super::tokens::TokenSources;
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
/// `bad_request`: tokens of this issuer are of another virtual organisation. `internal`: files that
/// the configuration names cannot be read now.
pub(super) async fn answer(configuration: Arc<Configuration>, question: ExplainQuestion) -> Result<Vec<ExplainAnswer>> {
    execution::blocking_try(Side::Active, Phase::Authorize, move || {
        let credential = as_read(&configuration, question.credential.clone())?;
        answers(&configuration, question, &credential).map_err(|failure| unreadable(&failure))
    })
    .await
}

fn unreadable(failure: &Failure) -> Error {
    let error = Error::new(ErrorCode::Internal, Side::Active, Phase::Authorize);
    error.with_detail(failure.message(Reader::Administrator))
}

/// The credential as the server would read it, or why it refuses it: the configuration says which
/// issuers of tokens count, for what, and for which virtual organisation they speak.
///
/// # Errors
/// As [`answer`].
fn as_read(configuration: &Configuration, credential: Credential) -> Result<Result<Arc<Credential>>> {
    let mut token = match credential {
        Credential::Token(token) => token,
        other => return Ok(Ok(Arc::new(other))),
    };
    let sources = TokenSources::read(configuration, &configuration.server.listen);
    let rules = sources.map_err(|failure| unreadable(&failure))?.rules;
    let issuer = match rules.issuer(token.principal.issuer.as_deref().unwrap_or_default()) {
        Ok(issuer) => issuer,
        Err(error) => return Ok(Err(error)),
    };
    let vos: Vec<String> = issuer.vo.iter().cloned().collect();
    if token.principal.vos.iter().any(|vo| !vos.contains(vo)) {
        let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Authorize);
        let words = match &issuer.vo {
            Some(vo) => format!("tokens of this issuer are of the VO {vo}: leave the VO out"),
            None => "the configuration gives tokens of this issuer no VO: leave it out".to_owned(),
        };
        return Err(error.with_detail(words));
    }
    token.principal.vos = vos;
    // As of a token without scopes.
    if !issuer.strategy.group && !issuer.strategy.mapping {
        token.grant = Some(Grant {
            scopes: Vec::new(),
            expires_s: None,
            addresses: Vec::new(),
            max_upload_bytes: None,
            except: Vec::new(),
            subject: token.principal.subject.clone(),
        });
    }
    Ok(Ok(Arc::new(Credential::Token(token))))
}

fn answers(
    configuration: &Configuration,
    question: ExplainQuestion,
    credential: &Result<Arc<Credential>>,
) -> Result<Vec<ExplainAnswer>, Failure> {
    let policy = rules::policy(configuration)?;
    let path = respelled(configuration, question.path)?;
    let one = |operation: Operation| {
        let request = Request {
            operation,
            path: path.clone(),
            client_address: question.address.to_canonical(),
            now_s: clock::now_s(),
            size_bytes: None,
        };
        let explanation = explained(configuration, &policy, credential, &request)?;
        Ok(ExplainAnswer {
            value: serde_json::to_value(&explanation).unwrap_or_default(),
            lines: explanation.to_string().lines().map(Words::from).collect(),
        })
    };
    question.operations.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use credentials::{Principal, VerifiedToken};

    use super::*;

    const CONFIGURATION: &str = r#"
[[export]]
path = "/v"
directory = "/srv/v"
[[issuer]]
url = "https://iam.example"
vo = "wlcg"
[[issuer]]
url = "https://scopes.example"
vo = "wlcg"
strategy = ["capability"]
[[rule]]
who = ["vo:wlcg"]
path = "/v"
may = ["read"]
"#;

    fn asked(issuer: &str, vos: &[&str]) -> Result<Vec<ExplainAnswer>> {
        let configuration = Configuration::parse(CONFIGURATION, Path::new("/"), "c.toml").unwrap();
        let token = Credential::Token(Box::new(VerifiedToken {
            grant: None,
            principal: Principal {
                issuer: Some(issuer.to_owned()),
                subject: Some("jane".to_owned()),
                vos: vos.iter().map(|vo| (*vo).to_owned()).collect(),
                ..Principal::default()
            },
            token_id: None,
            expires_s: VerifiedToken::END_UNKNOWN_S,
            not_before_s: None,
            audiences: Vec::new(),
            text: None,
        }));
        let question = ExplainQuestion {
            path: LogicalPath::parse("/v/f").unwrap(),
            operations: vec![Operation::Read],
            credential: Credential::Anonymous,
            address: "192.0.2.7".parse().unwrap(),
        };
        let credential = as_read(&configuration, token)?;
        Ok(answers(&configuration, question, &credential)
            .map_err(|failure| failure.words)
            .unwrap())
    }

    #[test]
    fn the_configuration_says_what_an_issuer_is_worth() {
        let answer = |issuer: &str| asked(issuer, &[]).unwrap().remove(0).value;
        let known = answer("https://iam.example");
        assert_eq!(known["allowed"], true, "{known}");
        assert!(!known.to_string().contains("valid for another"), "{known}");
        let unknown = answer("https://nowhere.example");
        assert_eq!(unknown["code"], "token_issuer_unknown", "{unknown}");
        // Only scopes count there.
        let scopes = answer("https://scopes.example");
        assert_eq!(scopes["allowed"], false, "{scopes}");
        assert!(asked("https://iam.example", &["wlcg"]).is_ok());
        let other = asked("https://iam.example", &["ops"]).unwrap_err();
        assert_eq!(other.code(), ErrorCode::BadRequest);
        assert!(other.public().contains("of the VO wlcg"), "{other}");
    }
}
