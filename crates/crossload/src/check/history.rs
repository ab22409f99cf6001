//! Checks the history of runs that pages show.

use std::time::Duration;

use config::Configuration;
use history::Store;

use super::finding::Finding;
use super::lines::Lines;

/// How long to wait for another process that locks it.
const WAIT: Duration = Duration::from_secs(1);

/// Whether it can be read.
pub(super) fn check(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let file = configuration.web.history.as_ref()?;
    let (shown, at) = (file.display(), lines.of("web", "history"));
    let finding = match Store::open_to_read_within(file, WAIT) {
        Ok(Some(_)) => {
            return Some(Finding::ok(
                "history",
                format!("the history of runs {shown} can be read"),
            ));
        }
        Ok(None) => Finding::warning("history_missing", format!("no runs are kept in {shown} yet")).change(format!(
            "keep runs there, for example by crossload mesh ENDPOINTS --history {shown}, or correct the name"
        )),
        Err(error) => {
            let says = format!("the history of runs {shown} cannot be read: {error}");
            Finding::error("history_unusable", says)
                .change("let the server's user read it, or name a history of crossload mesh, smoke or stress")
        }
    };
    Some(finding.at(at))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_history_that_pages_cannot_show_is_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("history.sqlite");
        let found = || {
            let text = format!("[web]\nhistory = {file:?}\n");
            let configuration = Configuration::parse(&text, Path::new("/"), "c.toml").unwrap();
            check(&configuration, &Lines::new(Path::new("c.toml"), text)).unwrap()
        };
        assert_eq!(found().code, "history_missing");
        assert_eq!(found().position.unwrap().key, "web.history");
        drop(Store::open(&file).unwrap());
        assert_eq!(found().code, "history");
        std::fs::write(&file, "no database at all, and of no use to anyone who looks at it").unwrap();
        assert_eq!(found().code, "history_unusable");
    }
}
