//! Checks the manual that pages show.

use config::Configuration;
use door_web::Manual;

use super::finding::Finding;
use super::lines::Lines;

/// Whether the directory that the configuration names has it.
pub(super) fn check(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let directory = configuration.web.manual.as_deref()?;
    let shown = directory.display();
    let finding = match Manual::at(directory) {
        Some(_) => return Some(Finding::ok("manual", format!("the manual is in {shown}"))),
        None => Finding::warning(
            "manual_missing",
            format!("{shown} has no manual: index.html is missing"),
        )
        .change("name the directory that `cargo xtask book` or the package has written, or remove the key"),
    };
    Some(finding.at(lines.of("web", "manual")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_directory_without_a_manual_is_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let found = || {
            let text = format!("[web]\nmanual = {:?}\n", scratch.path());
            let configuration = Configuration::parse(&text, Path::new("/"), "c.toml").unwrap();
            check(&configuration, &Lines::new(Path::new("c.toml"), text)).unwrap()
        };
        assert_eq!(found().code, "manual_missing");
        assert_eq!(found().position.unwrap().key, "web.manual");
        std::fs::write(scratch.path().join("index.html"), "").unwrap();
        assert_eq!(found().code, "manual");
    }
}
