//! Copies from and to URLs that are signed for one request, at real S3 servers: ordered by gfal and
//! davix with S3 credentials, by curl, and by our client.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use conformance::{Answer, Lab, Run, Slot, bytes, last_line, run, shared, transfers, until};
use testkit::{Crossload, Error, Result, S3Bucket, S3Method, SeaweedFs, VersityGateway, available, require, secrets};

const PATIENCE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

struct Site {
    lab: Lab,
    server: Crossload,
    seaweedfs: Result<SeaweedFs>,
    versitygw: Result<VersityGateway>,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site(test: &str) -> Option<Arc<Site>> {
    let made = shared(&SITE, || {
        for program in ["curl", "gfal-copy", "davix-cp"] {
            require(program)?;
        }
        let lab = Lab::new("presigned")?;
        let server = lab.crossload(lab.options("server"))?;
        let seaweedfs = SeaweedFs::start(&lab.fresh("seaweedfs"), lab.host());
        let versitygw = VersityGateway::start(&lab.fresh("versitygw"), lab.host());
        Ok(Site {
            lab,
            server,
            seaweedfs,
            versitygw,
        })
    });
    available(test, made)
}

impl Site {
    /// The buckets of the servers that are there, with their names.
    fn buckets(&self, test: &str) -> Vec<(&'static str, &S3Bucket)> {
        let missing = |error: &Error| error.clone();
        let seaweedfs = self.seaweedfs.as_ref().map(SeaweedFs::bucket).map_err(missing);
        let versitygw = self.versitygw.as_ref().map(VersityGateway::bucket).map_err(missing);
        let named = [("seaweedfs", seaweedfs), ("versitygw", versitygw)];
        let there = named
            .into_iter()
            .filter_map(|(name, bucket)| Some((name, available(test, bucket)?)));
        there.collect()
    }

    /// The last line of a pull of this URL to `/data/NAME`, with the status.
    fn pull(&self, url: &str, name: &str, headers: &[&str]) -> String {
        let target = self.server.url(&format!("/data/{name}"));
        told(&self.lab.copy(&target, &format!("Source: {url}"), headers))
    }

    /// The last line of a push of `/data/NAME` to this URL, with the status.
    fn push(&self, name: &str, url: &str, headers: &[&str]) -> String {
        let source = self.server.url(&format!("/data/{name}"));
        told(&self.lab.copy(&source, &format!("Destination: {url}"), headers))
    }

    fn put(&self, name: &str, content: &[u8]) {
        std::fs::write(self.server.data().join(name), content).expect("a file of the export");
    }

    fn stored(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.server.data().join(name)).unwrap_or_default()
    }

    /// What the log says of a copy of `/data/NAME`.
    fn logged(&self, name: &str) -> serde_json::Value {
        let path = format!("/data/{name}");
        let mut line = None;
        until("the copy is in the log", PATIENCE, || {
            let all = transfers(self.server.log());
            line = all.into_iter().find(|line| line["path"] == path.as_str());
            line.is_some()
        });
        line.expect("it was waited for")
    }

    /// Runs `copy` of our client, which must not tell a signature; on its command line one is.
    fn copy(&self, arguments: &[&str]) -> Run {
        let said = self.lab.run_client("copy", &[&["-vv"], arguments].concat());
        secrets::demand_none("what the client says", &said.said());
        said
    }
}

fn told(answer: &Answer) -> String {
    format!("{} {}", answer.status, last_line(answer))
}

fn signed(bucket: &S3Bucket, is_tls: bool, method: S3Method, key: &str) -> String {
    bucket.presigned(is_tls, method, key, SystemTime::now(), HOUR)
}

/// A directory of gfal's configuration with the keys of this bucket, and a line for its region.
fn gfal_configuration(lab: &Lab, bucket: &S3Bucket, region: &str) -> std::path::PathBuf {
    let directory = lab.fresh("gfal2.d");
    std::fs::create_dir(&directory).expect("a directory");
    for name in ["gfal2_core.conf", "http_plugin.conf"] {
        let text = std::fs::read_to_string(format!("/etc/gfal2.d/{name}")).expect("gfal's own");
        std::fs::write(directory.join(name), text).expect("a copy");
    }
    let keys = format!(
        "[S3:LOCALHOST]\nACCESS_KEY={}\nSECRET_KEY={}\nALTERNATE=true\n{region}",
        bucket.access_key(),
        bucket.secret_key(),
    );
    std::fs::write(directory.join("s3.conf"), keys).expect("the keys");
    directory
}

