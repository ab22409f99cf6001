//! The client's commands with real S3 servers, over TLS and in clear text.

use std::path::PathBuf;
use std::process::Command;

use conformance::{Lab, Run, bytes, run, run_with_input};
use testkit::{Access, S3Bucket, SeaweedFs, VersityGateway, available};

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
        ground.run("copy", &["-n", "3", &url, shown(&back)]).succeeded();
        assert!(std::fs::read(&back).expect("a file") == content, "{size}");
        let refused = ground.run("copy", &[shown(&file), &url]).failed_with(17);
        assert!(refused.stderr.contains("exists"), "{}", refused.said());
    }
    // From a stream of unknown length, above what is collected at once.
    let content = bytes(17 * 1024 * 1024, 41);
    let url = ground.url("stream");
    run_with_input(&ground.command("copy", &["-", &url]), &content).succeeded();
    let again = ground.url("again");
    ground.run("copy", &[&url, &again]).succeeded();
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
    let listed = ground.run("ls", &[&url]).succeeded().text();
    assert_eq!(listed, "a\ne\n");
    let tail = ground.run("tail", &["-c", "3", &format!("{url}/a/d")]).succeeded();
    assert_eq!(tail.stdout, bytes(20, 42)[17..]);
    let refused = ground
        .run("mv", &[&format!("{url}/e"), &format!("{url}/f")])
        .failed_with(38);
    assert!(refused.stderr.contains("cannot rename"), "{}", refused.said());
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
    assert!(copied.text().contains("pull"), "{}", copied.said());
    ground
        .run("copy", &["-f", "--mode", "push", &there, &ground.url("pushed")])
        .succeeded();
    assert!(ground.bucket.read("pushed").expect("it is there") == content);
    assert!(!copied.said().contains("X-Amz-Signature="), "{}", copied.said());
}

fn everywhere(bucket: &S3Bucket, lab: &Lab) {
    for is_tls in [false, true] {
        let ground = Ground { lab, bucket, is_tls };
        if !is_tls {
            objects_go_up_and_down(&ground);
        }
        trees_are_directories(&ground);
        wrong_keys_are_named(&ground);
        endpoints_use_signed_urls(&ground);
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
    }
}
