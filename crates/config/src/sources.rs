//! The files of a configuration: the main file, and those of the directory beside it, which are
//! merged over it in the order of their names.
//!
//! A section that may be repeated is added to those before it. In any other section a key of a
//! later file replaces the same key of an earlier one.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeValue};

use crate::bounded::{CONFIGURATION_BYTES_MAX, read_text};
use crate::parse::{Faults, Mistake};
use crate::section::{DeTable, Fault, Section, Sections};

/// Most files in the directory beside the main file.
const FILES_MAX: usize = 256;
/// The name of a packaged configuration, whose directory is `conf.d`.
const PACKAGED: &str = "crossload";
/// How the names of configuration files end.
const ENDING: &str = ".toml";

/// The texts of a configuration.
#[derive(Clone, Debug)]
pub struct Sources {
    files: Vec<Source>,
    /// All texts, one behind the other with a line break after each. Offsets of mistakes count in
    /// it.
    text: String,
}

#[derive(Clone, Debug)]
struct Source {
    name: String,
    /// Where its text begins.
    begin: usize,
}

impl Sources {
    /// Reads the main file and those of its directory.
    ///
    /// # Errors
    /// The files that cannot be read.
    pub fn read(main: &Path) -> Result<Self, Faults> {
        let mut sources = Self {
            files: Vec::new(),
            text: String::new(),
        };
        for file in files(main)? {
            let left = CONFIGURATION_BYTES_MAX.saturating_sub(sources.text.len() as u64);
            let text = read_text(&file, left).map_err(|error| unreadable(&file, &error))?;
            sources.add(&file.display().to_string(), &text);
        }
        Ok(sources)
    }

    /// A text; `name` stands for its file in messages.
    pub fn of(name: &str, text: &str) -> Self {
        let mut sources = Self {
            files: Vec::new(),
            text: String::with_capacity(text.len() + 1),
        };
        sources.add(name, text);
        sources
    }

    fn add(&mut self, name: &str, text: &str) {
        self.files.push(Source {
            name: name.to_owned(),
            begin: self.text.len(),
        });
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// The names of the files, the main one first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.name.as_str())
    }

    /// The name of the main file.
    pub fn main(&self) -> &str {
        self.names().next().unwrap_or_default()
    }

    /// The file and the line, counted from one, at an offset.
    pub fn position(&self, offset: usize) -> (&str, usize) {
        let behind = self.files.partition_point(|file| file.begin <= offset);
        let Some(file) = self.files.get(behind.saturating_sub(1)) else {
            return ("", 1);
        };
        let before = &self.text[file.begin..offset.min(self.text.len())];
        (&file.name, before.matches('\n').count() + 1)
    }

    /// The line at an offset in words, with the file if that is not the main one.
    pub(crate) fn place(&self, offset: usize) -> String {
        let (name, line) = self.position(offset);
        let short = Path::new(name).file_name().unwrap_or_default();
        match name == self.main() {
            true => format!("line {line}"),
            false => format!("line {line} of {}", short.display()),
        }
    }

    /// Whether a file has this section.
    pub fn has_section(&self, name: &str) -> bool {
        (0..self.files.len()).any(|number| {
            let root = DeTable::parse(self.text_of(number));
            root.is_ok_and(|root| root.get_ref().contains_key(name))
        })
    }

    /// As [`Sources::merged`], for this configuration; `None` if a file is no TOML.
    pub fn merged_for<C: Sections>(&self) -> Option<DeTable<'_>> {
        self.merged(C::SECTIONS).ok()
    }

    /// The tables of all files, merged.
    pub(crate) fn merged(&self, sections: &[Section]) -> Result<DeTable<'_>, Vec<Fault>> {
        let mut root = DeTable::new();
        let mut faults = Vec::new();
        for (number, file) in self.files.iter().enumerate() {
            match DeTable::parse(self.text_of(number)) {
                Ok(table) => merge(&mut root, moved_table(table.into_inner(), file.begin), sections),
                Err(error) => {
                    let says = error.message().replace("; ", ", ");
                    faults.push(Fault {
                        offset: file.begin + error.span().map_or(0, |span| span.start),
                        key: String::new(),
                        words: format!("{says}; correct the line: it is no TOML (https://toml.io)"),
                    });
                }
            }
        }
        match faults.is_empty() {
            true => Ok(root),
            false => Err(faults),
        }
    }

    /// The text of a file, without the line break behind it.
    fn text_of(&self, number: usize) -> &str {
        let next = self.files.get(number + 1);
        let end = next.map_or(self.text.len(), |next| next.begin) - 1;
        &self.text[self.files[number].begin..end]
    }
}

