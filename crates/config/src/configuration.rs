//! The whole configuration, and the checks that involve several keys.

use std::path::{Path, PathBuf};

use types::LogicalPath;

use crate::bus::Bus;
use crate::cluster::Cluster;
use crate::cms::Cms;
use crate::keys::{Export, Limits, Log, Macaroons, PolicyFiles, Rule, Server, ThirdPartyCopy, Trust, Xroot};
use crate::messages::Messages;
use crate::other_side::{Delegation, HandOver};
use crate::parse::{Faults, parse};
use crate::queue::Queue;
use crate::redirector::{ClusterNode, Redirector, Site};
use crate::section::{DeTable, Fault, Values as _, tables};
use crate::tokens::{self, Issuer, Tokens};
use crate::users::{self, Quota, Users};
use crate::values::UpstreamIdentity;
use crate::values::{AuthenticationMethod, ClearText, XrootTls};
use crate::x509::X509;
use crate::{export_cache, forwarding, remote_hosts, rules, sections};

sections! {
    /// The whole configuration file.
    Configuration {
        server: Server;
        exports: Vec<Export>;
        rules: Vec<Rule>;
        policy: PolicyFiles;
        users: Users;
        quotas: Vec<Quota>;
        x509: X509;
        macaroons: Macaroons;
        tokens: Tokens;
        issuers: Vec<Issuer>;
        xroot: Xroot;
        tpc: ThirdPartyCopy;
        hand_over: HandOver;
        delegation: Delegation;
        trust: Trust;
        limits: Limits;
        log: Log;
        queue: Queue;
        messages: Messages;
        cms: Cms;
        redirector: Redirector;
        nodes: Vec<ClusterNode>;
        sites: Vec<Site>;
        bus: Bus;
        cluster: Cluster;
    }
    beside {
        /// The line where each rule begins, for explanations.
        rule_lines: Vec<usize>;
    }
}

impl Configuration {
    /// Reads a configuration file. Relative file names in it start from its directory.
    ///
    /// # Errors
    /// Every mistake with its line, or why the file cannot be read.
    pub fn load(file: &Path) -> Result<Self, Faults> {
        let text =
            std::fs::read_to_string(file).map_err(|error| Faults(vec![format!("{}: {error}", file.display())]))?;
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let base = absolute.parent().map(PathBuf::from).unwrap_or_default();
        Self::parse(&text, &base, &file.display().to_string())
    }

    /// Reads a text; `name` stands for the file in messages.
    ///
    /// # Errors
    /// As [`Configuration::load`].
    pub fn parse(text: &str, base: &Path, name: &str) -> Result<Self, Faults> {
        parse(text, base, name, Self::check)
    }

    /// The configuration without a file.
    pub fn defaults() -> Self {
        Self::parse("", Path::new(""), "defaults").expect("the defaults are valid, as a test checks")
    }

    /// Keys whose value must be at least one.
    fn counts(&self) -> [(&'static str, u32); 5] {
        [
            ("connections", self.limits.connections),
            ("transfers", self.limits.transfers),
            ("streams", self.limits.streams),
            ("header_count", self.limits.header_count),
            ("attempts", self.limits.attempts),
        ]
    }

    /// Mistakes that the sections find by themselves, with their names.
    fn section_faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        faults.extend(self.hand_over.faults());
        faults.extend(self.delegation.faults());
        faults.extend(self.queue.faults());
        faults.extend(self.messages.faults(self.queue.anonymous));
        faults.extend(self.cms.faults(self.xroot.enabled));
        faults.extend(self.cluster.faults());
        faults.extend(self.bus.faults(!self.exports.is_empty()));
        faults.extend(self.redirector.faults(&self.nodes, self.hand_over.key_file.is_some()));
        faults
    }

    /// Mistakes in the export with this index.
    fn export_faults(&self, index: usize) -> Vec<String> {
        let (export, before) = (&self.exports[index], &self.exports[..index]);
        let mut faults = Vec::new();
        if before.iter().any(|other| other.path == export.path) {
            faults.push(format!("the path {} is exported twice", export.path));
        }
        faults.extend(export.faults());
        if !self.nodes.is_empty() && export.path == self.redirector.path {
            faults.push(format!("the path {} is that of the redirector", export.path));
        }
        if export.remote_identity == UpstreamIdentity::Delegated && self.delegation.directory.is_none() {
            faults.push("remote_identity = \"delegated\" needs [delegation]".to_owned());
        }
        faults.extend(export_cache::faults(export, before));
        faults
    }

