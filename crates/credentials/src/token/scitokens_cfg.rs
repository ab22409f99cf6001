//! Reading an existing `scitokens.cfg` of XRootD's SciTokens plug-in, so that a site need not write
//! its issuers twice.
//!
//! It is an INI file: sections `[Global]` and `[Issuer NAME]`, others are passed over; of a key
//! that is given twice the last counts.

use serde_json::Value;
use types::LogicalPath;
use types::limits::ISSUERS_MAX;

use super::issuer::{IssuerRules, Strategy};

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SciTokensConfig {
    /// The audiences of this server.
    pub audiences: Vec<String>,
    /// The issuers, each with the name of its file of rules (`name_mapfile`), if it has one.
    pub issuers: Vec<(IssuerRules, Option<String>)>,
    /// What the file says that does not hold here, in plain words.
    pub remarks: Vec<String>,
}

/// One section with its keys.
struct Section<'a> {
    title: &'a str,
    line: usize,
    keys: Vec<(String, String)>,
}

impl Section<'_> {
    /// The last value of a key, if it is not empty.
    fn value(&self, name: &str) -> Option<&str> {
        let found = self.keys.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    fn flag(&self, name: &str) -> bool {
        let value = self.value(name).unwrap_or_default().to_ascii_lowercase();
        ["true", "yes", "on", "1"].contains(&value.as_str())
    }
}

impl SciTokensConfig {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Why it cannot be used, with the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut config = Self::default();
        for section in sections(text)? {
            match section.title.split_whitespace().next() {
                Some(word) if word.eq_ignore_ascii_case("global") => config.global(&section)?,
                Some(word) if word.eq_ignore_ascii_case("issuer") => {
                    let issuer =
                        issuer(&section).map_err(|why| format!("line {}: [{}]: {why}", section.line, section.title))?;
                    config.issuers.push(issuer);
                }
                _ => {}
            }
        }
        if config.issuers.len() > ISSUERS_MAX {
            return Err(format!("it names more than {ISSUERS_MAX} issuers"));
        }
        Ok(config)
    }

    fn global(&mut self, section: &Section<'_>) -> Result<(), String> {
        if let Some(list) = section.value("audience_json") {
            let parsed = serde_json::from_str::<Value>(list).ok();
            let audiences = parsed
                .as_ref()
                .and_then(Value::as_array)
                .and_then(|list| super::claims::list_of_texts(list));
            let why = || format!("line {}: audience_json is not a list of texts in JSON", section.line);
            self.audiences = audiences.ok_or_else(why)?;
        } else if let Some(list) = section.value("audience") {
            self.audiences = words(list);
        }
        match section.value("onmissing").map(str::to_ascii_lowercase).as_deref() {
            None | Some("passthrough") => {}
            Some(other) => {
                self.remarks.push(format!(
                    "onmissing = {other} is not taken over: what may be done without a token is said in [[export]]"
                ));
            }
        }
        Ok(())
    }
}

fn sections(text: &str) -> Result<Vec<Section<'_>>, String> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (line, number) = (line.trim(), index + 1);
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let title = rest.split(']').next().unwrap_or_default().trim();
            sections.push(Section {
                title,
                line: number,
                keys: Vec::new(),
            });
            continue;
        }
        let (Some((key, value)), Some(section)) = (line.split_once(['=', ':']), sections.last_mut()) else {
            return Err(format!(
                "line {number}: neither a [section] nor a key with a value in one"
            ));
        };
        let value = value.split(" ;").next().unwrap_or_default().trim();
        section.keys.push((key.trim().to_ascii_lowercase(), value.to_owned()));
    }
    Ok(sections)
}

/// Divides a list at commas and blanks.
fn words(list: &str) -> Vec<String> {
    let divided = list.split(|character: char| character == ',' || character.is_whitespace());
    divided.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn paths(list: &str) -> Result<Vec<LogicalPath>, String> {
    words(list)
        .iter()
        .map(|word| LogicalPath::parse(word).map_err(|_| format!("\"{word}\" is not an absolute path")))
        .collect()
}

fn issuer(section: &Section<'_>) -> Result<(IssuerRules, Option<String>), String> {
    let needed = |name: &str| section.value(name).ok_or_else(|| format!("\"{name}\" is missing"));
    let mut issuer = IssuerRules::new(needed("issuer")?);
    if !issuer.url.starts_with("https://") {
        return Err(format!("the issuer {} is not an https URL", issuer.url));
    }
    issuer.base_paths = paths(needed("base_path")?)?;
    issuer.restricted_paths = section.value("restricted_path").map_or(Ok(Vec::new()), paths)?;
    issuer.map_subject = section.flag("map_subject");
    issuer.default_user = section.value("default_user").map(str::to_owned);
    issuer.username_claim = section.value("username_claim").map(str::to_owned);
    if let Some(claim) = section.value("groups_claim") {
        claim.clone_into(&mut issuer.groups_claim);
    }
    if let Some(list) = section.value("authorization_strategy") {
        issuer.strategy = Strategy::parse(words(list).iter().map(String::as_str))?;
    }
    Ok((issuer, section.value("name_mapfile").map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
# our issuers
[Global]
audience = https://se.example.org, se.example.org
onmissing = deny

[Issuer OSG-Connect]
issuer = https://scitokens.org/osg-connect
base_path = /stash
map_subject = True

[Issuer CMS]
issuer = https://cms-auth.web.cern.ch/
base_path = /user/cms /store ; two
base_path = /cms, /cms2
restricted_path = /public
name_mapfile = /etc/xrootd/map.json
default_user = cmsuser
authorization_strategy = capability mapping

[Something else]
issuer = nonsense
";

    #[test]
    fn a_file_of_xrootd_is_understood() {
        let config = SciTokensConfig::parse(SAMPLE).unwrap();
        assert_eq!(config.audiences, ["https://se.example.org", "se.example.org"]);
        assert_eq!((config.issuers.len(), config.remarks.len()), (2, 1));
        let (osg, map) = &config.issuers[0];
        assert!(osg.map_subject && map.is_none() && osg.strategy == Strategy::ALL);
        let (cms, map) = &config.issuers[1];
        let bases: Vec<&str> = cms.base_paths.iter().map(LogicalPath::as_str).collect();
        assert_eq!(bases, ["/cms", "/cms2"]);
        assert_eq!(map.as_deref(), Some("/etc/xrootd/map.json"));
        assert_eq!(cms.default_user.as_deref(), Some("cmsuser"));
        assert!(!cms.strategy.group && cms.strategy.capability && cms.groups_claim == "wlcg.groups");
        let json = SciTokensConfig::parse("[Global]\naudience_json = [\"a b\", \"c\"]\n").unwrap();
        assert_eq!(json.audiences, ["a b", "c"]);
    }

    #[test]
    fn faults_are_told_with_their_line() {
        for (text, words) in [
            ("issuer = x", "line 1"),
            (
                "[Issuer a]\nbase_path = /a",
                "line 1: [Issuer a]: \"issuer\" is missing",
            ),
            (
                "\n[Issuer a]\nissuer = https://i",
                "line 2: [Issuer a]: \"base_path\" is missing",
            ),
            ("[Issuer a]\nissuer = http://i\nbase_path = /", "not an https URL"),
            ("[Issuer a]\nissuer = https://i\nbase_path = a", "not an absolute path"),
            (
                "[Issuer a]\nissuer = https://i\nbase_path = /\nauthorization_strategy = all",
                "\"all\"",
            ),
            ("[Global]\naudience_json = a", "audience_json"),
            ("[Global]\nnothing", "line 2"),
        ] {
            let why = SciTokensConfig::parse(text).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