/// The directory whose files are merged over this main file: `conf.d` beside `crossload.toml`,
/// `NAME.d` beside `NAME.toml`; `None` for other names.
pub fn directory_of(main: &Path) -> Option<PathBuf> {
    let name = main.file_name()?.to_str()?.strip_suffix(ENDING)?;
    let directory = match name {
        "" => return None,
        PACKAGED => "conf.d".to_owned(),
        name => format!("{name}.d"),
    };
    Some(main.with_file_name(directory))
}

/// The files of a configuration that exist now, the main one first.
///
/// # Errors
/// The directory cannot be read, or has too many files.
pub fn files(main: &Path) -> Result<Vec<PathBuf>, Faults> {
    let mut all = vec![main.to_owned()];
    let Some(directory) = directory_of(main) else {
        return Ok(all);
    };
    let listed = match std::fs::read_dir(&directory) {
        Ok(listed) => listed,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(all),
        Err(error) => return Err(unreadable(&directory, &error)),
    };
    let mut more = Vec::new();
    for entry in listed {
        let entry = entry.map_err(|error| unreadable(&directory, &error))?;
        // Hidden files are those that editors write beside the one that they change.
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        if bytes.ends_with(ENDING.as_bytes()) && !bytes.starts_with(b".") {
            more.push(usable(entry.path())?);
        }
        if more.len() > FILES_MAX {
            let words = format!("more than {FILES_MAX} configuration files are in it");
            return Err(unreadable(&directory, &std::io::Error::other(words)));
        }
    }
    more.sort();
    all.extend(more);
    Ok(all)
}

/// A file of the directory, unless it has no name for messages, or reading it would wait.
fn usable(file: PathBuf) -> Result<PathBuf, Faults> {
    let refused = |says, change| Err(Faults(vec![Mistake::unusable(&file, says, change)]));
    if file.to_str().is_none() {
        return refused("its name is no text in UTF-8", "rename it");
    }
    match file.metadata().map(|facts| facts.file_type()) {
        Ok(kind) if kind.is_fifo() || kind.is_socket() => {
            refused("it is a pipe or a socket, and no file", "move it out of this directory")
        }
        _ => Ok(file),
    }
}

fn unreadable(file: &Path, error: &std::io::Error) -> Faults {
    Faults(vec![Mistake::unreadable(file, error)])
}

/// The table with all offsets counted from further in front.
fn moved_table(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    if by == 0 {
        return table;
    }
    let entries = table.into_iter();
    entries
        .map(|(key, value)| {
            let value = moved(value, by, |value| moved_value(value, by));
            (moved(key, by, |key| key), value)
        })
        .collect()
}

fn moved_value(value: DeValue<'_>, by: usize) -> DeValue<'_> {
    match value {
        DeValue::Table(table) => DeValue::Table(moved_table(table, by)),
        DeValue::Array(list) => {
            let items = list.into_iter();
            DeValue::Array(
                items
                    .map(|item| moved(item, by, |item| moved_value(item, by)))
                    .collect(),
            )
        }
        other => other,
    }
}

fn moved<T>(spanned: Spanned<T>, by: usize, change: impl FnOnce(T) -> T) -> Spanned<T> {
    let span = spanned.span();
    Spanned::new(span.start + by..span.end + by, change(spanned.into_inner()))
}

/// Merges the sections of a later file over those of earlier ones. What is no section stays, to be
/// reported where it is.
fn merge<'a>(root: &mut DeTable<'a>, later: DeTable<'a>, sections: &[Section]) {
    for (name, value) in later {
        let word: &str = name.get_ref();
        let is_repeated = sections.iter().any(|section| section.repeated && section.name == word);
        let Some((first, before)) = root.remove_entry(word) else {
            root.insert(name, value);
            continue;
        };
        let (name, value) = match (are_tables(&before), are_tables(&value)) {
            (true, true) if is_repeated => (first, appended(before, value)),
            (true, true) => (first, overlaid(before, value)),
            (false, _) => (first, before),
            (true, false) => (name, value),
        };
        root.insert(name, value);
    }
}

