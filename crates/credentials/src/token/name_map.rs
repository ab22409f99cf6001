//! Mapping the names in a token to local users, as the `name_mapfile` of XRootD's SciTokens plug-in
//! does: a JSON list of rules. The first rule whose conditions are all met applies.

use crate::limits::NAME_MAP_RULES_MAX;
use serde_json::Value;

use crate::credential::is_user_name;

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    subject: Option<String>,
    username: Option<String>,
    group: Option<String>,
    user: String,
}

/// The rules of one issuer, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NameMap(Vec<Rule>);

impl NameMap {
    /// Reads a file. Rules with `ignore` are left out, and so are those for one `path` only, since
    /// an identity does not depend on the request here; the second value says which these were.
    ///
    /// # Errors
    /// The text is not such a list, a rule has no sound `result`, or something in it is not known.
    pub fn parse(text: &str) -> Result<(Self, Vec<String>), String> {
        let Ok(Value::Array(list)) = serde_json::from_str::<Value>(text) else {
            return Err("it is not a JSON list of rules".to_owned());
        };
        if list.len() > NAME_MAP_RULES_MAX {
            return Err(format!("it has more than {NAME_MAP_RULES_MAX} rules"));
        }
        let (mut rules, mut left_out) = (Vec::new(), Vec::new());
        for (index, entry) in list.iter().enumerate() {
            let number = index + 1;
            match read_rule(entry).map_err(|why| format!("rule {number}: {why}"))? {
                Entry::Rule(rule) => rules.push(rule),
                Entry::Ignored => {}
                Entry::ForPath => left_out.push(format!("rule {number} is for one path only and is left out")),
            }
        }
        Ok((Self(rules), left_out))
    }

    /// The local user for a token with these names.
    #[must_use]
    pub fn user(&self, subject: Option<&str>, username: Option<&str>, groups: &[String]) -> Option<&str> {
        let meets =
            |wanted: &Option<String>, is: Option<&str>| wanted.as_deref().is_none_or(|wanted| is == Some(wanted));
        let in_group = |wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| groups.contains(wanted));
        let rule = self
            .0
            .iter()
            .find(|rule| meets(&rule.subject, subject) && meets(&rule.username, username) && in_group(&rule.group));
        rule.map(|rule| rule.user.as_str())
    }
}

enum Entry {
    Rule(Rule),
    Ignored,
    ForPath,
}

fn read_rule(entry: &Value) -> Result<Entry, String> {
    let Value::Object(members) = entry else {
        return Err("it is not an object".to_owned());
    };
    if members.contains_key("ignore") {
        return Ok(Entry::Ignored);
    }
    let text = |name: &str| match members.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("\"{name}\" is not a text")),
    };
    // A condition that is overlooked would make a rule hold for more people than was meant.
    if let Some(name) = members.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(format!("\"{name}\" is not known"));
    }
    let user = text("result")?.ok_or("it has no \"result\"")?;
    if !is_user_name(&user) {
        return Err("its \"result\" is no name of a user".to_owned());
    }
    if text("path")?.is_some_and(|path| path != "/") {
        return Ok(Entry::ForPath);
    }
    Ok(Entry::Rule(Rule {
        subject: text("sub")?,
        username: text("username")?,
        group: text("group")?,
        user,
    }))
}

const KNOWN: [&str; 7] = ["sub", "username", "path", "group", "result", "ignore", "comment"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_whose_conditions_are_all_met_counts() {
        let text = r#"[
            {"sub": "bbockelm", "path": "/home", "result": "bbockelm"},
            {"group": "/cms/prod", "sub": "p", "result": "cmsprod", "comment": "production"},
            {"group": "/cms", "result": "cms"},
            {"sub": "gone", "result": "x", "ignore": "left"},
            {"username": "ann", "result": "ann.local"}]"#;
        let (map, left_out) = NameMap::parse(text).unwrap();
        assert_eq!(left_out.len(), 1);
        let groups = |list: &[&str]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
        assert_eq!(
            map.user(Some("p"), None, &groups(&["/cms", "/cms/prod"])),
            Some("cmsprod")
        );
        assert_eq!(map.user(Some("q"), None, &groups(&["/cms", "/cms/prod"])), Some("cms"));
        assert_eq!(map.user(Some("gone"), Some("ann"), &[]), Some("ann.local"));
        assert_eq!(map.user(Some("gone"), None, &groups(&["/cmsx"])), None);
    }

    #[test]
    fn a_rule_that_is_not_understood_spoils_the_file() {
        for text in [
            "{}",
            "[1]",
            r#"[{"sub":"a"}]"#,
            r#"[{"sub":1,"result":"a"}]"#,
            r#"[{"subject":"a","result":"a"}]"#,
            r#"[{"sub":"a","result":"../a"}]"#,
            r#"[{"sub":"a","result":"-a"}]"#,
        ] {
            assert!(NameMap::parse(text).is_err(), "{text}");
        }
    }
}
