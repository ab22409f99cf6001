//! One table, many uses: from the description of a section come its type, the reader with its
//! defaults, the known keys, and the manual.

use std::path::Path;

use toml::de::DeTable;

/// A key of the configuration file, as the manual shows it.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// What it does, in sentences.
    pub(crate) about: &'static str,
    pub(crate) kind: &'static str,
    /// The default as TOML; `None` when it is not set by default.
    pub(crate) default: fn() -> Option<String>,
    /// Whether it must be given.
    pub(crate) required: bool,
}

/// A section of the configuration file, as the manual shows it.
#[derive(Clone, Copy)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Whether there may be several, written `[[name]]`.
    pub(crate) repeated: bool,
    pub(crate) keys: &'static [Key],
}

/// What is wrong at which byte of the file.
pub(crate) struct Fault {
    pub(crate) offset: usize,
    pub(crate) words: String,
}

/// One section being read.
pub(crate) struct Reader<'a> {
    pub(crate) table: &'a DeTable<'a>,
    /// Where the section begins, for what is missing in it.
    pub(crate) offset: usize,
    /// The directory that relative file names start from.
    pub(crate) base: &'a Path,
    pub(crate) faults: &'a mut Vec<Fault>,
}

impl Reader<'_> {
    /// The value of a key, or its default; faults are noted, and the default stands in.
    pub(crate) fn value<T: super::values::Setting>(&mut self, name: &str, default: Option<T>) -> Option<T> {
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

/// Declares a section: `key: Type = Some(default)`, or `= None` for a key that must be given.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:literal $repeated:literal $type:ident {
            $( $(#[doc = $key_about:literal])+ $key:ident : $value:ty = $default:expr; )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) struct $type {
            $( $(#[doc = $key_about])+ pub(crate) $key: $value, )+
        }

        impl $type {
            /// The description from which the manual and the checks are made.
            pub(crate) const SECTION: $crate::configuration::section::Section = $crate::configuration::section::Section {
                name: $name,
                about: concat!($($about, "\n"),+),
                repeated: $repeated,
                keys: &[$( $crate::configuration::section::Key {
                    name: stringify!($key),
                    about: concat!($($key_about, "\n"),+),
                    kind: <$value as $crate::configuration::values::Setting>::KIND,
                    default: || {
                        let default: Option<$value> = $default;
                        default.and_then(|value| $crate::configuration::values::Setting::write(&value))
                    },
                    required: {
                        const REQUIRED: bool = $crate::configuration::section::is_none_token(stringify!($default));
                        REQUIRED
                    },
                } ),+],
            };

            /// Reads the section. `None` when a required key is missing; faults say which.
            pub(crate) fn read(reader: &mut $crate::configuration::section::Reader<'_>) -> Option<Self> {
                // All keys are read before any missing one ends this, so that all faults are told at once.
                $( let $key: Option<$value> = reader.value(stringify!($key), $default); )+
                Some(Self { $( $key: $key? ),+ })
            }
        }
    };
}

pub(crate) use section;

/// Whether a default was written as `None`.
pub(crate) const fn is_none_token(text: &str) -> bool {
    matches!(text.as_bytes(), b"None")
}