    /// Checks that involve several keys.
    fn check(&mut self, root: &DeTable<'_>, line: &dyn Fn(usize) -> usize, faults: &mut Vec<Fault>) {
        let rules = tables(root, Rule::SECTION.name);
        self.rule_lines = rules.iter().map(|(_, offset)| line(*offset)).collect();
        let at = |section: &str| root.get(section).map_or(0, |value| value.span().start);
        let mut rule_faults = Vec::new();
        let mut fault = |section: &str, words: String| {
            let offset = at(section);
            faults.push(Fault { offset, words });
        };
        if self.server.certificate.is_some() != self.server.key.is_some() {
            fault("server", "\"certificate\" and \"key\" must be set together".to_owned());
        }
        if self.server.listen.is_empty() {
            fault("server", "listen: needs at least one address".to_owned());
        }
        if self.macaroons.default_lifetime > self.macaroons.maximum_lifetime {
            let words = "default_lifetime is longer than maximum_lifetime".to_owned();
            fault("macaroons", words);
        }
        for (rule, (_, offset)) in self.policy_rules().iter().zip(rules) {
            let words = rules::fault(rule).or_else(|| remote_hosts::rule_fault(&self.exports, rule));
            rule_faults.extend(words.map(|words| Fault { offset, words }));
        }
        for (section, words) in tokens::faults(&self.tokens, &self.issuers) {
            fault(section, words);
        }
        let paths: Vec<LogicalPath> = self.exports.iter().map(|export| export.path.clone()).collect();
        for words in users::quota_faults(&self.quotas, &paths) {
            fault("quota", words);
        }
        if self.limits.header_count as usize > types::limits::HEADER_COUNT_MAX {
            let words = format!("header_count: at most {}", types::limits::HEADER_COUNT_MAX);
            fault("limits", words);
        }
        if self.xroot.handles == 0 {
            fault("xroot", "handles: must be at least 1".to_owned());
        }
        let ways = self.authentication();
        let by_token = ways.contains(&AuthenticationMethod::Token);
        if by_token && (self.server.certificate.is_none() || self.xroot.tls == XrootTls::None) {
            let words = "authentication: \"token\" needs TLS, which this server does not offer".to_owned();
            fault("xroot", words);
        }
        let can_judge = self.server.certificate.is_some() && self.x509.can_verify();
        if ways.contains(&AuthenticationMethod::Gsi) && !can_judge {
            let words = "authentication: \"gsi\" needs [server] certificate and [x509] trust_directory".to_owned();
            fault("xroot", words);
        }
        for (section, words) in self.section_faults() {
            fault(section, words);
        }
        for words in forwarding::faults(&self.tpc.forward_to) {
            fault("tpc", words);
        }
        for words in self.x509.faults() {
            fault("x509", words);
        }
        if self.tpc.key_lifetime > self.tpc.key_lifetime_max {
            fault("tpc", "key_lifetime is longer than key_lifetime_max".to_owned());
        }
        for (name, _) in self.counts().iter().filter(|(_, count)| *count == 0) {
            fault("limits", format!("{name}: must be at least 1"));
        }
        faults.extend(rule_faults);
        self.check_exports(root, faults);
    }

    /// Mistakes in exports, each in the section that has it.
    fn check_exports(&self, root: &DeTable<'_>, faults: &mut Vec<Fault>) {
        let written = tables(root, Export::SECTION.name).into_iter();
        for (index, (table, offset)) in written.take(self.exports.len()).enumerate() {
            let own = self.export_faults(index).into_iter();
            let own = own.chain(export_cache::unused(&self.exports[index]));
            faults.extend(own.map(|words| Fault {
                offset: named_key(table, &words).unwrap_or(offset),
                words,
            }));
        }
    }
}

/// Where the first key is that a sentence names, of those that are written in the section.
fn named_key(table: &DeTable<'_>, words: &str) -> Option<usize> {
    let mut names = words.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    names.find_map(|name| Some(table.get_key_value(name)?.0.span().start))
}

impl Configuration {
    /// Where tokens are accepted in clear text.
    pub fn clear_text(&self) -> ClearText {
        self.server
            .clear_text_tokens
            .unwrap_or(match self.server.certificate.is_some() {
                true => ClearText::Loopback,
                false => ClearText::Always,
            })
    }

    /// How XRootD sessions authenticate, in order of preference.
    pub fn authentication(&self) -> Vec<AuthenticationMethod> {
        match &self.xroot.authentication {
            Some(ways) => ways.clone(),
            None => {
                let has_certificate = self.server.certificate.is_some();
                let offers_tls = has_certificate && self.xroot.tls != XrootTls::None;
                let by_token = (offers_tls && self.takes_tokens()).then_some(AuthenticationMethod::Token);
                let can_judge = has_certificate && self.x509.trust_directory.is_some();
                let by_certificate = can_judge.then_some(AuthenticationMethod::Gsi);
                let mut ways: Vec<_> = by_token.into_iter().chain(by_certificate).collect();
                // Clients without any of these are anonymous.
                if !ways.is_empty() {
                    ways.push(AuthenticationMethod::Unix);
                }
                ways
            }
        }
    }

    /// The rules in the form that policy evaluates; those of the `authdb` come after them.
    pub fn policy_rules(&self) -> Vec<policy::Rule> {
        let rules = self.rules.iter().zip(&self.rule_lines).enumerate();
        rules
            .map(|(index, (rule, line))| rule.build(index + 1, *line))
            .collect()
    }

    /// Whether bearer tokens of any kind give rights here.
    pub fn takes_tokens(&self) -> bool {
        !self.issuers.is_empty() || self.tokens.scitokens_file.is_some() || self.macaroons.secret_file.is_some()
    }
}
