//! The client's commands with real S3 servers, over TLS and in clear text.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use conformance::{Endpoint, Lab, Run, bytes, run, run_with_input, until};
use testkit::{
    Access, Direction, Fault, Relay, S3Bucket, SeaweedFs, VersityGateway, XrootdAccess, XrootdVersion, available,
};

/// The least size that is stored in parts, plus a byte: two parts, the last of one byte.
const IN_PARTS_BYTES: usize = 64 * 1024 * 1024 + 1;

/// A bucket, and the client with its keys.
struct Ground<'a> {
    lab: &'a Lab,
    bucket: &'a S3Bucket,
    is_tls: bool,
}

impl Ground<'_> {
    fn url(&self, key: &str) -> String {
        let scheme = if self.is_tls { "s3s" } else { "s3" };
        format!(
            "{scheme}://{}/{}/{key}",
            self.bucket.host(self.is_tls),
            self.bucket.name()
        )
    }

    fn command(&self, command: &str, arguments: &[&str]) -> Command {
        let mut client = self
            .lab
            .client(self.lab.client_arguments(command, arguments))
            .expect("the client is built");
        client
            .env("AWS_ACCESS_KEY_ID", self.bucket.access_key())
            .env("AWS_SECRET_ACCESS_KEY", self.bucket.secret_key());
        client
    }

    #[track_caller]
    fn run(&self, command: &str, arguments: &[&str]) -> Run {
        run(&self.command(command, arguments))
    }

    fn file(&self, size: usize) -> (PathBuf, Vec<u8>) {
        let content = bytes(size, 40);
        (self.lab.file(&content), content)
    }
}

fn shown(path: &std::path::Path) -> &str {
    path.to_str().expect("plain")
}

/// Objects of all sizes go up and come down as they are; small ones are compared by MD5.
fn objects_go_up_and_down(ground: &Ground<'_>) {
    for size in [0, 1, 300_000, IN_PARTS_BYTES] {
        let (file, content) = ground.file(size);
        let url = ground.url(&format!("dir/f {size} +%"));
        let url = url.replace("%", "%25").replace(' ', "%20");
        let copied = ground.run("copy", &["-n", "2", shown(&file), &url]).succeeded();
        if size < IN_PARTS_BYTES {
            assert!(copied.text().contains("md5:"), "{}", copied.said());
            assert_eq!(
                ground.bucket.read(&format!("dir/f {size} +%")).expect("it is there"),
                content
            );
        }
        let back = ground.lab.fresh("back");
        let downloaded = ground.run("copy", &["-n", "3", &url, shown(&back)]).succeeded();
        if size == IN_PARTS_BYTES {
            for copied in [&copied, &downloaded] {
                assert!(copied.text().contains("crc64nvme:"), "{}", copied.said());
            }
            let sum = ground.run("sum", &["-a", "crc64nvme", &url]).succeeded();
            let value = sum.text().split_whitespace().last().expect("a value").to_owned();
            assert!(copied.text().contains(&value), "{} {}", sum.said(), copied.said());
        }
        assert!(std::fs::read(&back).expect("a file") == content, "{size}");
        let refused = ground.run("copy", &[shown(&file), &url]).failed_with(17);
        assert!(refused.stderr.contains("exists"), "{}", refused.said());
    }
    // From a stream of unknown length, above what is collected at once.
    let content = bytes(17 * 1024 * 1024, 41);
    let url = ground.url("stream");
    run_with_input(&ground.command("copy", &["-", &url]), &content).succeeded();
    let again = ground.url("again");
    let within = ground.run("copy", &[&url, &again]).succeeded();
    assert!(within.text().contains("within the server"), "{}", within.said());
    // Through this machine too.
    ground
        .run("copy", &["-f", "--mode", "stream", &url, &again])
        .succeeded();
    let read = ground.run("cat", &[&again]).succeeded();
    assert!(read.stdout == content, "the stream has another content");
}

