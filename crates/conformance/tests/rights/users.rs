//! Two virtual organisations, two local users: files that each stores over either protocol belong
//! to its user, neither can overwrite the other's, and a full quota refuses before the first byte.
//! The address tells the clients' identity.

use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use conformance::{Answer, Lab, RootSocket, alone, bytes, last_line};
use testkit::{Crossload, available};

const ATLAS: u8 = 2;
const CMS: u8 = 3;
const UNKNOWN: u8 = 4;
const ROOT: u8 = 5;
/// Users that every system has, and their numbers.
const ATLAS_USER: (&str, u32) = ("daemon", 1);
const CMS_USER: (&str, u32) = ("bin", 2);
const QUOTA: usize = 1 << 20;
/// Update, delete what is there, make the path.
const WRITES: u16 = 0x0020 | 0x0002 | 0x0100;
const NOT_AUTHORIZED: u32 = 3010;
const OVER_QUOTA: u32 = 3021;

fn rules() -> String {
    let mut text = format!(
        "[users]\nswitch = \"required\"\nminimum_uid = 1\n[[quota]]\nvo = \"atlas\"\npath = \"/data/atlas\"\nbytes = {QUOTA}\n"
    );
    let mapped = [
        (ATLAS, ATLAS_USER.0, "atlas"),
        (CMS, CMS_USER.0, "cms"),
        (UNKNOWN, "no-such-user", "cms"),
        (ROOT, "root", "cms"),
    ];
    for (host, user, vo) in mapped {
        text.push_str(&format!(
            "[[rule]]\nwho = \"address:127.0.0.{host}\"\npath = \"/data\"\nmay = [\"all\"]\nuser = \"{user}\"\nvo = \"{vo}\"\n"
        ));
    }
    text
}

fn site(test: &str) -> Option<(Lab, Crossload)> {
    let reason = || testkit::Error::Missing("acting as other users needs root".to_owned());
    available(test, testkit::is_superuser().then_some(()).ok_or_else(reason))?;
    let (lab, server) = alone(test, |options| {
        options.exports[0].anonymous = testkit::Access::None;
        options.more.push_str(&rules());
    })?;
    mode(server.data(), 0o777);
    Some((lab, server))
}

fn mode(file: &Path, mode: u32) {
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).expect("permissions");
}

fn owner(server: &Crossload, name: &str) -> u32 {
    std::fs::metadata(server.data().join(name)).expect(name).uid()
}

/// A request from one of the addresses.
fn from(lab: &Lab, host: u8, arguments: &[&str]) -> Answer {
    let address = format!("127.0.0.{host}");
    lab.curl(&[&["-4", "--interface", &address], arguments].concat())
}

fn put(lab: &Lab, host: u8, server: &Crossload, name: &str, content: &[u8]) -> Answer {
    let file = lab.file(content);
    let url = server.url(&format!("/data/{name}"));
    from(lab, host, &["-T", file.to_str().expect("plain path"), &url])
}

fn session(host: u8, server: &Crossload) -> RootSocket<TcpStream> {
    let mut session = RootSocket::connect_from(Ipv4Addr::new(127, 0, 0, host), server.port());
    session.greet(0);
    let _ = session.login();
    session
}

