//! Backups of an endpoint, on this machine and on another one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;

const TEXT: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\ncertificate = \"host.pem\"\nkey = \"host.key\"\n\
    [[export]]\npath = \"/data\"\ndirectory = \"data\"\n[macaroons]\nsecret_file = \"secret\"\n\
    [delegation]\ndirectory = \"delegated\"\nkey_file = \"delegation.key\"\n[cluster]\nstate_file = \"state\"\n";
/// What a backup has, with the content.
const SAVED: [(&str, &str); 6] = [
    ("crossload.toml", TEXT),
    ("conf.d/10-more.toml", "# more\n"),
    ("secret", "macaroon secret"),
    ("delegation.key", "key"),
    ("delegated/0a.delegated", "sealed"),
    ("state", "{}"),
];

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory }
    }

    fn used() -> Self {
        let place = Self::empty();
        for (name, content) in SAVED {
            place.write(name, content);
        }
        for (name, content) in [
            ("host.pem", "certificate"),
            ("host.key", "key"),
            ("data/file", "payload"),
        ] {
            place.write(name, content);
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        let file = self.at(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.at(name)).ok()
    }

    fn back_up(&self, file: &Path, with_host_key: bool) -> Result<(), Failure> {
        run(&BackupOptions {
            file: file.to_owned(),
            config: self.at("crossload.toml"),
            with_host_key,
        })
    }

    fn restore_from(&self, file: &Path, change: impl FnOnce(&mut RestoreOptions)) -> Result<(), Failure> {
        let mut options = RestoreOptions {
            file: file.to_owned(),
            config: self.at("crossload.toml"),
            keep_config: false,
            replace: false,
            dry_run: false,
        };
        change(&mut options);
        restore(&options)
    }

    fn assert_restored(&self) {
        for (name, content) in SAVED {
            assert_eq!(self.read(name).as_deref(), Some(content), "{name}");
            let mode = self.at(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        assert_eq!(self.read("data/file"), None);
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.directory.path()).unwrap().next().is_none()
    }
}

#[test]
fn a_backup_is_restored_on_another_machine() {
    let (here, there, files) = (Place::used(), Place::empty(), Place::empty());
    let backup = files.at("backup");
    // Of the service, and of the administrator.
    std::os::unix::fs::symlink("/etc/passwd", here.at("delegated/0b.delegated")).unwrap();
    fs::rename(here.at("conf.d/10-more.toml"), here.at("more")).unwrap();
    std::os::unix::fs::symlink("../more", here.at("conf.d/10-more.toml")).unwrap();
    here.back_up(&backup, false).unwrap();
    assert_eq!(backup.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        fs::read_dir(files.directory.path()).unwrap().count(),
        1,
        "nothing is left"
    );
    assert!(here.back_up(&backup, false).unwrap_err().words.contains("exists"));

    there.restore_from(&backup, |options| options.dry_run = true).unwrap();
    assert!(there.is_empty());
    there.restore_from(&backup, |_| ()).unwrap();
    there.assert_restored();
    assert_eq!(there.read("delegated/0b.delegated"), None);
    assert_eq!(there.read("host.key"), None, "a machine has its own");
    // Once more: nothing is to be done.
    there.restore_from(&backup, |_| ()).unwrap();
    assert_eq!(there.read("secret.before-restore"), None);

    let with_key = files.at("with-key");
    here.back_up(&with_key, true).unwrap();
    there.restore_from(&with_key, |_| ()).unwrap();
    assert_eq!(there.read("host.key").as_deref(), Some("key"));
}

#[test]
fn what_is_there_is_replaced_only_if_that_is_wanted() {
    let (here, files) = (Place::used(), Place::empty());
    let backup = files.at("backup");
    here.back_up(&backup, false).unwrap();
    here.write("secret", "another");
    fs::remove_file(here.at("state")).unwrap();
    let refused = here.restore_from(&backup, |_| ()).unwrap_err().words;
    assert!(
        refused.contains("the macaroon secret") && refused.contains("--replace"),
        "{refused}"
    );
    assert!(!refused.contains("delegation.key"), "{refused}");
    assert_eq!(
        (here.read("secret").as_deref(), here.read("state")),
        (Some("another"), None)
    );
    // Of a run that was killed.
    here.write(".crossload-restore-x", "a secret");
    here.restore_from(&backup, |options| options.replace = true).unwrap();
    assert_eq!(here.read(".crossload-restore-x"), None);
    for (name, content) in SAVED {
        assert_eq!(here.read(name).as_deref(), Some(content), "{name}");
    }
    assert_eq!(here.read("secret.before-restore").as_deref(), Some("another"));
}

#[test]
fn a_file_that_two_keys_name_is_kept_once() {
    let (here, there, files) = (Place::used(), Place::empty(), Place::empty());
    let backup = files.at("backup");
    let text = TEXT.replace("host.key", "host.pem").replace(
        "secret_file = \"secret\"\n",
        "secret_file = \"secret\"\nold_secret_files = [\"./secret\"]\n",
    );
    here.write("crossload.toml", &text);
    here.back_up(&backup, true).unwrap();
    for name in ["host.pem", "secret"] {
        here.write(name, "another");
    }
    here.restore_from(&backup, |options| options.replace = true).unwrap();
    for (name, content) in [("host.pem", "certificate"), ("secret", "macaroon secret")] {
        assert_eq!(here.read(name).as_deref(), Some(content), "{name}");
        let kept = here.read(&format!("{name}.before-restore"));
        assert_eq!(kept.as_deref(), Some("another"), "{name}");
        assert_eq!(here.read(&format!("{name}.before-restore.2")), None, "{name}");
    }
    // Where it has one place, two contents cannot go.
    for name in ["old", "crossload.toml"] {
        here.write(name, &text.replace("./secret", "old"));
    }
    let second = files.at("second");
    here.back_up(&second, true).unwrap();
    there.write("crossload.toml", &text);
    let refused = there.restore_from(&second, |options| options.keep_config = true);
    let refused = refused.unwrap_err().words;
    assert!(refused.contains("name two files"), "{refused}");
    assert_eq!(there.read("secret"), None);
}

#[test]
fn a_restore_that_is_repeated_keeps_what_was_there_first() {
    let (place, files) = (Place::empty(), Place::empty());
    let backup = files.at("backup");
    place.write(
        "crossload.toml",
        "[queue]\nlisten = [\"127.0.0.1:0\"]\nstate_directory = \"state\"\n",
    );
    place.write("state/key", "key");
    let runtime = execution::single_thread_runtime().unwrap();
    runtime.block_on(async {
        let catalog = catalog::Catalog::open_sqlite(&place.at("state/queue.db"))
            .await
            .unwrap();
        catalog.close().await;
    });
    place.back_up(&backup, false).unwrap();
    let kept = |name: &str| fs::read(place.at(&format!("state/queue.db.before-restore{name}"))).ok();
    let replace = || place.restore_from(&backup, |options| options.replace = true).unwrap();
    fs::write(place.at("state/queue.db"), "first").unwrap();
    fs::write(place.at("state/queue.db-wal"), "its log").unwrap();
    replace();
    replace();
    assert_eq!(kept("").as_deref(), Some(&b"first"[..]));
    assert_eq!(kept("-wal").as_deref(), Some(&b"its log"[..]));
    assert_eq!(kept(".2"), None, "it was in its place");
    fs::write(place.at("state/queue.db"), "second").unwrap();
    replace();
    assert_eq!(kept("").as_deref(), Some(&b"first"[..]));
    assert_eq!(kept(".2").as_deref(), Some(&b"second"[..]));
}

#[test]
#[allow(clippy::print_stderr, reason = "a part that is left out says why")]
fn pipes_and_links_of_others_do_not_lead_a_restore_astray() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let (here, there, files) = (Place::used(), Place::empty(), Place::empty());
    let backup = files.at("backup");
    here.back_up(&backup, false).unwrap();
    let pipe = |path: PathBuf| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::remove_file(here.at("state")).unwrap();
    pipe(here.at("state"));
    here.back_up(&files.at("without-state"), false).unwrap();
    pipe(there.at("secret"));
    std::os::unix::fs::symlink("/dev/zero", there.at("delegation.key")).unwrap();
    let refused = there.restore_from(&backup, |_| ()).unwrap_err().words;
    assert!(
        refused.contains("secret") && refused.contains("delegation.key"),
        "{refused}"
    );

    let link = there.at("delegated");
    std::os::unix::fs::symlink(files.directory.path(), &link).unwrap();
    if std::os::unix::fs::lchown(&link, Some(1), None).is_err() {
        eprintln!("skipped: only root can make a link of another user");
        return;
    }
    let replaced = there.restore_from(&backup, |options| options.replace = true);
    let refused = replaced.unwrap_err().words;
    assert!(refused.contains("is a link of user 1"), "{refused}");
    assert_eq!(there.read("crossload.toml"), None);
}

