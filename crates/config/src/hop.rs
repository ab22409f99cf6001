//! Storages on the way between two others, as a value of `[queue]`.

use std::path::{Path, PathBuf};

use toml::de::DeValue;
use types::Location;

use crate::values::Setting;

/// Storages on the way that a queue knows.
const HOPS_MAX: usize = 64;

/// A directory that files of the queue may pass on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueHop {
    /// URLs of the directory, one for each protocol.
    pub urls: Vec<String>,
    /// Patterns of the sources whose files may pass; all when empty.
    pub sources: Vec<String>,
    /// Patterns of the destinations.
    pub destinations: Vec<String>,
    /// File with a token for the directory.
    pub token_file: Option<PathBuf>,
}

impl Setting for QueueHop {
    const KIND: &'static str = "a table with urls and perhaps sources, destinations, token_file";
    const NAMES_FILES: bool = true;

    fn read(value: &DeValue<'_>, base: &Path) -> Result<Self, String> {
        let table = value
            .as_table()
            .ok_or_else(|| format!("expected {}, found {}", Self::KIND, value.type_str()))?;
        let mut hop = Self::default();
        for (key, value) in table {
            let value = value.get_ref();
            let about = |words: String| format!("{}: {words}", key.get_ref());
            match &**key.get_ref() {
                "urls" => hop.urls = Setting::read(value, base).map_err(about)?,
                "sources" => hop.sources = Setting::read(value, base).map_err(about)?,
                "destinations" => hop.destinations = Setting::read(value, base).map_err(about)?,
                "token_file" => hop.token_file = Some(Setting::read(value, base).map_err(about)?),
                other => return Err(format!("unknown key \"{other}\": {}", Self::KIND)),
            }
        }
        hop.check()?;
        Ok(hop)
    }

    fn write(&self) -> Option<String> {
        let lists = [
            ("urls", &self.urls),
            ("sources", &self.sources),
            ("destinations", &self.destinations),
        ];
        let mut items: Vec<String> = lists
            .into_iter()
            .filter(|(_, list)| !list.is_empty())
            .filter_map(|(name, list)| Some(format!("{name} = {}", list.write()?)))
            .collect();
        let file = self.token_file.as_ref().and_then(Setting::write);
        items.extend(file.map(|file| format!("token_file = {file}")));
        Some(format!("{{ {} }}", items.join(", ")))
    }

    fn paths(&self) -> Vec<&Path> {
        self.token_file.iter().map(PathBuf::as_path).collect()
    }
}

impl QueueHop {
    fn check(&self) -> Result<(), String> {
        if self.urls.is_empty() {
            return Err("urls: needs at least one".to_owned());
        }
        let is_place = |place: Location| (place.is_http() || place.is_xrootd()) && place.query().is_none();
        let mut urls = self.urls.iter();
        match urls.find(|url| !Location::parse(url).is_ok_and(is_place)) {
            Some(url) => Err(format!("urls: \"{url}\" is no URL of a directory at a server")),
            None => Ok(()),
        }
    }
}

/// The mistake of a list of hops.
pub(crate) fn fault(hops: &[QueueHop]) -> Option<String> {
    (hops.len() > HOPS_MAX).then(|| format!("hops: more than {HOPS_MAX}; remove some"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configuration;

    fn read(text: &str) -> Result<Vec<QueueHop>, String> {
        let parsed = Configuration::parse(text, Path::new("/base"), "test");
        parsed
            .map(|configuration| configuration.queue.hops)
            .map_err(|faults| faults.to_string())
    }

    #[test]
    fn hops_are_tables_of_the_queue() {
        let text = "[[queue.hops]]\nurls = [\"davs://h/hop\", \"root://h//hop\"]\nsources = [\"*.org\"]\n\
            token_file = \"t\"\n[[queue.hops]]\nurls = [\"davs://g/hop\"]\n";
        let hops = read(text).unwrap();
        assert_eq!((hops.len(), hops[0].urls.len(), &*hops[0].sources[0]), (2, 2, "*.org"));
        assert_eq!(hops[0].token_file.as_deref(), Some(Path::new("/base/t")));
        let written = hops.write().unwrap();
        assert_eq!(read(&format!("[queue]\nhops = {written}\n")).unwrap(), hops);
        for (lines, words) in [
            ("", "urls: needs at least one"),
            ("urls = [\"/hop\"]", "is no URL of a directory"),
            ("urls = [\"davs://h/hop?a=b\"]", "is no URL of a directory"),
            ("urls = [\"davs://h/hop\"]\nsource = \"a\"", "unknown key \"source\""),
            ("urls = \"davs://h/hop\"", "urls: expected"),
        ] {
            let told = read(&format!("[[queue.hops]]\n{lines}\n")).unwrap_err();
            assert!(told.contains(words), "{lines}: {told}");
        }
    }
}