/// Trees are copied, listed, compared and removed; what S3 lacks is said in words.
fn trees_are_directories(ground: &Ground<'_>) {
    let tree = ground.lab.fresh("tree");
    for (name, size) in [("a/b/c", 10), ("a/d", 20), ("e", 0)] {
        let path = tree.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, bytes(size, 42)).expect("a file");
    }
    let (source, url) = (format!("{}/", shown(&tree)), ground.url("tree"));
    ground.run("copy", &["-r", &source, &url]).succeeded();
    let found = ground.run("find", &[&url]).succeeded().text();
    assert_eq!(found.lines().count(), 6, "{found}");
    ground.run("compare", &[&source, &url]).succeeded();
    // An object is newer than the file that it was copied from, and than the next one, too.
    let file = tree.join("a/d");
    std::fs::write(&file, bytes(20, 45)).expect("a file");
    let old = std::time::SystemTime::now() - Duration::from_secs(100_000);
    let opened = std::fs::File::options().write(true).open(&file).expect("it opens");
    opened.set_modified(old).expect("its time is set");
    for files in ["1 file copied", "0 files copied"] {
        let synced = ground.run("sync", &[&source, &url]).succeeded();
        assert!(synced.text().contains(files), "{}", synced.said());
    }
    std::fs::write(&file, bytes(20, 42)).expect("a file");
    ground.run("sync", &[&source, &url]).succeeded();
    let listed = ground.run("ls", &[&url]).succeeded().text();
    assert_eq!(listed, "a\ne\n");
    let tail = ground.run("tail", &["-c", "3", &format!("{url}/a/d")]).succeeded();
    assert_eq!(tail.stdout, bytes(20, 42)[17..]);
    // There is no rename: an object is copied, a directory is not.
    let renamed = ground
        .run("mv", &[&format!("{url}/a/d"), &format!("{url}/f g")])
        .succeeded();
    assert!(renamed.stderr.contains("no rename"), "{}", renamed.said());
    ground.run("stat", &[&format!("{url}/a/d")]).failed_with(2);
    let moved = ground.run("cat", &[&format!("{url}/f g")]).succeeded();
    assert_eq!(moved.stdout, bytes(20, 42));
    let taken = ground
        .run("mv", &[&format!("{url}/e"), &format!("{url}/f g")])
        .failed_with(17);
    assert!(taken.stderr.contains("exists"), "{}", taken.said());
    let refused = ground
        .run("mv", &[&format!("{url}/a"), &format!("{url}/c")])
        .failed_with(38);
    assert!(refused.stderr.contains("copy -r"), "{}", refused.said());
    let space = ground.run("df", &[&url]).failed_with(38);
    assert!(space.stderr.contains("S3 does not report space"), "{}", space.said());
    let server = url.split_inclusive('/').take(3).collect::<String>();
    let file = ground.lab.file(b"content");
    let homeless = ground.run("copy", &[&file.display().to_string(), &server]);
    assert!(homeless.stderr.contains("s3://HOST/BUCKET/KEY"), "{}", homeless.said());
    ground.run("rm", &["-r", &url]).succeeded();
    ground.run("stat", &[&url]).failed_with(2);
    ground.run("rm", &[&format!("{url}/e")]).failed_with(2);
}

/// A wrong key is refused, and the words name the key and not the secret.
fn wrong_keys_are_named(ground: &Ground<'_>) {
    let mut command = ground.command("ls", &[&ground.url("")]);
    command.env("AWS_SECRET_ACCESS_KEY", "wr0ng");
    let refused = run(&command);
    assert!(matches!(refused.code, Some(13 | 77)), "{}", refused.said());
    let names_key = refused.stderr.contains(ground.bucket.access_key());
    assert!(names_key && !refused.stderr.contains("wr0ng"), "{}", refused.said());
    let advises = refused.stderr.contains("AWS_SECRET_ACCESS_KEY") && !refused.stderr.contains("--token-file");
    assert!(advises, "{}", refused.said());
}

