//! The whole configuration, and the checks that involve several keys.

use std::path::{Path, PathBuf};

use types::LogicalPath;

use crate::bus::Bus;
use crate::cluster::Cluster;
use crate::cms::Cms;
use crate::flows::{FlowRule, SciTags, flow_faults};
use crate::keys::{Export, Limits, Log, Macaroons, PolicyFiles, Rule, Server, ThirdPartyCopy, Trust, Xroot};
use crate::logged::LOG_FILTERS_MAX;
use crate::messages::Messages;
use crate::monitoring::Monitoring;
use crate::other_side::{Delegation, HandOver};
use crate::parse::{Faults, parse, parse_sources};
use crate::queue::Queue;
use crate::redirector::{ClusterNode, Redirector, Site};
use crate::section::{Conflict, DeTable, Fault, Values as _, tables};
use crate::sources::Sources;
use crate::storage_report::StorageReport;
use crate::tokens::{self, Issuer, Tokens};
use crate::traces::Traces;
use crate::users::{self, Quota, Users};
use crate::values::UpstreamIdentity;
use crate::values::{AuthenticationMethod, ClearText, LogFormat, XrootTls};
use crate::web::Web;
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
        monitoring: Monitoring;
        scitags: SciTags;
        flows: Vec<FlowRule>;
        traces: Traces;
        storage_report: StorageReport;
        web: Web;
        redirector: Redirector;
        nodes: Vec<ClusterNode>;
        sites: Vec<Site>;
        bus: Bus;
        cluster: Cluster;
    }
    beside {
        /// Where each rule begins, for explanations.
        rule_places: Vec<String>;
        /// The files that it was read from, the main one first.
        read_from: Vec<PathBuf>;
    }
}

impl Configuration {
    /// Reads a configuration file, and those of the directory beside it. Relative file names in all
    /// of them start from the directory of the main file.
    ///
    /// # Errors
    /// Every mistake with its line, or why the file cannot be read.
    pub fn load(file: &Path) -> Result<Self, Faults> {
        Self::load_with_sources(file, None).map(|(configuration, _)| configuration)
    }

    /// As [`Configuration::load`], with the texts of the files: the main file may be a pipe, whose
    /// text comes only once. `credential:NAME` stands for the file NAME in `credentials`.
    ///
    /// # Errors
    /// As [`Configuration::load`].
    pub fn load_with_sources(file: &Path, credentials: Option<&Path>) -> Result<(Self, Sources), Faults> {
        let sources = Sources::read(file)?;
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let base = absolute.parent().map(PathBuf::from).unwrap_or_default();
        let mut configuration = parse_sources(&sources, &base, credentials, Self::check)?;
        configuration.read_from = sources.names().map(PathBuf::from).collect();
        Ok((configuration, sources))
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

    fn log_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.log.format == LogFormat::Journald && self.log.file.is_some() {
            faults.push("format: the journal has files of its own; remove file".to_owned());
        }
        if self.log.follow.len() > LOG_FILTERS_MAX {
            faults.push(format!("follow: at most {LOG_FILTERS_MAX} filters; remove some"));
        }
        faults
    }

    /// Mistakes that involve several keys of a section, or several sections.
    fn conflicts(&self) -> Vec<Conflict> {
        let mut found: Vec<Conflict> = Vec::new();
        found.extend(Conflict::of::<Server>(self.server_faults()));
        found.extend(Conflict::of::<Limits>(self.limits_faults()));
        found.extend(Conflict::of::<Xroot>(self.xroot_faults()));
        found.extend(Conflict::of::<Macaroons>(self.macaroons_fault()));
        found.extend(Conflict::of::<ThirdPartyCopy>(self.copy_faults()));
        found.extend(Conflict::of::<HandOver>(self.hand_over.faults()));
        found.extend(Conflict::of::<Delegation>(self.delegation.fault()));
        found.extend(Conflict::of::<Queue>(self.queue.faults()));
        found.extend(Conflict::of::<Messages>(self.messages.faults(self.queue.anonymous)));
        found.extend(Conflict::of::<Cms>(self.cms.faults(self.xroot.enabled)));
        found.extend(Conflict::of::<Monitoring>(self.monitoring.faults()));
        found.extend(Conflict::of::<SciTags>(self.scitags.faults()));
        found.extend(flow_faults(&self.flows));
        found.extend(Conflict::of::<Traces>(self.traces.faults()));
        found.extend(Conflict::of::<Log>(self.log_faults()));
        found.extend(Conflict::of::<StorageReport>(self.storage_report.faults()));
        found.extend(Conflict::of::<Web>(self.web_faults()));
        found.extend(Conflict::of::<Cluster>(self.cluster.faults()));
        found.extend(Conflict::of::<Bus>(self.bus.faults(!self.exports.is_empty())));
        found.extend(Conflict::of::<X509>(self.x509.faults()));
        found.extend(Conflict::of::<Tokens>(self.tokens.faults()));
        found.extend(self.redirector.faults(&self.nodes, self.hand_over.key_file.is_some()));
        found.extend(tokens::issuer_faults(&self.issuers));
        let paths: Vec<LogicalPath> = self.exports.iter().map(|export| export.path.clone()).collect();
        found.extend(users::quota_faults(&self.quotas, &paths));
        for (index, rule) in self.policy_rules().iter().enumerate() {
            let words = rules::fault(rule).or_else(|| remote_hosts::rule_fault(&self.exports, rule));
            found.extend(words.map(|words| Conflict {
                section: Rule::SECTION.name,
                index,
                words,
            }));
        }
        for index in 0..self.exports.len() {
            found.extend(self.export_faults(index).into_iter().map(|words| Conflict {
                section: Export::SECTION.name,
                index,
                words,
            }));
        }
        found
    }