/// Orders copies with S3 URLs in both directions by `order`, and compares what both ends have.
fn in_both_directions(site: &Site, by: &str, bucket: &S3Bucket, over_tls: &[bool], order: impl Fn(&str, &str) -> Run) {
    for is_tls in over_tls.iter().copied() {
        let key = format!("{by}-{is_tls}");
        let scheme = if is_tls { "s3s" } else { "s3" };
        let object = |key: &str| format!("{scheme}://{}/{}/{key}", bucket.host(is_tls), bucket.name());
        let ours = |name: &str| site.server.url(&format!("/data/{name}")).replacen("https", "davs", 1);
        let content = bytes((3 << 20) + 1, 7);
        bucket.store(&key, &content).expect("an object");
        let (pulled, pushed) = (format!("{key}-pulled"), format!("{key}-pushed"));
        let said = order(&object(&key), &ours(&pulled));
        assert_eq!(said.code, Some(0), "{by} {bucket:?}: {}", said.said());
        assert!(site.stored(&pulled) == content, "{by} {bucket:?}");
        let line = site.logged(&pulled);
        assert_eq!(
            (&line["mode"], &line["outcome"]),
            (&"pull".into(), &"success".into()),
            "{line}"
        );
        site.put(&pushed, &content);
        let said = order(&ours(&pushed), &object(&pushed));
        assert_eq!(said.code, Some(0), "{by} {bucket:?}: {}", said.said());
        assert!(
            bucket.read(&pushed).expect("it is stored") == content,
            "{by} {bucket:?}"
        );
        let line = site.logged(&pushed);
        assert_eq!(
            (&line["mode"], &line["outcome"]),
            (&"push".into(), &"success".into()),
            "{line}"
        );
    }
}

#[test]
fn gfal_copies_between_s3_and_us() {
    let test = "gfal_copies_between_s3_and_us";
    let Some(site) = site(test) else { return };
    for (name, bucket) in site.buckets(test) {
        let by = |label: String, over_tls: &[bool], region: &str| {
            let configuration = gfal_configuration(&site.lab, bucket, region);
            in_both_directions(&site, &label, bucket, over_tls, |from, to| {
                let mut command = site.lab.command("gfal-copy").expect("gfal");
                // The object store cannot be the active side.
                let mode = if from.starts_with("s3") { "pull" } else { "push" };
                command.env("GFAL_CONFIG_DIR", &configuration);
                command.args(["-f", "--copy-mode", mode, from, to]);
                run(&command)
            });
        };
        let region = format!("REGION={}\n", bucket.region());
        by(format!("gfal-{name}"), &[true], &region);
        // Without a region it signs as version 2 has it, which versitygw does not know.
        if name == "seaweedfs" {
            by(format!("gfal2-{name}"), &[false], "");
        }
    }
}

#[test]
fn davix_copies_between_s3_and_us() {
    let test = "davix_copies_between_s3_and_us";
    let Some(site) = site(test) else { return };
    for (name, bucket) in site.buckets(test) {
        in_both_directions(&site, &format!("davix-{name}"), bucket, &[false, true], |from, to| {
            let keys = [
                "--s3accesskey",
                bucket.access_key(),
                "--s3secretkey",
                bucket.secret_key(),
            ];
            let mode = if from.starts_with("s3") { "pull" } else { "push" };
            let style = ["--s3alternate", "--s3region", bucket.region(), "--copy-mode", mode];
            let credential = ["-H", "Credential: none"];
            site.lab
                .davix("cp", &[&keys[..], &style, &credential, &[from, to]].concat())
        });
    }
}

#[test]
fn signed_urls_are_read_over_several_streams_and_stored_with_one_put() {
    let test = "signed_urls_are_read_over_several_streams_and_stored_with_one_put";
    let Some(site) = site(test) else { return };
    for (name, bucket) in site.buckets(test) {
        for is_tls in [false, true] {
            let key = format!("curl-{name}-{is_tls}");
            let content = bytes(40 << 20, 9);
            bucket.store(&key, &content).expect("an object");
            let url = signed(bucket, is_tls, S3Method::Get, &key);
            // As gfal orders it, and without its words, but with a token that must not go there.
            let headers = match is_tls {
                false => "Copy-Flags: NoHead",
                true => "TransferHeaderAuthorization: Bearer none",
            };
            let said = site.pull(&url, &key, &[headers, "X-Number-Of-Streams: 3"]);
            assert!(said.contains("success"), "{bucket:?}: {said}");
            assert!(site.stored(&key) == content, "{bucket:?}");
            let line = site.logged(&key);
            assert_eq!(line["streams"], 3, "{line}");
            let pushed = format!("{key}-pushed");
            site.put(&pushed, &content);
            let put = signed(bucket, is_tls, S3Method::Put, &pushed);
            let said = site.push(&pushed, &put, &["Copy-Flags: NoHead"]);
            assert!(said.contains("success"), "{bucket:?}: {said}");
            assert!(bucket.read(&pushed).expect("it is stored") == content, "{bucket:?}");
            let said = site.push(&pushed, &put, &["Overwrite: F"]);
            assert!(said.contains("File exists"), "{bucket:?}: {said}");
        }
    }
    if let Ok(server) = &site.versitygw {
        let ours = |line: &&String| line.contains("crossload/");
        let requests = server.requests("curl-versitygw");
        let of = |operation: &str| {
            requests
                .iter()
                .filter(ours)
                .filter(|line| line.contains(operation))
                .count()
        };
        assert!(of("s3_GetObject") > 0 && of("s3_PutObject") == 4, "{requests:#?}");
        assert_eq!(of("s3_"), of("s3_GetObject") + of("s3_PutObject"), "{requests:#?}");
    }
}

