//! One table, many uses: from the description of a section come its type, the reader with its defaults, the known
//! keys, the manual, what a reload does with each key, and the files that it names.

use std::path::{Path, PathBuf};

pub use toml::de::DeTable;
use toml::de::DeValue;

use crate::values::Setting;

/// When a changed value takes effect in a server that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// With the reload, for connections that are open too.
    Live,
    /// For connections that begin after the reload; a new door takes them.
    NewDoor,
    /// With the next start. Until then the old value holds.
    Restart,
}

impl Reload {
    /// As the manual shows it.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Live => "at once",
            Self::NewDoor => "new connections",
            Self::Restart => "restart",
        }
    }
}

/// What a file is for, which decides how it is guarded, examined and followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// What clients are served.
    Payload,
    /// What the server writes for itself: no client may read it.
    Private,
    /// A private key in PEM.
    PrivateKey,
    /// A secret of macaroons, which the server makes when it is missing.
    Secret,
    /// A key that seals, which the server makes when it is missing.
    SealingKey,
    /// A secret from elsewhere, which must be there.
    OldSecret,
    /// The server's certificate.
    Certificate,
    /// It says who may do what.
    Rights,
    /// As [`Purpose::Rights`]; its reader follows changes without a reload.
    FollowedRights,
    /// Authorities in a file.
    Authorities,
    /// A directory of authorities, which need not be there and is looked at again without a reload.
    AuthorityDirectory,
}

impl Purpose {
    /// Whether no client may read it. All others but payload may be read by clients, and not written.
    pub fn is_secret(self) -> bool {
        matches!(
            self,
            Self::Private | Self::PrivateKey | Self::Secret | Self::SealingKey | Self::OldSecret
        )
    }

    /// Whether a change of its content asks for a reload.
    pub fn is_watched(self) -> bool {
        !matches!(
            self,
            Self::Payload | Self::Private | Self::FollowedRights | Self::AuthorityDirectory
        )
    }

    /// Whether it has to be there and be readable, with nothing else to examine about it.
    pub fn must_be_readable(self) -> bool {
        matches!(self, Self::Rights | Self::FollowedRights)
    }
}

/// What a key says of itself beside its value.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// When a change takes effect.
    pub reload: Reload,
    /// For a key whose value names files: what for, and what people call them.
    pub file: Option<(Purpose, &'static str)>,
}

/// A key that takes effect with the reload.
pub const LIVE: Facts = Facts::new(Reload::Live);
/// A key that takes effect for new connections.
pub const NEW_DOOR: Facts = Facts::new(Reload::NewDoor);
/// A key that takes effect with the next start.
pub const RESTART: Facts = Facts::new(Reload::Restart);

impl Facts {
    const fn new(reload: Reload) -> Self {
        Self { reload, file: None }
    }

    /// Says that the value names a file, or several.
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
    /// What it does, in sentences.
    pub about: &'static str,
    /// What kind of value it has.
    pub kind: &'static str,
    /// The default as TOML; `None` when it is not set by default.
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
    /// What it is about, in sentences.
    pub about: &'static str,
    /// Whether there may be several, written `[[name]]`.
    pub repeated: bool,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A key in its section.
#[derive(Clone, Copy)]
pub struct Place {
    /// The name of the section.
    pub section: &'static str,
    /// Which one of a repeated section.
    pub index: usize,
    /// The key.
    pub key: &'static Key,
}

impl Place {
    /// `section.key`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.section, self.key.name)
    }
}

/// A file or directory that the configuration names.
#[derive(Clone)]
pub struct NamedFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it is for.
    pub purpose: Purpose,
    /// What people call it.
    pub what: &'static str,
    /// The key that names it.
    pub place: Place,
}

/// What is wrong at which byte of the file.
pub struct Fault {
    /// The byte.
    pub offset: usize,
    /// What is wrong.
    pub words: String,
}

/// One section being read.
pub struct Reader<'a> {
    /// Its table.
    pub table: &'a DeTable<'a>,
    /// Where the section begins, for what is missing in it.
    pub offset: usize,
    /// The directory that relative file names start from.
    pub base: &'a Path,
    /// Where faults are noted.
    pub faults: &'a mut Vec<Fault>,
}

impl Reader<'_> {
    /// The value of a key, or its default; faults are noted, and the default stands in.
    pub fn value<T: Setting>(&mut self, name: &str, default: Option<T>) -> Option<T> {
        match self.table.get(name) {
            None => {
                if default.is_none() {
                    let words = format!("the key \"{name}\" is missing in this section");
                    self.faults.push(Fault {
                        offset: self.offset,
                        words,
                    });
                }
                default
            }
            Some(value) => match T::read(value.get_ref(), self.base) {
                Ok(value) => Some(value),
                Err(words) => {
                    let offset = value.span().start;
                    let words = format!("{name}: {words}");
                    self.faults.push(Fault { offset, words });
                    default
                }
            },
        }
    }
}

/// The values of a section: what [`section!`] makes.
pub trait Values: Sized {
    /// The description from which the manual and the checks are made.
    const SECTION: Section;

    /// Reads the section. `None` when a required key is missing; faults say which.
    fn read(reader: &mut Reader<'_>) -> Option<Self>;

    /// For each key, in order, whether its value is another one than in `old`.
    fn differs(&self, old: &Self) -> Vec<bool>;

    /// Takes the values of all keys from `old` that only a restart can change.
    fn keep_fixed(&mut self, old: &Self);

    /// For each key, in order, the files that its value names.
    fn paths(&self) -> Vec<Vec<&Path>>;
}

/// What a configuration is made of: the values of a section, or of all sections of that name.
pub trait Part: Sized {
    /// The values of one such section.
    type Of: Values;