/// An `https` URL of a storage whose keys are configured is that of an S3 storage.
fn configured_hosts_need_no_scheme(ground: &Ground<'_>) {
    let directory = ground.lab.fresh("gfal");
    std::fs::create_dir_all(&directory).expect("a directory");
    let bucket = ground.bucket;
    let group = format!(
        "[S3:LOCALHOST]\nACCESS_KEY={}\nSECRET_KEY={}\nALTERNATE=true\n",
        bucket.access_key(),
        bucket.secret_key()
    );
    std::fs::write(directory.join("s3.conf"), group).expect("a file");
    bucket.store("plain", b"content").expect("it is stored");
    let read = |configuration: &std::path::Path| {
        let mut command = ground.command("cat", &[&bucket.url(ground.is_tls, "plain")]);
        command
            .env_remove("AWS_ACCESS_KEY_ID")
            .env("GFAL_CONFIG_DIR", configuration);
        run(&command)
    };
    assert_eq!(read(&directory).succeeded().stdout, b"content");
    assert_ne!(
        read(&ground.lab.fresh("none")).code,
        Some(0),
        "without keys it is not public"
    );
    let mut command = ground.command("ls", &[&ground.url("")]);
    command
        .env_remove("AWS_SECRET_ACCESS_KEY")
        .env("HOME", ground.lab.fresh("home"));
    let refused = run(&command);
    assert!(
        refused.stderr.contains("AWS_SECRET_ACCESS_KEY is not"),
        "{}",
        refused.said()
    );
    // A profile whose keys another program would get is named.
    std::fs::write(directory.join("config"), "[default]\ncredential_process = /bin/false\n").expect("a file");
    let mut command = ground.command("ls", &[&ground.url("")]);
    command
        .env_remove("AWS_ACCESS_KEY_ID")
        .env("AWS_CONFIG_FILE", directory.join("config"));
    let refused = run(&command);
    assert!(
        refused.code != Some(0) && refused.stderr.contains("credential_process"),
        "{}",
        refused.said()
    );
}

/// The uploads that `cleanup` sees.
fn unfinished(ground: &Ground<'_>, older_than: &str) -> Vec<String> {
    let arguments = ["--dry-run", "--older-than", older_than, &ground.url("killed")];
    let seen = ground.run("cleanup", &arguments).succeeded().text();
    seen.lines().map(str::to_owned).collect()
}

/// Begins an upload of unknown length with notes in `state`, and kills it when its first part is
/// stored.
fn begin_and_kill(ground: &Ground<'_>, state: &std::path::Path, count_before: usize) {
    let mut command = ground.command("copy", &["-", &ground.url("killed")]);
    command
        .env("XDG_STATE_HOME", state)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("the client");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(&bytes(20 * 1024 * 1024, 44)).expect("it is read");
    until("begun", Duration::from_secs(60), || {
        unfinished(ground, "0").len() > count_before
    });
    // By SIGKILL, while it waits for more.
    child.kill().expect("it lives");
    child.wait().expect("it has ended");
}

/// Parts of a killed process are removed by the next one, those of others by order only.
fn leftovers_are_removed(ground: &Ground<'_>) {
    let (ours, others) = (ground.lab.fresh("state"), ground.lab.fresh("other-state"));
    begin_and_kill(ground, &others, 0);
    begin_and_kill(ground, &ours, 1);
    // What began just now may be under way.
    let kept = unfinished(ground, "1h");
    assert!(
        kept.len() == 2 && kept.iter().all(|line| line.ends_with("KEPT")),
        "{kept:?}"
    );
    let shown = ground.run(
        "cleanup",
        &["--json", "--dry-run", "--older-than", "0", &ground.url("killed")],
    );
    for line in shown.succeeded().text().lines() {
        let found: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let is_whole = found["name"].is_string() && found["id"].is_string() && found["begun_s"].is_i64();
        assert!(is_whole && found["outcome"] == "WOULD REMOVE", "{line}");
    }
    let mut next = ground.command("ls", &[&ground.url("")]);
    next.env("XDG_STATE_HOME", &ours);
    run(&next).succeeded();
    assert_eq!(unfinished(ground, "0").len(), 1, "one is not ours");
    assert_eq!(
        std::fs::read_dir(ours.join("crossload/uploads"))
            .expect("notes")
            .count(),
        0
    );
    let removed = ground
        .run("cleanup", &["--older-than", "0", &ground.url("")])
        .succeeded();
    assert!(
        removed.text().contains("/killed\t") && removed.text().contains("REMOVED"),
        "{}",
        removed.said()
    );
    assert!(unfinished(ground, "0").is_empty());
}

