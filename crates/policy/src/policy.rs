//! Everything that a site has set down: its exports and its rules, arranged so that a decision
//! looks only at the rules that can be about who asks for what.

use std::collections::HashMap;
use std::sync::Arc;

use credentials::Activities;
use types::LogicalPath;

use crate::rule::Rule;
use crate::rules::{ExportRules, export_of};
use crate::who::{Person, Who, group_of, role_of};

/// The exports and rules of a server.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    exports: Vec<ExportRules>,
    rules: Vec<Rule>,
    index: Index,
}

/// What the rules together say about an identity on a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said<'a> {
    pub(crate) may: Activities,
    pub(crate) may_not: Activities,
    user: Option<NameInRule<'a>>,
    vo: Option<NameInRule<'a>>,
}

/// A name that a rule gives; of several rules the first counts.
#[derive(Clone, Copy, Debug)]
struct NameInRule<'a> {
    /// The rule's number.
    number: u32,
    name: &'a Arc<str>,
}

impl<'a> Said<'a> {
    pub(crate) fn user(&self) -> Option<&'a Arc<str>> {
        self.user.map(|user| user.name)
    }

    pub(crate) fn vo(&self) -> Option<&'a Arc<str>> {
        self.vo.map(|vo| vo.name)
    }
}

/// The numbers of rules by the directory below which they hold.
type ByPlace = HashMap<Box<str>, Vec<u32>>;

/// The numbers of rules by the one word of `who` that tells most people apart; each rule is in
/// there once.
#[derive(Clone, Debug, Default)]
struct Index {
    users: HashMap<Box<str>, ByPlace>,
    names: HashMap<Box<str>, ByPlace>,
    issuers: HashMap<Box<str>, ByPlace>,
    groups: HashMap<Box<str>, ByPlace>,
    vos: HashMap<Box<str>, ByPlace>,
    roles: HashMap<Box<str>, ByPlace>,
    rest: ByPlace,
    /// Whether some rule ends the search.
    has_last: bool,
}

impl Policy {
    /// These exports and rules. Of two exports with the same path the first counts.
    #[must_use]
    pub fn new(exports: Vec<ExportRules>, rules: Vec<Rule>) -> Self {
        let index = Index::new(&rules);
        Self { exports, rules, index }
    }

    /// The exports.
    #[must_use]
    pub fn exports(&self) -> &[ExportRules] {
        &self.exports
    }

    /// The rules, in their order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The export that a path belongs to: the deepest that holds it.
    #[must_use]
    pub fn export_of(&self, path: &LogicalPath) -> Option<&ExportRules> {
        export_of(&self.exports, path)
    }

    /// What the rules say about a person on a path in its plain form.
    pub(crate) fn said(&self, person: &Person<'_>, path: &str) -> Said<'_> {
        let mut said = Said::default();
        if self.rules.is_empty() {
            return said;
        }
        let mut end = u32::MAX;
        if self.index.has_last {
            self.each(person, path, |number, rule| {
                if rule.last {
                    end = end.min(number);
                }
            });
        }
        self.each(person, path, |number, rule| {
            if number > end {
                return;
            }
            said.may = said.may.union(rule.may);
            said.may_not = said.may_not.union(rule.may_not);
            first(&mut said.user, number, rule.user.as_ref());
            first(&mut said.vo, number, rule.vo.as_ref());
        });
        said
    }

    /// What rules give to a person somewhere below a path. It is asked for rarely, and goes through
    /// all of them.
    pub(crate) fn given_below(&self, person: &Person<'_>, path: &LogicalPath) -> Activities {
        let about = self
            .rules
            .iter()
            .filter(|rule| !rule.may.is_empty() && rule.is_about(person));
        let edges = about.filter_map(|rule| rule.area.edge_below(path, person.user));
        edges.fold(Activities::NONE, |all, edge| {
            let said = self.said(person, &edge);
            all.union(said.may.without(said.may_not))
        })
    }

    /// The rules about a person that hold on a path, in no certain order.
    fn each<'a>(&'a self, person: &Person<'_>, path: &str, mut visit: impl FnMut(u32, &'a Rule)) {
        let mut look = |places: &ByPlace| {
            for directory in ancestors(path) {
                for number in places.get(directory).into_iter().flatten() {
                    let rule = &self.rules[*number as usize];
                    if rule.holds_on(path, person.user) && rule.is_about(person) {
                        visit(*number, rule);
                    }
                }
            }
        };
        let index = &self.index;
        look(&index.rest);
        let mut look_up = |table: &HashMap<Box<str>, ByPlace>, key: Option<&str>| {
            if let Some(places) = key.and_then(|key| table.get(key)) {
                look(places);
            }
        };
        look_up(&index.users, person.user);
        look_up(&index.names, person.dn());
        look_up(&index.issuers, person.issuer());
        for vo in person.vos() {
            look_up(&index.vos, Some(vo));
        }
        for group in person.groups() {
            look_up(&index.groups, Some(group));
        }
        for fqan in person.fqans() {
            look_up(&index.groups, Some(group_of(fqan)));
            look_up(&index.roles, role_of(fqan));
        }
    }
}

