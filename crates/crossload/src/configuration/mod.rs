//! The configuration file: read, checked, and turned into typed values with defaults.
//!
//! All that is wrong with a file is told at once, each fault with its line.

mod changes;
mod forwarding;
mod keys;
mod manual;
mod other_side;
mod rules;
mod section;
mod suggest;
mod tokens;
mod users;
mod values;
mod x509;

use std::path::{Path, PathBuf};

use door_xroot::AuthenticationMethod;
use identity::ClearText;
use toml::de::{DeTable, DeValue};
use types::LogicalPath;

pub(crate) use changes::Changes;
pub(crate) use forwarding::{forward_http, forward_root};
pub(crate) use keys::{Export, Limits, Log, Macaroons, PolicyFiles, Rule, Server, ThirdPartyCopy, Trust, Xroot};
pub(crate) use manual::{docs, example};
pub(crate) use other_side::{Delegation, HandOver};
pub(crate) use rules::Given;
use section::{Fault, Section, Values as _, sections, tables};
pub(crate) use section::{NamedFile, Place, Purpose};
pub(crate) use tokens::{Issuer, Tokens};
pub(crate) use users::{Quota, Switch, UserGroups, Users};
pub(crate) use values::{Bytes, Niceness, XrootTls, parse_duration, parse_size};
pub(crate) use x509::X509;

sections! {
    /// Everything that the file can say.
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
    }
    beside {
        /// The line of each rule, for explanations.
        rule_lines: Vec<usize>;
    }
}

/// Why a configuration cannot be used: one line for each fault, beginning with `file:line:`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Faults(pub(crate) Vec<String>);

impl std::fmt::Display for Faults {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0.join("\n"))
    }
}

impl Configuration {
    /// Reads a file. File names in it are relative to its directory.
    ///
    /// # Errors
    /// Every fault with its line; or why the file cannot be read.
    pub(crate) fn load(file: &Path) -> Result<Self, Faults> {
        let text =
            std::fs::read_to_string(file).map_err(|error| Faults(vec![format!("{}: {error}", file.display())]))?;
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let base = absolute.parent().map(PathBuf::from).unwrap_or_default();
        Self::parse(&text, &base, &file.display().to_string())
    }

    /// Reads a text; `name` stands for it in messages.
    ///
    /// # Errors
    /// As [`Configuration::load`].
    pub(crate) fn parse(text: &str, base: &Path, name: &str) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let configuration = match DeTable::parse(text) {
            Ok(table) => {
                let root = table.get_ref();
                check_names(root, Self::SECTIONS, &mut faults);
                let mut configuration = Self::read(root, base, &mut faults);
                if let Some(configuration) = &mut configuration {
                    let rules = tables(root, Rule::SECTION.name);
                    configuration.rule_lines = rules.iter().map(|(_, offset)| line_of(text, *offset)).collect();
                    configuration.check(root, &mut faults);
                }
                configuration
            }
            Err(error) => {
                let offset = error.span().map_or(0, |span| span.start);
                let words = error.message().to_owned();
                faults.push(Fault { offset, words });
                None
            }
        };
        match configuration {
            Some(configuration) if faults.is_empty() => Ok(configuration),
            _ => {
                faults.sort_by_key(|fault| fault.offset);
                let lines = faults
                    .iter()
                    .map(|fault| format!("{name}:{}: {}", line_of(text, fault.offset), fault.words));
                Err(Faults(lines.collect()))
            }
        }
    }

    /// What holds without any file.
    pub(crate) fn defaults() -> Self {
        Self::parse("", Path::new(""), "defaults").expect("the defaults are valid: a test says so")
    }

    /// What there must be at least one of.
    fn counts(&self) -> [(&'static str, u32); 5] {
        [
            ("connections", self.limits.connections),
            ("transfers", self.limits.transfers),
            ("streams", self.limits.streams),
            ("header_count", self.limits.header_count),
            ("attempts", self.limits.attempts),
        ]
    }

    /// What no key can be wrong about alone.
    fn check(&self, root: &DeTable<'_>, faults: &mut Vec<Fault>) {
        let at = |section: &str| root.get(section).map_or(0, |value| value.span().start);
        let mut rule_faults = Vec::new();
        let mut fault = |section: &str, words: String| {
            let offset = at(section);
            faults.push(Fault { offset, words });
        };
        if self.server.certificate.is_some() != self.server.key.is_some() {
            fault("server", "\"certificate\" and \"key\" belong together".to_owned());
        }
        if self.server.listen.is_empty() {
            fault("server", "listen: no address is given".to_owned());
        }
        if self.macaroons.default_lifetime > self.macaroons.maximum_lifetime {
            let words = "default_lifetime is longer than maximum_lifetime".to_owned();
            fault("macaroons", words);
        }
        for (index, export) in self.exports.iter().enumerate() {
            if self.exports[..index].iter().any(|other| other.path == export.path) {
                fault("export", format!("the path {} is exported twice", export.path));
            }
        }
        let rules = tables(root, Rule::SECTION.name);
        for (rule, (_, offset)) in self.policy_rules().iter().zip(rules) {
            let words = rules::fault(rule);
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
            let words = "authentication: a token is only taken over TLS, which is not offered".to_owned();
            fault("xroot", words);
        }
        let can_judge = self.server.certificate.is_some() && self.x509.believes_anybody();
        if ways.contains(&AuthenticationMethod::Gsi) && !can_judge {
            let words = "authentication: gsi needs [server] certificate and [x509] trust_directory".to_owned();
            fault("xroot", words);
        }
        for (section, words) in self.hand_over.faults().into_iter().chain(self.delegation.faults()) {
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
    }
}

impl Configuration {
    /// Where tokens are taken in clear text.
    pub(crate) fn clear_text(&self) -> ClearText {
        self.server
            .clear_text_tokens
            .unwrap_or(match self.server.certificate.is_some() {
                true => ClearText::Loopback,
                false => ClearText::Always,
            })
    }

    /// How sessions of the XRootD protocol say who they are.
    pub(crate) fn authentication(&self) -> Vec<AuthenticationMethod> {
        match &self.xroot.authentication {
            Some(ways) => ways.clone(),
            None => {
                let has_certificate = self.server.certificate.is_some();
                let offers_tls = has_certificate && self.xroot.tls != XrootTls::None;
                let by_token = (offers_tls && self.takes_tokens()).then_some(AuthenticationMethod::Token);
                let can_judge = has_certificate && self.x509.trust_directory.is_some();
                let by_certificate = can_judge.then_some(AuthenticationMethod::Gsi);
                let mut ways: Vec<_> = by_token.into_iter().chain(by_certificate).collect();
                // Who has none of these comes in as anybody.
                if !ways.is_empty() {
                    ways.push(AuthenticationMethod::Unix);
                }
                ways
            }
        }
    }

    /// The rules as policy knows them; those of the `authdb` come behind them.
    pub(crate) fn policy_rules(&self) -> Vec<policy::Rule> {
        let rules = self.rules.iter().zip(&self.rule_lines).enumerate();
        rules
            .map(|(index, (rule, line))| rule.build(index + 1, *line))
            .collect()
    }

    /// Whether bearer tokens of any kind give rights here.
    pub(crate) fn takes_tokens(&self) -> bool {
        !self.issuers.is_empty() || self.tokens.scitokens_file.is_some() || self.macaroons.secret_file.is_some()
    }
}

/// The line of a byte of the file, counted from one.
fn line_of(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].matches('\n').count() + 1
}

