//! The file of endpoints, in TOML: which endpoints there are, what each can do, and with which
//! credentials it is asked. It has names of files, and no secrets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::section::{DeTable, Fault, LIVE, Purpose, tables};
use config::{Bytes, Faults, Remote, Sources, parse, read_text, section, sections};
use history::{Downtime, Mode};
use jiff::Timestamp;
use reports::mail::is_address;
use types::Location;

use super::calendar;
use super::endpoint::{Protocol, Role};
use crate::limits::{CALENDAR_BYTES_MAX, ENDPOINTS_MAX, PARALLEL_MAX};

section! {
    /// The mesh as a whole.
    "mesh" false MeshSection {
        /// Its title. Runs with the same title are compared with each other.
        title: String = None => LIVE;
        /// Size of the files that are copied.
        size: Bytes = Some(Bytes(1 << 20)) => LIVE;
        /// Copies under way at the same time.
        parallel: u32 = Some(16) => LIVE;
        /// Copies under way at the same time with one endpoint, as source or destination.
        parallel_each: u32 = Some(2) => LIVE;
        /// Time limit of a copy.
        copy_timeout: Duration = Some(Duration::from_secs(600)) => LIVE;
        /// Time limit of the upload of a file to be copied.
        upload_timeout: Duration = Some(Duration::from_secs(180)) => LIVE;
        /// Time limit of a request that moves no data.
        request_timeout: Duration = Some(Duration::from_secs(30)) => LIVE;
        /// Protocols: `http`, `root`, `s3`. Default: all that the endpoints have.
        protocols: Vec<String> = Some(Vec::new()) => LIVE;
        /// Ways to copy: `pull`, `push`, `rendezvous`, `lite`, `streamed`. Default: all.
        modes: Vec<String> = Some(Vec::new()) => LIVE;
        /// Copy between HTTP and the XRootD protocol too.
        mixed: bool = Some(false) => LIVE;
    }
}

section! {
    /// An endpoint.
    "endpoint" true EndpointSection {
        /// Its name: letters, digits, `-`, `_` and `.`, beginning with a letter or digit.
        name: String = None => LIVE;
        /// Directories that may be written, one for each protocol: URLs, or `NAME:PATH` in a named
        /// remote, whose credentials count then.
        urls: Vec<String> = None => LIVE;
        /// What it can be in a copy: `source`, `destination`; in one that servers make, `active`
        /// (it fetches or sends) and `passive`.
        roles: Vec<String> = Some(["source", "destination", "active", "passive"].map(str::to_owned).to_vec()) => LIVE;
        /// Ways to copy that it takes part in. Default: all.
        modes: Vec<String> = Some(Vec::new()) => LIVE;
        /// It reports checksums. If not, they are not asked for.
        checksums: bool = Some(true) => LIVE;
        /// File with the token.
        token_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the token");
        /// Proxy certificate in PEM.
        proxy: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Certificate, "the proxy");
        /// Certificate in PEM; its key is in the same file or in that of `key`.
        cert: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Certificate, "the certificate");
        /// Private key of `cert`.
        key: Option<PathBuf> = Some(None) => LIVE.file(Purpose::PrivateKey, "the private key");
        /// It is open to clients without a credential. Without this and any of the files above, the
        /// usual credentials of the command count.
        anonymous: bool = Some(false) => LIVE;
        /// Free words to select by.
        tags: Vec<String> = Some(Vec::new()) => LIVE;
        /// Mail addresses of those who care for it.
        administrators: Vec<String> = Some(Vec::new()) => LIVE;
        /// Calendar (iCalendar) with its downtimes.
        calendar: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Rights, "the calendar");
    }
}

section! {
    /// A time in which an endpoint is out of service.
    "downtime" true DowntimeSection {
        /// The name of the endpoint.
        endpoint: String = None => LIVE;
        /// Begin, such as `2026-12-01T08:00:00Z`.
        from: String = None => LIVE;
        /// End, which is not part of it.
        until: String = None => LIVE;
        /// What is done then.
        reason: String = Some(String::new()) => LIVE;
    }
}

sections! {
    /// The file of endpoints.
    EndpointFile {
        mesh: MeshSection;
        endpoints: Vec<EndpointSection>;
        downtimes: Vec<DowntimeSection>;
    }
    beside {
        /// The downtimes of each endpoint, in the order of the endpoints.
        announced: Vec<Vec<Downtime>>;
        /// The line with the URLs of each endpoint, for mistakes that only the client finds.
        url_lines: Vec<usize>;
    }
}

