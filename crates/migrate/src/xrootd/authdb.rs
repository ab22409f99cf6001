//! An `authdb` as rules. [`policy::read_authdb`] reads it; here is what becomes of a record that no
//! rule can express. If it only gives rights, they are not given. If it takes rights away, or hides
//! other records from a client (`x`), nothing is allowed where it holds: no right becomes wider.

use std::collections::{BTreeMap, BTreeSet};

use credentials::{Activities, Activity};
use policy::{Area, Rule, Who, read_authdb};
use toml::Value;
use types::LogicalPath;

use super::facts::{Facts, Named};
use crate::document::{DocumentKind, Entry};
use crate::source::Source;

/// The letters of privileges.
const PRIVILEGES: &str = "adiklnrw-";

/// A path that no rule can have.
const UNREADABLE: &str = "/*/";

/// A record: its lines, and its words.
#[derive(Clone, Debug)]
struct Record {
    line: usize,
    words: Vec<String>,
    /// Its words as they stand in the file.
    text: String,
    /// Whether it takes more than it says.
    is_narrowed: bool,
}

impl Record {
    fn source(&self, file: &str) -> Source {
        Source::new(file, self.line, &self.text)
    }

    fn kind(&self) -> &str {
        &self.words[0]
    }

    /// Whether it takes something, itself or by a template that does.
    fn takes(&self, templates: &BTreeSet<String>) -> bool {
        let is_taking = |word: &String| {
            let is_privilege = word.contains('-') && word.chars().all(|letter| PRIVILEGES.contains(letter));
            is_privilege || templates.contains(word)
        };
        self.kind() == "x" || self.words.iter().skip(2).any(is_taking)
    }

    /// The paths where it may take something; the whole tree where it is not clear.
    fn closed(&self) -> Vec<Area> {
        let mut areas = Vec::new();
        if self.kind() != "x" {
            for word in self.words.iter().skip(2).filter(|word| word.starts_with('/')) {
                let path = LogicalPath::parse(word)
                    .ok()
                    .filter(|_| !word.contains(['*', '{', '@']));
                // What begins so is taken, too: "/a-b" by "/a".
                let area = path
                    .filter(|path| !path.is_root())
                    .map(|path| Area::BeginningWith(path.to_string()));
                areas.push(area.unwrap_or_else(Area::everything));
            }
        }
        match areas.is_empty() || areas.contains(&Area::everything()) {
            true => vec![Area::everything()],
            false => areas,
        }
    }
}

/// Names that have spaces or slashes, which the reader of records takes for something else. In the
/// text that it reads, placeholders stand for them.
struct Names {
    /// What each placeholder begins with; the text does not contain it.
    mark: String,
    names: Vec<String>,
}

impl Names {
    fn new(text: &str) -> Self {
        let mut mark = "Name".to_owned();
        while text.contains(&mark) {
            mark.push('e');
        }
        Self {
            mark,
            names: Vec::new(),
        }
    }

    /// The word for a name in a record of a kind.
    fn hide(&mut self, kind: &str, name: &str) -> String {
        let is_issuer = kind == "o" && name.contains('/');
        if !is_issuer && !name.contains(' ') {
            return name.to_owned();
        }
        let slash = if name.starts_with('/') { "/" } else { "" };
        self.names.push(name.to_owned());
        format!("{slash}{}{}x", self.mark, self.names.len() - 1)
    }

    /// The condition with its name. An organisation that is a URL is the issuer of tokens.
    fn shown(&self, who: &Who) -> Result<Who, String> {
        let text = who.to_string();
        let Some((kind, value)) = text.split_once(':').filter(|(_, value)| value.contains(&self.mark)) else {
            return Ok(who.clone());
        };
        let index = value
            .trim_start_matches('/')
            .strip_prefix(&self.mark)
            .and_then(|rest| rest.strip_suffix('x'));
        let name = index
            .and_then(|index| self.names.get(index.parse::<usize>().ok()?))
            .ok_or("a name is lost")?;
        let kind = match (kind, name.starts_with('/')) {
            ("vo", _) if name.contains('/') => "issuer",
            ("user" | "dn", true) => "dn",
            (kind, _) => kind,
        };
        Who::parse(&format!("{kind}:{name}"))
    }
}