/// Finds sections and keys that do not exist.
fn check_names(root: &DeTable<'_>, sections: &[Section], faults: &mut Vec<Fault>) {
    for (name, value) in root {
        let (word, offset) = (name.get_ref().as_ref(), name.span().start);
        let Some(section) = sections.iter().find(|section| section.name == word) else {
            faults.push(Fault {
                offset,
                words: unknown_section(word, sections),
            });
            continue;
        };
        let is_section = match value.get_ref() {
            DeValue::Table(_) => true,
            DeValue::Array(list) => section.repeated && list.iter().all(|item| item.get_ref().is_table()),
            _ => false,
        };
        if !is_section {
            let words = format!("\"{word}\" is a section: write [{word}]");
            faults.push(Fault { offset, words });
        }
        for (table, _) in tables(root, word) {
            let unknown = table
                .keys()
                .filter(|key| section.keys.iter().all(|known| known.name != key.get_ref().as_ref()));
            for key in unknown {
                let words = unknown_key(key.get_ref(), section, sections);
                let offset = key.span().start;
                faults.push(Fault { offset, words });
            }
        }
    }
}

fn unknown_section(word: &str, sections: &[Section]) -> String {
    if let Some(section) = holder_of(word, sections) {
        return format!("the key \"{word}\" belongs into the section [{section}]");
    }
    let names = sections.iter().map(|section| section.name);
    match suggest::nearest(word, names.clone()) {
        Some(known) => format!("unknown section \"{word}\"; did you mean \"{known}\"?"),
        None => {
            let names: Vec<&str> = names.collect();
            format!("unknown section \"{word}\"; there are {}", names.join(", "))
        }
    }
}

fn unknown_key(word: &str, section: &Section, sections: &[Section]) -> String {
    let here = section.name;
    if let Some(known) = suggest::nearest(word, section.keys.iter().map(|key| key.name)) {
        return format!("unknown key \"{word}\" in [{here}]; did you mean \"{known}\"?");
    }
    match holder_of(word, sections) {
        Some(other) => format!("unknown key \"{word}\" in [{here}]; it belongs into [{other}]"),
        None => format!("unknown key \"{word}\" in [{here}]; `crossload config docs` lists all keys"),
    }
}

/// The section that has a key of this name.
fn holder_of(key: &str, sections: &[Section]) -> Option<&'static str> {
    let holds = |section: &&Section| section.keys.iter().any(|known| known.name == key);
    sections.iter().find(holds).map(|section| section.name)
}

#[cfg(test)]
mod tests;
