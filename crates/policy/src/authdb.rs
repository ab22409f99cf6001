//! Reads an XRootD `authdb`, so that a site can bring its rules along.
//!
//! The semantics are those of XRootD's `XrdAccConfig` and `XrdAccAccess`: within a record the first
//! path that a name begins with counts; the rights from all records about an identity add up, and
//! what they take is gone; of the exclusive records (`x`) only the first match counts. A record
//! that rules cannot express is a fault, and nothing is imported: an omitted rule might have taken
//! rights away.
//!
//! The rules differ from an `authdb` on purpose in three points: any right on a file includes
//! looking at it; directories on the way to it can be looked at and made; and compound identities
//! (`=` with `x` or `s`) hold for everyone that they describe, while XRootD ignores them for people
//! without VOMS attributes.

use std::collections::{HashMap, HashSet};

use credentials::{Activities, Activity};
use types::LogicalPath;

use crate::area::Area;
use crate::rule::Rule;
use crate::who::Who;

use Activity::{Delete, Download, Insert, List, Manage, ReadMetadata, Rename, Replace, UpdateMetadata, Upload};

/// What cannot be taken over, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthdbFault {
    /// The line, counted from one; that in which a continued one begins.
    pub line: usize,
    /// What is wrong with it.
    pub words: String,
}

/// A path and what is given and taken there.
#[derive(Clone)]
struct Pair {
    path: String,
    may: Activities,
    may_not: Activities,
}

#[derive(Default)]
struct Reading {
    templates: HashMap<String, Vec<Pair>>,
    identities: HashMap<String, Vec<Who>>,
    seen: HashSet<(char, String)>,
    /// Those that end the search come first.
    exclusive: Vec<Rule>,
    others: Vec<Rule>,
    faults: Vec<AuthdbFault>,
}

/// Reads a file.
///
/// # Errors
/// Everything that cannot be said in rules, each with its line.
pub fn read_authdb(text: &str) -> Result<Vec<Rule>, Vec<AuthdbFault>> {
    let mut reading = Reading::default();
    for (line, record) in records(text) {
        if let Err(words) = reading.take(line, &record) {
            reading.faults.push(AuthdbFault { line, words });
        }
    }
    match reading.faults.is_empty() {
        true => Ok(reading.exclusive.into_iter().chain(reading.others).collect()),
        false => Err(reading.faults),
    }
}

/// The records with their lines: a backslash at the end of a line continues it.
fn records(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (number, first) = lines.next()?;
        let mut words = Vec::new();
        let mut line = first;
        loop {
            let plain = line.trim_end();
            let (now, continued) = match plain.strip_suffix('\\') {
                Some(now) if !plain.trim_start().starts_with('#') => (now, true),
                _ => (plain, false),
            };
            words.extend(now.split_ascii_whitespace().take_while(|word| !word.starts_with('#')));
            match continued.then(|| lines.next()).flatten() {
                Some((_, next)) => line = next,
                None => break,
            }
        }
        Some((number + 1, words))
    })
    .filter(|(_, words)| !words.is_empty())
}

impl Reading {
    fn take(&mut self, line: usize, record: &[&str]) -> Result<(), String> {
        let [kind, name, rest @ ..] = record else {
            return Err("a record has a kind, a name, and paths with privileges".to_owned());
        };
        let kind = match kind.chars().next() {
            Some(kind) if kind.len_utf8() == record[0].len() => kind,
            _ => return Err(format!("\"{}\" is not a kind of record", record[0])),
        };
        let key = if kind == 's' { 'x' } else { kind };
        if !self.seen.insert((key, (*name).to_owned())) {
            return Err(format!("there is a record \"{kind} {name}\" already"));
        }
        match kind {
            't' => {
                let pairs = self.pairs(rest)?;
                self.templates.insert((*name).to_owned(), pairs);
                Ok(())
            }
            '=' => {
                let who = identity(rest)?;
                self.identities.insert((*name).to_owned(), who);
                Ok(())
            }
            _ => self.rules(line, kind, name, rest),
        }
    }

