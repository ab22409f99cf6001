//! dCache's `dcache.conf` and layout: the services of a host, and the settings of each.

use crate::limits::{DEPTH_MAX, VALUE_BYTES_MAX};
use crate::properties::{self, Content};
use crate::source::Source;

/// Most variables that one value may refer to, those in their values included.
const REFERENCES_MAX: usize = 256;

/// Defaults of dCache, where they decide what we write.
const DEFAULTS: &[(&str, &str)] = &[
    ("dcache.net.listen", "any"),
    ("dcache.root", "/"),
    ("dcache.paths.etc", "/etc/dcache"),
    ("dcache.paths.grid-security", "/etc/grid-security"),
    (
        "dcache.authn.hostcert.cert",
        "${dcache.paths.grid-security}/hostcert.pem",
    ),
    ("dcache.authn.hostcert.key", "${dcache.paths.grid-security}/hostkey.pem"),
    ("dcache.authn.capath", "${dcache.paths.grid-security}/certificates"),
    ("dcache.authn.vomsdir", "${dcache.paths.grid-security}/vomsdir"),
    ("dcache.authn.crl-mode", "IF_VALID"),
    ("dcache.authn.ocsp-mode", "IF_AVAILABLE"),
    ("dcache.enable.macaroons", "true"),
    ("webdav.enable.macaroons", "${dcache.enable.macaroons}"),
    ("webdav.net.port", "2880"),
    ("webdav.net.listen", "${dcache.net.listen}"),
    ("webdav.root", "${dcache.root}"),
    ("webdav.authn.protocol", "http"),
    ("webdav.authn.hostcert.cert", "${dcache.authn.hostcert.cert}"),
    ("webdav.authn.hostcert.key", "${dcache.authn.hostcert.key}"),
    ("webdav.authn.accept-client-cert", "true"),
    ("webdav.authz.allowed-paths", "/"),
    ("webdav.authz.readonly", "false"),
    ("webdav.authz.anonymous-operations", "NONE"),
    ("webdav.authz.anonymous-listing", "true"),
    ("webdav.enable.third-party.requiring-verification-by-default", "true"),
    ("xrootd.net.port", "1094"),
    ("xrootd.net.listen", "${dcache.net.listen}"),
    ("xrootd.root", "${dcache.root}"),
    ("xrootd.authz.read-paths", "/"),
    ("xrootd.authz.write-paths", ""),
    ("xrootd.authz.user", "nobody"),
    ("xrootd.authz.anonymous-operations", "NONE"),
    ("xrootd.plugins", "gplazma:ztn,gplazma:gsi,gplazma:none,authz:scitokens"),
    ("xrootd.security.tls.mode", "OPTIONAL"),
    ("xrootd.security.tls.require-login", "false"),
    ("xrootd.security.tls.require-session", "false"),
    ("xrootd.security.tls.require-data", "false"),
    ("xrootd.security.tls.hostcert.cert", "${dcache.authn.hostcert.cert}"),
    ("xrootd.security.tls.hostcert.key", "${dcache.authn.hostcert.key}"),
    ("gplazma.configuration.file", "${dcache.paths.etc}/gplazma.conf"),
    ("gplazma.vorolemap.file", "${dcache.paths.grid-security}/grid-vorolemap"),
    ("gplazma.gridmap.file", "${dcache.paths.grid-security}/grid-mapfile"),
    ("gplazma.authzdb.file", "${dcache.paths.grid-security}/storage-authzdb"),
    ("gplazma.multimap.file", "${dcache.paths.etc}/multi-mapfile"),
    ("gplazma.banfile.path", "${dcache.paths.etc}/ban.conf"),
    ("gplazma.kpwd.file", "${dcache.paths.etc}/dcache.kpwd"),
    ("gplazma.omnisession.file", "${dcache.paths.etc}/omnisession.conf"),
    ("gplazma.vomsdir.ca", "${dcache.authn.capath}"),
    ("gplazma.vomsdir.dir", "${dcache.authn.vomsdir}"),
];

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: String,
    /// Its value, with references to others as they stand there.
    pub(crate) value: String,
    pub(crate) source: Source,
}

