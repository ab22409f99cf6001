//! Reports in files, and runs that were kept in files.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use config::read_text;
use history::Run;
use reports::limits::RUN_BYTES_MAX;
use reports::{View, html, junit, prometheus};
use tempfile::NamedTempFile;

use super::not_delivered;
use crate::command_line::ReportOptions;
use crate::failure::Failure;
use crate::input_file::InputFile;

/// Permissions of a report: those of a new file, without writing for others.
const MODE: u32 = 0o644;
/// Permissions of a run: it names servers and those who care for them.
const OWNER_ONLY: u32 = 0o600;

/// Writes the files that the options name. Returns what could not be written.
pub(super) fn write(view: &View<'_>, options: &ReportOptions) -> Vec<Failure> {
    let files = [
        (&options.html, html::write as fn(&View<'_>) -> String),
        (&options.junit, junit::write),
        (&options.prometheus, prometheus::write),
    ];
    let named = files.iter().filter_map(|(file, form)| Some((file.as_deref()?, form)));
    named
        .filter_map(|(file, form)| replace(file, &form(view), MODE).err())
        .collect()
}

/// Writes a run to a file, as JSON.
///
/// # Errors
/// It cannot be written.
pub(super) fn save(run: &Run, file: &Path) -> Result<(), Failure> {
    let json = serde_json::to_string(run).map_err(|cause| not_delivered(format!("{}: {cause}", file.display())))?;
    replace(file, &json, OWNER_ONLY)
}

/// Most bytes at the beginning of a file that say what it is.
const BEGINNING_BYTES: usize = 4096;

/// Refuses outputs that would overwrite each other, a file that the command reads, or anything that
/// is no earlier output of the same kind, such as a file with a token.
///
/// # Errors
/// The options.
pub(super) fn refuse_overwriting(
    options: &ReportOptions,
    save: Option<&Path>,
    inputs: &[Option<&Path>],
) -> Result<(), Failure> {
    let outputs = [
        ("--save", save),
        ("--html", options.html.as_deref()),
        ("--junit", options.junit.as_deref()),
        ("--prometheus", options.prometheus.as_deref()),
        ("--history", options.history.as_deref()),
    ];
    let mut known: Vec<(&str, PathBuf)> = Vec::new();
    let inputs = inputs
        .iter()
        .copied()
        .flatten()
        .chain(options.earlier.as_ref().map(InputFile::path));
    let read: Vec<PathBuf> = inputs.filter_map(whole).collect();
    for (option, file) in outputs {
        let Some(place) = file.and_then(whole) else { continue };
        if read.contains(&place) {
            let words = format!("{option} would replace {}, which this command uses", place.display());
            return Err(Failure::invalid(words));
        }
        if let Some((other, _)) = known.iter().find(|(_, known)| *known == place) {
            let words = format!("{other} and {option} name the same file: {}", place.display());
            return Err(Failure::invalid(words));
        }
        known.push((option, place));
    }
    match known.into_iter().find(|(option, place)| !is_replaceable(option, place)) {
        None => Ok(()),
        Some((option, place)) => Err(Failure::invalid(format!(
            "{option} would replace {}, which is no earlier output of {option}; \
             name another file, or remove this one first",
            place.display()
        ))),
    }
}

/// Whether a file is missing, empty, or what this option has written before. The history judges
/// its file by itself, when it opens it.
fn is_replaceable(option: &str, file: &Path) -> bool {
    use std::io::Read as _;
    let mut beginning = Vec::new();
    let read = fs::File::open(file).and_then(|file| file.take(BEGINNING_BYTES as u64).read_to_end(&mut beginning));
    match read {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return true,
        // A file that cannot be read is not replaced.
        Err(_) => return option == "--history",
        Ok(0) => return true,
        Ok(_) => {}
    }
    let text = String::from_utf8_lossy(&beginning);
    match option {
        "--save" => text.starts_with('{') && text.contains("\"instrument\""),
        "--html" => text.starts_with("<!DOCTYPE html>"),
        "--junit" => text.starts_with("<?xml"),
        "--prometheus" => text.starts_with("# HELP"),
        _ => true,
    }
}

/// The place of a file, however it is spelled; `None` for devices and pipes, which replace nothing.
fn whole(file: &Path) -> Option<PathBuf> {
    if fs::metadata(file).is_ok_and(|metadata| !metadata.is_file()) {
        return None;
    }
    let directory = fs::canonicalize(directory_of(file)).ok()?;
    Some(directory.join(file.file_name()?))
}

/// Tries whether the files that the options name can be written. Returns what cannot.
pub(super) fn try_all(options: &ReportOptions, save: Option<&Path>) -> Vec<Failure> {
    let reports = [&options.html, &options.junit, &options.prometheus];
    let named = reports.into_iter().filter_map(|file| file.as_deref());
    named.chain(save).filter_map(|file| try_one(file).err()).collect()
}

/// Whether a file can be replaced as a whole.
fn try_one(file: &Path) -> Result<(), Failure> {
    let failed = |cause: std::io::Error| not_delivered(format!("{}: {cause}", file.display()));
    let metadata = fs::metadata(file).ok();
    if metadata.as_ref().is_some_and(fs::Metadata::is_dir) {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    }
    if metadata.is_some_and(|metadata| !metadata.is_file()) {
        return Ok(());
    }
    NamedTempFile::new_in(directory_of(file)).map(drop).map_err(failed)
}

fn directory_of(file: &Path) -> &Path {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}

/// Replaces a file as a whole: another program may read it at any time.
fn replace(file: &Path, content: &str, mode: u32) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    let failed = |cause: std::io::Error| not_delivered(format!("{}: {cause}", file.display()));
    // A device or pipe is written to as it is.
    if fs::metadata(file).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(file, content).map_err(failed);
    }
    let mut new = NamedTempFile::new_in(directory_of(file)).map_err(failed)?;
    new.write_all(content.as_bytes()).map_err(failed)?;
    new.as_file()
        .set_permissions(fs::Permissions::from_mode(mode))
        .map_err(failed)?;
    new.persist(file).map(drop).map_err(|cause| failed(cause.error))
}

/// Reads a run that was kept as JSON.
///
/// # Errors
/// It cannot be read, is too large, or is no run.
pub(super) fn read_run(file: &Path) -> Result<Run, Failure> {
    run_of(file, &read_text(file, RUN_BYTES_MAX).map_err(unreadable(file))?)
}

/// As [`read_run`], for the run of `--earlier`.
///
/// # Errors
/// As [`read_run`].
pub(super) fn read_earlier(file: &InputFile) -> Result<Run, Failure> {
    let text = file.read_text(RUN_BYTES_MAX).map_err(unreadable(file.path()))?;
    run_of(file.path(), &text)
}

fn unreadable(file: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |cause| Failure::invalid(format!("{}: {cause}", file.display()))
}

fn run_of(file: &Path, text: &str) -> Result<Run, Failure> {
    reports::json::read(text).map_err(|words| Failure::invalid(format!("{}: {words}", file.display())))
}
