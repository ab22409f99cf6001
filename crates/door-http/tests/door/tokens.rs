//! Macaroons: requested in both forms, used, and refused.

use credentials::MacaroonKey;
use identity::{Authenticator, ClearText, Sources};
use policy::AnonymousAccess;
use serde_json::Value;
use storage::Memory;

use crate::harness::{Answer, Server, closed, export, head_text, memory};

/// The same files twice: open, to request macaroons, and closed except for macaroons.
async fn server() -> Server {
    let disk: Memory = memory();
    let server = Server::start(vec![export("/data", AnonymousAccess::Write, disk)], |_| {}).await;
    server.put("/data/f", b"abc").await;
    server
}

/// From now on only macaroons help.
fn close(server: &Server) {
    let old = server.exports.current();
    let mut closed = old.list().to_vec();
    closed[0].rules.anonymous = AnonymousAccess::None;
    server.exports.replace(endpoint::Exports::new(closed));
}

async fn ask_json(server: &Server, path: &str, body: &str) -> Answer {
    let head = format!("POST {path}\nContent-Type: application/macaroon-request\n");
    server.ask(&head, body.as_bytes()).await
}

fn member(answer: &Answer, name: &str) -> String {
    let value: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"));
    value[name].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

async fn step(server: &Server, line: &str, token: &str) -> Answer {
    let body: &[u8] = if line.starts_with("PUT") { b"new" } else { b"" };
    server
        .ask(&format!("{line}\nauthorization: bEARER {token}\n"), body)
        .await
}

#[tokio::test]
async fn a_macaroon_opens_what_it_names_and_nothing_else() {
    let server = server().await;
    let body = r#"{"caveats": ["activity:DOWNLOAD,LIST"], "validity": "PT30M"}"#;
    let answer = ask_json(&server, "/data/f", body).await;
    assert_eq!((answer.status, answer.header("Cache-Control")), (200, Some("no-store")));
    let token = member(&answer, "macaroon");
    close(&server);
    assert_eq!(server.ask("GET /data/f\n", b"").await.status, 401);
    assert_eq!(step(&server, "GET /data/f", &token).await.body, b"abc");
    assert_eq!(step(&server, "HEAD /data/f", &token).await.status, 200);
    let twice = format!("GET /data/f\nAuthorization: Bearer {token}\nAuthorization: Bearer {token}\n");
    assert_eq!(server.ask(&twice, b"").await.body, b"abc");
    let refused = step(&server, "PUT /data/f", &token).await;
    assert_eq!(refused.status, 403);
    assert!(
        refused
            .header("WWW-Authenticate")
            .unwrap()
            .contains("insufficient_scope")
    );
    assert_eq!(step(&server, "GET /data/f2", &token).await.status, 403);
    assert_eq!(step(&server, "DELETE /data/f", &token).await.status, 403);
    let in_query = server.ask(&format!("GET /data/f?authz=Bearer%20{token}\n"), b"").await;
    assert_eq!(in_query.status, 200);
    let record = server.log.request("POST").await;
    assert!(record.issued_token_id.is_some());
}

#[tokio::test]
async fn a_macaroon_for_a_file_that_is_not_there_yet_lets_it_come_and_go() {
    let server = server().await;
    let body = r#"{"caveats": ["activity:UPLOAD,DELETE,LIST,DOWNLOAD"], "validity": "PT30M"}"#;
    let token = member(&ask_json(&server, "/data/new/n", body).await, "macaroon");
    close(&server);
    assert_eq!(step(&server, "MKCOL /data/new", &token).await.status, 201);
    assert_eq!(step(&server, "PUT /data/new/n", &token).await.status, 201);
    assert_eq!(step(&server, "PUT /data/new/n", &token).await.status, 204);
    assert_eq!(step(&server, "DELETE /data/new/n", &token).await.status, 204);
    assert_eq!(step(&server, "PUT /data/other", &token).await.status, 403);
}

#[tokio::test]
async fn the_right_to_create_replaces_nothing_that_came_meanwhile() {
    let server = server().await;
    let body = r#"{"caveats": ["activity:UPLOAD"]}"#;
    let token = member(&ask_json(&server, "/data/n", body).await, "macaroon");
    close(&server);
    let mut slow = server.connect().await;
    let head = format!("PUT /data/n\nContent-Length: 3\nExpect: 100-continue\nAuthorization: Bearer {token}\n");
    slow.send(crate::harness::head_text(&head, None)).await;
    assert_eq!(slow.head().await.status, 100);
    assert_eq!(step(&server, "PUT /data/n", &token).await.status, 201);
    slow.send("old").await;
    assert_eq!(slow.answer(false).await.status, 412);
    assert_eq!(step(&server, "HEAD /data/n", &token).await.status, 200);
    let (exports, path) = (server.exports.current(), types::LogicalPath::parse("/n").unwrap());
    let kept = exports.list()[0].store.stored_checksums(&path);
    assert_eq!(kept.await.unwrap(), [types::Checksum::adler32(0x028e_014b)]);
}

#[tokio::test]
async fn the_limit_on_uploads_holds_for_chunks_too() {
    let server = server().await;
    let body = r#"{"caveats": ["activity:UPLOAD", "max-upload:2"]}"#;
    let token = member(&ask_json(&server, "/data/n", body).await, "macaroon");
    close(&server);
    assert_eq!(step(&server, "PUT /data/n", &token).await.status, 403);
    let mut client = server.connect().await;
    let head = format!("PUT /data/n\nTransfer-Encoding: chunked\nAuthorization: Bearer {token}\n");
    client.send(crate::harness::head_text(&head, None)).await;
    client.send("3\r\nabc\r\n0\r\n\r\n").await;
    assert_eq!(client.answer(false).await.status, 413);
}

#[tokio::test]
async fn the_other_form_is_found_by_its_metadata() {
    let server = server().await;
    let found = server
        .ask("GET /.well-known/oauth-authorization-server\nHost: se:1\n", b"")
        .await;
    assert_eq!(member(&found, "token_endpoint"), "http://se:1/.oauth2/token");
    for key in ["scope", "scopes"] {
        let form = format!("grant_type=client_credentials&expire_in=60&{key}=DOWNLOAD%3A%2Fdata%2Ff+LIST:/data/f");
        let head = "POST /.oauth2/token\nContent-Type: application/x-www-form-urlencoded\n";
        let answer = server.ask(head, form.as_bytes()).await;
        let token = member(&answer, "access_token");
        assert_eq!(step(&server, "GET /data/f", &token).await.status, 200);
    }
}

#[tokio::test]
async fn nobody_hands_on_more_than_he_has() {
    let server = server().await;
    let reading = r#"{"caveats": ["activity:DOWNLOAD"]}"#;
    let token = member(&ask_json(&server, "/data/f", reading).await, "macaroon");
    close(&server);
    assert_eq!(ask_json(&server, "/data/f", reading).await.status, 401);
    let head = format!("POST /data/f\nContent-Type: application/macaroon-request\nAuthorization: Bearer {token}\n");
    let more = server.ask(&head, br#"{"caveats": ["activity:DELETE"]}"#).await;
    assert_eq!(more.status, 403);
    let same = server.ask(&head, reading.as_bytes()).await;
    assert_eq!(
        step(&server, "GET /data/f", &member(&same, "macaroon")).await.status,
        200
    );
    let too_long = format!(
        "{{\"caveats\": [\"activity:DOWNLOAD\"], \"x\": \"{}\"}}",
        "y".repeat(5000)
    );
    assert_eq!(server.ask(&head, too_long.as_bytes()).await.status, 413);
}

#[tokio::test]
async fn a_copy_within_the_server_needs_the_rights_of_both_sides() {
    let server = server().await;
    let read = member(
        &ask_json(&server, "/data/f", r#"{"caveats":["activity:DOWNLOAD"]}"#).await,
        "macaroon",
    );
    let write = member(
        &ask_json(&server, "/data/n", r#"{"caveats":["activity:UPLOAD"]}"#).await,
        "macaroon",
    );
    close(&server);
    let source = server.url("/data/f");
    let pull = |own: &str, handed: &str| {
        format!(
            "COPY /data/n\nHost: {}\nSource: {source}\nAuthorization: Bearer {own}\nTransferHeaderAuthorization: bearer {handed}\n",
            server.address
        )
    };
    assert_eq!(server.ask(&pull(&write, &write), b"").await.status, 403);
    assert_eq!(server.ask(&pull(&read, &read), b"").await.status, 403);
    assert_eq!(server.ask(&pull(&write, &read), b"").await.status, 201);
}

#[tokio::test]
async fn the_limit_on_uploads_holds_for_copies_too() {
    let (here, there) = (server().await, Server::open().await);
    there.put("/data/long", b"more than two bytes").await;
    there.put("/data/short", b"ab").await;
    let body = r#"{"caveats": ["activity:UPLOAD,DELETE", "max-upload:2"]}"#;
    let token = member(&ask_json(&here, "/data/n", body).await, "macaroon");
    close(&here);
    for (name, status) in [("long", 403), ("short", 202)] {
        let source = there.url(&format!("/data/{name}"));
        let answer = step(&here, &format!("COPY /data/n\nSource: {source}"), &token).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

#[tokio::test]
async fn without_a_secret_it_is_said_which_line_is_missing() {
    let exports = vec![export("/data", AnonymousAccess::Write, memory())];
    let server = Server::start(exports, |settings| settings.macaroons = None).await;
    let form = "POST /.oauth2/token\nContent-Type: application/x-www-form-urlencoded\n";
    for answer in [
        ask_json(&server, "/data/f", "{}").await,
        server.ask(form, b"grant_type=client_credentials").await,
    ] {
        let text = answer.text();
        assert_eq!(answer.status, 501, "{text}");
        let first = "The server issues no macaroons (macaroons.secret_file is not set)";
        assert!(text.contains(first) && text.contains("[no_macaroons]"), "{text}");
        assert!(text.contains("ask its administrator for macaroons"), "{text}");
    }
}

/// A server that accepts no token in clear text; the file on it is public.
async fn strict() -> Server {
    let server = Server::start(vec![export("/data", AnonymousAccess::Write, memory())], |settings| {
        settings.site.authenticator = Authenticator::new(Sources {
            macaroon_keys: vec![MacaroonKey::new(crate::harness::SECRET)],
            clear_text: ClearText::Never,
            ..Sources::default()
        });
    })
    .await;
    server.put("/data/f", b"abc").await;
    server
}

#[tokio::test]
async fn no_token_is_taken_in_clear_text_where_that_is_not_wanted() {
    let server = strict().await;
    let token = crate::harness::macaroon("activity:DOWNLOAD");
    let refused = |answer: &Answer| {
        let body = String::from_utf8_lossy(&answer.body);
        assert!(answer.status == 403 && body.contains("[tls_required]"), "{answer:?}");
    };
    for line in [
        "GET /data/f",
        "HEAD /data/f",
        "PUT /data/f",
        "DELETE /data/f",
        "PROPFIND /data/f\nDepth: 0",
    ] {
        let answer = step(&server, line, &token).await;
        assert_eq!(answer.status, 403, "{line}");
    }
    refused(&step(&server, "GET /data/f", &token).await);
    refused(&step(&server, "GET /data/f", "not-even-a-token").await);
    refused(&server.ask(&format!("GET /data/f?authz=Bearer%20{token}\n"), b"").await);
    // Twice on one connection: the first answer is not remembered as a credential.
    let mut raw = server.connect().await;
    let head = format!("GET /data/f\nAuthorization: Bearer {token}\n");
    refused(&raw.ask(&head, b"").await);
    refused(&raw.ask(&head, b"").await);
    assert_eq!(
        raw.ask("GET /data/f\n", b"").await.body,
        b"abc",
        "who shows none is served"
    );
    refused(&ask_json(&server, "/data/f", r#"{"caveats": ["activity:DOWNLOAD"]}"#).await);
    let form = "POST /.oauth2/token\nContent-Type: application/x-www-form-urlencoded\n";
    refused(
        &server
            .ask(form, b"grant_type=client_credentials&scope=DOWNLOAD:/data/f")
            .await,
    );
    assert_eq!(server.log.request("POST").await.issued_token_id, None);
}

#[tokio::test]
async fn what_is_handed_over_for_the_other_side_stays_out_of_clear_text_too() {
    let (server, other) = (strict().await, server().await);
    let token = crate::harness::macaroon("activity:DOWNLOAD");
    let copy = |more: &str| format!("COPY /data/copy\nSource: {}\n{more}", other.url("/data/f"));
    for header in [
        "TransferHeaderAuthorization: Bearer",
        "Copy-Header: Authorization: Bearer",
        "TransferHeaderX-Api-Key:",
    ] {
        let answer = server.ask(&copy(&format!("{header} {token}\n")), b"").await;
        let body = String::from_utf8_lossy(&answer.body);
        assert!(
            answer.status == 403 && body.contains("[tls_required]"),
            "{header} {answer:?}"
        );
    }
    assert_eq!(server.ask(&copy(""), b"").await.last_line(), "success: Created");
}

#[tokio::test]
async fn a_body_without_length_that_grows_above_the_limit_leaves_the_old_file() {
    let server = server().await;
    let body = r#"{"caveats":["activity:UPLOAD,MANAGE","max-upload:4"],"validity":"PT1H"}"#;
    let token = member(&ask_json(&server, "/data/f", body).await, "macaroon");
    close(&server);
    let mut client = server.connect().await;
    let head = format!("PUT /data/f\nTransfer-Encoding: chunked\nAuthorization: Bearer {token}\n");
    client.send(head_text(&head, None)).await;
    client.send("3\r\nnew\r\n7\r\n longer\r\n0\r\n\r\n").await;
    assert_eq!(client.answer(false).await.status, 413);
    server.exports.replace(endpoint::Exports::new(vec![open(&server)]));
    assert_eq!(server.ask("GET /data/f\n", b"").await.body, b"abc");
}

/// The export as it was before [`close`].
fn open(server: &Server) -> endpoint::Export {
    let mut open = server.exports.current().list()[0].clone();
    open.rules.anonymous = AnonymousAccess::Write;
    open
}

#[tokio::test]
async fn a_macaroon_keeps_what_its_requester_may_do_and_says_what_it_lacks() {
    let server = server().await;
    server.put("/data/closed/f", b"secret").await;
    let mut list = server.exports.current().list().to_vec();
    list[0].rules.anonymous = AnonymousAccess::Read;
    let rule = closed("/data/closed");
    server.exports.replace(endpoint::Exports::with_rules(list, vec![rule]));
    let answer = ask_json(&server, "/data", r#"{"caveats":["activity:DOWNLOAD,UPLOAD"]}"#).await;
    assert_eq!(
        (answer.status, member(&answer, "activities").as_str()),
        (200, "DOWNLOAD")
    );
    assert!(member(&answer, "note").starts_with("UPLOAD was asked for and is not given"));
    let token = member(&answer, "macaroon");
    let form = "grant_type=client_credentials&scope=DOWNLOAD:/data+UPLOAD:/data";
    let head = "POST /.oauth2/token\nContent-Type: application/x-www-form-urlencoded\n";
    let answer = server.ask(head, form.as_bytes()).await;
    assert_eq!(member(&answer, "scope"), "DOWNLOAD:/data");
    let none = ask_json(&server, "/data", r#"{"caveats":["activity:UPLOAD,DELETE"]}"#).await;
    assert_eq!(none.status, 401);
    assert!(
        none.text().contains("rights asked for (UPLOAD,DELETE)"),
        "{}",
        none.text()
    );
    // The rule that closed it is gone; the client had no right there all the same.
    close(&server);
    assert_eq!(step(&server, "GET /data/f", &token).await.status, 200);
    for (line, words) in [
        ("GET /data/closed/f", "requester did not have here"),
        ("HEAD /data/closed/f", ""),
        ("PUT /data/new", "UPLOAD was requested but not granted"),
    ] {
        let answer = step(&server, line, &token).await;
        assert_eq!(answer.status, 403, "{line}");
        assert!(answer.text().contains(words), "{}", answer.text());
    }
}
