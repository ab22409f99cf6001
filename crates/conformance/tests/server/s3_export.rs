//! Exports whose files are objects of real S3 servers, over both protocols and for the clients of
//! the field.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Weak};
use std::time::Duration;

use conformance::{Lab, Run, Slot, adler32, bytes, last_line, run, shared, until};
use testkit::{Crossload, Fault, Relay, Result, S3Bucket, SeaweedFs, VersityGateway, available};

/// More than a part that is collected in memory.
const SIZE: usize = 6_000_001;
/// The least size of an object in parts of known size.
const IN_PARTS_BYTES: usize = 64 * 1024 * 1024 + 1;
/// More names than ten pages of a listing have.
const MANY: usize = 10_001;
/// How soon something must have happened.
const SOON: Duration = Duration::from_secs(60);

struct Site {
    lab: Lab,
    node: Crossload,
    versitygw: VersityGateway,
    seaweedfs: SeaweedFs,
    secret: String,
    /// In front of versitygw, which does not hear of `If-None-Match` then.
    _deaf: Relay,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

/// The lines of an export of this directory of the bucket.
fn export(path: &str, bucket: &S3Bucket, prefix: &str, secret: &str) -> String {
    let url = bucket.url(true, prefix);
    format!(
        "[[export]]\npath = \"/{path}\"\ns3 = \"{url}\"\ns3_access_key_id = \"{}\"\ns3_secret_key_file = {secret:?}\n\
         anonymous = \"write\"\nrecursive_delete = true\n",
        bucket.access_key()
    )
}

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        let lab = Lab::new("s3-export")?;
        let versitygw = VersityGateway::start(&lab.fresh("versitygw"), lab.host())?;
        let seaweedfs = SeaweedFs::start(&lab.fresh("seaweedfs"), lab.host())?;
        let file = lab.fresh("s3.key");
        std::fs::write(&file, versitygw.bucket().secret_key())?;
        restrict(&file)?;
        let secret = file.to_str().expect("plain").to_owned();
        let mut options = lab.options("node");
        options.exports.clear();
        for (path, bucket) in [("versitygw", versitygw.bucket()), ("seaweedfs", seaweedfs.bucket())] {
            options.more.push_str(&export(path, bucket, path, &secret));
            let copies = format!("copies-{path}");
            options.more.push_str(&export(&copies, bucket, &copies, &secret));
        }
        let cached = export("cached", versitygw.bucket(), "versitygw", &secret);
        let cache = lab.fresh("cache");
        options.more.push_str(&format!("{cached}cache_directory = {cache:?}\n"));
        let whole = export("whole", versitygw.bucket(), "", &secret);
        options.more.push_str(&whole);
        let clear = versitygw.bucket().host(false);
        let port = clear.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
        let deaf = Relay::start(([127, 0, 0, 1], port.expect("a port")).into())?;
        deaf.set_fault(Fault::Hide("If-None-Match"), usize::MAX);
        let deaf_host = format!("http://localhost:{}", deaf.address().port());
        let silent = export("silent", versitygw.bucket(), "silent", &secret);
        let tls_host = format!("https://{}", versitygw.bucket().host(true));
        options.more.push_str(&silent.replace(&tls_host, &deaf_host));
        let lost = export("lost", versitygw.bucket(), "x", &secret).replace("/bucket/", "/no-such-bucket/");
        options.more.push_str(&lost);
        let node = lab.crossload(options)?;
        Ok(Site {
            lab,
            node,
            versitygw,
            seaweedfs,
            secret,
            _deaf: deaf,
        })
    })
}

fn restrict(file: &std::path::Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))?)
}

/// An export of the site, and its bucket.
struct Place<'a> {
    site: &'a Site,
    export: &'static str,
    bucket: &'a S3Bucket,
}

impl Site {
    fn xrdfs(&self, arguments: &[&str]) -> Run {
        let mut command = self.lab.command("xrdfs").expect("XRootD's client is installed");
        command.arg(format!("localhost:{}", self.node.port())).args(arguments);
        run(&command)
    }

