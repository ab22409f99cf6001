//! Third-party copies ordered by curl: markers, last lines, headers, macaroons, and the probes of
//! the smoke test that sites are measured with.

use std::sync::{Arc, Weak};

use conformance::{
    Answer, Lab, Site, Slot, Twins, adler32, base64_of, bytes, last_line, macaroon, oauth_macaroon, parts, shared,
};
use testkit::{Result, available};

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::start("copies", "curl"))
}

/// Demands the form that davix, gfal2 and the smoke test read: blocks of markers, short lines, the
/// outcome last.
#[track_caller]
fn assert_markers(answer: &Answer) {
    let text = answer.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.first(), Some(&"Perf Marker"), "{text}");
    assert!(lines.iter().all(|line| line.len() < 1023), "{text}");
    for key in [
        "Timestamp: ",
        "Stripe Index: 0",
        "Stripe Bytes Transferred: ",
        "Total Stripe Count: 1",
        "End",
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(key)),
            "{key} is missing in\n{text}"
        );
    }
    assert_eq!(last_line(answer), "success: Created", "{text}");
}

#[test]
fn pull_and_push_move_the_file_and_tell_of_it() {
    let Some(site) = available("pull_and_push_move_the_file_and_tell_of_it", site()) else {
        return;
    };
    let (lab, first, second) = (&site.lab, &site.first, &site.second);
    let content = bytes(20 << 20, 21);
    let source = first.put("source/twenty", &content);
    let accepted = second.either(202, 201);
    for (name, source) in [("tls", source.clone()), ("clear", first.clear_url("source/twenty"))] {
        let name = format!("pulled/{name}");
        let answer = lab.copy(
            &second.target(&name),
            &format!("Source: {source}"),
            &["Credential: none"],
        );
        let answer = answer.expect(accepted);
        assert_markers(&answer);
        assert!(second.stored(&name) == Some(content.clone()));
        if second.is_ours() {
            assert_eq!(answer.header("Content-Type"), Some("text/perf-marker-stream"));
            assert!(
                answer
                    .text()
                    .contains(&format!("Stripe Bytes Transferred: {}\n", content.len()))
            );
            assert!(answer.text().contains("RemoteConnections: tcp:"), "{}", answer.text());
        }
    }
    for (name, to) in [
        ("tls", second.target("pushed/tls")),
        ("clear", second.clear_url("pushed/clear")),
    ] {
        let answer = lab.copy(&source, &format!("Destination: {to}"), &["X-Number-Of-Streams: 0"]);
        assert_markers(&answer.expect(accepted));
        assert!(second.stored(&format!("pushed/{name}")) == Some(content.clone()));
    }
}

#[test]
fn schemes_streams_and_sizes() {
    let Some(site) = available("schemes_streams_and_sizes", site()) else {
        return;
    };
    let (lab, first, second) = (&site.lab, &site.first, &site.second);
    for (index, size) in [0, 1, 40 << 20].into_iter().enumerate() {
        let content = bytes(size, 22);
        let name = format!("sized/{index}");
        first.put(&name, &content);
        // XRootD 5.5 cannot pull nothing over several connections.
        let streams = if size == 0 { second.either(4, 1) } else { 4 };
        let streams = format!("X-Number-Of-Streams: {streams}");
        let copied = lab.copy(
            &second.target(&name),
            &format!("Source: {}?copy_mode=pull", first.davs(&name)),
            &[&streams, "Secure-Redirection: 1", "TE: trailers"],
        );
        assert!(last_line(&copied).starts_with("success"), "{}", copied.text());
        assert!(second.stored(&name) == Some(content), "{size}");
    }
}