    fn rules(&mut self, line: usize, kind: char, name: &str, rest: &[&str]) -> Result<(), String> {
        let who = match kind {
            'x' | 's' => self.identities.get(name).cloned(),
            _ => Some(vec![who(kind, name)?]),
        };
        let who = who.ok_or_else(|| format!("\"{name}\" is not defined before; write \"= {name} ...\""))?;
        let pairs = self.pairs(rest)?;
        let place = format!("authdb line {line}");
        let any_issuer = who.iter().any(|who| matches!(who, Who::Group(_)));
        let mut rules = Vec::new();
        for (index, pair) in pairs.iter().enumerate() {
            let earlier = || pairs[..index].iter().map(|earlier| earlier.path.as_str());
            if earlier().any(|earlier| pair.path.starts_with(earlier)) {
                // The earlier one always counts.
                continue;
            }
            let area = |path: &str| area(path, (kind, name) == ('u', "="));
            let within = earlier().filter(|earlier| earlier.starts_with(&pair.path));
            rules.push(Rule {
                place: place.clone(),
                who: who.clone(),
                area: area(&pair.path)?,
                except: within.map(area).collect::<Result<_, _>>()?,
                may: pair.may,
                may_not: pair.may_not,
                any_issuer,
                ..Rule::default()
            });
        }
        if kind != 'x' {
            self.others.extend(rules);
            return Ok(());
        }
        self.exclusive.extend(rules);
        self.exclusive.push(Rule {
            place,
            who,
            any_issuer,
            last: true,
            ..Rule::default()
        });
        Ok(())
    }

    /// Paths with privileges, and names of templates in between.
    fn pairs(&self, words: &[&str]) -> Result<Vec<Pair>, String> {
        let mut pairs = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word.starts_with('/') {
                let privileges = words.next().ok_or_else(|| format!("{word} has no privileges"))?;
                let (may, may_not) = read_privileges(privileges)?;
                pairs.push(Pair {
                    path: (*word).to_owned(),
                    may,
                    may_not,
                });
            } else if let Some(template) = self.templates.get(*word) {
                pairs.extend(template.iter().cloned());
            } else if word.starts_with('\\') {
                return Err(format!(
                    "\"{word}\": names of objects that are no paths cannot be expressed"
                ));
            } else {
                return Err(format!(
                    "\"{word}\" is neither a path nor a template that is defined before"
                ));
            }
        }
        match pairs.is_empty() {
            true => Err("no path is given".to_owned()),
            false => Ok(pairs),
        }
    }
}

/// Who a record is about.
fn who(kind: char, name: &str) -> Result<Who, String> {
    let owned = name.to_owned();
    let who = match (kind, name) {
        ('u', "*") => Who::Anyone,
        ('u', "=") => Who::Authenticated,
        // A server without a grid-mapfile calls people by their distinguished names.
        ('u', _) if name.starts_with('/') => Who::dn(name),
        ('u', _) => Who::User(owned),
        ('g', _) if name.starts_with('/') => Who::Group(owned),
        ('g', _) => {
            return Err(format!(
                "\"{name}\" is a Unix group, which cannot be expressed; name its users"
            ));
        }
        ('o', _) => Who::Vo(owned),
        ('r', _) => Who::Role(owned),
        ('h', _) => {
            return Err(format!(
                "\"{name}\": names of hosts cannot be expressed; use address: in a [[rule]]"
            ));
        }
        ('n', _) => return Err(format!("\"{name}\": netgroups cannot be expressed")),
        _ => return Err(format!("\"{kind}\" is not a kind of record")),
    };
    // As with paths: what a rule could not say cannot be taken over.
    match Who::parse(&who.to_string())? {
        again if again == who => Ok(who),
        _ => Err(format!("\"{}\" means something else in a rule", name.escape_debug())),
    }
}

