//! What follows from several directives together: addresses, certificate, methods, rights, exports,
//! and whether the server is a redirector.

use credentials::Activities;
use policy::{Rule, Who};

use super::facts::{Binding, Facts, Method, Named, Role, is_open};
use super::values::{host_and_port, size, size_bytes};
use crate::document::DocumentKind;
use crate::source::Source;

/// XRootD's port.
const PORT: u16 = 1094;

/// Who may do what where `ofs.authorize` is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Openness {
    /// Rights are judged.
    Judged,
    /// Everyone may do everything.
    Anyone,
    /// Clients with a credential may do everything.
    Authenticated,
}

/// Writes the rest of the configuration.
pub(super) fn finish(facts: &mut Facts<'_>) {
    facts.settle_exports();
    let demanded = facts.demanded_issuers();
    facts.addresses();
    facts.certificate();
    let openness = facts.openness();
    facts.rights(openness, demanded.as_deref());
    facts.authentication();
    facts.macaroon_keys();
    facts.local_users();
    match facts.role {
        Role::Server => {
            facts.write_exports(openness);
            facts.join_managers();
        }
        Role::Manager => facts.redirector(openness),
    }
}

impl Facts<'_> {
    fn addresses(&mut self) {
        let host = match self.allowed_clients.is_empty() {
            true => "[::]",
            // It must not serve others before they are kept out.
            false => "127.0.0.1",
        };
        for allowed in std::mem::take(&mut self.allowed_clients) {
            let words = format!("there is no list of clients: the server listens on {host} alone until you decide");
            let advice = "Admit these hosts by the firewall, then change [server] listen";
            self.migration.no_equivalent(&allowed.source, words, advice);
        }
        let main = Named::new(&PORT.to_string(), &self.main);
        let ports: Vec<Named> = [self.root_port.clone().unwrap_or(main)]
            .into_iter()
            .chain(self.http_ports.clone())
            .collect();
        for port in ports {
            let number = match port.value.as_str() {
                "any" => Ok(0),
                word => word.parse::<u16>(),
            };
            let is_said = port.source != self.main;
            match number {
                Ok(number) if is_said => self.add_to("server.listen", format!("{host}:{number}"), &port.source),
                Ok(number) => {
                    let entry = self.set("server.listen", vec![format!("{host}:{number}")], &port.source);
                    entry.note = Some("XRootD's port, as no other is given".to_owned());
                }
                Err(_) => {
                    let words = "names of services are no ports";
                    self.migration
                        .unknown(&port.source, words, "Write the number into [server] listen");
                }
            }
        }
    }

    fn certificate(&mut self) {
        let ranks = std::mem::take(&mut self.certificates);
        let found = ranks
            .into_values()
            .find(|(certificate, _)| !certificate.value.is_empty());
        let Some((certificate, key)) = found else { return };
        // A file may have both.
        let key = key
            .filter(|key| !key.value.is_empty())
            .unwrap_or_else(|| certificate.clone());
        self.set("server.certificate", certificate.value.as_str(), &certificate.source);
        self.set("server.key", key.value.as_str(), &key.source);
    }

    /// Whether no client gets in without a credential: sessions authenticate, by more than a name
    /// or an address, and there is no HTTP, which asks for none.
    pub(super) fn demands_credentials(&self) -> bool {
        self.http.is_none() && self.must_authenticate()
    }

    /// Whether clients of some hosts must authenticate, by more than a name or an address. Here the
    /// same holds for all hosts, so that the strictest line decides.
    fn must_authenticate(&self) -> bool {
        let is_of_all = self.bindings.iter().any(|binding| binding.hosts == "*");
        let is_open = |method: &Method| is_open(&method.name);
        let is_listed = !is_of_all && !self.methods.is_empty() && !self.methods.iter().any(is_open);
        is_listed || self.bindings.iter().any(Binding::is_strict)
    }

    /// Who has a credential with which every host gets in at XRootD, as words of rules; each of
    /// them alone suffices. A certificate does not suffice for sessions by `sss`, nor a token for
    /// `gsi`.
    pub(super) fn holders(&self) -> Vec<Who> {
        let of_all = self.bindings.iter().any(|binding| binding.hosts == "*");
        let bound = self.bindings.iter().filter(|binding| binding.is_strict());
        let mut sets: Vec<Vec<&str>> = bound
            .map(|binding| binding.methods.iter().map(String::as_str).collect())
            .collect();
        let is_open = |method: &Method| is_open(&method.name);
        if !of_all && !self.methods.is_empty() && !self.methods.iter().any(is_open) {
            sets.push(self.methods.iter().map(|method| method.name.as_str()).collect());
        }
        let has = |name: &str| sets.iter().all(|set| set.contains(&name));
        let takes_certificates = has("gsi") && self.strict_logins.is_empty();
        match (takes_certificates, has("ztn")) {
            (true, true) => vec![Who::Authenticated],
            // A rule cannot say that tokens do not suffice, if there are any.
            (true, false) if self.issuers.is_empty() => vec![Who::Authenticated],
            (_, true) => self.issuers.iter().cloned().map(Who::Issuer).collect(),
            (_, false) => Vec::new(),
        }
    }

    /// The methods of hosts without a line of their own, by name, with the line that says so.
    fn methods(&self) -> (Vec<String>, Option<Source>) {
        let of_all = self.bindings.iter().rev().find(|binding| binding.hosts == "*");
        let listed = || self.methods.iter().map(|method| method.name.clone()).collect();
        match of_all {
            Some(binding) if !binding.methods.is_empty() => {
                let methods = binding.methods.iter().filter(|method| *method != "none");
                (methods.cloned().collect(), Some(binding.source.clone()))
            }
            _ => (listed(), self.methods.first().map(|method| method.source.clone())),
        }
    }

    fn openness(&mut self) -> Openness {
        let is_judged = self.authorize.is_some() || self.authorize_elsewhere.is_some() || self.is_incomplete;
        let elsewhere = self.methods_elsewhere.take();
        if is_judged {
            return Openness::Judged;
        }
        if self.must_authenticate() {
            return Openness::Authenticated;
        }
        let Some(source) = elsewhere else {
            return Openness::Anyone;
        };
        let words = "holds for another host, program or instance: here, too, not everyone may do everything";
        let advice = "Name the --instance and --host of the service, and write [[rule]]s";
        self.migration.in_part(&source, words, advice);
        Openness::Judged
    }

    fn authentication(&mut self) {
        let (methods, source) = self.methods();
        let Some(source) = source else {
            for binding in std::mem::take(&mut self.bindings) {
                self.migration.not_needed(&binding.source, "sessions may be anonymous");
            }
            return;
        };
        let offers_tls = self.get("server.certificate").is_some();
        let mut names: Vec<&str> = Vec::new();
        for method in &methods {
            match method.as_str() {
                "gsi" if offers_tls => names.push("gsi"),
                "ztn" if offers_tls => names.push("token"),
                "unix" => names.push("unix"),
                "host" => names.push("host"),
                "ztn" => {
                    let advice = "Set [server] certificate and key, then add \"token\" to authentication";
                    self.migration
                        .in_part(&source, "tokens need TLS, and no certificate is named", advice);
                }
                // What is not ours has a remark of its own.
                _ => {}
            }
        }
        names.dedup();
        self.set("xroot.authentication", names, &source);
        for binding in std::mem::take(&mut self.bindings) {
            match binding.hosts == "*" {
                true => self.migration.taken(&binding.source, "is [xroot] authentication"),
                false => {
                    let words = "methods do not depend on the host of a client";
                    let advice = "Check [xroot] authentication, which holds for all";
                    self.migration.in_part(&binding.source, words, advice);
                }
            }
        }
    }

    fn rights(&mut self, openness: Openness, demanded_issuers: Option<&[String]>) {
        let authdb = self.authdb.take();
        if self.is_incomplete && self.authorize.is_none() && self.authorize_elsewhere.is_none() {
            let words = "ofs.authorize may be in lines that could not be read: rights are judged";
            let advice = "Read all files; without ofs.authorize, XRootD lets everyone do everything";
            let main = self.main.clone();
            self.migration.in_part(&main, words, advice);
        }
        if let Some(source) = self.authorize_elsewhere.take() {
            match self.authorize.is_some() {
                true => {
                    let words = "is for another host, program or instance (--host, --instance)";
                    self.migration.not_needed(&source, words);
                }
                false => {
                    let words = "holds for another host, program or instance: rights are judged here, too";
                    let advice = "Name the --instance and --host of the service; without ofs.authorize, XRootD lets \
                                  everyone do everything";
                    self.migration.in_part(&source, words, advice);
                }
            }
        }
        self.remark_holders(openness);
        let replaced = self.close_foreign_rights(openness);
        match (openness, authdb) {
            (Openness::Judged, Some(authdb)) if replaced => {
                let words = "another library is asked in its place (ofs.authlib without ++)";
                self.migration.not_needed(&authdb.source, words);
            }
            (Openness::Judged, Some(authdb)) => self.rules(&authdb, demanded_issuers),
            (Openness::Judged, None) => {
                let has_tokens = self.scitokens.is_some() || self.macaroons.is_some();
                if let Some(source) = self.authorize.clone().filter(|_| !has_tokens) {
                    let words = "no acc.authdb is named, so that no rule gives anything";
                    self.migration
                        .in_part(&source, words, "Write [[rule]]s, or name the file");
                }
            }
            (_, Some(authdb)) => {
                let words = "without ofs.authorize no rights are judged";
                self.migration.not_needed(&authdb.source, words);
            }
            (_, None) => {}
        }
        if openness == Openness::Authenticated {
            let main = self.main.clone();
            for holder in self.holders() {
                let rule = Rule {
                    who: vec![holder],
                    may: Activities::ALL,
                    ..Rule::default()
                };
                let note = "without ofs.authorize, clients with a credential may do everything";
                self.write_rule(&rule, &main, Some(note));
            }
            if let Some(http) = self.http.clone() {
                let words = "HTTP clients without a credential could do everything, too: here they may not";
                let advice = "Set anonymous in [[export]] if that was meant";
                self.migration.in_part(&http, words, advice);
            }
        }
    }

    /// Remarks where what everyone had is not for everyone with a credential.
    fn remark_holders(&mut self, openness: Openness) {
        let lines = std::mem::take(&mut self.strict_logins);
        for source in &lines {
            let words =
                "refuses clients that have a valid certificate: everyone's rights are not given to certificates";
            let advice =
                "Write [[rule]]s for the users or VOs that may log in; rules for others hold without a mapping";
            self.migration.in_part(source, words, advice);
        }
        self.strict_logins = lines;
        let is_needed = openness == Openness::Authenticated || self.demands_credentials();
        if is_needed && self.holders().is_empty() {
            let main = self.main.clone();
            let words =
                "no credential of ours is one of those that every session may use: everyone's rights are not given";
            let advice = "Write [[rule]]s for the clients that shall have them, by vo:, group:, dn: or issuer:";
            self.migration.in_part(&main, words, advice);
        }
    }

    /// What decided rights and is not ours may have denied everything: nothing is allowed then.
    /// Gives whether the `authdb` was not asked.
    fn close_foreign_rights(&mut self, openness: Openness) -> bool {
        let libraries = std::mem::take(&mut self.foreign_rights);
        if openness != Openness::Judged {
            for library in libraries {
                let words = "without ofs.authorize no rights are judged";
                self.migration.not_needed(&library.source, words);
            }
            return false;
        }
        for Named { value, source } in libraries {
            let rule = Rule {
                may_not: Activities::ALL,
                ..Rule::default()
            };
            let note = "CLOSED: this line decided rights. Remove this rule when they are written as rules";
            self.write_rule(&rule, &source, Some(note));
            let words = format!("{value} decides rights and is not ours: a rule closes the server for everyone");
            let advice = "Write what it gives and denies as [[rule]]s, then remove that rule";
            self.migration.no_equivalent(&source, words, advice);
        }
        self.is_authdb_replaced
    }

    fn macaroon_keys(&mut self) {
        match (self.macaroon_secret.take(), self.macaroons.clone()) {
            (Some(secret), Some(_)) => self.take_as("macaroons.secret_file", secret.value.as_str(), &secret.source),
            (Some(secret), None) => {
                self.migration
                    .not_needed(&secret.source, "libXrdMacaroons is not loaded");
            }
            (None, Some(source)) => {
                let advice = "Set [macaroons] secret_file; it is made if it is missing";
                self.migration
                    .in_part(&source, "macaroons.secretkey is missing", advice);
            }
            (None, None) => {}
        }
    }

    /// Without the plug-in for users, all files belong to the account of the service.
    fn local_users(&mut self) {
        let Some(source) = self.mappings.first().filter(|_| self.multiuser.is_none()).cloned() else {
            return;
        };
        let entry = self.set("users.switch", "never", &source);
        entry.note =
            Some("mapped names are for rules: without libXrdMultiuser, files belong to the service".to_owned());
    }

    fn join_managers(&mut self) {
        for manager in std::mem::take(&mut self.managers) {
            self.add_to("cms.managers", manager.value.as_str(), &manager.source);
        }
        for node in std::mem::take(&mut self.allowed_nodes) {
            self.migration.not_needed(&node.source, "is for managers");
        }
        if let Some(reserve) = self.reserve.take() {
            self.migration.not_needed(
                &reserve.source,
                "the space is reserved in the other place, or on other servers",
            );
        }
    }

    /// The server is a redirector: what is in the file for an endpoint goes into that for one.
    fn redirector(&mut self, openness: Openness) {
        let exports = std::mem::take(&mut self.exports);
        let main = self.main.clone();
        let path = match exports.as_slice() {
            [only] => only.path.clone(),
            _ => "/".to_owned(),
        };
        let source = exports.first().map_or(main.clone(), |export| export.source.clone());
        self.set("redirector.path", path, &source);
        for export in &exports {
            self.migration
                .taken(&export.source, "is in [redirector] path, or [[node]] exports");
        }
        let is_read_only = |export: &super::facts::ExportFact| export.is_read_only.unwrap_or(self.default_read_only);
        if !exports.is_empty() && exports.iter().all(is_read_only) {
            self.set("redirector.read_only", true, &source);
        }
        if openness == Openness::Anyone {
            let entry = self.set("redirector.anonymous", "write", &main);
            entry.note = Some("without ofs.authorize, everyone may do everything".to_owned());
        }
        self.nodes(exports.iter().map(|export| export.path.clone()).collect());
        for manager in std::mem::take(&mut self.managers) {
            let words = "redirectors join no other redirector";
            let advice = "List this one as a [[node]] of the other, with follow_redirects = true; its own name needs \
                          nothing";
            self.migration.no_equivalent(&manager.source, words, advice);
        }
        self.without_files();
        for document in &mut self.migration.documents {
            document.kind = DocumentKind::Redirector;
        }
    }

    /// What is about files, which a redirector has none of.
    fn without_files(&mut self) {
        let single = [
            self.local_root.take(),
            self.reserve.take(),
            self.origin.take(),
            self.cache_space.take(),
            self.cache_size.take(),
            self.prefetch.take(),
            self.proxy_certificate.take(),
            self.token_file.take(),
        ];
        let mut unused: Vec<Named> = single.into_iter().flatten().collect();
        unused.append(&mut self.permitted);
        unused.extend(std::mem::take(&mut self.spaces).into_values().flatten());
        unused.extend(
            std::mem::take(&mut self.buckets)
                .into_iter()
                .flat_map(|bucket| bucket.keys.into_values()),
        );
        for unused in unused {
            self.migration.not_needed(&unused.source, "a redirector has no files");
        }
    }

    fn nodes(&mut self, exports: Vec<String>) {
        let (named, patterns): (Vec<Named>, Vec<Named>) = std::mem::take(&mut self.allowed_nodes)
            .into_iter()
            .partition(|node| !node.value.contains('*'));
        for node in &named {
            let Some((host, port)) = host_and_port(&[node.value.as_str()], PORT) else {
                continue;
            };
            let section = self.migration.document(DocumentKind::Endpoint).add("node");
            section.set("url", format!("root://{host}:{port}"), &node.source);
            if exports.len() > 1 {
                section.set("exports", exports.clone(), &node.source);
            }
            self.migration.taken(&node.source, "is a [[node]]");
        }
        for pattern in patterns {
            let advice = "Write a [[node]] with the url of each server";
            self.migration.in_part(
                &pattern.source,
                "nodes are listed one by one, and do not announce themselves",
                advice,
            );
        }
        if named.is_empty() {
            let words = "a redirector lists its nodes, which XRootD's data servers need not be";
            let advice = "Write a [[node]] for each data server: url = \"root://HOST:1094\"";
            let main = self.main.clone();
            self.migration.in_part(&main, words, advice);
        }
    }

    /// Free space that uploads must leave, of `cms.space` or `oss.alloc`.
    pub(super) fn reserved(&self) -> Option<(String, Source)> {
        let reserve = self.reserve.as_ref()?;
        Some((size(size_bytes(&reserve.value)?), reserve.source.clone()))
    }
}
