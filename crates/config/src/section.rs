//! One declaration of a section yields its type, its parser with defaults, the known keys, the
//! manual, the effect of a reload on each key, and the files that it names.

use std::path::{Path, PathBuf};

pub use toml::de::DeTable;
use toml::de::DeValue;

pub use crate::purpose::Purpose;
use crate::values::Setting;

/// When a changed value takes effect in a running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// With the reload, also for open connections.
    Live,
    /// For connections that begin after the reload, through a new door.
    NewDoor,
    /// At the next start. Until then the old value applies.
    Restart,
}

impl Reload {
    /// The text in the manual.
    pub fn label(self) -> &'static str {
        match self {
            Self::Live => "at once",
            Self::NewDoor => "new connections",
            Self::Restart => "restart",
        }
    }
}

/// What a key declares besides its value.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// When a change takes effect.
    pub reload: Reload,
    /// For a key that names files: their purpose, and what to call them in messages.
    pub file: Option<(Purpose, &'static str)>,
}

/// A key that takes effect with the reload.
pub const LIVE: Facts = Facts::new(Reload::Live);
/// A key that takes effect for new connections.
pub const NEW_DOOR: Facts = Facts::new(Reload::NewDoor);
/// A key that takes effect at the next start.
pub const RESTART: Facts = Facts::new(Reload::Restart);

impl Facts {
    const fn new(reload: Reload) -> Self {
        Self { reload, file: None }
    }

    /// Declares that the value names one or more files.
    pub const fn file(self, purpose: Purpose, what: &'static str) -> Self {
        Self {
            file: Some((purpose, what)),
            ..self
        }
    }
}

/// A key of the configuration file.
#[derive(Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it does, in full sentences.
    pub about: &'static str,
    /// The kind of value.
    pub kind: &'static str,
    /// The default as TOML; `None` when it has none.
    pub default: fn() -> Option<String>,
    /// Whether it must be given.
    pub required: bool,
    /// How it reloads, and whether it names a file.
    pub facts: Facts,
}

/// A section of the configuration file.
#[derive(Clone, Copy)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// What it is about, in full sentences.
    pub about: &'static str,
    /// Whether there may be several, written `[[name]]`.
    pub repeated: bool,
    /// Its keys.
    pub keys: &'static [Key],
}

impl Section {
    /// What is wrong with a table of this name in the section, if keys of the section begin so.
    pub(crate) fn keys_of(&self, name: &str) -> Option<String> {
        let begins = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
        let names = || self.keys.iter().map(|key| key.name);
        let keys: Vec<&str> = names().filter(|key| *key == name || begins(key)).collect();
        let words = || format!("is no section; write into {}: {}", self.written(), keys.join(", "));
        names().any(begins).then(words)
    }

    /// Its head in the file.
    pub(crate) fn written(&self) -> String {
        match self.repeated {
            true => format!("[[{}]]", self.name),
            false => format!("[{}]", self.name),
        }
    }
}

/// Whether a value is written as a section, or as several.
pub(crate) fn is_section(value: &DeValue<'_>) -> bool {
    let mut items = value.as_array().into_iter().flat_map(|list| list.iter());
    value.is_table() || items.any(|item| item.get_ref().is_table())
}

/// A key in its section.
#[derive(Clone, Copy)]
pub struct KeyPath {
    /// The name of the section.
    pub section: &'static str,
    /// Which of the repeated sections.
    pub index: usize,
    /// The key.
    pub key: &'static Key,
}

impl KeyPath {
    /// `section.key`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.section, self.key.name)
    }
}

/// A file or directory that the configuration names.
#[derive(Clone)]
pub struct NamedFile {
    /// Its path.
    pub path: PathBuf,
    /// What it is for.
    pub purpose: Purpose,
    /// What to call it in messages.
    pub what: &'static str,
    /// The key that names it.
    pub place: KeyPath,
}

/// A mistake, and where it is in the file.
pub struct Fault {
    /// The byte offset in the texts of all files ([`crate::Sources`]).
    pub offset: usize,
    /// The key with its section, `section.key`; the section alone, or nothing, for mistakes in no
    /// key.
    pub key: String,
    /// What is wrong, and after a semicolon what to do.
    pub words: String,
}

/// A mistake that involves several keys.
pub(crate) struct Conflict {
    /// The name of the section that has it.
    pub section: &'static str,
    /// Which of the repeated sections.
    pub index: usize,
    /// As [`Fault::words`]. They begin with the key to look at, `key: `.
    pub words: String,
}