#[test]
fn our_client_reads_and_stores_by_signed_urls() {
    let test = "our_client_reads_and_stores_by_signed_urls";
    let Some(site) = site(test) else { return };
    for (name, bucket) in site.buckets(test) {
        for is_tls in [false, true] {
            let key = format!("client-{name}-{is_tls}");
            for size in [0, 1, 20 << 20] {
                let content = bytes(size, 11);
                let (key, up) = (format!("{key}-{size}"), format!("{key}-{size}-up"));
                bucket.store(&key, &content).expect("an object");
                let get = signed(bucket, is_tls, S3Method::Get, &key);
                let down = site.lab.fresh("down");
                let down = down.to_str().expect("plain");
                site.copy(&[&get, down]).succeeded();
                assert!(std::fs::read(down).expect("a file") == content, "{bucket:?} {size}");
                site.copy(&[down, &signed(bucket, is_tls, S3Method::Put, &up)])
                    .succeeded();
                assert!(bucket.read(&up).expect("it is stored") == content, "{bucket:?} {size}");
            }
            // Our server pulls. Within the bucket neither end can be the active side, so that the
            // client moves the data.
            let get = signed(bucket, is_tls, S3Method::Get, &format!("{key}-1"));
            let pulled = format!("{key}-pulled");
            let target = site.server.url(&format!("/data/{pulled}"));
            site.copy(&["--mode", "pull", &get, &target]).succeeded();
            assert!(site.stored(&pulled) == bytes(1, 11), "{bucket:?}");
            let through = format!("{key}-through");
            site.copy(&[&get, &signed(bucket, is_tls, S3Method::Put, &through)])
                .succeeded();
            assert!(
                bucket.read(&through).expect("it is stored") == bytes(1, 11),
                "{bucket:?}"
            );
        }
    }
}

#[test]
fn what_a_signed_url_does_not_allow_is_told() {
    let test = "what_a_signed_url_does_not_allow_is_told";
    let Some(site) = site(test) else { return };
    let large = std::fs::File::create(site.server.data().join("large")).expect("a file");
    large.set_len((5 << 30) + 1).expect("a hole");
    for (name, bucket) in site.buckets(test) {
        let key = format!("refused-{name}");
        bucket.store(&key, b"object").expect("an object");
        let before = SystemTime::now() - 2 * HOUR;
        let expired = |method| bucket.presigned(true, method, &key, before, HOUR);
        let said = site.pull(&expired(S3Method::Get), &key, &["Copy-Flags: NoHead"]);
        assert!(
            said.starts_with("403") && said.contains("client authorize: The signed URL has expired"),
            "{said}"
        );
        assert_eq!(
            site.logged(&key)["error"]["code"],
            "signature_expired",
            "{}",
            site.logged(&key)
        );
        site.put("small", b"content");
        let said = site.push("small", &expired(S3Method::Put), &[]);
        assert!(said.contains("The signed URL has expired"), "{said}");
        let local = site.lab.fresh("local");
        let said = site
            .copy(&[&expired(S3Method::Get), local.to_str().expect("plain")])
            .failed_with(13);
        assert!(said.stderr.contains("Sign the URL again"), "{}", said.said());

        let said = site.pull(&signed(bucket, true, S3Method::Get, "none"), "none", &[]);
        assert!(
            said.starts_with("404") && said.contains("No such file or directory at the peer"),
            "{said}"
        );
        // A wrong signature, which servers like to quote.
        let wrong = signed(bucket, true, S3Method::Get, "other").replace("/other?", &format!("/{key}?"));
        let said = site.pull(&wrong, "wrong", &[]);
        assert!(
            said.contains("Permission denied by the peer") && said.contains("SignatureDoesNotMatch"),
            "{said}"
        );

        let put = signed(bucket, true, S3Method::Put, "large");
        let said = site.push("large", &put, &[]);
        assert!(
            said.contains("File too large") && said.contains("credentials"),
            "{said}"
        );
        let said = site.lab.run_client_with_input("copy", &["-", &put], b"content");
        assert!(
            said.code != Some(0) && said.stderr.contains("the size is unknown"),
            "{}",
            said.said()
        );
        assert!(bucket.read("large").is_err(), "nothing is stored");
        for said in [said.said(), site.server.log().stderr()] {
            secrets::demand_none("what is said of a refusal", &said);
        }
    }
}
