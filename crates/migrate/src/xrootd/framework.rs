//! `all.*`, `xrd.*` and `xrootd.*`: ports, TLS, roles, the protocol.

use types::ChecksumAlgorithm;

use super::condition;
use super::facts::{ExportFact, Facts, Named, Role};
use super::lines::Directive;
use super::values::{duration, host_and_port, library, plain_path, seconds};

/// The port of `cmsd` where none is given.
const CMS_PORT: u16 = 1213;

impl Facts<'_> {
    /// `all.*` and `xrd.*`.
    pub(super) fn framework(&mut self, line: &Directive, name: &str) -> bool {
        let source = &line.source;
        match name {
            "export" => self.export(line),
            "role" => self.role(line),
            "manager" => self.manager(line),
            "sitename" if line.words.is_empty() => self.migration.unknown(source, "names no site", "Name it"),
            "sitename" => {
                let site = line.words.join(" ");
                self.set("cluster.site", site.as_str(), source);
                self.take_as("monitoring.site", site, source);
            }
            "port" => match line.words.iter().any(|word| word == "tls") {
                // Both are on one port of ours: the one for TLS is another one to listen on.
                true => self.http_ports.push(Named::new(line.word(1), source)),
                false => self.keep(|facts| &mut facts.root_port, Named::new(line.word(0), source)),
            },
            "protocol" | "protocols" => self.loaded_protocol(line),
            "tls" => self.tls(line),
            "tlsca" => self.authorities(line),
            "allow" => match (line.word(0), line.word(1)) {
                ("host", "*") => self.migration.not_needed(source, "every host may connect"),
                (_, name) => self.allowed_clients.push(Named::new(name, source)),
            },
            "timeout" => self.timeout(line),
            "report" => self.report(line),
            "maxfd" => {
                let words = "the limit on open files is that of the service";
                let advice = "Set LimitNOFILE= of the unit where 524288, as in ours, do not suffice";
                self.migration.in_part(source, words, advice);
            }
            _ => return false,
        }
        true
    }

    fn export(&mut self, line: &Directive) {
        let path = line.word(0);
        if !path.starts_with('/') {
            let words = "names of objects that are no paths cannot be exported";
            let advice = "Export the paths below which the files are";
            return self.migration.no_equivalent(&line.source, words, advice);
        }
        let mut is_read_only = None;
        let mut tape = Vec::new();
        for word in &line.words[1..] {
            match word.as_str() {
                "r/o" | "readonly" | "notwritable" | "forcero" => is_read_only = Some(true),
                "r/w" | "writable" => is_read_only = Some(false),
                "stage" | "stage+" | "mig" | "migratable" | "purge" => tape.push(word.clone()),
                // Hints about memory, locks and the local or global name space.
                _ => {}
            }
        }
        let path = plain_path(path);
        let earlier = self.exports.iter().position(|export| export.path == path);
        // "oss.path" says something about a path, and does not export it.
        let mut is_exported = !matches!(line.name.as_str(), "oss.path" | "oss.export" | "pss.export");
        if let Some(earlier) = earlier.map(|at| self.exports.remove(at)) {
            is_exported |= earlier.is_exported;
            match earlier.is_read_only == Some(true) && is_read_only != Some(true) {
                true => {
                    is_read_only = Some(true);
                    let words = "is an [[export]] with read_only, which a later line does not take back here";
                    let advice = "Remove read_only if clients may write there";
                    self.migration.in_part(&earlier.source, words, advice);
                }
                false => self.migration.not_needed(&earlier.source, "a later line replaces it"),
            }
        }
        self.exports.push(ExportFact {
            path,
            is_exported,
            is_read_only,
            tape,
            source: line.source.clone(),
        });
    }

    fn role(&mut self, line: &Directive) {
        let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [.., "server"] => {
                self.role = Role::Server;
                self.migration.taken(&line.source, "is crossload serve");
            }
            [.., "manager"] => {
                self.role = Role::Manager;
                self.migration.taken(&line.source, "is crossload redirector");
            }
            [.., "supervisor"] => {
                self.role = Role::Manager;
                let words = "is a redirector: ours have up to 10,000 nodes, without supervisors in between";
                let advice = "Leave supervisors out, and list all data servers in one redirector";
                self.migration.in_part(&line.source, words, advice);
            }
            _ => {
                let advice = "Write manager, server or supervisor";
                self.migration.unknown(&line.source, "names no role", advice);
            }
        }
    }

    fn manager(&mut self, line: &Directive) {
        let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
        let at = words
            .iter()
            .position(|word| !matches!(*word, "meta" | "peer" | "proxy" | "all" | "any"));
        match at.and_then(|at| host_and_port(&words[at..], CMS_PORT)) {
            Some((host, port)) => self.managers.push(Named::new(&format!("{host}:{port}"), &line.source)),
            None => self.migration.unknown(&line.source, "names no host", "Write HOST:PORT"),
        }
    }

    /// `xrd.protocol [tls] NAME[:PORT] LIBRARY`.
    fn loaded_protocol(&mut self, line: &Directive) {
        let words: Vec<&str> = line
            .words
            .iter()
            .map(String::as_str)
            .filter(|word| *word != "tls")
            .collect();
        let (name, port) = match words.first().copied().unwrap_or_default().split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (words.first().copied().unwrap_or_default(), None),
        };
        let is_http = words.get(1).is_some_and(|word| library(word) == "libXrdHttp") || name.contains("ttp");
        if is_http {
            self.http = Some(line.source.clone());
            if let Some(port) = port {
                self.http_ports.push(Named::new(port, &line.source));
            }
            self.migration
                .taken(&line.source, "HTTP is served on each address of [server] listen");
        } else if matches!(name, "xrootd" | "xroot") {
            self.migration
                .taken(&line.source, "is served on each address of [server] listen");
        } else {
            let advice = "Keep it on a server of its own, if clients still use it";
            self.migration
                .no_equivalent(&line.source, "we do not speak this protocol", advice);
        }
    }

    /// `xrd.tls CERTIFICATE [KEY]`.
    fn tls(&mut self, line: &Directive) {
        let certificate = Named::new(line.word(0), &line.source);
        let key = Some(line.word(1)).filter(|word| word.starts_with('/'));
        let key = Named::new(key.unwrap_or(line.word(0)), &line.source);
        self.certificates.insert(0, (certificate, Some(key)));
        self.migration.taken(&line.source, "is [server] certificate and key");
    }

    /// `xrd.tlsca certdir PATH certfile PATH options`, or `noverify`.
    fn authorities(&mut self, line: &Directive) {
        let source = &line.source;
        if line.has("noverify") {
            self.set("x509.client_certificates", "off", source);
            let words = "certificates of clients that are not verified identify no one here";
            let advice = "Set [x509] trust_directory, and remove client_certificates, to accept certificates";
            return self.migration.in_part(source, words, advice);
        }
        if let Some(directory) = line.after("certdir") {
            let directory = plain_path(directory);
            self.set("x509.trust_directory", directory.as_str(), source);
            self.set("trust.ca_directories", vec![directory], source);
        }
        if let Some(file) = line.after("certfile") {
            let file = file.to_owned();
            self.set("trust.ca_files", vec![file], source);
        }
        let refresh = line
            .after("refresh")
            .filter(|time| seconds(time).is_some_and(|seconds| seconds > 0));
        if let Some(time) = refresh.and_then(duration) {
            self.set("x509.refresh", time, source);
        }
        if matches!(line.after("crlcheck"), Some("all" | "last")) && !line.has("allow-missing-crl") {
            self.set("x509.revocation", "required", source);
        }
        match (line.after("certdir"), line.after("certfile")) {
            (Some(_), _) => self.migration.taken(source, "is [x509] trust_directory and [trust]"),
            (None, _) => {
                let words = "a file of authorities is trusted for outgoing connections ([trust] ca_files); certificates \
                             of clients are judged by a directory";
                let advice = "Set [x509] trust_directory to a directory with HASH.0, to accept certificates";
                self.migration.in_part(source, words, advice);
            }
        }
    }

    fn timeout(&mut self, line: &Directive) {
        match line.after("idle").map(|time| (duration(time), seconds(time))) {
            Some((Some(time), Some(1..))) => self.set("limits.idle_timeout", time, &line.source),
            _ => {
                let words = "our own limits apply ([limits])";
                return self.migration.not_needed(&line.source, words);
            }
        };
        self.migration.taken(
            &line.source,
            "is [limits] idle_timeout; other times have limits of their own",
        );
    }

    /// `xrootd.*`.
    pub(super) fn protocol(&mut self, line: &Directive, name: &str) -> bool {
        let source = &line.source;
        match name {
            "export" => self.export(line),
            "chksum" => self.checksums(line),
            "tls" => self.required_tls(line),
            "monitor" => self.monitor(line),
            "mongstream" => self.streams(line),
            "pmark" => self.packet_marks(line),
            "fslib" => self.file_system(line),
            "seclib" => self
                .migration
                .not_needed(source, "methods of authentication are built in"),
            _ => return false,
        }
        true
    }

    /// `xrootd.chksum [max N] [chkcgi] TYPE... [PROGRAM]`.
    fn checksums(&mut self, line: &Directive) {
        let mut names = Vec::new();
        let mut unknown = Vec::new();
        let mut words = line.words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "max" => _ = words.next(),
                "chkcgi" => {}
                program if program.starts_with('/') => break,
                word => match ChecksumAlgorithm::from_name(word).filter(|known| ChecksumAlgorithm::ALL.contains(known))
                {
                    Some(known) => names.push(known.name()),
                    None => unknown.push(word),
                },
            }
        }
        if !names.is_empty() {
            self.set("server.checksums", names, &line.source);
        }
        match unknown.is_empty() {
            true => self
                .migration
                .taken(&line.source, "is [server] checksums; they are computed here"),
            false => {
                let words = format!("without {}, which we do not compute", unknown.join(", "));
                self.migration.in_part(
                    &line.source,
                    words,
                    "Let clients ask for adler32, crc32c, md5 or sha-256",
                );
            }
        }
    }

    /// `xrootd.tls [capable] all|data|login|session|tpc|gpfile|none...`.
    fn required_tls(&mut self, line: &Directive) {
        let source = &line.source;
        let mut demanded = self.demanded_tls.clone();
        for word in line.words.iter().map(String::as_str) {
            match (word, word.strip_prefix('-')) {
                ("none" | "off", _) => demanded.clear(),
                ("all", _) => demanded.extend(["data", "login", "session"].map(str::to_owned)),
                (_, Some("all")) => demanded.clear(),
                (_, Some(taken)) => demanded.retain(|word| word != taken),
                (word, None) => demanded.push(word.to_owned()),
            }
        }
        let of = |name: &&str| demanded.iter().any(|word| word == name);
        let demand = ["data", "login", "session"].into_iter().find(of);
        let word = demand.unwrap_or("optional");
        if line.has("capable") && word != "optional" {
            if self.demanded_tls.is_empty() {
                self.set("xroot.tls", "optional", source);
            }
            let words = "TLS is offered, and used by clients that ask for it: it cannot be demanded of those alone that \
                         can do it";
            let advice = format!("Write tls = \"{word}\" once every client can use TLS");
            return self.migration.in_part(source, words, advice);
        }
        self.set("xroot.tls", word, source);
        self.demanded_tls = demanded;
        match line.has("tpc") || line.has("gpfile") {
            true => {
                let advice = "Write tls = \"login\" into [xroot] if such requests must be encrypted";
                self.migration
                    .in_part(source, "TLS cannot be demanded of single kinds of requests", advice);
            }
            false => self.migration.taken(source, "is [xroot] tls"),
        }
    }

    fn file_system(&mut self, line: &Directive) {
        let names = line
            .words
            .iter()
            .map(|word| library(word))
            .filter(|word| !matches!(*word, "" | "++" | "default"));
        let names: Vec<&str> = names.collect();
        if names.is_empty() {
            self.migration.not_needed(&line.source, "it is the usual file system");
        }
        for name in names {
            match name {
                "throttle" | "libXrdThrottle" => {
                    let words = "clients have fair shares of connections, files and copies by themselves ([limits])";
                    self.migration.not_needed(&line.source, words);
                }
                name if name.starts_with("libXrdOfs") => {
                    self.migration.not_needed(&line.source, "it is the usual file system");
                }
                name if condition::matches("libXrdMacaroons*", name) => {
                    self.macaroons = Some(line.source.clone());
                    self.migration.taken(&line.source, "is [macaroons]");
                }
                name => {
                    let words = format!("the file system {name} is not ours");
                    let advice = "Leave these files at XRootD, and put an [[export]] with remote in front of it";
                    self.foreign = Some(line.source.clone());
                    self.migration.no_equivalent(&line.source, words, advice);
                }
            }
        }
    }
}
