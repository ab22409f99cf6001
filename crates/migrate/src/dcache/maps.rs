//! The files of gPlazma that say who is who: `grid-vorolemap`, `grid-mapfile`, `multi-mapfile`,
//! `storage-authzdb` and `dcache.kpwd`.

use crate::limits::LINES_MAX;
use crate::source::Source;

/// A name in dCache's words, `kind:value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    /// `dn`, `fqan`, `username`, `uid`, `gid`, `oidc`, …
    pub(crate) kind: String,
    pub(crate) value: String,
}

impl Principal {
    pub(crate) fn new(kind: &str, value: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            value: value.to_owned(),
        }
    }

    /// Reads `kind:value`.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let (kind, value) = word.split_once(':')?;
        let value = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(value);
        (!kind.is_empty() && !value.is_empty()).then(|| Self::new(kind, value))
    }
}

/// A line of a map, or one that is not understood.
pub(crate) type Read<T> = Result<T, Source>;

/// A name, what it is mapped to, and the line that says so.
pub(crate) type Mapped = (Principal, Vec<Principal>, Source);

/// A line of `grid-vorolemap` or `grid-mapfile`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameLine {
    /// The name of a certificate, or a pattern.
    pub(crate) dn: String,
    /// The attribute; `None` in a `grid-mapfile`, and for all attributes.
    pub(crate) fqan: Option<String>,
    /// The name that it is mapped to; `-` for no access.
    pub(crate) user: String,
    pub(crate) source: Source,
}

/// A line of `multi-mapfile`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MultiLine {
    pub(crate) of: Principal,
    pub(crate) to: Vec<Principal>,
    pub(crate) source: Source,
}

/// An account of `storage-authzdb` or `dcache.kpwd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) is_read_only: bool,
    pub(crate) uid: String,
    pub(crate) gids: Vec<String>,
    pub(crate) root: String,
    pub(crate) source: Source,
}

/// Words between blanks; quotes hold blanks together and are dropped. `None`: a quote is open.
pub(crate) fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            blank if blank.is_whitespace() && !is_quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    (!is_quoted).then_some(words)
}

/// Lines with something on them, and their words.
fn lines<'a>(file: &'a str, text: &'a str) -> impl Iterator<Item = (Source, Option<Vec<String>>)> + 'a {
    let numbered = text.lines().take(LINES_MAX).enumerate();
    let said = numbered.filter(|(_, line)| !line.trim().is_empty() && !line.trim().starts_with('#'));
    said.map(move |(index, line)| (Source::new(file, index + 1, line), words(line)))
}

/// Reads a `grid-vorolemap`: DN, FQAN and name, or DN and name for all attributes.
pub(crate) fn role_map(file: &str, text: &str) -> Vec<Read<NameLine>> {
    let line = |(source, words): (Source, Option<Vec<String>>)| {
        let (dn, fqan, user) = match words.as_deref() {
            Some([dn, user]) => (dn, None, user),
            Some([dn, fqan, user]) => (dn, Some(fqan.clone()), user),
            Some([dn, fqan, user, rest, ..]) if rest.starts_with('#') => (dn, Some(fqan.clone()), user),
            _ => return Err(source),
        };
        Ok(NameLine {
            dn: dn.clone(),
            fqan: fqan.filter(|fqan| !fqan.is_empty()),
            user: user.clone(),
            source,
        })
    };
    lines(file, text).map(line).collect()
}

/// Reads a `grid-mapfile`: a DN and names. Only the first name counts.
pub(crate) fn grid_map(file: &str, text: &str) -> Vec<Read<NameLine>> {
    let line = |(source, words): (Source, Option<Vec<String>>)| match words.as_deref() {
        Some([dn, user, ..]) => Ok(NameLine {
            dn: dn.clone(),
            fqan: None,
            user: user.split(',').next().unwrap_or_default().to_owned(),
            source,
        }),
        _ => Err(source),
    };
    lines(file, text).map(line).collect()
}

/// Reads a `multi-mapfile`.
pub(crate) fn multi_map(file: &str, text: &str) -> Vec<Read<MultiLine>> {
    let line = |(source, words): (Source, Option<Vec<String>>)| {
        let words = words.unwrap_or_default();
        let principals: Option<Vec<Principal>> = words.iter().map(|word| Principal::parse(word)).collect();
        let Some([of, to @ ..]) = principals.as_deref().filter(|all| all.len() > 1) else {
            return Err(source);
        };
        Ok(MultiLine {
            of: of.clone(),
            to: to.to_vec(),
            source,
        })
    };
    lines(file, text).map(line).collect()
}