    fn places(&self) -> [Place<'_>; 2] {
        let place = |export, bucket| Place {
            site: self,
            export,
            bucket,
        };
        [
            place("versitygw", self.versitygw.bucket()),
            place("seaweedfs", self.seaweedfs.bucket()),
        ]
    }
}

impl Place<'_> {
    fn url(&self, name: &str) -> String {
        self.site.node.url(&format!("/{}/{name}", self.export))
    }

    fn root(&self, name: &str) -> String {
        self.site.node.root_url(&format!("/{}/{name}", self.export))
    }

    #[track_caller]
    fn demand(&self, name: &str, content: &[u8]) {
        let stored = self.bucket.read(&format!("{}/{name}", self.export)).unwrap_or_default();
        assert!(stored == content, "{}: {name} has {} bytes", self.export, stored.len());
    }
}

fn adler(content: &[u8]) -> String {
    format!("{:08x}", adler32(content))
}

/// Up and down over both doors, of known and unknown length, with ranges and conditions.
#[test]
fn objects_go_through_both_doors() {
    let Some(site) = available("objects_go_through_both_doors", site()) else {
        return;
    };
    let (lab, content) = (&site.lab, bytes(SIZE, 1));
    let source = lab.file(&content);
    let source = source.to_str().expect("plain");
    for place in site.places() {
        let url = |name: &str| place.url(name);
        lab.upload(&url("deep/put"), &content, &[]).expect(201);
        place.demand("deep/put", &content);
        lab.upload(&url("chunked"), &content, &["Transfer-Encoding: chunked"])
            .expect(201);
        place.demand("chunked", &content);
        for (name, size) in [("empty", 0), ("one", 1)] {
            lab.upload(&url(name), &content[..size], &[]).expect(201);
            place.demand(name, &content[..size]);
            assert_eq!(lab.curl(&[&url(name)]).expect(200).body, content[..size]);
        }
        lab.xrdcp(&["-f", source, &place.root("xrdcp")]).succeeded();
        place.demand("xrdcp", &content);
        assert!(
            lab.curl(&[&url("xrdcp")]).expect(200).body == content,
            "{}",
            place.export
        );
        let part = lab.curl(&["-r", "1000000-2999999", &url("xrdcp")]).expect(206);
        assert!(part.body == content[1_000_000..3_000_000], "{}", place.export);
        let down = lab.fresh("down");
        let to = down.to_str().expect("plain");
        lab.xrdcp(&["-f", "-C", "adler32:print", &place.root("deep/put"), to])
            .succeeded();
        assert!(std::fs::read(&down).expect("it came") == content, "{}", place.export);
        // A wrong checksum leaves nothing, and a file that must be new replaces none.
        let wrong = ["Digest: adler32=00000001"];
        let refused = lab.upload(&url("wrong"), &content, &wrong);
        assert!(
            (400..500).contains(&refused.status),
            "{}: {}",
            refused.status,
            refused.text()
        );
        lab.curl(&[&url("wrong")]).expect(404);
        lab.upload(&url("xrdcp"), b"other", &["If-None-Match: *"]).expect(412);
        lab.upload(&url("xrdcp"), b"other", &[]).expect(204);
        place.demand("xrdcp", b"other");
        lab.upload(&url("xrdcp/below"), b"other", &[]).expect(409);
        lab.request("DELETE", &url("xrdcp"), &[]).expect(204);
        lab.curl(&[&url("xrdcp")]).expect(404);
    }
}