/// A service of a domain: `[domain/service]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) domain: String,
    /// Its kind: `webdav`, `pool`, …
    pub(crate) service: String,
    pub(crate) source: Source,
    pub(crate) settings: Vec<Setting>,
}

/// All files together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Settings of the host: of `dcache.conf`, and those in front of the first section.
    pub(crate) globals: Vec<Setting>,
    /// Domains with their settings.
    pub(crate) domains: Vec<(String, Vec<Setting>)>,
    /// Services, in the order of the files.
    pub(crate) cells: Vec<Cell>,
}

/// A value as a service sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) text: String,
    /// Where it is set; `None` for a default of dCache.
    pub(crate) source: Option<Source>,
}

impl Layout {
    /// Adds the settings and services of a file.
    pub(crate) fn read(&mut self, file: &str, text: &str) {
        let mut place: Option<Place> = None;
        for line in properties::parse(text) {
            let source = Source::new(file, line.number, &line.text);
            match line.content {
                Content::Section(name) => place = Some(self.open(&name, source)),
                Content::Setting { key, value } => {
                    let shown = match is_secret(&key) {
                        true => Source::hidden(file, line.number, &key),
                        false => source,
                    };
                    let setting = Setting {
                        key: without_annotation(&key).to_owned(),
                        value,
                        source: shown,
                    };
                    self.settings_at(place).push(setting);
                }
            }
        }
    }

    fn open(&mut self, name: &str, source: Source) -> Place {
        match name.split_once('/') {
            None => {
                self.domains.push((name.to_owned(), Vec::new()));
                Place::Domain(self.domains.len() - 1)
            }
            Some((domain, service)) => {
                self.cells.push(Cell {
                    domain: domain.to_owned(),
                    service: service.to_owned(),
                    source,
                    settings: Vec::new(),
                });
                Place::Cell(self.cells.len() - 1)
            }
        }
    }

    fn settings_at(&mut self, place: Option<Place>) -> &mut Vec<Setting> {
        match place {
            None => &mut self.globals,
            Some(Place::Domain(index)) => &mut self.domains[index].1,
            Some(Place::Cell(index)) => &mut self.cells[index].settings,
        }
    }

    /// The services of a kind.
    pub(crate) fn services<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a Cell> + 'a {
        self.cells.iter().filter(move |cell| cell.service == service)
    }

    /// All settings.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &Setting> {
        let of_domains = self.domains.iter().flat_map(|(_, settings)| settings);
        let of_cells = self.cells.iter().flat_map(|cell| &cell.settings);
        self.globals.iter().chain(of_domains).chain(of_cells)
    }

    /// The value of a key as a service sees it, or the host with `None`.
    ///
    /// # Errors
    /// A variable that is not defined here, or variables that refer to each other.
    pub(crate) fn value(&self, cell: Option<&Cell>, key: &str) -> Result<Option<Value>, String> {
        let Some((raw, source)) = self.raw(cell, key) else {
            return Ok(None);
        };
        let mut references = 0;
        let text = self.expand(cell, raw, 0, &mut references)?;
        Ok(Some(Value { text, source }))
    }

    /// The last definition in the innermost place that has one.
    fn raw<'a>(&'a self, cell: Option<&'a Cell>, key: &str) -> Option<(&'a str, Option<Source>)> {
        let is_it = |setting: &&Setting| setting.key == key;
        let mut of_cell = cell.into_iter().flat_map(|cell| &cell.settings);
        let of_domain = self
            .domains
            .iter()
            .filter(|(name, _)| cell.is_some_and(|cell| cell.domain == *name));
        let mut of_domain = of_domain.flat_map(|(_, settings)| settings);
        let found = of_cell
            .rfind(is_it)
            .or_else(|| of_domain.rfind(is_it))
            .or_else(|| self.globals.iter().rfind(is_it));
        if let Some(setting) = found {
            return Some((setting.value.as_str(), Some(setting.source.clone())));
        }
        let default = DEFAULTS.iter().find(|(name, _)| *name == key)?;
        Some((default.1, None))
    }

    fn expand(&self, cell: Option<&Cell>, text: &str, depth: usize, references: &mut usize) -> Result<String, String> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some(begin) = rest.find("${") {
            *references += 1;
            if depth == DEPTH_MAX || *references > REFERENCES_MAX || expanded.len() > VALUE_BYTES_MAX {
                return Err("its variables refer to each other, or to too many others".to_owned());
            }
            expanded.push_str(&rest[..begin]);
            let inner = &rest[begin + 2..];
            let Some(end) = closing(inner) else {
                return Err("a variable has no closing brace".to_owned());
            };
            let name = self.expand(cell, &inner[..end], depth + 1, references)?;
            let Some((raw, _)) = self.raw(cell, &name) else {
                return Err(format!("the variable {name} is not defined here"));
            };
            let value = self.expand(cell, raw, depth + 1, references)?;
            expanded.push_str(&value);
            rest = &inner[end + 1..];
        }
        expanded.push_str(rest);
        Ok(expanded)
    }
}

