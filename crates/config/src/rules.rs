//! The rules of the configuration file: who may do what, and where.

use std::path::Path;
use std::sync::Arc;

use credentials::Activities;
use policy::{Area, ExportRules, Who, parse_given, parse_taken};
use toml::de::DeValue;

use crate::keys::{Export, Rule};
use crate::values::Setting;

/// Who a rule is about: one word, or several that must all match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSubjects(pub Vec<Who>);

/// Words for the rights that a rule gives, and the activities that they stand for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AllowedRights(Vec<String>, pub Activities);

/// Words for the rights that a rule takes away, and the activities that they stand for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeniedRights(Vec<String>, pub Activities);

/// One word or a list of words.
fn words(value: &DeValue<'_>, base: &Path) -> Result<Vec<String>, String> {
    match value.as_str() {
        Some(word) => Ok(vec![word.to_owned()]),
        None => Vec::<String>::read(value, base),
    }
}

fn read_all(words: &[String], read: impl Fn(&str) -> Result<Activities, String>) -> Result<Activities, String> {
    let mut all = Activities::NONE;
    for word in words {
        all = all.union(read(word)?);
    }
    Ok(all)
}

impl Setting for RuleSubjects {
    const KIND: &'static str = "word or list of words";

    fn read(value: &DeValue<'_>, base: &Path) -> Result<Self, String> {
        let all: Result<Vec<Who>, String> = words(value, base)?.iter().map(|word| Who::parse(word)).collect();
        all.map(Self)
    }

    fn write(&self) -> Option<String> {
        self.0.iter().map(Who::to_string).collect::<Vec<_>>().write()
    }
}

impl RuleSubjects {
    /// A rule about them that says nothing else.
    pub fn rule(&self) -> policy::Rule {
        policy::Rule {
            who: self.0.clone(),
            ..policy::Rule::default()
        }
    }
}

impl Setting for AllowedRights {
    const KIND: &'static str = "word or list of words";

    fn read(value: &DeValue<'_>, base: &Path) -> Result<Self, String> {
        let words = words(value, base)?;
        let activities = read_all(&words, parse_given)?;
        Ok(Self(words, activities))
    }

    fn write(&self) -> Option<String> {
        self.0.write()
    }
}

impl Setting for DeniedRights {
    const KIND: &'static str = "word or list of words";

    fn read(value: &DeValue<'_>, base: &Path) -> Result<Self, String> {
        let words = words(value, base)?;
        let activities = read_all(&words, parse_taken)?;
        Ok(Self(words, activities))
    }

    fn write(&self) -> Option<String> {
        self.0.write()
    }
}

impl Setting for Area {
    const KIND: &'static str = "path or pattern";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        match value.as_str() {
            Some(text) => Self::parse(text),
            None => Err(format!("expected a path, found {}", value.type_str())),
        }
    }

    fn write(&self) -> Option<String> {
        self.to_string().write()
    }
}

impl AllowedRights {
    /// All rights.
    pub fn everything() -> Self {
        Self(vec!["all".to_owned()], Activities::ALL)
    }
}

impl Rule {
    /// The rule in the form that policy evaluates; `place` is where it begins, such as `line 3`.
    pub fn build(&self, number: usize, place: &str) -> policy::Rule {
        policy::Rule {
            place: format!("rule {number} ({place})"),
            who: self.who.0.clone(),
            area: self.path.clone(),
            except: self.except.clone(),
            may: self.may.1,
            may_not: self.may_not.1,
            user: self.user.as_deref().map(Arc::from),
            vo: self.vo.as_deref().map(Arc::from),
            any_issuer: self.any_issuer,
            last: self.last,
        }
    }
}

impl Export {
    /// The export's rules in the form that policy evaluates.
    pub fn rules(&self) -> ExportRules {
        ExportRules {
            path: self.path.clone(),
            anonymous: self.anonymous,
            read_only: self.is_read_only(),
            ceiling: self.ceiling.1,
            recursive_delete: self.recursive_delete,
            locks: self.locks,
        }
    }
}

/// Whether this is `UID:GID`. Only the site's configuration can say that; a credential cannot.
fn is_by_numbers(user: &str) -> bool {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    user.split_once(':')
        .is_some_and(|(uid, gid)| is_number(uid) && is_number(gid))
}

/// Mistakes in a rule as a whole.
pub(crate) fn fault(rule: &policy::Rule) -> Option<String> {
    if let Some(words) = rule.fault() {
        return Some(words.to_owned());
    }
    let is_user = |user: &str| credentials::is_user_name(user) || is_by_numbers(user);
    if let Some(user) = rule.user.as_deref().filter(|user| !is_user(user)) {
        return Some(format!(
            "user: \"{user}\" is not a valid name of a local user; write one"
        ));
    }
    let says_nothing = rule.may.is_empty() && rule.may_not.is_empty() && rule.user.is_none() && rule.vo.is_none();
    (says_nothing && !rule.last).then(|| "who: the rule has no effect; give it may, may_not, user or vo".to_owned())
}
