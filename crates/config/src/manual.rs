//! The manual of the configuration file and an example file, both made from the descriptions of the
//! keys.

use crate::Configuration;
use crate::section::{Key, Section, Sections as _};

const PREAMBLE: &str = "\
<!-- Made by `cargo xtask docs` from the keys in crates/config; change them there. -->

# Configuration

`crossload serve --config FILE` reads one TOML file. `crossload serve DIRECTORY` needs none: it uses the defaults below,
with one export at `/` that everyone may read (or write, with `--write`). `crossload config check FILE` lists mistakes in
a file, and `crossload config example` prints one with every key.

- Unknown keys are refused.
- Durations are written `\"500ms\"`, `\"30s\"`, `\"5m\"`, `\"2h\"`, `\"1d\"`; sizes as a number of bytes or `\"64MiB\"`, `\"10GB\"`.
- File names are relative to the directory of the configuration file.
- Instead of a file name, `credential:NAME` is the file that the service manager passes by `LoadCredential=NAME:FILE`
  ([service.md](service.md#credentials)).
- Files of a directory are merged over it, in the order of their names: those that end in `.toml` in `conf.d` beside
  `crossload.toml`, or in `NAME.d` beside `NAME.toml`. A key that is set twice has the value of the later file, and a list
  of values is replaced. Sections that may be repeated, such as `[[export]]`, are added. File names in them are relative
  to the directory of the main file, too.
- Changes of these files, of certificates and of authorities are noticed within seconds, or at once on SIGHUP. If the new
  state is broken, the old one stays in use, and the log says why.
- A changed key takes effect `at once`, for `new connections` (open ones keep the old value), or after a `restart` (until
  then the log says `reload_ignored`).
";

/// The manual in Markdown.
pub fn docs() -> String {
    PREAMBLE.to_owned() + &tables(Configuration::SECTIONS)
}

/// The tables of these sections.
pub fn tables(sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        text.push_str(&format!("\n## {}\n\n{}\n\n", heading(section), flow(section.about)));
        text.push_str("| key | value | default | takes effect | meaning |\n|---|---|---|---|---|\n");
        for key in section.keys {
            let [kind, default, about] = [key.kind, &default_of(key), &flow(key.about)].map(cell);
            let reload = key.facts.reload.label();
            text.push_str(&format!(
                "| `{}` | {kind} | {default} | {reload} | {about} |\n",
                key.name
            ));
        }
    }
    text
}

/// A file with every key at its default; keys without a default are commented out.
pub fn example() -> String {
    let mut text = "# Every key with its default. `crossload config docs` explains them.\n".to_owned();
    for section in Configuration::SECTIONS {
        // Sections that may be repeated are commented out, except the export, which every server
        // needs.
        let is_optional = section.repeated && section.name != "export";
        let mark = if is_optional { "# " } else { "" };
        text.push_str(&format!("\n{}{mark}{}\n", comment(section.about), heading(section)));
        for key in section.keys {
            text.push_str(&format!("\n{}", comment(key.about)));
            let line = match ((key.default)(), key.required) {
                (Some(default), _) => format!("{} = {default}\n", key.name),
                (None, true) => format!("{} = \"/srv/data\"\n", key.name),
                // An export needs this key or another one.
                (None, false) if (section.name, key.name) == ("export", "directory") => {
                    "directory = \"/srv/data\"\n".to_owned()
                }
                (None, false) => format!("# {} = \u{2026}\n", key.name),
            };
            text.push_str(&if is_optional && !line.starts_with('#') {
                format!("# {line}")
            } else {
                line
            });
        }
    }
    text
}

fn heading(section: &Section) -> String {
    if section.repeated {
        format!("[[{}]]", section.name)
    } else {
        format!("[{}]", section.name)
    }
}

fn default_of(key: &Key) -> String {
    match ((key.default)(), key.required) {
        (Some(default), _) => format!("`{default}`"),
        (None, true) => "must be given".to_owned(),
        (None, false) => "not set".to_owned(),
    }
}

/// The lines of a comment as running text.
fn flow(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn comment(text: &str) -> String {
    text.trim().lines().map(|line| format!("# {}\n", line.trim())).collect()
}

/// Escapes what would end a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