/// Whether it is a table, or a list of tables only.
fn are_tables(value: &Spanned<DeValue<'_>>) -> bool {
    match value.get_ref() {
        DeValue::Table(_) => true,
        DeValue::Array(list) => !list.is_empty() && list.iter().all(|item| item.get_ref().is_table()),
        _ => false,
    }
}

/// All tables of both.
fn appended<'a>(before: Spanned<DeValue<'a>>, later: Spanned<DeValue<'a>>) -> Spanned<DeValue<'a>> {
    let span = before.span();
    let all: DeArray<'a> = items(before).into_iter().chain(items(later)).collect();
    Spanned::new(span, DeValue::Array(all))
}

fn items<'a>(value: Spanned<DeValue<'a>>) -> Vec<Spanned<DeValue<'a>>> {
    let span = value.span();
    match value.into_inner() {
        DeValue::Array(list) => list.into_iter().collect(),
        one => vec![Spanned::new(span, one)],
    }
}

/// The keys of both sections; those of the later one win. A list of tables is continued.
fn overlaid<'a>(before: Spanned<DeValue<'a>>, later: Spanned<DeValue<'a>>) -> Spanned<DeValue<'a>> {
    let (span, later_span) = (before.span(), later.span());
    match (before.into_inner(), later.into_inner()) {
        (DeValue::Table(mut table), DeValue::Table(keys)) => {
            for (key, value) in keys {
                let word: &str = key.get_ref();
                let value = match table.remove(word) {
                    Some(old) if is_list_of_tables(&old) && is_list_of_tables(&value) => appended(old, value),
                    _ => value,
                };
                table.insert(key, value);
            }
            Spanned::new(span, DeValue::Table(table))
        }
        // A list where one table is expected: the mistake is reported.
        (DeValue::Table(_), wrong) => Spanned::new(later_span, wrong),
        (wrong, _) => Spanned::new(span, wrong),
    }
}

