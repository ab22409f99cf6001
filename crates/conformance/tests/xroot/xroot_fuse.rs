//! xrootdfs, the file system in user space of the XRootD project. It opens each file on a session
//! of its own, looks at it on another, and closes it after its user has gone on. XRootD itself now
//! and then refuses a file for that reason, as locked (`Resource deadlock avoided`), so what is
//! demanded here is more than it keeps.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use conformance::{Endpoint, Lab, bytes, is_mounted, run};
use testkit::{Error, Process, Result, available, require};

/// How long it may take to mount.
const START: Duration = Duration::from_secs(30);
/// What users do, in a directory of their own ($1) with a local file of 3 000 001 bytes ($2).
const SCRIPT: &str = r#"
set -eux
cd "$1"
echo hello > f
test "$(cat f)" = hello
mkdir d
cp "$2" d/copy
cmp "$2" d/copy
mv f d/g
test "$(ls d)" = "$(printf 'copy\ng')"
test "$(cat d/g)" = hello
echo more >> d/g
test "$(cat d/g)" = "$(printf 'hello\nmore')"
printf xx | dd of=d/copy bs=1 seek=10 conv=notrunc
test "$(head -c 12 d/copy | tail -c 2)" = xx
truncate -s 100 d/copy
test "$(wc -c < d/copy)" = 100
cp "$2" d/new
mv d/new d/moved
cmp "$2" d/moved
cp "$2" d/over
echo other > d/over
test "$(cat d/over)" = other
rm d/over
echo other > d/moved
test "$(cat d/moved)" = other
cp "$2" d/gone
rm d/gone
if test -e d/gone; then exit 1; fi
echo 'a line that is longer than what replaces it' > d/short
test "$(wc -l < d/short)" = 1
echo b > d/short
# xrootdfs writes what it holds when the kernel releases the file, which is after its close.
for i in $(seq 50); do if test "$(cat d/short)" = b; then break; fi; sleep 0.1; done
test "$(cat d/short)" = b
truncate -s 1 d/short
test "$(cat d/short)" = b
rm d/short
: > empty
test "$(stat -c %s empty)" = 0
df . | grep xrootdfs
rm d/g
if test -e d/g; then exit 1; fi
if rmdir d; then exit 1; fi
rm -r d
if test -e d; then exit 1; fi
"#;

/// A mounted file system. Dropped, it is unmounted.
struct Mount {
    point: PathBuf,
    unmount: PathBuf,
    _process: Process,
}

impl Mount {
    fn new(lab: &Lab, server: &Endpoint) -> Result<Self> {
        let program = require("xrootdfs")?;
        let unmount = require("fusermount").or_else(|_| require("fusermount3"))?;
        let point = lab.fresh("mount");
        std::fs::create_dir(&point)?;
        let mut command = lab.prepared(&program);
        command
            .arg(&point)
            .arg("-o")
            .arg(format!("rdr={}", server.root("")))
            .arg("-f");
        let mut process = Process::spawn("xrootdfs", &mut command, &lab.fresh("mount-log"))?;
        let mounted = process.wait_for("mounted", START, |_| is_mounted(&point).then_some(()));
        // A container may have neither the device nor the right to mount.
        mounted.map_err(|error| Error::Missing(format!("no file system can be mounted: {error}")))?;
        Ok(Self {
            point,
            unmount,
            _process: process,
        })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // At once, even if it is busy.
        let _ = run(Command::new(&self.unmount).args(["-u", "-z"]).arg(&self.point));
    }
}

#[test]
fn xrootdfs_is_used_like_a_disk() {
    let test = "xrootdfs_is_used_like_a_disk";
    let started = Lab::new("xroot-fuse").and_then(|lab| {
        let server = Endpoint::Crossload(Box::new(lab.crossload(lab.options("server"))?));
        let mount = Mount::new(&lab, &server)?;
        Ok((lab, server, mount))
    });
    let Some((lab, _server, mount)) = available(test, started) else {
        return;
    };
    let local = lab.file(&bytes(3_000_001, 291));
    let mut command = lab.command("bash").expect("bash");
    command.args(["-c", SCRIPT, "bash"]).arg(&mount.point).arg(&local);
    run(&command).succeeded();
}