impl EndpointFile {
    /// Reads a text, and the calendars that it names; `file` stands for it in messages, and
    /// relative file names in it start from its directory.
    ///
    /// # Errors
    /// Every mistake with its line.
    pub fn parse(text: &str, file: &Path) -> Result<Self, Faults> {
        let base = file.parent().unwrap_or(file);
        parse(text, base, &file.display().to_string(), Self::check)
    }

    /// A commented example.
    #[must_use]
    pub fn example() -> &'static str {
        include_str!("example.toml")
    }

    fn check(&mut self, root: &DeTable<'_>, sources: &Sources, faults: &mut Vec<Fault>) {
        let table = |(table, offset)| Table { table, offset };
        let mesh = tables(root, "mesh").first().copied().map(table);
        note(faults, mesh, self.mesh.faults());
        note(faults, mesh, empty(mesh, &["protocols", "modes"]));
        let places: Vec<Table<'_>> = tables(root, "endpoint").into_iter().map(table).collect();
        for (index, (endpoint, table)) in self.endpoints.iter().zip(&places).enumerate() {
            let urls = table.table.get("urls");
            let begin = urls.map_or(table.offset, |urls| urls.span().start);
            self.url_lines.push(sources.position(begin).1);
            let mut found = endpoint.faults();
            found.extend(empty(Some(*table), &["roles", "modes"]));
            if self.endpoints[..index].iter().any(|other| other.name == endpoint.name) {
                found.push(("name", format!("an endpoint \"{}\" exists already", endpoint.name)));
            }
            match endpoint.calendar.as_deref().map(calendar_in).transpose() {
                Ok(announced) => self.announced.push(announced.unwrap_or_default()),
                Err(words) => found.push(("calendar", words)),
            }
            note(faults, Some(*table), found);
        }
        if self.endpoints.len() > ENDPOINTS_MAX {
            let words = format!("more than {ENDPOINTS_MAX} endpoints");
            note(faults, places.get(ENDPOINTS_MAX).copied(), vec![("name", words)]);
        }
        let places = tables(root, "downtime").into_iter().map(table);
        for (downtime, table) in self.downtimes.iter().zip(places) {
            let index = self.endpoints.iter().position(|one| one.name == downtime.endpoint);
            match (downtime.read(), index) {
                (Ok(read), Some(index)) => {
                    if let Some(announced) = self.announced.get_mut(index) {
                        announced.push(read);
                    }
                }
                (Err(fault), _) => note(faults, Some(table), vec![fault]),
                (_, None) => {
                    let words = format!("there is no endpoint \"{}\"", downtime.endpoint);
                    note(faults, Some(table), vec![("endpoint", words)]);
                }
            }
        }
    }
}

/// A section in the file, and where it begins.
#[derive(Clone, Copy)]
struct Table<'a> {
    table: &'a DeTable<'a>,
    offset: usize,
}

/// Notes mistakes at their keys in a section.
fn note(faults: &mut Vec<Fault>, table: Option<Table<'_>>, found: Vec<(&'static str, String)>) {
    let Some(Table { table, offset }) = table else { return };
    for (key, words) in found {
        let offset = table.get(key).map_or(offset, |value| value.span().start);
        let words = format!("{key}: {words}");
        faults.push(Fault {
            offset,
            key: key.to_owned(),
            words,
        });
    }
}

/// The lists among these keys that are there and empty. They would mean all as well as nothing.
fn empty(table: Option<Table<'_>>, keys: &[&'static str]) -> Vec<(&'static str, String)> {
    let is_empty = |key: &&&'static str| {
        let value = table.and_then(|table| table.table.get(**key));
        value
            .and_then(|value| value.get_ref().as_array())
            .is_some_and(|list| list.is_empty())
    };
    let words = "an empty list; leave it out for all";
    keys.iter()
        .filter(is_empty)
        .map(|key| (*key, words.to_owned()))
        .collect()
}

fn calendar_in(file: &Path) -> Result<Vec<Downtime>, String> {
    let text = read_text(file, CALENDAR_BYTES_MAX).map_err(|cause| format!("{}: {cause}", file.display()))?;
    calendar::read(&text).map_err(|words| format!("{}: {words}", file.display()))
}

