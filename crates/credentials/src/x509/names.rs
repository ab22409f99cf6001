//! For which names an authority may issue certificates, as the files beside it say.

use gsi_wire::dn;
use gsi_wire::namespaces::{self, NamespaceIssuer};
use gsi_wire::signing_policy::{self, SigningPolicy};
use regex_lite::Regex;

/// What the files of one authority say. An authority without files may sign any name.
#[derive(Debug, Default)]
pub(super) struct NameRules {
    namespaces: Vec<Statement>,
    policies: Vec<SigningPolicy>,
    /// A file about it cannot be read, so its permitted names are unknown.
    is_broken: bool,
}

/// A statement of a namespaces file about the authority.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    permits: bool,
    subject: Regex,
}

/// A file with statements, ready to be laid beside its authorities.
#[derive(Debug)]
pub(super) enum NameFile {
    Namespaces(Vec<(NamespaceIssuer, Statement)>),
    Policies(Vec<SigningPolicy>),
}

impl NameFile {
    pub(super) fn namespaces(text: &str) -> Result<Self, String> {
        let rules = namespaces::parse(text).map_err(|why| why.to_string())?;
        let statements = rules.into_iter().map(|rule| {
            let subject = Regex::new(&format!("^(?:{})$", rule.subject))
                .map_err(|_| "a pattern is not a regular expression that is understood".to_owned())?;
            let statement = Statement {
                permits: rule.permits,
                subject,
            };
            Ok((rule.issuer, statement))
        });
        statements.collect::<Result<_, String>>().map(Self::Namespaces)
    }

    pub(super) fn policies(text: &str) -> Result<Self, String> {
        signing_policy::parse(text)
            .map(Self::Policies)
            .map_err(|why| why.to_string())
    }
}

impl NameRules {
    /// Adds what a file says of `authority` (its name in canonical form); `is_own`: it is that
    /// authority's file. A file under two names says everything twice, which is the same as once.
    pub(super) fn add(&mut self, authority: &str, file: &NameFile, is_own: bool) {
        match file {
            NameFile::Namespaces(statements) => {
                let about = statements.iter().filter(|(issuer, _)| match issuer {
                    NamespaceIssuer::Own => is_own,
                    NamespaceIssuer::Named(name) => name == authority,
                });
                self.namespaces.extend(about.map(|(_, statement)| statement.clone()));
            }
            NameFile::Policies(policies) => {
                let about = policies.iter().filter(|policy| policy.authority == authority);
                self.policies.extend(about.cloned());
            }
        }
    }

    /// A file of this authority cannot be read.
    pub(super) fn add_broken(&mut self) {
        self.is_broken = true;
    }

    /// Whether the authority may sign a certificate for this name in one line. Namespaces go before
    /// signing policies.
    ///
    /// # Errors
    /// Which file does not permit it.
    pub(super) fn check(&self, subject: &str) -> Result<(), &'static str> {
        if self.is_broken {
            return Err("the file that says what it may issue cannot be read");
        }
        if !self.namespaces.is_empty() {
            let subject = dn::canonical(subject);
            let decides = self
                .namespaces
                .iter()
                .find(|statement| statement.subject.is_match(&subject));
            return match decides {
                Some(statement) if statement.permits => Ok(()),
                Some(_) => Err("its namespaces file denies it"),
                None => Err("its namespaces file does not permit it"),
            };
        }
        if self.policies.is_empty() || self.policies.iter().any(|policy| policy.permits(subject)) {
            return Ok(());
        }
        Err("its signing_policy file does not permit it")
    }
}