#[derive(Clone, Copy)]
enum Place {
    Domain(usize),
    Cell(usize),
}

/// Where the brace closes that was opened in front of the text.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '{' => open += 1,
            '}' if open == 0 => return Some(at),
            '}' => open -= 1,
            _ => {}
        }
    }
    None
}

/// Whether the value of a key may be a secret.
pub(crate) fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    [
        "password",
        "secret",
        "passwd",
        "passphrase",
        "access-token",
        "private-key",
    ]
    .iter()
    .any(|word| key.contains(word))
}

/// A key without the annotation that dCache's own defaults have: `(one-of?true|false)key`.
fn without_annotation(key: &str) -> &str {
    let rest = key.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    rest.map_or(key, |(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a = host\nb = ${a}-${c}\n[dom]\na = domain\n[dom/webdav]\na = cell\nc=1\nc=2\n\
        [other/webdav]\nc = ${a-${k}}\na-x = deep\nk = x\nlib.password = hunter2\n";

    fn value(cell: usize, key: &str) -> Result<Option<String>, String> {
        let mut layout = Layout::default();
        layout.read("l.conf", TEXT);
        let cell = layout.cells.get(cell).cloned();
        layout
            .value(cell.as_ref(), key)
            .map(|found| found.map(|value| value.text))
    }

    #[test]
    fn the_innermost_definition_counts_and_variables_are_replaced() {
        assert_eq!(value(0, "b").unwrap().as_deref(), Some("cell-2"));
        assert_eq!(value(1, "b").unwrap().as_deref(), Some("host-deep"));
        assert_eq!(value(9, "a").unwrap().as_deref(), Some("host"));
        assert_eq!(value(9, "webdav.root").unwrap().as_deref(), Some("/"));
        assert_eq!(value(0, "none").unwrap(), None);
        assert!(value(9, "b").unwrap_err().contains("variable c is not defined"));
    }

    #[test]
    fn variables_that_refer_to_each_other_end() {
        let mut layout = Layout::default();
        layout.read(
            "f",
            "a = ${b}\nb = ${a}\nc = ${d}${d}${d}${d}\nd = ${e}${e}${e}${e}\ne=${f}${f}${f}${f}${f}\nf=\nx = ${\n",
        );
        for key in ["a", "b", "x"] {
            assert!(layout.value(None, key).is_err(), "{key}");
        }
        assert_eq!(layout.value(None, "c").unwrap().unwrap().text, "");
    }

    #[test]
    fn secrets_are_not_in_the_source() {
        let mut layout = Layout::default();
        layout.read("f", TEXT);
        let setting = layout.settings().find(|setting| setting.key == "lib.password").unwrap();
        assert!(!setting.source.to_string().contains("hunter2"), "{}", setting.source);
    }
}