impl MeshSection {
    fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if self.title.trim().is_empty() {
            faults.push(("title", "it is empty".to_owned()));
        }
        for (key, count) in [("parallel", self.parallel), ("parallel_each", self.parallel_each)] {
            if !(1..=PARALLEL_MAX).contains(&count) {
                faults.push((key, format!("not 1 to {PARALLEL_MAX}")));
            }
        }
        for (key, time) in [
            ("copy_timeout", self.copy_timeout),
            ("upload_timeout", self.upload_timeout),
            ("request_timeout", self.request_timeout),
        ] {
            if time.is_zero() {
                faults.push((key, "a time limit of 0 leaves no time".to_owned()));
            }
        }
        faults.extend(self.protocols.iter().filter_map(|word| {
            let words = Protocol::from_name(word).err()?;
            Some(("protocols", words))
        }));
        faults.extend(self.modes.iter().filter_map(|word| Some(("modes", mode(word).err()?))));
        faults
    }
}

impl EndpointSection {
    fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if !Remote::is_name(&self.name) {
            let words = "letters, digits, \"-\", \"_\" and \".\", beginning with a letter or digit";
            faults.push(("name", words.to_owned()));
        }
        if self.urls.is_empty() {
            faults.push(("urls", "give at least one".to_owned()));
        }
        let urls = self.urls.iter().filter(|text| text.contains("://"));
        faults.extend(urls.filter_map(|text| Some(("urls", url_fault(text)?))));
        faults.extend(self.roles.iter().filter_map(|word| {
            let words = Role::from_name(word).err()?;
            Some(("roles", words))
        }));
        faults.extend(self.modes.iter().filter_map(|word| Some(("modes", mode(word).err()?))));
        if self.proxy.is_some() && self.cert.is_some() {
            faults.push(("proxy", "give proxy or cert".to_owned()));
        }
        if self.key.is_some() && self.cert.is_none() {
            faults.push(("key", "belongs to cert, which is missing".to_owned()));
        }
        let wrong = self.administrators.iter().find(|address| !is_address(address));
        faults.extend(wrong.map(|address| ("administrators", format!("{address:?} is no mail address"))));
        faults
    }

    /// Whether it says how it is asked.
    #[must_use]
    pub fn has_credential(&self) -> bool {
        let files = [&self.token_file, &self.proxy, &self.cert];
        self.anonymous || files.iter().any(|file| file.is_some())
    }
}

/// Why a URL is not one of a directory on a server.
fn url_fault(text: &str) -> Option<String> {
    match Location::parse(text) {
        // The text may hold a secret in the wrong place.
        Err(error) => Some(error.detail().unwrap_or("an invalid URL").to_owned()),
        Ok(place) if text.contains('#') && !place.is_xrootd() => {
            Some("no fragment; write # in a name as %23".to_owned())
        }
        Ok(place) => directory_fault(&place).map(str::to_owned),
    }
}

/// Why a place is not a directory on a server.
#[must_use]
pub fn directory_fault(place: &Location) -> Option<&'static str> {
    let decoded = place.path().replace("%2e", ".").replace("%2E", ".");
    match () {
        () if !place.is_remote() => Some("not a directory on a server"),
        () if place.query().is_some() => Some("no query; a token belongs in token_file"),
        // Servers do not agree on what it leads to.
        () if decoded.split('/').any(|name| matches!(name, "." | "..")) => Some("no \".\" or \"..\" in the path"),
        () => None,
    }
}

impl DowntimeSection {
    fn read(&self) -> Result<Downtime, (&'static str, String)> {
        let from_ms = instant(&self.from).map_err(|words| ("from", words))?;
        let until_ms = instant(&self.until).map_err(|words| ("until", words))?;
        if until_ms < from_ms {
            return Err(("until", "it is before the begin".to_owned()));
        }
        Ok(Downtime {
            from_ms,
            until_ms,
            reason: self.reason.clone(),
        })
    }
}

fn instant(text: &str) -> Result<u64, String> {
    let read = text.parse::<Timestamp>().ok();
    let since_1970 = read.and_then(|time| u64::try_from(time.as_millisecond()).ok());
    since_1970.ok_or_else(|| format!("{text:?} is not a time such as \"2026-12-01T08:00:00Z\""))
}

