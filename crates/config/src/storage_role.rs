//! What storages can do in third-party copies, as a value of `[queue]`.

use std::path::Path;

use toml::de::DeValue;

use crate::values::Setting;

/// Part of a storage in third-party copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyRole {
    /// It fetches and sends.
    Full,
    /// It fetches.
    Pull,
    /// It sends.
    Push,
    /// Neither: others fetch from it and send to it.
    None,
}

impl CopyRole {
    const ALL: [(&'static str, Self); 4] = [
        ("full", Self::Full),
        ("pull", Self::Pull),
        ("push", Self::Push),
        ("none", Self::None),
    ];
}

/// What operators say of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStorage {
    /// The storage, with or without its port, or `*`.
    pub name: String,
    /// Its part in third-party copies.
    pub third_party: CopyRole,
}

impl Setting for QueueStorage {
    const KIND: &'static str = "a table with name and third_party";

    fn read(value: &DeValue<'_>, base: &Path) -> Result<Self, String> {
        let table = value
            .as_table()
            .ok_or_else(|| format!("expected {}, found {}", Self::KIND, value.type_str()))?;
        let (mut name, mut role) = (None, None);
        for (key, value) in table {
            let text = String::read(value.get_ref(), base).map_err(|words| format!("{}: {words}", key.get_ref()))?;
            match &**key.get_ref() {
                "name" if text == "*" || text.contains("://") => name = Some(text.to_ascii_lowercase()),
                "name" => return Err(format!("name: \"{text}\" is no storage, such as \"davs://host:443\"")),
                "third_party" => {
                    let found = CopyRole::ALL.iter().find(|(word, _)| *word == text);
                    let unknown = || format!("third_party: \"{text}\" is not full, pull, push or none");
                    role = Some(found.ok_or_else(unknown)?.1);
                }
                other => return Err(format!("unknown key \"{other}\": {}", Self::KIND)),
            }
        }
        match (name, role) {
            (Some(name), Some(third_party)) => Ok(Self { name, third_party }),
            _ => Err(format!("expected {}", Self::KIND)),
        }
    }

    fn write(&self) -> Option<String> {
        let (word, _) = CopyRole::ALL.iter().find(|(_, role)| *role == self.third_party)?;
        Some(format!("{{ name = {}, third_party = \"{word}\" }}", self.name.write()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configuration;

    #[test]
    fn roles_are_tables_of_the_queue() {
        let read = |lines: &str| {
            let text = format!("[[queue.storages]]\n{lines}\n");
            let parsed = Configuration::parse(&text, Path::new(""), "test");
            parsed
                .map(|configuration| configuration.queue.storages)
                .map_err(|faults| faults.to_string())
        };
        let one = read("name = \"davs://H:443\"\nthird_party = \"pull\"").unwrap();
        let expected = QueueStorage {
            name: "davs://h:443".to_owned(),
            third_party: CopyRole::Pull,
        };
        assert_eq!(one, [expected]);
        for (lines, words) in [
            ("name = \"davs://h\"", "expected a table"),
            ("name = \"h\"\nthird_party = \"pull\"", "is no storage"),
            ("name = \"*\"\nthird_party = \"both\"", "is not full"),
            ("name = \"*\"\nrole = \"full\"", "unknown key"),
        ] {
            let told = read(lines).unwrap_err();
            assert!(told.contains(words), "{lines}: {told}");
        }
    }
}