#[test]
fn files_over_http_belong_to_the_user_and_are_safe_from_others() {
    let test = "files_over_http_belong_to_the_user_and_are_safe_from_others";
    let Some((lab, server)) = site(test) else { return };
    put(&lab, ATLAS, &server, "atlas/f", b"theirs").expect(201);
    put(&lab, CMS, &server, "cms/f", b"ours").expect(201);
    assert_eq!(
        (owner(&server, "atlas"), owner(&server, "atlas/f")),
        (ATLAS_USER.1, ATLAS_USER.1)
    );
    assert_eq!(owner(&server, "cms/f"), CMS_USER.1);
    for (host, name) in [(CMS, "atlas/f"), (CMS, "atlas/g"), (ATLAS, "cms/f")] {
        put(&lab, host, &server, name, b"mine").expect(403);
    }
    let url = server.url("/data/atlas/f");
    from(&lab, CMS, &["-X", "DELETE", &url]).expect(403);
    from(&lab, CMS, &["-X", "MOVE", "-H", "Destination: /data/cms/g", &url]).expect(403);
    assert_eq!(from(&lab, CMS, &[&url]).expect(200).body, b"theirs");
    from(&lab, CMS, &["-X", "COPY", "-H", "Destination: /data/cms/copy", &url]).expect(201);
    assert_eq!(owner(&server, "cms/copy"), CMS_USER.1);
    mode(&server.data().join("atlas"), 0o700);
    for arguments in [
        &[url.as_str()][..],
        &["-I", &url],
        &["-X", "PROPFIND", "-H", "Depth: 0", &url],
    ] {
        from(&lab, CMS, arguments).expect(403);
    }
    from(&lab, ATLAS, &["-I", "-H", "Want-Digest: adler32", &url]).expect(200);
    from(&lab, ATLAS, &["-X", "DELETE", &url]).expect(204);
}

#[test]
fn a_user_that_cannot_be_acted_as_is_refused_and_never_the_server_itself() {
    let test = "a_user_that_cannot_be_acted_as_is_refused_and_never_the_server_itself";
    let Some((lab, server)) = site(test) else { return };
    for (host, code) in [(UNKNOWN, "user_unknown"), (ROOT, "user_refused")] {
        for answer in [
            put(&lab, host, &server, "f", b"x"),
            from(&lab, host, &[&server.url("/data/alive")]),
        ] {
            let text = answer.expect(403).text();
            assert!(text.contains(code), "{text}");
        }
        let refused = session(host, &server).try_open("/data/alive", 0x0010);
        refused.expect_error(NOT_AUTHORIZED);
    }
    assert!(!server.data().join("f").exists());
    lab.curl(&[&server.url("/data/alive")]).expect(401);
}

#[test]
fn files_over_xrootd_belong_to_the_user_and_are_safe_from_others() {
    let test = "files_over_xrootd_belong_to_the_user_and_are_safe_from_others";
    let Some((_lab, server)) = site(test) else { return };
    let (mut atlas, mut cms) = (session(ATLAS, &server), session(CMS, &server));
    let handle = atlas.open("/data/atlas/f", WRITES);
    let _ = atlas.write(handle, 0, b"theirs").expect_ok();
    let _ = atlas.close(handle).expect_ok();
    assert_eq!(owner(&server, "atlas/f"), ATLAS_USER.1);
    cms.try_open("/data/atlas/f", WRITES).expect_error(NOT_AUTHORIZED);
    cms.try_open("/data/atlas/f", 0x0020).expect_error(NOT_AUTHORIZED);
    cms.try_open("/data/atlas/g", WRITES).expect_error(NOT_AUTHORIZED);
    let handle = cms.open("/data/atlas/f", 0x0010);
    assert_eq!(cms.read(handle, 0, 6).expect_ok(), b"theirs");
    mode(&server.data().join("atlas"), 0o700);
    cms.stat("/data/atlas/f").expect_error(NOT_AUTHORIZED);
    let _ = atlas.stat("/data/atlas/f").expect_ok();
}

#[test]
fn third_party_copies_belong_to_whoever_orders_them() {
    let test = "third_party_copies_belong_to_whoever_orders_them";
    let Some((lab, server)) = site(test) else { return };
    let source = Crossload::start(lab.options("source")).expect("another server");
    let content = bytes(300_000, 1);
    std::fs::write(source.data().join("f"), &content).expect("file");
    let header = format!("Source: {}", source.url("/data/f"));
    let pull = |host, name: &str| {
        let url = server.url(&format!("/data/{name}"));
        from(
            &lab,
            host,
            &["-X", "COPY", "-H", &header, "-H", "Credential: none", &url],
        )
    };
    let pulled = pull(ATLAS, "atlas/pulled").expect(202);
    assert!(last_line(&pulled).starts_with("success"), "{}", last_line(&pulled));
    assert_eq!(owner(&server, "atlas/pulled"), ATLAS_USER.1);
    assert_eq!(
        std::fs::read(server.data().join("atlas/pulled")).expect("file"),
        content
    );
    let refused = pull(CMS, "atlas/pulled");
    assert!(last_line(&refused).contains("Permission denied"), "{}", refused.text());
    assert_eq!(owner(&server, "atlas/pulled"), ATLAS_USER.1);
}

