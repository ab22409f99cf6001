//! The page *Endpoint*: configuration in effect, certificates, exports and rights, checks.

use askama::Template;

use crate::facts::{Certificate, EndpointFacts, Key, Section, Setting};
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
    pub(crate) fn new(shell: Shell, facts: &'a EndpointFacts, now_s: i64) -> Self {
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