/// What is lost or damaged on its way is sent again or is an error; no other object appears.
fn damage_on_the_way_is_noticed(ground: &Ground<'_>) {
    let clear = ground.bucket.host(false);
    let port = clear
        .rsplit(':')
        .next()
        .and_then(|port| port.parse::<u16>().ok())
        .expect("a port");
    let relay = Relay::start(([127, 0, 0, 1], port).into()).expect("a relay");
    let url = |key: &str| format!("s3://localhost:{}/{}/{key}", relay.port(), ground.bucket.name());
    let (file, content) = ground.file(IN_PARTS_BYTES);
    // A connection breaks within a part: the part is read and sent again.
    relay.set_fault(Fault::CutAfter(Direction::ToTarget, 20_000_000), 1);
    let copied = ground.run("copy", &["-n", "2", shown(&file), &url("cut")]).succeeded();
    assert!(
        relay.struck() == 1 && copied.text().contains("crc64nvme:"),
        "{}",
        copied.said()
    );
    relay.heal();
    assert!(ground.bucket.read("cut").expect("it is there") == content);
    // A bit is turned over.
    relay.set_fault(Fault::FlipBitAfter(Direction::ToTarget, 20_000_000), 1);
    let refused = ground.run("copy", &["--retries", "0", shown(&file), &url("flipped")]);
    assert!(refused.code != Some(0) && relay.struck() == 2, "{}", refused.said());
    assert!(refused.stderr.contains("crc64nvme"), "{}", refused.said());
    relay.heal();
    ground.run("stat", &[&ground.url("flipped")]).failed_with(2);
    // One stream, whose bytes are counted.
    relay.set_fault(Fault::FlipBitAfter(Direction::ToClient, 20_000_000), 1);
    let back = ground.lab.fresh("flipped");
    let refused = ground.run("copy", &["-n", "1", "--retries", "0", &url("cut"), shown(&back)]);
    assert_eq!(relay.struck(), 3, "{}", refused.said());
    assert!(refused.code != Some(0) && !back.exists(), "{}", refused.said());
}

/// An upload whose connection ends within a request leaves no object. SeaweedFS would store what it
/// got: nothing, or the first 8 MiB.
fn a_broken_upload_leaves_nothing(ground: &Ground<'_>) {
    let relay = Relay::start(([127, 0, 0, 1], ground.bucket.port()).into()).expect("a relay");
    let url = |key: &str| format!("s3://localhost:{}/{}/{key}", relay.port(), ground.bucket.name());
    for (size, body_bytes) in [(1_000_000, 0), (1_000_000, 999_999), (20_000_000, 8 << 20)] {
        let (file, content) = ground.file(size);
        let key = format!("broken-{size}-{body_bytes}");
        let struck = relay.struck();
        relay.set_fault(Fault::EndBody("PUT ", body_bytes), 1);
        let broken = ground.run("copy", &["--retries", "0", shown(&file), &url(&key)]);
        assert!(relay.struck() > struck, "{}", broken.said());
        match broken.code {
            // Before its body the request is sent again.
            Some(0) if body_bytes == 0 => assert!(ground.bucket.read(&key).expect("it is there") == content),
            _ => drop(ground.run("stat", &[&ground.url(&key)]).failed_with(2)),
        }
    }
}