impl Conflict {
    /// Those of a section that is not repeated, or of the first one.
    pub(crate) fn of<V: Values>(words: impl IntoIterator<Item = String>) -> impl Iterator<Item = Self> {
        words.into_iter().map(|words| Self {
            section: V::SECTION.name,
            index: 0,
            words,
        })
    }

    /// Where it is: at the key if that is written, else at the section.
    pub(crate) fn locate(self, root: &DeTable<'_>) -> Fault {
        let key = self.words.split(": ").next().unwrap_or_default();
        let (table, section) = match tables(root, self.section).get(self.index) {
            Some((table, offset)) => (Some(*table), *offset),
            None => (None, root.get(self.section).map_or(0, |value| value.span().start)),
        };
        let written = table.and_then(|table| table.get_key_value(key));
        Fault {
            offset: written.map_or(section, |(key, _)| key.span().start),
            key: format!("{}.{key}", self.section),
            words: self.words,
        }
    }
}

/// A section while it is read.
pub struct Reader<'a> {
    /// Its table.
    pub table: &'a DeTable<'a>,
    /// The section.
    pub section: Section,
    /// Where the section begins; missing keys are reported there.
    pub offset: usize,
    /// The directory that relative file names start from.
    pub base: &'a Path,
    /// Collects the mistakes.
    pub faults: &'a mut Vec<Fault>,
}

impl Reader<'_> {
    /// The value of a key, or its default. After a mistake the default is used.
    pub fn value<T: Setting>(&mut self, name: &str, default: Option<T>) -> Option<T> {
        let key = format!("{}.{name}", self.section.name);
        match self.table.get(name) {
            None => {
                if default.is_none() {
                    let words = format!("the key \"{name}\" is missing in this section");
                    self.faults.push(Fault {
                        offset: self.offset,
                        key,
                        words,
                    });
                }
                default
            }
            Some(value) => match T::read(value.get_ref(), self.base) {
                Ok(value) => Some(value),
                Err(words) => {
                    let offset = value.span().start;
                    let as_section = is_section(value.get_ref()).then(|| self.section.keys_of(name));
                    let words = as_section.flatten().unwrap_or(words);
                    let words = format!("{name}: {words}");
                    self.faults.push(Fault { offset, key, words });
                    default
                }
            },
        }
    }
}

/// The values of a section; [`section!`] implements it.
pub trait Values: Sized {
    /// The declaration, from which manual and checks are made.
    const SECTION: Section;

    /// Reads the section. `None` when a required key is missing, which is then among the faults.
    fn read(reader: &mut Reader<'_>) -> Option<Self>;

    /// For each key, in order: whether its value differs from `old`.
    fn differs(&self, old: &Self) -> Vec<bool>;

    /// Takes the values of all keys from `old` that only a restart can change.
    fn keep_fixed(&mut self, old: &Self);

    /// For each key, in order: the files that its value names.
    fn paths(&self) -> Vec<Vec<&Path>>;

    /// For each key, in order: its value as TOML; `None` if it is not set.
    fn written(&self) -> Vec<Option<String>>;
}

/// Part of a configuration: the values of one section, or of all sections with that name.
pub trait Part: Sized {
    /// The values of one section.
    type Of: Values;

