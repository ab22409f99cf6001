//! `migrate`: translates the configuration of another program, and says what became of each line.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use config::Mistake;
use migrate::{Disk, Migration, Order, Outcome, System};
use serde_json::{Value, json};

use crate::command_line::{MigrateAction, MigrateOptions};
use crate::exit_code::SOME_FAILED;
use crate::failure::Failure;
use crate::output;

/// EEXIST, for a file that is there already.
const EXISTS: u8 = 17;

/// Translates. The exit code is 1 if something is left for the administrator.
///
/// # Errors
/// A file cannot be read or written, or exists.
pub(crate) fn run(action: &MigrateAction) -> Result<u8, Failure> {
    let (system, options, order) = match action {
        MigrateAction::Xrootd(xrootd) => {
            let this = || rustix::system::uname().nodename().to_string_lossy().into_owned();
            let order = Order {
                instance: xrootd.instance.clone(),
                host: xrootd.host.clone().unwrap_or_else(this),
                ..order(&xrootd.common)
            };
            (System::Xrootd, &xrootd.common, order)
        }
        MigrateAction::Dcache(common) => (System::Dcache, common, order(common)),
        MigrateAction::Storm(common) => (System::Storm, common, order(common)),
        MigrateAction::Fts(common) => (System::Fts, common, order(common)),
        MigrateAction::Gfal(common) => (System::Gfal, common, order(common)),
    };
    let read = system.migrate(&order, &Disk);
    let migration = read.map_err(|refused| Failure::system(refused.file.display(), &refused.cause))?;
    finish(system, options, &migration)
}

fn order(options: &MigrateOptions) -> Order {
    Order {
        files: options.files.clone(),
        ..Order::default()
    }
}

/// A file to write.
struct Written {
    name: String,
    text: String,
    /// What our own reading finds in it.
    mistakes: Vec<Mistake>,
}

/// Prints or writes the files, then the summary.
fn finish(system: System, options: &MigrateOptions, migration: &Migration) -> Result<u8, Failure> {
    let origin = options
        .files
        .iter()
        .map(|file| output::name(&file.display().to_string()).into_owned());
    let origin = format!("{} ({})", origin.collect::<Vec<_>>().join(", "), system.name());
    let directory = options.output.as_deref().unwrap_or(Path::new("."));
    let base = std::path::absolute(directory).map_err(|cause| Failure::system(directory.display(), &cause))?;
    let documents = migration.documents.iter().map(|document| {
        let text = document.render(&origin);
        Written {
            name: document.kind.file_name().to_owned(),
            mistakes: document.mistakes(&text, &base),
            text,
        }
    });
    let texts = migration.texts.iter().map(|file| Written {
        name: file.name.clone(),
        text: file.text.clone(),
        mistakes: Vec::new(),
    });
    let files: Vec<Written> = documents.chain(texts).collect();
    if let Some(directory) = &options.output {
        write(directory, &files, options.force)?;
    }
    match options.json {
        true => output::json(&as_json(&files, migration)),
        false => tell(&files, options.output.as_deref(), migration),
    }
    let is_complete = migration.is_complete() && files.iter().all(|file| file.mistakes.is_empty());
    Ok(if is_complete { 0 } else { SOME_FAILED })
}

/// Writes the files. Before the first one, it looks whether one exists.
fn write(directory: &Path, files: &[Written], replaces: bool) -> Result<(), Failure> {
    let failed = |path: &Path, cause: std::io::Error| Failure::system(path.display(), &cause);
    fs::create_dir_all(directory).map_err(|cause| failed(directory, cause))?;
    let paths: Vec<PathBuf> = files.iter().map(|file| directory.join(&file.name)).collect();
    if let Some(there) = paths
        .iter()
        .find(|path| !replaces && fs::symlink_metadata(path).is_ok())
    {
        return Err(Failure {
            exit_code: EXISTS,
            ..Failure::invalid(format!(
                "{} exists, and nothing was written: name another directory, or replace it with --force",
                there.display()
            ))
        });
    }
    for (path, file) in paths.iter().zip(files) {
        let mut options = fs::OpenOptions::new();
        match replaces {
            true => options.write(true).create(true).truncate(true),
            false => options.write(true).create_new(true),
        };
        let written = options
            .open(path)
            .and_then(|mut opened| opened.write_all(file.text.as_bytes()));
        written.map_err(|cause| failed(path, cause))?;
    }
    Ok(())
}

/// Prints the files, unless they were written, and the summary on standard error.
fn tell(files: &[Written], directory: Option<&Path>, migration: &Migration) {
    for file in files {
        match directory {
            Some(directory) => output::complain(&format!("wrote {}", directory.join(&file.name).display())),
            None if files.len() == 1 => output::write_out(file.text.as_bytes()),
            None => output::write_out(format!("# ===== {} =====\n{}\n", file.name, file.text).as_bytes()),
        }
    }
    for remark in migration
        .remarks
        .iter()
        .filter(|remark| remark.outcome != Outcome::TakenOver)
    {
        output::complain(&remark.line());
    }
    for mistake in files.iter().flat_map(|file| &file.mistakes) {
        output::complain(&format!("complete it: {mistake}"));
    }
    let counts = Outcome::ALL.map(|outcome| format!("{} {}", migration.count(outcome), outcome.words()));
    output::complain(&format!("settings: {}", counts.join(", ")));
    if files.is_empty() {
        output::complain("no configuration of ours follows from these files");
    }
}

fn as_json(files: &[Written], migration: &Migration) -> Value {
    let files = files.iter().map(|file| {
        let mistakes: Vec<String> = file.mistakes.iter().map(Mistake::to_string).collect();
        json!({"name": file.name, "text": file.text, "mistakes": mistakes})
    });
    let remarks = migration.remarks.iter().map(|remark| {
        json!({
            "file": remark.source.file,
            "line": remark.source.line,
            "text": remark.source.text,
            "outcome": remark.outcome.name(),
            "words": remark.words,
            "advice": remark.advice,
        })
    });
    let counts = Outcome::ALL.map(|outcome| (outcome.name().to_owned(), Value::from(migration.count(outcome))));
    json!({
        "files": files.collect::<Vec<_>>(),
        "remarks": remarks.collect::<Vec<_>>(),
        "counts": counts.into_iter().collect::<serde_json::Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> Written {
        Written {
            name: name.to_owned(),
            text: "new\n".to_owned(),
            mistakes: Vec::new(),
        }
    }

    #[test]
    fn files_are_replaced_only_when_asked() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("a/b");
        write(&output, &[file("crossload.toml")], false).unwrap();
        fs::write(output.join("crossload.toml"), "edited").unwrap();
        let both = [file("redirector.toml"), file("crossload.toml")];
        let refused = write(&output, &both, false).unwrap_err();
        assert_eq!(refused.exit_code, EXISTS);
        assert!(refused.words.contains("crossload.toml exists"), "{}", refused.words);
        assert!(!output.join("redirector.toml").exists(), "all or nothing");
        assert_eq!(fs::read_to_string(output.join("crossload.toml")).unwrap(), "edited");
        write(&output, &both, true).unwrap();
        assert_eq!(fs::read_to_string(output.join("crossload.toml")).unwrap(), "new\n");
    }
}