    /// Reads it from the tables of that name, each with its place in the file.
    fn read(tables: &[(&DeTable<'_>, usize)], base: &Path, faults: &mut Vec<Fault>) -> Option<Self>;

    /// The keys whose value is another one than in `old`. Where there are more or fewer sections, those of all that came
    /// or went.
    fn changed(&self, old: &Self) -> Vec<Place>;

    /// As [`Values::keep_fixed`].
    fn keep_fixed(&mut self, old: &Self);

    /// The files that it names.
    fn files(&self) -> Vec<NamedFile>;
}

/// A configuration: what [`sections!`] makes.
pub trait Sections: Sized {
    /// Its sections, in the manual's order.
    const SECTIONS: &'static [Section];

    /// Reads all sections. `None` when a required key is missing; faults say which.
    fn read(root: &DeTable<'_>, base: &Path, faults: &mut Vec<Fault>) -> Option<Self>;

    /// The keys whose value is another one than in `old`.
    fn changed(&self, old: &Self) -> Vec<Place>;

    /// Takes the values of all keys from `old` that only a restart can change.
    fn keep_fixed(&mut self, old: &Self);

    /// All files that it names.
    fn files(&self) -> Vec<NamedFile>;

    /// What is wrong although each key alone is right. `root` says where things stand, `line` in which line.
    fn check(&mut self, _root: &DeTable<'_>, _line: &dyn Fn(usize) -> usize, _faults: &mut Vec<Fault>) {}
}

/// Where the keys of a section stand.
pub fn places<T: Values>(index: usize) -> impl Iterator<Item = Place> {
    let section = T::SECTION.name;
    T::SECTION.keys.iter().map(move |key| Place { section, index, key })
}

/// [`Part::changed`] of one section.
pub fn changed<T: Values>(index: usize, fresh: &T, old: &T) -> Vec<Place> {
    let differs = fresh.differs(old);
    let all = places::<T>(index).zip(differs);
    all.filter(|(_, differs)| *differs).map(|(place, _)| place).collect()
}

/// [`Part::files`] of one section.
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

impl<T: Values> Part for Vec<T> {
    type Of = T;

    /// A table that lacks a key is left out; the missing key is already a fault.
    fn read(tables: &[(&DeTable<'_>, usize)], base: &Path, faults: &mut Vec<Fault>) -> Option<Self> {
        let mut all = Self::new();
        for (table, offset) in tables {
            let mut reader = Reader {
                table,
                offset: *offset,
                base,
                faults,
            };
            all.extend(T::read(&mut reader));
        }
        Some(all)
    }

    fn changed(&self, old: &Self) -> Vec<Place> {
        let both = self.iter().zip(old).enumerate();
        let mut places: Vec<Place> = both
            .flat_map(|(index, (fresh, old))| changed(index, fresh, old))
            .collect();
        for index in self.len().min(old.len())..self.len().max(old.len()) {
            places.extend(self::places::<T>(index));
        }
        places
    }

    /// No key of a repeated section takes a restart: [`section!`] sees to it.
    fn keep_fixed(&mut self, _old: &Self) {}

    fn files(&self) -> Vec<NamedFile> {
        let all = self.iter().enumerate();
        all.flat_map(|(index, values)| files(index, values)).collect()
    }
}

/// Declares a section: `key: Type = Some(default) => LIVE;`, or `= None` for a key that must be given. Behind the arrow
/// stands how it reloads (`LIVE`, `NEW_DOOR`, `RESTART`), and for a file what it is: `LIVE.file(Secret, "the key")`.
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
                Fault, Key, NamedFile, Part, Place, Reader, Reload, Section, Values, changed, files, is_none_token,
            };
            use $crate::values::Setting;

            $( assert!(
                <$value as Setting>::NAMES_FILES == $facts.file.is_some(),
                concat!(stringify!($key), ": a key that names files says what they are, and no other does")
            ); )+
            $( assert!(
                !($repeated && matches!($facts.reload, Reload::Restart)),
                concat!(stringify!($key), ": repeated sections follow each reload")
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
                    // All keys are read before any missing one ends this, so that all faults are told at once.
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
                    Values::read(&mut Reader { table, offset, base, faults })
                }

                fn changed(&self, old: &Self) -> Vec<Place> {
                    changed(0, self, old)
                }

                fn keep_fixed(&mut self, old: &Self) {
                    Values::keep_fixed(self, old);
                }

                fn files(&self) -> Vec<NamedFile> {
                    files(0, self)
                }
            }
        };
    };
}

/// Whether a default was written as `None`.
pub const fn is_none_token(text: &str) -> bool {
    matches!(text.as_bytes(), b"None")
}

/// Declares a configuration: its sections, each by its values, or by a list of them where the section may be repeated;
/// and what else belongs to it, which begins empty.
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
            $( #[doc = concat!("What is said in `", stringify!($values), "`.")] pub $section: $values, )+
            $( $(#[doc = $beside_about])+ pub $beside: $other, )*
        }

        const _: () = {
            use $crate::section::{DeTable, Fault, NamedFile, Part, Place, Section, Sections, Values, tables};

            impl Sections for $type {
                const SECTIONS: &'static [Section] = &[$( <<$values as Part>::Of as Values>::SECTION ),+];

                fn read(root: &DeTable<'_>, base: &std::path::Path, faults: &mut Vec<Fault>) -> Option<Self> {
                    $( let $section = <$values as Part>::read(
                        &tables(root, <<$values as Part>::Of as Values>::SECTION.name), base, faults,
                    ); )+
                    Some(Self { $( $section: $section?, )+ $( $beside: Default::default(), )* })
                }

                fn changed(&self, old: &Self) -> Vec<Place> {
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
            }
        };
    };
}

/// The tables of a section, each with its place; one table counts as a list of one.
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