/// Between S3 and an endpoint the endpoint moves the data, by signed URLs.
fn endpoints_use_signed_urls(ground: &Ground<'_>) {
    let mut options = ground.lab.options(if ground.is_tls { "by-tls" } else { "in-clear" });
    options.exports[0].anonymous = Access::Write;
    let server = ground.lab.crossload(options).expect("our server starts");
    let content = bytes(400_000, 43);
    ground.bucket.store("signed", &content).expect("it is stored");
    let there = format!("davs://localhost:{}/data/signed", server.port());
    let copied = ground
        .run("copy", &["-f", "--mode", "pull", &ground.url("signed"), &there])
        .succeeded();
    let text = copied.text();
    assert!(text.contains("pull") && text.contains("md5:"), "{}", copied.said());
    // The object store tells an MD5 only, and the endpoint another checksum if it may choose.
    for mode in ["push", "stream"] {
        let pushed = ground
            .run("copy", &["-f", "--mode", mode, &there, &ground.url("pushed")])
            .succeeded();
        assert!(pushed.text().contains("md5:"), "{mode}: {}", pushed.said());
    }
    assert!(ground.bucket.read("pushed").expect("it is there") == content);
    assert!(!copied.said().contains("X-Amz-Signature="), "{}", copied.said());
}

/// XRootD 6.2.1 asks for the size of the source by HEAD, which the signed URL does not allow.
fn a_refused_signature_is_followed_by_another_way(ground: &Ground<'_>) {
    let theirs = ground
        .lab
        .xrootd_of(XrootdVersion::V6, "signed-for", XrootdAccess::Open);
    let Some(theirs) = available("a_refused_signature_is_followed_by_another_way", theirs) else {
        return;
    };
    let theirs = Endpoint::Xrootd(Box::new(theirs));
    let content = bytes(300_000, 44);
    ground.bucket.store("tree/f", &content).expect("it is stored");
    for (name, arguments) in [
        ("one", vec!["copy", "tree/f", "one"]),
        ("all/f", vec!["copy", "-r", "tree/", "all"]),
        ("same/f", vec!["sync", "tree/", "same"]),
    ] {
        let [command, options @ .., source, target] = &arguments[..] else {
            unreachable!("a source and a target")
        };
        let (source, target) = (ground.url(source), theirs.davs(target));
        let copied = ground
            .run(command, &[options, &[source.as_str(), target.as_str()][..]].concat())
            .succeeded();
        assert!(theirs.stored(name).as_ref() == Some(&content), "{}", copied.said());
    }
    let url = theirs.davs("pulled");
    let pulled = ground.run("copy", &["--mode", "pull", &ground.url("tree/f"), &url]);
    assert_ne!(pulled.code, Some(0), "{}", pulled.said());
}

fn everywhere(bucket: &S3Bucket, lab: &Lab) {
    for is_tls in [false, true] {
        let ground = Ground { lab, bucket, is_tls };
        if !is_tls {
            objects_go_up_and_down(&ground);
            a_broken_upload_leaves_nothing(&ground);
        }
        trees_are_directories(&ground);
        wrong_keys_are_named(&ground);
        endpoints_use_signed_urls(&ground);
        configured_hosts_need_no_scheme(&ground);
        if !is_tls {
            leftovers_are_removed(&ground);
        }
    }
}

#[test]
fn s3_objects_are_copied_to_and_from_seaweedfs() {
    const TEST: &str = "s3_objects_are_copied_to_and_from_seaweedfs";
    let lab = Lab::new("s3-seaweedfs").expect("a lab");
    let started = SeaweedFs::start(&lab.scratch().join("seaweedfs"), lab.host());
    if let Some(server) = available(TEST, started) {
        everywhere(server.bucket(), &lab);
    }
}

#[test]
fn s3_objects_are_copied_to_and_from_versitygw() {
    const TEST: &str = "s3_objects_are_copied_to_and_from_versitygw";
    let lab = Lab::new("s3-versitygw").expect("a lab");
    let started = VersityGateway::start(&lab.scratch().join("versitygw"), lab.host());
    if let Some(server) = available(TEST, started) {
        everywhere(server.bucket(), &lab);
        a_refused_signature_is_followed_by_another_way(&Ground {
            lab: &lab,
            bucket: server.bucket(),
            is_tls: true,
        });
        damage_on_the_way_is_noticed(&Ground {
            lab: &lab,
            bucket: server.bucket(),
            is_tls: false,
        });
    }
}