#[test]
fn files_of_the_configuration_that_stay_are_found() {
    let place = Place::used();
    place.write("conf.d/notes.txt", "not read");
    let others = restore::other_files(&place.at("crossload.toml"), &[]);
    assert_eq!(others, [place.at("conf.d/10-more.toml")]);
    assert!(restore::other_files(&place.at("queue.toml"), &[]).is_empty());
}

#[test]
fn the_state_goes_where_a_kept_configuration_says() {
    let (here, there, files) = (Place::used(), Place::empty(), Place::empty());
    let backup = files.at("backup");
    here.back_up(&backup, false).unwrap();
    let other = TEXT
        .replace("\"secret\"", "\"other/secret\"")
        .replace("[cluster]\nstate_file = \"state\"\n", "");
    there.write("crossload.toml", &other);
    there
        .restore_from(&backup, |options| options.keep_config = true)
        .unwrap();
    assert_eq!(there.read("other/secret").as_deref(), Some("macaroon secret"));
    assert_eq!((there.read("crossload.toml"), there.read("state")), (Some(other), None));
}

#[test]
fn a_damaged_backup_changes_nothing() {
    let (here, there, files) = (Place::used(), Place::empty(), Place::empty());
    let backup = files.at("backup");
    here.back_up(&backup, false).unwrap();
    let whole = fs::read(&backup).unwrap();
    let at = whole
        .windows(15)
        .rposition(|bytes| bytes == b"macaroon secret")
        .unwrap();
    let mut bytes = whole.clone();
    bytes[at] ^= 1;
    fs::write(&backup, &bytes).unwrap();
    let refused = there.restore_from(&backup, |_| ()).unwrap_err().words;
    assert!(refused.contains("damaged"), "{refused}");
    fs::write(&backup, &whole[..whole.len() / 2]).unwrap();
    assert!(there.restore_from(&backup, |_| ()).is_err());
    assert!(there.is_empty());
}
