//! Keys of the report about space, for accounting.

use types::LogicalPath;

use crate::rules::RuleSubjects;
use crate::section;
use crate::section::LIVE;

/// The words of the report's schema for the quality of a service.
const QUALITIES: [&str; 4] = ["development", "testing", "pre-production", "production"];

section! {
    /// How much space the exports have and use, for the accounting of experiments: WLCG's storage
    /// resource report, as JSON ([monitoring.md](monitoring.md#space-for-accounting)).
    "storage_report" false StorageReport {
        /// URL path of the report, over HTTP, such as `/srr`. It hides a file of this name. Not
        /// served when not set.
        path: Option<LogicalPath> = Some(None) => LIVE;
        /// Who may read it, besides clients on this machine: the words of a rule's `who`.
        /// Collectors of WLCG show no credential: for them it is `["anyone"]`, or an address.
        readers: Vec<RuleSubjects> = Some(Vec::new()) => LIVE;
        /// Name of the storage. Default: the name of this machine.
        name: Option<String> = Some(None) => LIVE;
        /// What the storage is for: `"development"`, `"testing"`, `"pre-production"` or
        /// `"production"`.
        quality: String = Some("production".to_owned()) => LIVE;
    }
}

impl StorageReport {
    /// Mistakes in this section.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.path.as_ref().is_some_and(LogicalPath::is_root) {
            faults.push("path: it cannot be the root; write a path such as \"/srr\"".to_owned());
        }
        let unknown = self.readers.iter().filter_map(|subjects| subjects.rule().fault());
        faults.extend(unknown.map(|words| format!("readers: {words}")));
        if !QUALITIES.contains(&self.quality.as_str()) {
            faults.push(format!(
                "quality: \"{}\" is none of {}",
                self.quality,
                QUALITIES.join(", ")
            ));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Configuration;

    #[test]
    fn a_report_has_a_path_of_its_own_and_a_known_quality() {
        let faults = |lines: &str| {
            let text = format!("[storage_report]\n{lines}\n");
            let read = Configuration::parse(&text, Path::new("/etc"), "c.toml");
            read.map_or_else(|faults| faults.to_string(), |_| String::new())
        };
        let good = "path = \"/srr\"\nreaders = [\"anyone\"]\nquality = \"testing\"";
        assert_eq!(faults(good), "");
        assert!(faults("path = \"/\"").contains("cannot be the root"));
        assert!(faults("quality = \"good\"").contains("none of development"));
        assert!(!faults("readers = [\"everyone\"]").is_empty());
    }
}
