//! Files of a site that give local users to names of certificates and to attributes of VOMS.

use std::collections::HashMap;

use crate::limits::MAP_LINES_MAX;
use gsi_wire::dn;
use gsi_wire::signing_policy::matches_pattern;
use gsi_wire::voms::plain_fqan;

use crate::is_user_name;

/// A grid map: names of certificates in one line, each with the local users that its holder may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GridMap(HashMap<String, String>);

impl GridMap {
    /// Reads a file with lines `"DN" user[,user…]`; the first user is taken, and the first line
    /// about a name counts. Lines that begin with `#` are passed over. Gives also a sentence for
    /// each line that cannot be understood, which is left out.
    #[must_use]
    pub fn parse(text: &str) -> (Self, Vec<String>) {
        let mut map = HashMap::new();
        let faults = each_line(text, |words| {
            let [name, users] = words else {
                return Err("a name in quotes and a user are expected");
            };
            let user = users.split(',').next().unwrap_or_default();
            if !name.starts_with('/') || !is_user_name(user) {
                return Err("a name that begins with a slash, and the name of a user, are expected");
            }
            map.entry(dn::canonical(name)).or_insert_with(|| user.to_owned());
            Ok(())
        });
        (Self(map), faults)
    }

    /// The local user with this name in one line.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&dn::canonical(name)).map(String::as_str)
    }

    /// All users that it names.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(String::as_str)
    }

    /// How many names it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A map of attributes of VOMS to local users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VomsMap(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// A pattern of the whole name of the certificate; `None`: any.
    name: Option<String>,
    /// The parts of the pattern of the attribute.
    fqan: Vec<String>,
    user: String,
}

impl VomsMap {
    /// Reads a file with lines `"FQAN" user`, as XRootD's `voms.mapfile` has them, or `"DN" "FQAN"
    /// user`, as dCache's `vorolemap` has them. In an FQAN `*` stands for any text within one part,
    /// and as the last part for any number of further parts; in a DN for any text. Lines that begin
    /// with `#` are passed over. Gives also a sentence for each line that cannot be understood,
    /// which is left out.
    #[must_use]
    pub fn parse(text: &str) -> (Self, Vec<String>) {
        let mut rules = Vec::new();
        let faults = each_line(text, |words| {
            let (name, fqan, user) = match words {
                [fqan, user] => (None, fqan, user),
                [name, fqan, user] => (Some(dn::canonical(name)), fqan, user),
                _ => return Err("an attribute and a user are expected"),
            };
            if !fqan.starts_with('/') || !is_user_name(user) {
                return Err("an attribute that begins with a slash, and the name of a user, are expected");
            }
            rules.push(Rule {
                name: name.filter(|name| name != "*"),
                fqan: parts(fqan).map(str::to_owned).collect(),
                user: user.clone(),
            });
            Ok(())
        });
        (Self(rules), faults)
    }

    /// The local user for these attributes: the first attribute that a line matches decides, and
    /// for it the first line.
    #[must_use]
    pub fn user(&self, name: &str, fqans: &[String]) -> Option<&str> {
        let name = dn::canonical(name);
        let rule = fqans
            .iter()
            .find_map(|fqan| self.0.iter().find(|rule| rule.matches(&name, fqan)));
        rule.map(|rule| &*rule.user)
    }

    /// All users that it names.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|rule| &*rule.user)
    }

    /// How many lines it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Rule {
    fn matches(&self, name: &str, fqan: &str) -> bool {
        if self
            .name
            .as_deref()
            .is_some_and(|pattern| !matches_pattern(pattern, name))
        {
            return false;
        }
        let mut given = parts(fqan);
        for (index, pattern) in self.fqan.iter().enumerate() {
            let is_last = index + 1 == self.fqan.len();
            match given.next() {
                Some(_) if is_last && pattern == "*" => return true,
                Some(part) if matches_pattern(pattern, part) => {}
                _ => return false,
            }
        }
        given.next().is_none()
    }
}

