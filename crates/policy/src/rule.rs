//! A rule of a site: who may do what where, and in whose name.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use credentials::{Activities, Activity, Credential};

use crate::area::Area;
use crate::who::{Person, Who};

/// Who may, or may not, do what in which part of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where it stands in the file: `rule 2 (line 31)`.
    pub place: String,
    /// Whom it is about: all of these must hold.
    pub who: Vec<Who>,
    /// Where it holds.
    pub area: Area,
    /// Where it does not hold after all.
    pub except: Vec<Area>,
    /// What it gives.
    pub may: Activities,
    /// What it takes, whatever gave it.
    pub may_not: Activities,
    /// The local user to whom files belong that are made under it.
    pub user: Option<Arc<str>>,
    /// The virtual organisation whose quota such files count against.
    pub vo: Option<Arc<str>>,
    /// Whether a token's group counts whichever configured issuer says so, and not only where the
    /// site gave that issuer the group's VO. XRootD takes groups so.
    pub any_issuer: bool,
    /// Whether the rules behind it do not hold for whom it is about, where it holds.
    pub last: bool,
}

/// For everybody and everywhere, and nothing.
impl Default for Rule {
    fn default() -> Self {
        Self {
            place: String::new(),
            who: vec![Who::Anyone],
            area: Area::everything(),
            except: Vec::new(),
            may: Activities::NONE,
            may_not: Activities::NONE,
            user: None,
            vo: None,
            any_issuer: false,
            last: false,
        }
    }
}

impl Rule {
    /// What is wrong with the words of `who` taken together; `None` when nothing is.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let names_subject = self.who.iter().any(|who| matches!(who, Who::Subject(_)));
        if self.who.is_empty() {
            return Some("who: is empty; write \"anyone\" for everyone");
        }
        (names_subject && !self.names_issuer())
            .then_some("who: a subject means something together with its issuer only; add \"issuer:...\"")
    }

    /// The rule as it stands in a configuration file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let list = |items: Vec<String>| {
            let quoted: Vec<String> = items.iter().map(|item| quoted(item)).collect();
            format!("[{}]", quoted.join(", "))
        };
        let words = |set: Activities| match set == Activities::ALL {
            true => vec!["all".to_owned()],
            false => exactly(set).split(',').map(str::to_owned).collect(),
        };
        let mut text = format!("[[rule]]  # {}\n", self.place);
        text.push_str(&format!(
            "who = {}\n",
            list(self.who.iter().map(Who::to_string).collect())
        ));
        text.push_str(&format!("path = {}\n", quoted(&self.area.to_string())));
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!("{name} = {value}\n"));
            }
        };
        let except: Vec<String> = self.except.iter().map(Area::to_string).collect();
        add("except", (!except.is_empty()).then(|| list(except)));
        add("may", (!self.may.is_empty()).then(|| list(words(self.may))));
        add("may_not", (!self.may_not.is_empty()).then(|| list(words(self.may_not))));
        add("user", self.user.as_deref().map(quoted));
        add("vo", self.vo.as_deref().map(quoted));
        add("any_issuer", self.any_issuer.then(|| "true".to_owned()));
        add("last", self.last.then(|| "true".to_owned()));
        text
    }

    /// Whether it gives something to this client. As everywhere, it gives to the holder of a
    /// macaroon, or of a token with scopes, only what it gives to everybody.
    #[must_use]
    pub fn benefits(&self, credential: &Credential, address: IpAddr) -> bool {
        self.is_about(&Person::beneficiary(credential, address.to_canonical()))
    }

    /// Whether it is about that person.
    pub(crate) fn is_about(&self, person: &Person<'_>) -> bool {
        self.missing(person).is_none()
    }

    /// The first thing that does not hold of that person.
    pub(crate) fn missing(&self, person: &Person<'_>) -> Option<&Who> {
        let with_issuer = self.any_issuer || self.names_issuer();
        self.who.iter().find(|who| !person.is(who, with_issuer))
    }

    /// Whether it holds on that path, for whom it is about.
    pub(crate) fn holds_on(&self, path: &str, user: Option<&str>) -> bool {
        self.area.holds(path, user) && !self.except.iter().any(|area| area.holds(path, user))
    }

    fn names_issuer(&self) -> bool {
        self.who.iter().any(|who| matches!(who, Who::Issuer(_)))
    }
}

/// As printed: `rule 2 (line 31), vo:atlas may DOWNLOAD on /atlas`.
impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.place)?;
        for (index, who) in self.who.iter().enumerate() {
            write!(out, "{}{who}", if index > 0 { " and " } else { "" })?;
        }
        if !self.may.is_empty() {
            write!(out, " may {}", self.may)?;
        }
        if !self.may_not.is_empty() {
            let and = if self.may.is_empty() { "" } else { " and" };
            write!(out, "{and} may not {}", exactly(self.may_not))?;
        }
        if let Some(user) = &self.user {
            write!(out, " as {user}")?;
        }
        if let Some(vo) = &self.vo {
            write!(out, " for {vo}")?;
        }
        write!(out, " on {}", self.area)?;
        for (index, area) in self.except.iter().enumerate() {
            write!(out, "{} {area}", if index > 0 { "," } else { " but not on" })?;
        }
        Ok(())
    }
}