/// Checksums that S3 does not know are kept in tags: of our objects, and of others after one read.
#[test]
fn checksums_are_kept_beside_objects() {
    let Some(site) = available("checksums_are_kept_beside_objects", site()) else {
        return;
    };
    let (lab, content) = (&site.lab, bytes(SIZE, 2));
    let file = lab.file(&content);
    for place in site.places() {
        let digest = |name: &str| {
            let told = lab
                .request("HEAD", &place.url(name), &["Want-Digest: adler32"])
                .expect(200);
            told.header("digest").map(str::to_owned)
        };
        let expected = Some(format!("adler32={}", adler(&content)));
        lab.upload(&place.url("ours"), &content, &[]).expect(201);
        lab.xrdcp(&["-f", file.to_str().expect("plain"), &place.root("by-xrdcp")])
            .succeeded();
        let key = |name: &str| format!("{}/{name}", place.export);
        place.bucket.store(&key("theirs"), &content).expect("stored");
        for name in ["ours", "by-xrdcp", "theirs"] {
            assert_eq!(digest(name), expected, "{}: {name}", place.export);
            let tags = place.bucket.tags(&key(name)).expect("it has tags");
            let kept = format!("<Key>adler32</Key><Value>{}</Value>", adler(&content));
            assert!(tags.contains(&kept), "{}: {name}: {tags}", place.export);
            let told = site.xrdfs(&["query", "checksum", &format!("/{}/{name}", place.export)]);
            assert!(told.text().contains(&adler(&content)), "{}", told.said());
        }
        // Replaced behind our back: the tags are gone with the old object.
        place.bucket.store(&key("ours"), b"other").expect("stored");
        let expected = Some(format!("adler32={}", adler(b"other")));
        assert_eq!(digest("ours"), expected, "{}", place.export);
    }
}

/// The storage copies by itself: nothing of it passes the endpoint, and its checksum is kept.
#[test]
fn a_copy_within_a_bucket_is_made_by_the_storage() {
    let Some(site) = available("a_copy_within_a_bucket_is_made_by_the_storage", site()) else {
        return;
    };
    let (lab, content) = (&site.lab, bytes(SIZE, 4));
    for place in site.places() {
        // An export of its own, so that no other test moves bytes there.
        let export = format!("copies-{}", place.export);
        let url = |name: &str| site.node.url(&format!("/{export}/{name}"));
        let moved = || {
            let page = site.node.admin_url("/metrics").expect("an admin door");
            let metrics = lab.curl(&[&page]).expect(200).text();
            let of_place = |line: &&str| line.contains("upstream_bytes_total") && line.contains(&export);
            metrics
                .lines()
                .filter(of_place)
                .map(str::to_owned)
                .collect::<BTreeSet<_>>()
        };
        let copy = |from: &str, to: &str, headers: &[&str]| {
            let destination = format!("Destination: {}", url(to));
            let headers = [&[destination.as_str()], headers].concat();
            lab.request("COPY", &url(from), &headers)
        };
        let stored = |name: &str| place.bucket.read(&format!("{export}/{name}")).unwrap_or_default();
        lab.upload(&url("from"), &content, &[]).expect(201);
        let before = moved();
        copy("from", "to", &[]).expect(201);
        assert_eq!(moved(), before, "{export}");
        assert!(
            before.iter().any(|line| line.ends_with(&format!(" {SIZE}"))),
            "{before:?}"
        );
        assert!(stored("to") == content, "{export}");
        let tags = place.bucket.tags(&format!("{export}/to")).expect("tags");
        assert!(tags.contains(&adler(&content)), "{export}: {tags}");
        copy("from", "to", &["Overwrite: F"]).expect(412);
        lab.upload(&url("from"), b"newer", &[]).expect(204);
        copy("from", "to", &[]).expect(204);
        assert_eq!(stored("to"), b"newer", "{export}");
        copy("to", "from/below", &[]).expect(409);
        copy("to", "none/below", &[]).expect(409);
        assert!(stored("none/below").is_empty(), "{export}");
    }
}

