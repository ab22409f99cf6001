//! `http.*`, `macaroons.*` and the environment.

use super::facts::{Facts, Named};
use super::lines::Directive;
use super::values::{duration, is_on, library, plain_path};

/// Where VOMS' list of servers is, if the environment says nothing else.
const VOMS_DIRECTORY: &str = "/etc/grid-security/vomsdir";

impl Facts<'_> {
    /// `http.*`.
    pub(super) fn http(&mut self, line: &Directive, name: &str) -> bool {
        let source = &line.source;
        match name {
            "cert" | "sslcert" => {
                let certificate = Named::new(line.word(0), source);
                let entry = self.certificates.entry(1);
                entry
                    .and_modify(|pair| pair.0 = certificate.clone())
                    .or_insert((certificate, None));
                self.migration.taken(source, "is [server] certificate");
            }
            "key" | "sslkey" => {
                let key = Named::new(line.word(0), source);
                let entry = self.certificates.entry(1);
                let missing = Named::new("", source);
                entry
                    .and_modify(|pair| pair.1 = Some(key.clone()))
                    .or_insert((missing, Some(key)));
                self.migration.taken(source, "is [server] key");
            }
            "cadir" | "sslcadir" => {
                let directory = plain_path(line.word(0));
                self.set("x509.trust_directory", directory.as_str(), source);
                self.set("trust.ca_directories", vec![directory], source);
                self.migration
                    .taken(source, "is [x509] trust_directory and [trust] ca_directories");
            }
            "cafile" | "sslcafile" => {
                self.set("trust.ca_files", vec![line.word(0)], source);
                let words = "is [trust] ca_files, for outgoing connections; certificates of clients are judged by a \
                             directory";
                let advice = "Set [x509] trust_directory to a directory with HASH.0, to accept certificates";
                self.migration.in_part(source, words, advice);
            }
            "gridmap" => match line.words.last() {
                Some(file) => {
                    if line.has("required") {
                        self.strict_logins.push(source.clone());
                    }
                    self.mappings.push(source.clone());
                    self.take_as("x509.grid_map_file", file.as_str(), source);
                }
                None => self.migration.unknown(source, "names no file", "Name it"),
            },
            "secxtractor" => self.extractor(line),
            "exthandler" => self.handler(line),
            "header2cgi" => self.header(line),
            "httpsmode" => self.mode(line),
            "selfhttps2http" if is_on(line.word(0)) => {
                self.take_as("hand_over.reads", true, source);
            }
            "selfhttps2http" => self.migration.not_needed(source, "is off here, too"),
            "listingdeny" | "listing" => self.listing(line),
            "tlsclientauth" if line.word(0).eq_ignore_ascii_case("off") => {
                self.take_as("x509.client_certificates", "off", source);
            }
            "tlsclientauth" => self
                .migration
                .not_needed(source, "clients may always show a certificate"),
            _ => return false,
        }
        true
    }

    fn extractor(&mut self, line: &Directive) {
        let source = &line.source;
        match library(line.word(0)) {
            "libXrdVoms" | "libXrdHttpVOMS" | "libXrdSecgsiVOMS" => self.voms(line),
            name => {
                let words = format!("{name} is not ours");
                let advice = "Map certificates by [x509] grid_map_file and voms_map_file";
                self.migration.no_equivalent(source, words, advice);
            }
        }
    }

    /// Attributes of VOMS are read.
    pub(super) fn voms(&mut self, line: &Directive) {
        if self.get("x509.voms_directory").is_none() {
            self.set("x509.voms_directory", VOMS_DIRECTORY, &line.source);
        }
        self.migration.taken(&line.source, "is [x509] voms_directory");
    }

    /// `http.exthandler NAME LIBRARY`.
    fn handler(&mut self, line: &Directive) {
        let source = &line.source;
        let library = line
            .words
            .iter()
            .map(|word| library(word))
            .find(|word| word.starts_with("lib"));
        match library.unwrap_or_default() {
            "libXrdHttpTPC" => self.migration.taken(source, "third-party copies are built in ([tpc])"),
            "libXrdMacaroons" => {
                self.macaroons.get_or_insert_with(|| source.clone());
                self.migration.taken(source, "is [macaroons]");
            }
            name => {
                let words = format!("requests of {name} are not ours");
                let advice = "Leave what needs them at XRootD";
                self.migration.no_equivalent(source, words, advice);
            }
        }
    }

    /// `http.header2cgi HEADER KEY`.
    fn header(&mut self, line: &Directive) {
        let source = &line.source;
        match line.word(0).eq_ignore_ascii_case("authorization") {
            true => self.migration.not_needed(source, "credentials in headers always count"),
            false => {
                let advice = "SciTags are understood without it; for other headers, change the clients";
                self.migration
                    .no_equivalent(source, "headers do not become parameters", advice);
            }
        }
    }

    fn mode(&mut self, line: &Directive) {
        match line.word(0) {
            "disable" => {
                let advice = "Remove [server] certificate and key, if clients must not use TLS";
                self.migration
                    .in_part(&line.source, "TLS is served on each port with a certificate", advice);
            }
            _ => self
                .migration
                .not_needed(&line.source, "TLS is served on each port with a certificate"),
        }
    }

    fn listing(&mut self, line: &Directive) {
        let is_denied = match line.name.as_str() {
            "http.listing" => line.word(0).starts_with("deny"),
            _ => is_on(line.word(0)),
        };
        match is_denied {
            false => self
                .migration
                .not_needed(&line.source, "listings need the right to list"),
            true => {
                let words = "listings need the right to list, over both protocols";
                let advice = "Take it by a [[rule]] with may_not = \"list\", where it is forbidden";
                self.migration.no_equivalent(&line.source, words, advice);
            }
        }
    }

    /// `macaroons.*`.
    pub(super) fn macaroons(&mut self, line: &Directive, name: &str) -> bool {
        let source = &line.source;
        match name {
            "secretkey" => self.keep(|facts| &mut facts.macaroon_secret, Named::new(line.word(0), source)),
            "maxduration" => match duration(line.word(0)).filter(|time| time != "0s") {
                Some(time) => {
                    self.set("macaroons.default_lifetime", time.as_str(), source);
                    self.take_as("macaroons.maximum_lifetime", time, source);
                }
                None => self.migration.unknown(source, "is no number of seconds", "Write one"),
            },
            "onmissing" => self.without_macaroon(line),
            "sitename" => {
                let words = "macaroons carry [server] name, or the address that the client used";
                self.migration.not_needed(source, words);
            }
            _ => return false,
        }
        true
    }

    /// `macaroons.onmissing passthrough | allow | deny`; the last line counts.
    fn without_macaroon(&mut self, line: &Directive) {
        let source = &line.source;
        let word = line.word(0).to_ascii_lowercase();
        self.macaroon_demanded = !matches!(word.as_str(), "passthrough" | "allow");
        match word.as_str() {
            "passthrough" => self
                .migration
                .not_needed(source, "rules hold for requests without a macaroon"),
            "allow" => {
                let words = "allow for requests without a macaroon: rules hold for them here";
                let advice = "Set anonymous in [[export]], or write a [[rule]] for anyone";
                self.migration.no_equivalent(source, words, advice);
            }
            _ => {
                let words = "rules give rights to holders of tokens of the [[issuer]]s only";
                let advice = "Write rules for others, if they shall do something without a macaroon";
                self.migration.in_part(source, words, advice);
            }
        }
    }

    /// `tpc.*`: to which addresses third-party copies over HTTP may connect.
    pub(super) fn http_copies(&mut self, line: &Directive, name: &str) -> bool {
        let source = &line.source;
        let place = match line.word(0) {
            "local" => "tpc.allow_local_peers",
            _ => "tpc.allow_private_peers",
        };
        match (name, line.word(0)) {
            ("allow", "local" | "private") => self.take_as(place, true, source),
            ("deny", "local" | "private") => self.take_as(place, false, source),
            ("fixed_route" | "timeout" | "timeout_first_byte", _) => {
                self.migration
                    .not_needed(source, "copies have limits of their own ([tpc], [limits])");
            }
            ("header2cgi", _) => {
                let advice = "SciTags are passed on without it; for other headers, change the clients";
                self.migration
                    .no_equivalent(source, "headers do not become parameters", advice);
            }
            _ => return false,
        }
        true
    }

    /// `voms.mapfile FILE`.
    pub(super) fn attributes(&mut self, line: &Directive, name: &str) -> bool {
        if name != "mapfile" || line.word(0).is_empty() {
            return false;
        }
        self.mappings.push(line.source.clone());
        self.take_as("x509.voms_map_file", line.word(0), &line.source);
        true
    }

    /// `setenv NAME = VALUE`, and words that are no directives.
    pub(super) fn environment(&mut self, line: &Directive) -> bool {
        if line.name != "setenv" {
            return false;
        }
        let source = &line.source;
        let Some((name, value)) = super::variables::assignment(&line.words) else {
            self.migration.unknown(source, "sets no variable", "Write NAME = VALUE");
            return true;
        };
        match name.as_str() {
            "X509_CERT_DIR" => self.take_as("trust.ca_directories", vec![plain_path(&value)], source),
            "X509_VOMS_DIR" => self.take_as("x509.voms_directory", plain_path(&value), source),
            "X509_USER_PROXY" => self.keep(|facts| &mut facts.proxy_certificate, Named::new(&value, source)),
            "BEARER_TOKEN_FILE" => self.keep(|facts| &mut facts.token_file, Named::new(&value, source)),
            name if name.starts_with("XRD") => {
                self.migration
                    .not_needed(source, "it tunes XRootD's client, which is not used");
            }
            _ => {
                let words = "programs and plug-ins of XRootD read it, which are not used";
                self.migration.not_needed(source, words);
            }
        }
        true
    }
}