/// A way to copy, by its word.
///
/// # Errors
/// The words that there are.
pub fn mode(word: &str) -> Result<Mode, String> {
    let mut modes = Mode::ALL.into_iter().filter(|mode| *mode != Mode::Probe);
    let found = modes.find(|mode| mode.name() == word);
    found.ok_or_else(|| format!("\"{word}\" is not one of pull, push, rendezvous, lite, streamed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<EndpointFile, String> {
        EndpointFile::parse(text, Path::new("/settings/mesh.toml")).map_err(|faults| faults.to_string())
    }

    #[test]
    fn the_example_is_a_file_of_endpoints() {
        let read = read(EndpointFile::example()).unwrap();
        assert_eq!(read.endpoints.len(), 2);
        assert_eq!(read.announced[1].len(), 1);
        assert_eq!(read.announced[1][0].reason, "new disks");
    }

    #[test]
    fn a_mistake_is_named_with_its_line_and_key_and_without_secrets() {
        let endpoint = "[mesh]\ntitle = \"t\"\n[[endpoint]]\nname = \"A\"\nurls = [\"https://a/x\"]\n";
        read(endpoint).unwrap();
        for (lines, words) in [
            (
                "toke_file = \"t\"",
                ":6: unknown key \"toke_file\" in [endpoint]; did you mean \"token_file\"?",
            ),
            ("roles = [\"boss\"]", ":6: roles: \"boss\" is not one of"),
            ("roles = []", ":6: roles: an empty list; leave it out for all"),
            ("modes = [\n]", ":6: modes: an empty list; leave it out for all"),
            ("modes = [\"pull\", \"probe\"]", ":6: modes: \"probe\" is not one of"),
            ("administrators = [\"me\"]", ":6: administrators: \"me\" is no mail"),
            (
                "administrators = [\"a@b\", \"a@b, c@d\"]",
                ":6: administrators: \"a@b, c@d\" is no mail",
            ),
            (
                "administrators = [\"x@y\\r\\nBcc: e@x\"]",
                ":6: administrators: \"x@y\\r\\nBcc: e@x\" is no mail",
            ),
            ("key = \"k\"", ":6: key: belongs to cert"),
            ("calendar = \"none.ics\"", ":6: calendar: /settings/none.ics: "),
            (
                "[[endpoint]]\nname = \"A\"\nurls = [\"s3s://b/c\"]",
                ":7: name: an endpoint \"A\"",
            ),
            ("[[endpoint]]\nname = \"B\"\nurls = []", ":8: urls: give at least one"),
            (
                "[[endpoint]]\nname = \"B\"\nurls = [\"https://b?authz=secret\"]",
                ":8: urls: no query",
            ),
            (
                "[[endpoint]]\nname = \"B\"\nurls = [\"https://b/x\", \"http://b/secret#f\"]",
                ":8: urls: no fragment",
            ),
            (
                "[[endpoint]]\nname = \"B\"\nurls = [\"http://b/secret/../y\"]",
                ":8: urls: no \".\" or \"..\" in the path",
            ),
            (
                "[[endpoint]]\nname = \"B\"\nurls = [\"root://b//%2e%2E\"]",
                ":8: urls: no \".\" or \"..\" in the path",
            ),
            (
                "[[endpoint]]\nname = \"B\"\nurls = [\"file:///secret\"]",
                ":8: urls: not a directory on a server",
            ),
            (
                "[[downtime]]\nendpoint = \"B\"\nfrom = \"2026-12-01T08:00:00Z\"\nuntil = \"2026-12-01T08:00:00Z\"",
                ":7: endpoint: there is no",
            ),
            (
                "[[downtime]]\nendpoint = \"A\"\nfrom = \"soon\"\nuntil = \"2026-12-01T08:00:00Z\"",
                ":8: from: \"soon\" is not",
            ),
        ] {
            let told = read(&format!("{endpoint}{lines}\n")).unwrap_err();
            assert!(
                told.starts_with(&format!("/settings/mesh.toml{words}")),
                "{lines}: {told}"
            );
            assert!(!told.contains("secret"), "{told}");
        }
        let told = read("[mesh]\nparallel = 0\ntitle = \"t\"\n").unwrap_err();
        assert!(told.contains(":2: parallel: not 1 to"), "{told}");
        let told = read("[mesh]\ntitle = \"t\"\ncopy_timeout = \"0s\"\n").unwrap_err();
        assert!(told.contains(":3: copy_timeout: a time limit of 0"), "{told}");
    }
}