#[test]
fn what_cannot_be_copied_is_refused_before_it_begins() {
    let Some(site) = available("what_cannot_be_copied_is_refused", site()) else {
        return;
    };
    let (lab, first, second) = (&site.lab, &site.first, &site.second);
    let source = format!("Source: {}", first.put("refused/source", b"new"));
    let target = second.put("refused/target", b"old");
    let fresh = second.url("refused/fresh");
    lab.copy(&fresh, "X-Nothing: x", &[]).expect(400);
    lab.copy(&fresh, &source, &["Credential: gridsite"]).expect(400);
    lab.copy(&target, &source, &["Overwrite: F"]).expect(412);
    lab.copy(&fresh, &source, &["X-Number-Of-Streams: 101"])
        .expect(second.either(400, 500));
    if second.is_ours() {
        lab.copy(&fresh, "Source: ftp://localhost/x", &[]).expect(400);
        lab.copy(&fresh, &source, &[&format!("Destination: {}", first.url("x"))])
            .expect(400);
        lab.copy(&fresh, &source, &["X-Number-Of-Streams: many"]).expect(400);
        let missing = lab
            .copy(&fresh, &format!("Source: {}", first.url("refused/none")), &[])
            .expect(404);
        assert!(last_line(&missing).starts_with("failure: "), "{}", missing.text());
        assert!(
            missing.text().contains("No such file or directory"),
            "{}",
            missing.text()
        );
    }
    let pushed = format!("Destination: {}", first.url("refused/pushed"));
    lab.copy(&second.url("refused/none"), &pushed, &[])
        .expect(second.either(404, 400));
    assert_eq!(second.stored("refused/target").as_deref(), Some(&b"old"[..]));
    assert_eq!(second.stored("refused/fresh"), None);
    assert_eq!(first.stored("refused/pushed"), None);
}

#[test]
fn checksums_of_both_sides_are_compared() {
    let Some(site) = available("checksums_of_both_sides_are_compared", site()) else {
        return;
    };
    let (lab, first, second) = (&site.lab, &site.first, &site.second);
    if !second.is_ours() {
        return;
    }
    let content = bytes(2 << 20, 23);
    let source = format!("Source: {}", first.put("sums/source", &content));
    let target = second.url("sums/target");
    let required = lab.copy(&target, &source, &["RequireChecksumVerification: true"]);
    assert_eq!(last_line(&required), "success: Created", "{}", required.text());
    // What the client expects the source to be is asked before anything is written.
    let right = format!("Repr-Digest: adler=:{}:", base64_of(&adler32(&content).to_be_bytes()));
    let wrong = format!("Repr-Digest: adler=:{}:", base64_of(&[1, 2, 3, 4]));
    lab.copy(&second.url("sums/wrong"), &source, &[&wrong]).expect(412);
    assert_eq!(second.stored("sums/wrong"), None);
    let expected = lab.copy(&second.url("sums/right"), &source, &[&right]);
    assert_eq!(last_line(&expected), "success: Created", "{}", expected.text());
    assert!(second.stored("sums/right") == Some(content));
}

