//! `scitokens.cfg` as `[tokens]` and `[[issuer]]`. [`credentials::SciTokensConfig`] reads it,
//! section by section, so that one that cannot be used leaves the others.

use credentials::{IssuerRules, SciTokensConfig};
use toml::Value;
use types::LogicalPath;

use super::facts::{Facts, Named};
use crate::document::DocumentKind;
use crate::source::Source;

/// The keys that are understood.
const KEYS: [&str; 12] = [
    "audience",
    "audience_json",
    "onmissing",
    "issuer",
    "base_path",
    "restricted_path",
    "map_subject",
    "default_user",
    "username_claim",
    "groups_claim",
    "name_mapfile",
    "authorization_strategy",
];

/// A section with its lines.
#[derive(Debug, Default)]
struct Section<'a> {
    title: String,
    line: usize,
    /// Number, key and text of each line with a key.
    keys: Vec<(usize, String, &'a str)>,
}

impl Section<'_> {
    fn text(&self) -> String {
        let lines = self.keys.iter().map(|(_, _, line)| format!("{line}\n"));
        format!("[{}]\n{}", self.title, lines.collect::<String>())
    }

    /// The line of a key; that of the section, if the key is not there.
    fn source(&self, file: &str, key: &str) -> Source {
        match self.keys.iter().rev().find(|(_, name, _)| name == key) {
            Some((line, _, text)) => Source::new(file, *line, text),
            None => self.head(file),
        }
    }

    fn head(&self, file: &str) -> Source {
        Source::new(file, self.line, &format!("[{}]", self.title))
    }

    fn value(&self, key: &str) -> Option<String> {
        let (_, _, line) = self.keys.iter().rev().find(|(_, name, _)| name == key)?;
        let (_, value) = line.split_once(['=', ':'])?;
        Some(value.split(" ;").next().unwrap_or_default().trim().to_ascii_lowercase())
    }
}

