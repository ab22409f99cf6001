//! `sec.*`: how sessions authenticate.

use super::facts::{Binding, Facts, Method, Named};
use super::lines::Directive;
use super::values::{library, plain_path};

/// Options of `gsi` that are taken over, or have a remark.
const GSI: [&str; 10] = [
    "cert", "key", "certdir", "crl", "gridmap", "gmapopt", "vomsfun", "authzfun", "gmapfun", "dlgpxy",
];
/// Options of `gsi` that need nothing here.
const GSI_NOT_NEEDED: [&str; 20] = [
    "d",
    "c",
    "crldir",
    "crlext",
    "crlrefresh",
    "cipher",
    "md",
    "gmapto",
    "authzto",
    "authzcall",
    "authzpxy",
    "exppxy",
    "vomsfunparms",
    "vomsat",
    "moninfo",
    "trustdns",
    "showdn",
    "ca",
    "gmapfunparms",
    "authzfunparms",
];

/// Whether options of `gsi` refuse clients with a valid certificate: those without a mapping,
/// without VOMS or of another VO, or whom a function does not like.
fn refuses_valid_certificates(options: &[(&str, &str)]) -> bool {
    options.iter().any(|(name, value)| match *name {
        "gmapopt" => matches!(*value, "2" | "12") || value.starts_with("usemap"),
        "vomsat" => !matches!(*value, "0" | "1" | "ignore" | "extract"),
        "vomsfunparms" => value.contains("vos=") || value.contains("grps="),
        "authzfun" | "gmapfun" => true,
        _ => false,
    })
}