impl Facts<'_> {
    /// Writes the records of the `authdb` as rules.
    pub(super) fn rules(&mut self, authdb: &Named, demanded_issuers: Option<&[String]>) {
        let text = match self.files.text(authdb.value.as_ref()) {
            Ok(text) => text,
            Err(unreadable) => {
                let words = format!(
                    "it cannot be read, and none of its rights are given: {}",
                    unreadable.cause
                );
                let advice = "Copy it here under the same name, or read it by crossload config import-authdb";
                return self.migration.in_part(&authdb.source, words, advice);
            }
        };
        self.migration.taken(&authdb.source, "its records are [[rule]]s");
        let mut names = Names::new(&text);
        let records = self.plain_records(&text, &mut names);
        let (rules, failed) = readable(&records);
        let templates = taking_templates(&records);
        for (record, words) in &failed {
            self.left_out(record, words, &templates, &authdb.value);
        }
        let mut lines = BTreeMap::new();
        for rule in rules {
            let line = rule
                .place
                .rsplit(' ')
                .next()
                .and_then(|line| line.parse::<usize>().ok());
            let record = records.iter().find(|record| Some(record.line) == line);
            let Some(record) = record else { continue };
            let who: Result<Vec<Who>, String> = rule.who.iter().map(|who| names.shown(who)).collect();
            match who {
                Ok(who) => {
                    lines.insert(record.line, record.source(&authdb.value));
                    self.limited(Rule { who, ..rule }, &record.source(&authdb.value), demanded_issuers);
                }
                Err(words) => self.left_out(record, &words, &templates, &authdb.value),
            }
        }
        for (line, source) in &lines {
            match records.iter().any(|record| record.line == *line && record.is_narrowed) {
                true => {
                    let words = "is a [[rule]] that takes everything where the record takes l: any right on a file \
                                 includes looking at it";
                    self.migration
                        .in_part(source, words, "Write what shall remain into may_not of the [[rule]]");
                }
                false => self.migration.taken(source, "is a [[rule]]"),
            }
        }
        let is_read = |record: &&Record| failed.iter().all(|(other, _)| other.line != record.line);
        for record in records
            .iter()
            .filter(is_read)
            .filter(|record| matches!(record.kind(), "t" | "="))
        {
            self.migration
                .taken(&record.source(&authdb.value), "is part of the rules that use it");
        }
    }

    /// The records, with names and paths as rules have them.
    fn plain_records(&self, text: &str, names: &mut Names) -> Vec<Record> {
        let space = self.space;
        let spaced = |name: &str| match space {
            Some(space) if !matches!(name, "*" | "=") => name.replace(space, " "),
            _ => name.to_owned(),
        };
        let mut found = records(text);
        for record in &mut found {
            let kind = record.words[0].clone();
            let is_identity = kind == "=";
            let is_named = matches!(kind.as_str(), "u" | "g" | "o" | "r");
            for index in 1..record.words.len() {
                let word = record.words[index].clone();
                record.words[index] = match (is_identity, index) {
                    (true, 2..) if index % 2 == 1 => {
                        let kind = record.words[index - 1].trim_end_matches(':').to_owned();
                        names.hide(&kind, &spaced(&word))
                    }
                    (false, 1) if is_named => names.hide(&kind, &spaced(&word)),
                    (false, 2..) if self.is_path_encoded && word.starts_with('/') => decoded(&word),
                    (false, 3..) if record.words[index - 1].starts_with('/') => match narrowed(&word) {
                        Some(narrowed) => {
                            record.is_narrowed = true;
                            narrowed
                        }
                        None => word,
                    },
                    _ => word,
                };
            }
        }
        found
    }

    /// A record that no rule can express.
    fn left_out(&mut self, record: &Record, words: &str, templates: &BTreeSet<String>, file: &str) {
        let source = record.source(file);
        let words = words.trim_end_matches('.');
        if matches!(record.kind(), "t" | "=") {
            let words = format!("{words}; records that use it are left out, too");
            let advice = "Write rules for what the records are for";
            return self.migration.no_equivalent(&source, words, advice);
        }
        if !record.takes(templates) {
            let words = format!("{words}; its rights are not given");
            let advice = "Give them by a [[rule]] with another who, such as address:, vo: or group:";
            return self.migration.no_equivalent(&source, words, advice);
        }
        let areas = record.closed();
        let places: Vec<String> = areas.iter().map(Area::to_string).collect();
        for area in areas {
            let rule = Rule {
                area,
                may_not: Activities::ALL,
                ..Rule::default()
            };
            self.write_rule(
                &rule,
                &source,
                Some("this record takes rights in a way that no rule can express"),
            );
        }
        let words = format!(
            "{words}; it takes rights away, so that nothing is allowed on {} until you decide",
            places.join(", ")
        );
        self.migration.in_part(
            &source,
            words,
            "Replace the [[rule]] that it became by one that takes what you want",
        );
    }

    /// Writes a rule. What it gives is for holders of tokens alone, where each client needs one.
    /// Where clients without any credential did not get in, what everyone had is for those with
    /// one: here HTTP is always served.
    fn limited(&mut self, rule: Rule, source: &Source, demanded_issuers: Option<&[String]>) {
        if rule.may.is_empty() && rule.may_not.is_empty() && !rule.last {
            // Locking alone: no rule is needed for that.
            return;
        }
        let is_for_anyone = rule.who.contains(&Who::Anyone);
        let is_open = demanded_issuers.is_none() && !(is_for_anyone && self.demands_credentials());
        let holders: Vec<Who> = match demanded_issuers {
            Some(issuers) => issuers.iter().cloned().map(Who::Issuer).collect(),
            None => self.holders(),
        };
        if rule.may.is_empty() || is_open {
            return self.write_rule(&rule, source, None);
        }
        if !rule.may_not.is_empty() {
            let taking = Rule {
                may: Activities::NONE,
                ..rule.clone()
            };
            self.write_rule(&taking, source, None);
        }
        for holder in holders {
            let others = rule.who.iter().filter(|who| **who != Who::Anyone);
            let rule = Rule {
                who: others.cloned().chain([holder]).collect(),
                may_not: Activities::NONE,
                ..rule.clone()
            };
            self.write_rule(&rule, source, None);
        }
    }

    pub(super) fn write_rule(&mut self, rule: &Rule, source: &Source, note: Option<&str>) {
        let texts = |items: &[Area]| items.iter().map(Area::to_string).collect::<Vec<String>>();
        let who: Vec<String> = rule.who.iter().map(Who::to_string).collect();
        let keys: [(&str, Option<Value>); 7] = [
            ("who", Some(who.into())),
            ("path", Some(rule.area.to_string().into())),
            ("except", (!rule.except.is_empty()).then(|| texts(&rule.except).into())),
            ("may", (!rule.may.is_empty()).then(|| rights(rule.may).into())),
            (
                "may_not",
                (!rule.may_not.is_empty()).then(|| rights(rule.may_not).into()),
            ),
            ("any_issuer", rule.any_issuer.then(|| true.into())),
            ("last", rule.last.then(|| true.into())),
        ];
        let entries = keys.into_iter().filter_map(|(key, value)| {
            Some(Entry {
                key: key.to_owned(),
                value: value?,
                sources: Vec::new(),
                note: None,
            })
        });
        let entries = entries.collect();
        let section = self.migration.document(DocumentKind::Endpoint).add("rule");
        section.entries = entries;
        section.note = Some(match note {
            Some(note) => format!("from {source}; {note}"),
            None => format!("from {source}"),
        });
    }
}