/// What must hold for a compound identity, `o atlas r production`; the kinds may have a colon.
fn identity(words: &[&str]) -> Result<Vec<Who>, String> {
    let mut all = Vec::new();
    for pair in words.chunks(2) {
        let [kind, name] = pair else {
            return Err(format!("nothing stands behind \"{}\"", pair[0]));
        };
        let mut letters = kind.trim_end_matches(':').chars();
        let (Some(letter @ ('g' | 'h' | 'o' | 'r' | 'u')), None) = (letters.next(), letters.next()) else {
            return Err(format!("\"{kind}\" is none of g, h, o, r, u"));
        };
        all.push(match (letter, *name) {
            ('u', "*" | "=") => return Err("a compound identity names one user".to_owned()),
            (letter, name) => who(letter, name)?,
        });
    }
    match all.is_empty() {
        true => Err("nothing is said of the identity".to_owned()),
        false => Ok(all),
    }
}

/// A path of a record: everything that begins with it, on the boundary of a component or not.
fn area(path: &str, of_user: bool) -> Result<Area, String> {
    let plain = LogicalPath::parse(path).map_err(|error| format!("{path} cannot be used: {}", error.public()))?;
    let trailing = usize::from(path.ends_with('/') && !plain.is_root());
    if plain.as_str().len() + trailing != path.len() {
        return Err(format!("{path} is not written plainly"));
    }
    let area = match (of_user, path.split_once("@=")) {
        (true, Some((before, after))) => Area::OfUser(before.to_owned(), format!("{after}*")),
        (true, None) => {
            return Err(format!(
                "{path}: in a record \"u =\" the path says with @= where the user's name stands"
            ));
        }
        (false, _) if plain.is_root() => Area::Below(plain),
        (false, _) => Area::BeginningWith(path.to_owned()),
    };
    // What a rule would read as something else, or not at all, could not be taken over into a
    // configuration.
    match Area::parse(&area.to_string()) {
        Ok(again) if again == area => Ok(area),
        Ok(_) => Err(format!("{path} means something else in a rule")),
        Err(words) => Err(format!("{path} cannot be written as a rule: {words}")),
    }
}

/// Reads privileges such as `lr` or `a-d`: what they give and what they take.
fn read_privileges(letters: &str) -> Result<(Activities, Activities), String> {
    let (given, taken) = letters.split_once('-').unwrap_or((letters, ""));
    let (mut may, mut may_not) = (Activities::NONE, Activities::NONE);
    for letter in given.chars() {
        let gives = gives(letter).ok_or_else(|| format!("\"{letters}\": there is no privilege \"{letter}\""))?;
        may = may.union(gives);
    }
    for letter in taken.chars() {
        if letter == 'l' && !taken.contains('a') {
            return Err(format!(
                "\"{letters}\": l cannot be taken alone, because any right on a file includes looking at it"
            ));
        }
        let takes = takes(letter).ok_or_else(|| format!("\"{letters}\": there is no privilege \"{letter}\""))?;
        may_not = may_not.union(takes);
    }
    Ok((may, may_not))
}

fn gives(letter: char) -> Option<Activities> {
    Some(match letter {
        'a' => Activities::ALL,
        'd' => Activities::of(&[Delete]),
        'i' => Activities::of(&[Insert]),
        'k' => Activities::NONE,
        'l' => Activities::of(&[ReadMetadata]),
        'n' => Activities::of(&[Rename]),
        'r' => Activities::of(&[Download, List]),
        'w' => Activities::of(&[Replace]),
        _ => return None,
    })
}