#[test]
fn macaroons_of_both_forms_open_what_they_name_and_nothing_else() {
    let test = "macaroons_of_both_forms_open_what_they_name_and_nothing_else";
    let Some(lab) = available(test, Lab::new("macaroons")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "twins")) else {
        return;
    };
    let server = &twins.guarded;
    twins.open.put("dir/file", b"content");
    let url = server.url("dir/file");
    lab.curl(&[&url]).expect(401);
    let read = twins.macaroon(&lab, "dir", "DOWNLOAD,LIST");
    let endpoint = twins.open.url("").replace("/data/", "/.oauth2/token");
    let oauth = [
        oauth_macaroon(&lab, &endpoint, "scope", "DOWNLOAD:/data/dir LIST:/data/dir"),
        oauth_macaroon(&lab, &endpoint, "scopes", "DOWNLOAD:/data/dir LIST:/data/dir"),
    ];
    for token in oauth.iter().chain([&read]) {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let header = format!("Authorization: {scheme} {token}");
            assert_eq!(lab.curl(&["-H", &header, &url]).expect(200).text(), "content");
        }
        let header = format!("Authorization: Bearer {token}");
        assert_eq!(
            lab.curl(&[&format!("{url}?authz=Bearer%20{token}")]).expect(200).text(),
            "content"
        );
        lab.request("PROPFIND", &server.url("dir"), &["Depth: 1", &header])
            .expect(207);
        lab.upload(&server.url("dir/new"), b"x", &[&header]).expect(403);
        lab.request("DELETE", &url, &[&header]).expect(403);
        lab.curl(&["-H", &header, &server.url("other")]).expect(403);
        lab.curl(&["-H", &header, &server.url("dir/../other"), "--path-as-is"])
            .expect(400);
    }
    let (kept, signature) = read.split_at(read.len() - 8);
    let other = if signature.starts_with('A') { "B" } else { "A" };
    let forged = format!("{kept}{other}{}", &signature[1..]);
    lab.curl(&["-H", &format!("Authorization: Bearer {forged}"), &url])
        .expect(401);
    let found = lab.curl(&[&twins
        .open
        .url("")
        .replace("/data/", "/.well-known/oauth-authorization-server")]);
    assert!(found.expect(200).text().contains(&endpoint));
    // A macaroon for a name allows its parents to be made, as gfal-copy -p needs it.
    let write = twins.macaroon(&lab, "new/deep/file", "UPLOAD,DELETE");
    let header = format!("Authorization: Bearer {write}");
    lab.request("MKCOL", &server.url("new"), &[&header]).expect(201);
    lab.upload(&server.url("new/deep/file"), b"x", &[&header]).expect(201);
    lab.request("DELETE", &server.url("new/deep/file"), &[&header])
        .expect(204);
}

#[test]
fn a_macaroon_is_narrowed_by_whoever_holds_it() {
    let test = "a_macaroon_is_narrowed_by_whoever_holds_it";
    let Some(lab) = available(test, Lab::new("narrow")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "narrow")) else {
        return;
    };
    twins.open.put("dir/file", b"content");
    let wide = twins.macaroon(&lab, "dir", "DOWNLOAD,UPLOAD,DELETE,LIST");
    let header = format!("Authorization: Bearer {wide}");
    let narrow = macaroon(
        &lab,
        &twins.guarded.url("dir/file"),
        &["activity:DOWNLOAD,MANAGE"],
        &[&header],
    );
    let header = format!("Authorization: bearer {narrow}");
    lab.curl(&["-H", &header, &twins.guarded.url("dir/file")]).expect(200);
    lab.request("DELETE", &twins.guarded.url("dir/file"), &[&header])
        .expect(403);
    lab.curl(&["-H", &header, &twins.guarded.url("dir/other")]).expect(403);
}