/// Nothing of the old directory is lost before all files of the new one are there.
#[test]
fn a_copy_over_a_directory_keeps_what_it_has_not_replaced() {
    let test = "a_copy_over_a_directory_keeps_what_it_has_not_replaced";
    let Some(site) = available(test, site()) else { return };
    let (lab, bucket) = (&site.lab, site.versitygw.bucket());
    let clear = bucket.host(false);
    let port = clear.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let relay = Relay::start(([127, 0, 0, 1], port.expect("a port")).into()).expect("a relay");
    let tls_host = format!("https://{}", bucket.host(true));
    let relayed = format!("http://localhost:{}", relay.address().port());
    let mut options = lab.options("over");
    options.exports.clear();
    options.more = export("over", bucket, "over", &site.secret).replace(&tls_host, &relayed);
    let node = lab.crossload(options).expect("a node");
    let url = |name: &str| node.url(&format!("/over/{name}"));
    let copy = || lab.request("COPY", &url("new"), &[&format!("Destination: {}", url("old"))]);
    for name in [
        "new/a",
        "new/b",
        "new/d/c",
        "new/f/below",
        "old/b",
        "old/gone/x",
        "old/d/e",
        "old/f",
    ] {
        bucket.store(&format!("over/{name}"), name.as_bytes()).expect("stored");
    }
    relay.set_fault(Fault::DieAt("GET /bucket/over/new/d/c"), usize::MAX);
    let torn = copy();
    assert!(
        torn.status == 207 || torn.status >= 500,
        "{}: {}",
        torn.status,
        torn.text()
    );
    assert!(relay.struck() > 0, "{}", torn.text());
    relay.heal();
    for name in ["old/gone/x", "old/d/e", "old/f"] {
        let kept = bucket.read(&format!("over/{name}")).unwrap_or_default();
        assert_eq!(kept, name.as_bytes(), "{name}");
    }
    assert!(bucket.read("over/old/b").is_ok());
    copy().expect(204);
    for name in ["a", "b", "d/c", "f/below"] {
        let copied = bucket.read(&format!("over/old/{name}")).unwrap_or_default();
        assert_eq!(copied, format!("new/{name}").as_bytes());
    }
    for name in ["gone/x", "gone", "d/e"] {
        lab.curl(&[&url(&format!("old/{name}"))]).expect(404);
    }
}

/// Directories are prefixes and marks; what objects cannot do is refused in words at both doors.
#[test]
fn directories_are_prefixes_and_names_stay() {
    let Some(site) = available("directories_are_prefixes_and_names_stay", site()) else {
        return;
    };
    let lab = &site.lab;
    for place in site.places() {
        let url = |name: &str| place.url(name);
        let listed = |name: &str| lab.request("PROPFIND", &url(name), &["Depth: 1"]).expect(207).text();
        lab.request("MKCOL", &url("dir"), &[]).expect(201);
        lab.request("MKCOL", &url("dir"), &[]).expect(405);
        lab.request("MKCOL", &url("none/dir"), &[]).expect(409);
        assert_eq!(listed("dir").matches("href>").count(), 2, "{}", listed("dir"));
        // Names of all kinds.
        let names = ["a b%", "plus+and&", "öäü-\u{65e5}", "quote'\"<x>", "~tilde=,;@"];
        for (at, name) in names.iter().enumerate() {
            let content = bytes(100 + at, 3);
            let escaped = escape(name);
            lab.upload(&url(&format!("dir/{escaped}")), &content, &[]).expect(201);
            place.demand(&format!("dir/{name}"), &content);
            let back = lab.curl(&[&url(&format!("dir/{escaped}"))]).expect(200);
            assert_eq!(back.body, content, "{name}");
            let size = format!(">{}<", content.len());
            let seen = lab.request("HEAD", &url(&format!("dir/{escaped}")), &[]).expect(200);
            let tag = seen.header("etag").expect("a tag").trim_matches('"').to_owned();
            assert!(listed("dir").contains(&tag), "{name}: {tag}: {}", listed("dir"));
            assert!(listed("dir").contains(&size), "{name}: {}", listed("dir"));
        }
        lab.request("DELETE", &url("dir"), &["Depth: 0"]).expect(409);
        let path = |name: &str| format!("/{}/{name}", place.export);
        assert_ne!(site.xrdfs(&["rmdir", &path("dir")]).code, Some(0));
        // A name is not changed.
        let to = format!("Destination: {}", url("dir/moved"));
        let refused = lab.request("MOVE", &url("dir/a%20b%25"), &[&to]).expect(501).text();
        assert!(refused.contains("object stores cannot rename"), "{refused}");
        let refused = site.xrdfs(&["mv", &path("dir/a b%"), &path("dir/moved")]);
        let is_unsupported = refused.said().contains("[3013]") && refused.said().contains("cannot rename");
        assert!(is_unsupported, "{}", refused.said());
        let refused = site.xrdfs(&["truncate", &path("dir/a b%"), "5"]);
        let is_unsupported = refused.said().contains("[3013]") && refused.said().contains("not changed in place");
        assert!(is_unsupported, "{}", refused.said());
        lab.curl(&[&url("dir/a%20b%25")]).expect(200);
        for name in names {
            lab.request("DELETE", &url(&format!("dir/{}", escape(name))), &[])
                .expect(204);
        }
        lab.request("MKCOL", &url("tree"), &[]).expect(201);
        lab.request("DELETE", &url("tree"), &[]).expect(204);
        lab.curl(&[&url("tree")]).expect(404);
        lab.upload(&url("trees/x/y"), b"y", &[]).expect(201);
        lab.request("DELETE", &url("trees"), &[]).expect(204);
        lab.curl(&[&url("trees/x/y")]).expect(404);
    }
    // The root of a bucket, and keys that no path can name.
    let bucket = site.versitygw.bucket();
    bucket.store("at-the-top", b"top").expect("stored");
    let listed = |path: &str| {
        let url = site.node.url(path);
        lab.request("PROPFIND", &url, &["Depth: 1"]).expect(207).text()
    };
    assert!(listed("/whole/").contains("at-the-top"), "{}", listed("/whole/"));
    let many = site.versitygw.data().join("bucket/many");
    std::fs::create_dir(&many).expect("made");
    for name in 0..MANY {
        std::fs::write(many.join(format!("{name}")), b"").expect("written");
    }
    assert_eq!(listed("/whole/many").matches("href>").count(), 2 * (MANY + 1));
}

