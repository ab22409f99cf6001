//! A made-up section: declaring its files is enough to have them checked and protected.

use config::section::LIVE;
use config::{Purpose, Sections as _, section, sections};

use super::*;
use crate::check::{Lines, credentials, secret_files, secrets};
use crate::server::exposed;

section! {
    /// Paints the server.
    "paint" false Paint {
        /// The recipe, which is secret.
        recipe_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::SealingKey, "the recipe");
        /// Who may paint.
        painters_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Rights, "the list of painters");
    }
}

sections! {
    /// Everything about paint.
    Made {
        paint: Paint;
    }
    beside {}
}

#[test]
fn files_of_a_new_section_are_checked_and_protected() {
    let site = Site::new();
    let text = "[paint]\nrecipe_file = \"data/recipe\"\npainters_file = \"painters\"\n";
    let made: Made = config::parse(text, site.directory.path(), "c.toml", |_, _, _, _| {}).unwrap();
    let lines = Lines::new(Path::new("c.toml"), text.to_owned());
    fs::write(site.path("data/recipe"), "short").unwrap();
    fs::set_permissions(site.path("data/recipe"), Permissions::from_mode(0o644)).unwrap();
    let mut findings = secrets::check(&secret_files(&made.files(), &lines), site.environment.uid);
    findings.extend(credentials::files(&made.files(), &lines));
    let found: Vec<_> = findings
        .iter()
        .map(|finding| {
            (
                finding.code,
                finding.position.as_ref().and_then(|position| position.line),
            )
        })
        .collect();
    assert_eq!(found, [("secret_open_to_others", Some(2)), ("file_missing", Some(3))]);

    let configuration = config::Configuration::parse(CONFIGURATION, site.directory.path(), "c.toml").unwrap();
    let shown: Vec<String> = exposed::among(exposed::guarded(made.files()), &configuration)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(shown.len(), 1);
    assert!(
        shown[0].starts_with("the recipe") && shown[0].contains("exported as /data"),
        "{shown:?}"
    );
}
