//! The launchers bring up real peers that work: seen through curl.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use testkit::{
    AddressFamilies, Authority, Nginx, NginxOptions, Result, S3Bucket, S3Method, Scratch, SeaweedFs, VersityGateway,
    Xrootd, XrootdAccess, XrootdOptions, XrootdVersion, available, require,
};

const CONTENT: &[u8] = b"what is written here is read there";

struct Lab {
    scratch: Scratch,
    authority: Authority,
}

impl Lab {
    fn new() -> Result<Self> {
        require("curl")?;
        let scratch = Scratch::new("peers")?;
        let authority = Authority::new(scratch.path())?;
        fs::write(scratch.join("content"), CONTENT)?;
        Ok(Self { scratch, authority })
    }

    fn xrootd(&self, version: XrootdVersion, name: &str, access: XrootdAccess) -> Result<Xrootd> {
        Xrootd::start(&XrootdOptions {
            version,
            name: name.to_owned(),
            directory: self.scratch.create(name)?,
            data: self.scratch.create(&format!("{name}-files/data"))?,
            certificate: self.authority.issue_localhost()?,
            trust_directory: self.authority.trust_directory(),
            access,
            families: AddressFamilies::V4,
            more: String::new(),
        })
    }

    /// Runs curl and returns the status code and the body.
    fn curl(&self, arguments: &[&str]) -> (u16, String) {
        let mut command = Command::new("curl");
        command
            .args(["-sS", "--max-time", "60", "-w", "\n%{http_code}", "--cacert"])
            .arg(self.authority.ca_file());
        let output = command.args(arguments).output().expect("curl runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, code) = text.rsplit_once('\n').expect("curl writes a status");
        (code.parse().expect("a number"), body.to_owned())
    }

    fn upload(&self, url: &str) -> (u16, String) {
        let file = self.scratch.join("content");
        self.curl(&["-T", file.to_str().expect("plain path"), url])
    }
}

fn stored(data: &Path, name: &str) -> Vec<u8> {
    fs::read(data.join(name)).unwrap_or_default()
}

#[test]
fn two_xrootd_servers_copy_between_each_other() {
    let test = "two_xrootd_servers_copy_between_each_other";
    let Some(lab) = available(test, Lab::new()) else { return };
    for version in XrootdVersion::ALL {
        if let Some(first) = available(test, lab.xrootd(version, "first", XrootdAccess::Open)) {
            let second = lab.xrootd(version, "second", XrootdAccess::Open);
            copy_between(&lab, &first, &second.expect("a second one starts too"));
        }
    }
}

fn copy_between(lab: &Lab, first: &Xrootd, second: &Xrootd) {
    // 5.5.3 answers 200, 6.2.1 as RFC 9110 says.
    let uploaded = lab.upload(&first.url("/data/file")).0;
    assert!([200, 201].contains(&uploaded), "{uploaded}");
    assert_eq!(stored(first.data(), "file"), CONTENT);
    for url in [first.url("/data/file"), first.clear_url("/data/file")] {
        assert_eq!(lab.curl(&[&url]), (200, String::from_utf8_lossy(CONTENT).into_owned()));
    }
    let (code, properties) = lab.curl(&["-X", "PROPFIND", "-H", "Depth: 0", &first.url("/data/file")]);
    assert_eq!(code, 207);
    assert!(properties.contains(&format!("<lp1:getcontentlength>{}<", CONTENT.len())));
    let digest = lab
        .curl(&["-I", "-H", "Want-Digest: adler32", &first.url("/data/file")])
        .1;
    assert!(digest.contains("Digest: adler32="), "{digest}");

    let source = format!("Source: {}", first.url("/data/file"));
    let pull = lab.curl(&["-X", "COPY", "-H", &source, &second.url("/data/pulled")]);
    assert!(
        pull.1.lines().last().is_some_and(|line| line.starts_with("success")),
        "{pull:?}"
    );
    let destination = format!("Destination: {}", second.url("/data/pushed"));
    let push = lab.curl(&["-X", "COPY", "-H", &destination, &first.url("/data/file")]);
    assert!(
        push.1.lines().last().is_some_and(|line| line.starts_with("success")),
        "{push:?}"
    );
    for name in ["pulled", "pushed"] {
        assert_eq!(stored(second.data(), name), CONTENT);
    }
    assert_eq!(lab.curl(&["-X", "DELETE", &second.url("/data/pulled")]).0, 200);
}

#[test]
fn xrootd_issues_macaroons_and_guards_what_is_read_only() {
    let test = "xrootd_issues_macaroons_and_guards_what_is_read_only";
    let Some(lab) = available(test, Lab::new()) else { return };
    let Some(server) = available(
        test,
        lab.xrootd(XrootdVersion::V5, "guarded", XrootdAccess::ReadOnlyWithMacaroons),
    ) else {
        return;
    };
    fs::write(server.data().join("file"), CONTENT).expect("write below the server");
    let request = [
        "-X",
        "POST",
        "-H",
        "Content-Type: application/macaroon-request",
        "-d",
        r#"{"caveats": ["activity:DOWNLOAD"], "validity": "PT30M"}"#,
        &server.url("/data/file"),
    ];
    let (code, answer) = lab.curl(&request);
    assert_eq!(code, 200, "{answer}");
    assert!(answer.contains("\"macaroon\""), "{answer}");
    assert!(lab.upload(&server.url("/data/new")).0 >= 400);

    let open = lab
        .xrootd(XrootdVersion::V5, "open", XrootdAccess::OpenWithMacaroons)
        .expect("the open variant starts");
    assert_eq!(lab.upload(&open.url("/data/new")).0, 200);
}

#[test]
fn nginx_serves_and_stores_in_clear_and_over_tls() {
    let test = "nginx_serves_and_stores_in_clear_and_over_tls";
    let Some(lab) = available(test, Lab::new()) else { return };
    let started = Nginx::start(&NginxOptions {
        name: "nginx".to_owned(),
        directory: lab.scratch.join("nginx"),
        data: lab.scratch.join("nginx-files/data"),
        certificate: lab.authority.issue_localhost().expect("certificate"),
    });
    let Some(mut nginx) = available(test, started) else {
        return;
    };
    for (name, url) in [
        ("tls", nginx.url("/data/tls")),
        ("clear", nginx.clear_url("/data/clear")),
    ] {
        assert_eq!(lab.upload(&url).0, 201);
        assert_eq!(stored(nginx.data(), name), CONTENT);
        assert_eq!(lab.curl(&[&url]), (200, String::from_utf8_lossy(CONTENT).into_owned()));
    }
    assert!(nginx.process().memory().expect("memory").resident_bytes > 0);
    assert_eq!(lab.curl(&["-X", "DELETE", &nginx.url("/data/tls")]).0, 204);
}

#[test]
fn s3_servers_take_what_is_signed_and_nothing_else() {
    let test = "s3_servers_take_what_is_signed_and_nothing_else";
    let Some(lab) = available(test, Lab::new()) else { return };
    let host = lab.authority.issue_localhost().expect("a certificate");
    let directory = lab.scratch.join("seaweedfs");
    if let Some(server) = available(test, SeaweedFs::start(&directory, &host)) {
        is_strict(&lab, server.bucket());
    }
    let directory = lab.scratch.join("versitygw");
    if let Some(server) = available(test, VersityGateway::start(&directory, &host)) {
        is_strict(&lab, server.bucket());
    }
}

fn is_strict(lab: &Lab, bucket: &S3Bucket) {
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
    for is_tls in [false, true] {
        let key = format!("directory/a b+{is_tls}");
        let presigned = |method, at| bucket.presigned(is_tls, method, &key, at, hour);
        let status = |arguments: &[&str]| lab.curl(arguments).0;
        assert_eq!(lab.upload(&presigned(S3Method::Put, now)).0, 200, "{bucket:?}");
        assert_eq!(bucket.read(&key).expect("it is stored"), CONTENT);
        let url = presigned(S3Method::Get, now);
        assert_eq!(lab.curl(&["-r", "2-3", &url]), (206, "at".to_owned()), "{bucket:?}");
        assert_eq!(status(&["-I", &presigned(S3Method::Head, now)]), 200, "{bucket:?}");
        // For another method, too late, changed, and without a signature.
        assert_eq!(status(&["-I", &url]), 403, "{bucket:?}");
        assert_eq!(status(&[&presigned(S3Method::Get, now - 2 * hour)]), 403, "{bucket:?}");
        assert_eq!(status(&[&url.replace("directory", "other")]), 403, "{bucket:?}");
        assert_eq!(status(&[&bucket.url(is_tls, "first")]), 403, "{bucket:?}");
    }
}