/// The records, without comments; a backslash at the end of a line continues it.
fn records(text: &str) -> Vec<Record> {
    let mut found: Vec<Record> = Vec::new();
    let mut is_continued = false;
    for (index, line) in text.lines().enumerate() {
        let plain = line.trim();
        let (plain, continues) = match plain.strip_suffix('\\') {
            Some(now) if !plain.starts_with('#') => (now, true),
            _ => (plain, false),
        };
        let words = plain.split_ascii_whitespace().take_while(|word| !word.starts_with('#'));
        let words: Vec<String> = words.map(str::to_owned).collect();
        match found.last_mut().filter(|_| is_continued) {
            Some(record) => record.words.extend(words),
            None => found.push(Record {
                line: index + 1,
                words,
                text: String::new(),
                is_narrowed: false,
            }),
        }
        is_continued = continues;
    }
    found.retain(|record| !record.words.is_empty());
    for record in &mut found {
        record.text = record.words.join(" ");
    }
    found
}

/// The rules of the records that can be expressed, and the others with the reasons.
fn readable(records: &[Record]) -> (Vec<Rule>, Vec<(Record, String)>) {
    let mut left: Vec<&Record> = records.iter().collect();
    let mut failed = Vec::new();
    loop {
        let mut lines: Vec<String> = Vec::new();
        for record in &left {
            lines.resize(record.line - 1, String::new());
            // The comment keeps a backslash at the end from continuing the record.
            lines.push(format!("{} #", record.words.join(" ")));
        }
        let faults = match read_authdb(&lines.join("\n")) {
            Ok(rules) => return (rules, failed),
            Err(faults) => faults,
        };
        let before = left.len();
        left.retain(|record| match faults.iter().find(|fault| fault.line == record.line) {
            Some(fault) => {
                failed.push(((*record).clone(), fault.words.clone()));
                false
            }
            None => true,
        });
        if left.len() == before {
            // The faults are in no record: nothing is given.
            failed.extend(
                left.into_iter()
                    .map(|record| (record.clone(), "it cannot be read".to_owned())),
            );
            return (Vec::new(), failed);
        }
    }
}

