//! WebDAV clients that people use as a disk or by hand: davfs2 mounted, with locks as it takes them
//! by default, and cadaver by a script. In clear text and without a credential, since neither shows
//! a token by itself.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::{Endpoint, Lab, bytes, is_mounted, requests_with, run, run_with_input};
use testkit::{Error, Result, available, is_superuser, require};

/// What users do, in the mounted directory ($1) with a local file of 10 MiB ($2).
const SCRIPT: &str = r#"
set -eux
cd "$1"
echo hello > f
test "$(cat f)" = hello
mkdir d
cp "$2" d/copy
cmp "$2" d/copy
mv f d/g
echo more >> d/g
test "$(cat d/g)" = "$(printf 'hello\nmore')"
echo other > f
echo over > f
test "$(ls -R d)" = "$(printf 'd:\ncopy\ng')"
cp "$2" d/big
mv d/big d/moved
rm d/copy
if rmdir d; then exit 1; fi
mkdir empty
rmdir empty
"#;

/// A file system that davfs2 has mounted. Dropped, it is unmounted.
struct Mount {
    point: PathBuf,
}

impl Mount {
    fn new(lab: &Lab, url: &str) -> Result<Self> {
        let missing = |why: &str| Err(Error::Missing(why.to_owned()));
        let program = require("mount.davfs")?;
        if !is_superuser() {
            return missing("only root mounts by davfs2 without an entry in fstab");
        }
        if std::fs::File::open("/dev/fuse").is_err() {
            return missing("there is no /dev/fuse that could be opened");
        }
        let (point, cache) = (lab.fresh("mount"), lab.fresh("cache"));
        std::fs::create_dir(&point)?;
        std::fs::create_dir(&cache)?;
        // davfs2 gives up root's rights, and keeps files there as its own user.
        std::fs::set_permissions(&cache, Permissions::from_mode(0o1777))?;
        // All else is as davfs2 has it. Its own buffer is too small for what Linux 6.17 and later
        // ask for at once when they read a directory.
        let settings = format!("cache_dir {}\nask_auth 0\nbuf_size 64\n", cache.display());
        let configuration = lab.file(settings.as_bytes());
        // The file system's process keeps what it inherits open.
        let words = lab.fresh("mount-words");
        let mut command = lab.command("bash")?;
        command
            .args([
                "-c",
                r#"exec "$1" -o "conf=$2,uid=0,gid=0" "$3" "$4" > "$5" 2>&1"#,
                "bash",
            ])
            .args([&program, &configuration, Path::new(url), &point, &words]);
        let mounted = run(&command);
        let said = std::fs::read_to_string(&words).unwrap_or_default();
        // A container may have the device and not the right to mount.
        if said.contains("ermission denied") || said.contains("not permitted") || said.contains("fuse device") {
            return missing(&format!("nothing can be mounted: {said}"));
        }
        assert!(mounted.code == Some(0) && is_mounted(&point), "{mounted:?}: {said}");
        Ok(Self { point })
    }

    /// Unmounts it, which waits until everything is uploaded.
    fn end(self) {
        run(Command::new("umount").arg(&self.point)).succeeded();
        assert!(!is_mounted(&self.point));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // After a failure: at once, even if it is busy.
        if is_mounted(&self.point) {
            let _ = run(Command::new("umount").arg("-l").arg(&self.point));
        }
    }
}

#[test]
fn davfs2_is_used_like_a_disk() {
    let test = "davfs2_is_used_like_a_disk";
    let started = Lab::new("davfs2").and_then(|lab| {
        let server = Endpoint::Crossload(Box::new(lab.crossload(lab.options("server"))?));
        let mount = Mount::new(&lab, &server.clear_url(""))?;
        Ok((lab, server, mount))
    });
    let Some((lab, mut server, mount)) = available(test, started) else {
        return;
    };
    let content = bytes(10 << 20, 294);
    let local = lab.file(&content);
    let mut command = lab.command("bash").expect("bash");
    command.args(["-c", SCRIPT, "bash"]).arg(&mount.point).arg(&local);
    run(&command).succeeded();
    mount.end();
    for (name, stored) in [
        ("f", Some(b"over\n".to_vec())),
        ("d/g", Some(b"hello\nmore\n".to_vec())),
        ("d/moved", Some(content)),
        ("d/copy", None),
        ("d/big", None),
    ] {
        assert!(server.stored(name) == stored, "{name}");
    }
    assert!(!server.data().join("empty").exists());
    // Each file was locked before it was stored, and all were released.
    let count = |lines: &[serde_json::Value], method: &str| {
        let is_so = |line: &&serde_json::Value| line["method"] == method && line["error"].is_null();
        lines.iter().filter(is_so).count()
    };
    let lines = requests_with(server.process(), 3, "UNLOCK", |line| line["method"] == "UNLOCK");
    assert!(count(&lines, "LOCK") >= 3, "{lines:#?}");
    assert!(count(&lines, "PUT") >= 3);
}