/// The 28 probes of the smoke test, with the shapes of its requests. Where it uses an X.509 proxy,
/// this uses a wide macaroon and `Credential: none`; where it uses a token, the macaroon of probe
/// 8.
#[test]
fn all_probes_of_the_smoke_test_pass() {
    let test = "all_probes_of_the_smoke_test_pass";
    let Some(lab) = available(test, Lab::new("smoke")) else {
        return;
    };
    let Some(twins) = available(test, Twins::start(&lab, "smoke")) else {
        return;
    };
    let Some(third) = available(test, Twins::start(&lab, "third")) else {
        return;
    };
    let public = third.open.put("public", &bytes(1 << 20, 24));
    let private = third.guarded.url("private");
    third.open.put("private", &bytes(1 << 20, 25));
    let wide = format!(
        "Authorization: Bearer {}",
        twins.macaroon(&lab, "", "DOWNLOAD,UPLOAD,DELETE,LIST,MANAGE,READ_METADATA")
    );
    let user = [wide.as_str(), "X-No-Delegate: true", "Credential: none"];
    let url = twins.guarded.url("smoke-test-localhost-1");
    let content = bytes(1_234_376, 26);
    let mut probes = 0;
    let mut passed = |answer: Answer| {
        probes += 1;
        assert!(
            (200..300).contains(&answer.status),
            "probe {probes}: {}\n{}",
            answer.heads,
            answer.text()
        );
        answer
    };
    let digest = |answer: &Answer, forms: &[&str]| {
        let value = answer.header("Digest").unwrap_or_default();
        assert!(forms.iter().any(|form| value.starts_with(form)), "{}", answer.heads);
    };
    let with = |base: &[&str], more: &[&str]| -> Vec<String> {
        base.iter().chain(more).map(|header| (*header).to_owned()).collect()
    };
    let ask = |method: &str, headers: &[String]| {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        lab.request(method, &url, &headers)
    };
    let both = &["adler32=", "md5="];
    // 1 to 7: store, read, the digest in all ways of asking, remove.
    passed(lab.upload(&url, &content, &user));
    assert!(passed(ask("GET", &with(&user, &[]))).body == content);
    digest(
        &passed(ask("HEAD", &with(&user, &["Want-Digest: adler32"]))),
        &["adler32="],
    );
    digest(&passed(ask("HEAD", &with(&user, &["Want-Digest: adler32,md5"]))), both);
    digest(
        &passed(ask("GET", &with(&user, &["Want-Digest: adler32"]))),
        &["adler32="],
    );
    digest(&passed(ask("GET", &with(&user, &["Want-Digest: adler32,md5"]))), both);
    passed(ask("DELETE", &with(&user, &[])));
    // 8: a macaroon for a file that does not exist.
    let token = macaroon(&lab, &url, &["activity:DOWNLOAD,UPLOAD,DELETE,LIST"], &user);
    let token = format!("Authorization: Bearer {token}");
    let token = [token.as_str(), "X-No-Delegate: true"];
    // 9 to 12: the same with it.
    passed(lab.upload(&url, &content, &token));
    assert!(passed(ask("GET", &with(&token, &[]))).body == content);
    digest(
        &passed(ask("HEAD", &with(&token, &["Want-Digest: adler32"]))),
        &["adler32="],
    );
    passed(ask("DELETE", &with(&token, &[])));
    // 13 to 21: pulls of what is public, and of what is private with a macaroon of the third party,
    // written as the smoke test writes it.
    let guest = format!(
        "TransferHeaderAuthorization: bearer {}",
        third.macaroon(&lab, "private", "DOWNLOAD")
    );
    for (source, guest) in [(&public, "X-Guest: none"), (&private, guest.as_str())] {
        for credential in [&user[..], &token[..]] {
            let source = format!("Source: {source}");
            let answer = passed(ask("COPY", &with(credential, &[&source, guest])));
            assert!(last_line(&answer).starts_with("success"), "{}", answer.text());
            passed(ask("DELETE", &with(credential, &[])));
        }
    }
    // 22 to 28: pushes.
    passed(lab.upload(&url, &content, &user));
    let pushed = "smoke-test-push-1";
    let guest = third.macaroon(&lab, pushed, "UPLOAD,DELETE");
    let (guest, own) = (
        format!("TransferHeaderAuthorization: bearer {guest}"),
        format!("Authorization: Bearer {guest}"),
    );
    let destination = format!("Destination: {}", third.guarded.url(pushed));
    for credential in [&user[..], &token[..]] {
        let answer = passed(ask("COPY", &with(credential, &[&destination, &guest])));
        assert!(last_line(&answer).starts_with("success"), "{}", answer.text());
        assert!(third.open.stored(pushed) == Some(content.clone()));
        passed(lab.request("DELETE", &third.guarded.url(pushed), &[&own]));
    }
    passed(ask("DELETE", &with(&token, &[])));
    assert!(parts(twins.open.data()).is_empty() && parts(third.open.data()).is_empty());
}