impl Facts<'_> {
    /// `sec.*`.
    pub(super) fn security(&mut self, line: &Directive, name: &str) -> bool {
        match name {
            "protocol" => self.method(line),
            "protbind" => self.binding(line),
            "level" => {
                let words = "requests are not signed one by one: [xroot] tls protects the whole session";
                self.migration.not_needed(&line.source, words);
            }
            "protparm" => self.parameters(line),
            _ => return false,
        }
        true
    }

    /// `sec.protocol [DIRECTORY] NAME OPTION...`.
    fn method(&mut self, line: &Directive) {
        let source = &line.source;
        let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
        let words = match words.split_first() {
            Some((first, rest)) if first.starts_with('/') => rest,
            _ => &words,
        };
        let Some((name, options)) = words.split_first() else {
            return self.migration.unknown(source, "names no method", "Name it");
        };
        self.methods.push(Method {
            name: (*name).to_owned(),
            source: source.clone(),
        });
        match *name {
            "gsi" => self.gsi(options, line),
            "ztn" => self.migration.taken(source, "is \"token\" in [xroot] authentication"),
            "unix" => {
                let words = "is \"unix\" in [xroot] authentication: names of clients are logged, and give no rights";
                let advice = "Give the rights of these users to certificates or tokens";
                self.migration.in_part(source, words, advice);
            }
            "host" => {
                let words = "is \"host\" in [xroot] authentication: it gives no rights";
                let advice = "Use rules with address:, where hosts had rights";
                self.migration.in_part(source, words, advice);
            }
            other => {
                let words = format!("{other} is not among our methods");
                let advice = match other {
                    "sss" => "Give servers that share a key tokens, macaroons or certificates",
                    "krb5" => "Give users tokens of an issuer that accepts Kerberos, or certificates",
                    _ => "Use gsi or ztn (tokens)",
                };
                self.migration.no_equivalent(source, words, advice);
            }
        }
    }

    /// Options of `gsi`: `-name:value`, in old files with two dashes.
    fn gsi(&mut self, options: &[&str], line: &Directive) {
        let source = &line.source;
        let plain = options.iter().map(|option| option.trim_start_matches('-'));
        let read: Vec<(&str, &str)> = plain
            .map(|option| option.split_once([':', '=']).unwrap_or((option, "")))
            .collect();
        let value = |wanted: &str| {
            read.iter()
                .rev()
                .find(|(name, _)| *name == wanted)
                .map(|(_, value)| *value)
        };
        let certificate = value("cert").unwrap_or("/etc/grid-security/xrd/xrdcert.pem");
        let key = value("key").unwrap_or("/etc/grid-security/xrd/xrdkey.pem");
        let pair = (Named::new(certificate, source), Some(Named::new(key, source)));
        self.certificates.insert(2, pair);
        if value("certdir").is_some() || self.get("x509.trust_directory").is_none() {
            let directory = plain_path(value("certdir").unwrap_or("/etc/grid-security/certificates"));
            self.set("x509.trust_directory", directory, source);
        }
        self.revocation(value("crl"), line);
        if refuses_valid_certificates(&read) {
            self.strict_logins.push(source.clone());
        }
        let mut open = Vec::new();
        let maps = !matches!(value("gmapopt"), Some("0" | "nomap"));
        match value("gridmap") {
            Some(file) if maps => {
                self.mappings.push(source.clone());
                self.set("x509.grid_map_file", file, source);
            }
            None if maps && self.get("x509.grid_map_file").is_none() => {
                open.push("a grid-mapfile in its usual place (set [x509] grid_map_file, if there is one)".to_owned());
            }
            _ => {}
        }
        match value("vomsfun").map(library) {
            Some("libXrdVoms" | "libXrdSecgsiVOMS" | "default" | "") => self.voms_of_gsi(line),
            Some(name) => open.push(format!("{name} (set [x509] voms_directory)")),
            None => {}
        }
        for function in [value("authzfun"), value("gmapfun")].into_iter().flatten() {
            let words = format!("{} (use [x509] grid_map_file and voms_map_file)", library(function));
            open.push(words);
        }
        if value("dlgpxy").is_some_and(|value| value != "0") {
            let words = "delegated proxies (set [delegation] directory and key_file)";
            open.push(words.to_owned());
        }
        let unknown = read
            .iter()
            .filter(|(name, _)| !GSI.contains(name) && !GSI_NOT_NEEDED.contains(name));
        open.extend(unknown.map(|(name, _)| format!("{name} (unknown)")));
        match open.is_empty() {
            true => self
                .migration
                .taken(source, "is \"gsi\" in [xroot] authentication, and [x509]"),
            false => {
                let words = format!("is \"gsi\" in [xroot] authentication, without {}", open.join("; "));
                self.migration
                    .in_part(source, words, "Complete [x509] and [delegation] (docs/gsi.md)");
            }
        }
    }

    /// `-crl`. What TLS demands is not lowered.
    fn revocation(&mut self, level: Option<&str>, line: &Directive) {
        let word = match level {
            Some("0" | "ignore" | "no") => "off",
            Some("2" | "3" | "use" | "require" | "need" | "12" | "13") => "required",
            _ => return,
        };
        if word == "required" || self.get("x509.revocation").is_none() {
            self.set("x509.revocation", word, &line.source);
        }
    }

    fn voms_of_gsi(&mut self, line: &Directive) {
        if self.get("x509.voms_directory").is_none() {
            self.set("x509.voms_directory", "/etc/grid-security/vomsdir", &line.source);
        }
    }

    /// `sec.protparm NAME OPTION...` before `sec.protocol NAME`.
    fn parameters(&mut self, line: &Directive) {
        let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
        match words.split_first() {
            Some((&"gsi", options)) => self.gsi(options, line),
            _ => {
                let words = "options of this method are not ours";
                self.migration
                    .no_equivalent(&line.source, words, "Use gsi or ztn (tokens)");
            }
        }
    }

    /// `sec.protbind HOSTS [none | [only] METHOD...]`.
    fn binding(&mut self, line: &Directive) {
        let methods = line.words.iter().skip(1).filter(|word| *word != "only");
        self.bindings.push(Binding {
            hosts: line.word(0).to_owned(),
            methods: methods.cloned().collect(),
            source: line.source.clone(),
        });
    }
}