    /// Reads it from the tables with that name, each with its byte offset in the file.
    fn read(tables: &[(&DeTable<'_>, usize)], base: &Path, faults: &mut Vec<Fault>) -> Option<Self>;

    /// The keys whose value differs from `old`. If sections were added or removed, all of their
    /// keys.
    fn changed(&self, old: &Self) -> Vec<KeyPath>;

    /// As [`Values::keep_fixed`].
    fn keep_fixed(&mut self, old: &Self);

    /// The files that it names.
    fn files(&self) -> Vec<NamedFile>;

    /// All keys with their values, as [`Values::written`].
    fn written(&self) -> Vec<(KeyPath, Option<String>)>;
}

/// A configuration; [`sections!`] implements it.
pub trait Sections: Sized {
    /// Its sections, in the order of the manual.
    const SECTIONS: &'static [Section];

    /// Reads all sections. `None` when a required key is missing, which is then among the faults.
    fn read(root: &DeTable<'_>, base: &Path, faults: &mut Vec<Fault>) -> Option<Self>;

    /// The keys whose value differs from `old`.
    fn changed(&self, old: &Self) -> Vec<KeyPath>;

    /// Takes the values of all keys from `old` that only a restart can change.
    fn keep_fixed(&mut self, old: &Self);

    /// All files that it names.
    fn files(&self) -> Vec<NamedFile>;

    /// All keys with their values as TOML, in the order of the manual; `None`: not set.
    fn written(&self) -> Vec<(KeyPath, Option<String>)>;
}

/// The keys of a section.
pub fn places<T: Values>(index: usize) -> impl Iterator<Item = KeyPath> {
    let section = T::SECTION.name;
    T::SECTION.keys.iter().map(move |key| KeyPath { section, index, key })
}

/// [`Part::changed`] for one section.
pub fn changed<T: Values>(index: usize, fresh: &T, old: &T) -> Vec<KeyPath> {
    let differs = fresh.differs(old);
    let all = places::<T>(index).zip(differs);
    all.filter(|(_, differs)| *differs).map(|(place, _)| place).collect()
}

/// [`Part::files`] for one section.
pub fn files<T: Values>(index: usize, values: &T) -> Vec<NamedFile> {
    let mut files = Vec::new();
    for (place, paths) in places::<T>(index).zip(values.paths()) {
        let Some((purpose, what)) = place.key.facts.file else {
            continue;
        };
        files.extend(paths.into_iter().map(|path| NamedFile {
            path: path.to_owned(),
            purpose,
            what,
            place,
        }));
    }
    files
}

/// [`Part::written`] for one section.
pub fn written<T: Values>(index: usize, values: &T) -> Vec<(KeyPath, Option<String>)> {
    places::<T>(index).zip(values.written()).collect()
}

impl<T: Values> Part for Vec<T> {
    type Of = T;

    /// A table that lacks a key is skipped; the missing key is already reported.
    fn read(tables: &[(&DeTable<'_>, usize)], base: &Path, faults: &mut Vec<Fault>) -> Option<Self> {
        let mut all = Self::new();
        for (table, offset) in tables {
            let mut reader = Reader {
                table,
                section: T::SECTION,
                offset: *offset,
                base,
                faults,
            };
            all.extend(T::read(&mut reader));
        }
        Some(all)
    }

    fn changed(&self, old: &Self) -> Vec<KeyPath> {
        let both = self.iter().zip(old).enumerate();
        let mut places: Vec<KeyPath> = both
            .flat_map(|(index, (fresh, old))| changed(index, fresh, old))
            .collect();
        for index in self.len().min(old.len())..self.len().max(old.len()) {
            places.extend(self::places::<T>(index));
        }
        places
    }

    /// Keys of repeated sections never need a restart: [`section!`] enforces that.
    fn keep_fixed(&mut self, _old: &Self) {}

    fn files(&self) -> Vec<NamedFile> {
        let all = self.iter().enumerate();
        all.flat_map(|(index, values)| files(index, values)).collect()
    }

    fn written(&self) -> Vec<(KeyPath, Option<String>)> {
        let all = self.iter().enumerate();
        all.flat_map(|(index, values)| written(index, values)).collect()
    }
}

/// Declares a section: `key: Type = Some(default) => LIVE;`, or `= None` for a required key. After
/// the arrow comes how it reloads (`LIVE`, `NEW_DOOR`, `RESTART`), and for a key that names files
/// their purpose: `LIVE.file(Secret, "the key")`.
#[macro_export]
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:literal $repeated:literal $type:ident {
            $( $(#[doc = $key_about:literal])+ $key:ident : $value:ty = $default:expr => $facts:expr; )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $type {
            $( $(#[doc = $key_about])+ pub $key: $value, )+
        }

        const _: () = {
            use $crate::section::{
                Fault, Key, NamedFile, Part, KeyPath, Reader, Reload, Section, Values, changed, files, is_none_token, written,
            };
            use $crate::values::Setting;

            $( assert!(
                <$value as Setting>::NAMES_FILES == $facts.file.is_some(),
                concat!(stringify!($key), ": a key declares a purpose if and only if it names files")
            ); )+
            $( assert!(
                !($repeated && matches!($facts.reload, Reload::Restart)),
                concat!(stringify!($key), ": a key of a repeated section cannot need a restart")
            ); )+

            impl Values for $type {
                const SECTION: Section = Section {
                    name: $name,
                    about: concat!($($about, "\n"),+),
                    repeated: $repeated,
                    keys: &[$( Key {
                        name: stringify!($key),
                        about: concat!($($key_about, "\n"),+),
                        kind: <$value as Setting>::KIND,
                        default: || {
                            let default: Option<$value> = $default;
                            default.and_then(|value| Setting::write(&value))
                        },
                        required: is_none_token(stringify!($default)),
                        facts: $facts,
                    } ),+],
                };

                fn read(reader: &mut Reader<'_>) -> Option<Self> {
                    // Read all keys before a missing one ends this, so that all mistakes are
                    // reported at once.
                    $( let $key: Option<$value> = reader.value(stringify!($key), $default); )+
                    Some(Self { $( $key: $key? ),+ })
                }

                fn differs(&self, old: &Self) -> Vec<bool> {
                    vec![$( self.$key != old.$key ),+]
                }

                fn keep_fixed(&mut self, old: &Self) {
                    $( if matches!($facts.reload, Reload::Restart) {
                        self.$key.clone_from(&old.$key);
                    } )+
                }

                fn paths(&self) -> Vec<Vec<&std::path::Path>> {
                    vec![$( Setting::paths(&self.$key) ),+]
                }

                fn written(&self) -> Vec<Option<String>> {
                    vec![$( Setting::write(&self.$key) ),+]
                }
            }

            impl Part for $type {
                type Of = Self;

                fn read(
                    tables: &[(&$crate::section::DeTable<'_>, usize)],
                    base: &std::path::Path,
                    faults: &mut Vec<Fault>,
                ) -> Option<Self> {
                    let empty = $crate::section::DeTable::new();
                    let (table, offset) = tables.first().copied().unwrap_or((&empty, 0));
                    let section = Self::SECTION;
                    Values::read(&mut Reader { table, section, offset, base, faults })
                }

                fn changed(&self, old: &Self) -> Vec<KeyPath> {
                    changed(0, self, old)
                }

                fn keep_fixed(&mut self, old: &Self) {
                    Values::keep_fixed(self, old);
                }

                fn files(&self) -> Vec<NamedFile> {
                    files(0, self)
                }

                fn written(&self) -> Vec<(KeyPath, Option<String>)> {
                    written(0, self)
                }
            }
        };
    };
}

/// Whether the default was written as `None`.
pub const fn is_none_token(text: &str) -> bool {
    matches!(text.as_bytes(), b"None")
}

/// Declares a configuration: its sections, each as its values, or as a list of them if the section
/// may be repeated; and further fields, which begin empty.
#[macro_export]
macro_rules! sections {
    (
        $(#[doc = $about:literal])+
        $type:ident {
            $( $section:ident : $values:ty; )+
        }
        beside {
            $( $(#[doc = $beside_about:literal])+ $beside:ident : $other:ty; )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $type {
            $( #[doc = concat!("The values of `", stringify!($values), "`.")] pub $section: $values, )+
            $( $(#[doc = $beside_about])+ pub $beside: $other, )*
        }

        const _: () = {
            use $crate::section::{DeTable, Fault, NamedFile, Part, KeyPath, Section, Sections, Values, tables};

            impl Sections for $type {
                const SECTIONS: &'static [Section] = &[$( <<$values as Part>::Of as Values>::SECTION ),+];

                fn read(root: &DeTable<'_>, base: &std::path::Path, faults: &mut Vec<Fault>) -> Option<Self> {
                    $( let $section = <$values as Part>::read(
                        &tables(root, <<$values as Part>::Of as Values>::SECTION.name), base, faults,
                    ); )+
                    Some(Self { $( $section: $section?, )+ $( $beside: Default::default(), )* })
                }

                fn changed(&self, old: &Self) -> Vec<KeyPath> {
                    let mut all = Vec::new();
                    $( all.extend(Part::changed(&self.$section, &old.$section)); )+
                    all
                }

                fn keep_fixed(&mut self, old: &Self) {
                    $( Part::keep_fixed(&mut self.$section, &old.$section); )+
                }

                fn files(&self) -> Vec<NamedFile> {
                    let mut all = Vec::new();
                    $( all.extend(Part::files(&self.$section)); )+
                    all
                }

                fn written(&self) -> Vec<(KeyPath, Option<String>)> {
                    let mut all = Vec::new();
                    $( all.extend(Part::written(&self.$section)); )+
                    all
                }
            }
        };
    };
}

/// The tables of a section, each with its byte offset; a single table counts as a list of one.
pub fn tables<'a>(root: &'a DeTable<'a>, name: &str) -> Vec<(&'a DeTable<'a>, usize)> {
    let Some(value) = root.get(name) else {
        return Vec::new();
    };
    match value.get_ref() {
        DeValue::Array(list) => list
            .iter()
            .filter_map(|item| Some((item.get_ref().as_table()?, item.span().start)))
            .collect(),
        DeValue::Table(table) => vec![(table, value.span().start)],
        _ => Vec::new(),
    }
}