fn first<'a>(kept: &mut Option<NameInRule<'a>>, number: u32, named: Option<&'a Arc<str>>) {
    if let Some(name) = named
        && kept.is_none_or(|earlier| number < earlier.number)
    {
        *kept = Some(NameInRule { number, name });
    }
}

/// `/a/b`, `/a` and `/` of the path `/a/b`.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let deepest = if path.len() > 1 { Some(path) } else { None };
    let above = std::iter::successors(deepest, |path| {
        path.rfind('/').filter(|end| *end > 0).map(|end| &path[..end])
    });
    above.chain(std::iter::once("/"))
}

impl Index {
    fn new(rules: &[Rule]) -> Self {
        let mut index = Self::default();
        for (number, rule) in rules.iter().enumerate() {
            let places = index.places(&rule.who);
            let numbers: &mut Vec<u32> = places.entry(rule.area.anchor().into()).or_default();
            numbers.push(u32::try_from(number).unwrap_or(u32::MAX));
            index.has_last |= rule.last;
        }
        index
    }

    /// Where a rule about them is looked for. A word with a pattern, or one that holds for many,
    /// tells too little.
    fn places(&mut self, who: &[Who]) -> &mut ByPlace {
        let telling = who.iter().min_by_key(|who| match who {
            Who::User(_) => 0,
            Who::Dn(_) => 1,
            Who::Group(_) => 2,
            Who::Role(_) => 3,
            Who::Issuer(_) => 4,
            Who::Vo(_) => 5,
            _ => 6,
        });
        let (table, key) = match telling {
            Some(Who::User(key)) => (&mut self.users, key),
            Some(Who::Dn(key)) => (&mut self.names, key),
            Some(Who::Group(key)) => (&mut self.groups, key),
            Some(Who::Role(key)) => (&mut self.roles, key),
            Some(Who::Issuer(key)) => (&mut self.issuers, key),
            Some(Who::Vo(key)) => (&mut self.vos, key),
            _ => return &mut self.rest,
        };
        table.entry(key.as_str().into()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_below_its_ancestors() {
        let of = |path| ancestors(path).collect::<Vec<_>>();
        assert_eq!(of("/a/b/c"), ["/a/b/c", "/a/b", "/a", "/"]);
        assert_eq!(of("/"), ["/"]);
        assert_eq!(of("/a/\0"), ["/a/\0", "/a", "/"]);
    }

    #[test]
    fn a_decision_looks_at_no_rule_about_others() {
        let about = |who: String| Rule {
            who: vec![Who::parse(&who).unwrap()],
            ..Rule::default()
        };
        let users = (0..10_000).map(|number| about(format!("user:u{number}")));
        let rules = users.chain((0..1000).map(|number| about(format!("vo:v{number}"))));
        let index = Policy::new(Vec::new(), rules.collect()).index;
        assert!(index.rest.is_empty(), "these are looked at for everybody");
        assert_eq!((index.users.len(), index.vos.len()), (10_000, 1000));
        assert!(index.users.values().all(|places| places["/"].len() == 1));
    }
}
