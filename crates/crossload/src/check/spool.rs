//! Checks the directory for packets that wait for the broker of the monitoring.

use std::fs;
use std::path::{Path, PathBuf};

use config::Configuration;
use rustix::fs::{Access, access};
use types::binary_size;

use super::caches::place_for;
use super::finding::Finding;
use super::lines::Lines;

/// Files that the server writes in place.
const KEPT_FILES: [&str; 2] = ["confirmed", "lock"];

/// Whether packets can be kept there, as many as the configuration says. `free_space` says how
/// much room there is, and how large the file system is.
pub(super) fn check(
    configuration: &Configuration,
    lines: &Lines,
    free_space: fn(&Path) -> Option<(u64, u64)>,
) -> Option<Finding> {
    let wanted = &configuration.monitoring;
    let spool = wanted.spool.as_deref().filter(|_| wanted.broker.is_some())?;
    let shown = spool.display();
    let unusable = |place: &Path| {
        let says = format!(
            "packets for the broker cannot be kept: {} is not writable",
            place.display()
        );
        let finding = Finding::error("monitoring_spool_unusable", says).at(lines.of("monitoring", "spool"));
        finding.change("let the server's user write there, or name another directory")
    };
    let there = match place_for(spool) {
        Ok(there) => there,
        Err(place) => return Some(unusable(place)),
    };
    let is_closed =
        |file: &&PathBuf| file.exists() && access(file.as_path(), Access::READ_OK | Access::WRITE_OK).is_err();
    let kept = KEPT_FILES.map(|name| spool.join(name));
    if let Some(file) = kept.iter().find(is_closed) {
        return Some(unusable(file));
    }
    let wanted_bytes = wanted.spool_bytes.0;
    let room = match free_space(there) {
        Some((_, all)) if all > 0 && wanted_bytes > all => binary_size(all),
        Some((free, _)) if wanted_bytes > free.saturating_add(held_bytes(spool)) => {
            format!("only {} free", binary_size(free))
        }
        _ => {
            return Some(Finding::ok(
                "monitoring_spool",
                format!("the spool {shown} can be written"),
            ));
        }
    };
    let says = format!(
        "the spool {shown} may take {}, and its file system has {room}: new packets are lost when the disk is full",
        binary_size(wanted_bytes)
    );
    let finding = Finding::warning("monitoring_spool_too_large", says).at(lines.of("monitoring", "spool_bytes"));
    Some(finding.change("lower spool_bytes, or use a larger file system"))
}

/// What the spool has already.
fn held_bytes(spool: &Path) -> u64 {
    let entries = fs::read_dir(spool).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Severity;

    const LARGE: fn(&Path) -> Option<(u64, u64)> = |_| Some((50 << 30, 100 << 30));

    fn found(
        base: &Path,
        spool: &str,
        free_space: fn(&Path) -> Option<(u64, u64)>,
    ) -> (Severity, &'static str, String) {
        let text = format!(
            "[monitoring]\nbroker = \"stomp://127.0.0.1:61613\"\nspool = \"{spool}\"\nspool_bytes = \"2MiB\"\n"
        );
        let configuration = Configuration::parse(&text, base, "c.toml").unwrap();
        let lines = Lines::new(Path::new("c.toml"), text);
        let finding = check(&configuration, &lines, free_space).unwrap();
        (finding.severity, finding.code, finding.says)
    }

    #[test]
    fn a_spool_is_a_directory_that_can_be_made_and_written() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), b"").unwrap();
        std::os::unix::fs::symlink("nowhere", directory.path().join("link")).unwrap();
        for spool in ["file", "file/below", "link", "link/below"] {
            let (severity, code, says) = found(directory.path(), spool, LARGE);
            assert_eq!(
                (severity, code),
                (Severity::Error, "monitoring_spool_unusable"),
                "{spool}"
            );
            let place = spool.split('/').next().unwrap();
            assert!(says.ends_with(&format!("/{place} is not writable")), "{says}");
        }
        fs::create_dir(directory.path().join("there")).unwrap();
        for spool in ["there", "not/yet/there"] {
            let (severity, code, _) = found(directory.path(), spool, LARGE);
            assert_eq!((severity, code), (Severity::Ok, "monitoring_spool"), "{spool}");
        }
        assert!(!directory.path().join("not").exists(), "it is made by the server");
    }

    #[test]
    fn a_spool_must_fit_its_disk() {
        let directory = tempfile::tempdir().unwrap();
        let small = found(directory.path(), "spool", |_| Some((1 << 20, 1 << 20)));
        assert_eq!((small.0, small.1), (Severity::Warning, "monitoring_spool_too_large"));
        let full: fn(&Path) -> Option<(u64, u64)> = |_| Some((1 << 20, 100 << 30));
        let (severity, _, says) = found(directory.path(), "spool", full);
        assert!(
            severity == Severity::Warning && says.contains("only 1.0 MiB free"),
            "{says}"
        );
        // What it has taken already is part of what it may take.
        fs::create_dir(directory.path().join("spool")).unwrap();
        fs::write(directory.path().join("spool/1.packets"), vec![0; 1 << 20]).unwrap();
        assert_eq!(found(directory.path(), "spool", full).0, Severity::Ok);
        assert_eq!(found(directory.path(), "spool", |_| None).0, Severity::Ok);
    }

    #[test]
    fn a_spool_without_a_broker_is_not_used() {
        let text = "[monitoring]\nspool = \"/dev/null\"\n";
        let configuration = Configuration::parse(text, Path::new("/"), "c.toml").unwrap();
        let lines = Lines::new(Path::new("c.toml"), text.to_owned());
        assert!(check(&configuration, &lines, LARGE).is_none());
    }
}