/// Everything that would allow what the letter stands for goes with it.
fn takes(letter: char) -> Option<Activities> {
    Some(match letter {
        'a' => Activities::ALL,
        'd' => Activities::of(&[Delete, Manage, UpdateMetadata]),
        'i' => Activities::of(&[Insert, Upload, Manage, UpdateMetadata]),
        'k' | 'l' => Activities::NONE,
        'n' => Activities::of(&[Rename, Upload, Manage]),
        'r' => Activities::of(&[Download, List, Upload, Manage, UpdateMetadata]),
        'w' => Activities::of(&[Replace, Upload, Manage, UpdateMetadata]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_all_kinds_are_read() {
        let text = "\
# a comment
t pub /data/pub lr /data/pub2/ r
u * pub /data lr-d
u ann /data/ann a \\
      /data/in irw   # and a comment
u = /users/@=/ a
u /DC=org/CN=Ann /dn lr
g /atlas/de /data lr
o atlas /atlas lr
r production /atlas/prod a
= prod o atlas r: production
s prod /data/prod a
= banned u eve
x banned /data -a
";
        let rules = read_authdb(text).unwrap();
        let told: Vec<String> = rules.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 12, "{told:#?}");
        assert!(told[0].starts_with("authdb line 14: user:eve may not "), "{}", told[0]);
        assert!(rules[1].last && rules[1].may.is_empty(), "{}", told[1]);
        let first = "authdb line 3: anyone may READ_METADATA,LIST,DOWNLOAD on /data/pub*";
        assert_eq!(told[2], first, "the other path of the template is hidden by it");
        assert_eq!(rules[3].except.len(), 2, "{}", told[3]);
        assert_eq!(rules[6].area.to_string(), "/users/{user}/*");
        assert!(told[7].contains("dn:/DC=org/CN=Ann"), "{}", told[7]);
        assert!(told[11].contains("vo:atlas and role:production"), "{}", told[11]);
        let toml = rules[3].to_toml();
        let except = "except = [\"/data/pub*\", \"/data/pub2/*\"]\n";
        assert!(
            toml.starts_with("[[rule]]  # authdb line 3\n") && toml.contains(except),
            "{toml}"
        );
    }

    #[test]
    fn what_cannot_be_expressed_is_told_with_its_line() {
        for (line, words) in [
            ("h .cern.ch /data lr", "address:"),
            ("n farm /data lr", "netgroups"),
            ("g staff /data lr", "Unix group"),
            ("u ann", "no path"),
            ("u ann /data", "no privileges"),
            ("u ann /data q", "no privilege \"q\""),
            ("u ann /data a-l", "cannot be taken alone"),
            ("u ann template", "neither a path nor a template"),
            ("u ann \\object lr", "objects"),
            ("u = /home a", "@="),
            ("u ann /a/../b a", "cannot be used"),
            ("u ann /a//b a", "plainly"),
            ("u = /users_@=/ a", "one whole component"),
            ("u ann /a*b a", "a star"),
            ("u ann /a/{user}/ a", "something else"),
            ("u a\u{1}b /data a", "no value"),
            ("o a/b /data a", "no slash"),
            ("x nobody /data a", "not defined"),
            ("z ann /data a", "not a kind"),
            ("user ann /data a", "not a kind"),
            ("= id q x", "none of"),
            ("= id o", "nothing stands behind"),
            ("u", "a kind, a name"),
        ] {
            let faults = read_authdb(&format!("\n# first\n{line}\nu bob /b lr\nu bob /b lr\n")).unwrap_err();
            assert_eq!(faults.len(), 2, "{line}: {faults:?}");
            assert_eq!((faults[0].line, faults[1].line), (3, 5), "{line}");
            assert!(faults[0].words.contains(words), "{line}: {}", faults[0].words);
            assert!(faults[1].words.contains("already"), "{}", faults[1].words);
        }
    }

    #[test]
    fn an_earlier_path_of_a_record_hides_a_later_one() {
        let rules = read_authdb("u ann /a/b r /a a /a/c r").unwrap();
        assert_eq!(rules.len(), 2, "what begins with /a is settled");
        assert_eq!(rules[1].except, [Area::BeginningWith("/a/b".to_owned())]);
    }
}