    fn server_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        match (&self.server.certificate, &self.server.key) {
            (Some(_), None) => faults.push("certificate: its private key is missing; set key, too".to_owned()),
            (None, Some(_)) => faults.push("key: its certificate is missing; set certificate, too".to_owned()),
            _ => {}
        }
        if self.server.listen.is_empty() {
            let words = "listen: needs at least one address; write one such as \"[::]:443\"";
            faults.push(words.to_owned());
        }
        faults
    }

    fn limits_faults(&self) -> Vec<String> {
        let counts = self.counts().into_iter().filter(|(_, count)| *count == 0);
        let mut faults: Vec<String> = counts.map(|(name, _)| format!("{name}: must be at least 1")).collect();
        if self.limits.header_count as usize > types::limits::HEADER_COUNT_MAX {
            faults.push(format!("header_count: at most {}", types::limits::HEADER_COUNT_MAX));
        }
        faults
    }

    fn macaroons_fault(&self) -> Option<String> {
        let is_longer = self.macaroons.default_lifetime > self.macaroons.maximum_lifetime;
        is_longer.then(|| {
            "default_lifetime: is longer than maximum_lifetime; lower it, or raise maximum_lifetime".to_owned()
        })
    }

    fn xroot_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.xroot.handles == 0 {
            faults.push("handles: must be at least 1".to_owned());
        }
        let ways = self.authentication();
        let by_token = ways.contains(&AuthenticationMethod::Token);
        if by_token && (self.server.certificate.is_none() || self.xroot.tls == XrootTls::None) {
            faults.push(
                "authentication: \"token\" needs TLS, which this server does not offer; set [server] certificate and \
                 key, and no tls = \"none\", or leave \"token\" out"
                    .to_owned(),
            );
        }
        let can_judge = self.server.certificate.is_some() && self.x509.can_verify();
        if ways.contains(&AuthenticationMethod::Gsi) && !can_judge {
            faults.push(
                "authentication: \"gsi\" needs [server] certificate and [x509] trust_directory; set them, or leave \
                 \"gsi\" out"
                    .to_owned(),
            );
        }
        faults
    }

    fn web_faults(&self) -> Vec<String> {
        let has_tls = self.server.certificate.is_some();
        let takes_tokens = !self.issuers.is_empty() || self.tokens.scitokens_file.is_some();
        let has_sign_in = takes_tokens || has_tls && self.x509.can_verify();
        let mut faults = self.web.faults(has_tls, has_sign_in);
        let named = |url: &str| self.issuers.iter().any(|issuer| issuer.url == url);
        // What that file names is read when the server starts.
        faults.extend(
            self.web
                .oidc_faults(|url| self.tokens.scitokens_file.is_some() || named(url)),
        );
        faults
    }

    fn copy_faults(&self) -> Vec<String> {
        let mut faults = forwarding::faults(&self.tpc.forward_to);
        if self.tpc.key_lifetime > self.tpc.key_lifetime_max {
            let words = "key_lifetime: is longer than key_lifetime_max; lower it, or raise key_lifetime_max";
            faults.push(words.to_owned());
        }
        faults
    }

    /// Mistakes in the export with this index.
    fn export_faults(&self, index: usize) -> Vec<String> {
        let (export, before) = (&self.exports[index], &self.exports[..index]);
        let mut faults = Vec::new();
        let path = &export.path;
        if before.iter().any(|other| other.path == *path) {
            faults.push(format!(
                "path: {path} is exported twice; give each [[export]] a path of its own"
            ));
        }
        faults.extend(export.faults());
        if !self.nodes.is_empty() && *path == self.redirector.path {
            faults.push(format!(
                "path: {path} is that of [redirector]; choose another one for this export"
            ));
        }
        if export.remote_identity == UpstreamIdentity::Delegated && self.delegation.directory.is_none() {
            let words = "remote_identity: \"delegated\" needs [delegation]; set its directory and key_file";
            faults.push(words.to_owned());
        }
        faults.extend(export_cache::faults(export, before));
        faults
    }

    /// Checks that involve several keys.
    fn check(&mut self, root: &DeTable<'_>, sources: &Sources, faults: &mut Vec<Fault>) {
        let rules = tables(root, Rule::SECTION.name);
        self.rule_places = rules.iter().map(|(_, offset)| sources.place(*offset)).collect();
        faults.extend(self.conflicts().into_iter().map(|conflict| conflict.locate(root)));
    }
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
        let rules = self.rules.iter().zip(&self.rule_places).enumerate();
        rules
            .map(|(index, (rule, place))| rule.build(index + 1, place))
            .collect()
    }

    /// Whether bearer tokens of any kind give rights here.
    pub fn takes_tokens(&self) -> bool {
        !self.issuers.is_empty() || self.tokens.scitokens_file.is_some() || self.macaroons.secret_file.is_some()
    }
}