/// Each command with what it must say.
const COMMANDS: &[(&str, &str)] = &[
    ("mkcol d", "Creating `d': succeeded."),
    ("put local", "Uploading local to `/data/local': [.. succeeded."),
    ("lock local", "Locking `local': succeeded."),
    ("discover local", "Depth 0 on"),
    ("put local", "Uploading local to `/data/local': [.. succeeded."),
    ("propset local colour blue", "Setting property on `local': succeeded."),
    ("propget local colour", "blue"),
    (
        "copy local d/copied",
        "Copying `/data/local' to `/data/d/copied':  succeeded.",
    ),
    (
        "move d/copied d/moved",
        "Moving `/data/d/copied' to `/data/d/moved':  succeeded.",
    ),
    (
        "get d/moved fetched",
        "Downloading `/data/d/moved' to fetched: [.. succeeded.",
    ),
    ("unlock local", "Unlocking `local': succeeded."),
    ("delete local", "Deleting `local': succeeded."),
    ("mkcol gone", "Creating `gone': succeeded."),
    ("rmcol gone", "Deleting collection `gone': succeeded."),
    ("ls d", "moved"),
];

#[test]
fn cadaver_does_all_that_it_can() {
    let test = "cadaver_does_all_that_it_can";
    let started = Lab::new("cadaver").and_then(|lab| {
        let program = lab.command("cadaver")?;
        let server = Endpoint::Crossload(Box::new(lab.crossload(lab.options("server"))?));
        Ok((lab, server, program))
    });
    let Some((lab, server, mut program)) = available(test, started) else {
        return;
    };
    let directory = lab.fresh("local-files");
    std::fs::create_dir(&directory).expect("a directory");
    std::fs::write(directory.join("local"), "hello\n").expect("a file");
    program.current_dir(&directory).arg(server.clear_url(""));
    let script: String = COMMANDS.iter().map(|(command, _)| format!("{command}\n")).collect();
    let said = run_with_input(&program, script.as_bytes());
    let text = said.text();
    let mut rest = text.as_str();
    for (command, words) in COMMANDS {
        let at = rest.find(words).unwrap_or_else(|| panic!("{command}: {}", said.said()));
        rest = &rest[at + words.len()..];
    }
    assert!(!text.contains("failed"), "{}", said.said());
    assert_eq!(std::fs::read(directory.join("fetched")).expect("a copy"), b"hello\n");
    assert_eq!(server.stored("d/moved").as_deref(), Some(&b"hello\n"[..]));
    assert_eq!(server.stored("local"), None);
}

const LOCK_BODY: &str =
    "<lockinfo xmlns=\"DAV:\"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";

#[test]
fn what_is_locked_stays_for_clients_of_every_protocol() {
    let test = "what_is_locked_stays_for_clients_of_every_protocol";
    let started = Lab::new("locked").and_then(|lab| {
        for program in ["curl", "xrdcp", "xrdfs"] {
            require(program)?;
        }
        let server = Endpoint::Crossload(Box::new(lab.crossload(lab.options("server"))?));
        Ok((lab, server))
    });
    let Some((lab, server)) = available(test, started) else {
        return;
    };
    let command = |program: &str, arguments: &[&str]| {
        let mut command = lab.command(program).expect("it is installed");
        command.args(arguments);
        run(&command)
    };
    server.put("f", b"old");
    let (url, root) = (server.clear_url("f"), server.root("f"));
    let granted = command("curl", &["-sS", "-D", "-", "-X", "LOCK", "--data", LOCK_BODY, &url]).succeeded();
    let text = granted.text();
    let token = text.lines().find_map(|line| line.strip_prefix("Lock-Token: "));
    let token = token.expect("a lock has a token").trim().to_owned();
    let local = lab.file(b"new");
    let local = local.to_str().expect("a plain name");
    let copied = command("xrdcp", &["-f", "-s", local, &root]);
    assert!(
        copied.code != Some(0) && copied.stderr.contains("3003"),
        "{}",
        copied.said()
    );
    let removed = command("xrdfs", &[&server.root_address(), "rm", "/data/f"]);
    assert!(
        removed.code != Some(0) && removed.stderr.contains("3003"),
        "{}",
        removed.said()
    );
    let client = |word: &str, arguments: &[&str]| {
        let words = [&[word], arguments].concat();
        run(&lab.client(words).expect("our own client"))
    };
    let refused = client("rm", &[&server.url("f")]);
    assert!(
        refused.code != Some(0) && refused.stderr.contains("Resource locked"),
        "{}",
        refused.said()
    );
    assert_eq!(server.stored("f").as_deref(), Some(&b"old"[..]));
    let header = format!("Lock-Token: {token}");
    command("curl", &["-sSf", "-X", "UNLOCK", "-H", &header, &url]).succeeded();
    command("xrdcp", &["-f", "-s", local, &root]).succeeded();
    assert_eq!(server.stored("f").as_deref(), Some(&b"new"[..]));
}