fn is_list_of_tables(value: &Spanned<DeValue<'_>>) -> bool {
    value.get_ref().is_array() && are_tables(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configuration;

    /// A directory with these files. The first is the main one.
    fn written(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = directory.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let main = directory.path().join(files[0].0);
        (directory, main)
    }

    #[test]
    fn later_files_replace_keys_and_add_sections() {
        let (site, main) = written(&[
            (
                "crossload.toml",
                "[server]\nlisten = [\"127.0.0.1:1\"]\nname = \"https://a\"\n[[export]]\npath = \"/a\"\n\
                 directory = \"a\"\n[queue]\nhops = [{urls = [\"davs://a/hop\"]}]\n",
            ),
            (
                "conf.d/20-b.toml",
                "[server]\nlisten = [\"127.0.0.1:3\"]\n[export]\npath = \"/c\"\ndirectory = \"c\"\n",
            ),
            (
                "conf.d/10-a.toml",
                "[server]\nlisten = [\"127.0.0.1:2\"]\n[limits]\nattempts = 7\n[[export]]\npath = \"/b\"\n\
                 directory = \"b\"\n[[rule]]\nwho = \"authenticated\"\nmay = \"read\"\n[queue]\n\
                 hops = [{urls = [\"davs://b/hop\"]}]\n",
            ),
            ("conf.d/.30-c.toml", "nonsense"),
            ("conf.d/README", "nonsense"),
        ]);
        let (merged, sources) = Configuration::load_with_sources(&main, None).unwrap();
        assert_eq!(merged.server.listen, ["127.0.0.1:3".parse().unwrap()]);
        assert_eq!(merged.server.name.as_deref(), Some("https://a"));
        assert_eq!((merged.limits.attempts, merged.queue.hops.len()), (7, 2));
        let paths: Vec<&str> = merged.exports.iter().map(|export| export.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/b", "/c"]);
        // Beside the main file, wherever the key is.
        assert_eq!(merged.exports[1].directory, Some(site.path().join("b")));
        let place = merged.policy_rules()[0].place.clone();
        assert_eq!(place, "rule 1 (line 8 of 10-a.toml)");
        let names: Vec<&Path> = sources.names().map(Path::new).collect();
        let name = |name: &str| site.path().join(name);
        assert_eq!(
            names,
            [main.clone(), name("conf.d/10-a.toml"), name("conf.d/20-b.toml")]
        );
        assert_eq!(merged.read_from, names);
    }

    #[test]
    fn mistakes_are_in_the_file_that_has_them() {
        let (site, main) = written(&[
            ("site.toml", "[server]\nlisten = []\n"),
            ("site.d/a.toml", "\n[server]\n\nlistne = 1\n"),
            (
                "site.d/b.toml",
                "\n\n[limits]\nattempts = 0\n[[export]]\npath = \"/a\"\nquota = 3\n",
            ),
        ]);
        let faults = Configuration::load(&main).unwrap_err();
        let found: Vec<(PathBuf, Option<usize>, &str)> = faults
            .0
            .iter()
            .map(|fault| (PathBuf::from(&fault.file), fault.line, fault.key.as_str()))
            .collect();
        let name = |name: &str| site.path().join(name);
        for expected in [
            (main.clone(), Some(2), "server.listen"),
            (name("site.d/a.toml"), Some(4), "server.listne"),
            (name("site.d/b.toml"), Some(4), "limits.attempts"),
            (name("site.d/b.toml"), Some(7), "export.quota"),
        ] {
            assert!(found.contains(&expected), "{expected:?} of {found:?}");
        }
        // The later value is the one that is judged.
        std::fs::write(name("site.d/a.toml"), "[server]\nlisten = [\"127.0.0.1:1\"]\n").unwrap();
        std::fs::write(name("site.d/b.toml"), "x = = 1\n").unwrap();
        let faults = Configuration::load(&main).unwrap_err();
        let broken = &faults.0[0];
        assert_eq!((faults.0.len(), broken.line), (1, Some(1)), "{faults}");
        assert_eq!(Path::new(&broken.file), name("site.d/b.toml"));
        std::fs::remove_file(name("site.d/b.toml")).unwrap();
        assert!(Configuration::load(&main).is_ok());
        // What is no section is reported where it is.
        std::fs::write(name("site.d/b.toml"), "\nserver = 3\n").unwrap();
        let faults = Configuration::load(&main).unwrap_err();
        assert_eq!(Path::new(&faults.0[0].file), name("site.d/b.toml"), "{faults}");
    }

    #[test]
    fn the_directory_follows_from_the_name() {
        let of = |main: &str| directory_of(Path::new(main));
        assert_eq!(
            of("/etc/crossload/crossload.toml"),
            Some("/etc/crossload/conf.d".into())
        );
        assert_eq!(of("/etc/crossload/queue.toml"), Some("/etc/crossload/queue.d".into()));
        assert_eq!(of("crossload.toml"), Some("conf.d".into()));
        for main in ["/dev/stdin", "/etc/server.conf", ".toml", "/"] {
            assert_eq!(of(main), None, "{main}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_as_one_is_refused() {
        use std::os::unix::ffi::OsStrExt as _;
        let (site, main) = written(&[("a.toml", ""), ("a.d/b", "")]);
        let refused = || Configuration::load(&main).unwrap_err().to_string();
        let named = site.path().join("a.d").join(std::ffi::OsStr::from_bytes(b"\xff.toml"));
        std::fs::write(&named, "").unwrap();
        assert!(refused().contains("no text in UTF-8"), "{}", refused());
        std::fs::remove_file(&named).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(site.path().join("a.d/c.toml")).unwrap();
        assert!(refused().contains("it is a pipe or a socket"), "{}", refused());
        std::fs::remove_file(site.path().join("a.d/c.toml")).unwrap();
        // The usual way to switch a file off.
        std::os::unix::fs::symlink("/dev/null", site.path().join("a.d/c.toml")).unwrap();
        assert!(Configuration::load(&main).is_ok());
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_named() {
        let (site, main) = written(&[("a.toml", ""), ("a.d/b.toml/c", "")]);
        let faults = Configuration::load(&main).unwrap_err();
        assert_eq!(Path::new(&faults.0[0].file), site.path().join("a.d/b.toml"), "{faults}");
        for number in 0..=FILES_MAX {
            std::fs::write(site.path().join(format!("a.d/{number}.toml")), "").unwrap();
        }
        let faults = Configuration::load(&main).unwrap_err();
        assert_eq!(Path::new(&faults.0[0].file), site.path().join("a.d"), "{faults}");
    }
}