impl Facts<'_> {
    /// The issuers of which every client must show a token, if that is so; the issuers are written.
    pub(super) fn demanded_issuers(&mut self) -> Option<Vec<String>> {
        let config = self.scitokens.clone();
        let demanded = config.and_then(|config| self.issuers(&config));
        match self.macaroon_demanded {
            true => demanded.or_else(|| Some(self.issuers.clone())),
            false => demanded,
        }
    }

    /// Writes the issuers. Gives them if every client must show a token of theirs (`onmissing =
    /// deny`), or may have to.
    pub(super) fn issuers(&mut self, config: &Named) -> Option<Vec<String>> {
        let text = match self.files.text(config.value.as_ref()) {
            Ok(text) => text,
            Err(unreadable) => {
                let words = format!(
                    "{} cannot be read: no tokens are accepted, and rules give nothing, as it may demand a token: {}",
                    config.value, unreadable.cause
                );
                let advice = "Copy it here under the same name, or set [tokens] scitokens_file";
                self.migration.in_part(&config.source, words, advice);
                return Some(Vec::new());
            }
        };
        self.migration.taken(&config.source, "its issuers are [[issuer]]s");
        let mut demands = false;
        for section in sections(&text) {
            let file = &config.value;
            for (line, key, text) in section.keys.iter().filter(|(_, key, _)| !KEYS.contains(&key.as_str())) {
                let source = Source::new(file, *line, text);
                self.migration
                    .unknown(&source, format!("{key} is unknown"), "Look whether it is misspelled");
            }
            let kind = section
                .title
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase();
            match (kind.as_str(), SciTokensConfig::parse(&section.text())) {
                ("global", Ok(read)) => demands |= self.global(&read, &section, file),
                ("issuer", Ok(read)) => {
                    for (rules, map) in read.issuers {
                        self.issuers.push(rules.url.clone());
                        self.issuer(&rules, map, &section, file);
                    }
                }
                (kind @ ("global" | "issuer"), Err(why)) => {
                    demands |= kind == "global";
                    // The line in it counts from the section.
                    let why = why.split_once(": ").map_or(why.as_str(), |(_, why)| why);
                    let advice = "Write it by hand: tokens that need it are refused until then";
                    self.migration
                        .in_part(&section.head(file), format!("cannot be used: {why}"), advice);
                }
                _ => self.migration.unknown(
                    &section.head(file),
                    "is no section of this file",
                    "Look whether it is misspelled",
                ),
            }
        }
        demands.then(|| self.issuers.clone())
    }

    /// `[Global]`; gives whether clients without a token may do nothing.
    fn global(&mut self, read: &SciTokensConfig, section: &Section<'_>, file: &str) -> bool {
        if !read.audiences.is_empty() {
            let key = if section.value("audience_json").is_some() {
                "audience_json"
            } else {
                "audience"
            };
            self.take_as("tokens.audiences", read.audiences.clone(), &section.source(file, key));
        }
        let source = section.source(file, "onmissing");
        match section.value("onmissing").as_deref() {
            None => false,
            Some("passthrough") => {
                self.migration.taken(&source, "rules hold for requests without a token");
                false
            }
            Some("deny") => {
                let words = "rules give rights to holders of tokens of these issuers only";
                let advice = "Write rules for others, if they shall do something without a token";
                self.migration.in_part(&source, words, advice);
                true
            }
            Some(_) => {
                let words = "what it allows without a token is not allowed here";
                let advice = "Set anonymous in [[export]], or write a [[rule]] for anyone";
                self.migration.in_part(&source, words, advice);
                false
            }
        }
    }

    fn issuer(&mut self, rules: &IssuerRules, map: Option<String>, section: &Section<'_>, file: &str) {
        let paths = |paths: &[LogicalPath]| {
            paths
                .iter()
                .map(|path| path.as_str().to_owned())
                .collect::<Vec<String>>()
        };
        let from = |key: &str| section.source(file, key);
        let strategy = rules.strategy;
        let counted = [
            ("capability", strategy.capability),
            ("group", strategy.group),
            ("mapping", strategy.mapping),
        ];
        let counted: Vec<&str> = counted
            .iter()
            .filter(|(_, counts)| *counts)
            .map(|(name, _)| *name)
            .collect();
        let is_mapped = rules.map_subject || rules.default_user.is_some() || map.is_some();
        let texts: [(&str, &str, Option<Value>); 9] = [
            ("url", "issuer", Some(rules.url.as_str().into())),
            ("base_paths", "base_path", Some(paths(&rules.base_paths).into())),
            (
                "restricted_paths",
                "restricted_path",
                (!rules.restricted_paths.is_empty()).then(|| paths(&rules.restricted_paths).into()),
            ),
            (
                "strategy",
                "authorization_strategy",
                (counted.len() < 3).then(|| counted.into()),
            ),
            (
                "groups_claim",
                "groups_claim",
                (rules.groups_claim != IssuerRules::GROUPS_CLAIM).then(|| rules.groups_claim.as_str().into()),
            ),
            (
                "username_claim",
                "username_claim",
                rules.username_claim.clone().map(Value::from),
            ),
            ("map_subject", "map_subject", rules.map_subject.then(|| true.into())),
            (
                "default_user",
                "default_user",
                rules.default_user.clone().map(Value::from),
            ),
            ("name_map_file", "name_mapfile", map.map(Value::from)),
        ];
        let issuer = self.migration.document(DocumentKind::Endpoint).add("issuer");
        for (key, theirs, value) in texts {
            if let Some(value) = value {
                issuer.set(key, value, &from(theirs));
            }
        }
        for (line, key, text) in section.keys.iter().filter(|(_, key, _)| KEYS.contains(&key.as_str())) {
            let words = format!("{key} is in [[issuer]]");
            self.migration.taken(&Source::new(file, *line, text), words);
        }
        if is_mapped {
            self.mappings.push(section.head(file));
        }
    }
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut found: Vec<Section<'_>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            found.push(Section {
                title: rest.split(']').next().unwrap_or_default().trim().to_owned(),
                line: index + 1,
                keys: Vec::new(),
            });
            continue;
        }
        if found.is_empty() {
            found.push(Section {
                line: index + 1,
                ..Section::default()
            });
        }
        let key = line
            .split(['=', ':'])
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        if let Some(section) = found.last_mut() {
            section.keys.push((index + 1, key, line));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::InMemory;

    #[test]
    fn each_issuer_is_a_section_and_a_wrong_one_leaves_the_others() {
        let config = "\
[Global]
audience = https://se.example, se.example
onmissing = deny
[Issuer a]
issuer = https://a.example/
base_path = /a, /b
map_subject = true
authorization_strategy = capability mapping
[Issuer b]
issuer = http://b.example
base_path = /b
[Issuer c]
issuer = https://c.example
base_path = /c
fly = high
";
        let files = InMemory::default().with("/s.cfg", config);
        let mut facts = Facts::new("x.cfg", &files);
        let demanded = facts.issuers(&Named::new("/s.cfg", &Source::of_file("x.cfg")));
        assert_eq!(
            demanded,
            Some(vec!["https://a.example/".to_owned(), "https://c.example".to_owned()])
        );
        let document = facts.migration.document(DocumentKind::Endpoint);
        let text = document.render("x");
        assert_eq!(document.mistakes(&text, std::path::Path::new("/etc")), [], "{text}");
        for words in [
            "# from /s.cfg:2: audience = https://se.example, se.example\naudiences = [",
            "# from /s.cfg:6: base_path = /a, /b\nbase_paths = [\"/a\", \"/b\"]",
            "strategy = [\"capability\", \"mapping\"]",
            "map_subject = true",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let remarks: Vec<String> = facts.migration.remarks.iter().map(crate::Remark::line).collect();
        assert!(
            remarks
                .iter()
                .any(|line| line.starts_with("/s.cfg:9: ") && line.contains("https URL")),
            "{remarks:#?}"
        );
        assert!(
            remarks
                .iter()
                .any(|line| line.starts_with("/s.cfg:15: ") && line.contains("unknown"))
        );
        assert_eq!(facts.mappings.len(), 1);
    }
}