/// A text as TOML has it.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// All activities of a set by name.
pub(crate) fn exactly(set: Activities) -> String {
    let all = Activity::ALL.into_iter().chain(Activity::OF_RULES);
    let names: Vec<&str> = all
        .filter(|activity| set.contains(Activities::of(&[*activity])))
        .map(Activity::name)
        .collect();
    names.join(",")
}

/// A word of `may`, `may_not` and `ceiling`.
struct Word {
    name: &'static str,
    /// What it gives.
    gives: Activities,
    /// What it takes: everything that would allow the same.
    takes: Activities,
}

use Activity::{Delete, Download, Insert, List, Manage, ReadMetadata, Rename, Replace, Stage, UpdateMetadata, Upload};

/// The words. Looking is part of everything that is given, so that it cannot be taken alone.
const WORDS: [Word; 9] = [
    Word {
        name: "stat",
        gives: Activities::of(&[ReadMetadata]),
        takes: Activities::NONE,
    },
    Word {
        name: "list",
        gives: Activities::of(&[ReadMetadata, List]),
        takes: Activities::of(&[List]),
    },
    Word {
        name: "read",
        gives: Activities::READ,
        takes: Activities::of(&[List, Download]),
    },
    Word {
        name: "create",
        gives: Activities::of(&[ReadMetadata, Upload]),
        takes: Activities::of(&[Upload, Manage, Insert]),
    },
    Word {
        name: "write",
        gives: Activities::of(&[ReadMetadata, Upload, Manage, UpdateMetadata, Insert, Replace, Rename]),
        takes: Activities::of(&[Upload, Manage, UpdateMetadata, Insert, Replace, Rename]),
    },
    Word {
        name: "delete",
        gives: Activities::of(&[ReadMetadata, Delete]),
        // Moving a file away takes it from its name just as well.
        takes: Activities::of(&[Delete, Manage, Rename]),
    },
    Word {
        name: "manage",
        gives: Activities::of(&[ReadMetadata, Manage]),
        takes: Activities::of(&[Manage]),
    },
    Word {
        name: "stage",
        gives: Activities::of(&[ReadMetadata, Stage]),
        takes: Activities::of(&[Stage]),
    },
    Word {
        name: "all",
        gives: Activities::ALL,
        takes: Activities::ALL,
    },
];

/// Reads a word of `may` or `ceiling`: `read`, `write`, …, or an activity in capitals, which means
/// just that.
///
/// # Errors
/// What is wrong, in words for the rule's author.
pub fn parse_given(word: &str) -> Result<Activities, String> {
    match WORDS.iter().find(|known| known.name == word) {
        Some(known) => Ok(known.gives),
        None => parse_activity(word),
    }
}

/// Reads a word of `may_not`. It takes what it names and everything that would allow the same.
///
/// # Errors
/// As [`parse_given`], and for `stat`, which every other right includes.
pub fn parse_taken(word: &str) -> Result<Activities, String> {
    match WORDS.iter().find(|known| known.name == word) {
        Some(known) if known.takes.is_empty() => Err(format!(
            "\"{word}\": any right on a file includes looking at it; take \"all\""
        )),
        Some(known) => Ok(known.takes),
        None => parse_activity(word),
    }
}

fn parse_activity(word: &str) -> Result<Activities, String> {
    let mut all = Activity::ALL.into_iter().chain(Activity::OF_RULES);
    match all.find(|activity| activity.name() == word) {
        Some(activity) => Ok(Activities::of(&[activity])),
        None => {
            let words: Vec<&str> = WORDS.iter().map(|word| word.name).collect();
            let names = exactly(Activities::ALL).replace(',', ", ");
            Err(format!("\"{word}\" is none of {}, {names}", words.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_word_takes_is_not_left_in_another_way() {
        for word in ["create", "write", "delete", "manage", "list", "read", "stage"] {
            let (gives, takes) = (parse_given(word).unwrap(), parse_taken(word).unwrap());
            assert!(gives.without(takes).without(Activities::READ).is_empty(), "{word}");
        }
        assert!(parse_taken("stat").is_err() && parse_given("fly").is_err() && parse_taken("DOWNLOADS").is_err());
        assert_eq!(parse_given("RENAME").unwrap(), Activities::of(&[Rename]));
    }

    #[test]
    fn a_subject_is_nobody_without_its_issuer() {
        let about = |words: &[&str]| Rule {
            who: words.iter().map(|word| Who::parse(word).unwrap()).collect(),
            ..Rule::default()
        };
        assert!(about(&["subject:x"]).fault().is_some() && about(&[]).fault().is_some());
        assert!(about(&["subject:x", "issuer:https://i"]).fault().is_none());
    }
}