#[test]
fn a_full_quota_is_told_before_the_first_byte_and_seen_from_outside() {
    let test = "a_full_quota_is_told_before_the_first_byte_and_seen_from_outside";
    let Some((lab, server)) = site(test) else { return };
    put(&lab, ATLAS, &server, "atlas/f", &bytes(QUOTA / 2, 1)).expect(201);
    let words = put(&lab, ATLAS, &server, "atlas/g", &bytes(QUOTA, 2))
        .expect(507)
        .text();
    let left = QUOTA / 2;
    assert!(
        words.contains("quota_exceeded")
            && words.contains(&format!(
                "{left} of {QUOTA} are left for the VO atlas below /data/atlas"
            )),
        "{words}"
    );
    let opened = session(ATLAS, &server).try_open(&format!("/data/atlas/g?oss.asize={QUOTA}"), WRITES);
    opened.expect_error(OVER_QUOTA);
    let body = "<propfind xmlns=\"DAV:\"><prop><quota-used-bytes/><quota-available-bytes/></prop></propfind>";
    let url = server.url("/data/atlas");
    let told = from(&lab, ATLAS, &["-X", "PROPFIND", "-H", "Depth: 0", "-d", body, &url]).expect(207);
    assert_eq!(told.text().matches(&format!(">{left}<")).count(), 2, "{}", told.text());
    let metrics = lab
        .curl(&[&server.admin_url("/metrics").expect("an admin door")])
        .expect(200)
        .text();
    let line = format!("crossload_quota_used_bytes{{vo=\"atlas\",path=\"/data/atlas\"}} {left}");
    assert!(metrics.contains(&line), "{metrics}");
}

#[test]
fn what_comes_with_a_capability_belongs_to_whom_it_was_given_for() {
    let test = "what_comes_with_a_capability_belongs_to_whom_it_was_given_for";
    let reason = || testkit::Error::Missing("acting as other users needs root".to_owned());
    if available(test, testkit::is_superuser().then_some(()).ok_or_else(reason)).is_none() {
        return;
    }
    let Some((lab, server)) = alone(test, |options| {
        options.exports[0].anonymous = testkit::Access::None;
        options.more = format!(
            "{}[hand_over]\nreads = true\nwrites = true\nminimum_bytes = 1\n",
            rules()
        );
    }) else {
        return;
    };
    mode(server.data(), 0o777);
    std::fs::create_dir(server.data().join("atlas")).expect("a directory");
    mode(&server.data().join("atlas"), 0o777);
    let ask = |name: &str, size: usize| {
        let file = lab.file(&bytes(size, 3));
        let url = server.url(&format!("/data/{name}"));
        let waits = ["-H", "Expect: 100-continue", "-T", file.to_str().expect("plain path")];
        let asked = from(&lab, ATLAS, &[&waits[..], &[&url]].concat());
        let place = asked.header("Location").map(str::to_owned);
        (
            asked,
            place.map(|place| from(&lab, ATLAS, &[&waits[..], &[&place]].concat())),
        )
    };
    let (asked, stored) = ask("atlas/handed-over", QUOTA / 2);
    asked.expect(307);
    stored.expect("a redirect").expect(201);
    assert_eq!(owner(&server, "atlas/handed-over"), ATLAS_USER.1);
    // The quota of the VO counts it, and is asked again for what comes with a capability.
    let (asked, stored) = ask("atlas/too-much", QUOTA / 2 + 1);
    let refused = match stored {
        Some(refused) => refused,
        None => asked,
    };
    assert!(
        refused.expect(507).text().contains("atlas"),
        "the quota that is full is named"
    );
    assert!(!server.data().join("atlas/too-much").exists());
}
