//! Credentials that the service manager passes (`LoadCredential=` of systemd), in place of file
//! names: `credential:NAME`.

use std::borrow::Cow;
use std::path::Path;

use toml::Spanned;
use toml::de::DeValue;

use crate::section::{DeTable, Fault, Section};

/// How the name of a credential begins.
const PREFIX: &str = "credential:";

/// Puts the paths of credentials in place of their names, in keys that name files. `directory` is
/// where the manager shows them.
pub(crate) fn resolve(root: &mut DeTable<'_>, sections: &[Section], directory: Option<&Path>, faults: &mut Vec<Fault>) {
    for section in sections {
        let Some(value) = root.get_mut(section.name) else {
            continue;
        };
        let tables = match value.get_mut() {
            DeValue::Table(table) => vec![table],
            DeValue::Array(list) => list.iter_mut().filter_map(table_of).collect(),
            _ => continue,
        };
        for table in tables {
            for key in section.keys.iter().filter(|key| key.facts.file.is_some()) {
                let Some(value) = table.get_mut(key.name) else {
                    continue;
                };
                let mut mistakes = Vec::new();
                replace(value, directory, &mut mistakes);
                faults.extend(mistakes.into_iter().map(|(offset, words)| Fault {
                    offset,
                    key: format!("{}.{}", section.name, key.name),
                    words: format!("{}: {words}", key.name),
                }));
            }
        }
    }
}

fn table_of<'v, 'a>(item: &'v mut Spanned<DeValue<'a>>) -> Option<&'v mut DeTable<'a>> {
    match item.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

/// Replaces the names in a value, and collects the mistakes with their offsets.
fn replace(value: &mut Spanned<DeValue<'_>>, directory: Option<&Path>, mistakes: &mut Vec<(usize, String)>) {
    let offset = value.span().start;
    match value.get_mut() {
        DeValue::String(text) => {
            let path = text.strip_prefix(PREFIX).map(|name| path_of(name, directory));
            match path {
                Some(Ok(path)) => *text = Cow::Owned(path),
                Some(Err(words)) => mistakes.push((offset, words)),
                None => {}
            }
        }
        DeValue::Array(list) => list.iter_mut().for_each(|item| replace(item, directory, mistakes)),
        DeValue::Table(table) => {
            for (_, item) in table.iter_mut() {
                replace(item, directory, mistakes);
            }
        }
        _ => {}
    }
}

fn path_of(name: &str, directory: Option<&Path>) -> Result<String, String> {
    if name.is_empty() || name.contains('/') || matches!(name, "." | "..") {
        return Err(format!(
            "\"{PREFIX}{name}\" is no name of a credential; write the name that stands before the colon in \
             LoadCredential= of the unit"
        ));
    }
    let Some(directory) = directory else {
        return Err(format!(
            "\"{PREFIX}{name}\" is a credential, and CREDENTIALS_DIRECTORY is not set; add LoadCredential={name}:FILE \
             to the unit, and set the variable to /run/credentials/UNIT outside of the unit"
        ));
    };
    let path = directory.join(name);
    // Commands beside the main one of a unit may know the directory and not see it.
    if directory.is_dir() && !path.exists() {
        return Err(format!(
            "the unit passes no credential \"{name}\"; add LoadCredential={name}:FILE to its section [Service]"
        ));
    }
    let path = path.into_os_string().into_string();
    path.map_err(|_| "CREDENTIALS_DIRECTORY is no text in UTF-8; correct it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configuration;

    /// What a configuration with this text says, with a directory that has `key` and `token`.
    fn loaded(text: &str) -> Result<(tempfile::TempDir, Configuration), String> {
        let site = tempfile::tempdir().unwrap();
        for name in ["key", "token"] {
            std::fs::write(site.path().join(name), "").unwrap();
        }
        let main = site.path().join("c.toml");
        std::fs::write(&main, text).unwrap();
        match Configuration::load_with_sources(&main, Some(site.path())) {
            Ok((configuration, _)) => Ok((site, configuration)),
            Err(faults) => Err(faults.to_string()),
        }
    }

    #[test]
    fn credentials_stand_for_files_wherever_one_is_named() {
        let text = "[server]\ncertificate = \"a.pem\"\nkey = \"credential:key\"\n[macaroons]\nsecret_file = \"s\"\n\
            old_secret_files = [\"credential:key\", \"o\"]\n[[queue.hops]]\nurls = [\"davs://h/hop\"]\n\
            token_file = \"credential:token\"\n[[export]]\npath = \"/a\"\ndirectory = \"credential:key\"\n";
        let (site, configuration) = loaded(text).unwrap();
        let at = |name: &str| site.path().join(name);
        assert_eq!(configuration.server.key, Some(at("key")));
        assert_eq!(configuration.server.certificate, Some(at("a.pem")));
        assert_eq!(configuration.macaroons.old_secret_files, [at("key"), at("o")]);
        assert_eq!(configuration.queue.hops[0].token_file, Some(at("token")));
        assert_eq!(configuration.exports[0].directory, Some(at("key")));
        // Only file names are replaced.
        let (_site, configuration) = loaded("[queue]\nworker = \"credential:key\"\n").unwrap();
        assert_eq!(configuration.queue.worker.as_deref(), Some("credential:key"));
    }

    #[test]
    fn a_missing_credential_is_named_with_its_line_and_what_to_add() {
        let told = |name: &str| loaded(&format!("[macaroons]\n\nsecret_file = \"credential:{name}\"\n")).unwrap_err();
        let words = told("other");
        assert!(
            words.contains("c.toml:3: secret_file: the unit passes no credential \"other\"; "),
            "{words}"
        );
        assert!(words.contains("LoadCredential=other:FILE"), "{words}");
        for name in ["", "a/b", ".."] {
            assert!(told(name).contains("is no name of a credential"), "{name}");
        }
        let words = path_of("key", None).unwrap_err();
        assert!(words.contains("CREDENTIALS_DIRECTORY is not set"), "{words}");
        // A directory that cannot be seen is left to those who open the file.
        let path = path_of("key", Some(Path::new("/nowhere/credentials"))).unwrap();
        assert_eq!(path, "/nowhere/credentials/key");
    }
}
