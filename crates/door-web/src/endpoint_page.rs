//! The page *Endpoint*: configuration in effect, certificates, exports and rights, checks.

use askama::Template;
use serde::Serialize;
use serde_json::Value;
use types::Result;

use crate::explain_form::{ExplainForm, OPERATIONS, OperationChoice};
use crate::facts::{Certificate, EndpointFacts, ExplainAnswer, Key, Section, Setting};
use crate::figures::{date, days, days_left, moment};
use crate::limits::CERTIFICATES_SHOWN_MAX;
use crate::shell::Shell;
use crate::words::Words;

/// A certificate that ends within this time is marked.
const SOON_DAYS: i64 = 14;

#[derive(Template)]
#[template(path = "endpoint.html")]
pub(crate) struct EndpointPage<'a> {
    shell: Shell,
    facts: &'a EndpointFacts,
    started: String,
    failed_checks: usize,
    certificates: Vec<CertificateRow<'a>>,
    more_certificates: usize,
    form: &'a ExplainForm,
    operations: &'static [OperationChoice],
    answers: &'a [ExplainAnswer],
    /// Why there is no answer.
    fault: Option<Words>,
}

/// The page for programs.
#[derive(Serialize)]
pub(crate) struct EndpointDocument<'a> {
    #[serde(flatten)]
    facts: &'a EndpointFacts,
    /// Answers to the question of the query, one for each operation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    explain: Vec<&'a Value>,
}

impl<'a> EndpointDocument<'a> {
    pub(crate) fn new(facts: &'a EndpointFacts, answers: &'a [ExplainAnswer]) -> Self {
        Self {
            facts,
            explain: answers.iter().map(|answer| &answer.value).collect(),
        }
    }
}

/// A certificate with its rest.
struct CertificateRow<'a> {
    of: &'a Words,
    kind: &'static str,
    file: &'a Words,
    ends: String,
    left: String,
    /// The class of its state.
    class: &'static str,
    /// Its state in a word.
    state: &'static str,
}

impl<'a> EndpointPage<'a> {
    /// The page at a moment, in seconds since 1970.
    pub(crate) fn new(
        shell: Shell,
        facts: &'a EndpointFacts,
        form: &'a ExplainForm,
        answers: &'a Result<Vec<ExplainAnswer>>,
        now_s: i64,
    ) -> Self {
        let mut sorted: Vec<&Certificate> = facts.certificates.iter().collect();
        sorted.sort_by_key(|one| (one.kind != OWN, one.ends_s.unwrap_or(i64::MAX)));
        let certificates: Vec<_> = sorted
            .iter()
            .take(CERTIFICATES_SHOWN_MAX)
            .map(|one| CertificateRow::new(one, now_s))
            .collect();
        Self {
            shell,
            facts,
            started: moment(facts.started_s),
            failed_checks: facts.checks.iter().filter(|check| !check.ok).count(),
            more_certificates: sorted.len() - certificates.len(),
            certificates,
            form,
            operations: &OPERATIONS,
            answers: answers.as_deref().unwrap_or_default(),
            fault: answers.as_ref().err().map(|error| error.public().into()),
        }
    }

    /// Sections that have a value other than the default.
    fn changed(&self) -> Vec<&Section> {
        let sections = self.facts.configuration.iter();
        sections
            .filter(|section| section.number.is_some() || section.keys.iter().any(|key| !key.is_default))
            .collect()
    }

    /// Keys that have a value other than the default.
    fn set_keys(section: &Section) -> Vec<&Key> {
        section.keys.iter().filter(|key| !key.is_default).collect()
    }
}

/// The kind of the server's own certificate.
pub(crate) const OWN: &str = "server certificate";

impl<'a> CertificateRow<'a> {
    fn new(certificate: &'a Certificate, now_s: i64) -> Self {
        let left = certificate.ends_s.map(|end| days(now_s, end));
        let (class, state) = match left {
            Some(..0) => ("bad", "ended"),
            Some(..SOON_DAYS) => ("soon", "ends soon"),
            _ => ("good", "valid"),
        };
        Self {
            of: &certificate.of,
            kind: certificate.kind,
            file: &certificate.file,
            ends: certificate.ends_s.map_or_else(|| "never".to_owned(), date),
            left: left.map(days_left).unwrap_or_default(),
            class,
            state,
        }
    }
}