fn parts(fqan: &str) -> impl Iterator<Item = &str> {
    plain_fqan(fqan).split('/').filter(|part| !part.is_empty())
}

/// Hands the words of each line to `take`; gives a sentence for each line that it does not take.
fn each_line(text: &str, mut take: impl FnMut(&[String]) -> Result<(), &'static str>) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if number == MAP_LINES_MAX {
            faults.push(format!("only the first {MAP_LINES_MAX} lines are read"));
            break;
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let taken = words(line)
            .ok_or("a quote is not closed")
            .and_then(|words| take(&words));
        if let Err(why) = taken {
            faults.push(format!("line {}: {why}", number + 1));
        }
    }
    faults
}

/// Words between blanks; quotes hold blanks together, a backslash in front of a quote means the
/// quote itself.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let Some(quoted) = rest.strip_prefix('"') else {
            let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            words.push(word.to_owned());
            rest = after.trim_start();
            continue;
        };
        let mut word = String::new();
        let mut characters = quoted.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (at, '\\') if quoted[at + 1..].starts_with('"') => {
                    characters.next();
                    word.push('"');
                }
                (_, character) => word.push(character),
            }
        };
        words.push(word);
        rest = quoted[end + 1..].trim_start();
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_map_is_read_in_all_its_spellings() {
        let text = "# users\n\"/DC=x/CN=Jane Doe\" jdoe,backup\n/DC=x/CN=plain other\n\
            \"/DC=x/Email=a@b\" mail\n\"/CN=\\xc3\\xa4\" umlaut\n\"/DC=x/CN=Jane Doe\" later\n\
            \"/DC=x/CN=broken\n/CN=none\n\"/CN=bad\" ../x\n";
        let (map, faults) = GridMap::parse(text);
        assert_eq!(map.user("/DC=x/CN=Jane Doe"), Some("jdoe"));
        assert_eq!(map.user("/DC=x/CN=plain"), Some("other"));
        assert_eq!(map.user("/DC=x/emailAddress=a@b"), Some("mail"));
        assert_eq!(map.user("/CN=\\xC3\\xA4"), Some("umlaut"));
        assert_eq!(map.user("/CN=ä"), Some("umlaut"));
        assert_eq!(map.user("/DC=x"), None);
        let lines: Vec<_> = faults.iter().map(|fault| &fault[..7]).collect();
        assert_eq!(lines, ["line 7:", "line 8:", "line 9:"]);
    }

    #[test]
    fn attributes_are_mapped_with_stars_in_either_format() {
        let text = "\"/atlas/Role=production/Capability=NULL\" prod\n\"/atlas/*/Role=NULL\" group\n/cms/* cms\n\
            \"/DC=x/*\" \"/lhcb\" lhcb\n\"*\" \"/dteam\" dteam\n";
        let (map, faults) = VomsMap::parse(text);
        assert_eq!(faults, Vec::<String>::new());
        for (fqans, user) in [
            (&["/atlas/Role=production"][..], Some("prod")),
            (&["/atlas/de"], Some("group")),
            (&["/atlas/de/x"], Some("group")),
            (&["/atlas"], None),
            (&["/cms"], None),
            (&["/cms/a/b/Role=x"], Some("cms")),
            (&["/lhcb"], Some("lhcb")),
            (&["/dteam", "/cms/a"], Some("dteam")),
            (&["/other", "/cms/a"], Some("cms")),
            (&["/dteamx"], None),
            (&[], None),
        ] {
            let fqans: Vec<String> = fqans.iter().map(|fqan| (*fqan).to_owned()).collect();
            assert_eq!(map.user("/DC=x/CN=y", &fqans), user, "{fqans:?}");
        }
        assert_eq!(map.user("/DC=z/CN=y", &["/lhcb".to_owned()]), None);
        assert_eq!(VomsMap::parse("atlas user\n\"/x\"\n").1.len(), 2);
    }
}