/// Reads a `storage-authzdb`.
pub(crate) fn authzdb(file: &str, text: &str) -> Vec<Read<Account>> {
    let mut accounts = Vec::new();
    for (source, words) in lines(file, text) {
        match words.as_deref() {
            Some([first, ..]) if first == "version" => {}
            Some([first, rest @ ..]) if first.eq_ignore_ascii_case("authorize") => accounts.push(account(rest, source)),
            _ => accounts.push(Err(source)),
        }
    }
    accounts
}

/// NAME, read-only or read-write, UID, GIDs, home and root.
fn account(words: &[String], source: Source) -> Read<Account> {
    let [name, access, uid, gids, _home, root, ..] = words else {
        return Err(source);
    };
    let gids: Vec<String> = gids.split(',').map(str::to_owned).collect();
    if !is_number(uid) || !gids.iter().all(|gid| is_number(gid)) {
        return Err(source);
    }
    Ok(Account {
        name: name.clone(),
        is_read_only: !access.eq_ignore_ascii_case("read-write"),
        uid: uid.clone(),
        gids,
        root: root.clone(),
        source,
    })
}

/// Reads a `dcache.kpwd`: accounts, names of certificates with their accounts, and how many
/// accounts have a password.
pub(crate) fn kpwd(file: &str, text: &str) -> (Vec<Account>, Vec<NameLine>, usize) {
    let (mut accounts, mut names, mut passwords) = (Vec::new(), Vec::new(), 0);
    for (source, words) in lines(file, text) {
        match words.as_deref() {
            Some([first, rest @ ..]) if first == "login" => accounts.extend(account(rest, source)),
            Some([first, dn, user]) if first == "mapping" && dn.starts_with('/') => names.push(NameLine {
                dn: dn.clone(),
                fqan: None,
                user: user.clone(),
                source,
            }),
            Some([first, ..]) if first == "passwd" => passwords += 1,
            _ => {}
        }
    }
    (accounts, names, passwords)
}

/// Whether a text is a number of a user or group.
pub(crate) fn is_number(text: &str) -> bool {
    text.parse::<u32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_quotes_may_have_blanks() {
        let text = "# c\n\"/DC=x/CN=Jane Doe\" \"/vo/Role=prod\" prod\n\"*\" \"/vo\" vo # all\n* plain\nbroken \"\n";
        let read = role_map("m", text);
        let lines: Vec<_> = read
            .iter()
            .flatten()
            .map(|line| (&*line.dn, line.fqan.as_deref(), &*line.user))
            .collect();
        let expected = [
            ("/DC=x/CN=Jane Doe", Some("/vo/Role=prod"), "prod"),
            ("*", Some("/vo"), "vo"),
            ("*", None, "plain"),
        ];
        assert_eq!(lines, expected);
        assert_eq!(read[3].as_ref().unwrap_err().line, 5);
        let grid = grid_map("g", "\"/CN=a b\" one,two\n/CN=c\n");
        assert_eq!(grid[0].as_ref().unwrap().user, "one");
        assert!(grid[1].is_err());
    }

    #[test]
    fn accounts_have_numbers_and_a_root() {
        let text = "version 2.1\nauthorize prod read-write 1000 100,200 / /data /\nAUTHORIZE ro read-only 7 8 / / /\n\
            authorize bad read-write x 1 / / /\nauthorize short\n";
        let read = authzdb("a", text);
        let first = read[0].as_ref().unwrap();
        assert_eq!(
            (first.is_read_only, first.gids.len(), &*first.root),
            (false, 2, "/data")
        );
        assert!(read[1].as_ref().unwrap().is_read_only && read[2].is_err() && read[3].is_err());
        let (accounts, names, passwords) = kpwd(
            "k",
            "version 2.1\nmapping \"/CN=a b\" ann\nlogin ann read-only 5 6 / / /\n  /CN=a b\npasswd bob 1234abcd read-write 1 1 / /\n",
        );
        assert_eq!((accounts.len(), names[0].user.as_str(), passwords), (1, "ann", 1));
    }

    #[test]
    fn lines_of_a_multi_map_have_one_name_and_what_it_becomes() {
        let text = "\"dn:/CN=a b\" username:ann uid:1 gid:2,true\nop:wlcg uid:3\nfqan:/x\nnone uid:1\n";
        let read = multi_map("m", text);
        let first = read[0].as_ref().unwrap();
        assert_eq!(first.of, Principal::new("dn", "/CN=a b"));
        assert_eq!(first.to[2], Principal::new("gid", "2,true"));
        assert!(read[1].is_ok() && read[2].is_err() && read[3].is_err());
    }
}