fn escape(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'-' | b'~' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// Third-party copies over both protocols in both directions, gfal, and the cache.
#[test]
fn copies_end_and_begin_at_objects() {
    let Some(site) = available("copies_end_and_begin_at_objects", site()) else {
        return;
    };
    let (lab, content) = (&site.lab, bytes(SIZE, 4));
    let other = lab.crossload(lab.options("other")).expect("it starts");
    std::fs::write(other.data().join("source"), &content).expect("written");
    let pulled = format!("Source: {}", other.url("/data/source"));
    for place in site.places() {
        let copied = lab.copy(&place.url("pulled"), &pulled, &["X-Number-Of-Streams: 4"]);
        assert_eq!(
            last_line(&copied),
            "success: Created",
            "{}: {}",
            place.export,
            copied.text()
        );
        place.demand("pulled", &content);
        let pushed = format!("Destination: {}", other.url(&format!("/data/from-{}", place.export)));
        let copied = lab.copy(&place.url("pulled"), &pushed, &[]);
        assert_eq!(
            last_line(&copied),
            "success: Created",
            "{}: {}",
            place.export,
            copied.text()
        );
        let stored = other.data().join(format!("from-{}", place.export));
        assert!(std::fs::read(stored).expect("stored") == content, "{}", place.export);
        lab.xrdcp(&[
            "-f",
            "--tpc",
            "only",
            &other.root_url("/data/source"),
            &place.root("tpc"),
        ])
        .succeeded();
        place.demand("tpc", &content);
        lab.xrdcp(&["-f", "--tpc", "only", &place.root("tpc"), &other.root_url("/data/to")])
            .succeeded();
        assert!(
            std::fs::read(other.data().join("to")).expect("stored") == content,
            "{}",
            place.export
        );
    }
    let place = &site.places()[0];
    let source = format!("file://{}", lab.file(&content).display());
    let url = place.url("gfal").replace("https:", "davs:");
    lab.gfal("copy", &["-f", "-K", "adler32", &source, &url]).succeeded();
    place.demand("gfal", &content);
    lab.gfal("rm", &[&url]).succeeded();
    for _ in 0..2 {
        assert!(lab.curl(&[&site.node.url("/cached/pulled")]).expect(200).body == content);
    }
}

/// Above the size of one request an object is sent in parts, and is there at the end only.
#[test]
fn a_large_object_is_stored_in_parts() {
    let Some(site) = available("a_large_object_is_stored_in_parts", site()) else {
        return;
    };
    let (lab, content) = (&site.lab, bytes(IN_PARTS_BYTES, 5));
    let place = &site.places()[0];
    let wrong = lab.upload(&place.url("parts"), &content, &["Digest: adler32=00000001"]);
    assert!((400..500).contains(&wrong.status), "{}: {}", wrong.status, wrong.text());
    lab.curl(&[&place.url("parts")]).expect(404);
    lab.upload(&place.url("parts"), &content, &[]).expect(201);
    let back = lab.curl(&["-r", "67108000-", &place.url("parts")]).expect(206);
    assert!(back.body == content[67_108_000..]);
    let told = lab
        .request("HEAD", &place.url("parts"), &["Want-Digest: adler32"])
        .expect(200);
    let expected = format!("adler32={}", adler(&content));
    assert_eq!(told.header("digest"), Some(expected.as_str()));
    // A pull with several streams sends a part by each.
    // By its own name it would copy within itself.
    let relay = Relay::start(([127, 0, 0, 1], site.node.port()).into()).expect("a relay");
    let pulled = format!("Source: https://localhost:{}/versitygw/parts", relay.port());
    let target = site.places()[1].url("pulled-parts");
    let copied = lab.copy(&target, &pulled, &["X-Number-Of-Streams: 2"]);
    assert_eq!(last_line(&copied), "success: Created", "{}", copied.text());
    site.places()[1].demand("pulled-parts", &content);
    until("two streams", SOON, || {
        let log = site.node.log().stderr();
        let is_range = |line: &&str| line.contains("\"path\":\"/versitygw/parts\",\"status\":206");
        let ours = log.lines().filter(is_range).filter(|line| line.contains("crossload/"));
        ours.count() > 1
    });
    let told = lab.request("HEAD", &target, &["Want-Digest: adler32"]).expect(200);
    assert_eq!(told.header("digest"), Some(expected.as_str()));
    until("no parts are left", SOON, || {
        let unfinished = place.bucket.unfinished().expect("a list");
        !unfinished.contains("<Key>versitygw/parts</Key>")
    });
}

/// At a storage that ignores `If-None-Match` a new file replaces none either, nor one that was made
/// while it came.
#[test]
fn a_new_file_replaces_none_at_a_storage_without_conditions() {
    let test = "a_new_file_replaces_none_at_a_storage_without_conditions";
    let Some(site) = available(test, site()) else { return };
    let (lab, url) = (&site.lab, |name: &str| site.node.url(&format!("/silent/{name}")));
    lab.upload(&url("new"), b"one", &["If-None-Match: *"]).expect(201);
    lab.upload(&url("new"), b"two", &["If-None-Match: *"]).expect(412);
    assert_eq!(lab.curl(&[&url("new")]).expect(200).body, b"one");
    let mut client = TcpStream::connect(("127.0.0.1", site.node.port())).expect("connected");
    client.set_read_timeout(Some(SOON)).expect("a limit");
    let head = "PUT /silent/late HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nIf-None-Match: *\r\n\
                Expect: 100-continue\r\nConnection: close\r\n\r\n";
    client.write_all(head.as_bytes()).expect("sent");
    let mut invitation = [0; 25];
    client.read_exact(&mut invitation).expect("an answer");
    assert!(
        invitation.starts_with(b"HTTP/1.1 100"),
        "{}",
        String::from_utf8_lossy(&invitation)
    );
    site.versitygw.bucket().store("silent/late", b"theirs").expect("stored");
    client.write_all(b"two").expect("sent");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 412"), "{answer}");
    assert_eq!(
        site.versitygw.bucket().read("silent/late").expect("it is there"),
        b"theirs"
    );
}

/// A missing bucket is a failure of the export, and no missing file.
#[test]
fn a_missing_bucket_is_no_missing_file() {
    let Some(site) = available("a_missing_bucket_is_no_missing_file", site()) else {
        return;
    };
    let (lab, url) = (&site.lab, site.node.url("/lost/file"));
    let words = "the bucket of this export does not exist";
    for told in [
        lab.curl(&[&url]).expect(502),
        lab.upload(&url, b"content", &[]).expect(502),
        lab.request("PROPFIND", &url, &["Depth: 0"]).expect(502),
    ] {
        assert!(told.text().contains(words), "{}", told.text());
    }
    let refused = site.xrdfs(&["stat", "/lost/file"]);
    assert!(
        refused.said().contains(words) && !refused.said().contains("[3011]"),
        "{}",
        refused.said()
    );
}

/// The log says what a storage offers, and `check` too; what is wrong is named.
#[test]
fn an_administrator_sees_what_the_storage_offers() {
    let Some(site) = available("an_administrator_sees_what_the_storage_offers", site()) else {
        return;
    };
    let lab = &site.lab;
    until("the storages were tried", SOON, || {
        let log = site.node.log().stderr();
        let tried = log.lines().filter(|line| line.contains("\"upstream_offers\""));
        let honours = tried.filter(|line| line.contains("\"creates_only\":true") && line.contains("\"tags\":true"));
        let ignores = |line: &str| line.contains("\"creates_only\":false") && line.contains("/silent");
        honours.count() == 5 && log.lines().any(ignores)
    });
    let trust = format!("ca_files = [{:?}]\n", lab.authority().ca_file());
    let trusting = |trust: &str, export: &str| {
        let file = lab.fresh("check.toml");
        let text = format!("[trust]\n{trust}ca_directories = []\nsystem = false\n{export}");
        std::fs::write(&file, text).expect("written");
        lab.run_client("check", &["--config", file.to_str().expect("plain")])
            .text()
    };
    let check = |export: &str| trusting(&trust, export);
    for place in site.places() {
        let told = check(&export("ok", place.bucket, "versitygw", &site.secret));
        let words = "can be used: it honours If-None-Match, keeps checksums in tags, and reports ";
        let reports = told
            .split_once(words)
            .map(|(_, rest)| rest.lines().next().unwrap_or(rest));
        assert!(
            reports.is_some_and(|sums| sums.contains("md5")),
            "{}: {told}",
            place.export
        );
        let told = check(&export("ok", place.bucket, "x", &site.secret).replace("/bucket/", "/no-such-bucket/"));
        assert!(told.contains("upstream_no_directory"), "{}: {told}", place.export);
        let wrong = lab.fresh("wrong.key");
        std::fs::write(&wrong, "wr0ng").expect("written");
        restrict(&wrong).expect("its mode");
        let told = check(&export("ok", place.bucket, "x", wrong.to_str().expect("plain")));
        assert!(
            told.contains("upstream_denied") && !told.contains("wr0ng"),
            "{}: {told}",
            place.export
        );
        // Each mistake in the URL has its own code, key and remedy.
        let lines = export("ok", place.bucket, "versitygw", &site.secret);
        let [clear, tls] = [false, true].map(|is_tls| place.bucket.host(is_tls));
        for (told, code, change) in [
            (
                check(&lines.replace(&format!("https://{tls}"), &format!("http://{tls}"))),
                "upstream_expects_tls",
                format!("write s3 = \"https://{tls}/"),
            ),
            (
                check(&lines.replace(&tls, &clear)),
                "upstream_without_tls",
                format!("write s3 = \"http://{clear}/"),
            ),
            (
                trusting("", &lines),
                "upstream_untrusted",
                "[trust] ca_files".to_owned(),
            ),
        ] {
            let is_told = told.contains(&format!("{code}: ")) && told.contains(&change);
            assert!(
                is_told && told.contains(" export.s3\n"),
                "{}: {code}: {told}",
                place.export
            );
        }
    }
    let lines = export("ok", site.versitygw.bucket(), "versitygw", &site.secret);
    let file = lab.fresh("explained.toml");
    std::fs::write(&file, &lines).expect("written");
    let file = file.to_str().expect("plain");
    let told = lab.run_client("explain", &["--config", file, "--op", "read", "--path", "/ok/f"]);
    let words = format!("in the S3 storage {}\n", site.versitygw.bucket().url(true, "versitygw"));
    assert!(told.text().contains(&words), "{}", told.said());
    let told = check(&lines.replace("s3 = ", "s3_region = \"eu-west-9\"\ns3 = "));
    let is_told = told.contains("s3_region_wrong: ") && told.contains("write s3_region = \"us-east-1\"");
    assert!(is_told && told.contains(" export.s3_region\n"), "{told}");
}