/// Privileges that take `l` without `a`, as ones that take everything.
fn narrowed(privileges: &str) -> Option<String> {
    let (given, taken) = privileges
        .split_once('-')
        .filter(|_| privileges.chars().all(|letter| PRIVILEGES.contains(letter)))?;
    (taken.contains('l') && !taken.contains('a')).then(|| format!("{given}-a"))
}

/// Rights as the words of a rule, which mean just these.
fn rights(set: Activities) -> Vec<&'static str> {
    if set == Activities::ALL {
        return vec!["all"];
    }
    let all = Activity::ALL.into_iter().chain(Activity::OF_RULES);
    all.filter(|activity| set.contains(Activities::of(&[*activity])))
        .map(Activity::name)
        .collect()
}

/// The names of templates with privileges that take something.
fn taking_templates(records: &[Record]) -> BTreeSet<String> {
    let none = BTreeSet::new();
    let taking = records
        .iter()
        .filter(|record| record.kind() == "t" && record.takes(&none));
    taking.filter_map(|record| record.words.get(1).cloned()).collect()
}

/// A path with its `%2B` and the like replaced. One that has spaces then is none that a record can
/// have, so that the record cannot be read.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
        {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    match String::from_utf8(bytes) {
        Ok(path) if !path.contains(|letter: char| letter.is_whitespace() || letter.is_control()) => path,
        _ => UNREADABLE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Method;
    use super::*;
    use crate::files::InMemory;

    fn translated(authdb: &str, change: impl FnOnce(&mut Facts<'_>)) -> (String, Vec<String>) {
        let files = InMemory::default().with("/authdb", authdb);
        let mut facts = Facts::new("x.cfg", &files);
        change(&mut facts);
        let named = Named::new("/authdb", &Source::of_file("x.cfg"));
        facts.rules(&named, None);
        let text = facts.migration.document(DocumentKind::Endpoint).render("x.cfg");
        let remarks = facts.migration.remarks.iter().map(crate::Remark::line).collect();
        (text, remarks)
    }

    #[test]
    fn records_become_rules_with_their_lines() {
        let authdb = "# all\nu * /pub lr\nt t1 /a rl\ng /vo/g t1 /b \\\n   a-d\n";
        let (text, remarks) = translated(authdb, |_| {});
        assert!(
            text.contains("# from /authdb:2: u * /pub lr\n[[rule]]\nwho = [\"anyone\"]\npath = \"/pub*\"\n"),
            "{text}"
        );
        assert_eq!(text.matches("[[rule]]").count(), 3, "{text}");
        assert!(text.contains("# from /authdb:4: g /vo/g t1 /b a-d\n"), "{text}");
        assert!(
            remarks.iter().all(|remark| remark.contains("taken over")),
            "{remarks:#?}"
        );
    }

    #[test]
    fn what_cannot_be_expressed_never_gives_more() {
        for (record, kept) in [
            ("h .example.org /x lr", ""),
            ("g staff /x a", ""),
            ("u bob /a*b r", ""),
            ("h bad.example.org /x/ -a", "path = \"/x*\""),
            ("h bad.example.org /a*b -a", "path = \"/\""),
            ("n farm t2", "path = \"/\""),
            ("u bob /x a-l", "path = \"/x*\""),
        ] {
            let (text, remarks) = translated(&format!("t t2 /x r-w\n{record}\nu ann /x r\n"), |_| {});
            assert!(text.contains("user:ann"), "{record}: {text}");
            assert_eq!(
                text.contains("may_not = [\"all\"]"),
                !kept.is_empty(),
                "{record}: {text}"
            );
            assert!(text.contains(kept), "{record}: {text}");
            assert!(
                remarks.iter().any(|remark| remark.contains("/authdb:2: ")),
                "{record}: {remarks:#?}"
            );
        }
        let (text, _) = translated("u * /protected -rl / rl\n", |_| {});
        assert!(text.contains("path = \"/protected*\"\nmay_not = [\"all\"]"), "{text}");
        assert!(
            text.contains("path = \"/\"\nexcept = [\"/protected*\"]\nmay = "),
            "{text}"
        );
        let exclusive = "= id h .example.org\nx id /x lr\nu * / lr\n";
        let (text, _) = translated(exclusive, |_| {});
        assert!(text.contains("path = \"/\"\nmay_not = [\"all\"]"), "{text}");
    }

    #[test]
    fn a_record_of_locks_alone_is_no_rule_and_a_backslash_is_no_letter() {
        let (text, _) = translated("u ann /x k\nu bob /x a\\\\\n u eve /x r\nu zoe /x r\n", |_| {});
        assert!(
            text.contains("user:zoe") && !text.contains("user:ann") && !text.contains("user:bob"),
            "{text}"
        );
    }

    #[test]
    fn everyone_who_got_in_is_not_everyone() {
        let method = |facts: &mut Facts<'_>, name: &str| {
            facts.methods.push(Method {
                name: name.to_owned(),
                source: Source::of_file("x.cfg"),
            });
        };
        let (text, _) = translated("u * /x lr-d\n", |facts| method(facts, "gsi"));
        assert!(
            text.contains("who = [\"anyone\"]\npath = \"/x*\"\nmay_not = "),
            "{text}"
        );
        assert!(
            text.contains("who = [\"authenticated\"]\npath = \"/x*\"\nmay = "),
            "{text}"
        );
        for name in ["unix", "host"] {
            let (text, _) = translated("u * /x lr\n", |facts| method(facts, name));
            assert!(text.contains("who = [\"anyone\"]"), "{name}: {text}");
        }
        let (text, _) = translated("u * /x lr\n", |facts| {
            method(facts, "gsi");
            facts.http = Some(Source::of_file("x.cfg"));
        });
        assert!(text.contains("who = [\"anyone\"]"), "{text}");
    }

    #[test]
    fn names_with_spaces_and_issuers_are_whole() {
        let authdb = "u /DC=org/CN=Jane_Doe /x lr\n= id o: https://iam.example/ g: /wlcg\nx id /y a\no vo_one /z r\n";
        let (text, remarks) = translated(authdb, |facts| facts.space = Some('_'));
        for words in [
            "dn:/DC=org/CN=Jane Doe\"",
            "\"issuer:https://iam.example/\", \"group:/wlcg\"",
            "\"vo:vo one\"",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(
            remarks.iter().all(|remark| remark.contains("taken over")),
            "{remarks:#?}"
        );
    }

    #[test]
    fn paths_are_decoded_where_the_configuration_says_so() {
        let spaced = "u * / lr\nu ann /a%20b -r\n";
        let (text, remarks) = translated(spaced, |facts| facts.is_path_encoded = true);
        assert!(
            text.contains("may_not = [\"all\"]") && remarks.iter().any(|remark| remark.contains("%20")),
            "{text}"
        );
        let (text, _) = translated("u * /a%2Bb r\n", |facts| facts.is_path_encoded = true);
        assert!(text.contains("\"/a+b*\""), "{text}");
        let (text, _) = translated("u * /a%2Bb r\n", |_| {});
        assert!(text.contains("\"/a%2Bb*\""), "{text}");
    }
}
